"""People sign in by an identity provider, which runs; whatever it does, nobody gets more than it vouches for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session as SignIn
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from adkweb import environment
from sessions_app.access import identities, oidc, roles, sign_in
from sessions_app.access.actor import TERMINAL
from sessions_app.access.audit import refusals
from sessions_app.access.roles import Role
from sessions_app.domain import roles as domain
from sessions_app.models import AuditRow
from tests.support.people import somebody
from tests.support.provider import Claims, Provider, running
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = [
    pytest.mark.django_db,
    # The provider's own library warns about itself.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:authlib.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:oidc_provider_mock.*"),
]

PASSWORD: Final = "correct horse battery staple"
HOSTILE: Final = "<script>alert(1)</script>"
CALLBACK: Final = "/sign-in/provider/callback/"
ROLES: Final = [("support", "viewer", "booking*"), ("admins", "admin", "*")]
USERS: Final[dict[str, Claims]] = {
    "1": {"preferred_username": "ana", "groups": ["support", "football", "Support"]},
    "2": {"preferred_username": "ben", "groups": ["football"]},
    "3": {"preferred_username": "cleo", "groups": ["admins"], "email": "ana@example.com", "email_verified": True},
    "4": {"preferred_username": HOSTILE, "groups": ["support"]},
    "5": {"preferred_username": "terminal", "groups": ["admins"]},
}


@pytest.fixture
def provider(settings: Settings, client: Client) -> Iterator[Provider]:
    """An identity provider that runs, and that adkweb's environment names."""
    with running(USERS) as provider:
        settings.OIDC_ISSUER, settings.OIDC_NAME = provider.issuer, "Our company"
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = "adkweb", "secret"
        settings.OIDC_ROLES = list(ROLES)
        refusals.known.clear()
        yield provider


def back(browser: Browser, provider: Provider, subject: str = "1", page: str = "/") -> str:
    """Where a browser comes back to, after it was sent to the provider and let in there."""
    sent = browser.get("/sign-in/provider/", {"next": page})
    assert sent.status_code == 302, sent.content.decode()
    return provider.lets_in(sent["Location"], subject)


def signs_in(provider: Provider, subject: str = "1", browser: Browser | None = None) -> tuple[Browser, Any]:
    """A browser after a sign-in, and the last answer."""
    browser = browser or Browser()
    return browser, browser.get(back(browser, provider, subject))


def link(page: Element) -> Element:
    """The link that leads to the provider."""
    (link,) = [each for each in page.all("a") if each["href"].startswith("/sign-in/provider/")]
    assert link.text in ("Sign in with Our company", "Connect with Our company")
    return link


def who(browser: Browser) -> str:
    """Who is signed in."""
    number = browser.session.get("_auth_user_id")
    return User.objects.get(pk=number).username if number else ""


def groups_of(name: str) -> list[str]:
    return sorted(User.objects.get(username=name).groups.values_list("name", flat=True))


def refused(answer: HttpResponse, status: int = 403) -> str:
    """The sentence of a refusal."""
    assert answer.status_code == status, answer.content.decode()
    page = page_of(answer)
    assert page.one("h1").text == "You are not signed in"
    return str(page.one(role="alert").text)


# --- Who gets in, and what they may do ------------------------------------------------------------------------------


def test_somebody_of_a_group_gets_an_account_and_its_role_and_lands_where_they_wanted_to(provider: Provider) -> None:
    browser = Browser()
    button = link(browser.open("sign-in", query={"next": "/edits/?before=x&y"}))
    sent = browser.get(button["href"])
    answer = browser.get(provider.lets_in(sent["Location"], "1"))
    assert (answer.status_code, answer["Location"]) == (302, "/edits/?before=x&y")
    assert who(browser) == "ana"
    ana = User.objects.get(username="ana")
    assert not ana.has_usable_password()
    assert groups_of("ana") == ["support"]
    actor = roles.actor_of(ana)
    assert [actor.may(right, "any", "booking-eu") for right in ("read", "append")] == [True, False]
    assert not actor.may_see("any", "weather")


def test_a_second_sign_in_is_the_same_account_whatever_its_name_has_become(provider: Provider) -> None:
    signs_in(provider)
    provider.claims = lambda claims: {**claims, "preferred_username": "ana-maria"}
    browser, _answer = signs_in(provider)
    assert who(browser) == "ana"
    assert User.objects.count() == 1


def test_the_groups_are_set_anew_at_each_sign_in_and_others_are_left_alone(provider: Provider) -> None:
    signs_in(provider)
    ana = User.objects.get(username="ana")
    ana.groups.add(Group.objects.create(name="local"))
    provider.claims = lambda claims: {**claims, "groups": ["admins"]}
    signs_in(provider)
    assert groups_of("ana") == ["admins", "local"]
    assert roles.actor_of(ana).runs_everything


@pytest.mark.parametrize("groups", [None, [], "football", {"support": True}, 7, ["SUPPORT", ["support"], None]])
def test_a_provider_that_sends_no_groups_takes_what_they_gave(provider: Provider, groups: Any) -> None:
    signs_in(provider)
    provider.claims = lambda claims: {**claims, "groups": groups}
    browser, answer = signs_in(provider)
    assert (who(browser), answer.status_code) == ("ana", 302)
    assert groups_of("ana") == []
    assert roles.actor_of(User.objects.get(username="ana")).grants == ()


def test_an_account_that_the_provider_made_gets_no_password_that_would_outlive_it(provider: Provider) -> None:
    browser, _answer = signs_in(provider)
    page = browser.open("new-password")
    assert "You sign in with Our company, so you don't have a password here." in page.text
    assert page.all("input", type="password") == []
    assert browser.send("new-password", {"password": PASSWORD}).status_code == 403
    assert not User.objects.get(username="ana").has_usable_password()
    User.objects.update(is_superuser=True)  # who must get in while the provider is away
    assert browser.send("new-password", {"password": PASSWORD}).status_code == 302


def test_what_the_provider_and_the_environment_do_is_in_the_audit(provider: Provider) -> None:
    signs_in(provider)
    signs_in(provider, "2")
    rows = AuditRow.objects.order_by("number").values_list("act", "by")
    setting = "setting ADKWEB_OIDC_ROLES"
    assert list(rows) == [
        ("role-given", setting),
        ("role-given", setting),
        ("account-made", provider.issuer),
        ("account-changed", provider.issuer),
        ("sign-in", "ana"),
        ("sign-in-failed", ""),
    ]
    assert "ben" in AuditRow.objects.latest("number").detail


def test_groups_that_a_provider_gives_and_takes_are_in_the_audit_once(provider: Provider) -> None:
    signs_in(provider)
    signs_in(provider)
    provider.claims = lambda claims: {**claims, "groups": []}
    signs_in(provider)
    changes = AuditRow.objects.filter(act="account-changed", by=provider.issuer).order_by("number")
    given, taken = (json.loads(row.detail) for row in changes)
    assert (given["name"], given["groups_added"], given["groups_taken"]) == ("ana", ["support"], [])
    assert (taken["groups_added"], taken["groups_taken"]) == ([], ["support"])


def test_a_provider_that_is_not_believed_is_in_the_audit(provider: Provider) -> None:
    browser = Browser()
    state = browser.get("/sign-in/provider/")["Location"].partition("state=")[2].partition("&")[0]
    browser.get(CALLBACK, {"state": state, "error": "server_error"})
    row = AuditRow.objects.latest("number")
    assert (row.act, row.by, json.loads(row.detail)) == ("sign-in-failed", "", {"what": "Our company"})


def test_groups_that_only_the_user_info_has_count_if_it_is_about_the_same_person(provider: Provider) -> None:
    provider.claims = lambda claims: {name: value for name, value in claims.items() if name != "groups"}
    signs_in(provider)
    assert groups_of("ana") == ["support"]
    provider.claims = lambda claims: {"sub": "9", **{n: v for n, v in claims.items() if n not in ("groups", "sub")}}
    _browser, answer = signs_in(provider)
    assert "didn't confirm who you are" in refused(answer)


def test_who_is_in_no_group_that_counts_is_refused_and_gets_no_account(provider: Provider) -> None:
    browser, answer = signs_in(provider, "2")
    assert "ben isn't in any" in refused(answer)
    assert who(browser) == ""
    assert not User.objects.exists()


def test_who_was_deactivated_stays_out_and_comes_back_with_the_groups_of_then(provider: Provider) -> None:
    signs_in(provider)
    User.objects.update(is_active=False)
    provider.claims = lambda claims: {**claims, "groups": []}
    browser, answer = signs_in(provider)
    assert "was deactivated" in refused(answer)
    assert AuditRow.objects.latest("number").act == "sign-in-failed"
    assert who(browser) == ""
    User.objects.update(is_active=True)
    assert groups_of("ana") == []


@pytest.mark.parametrize("subject", ["4", "5"])
def test_a_name_that_no_account_may_have_is_refused(provider: Provider, subject: str) -> None:
    _browser, answer = signs_in(provider, subject)
    assert answer.status_code in (400, 409)
    assert page_of(answer).one("h1").text == "You are not signed in"
    assert not User.objects.exists()


def test_another_provider_does_not_inherit_accounts(provider: Provider, settings: Settings) -> None:
    signs_in(provider)
    with running(USERS) as other:
        settings.OIDC_ISSUER = other.issuer
        browser, answer = signs_in(other)
        assert "There's already an account “ana”" in refused(answer, 409)
        assert who(browser) == ""


# --- Accounts that are there already ---------------------------------------------------------------------------------


@pytest.fixture
def ana(provider: Provider) -> User:
    """Somebody with an account and a password."""
    ana = somebody("Ana", "editor", "weather")
    ana.email = "ana@example.com"
    ana.set_password(PASSWORD)
    ana.save()
    return ana


def test_a_local_account_is_nobodys_by_its_name_or_its_address(provider: Provider, ana: User) -> None:
    browser, answer = signs_in(provider, "1")
    assert "If it's yours, sign in with its password and connect it" in refused(answer, 409)
    assert who(browser) == ""
    browser, _answer = signs_in(provider, "3")  # has the same verified address
    assert who(browser) == "cleo"
    assert groups_of("Ana") == []


def connecting(provider: Provider, ana: User) -> Browser:
    """Ana's browser, when it comes back from the provider."""
    browser = Browser()
    browser.force_login(ana)
    sent = browser.get(link(browser.open("new-password"))["href"])
    answer = browser.get(provider.lets_in(sent["Location"], "1"))
    assert "and as ana at Our company" in page_of(answer).one("main").text
    return browser


def test_who_is_signed_in_and_knows_the_password_connects_the_account(provider: Provider, ana: User) -> None:
    browser = connecting(provider, ana)
    answer = browser.send("connect-provider", {"old": "wrong"})
    assert (answer.status_code, "Wrong password." in page_of(answer).one(role="alert").text) == (400, True)
    assert browser.send("connect-provider", {"old": PASSWORD})["Location"] == "/"
    assert browser.send("connect-provider", {"old": PASSWORD}).status_code == 404
    assert "Connect with" not in browser.open("new-password").text
    other, _answer = signs_in(provider, "1")
    assert (who(other), groups_of("Ana"), User.objects.count()) == ("Ana", ["support"], 1)
    acts = AuditRow.objects.order_by("number").values_list("act", "by")
    assert list(acts.exclude(act="role-given")) == [
        ("sign-in-failed", "Ana"),
        ("account-connected", "Ana"),
        ("account-changed", provider.issuer),
        ("sign-in", "Ana"),
    ]
    actor = roles.actor_of(ana)
    assert (actor.may("append", "any", "weather"), actor.may("read", "any", "booking")) == (True, True)


def test_an_account_is_not_connected_twice(provider: Provider, ana: User) -> None:
    browser, second = connecting(provider, ana), connecting(provider, ana)
    assert browser.send("connect-provider", {"old": PASSWORD}).status_code == 302
    assert second.send("connect-provider", {"old": PASSWORD}).status_code == 409


def test_nobody_connects_without_coming_from_the_provider_or_long_after(
    provider: Provider, ana: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser()
    browser.force_login(ana)
    assert browser.send("connect-provider", {"old": PASSWORD}).status_code == 404
    browser = connecting(provider, ana)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert browser.send("connect-provider", {"old": PASSWORD}).status_code == 404
    assert not identities.is_connected(ana)


# --- A provider that is away, or lies --------------------------------------------------------------------------------


def changed(**changes: Any) -> Callable[[Claims], Claims]:
    """Says something else of these; None leaves one out."""
    return lambda claims: {name: value for name, value in {**claims, **changes}.items() if value is not None}


def stranger(claims: Claims) -> str:
    return jwt.encode(claims, rsa.generate_private_key(65537, 2048), "RS256", {"kid": "own"})


LIES: Final[dict[str, dict[str, Any]]] = {
    "a wrong signature": {"sign": stranger},
    "no signature": {"sign": lambda claims: jwt.encode(claims, None, "none", {"kid": "own"})},
    "a signature with the client's secret": {
        "sign": lambda claims: jwt.encode(claims, "secret" * 10, "HS256", {"kid": "own"})
    },
    "a key that it does not have": {"keys": lambda keys: {"keys": []}},
    "keys that are none": {"keys": lambda keys: {"keys": [7, {"kid": "own"}, {"kty": "RSA", "kid": "own"}]}},
    "a key of another kind": {"keys": lambda keys: {"keys": [{"kty": "oct", "kid": "own", "k": "c2VjcmV0"}]}},
    "keys in a list": {"keys": lambda keys: [keys]},
    "another nonce": {"claims": changed(nonce="another")},
    "no nonce": {"claims": changed(nonce=None)},
    "another audience": {"claims": changed(aud=["other"])},
    "made for another program": {"claims": changed(aud=["other", "adkweb"], azp="other")},
    "no audience": {"claims": changed(aud=None)},
    "another issuer": {"claims": changed(iss="https://evil.example")},
    "no issuer": {"claims": changed(iss=None)},
    "expired": {"claims": lambda claims: {**claims, "exp": time.time() - 90}},
    "never expires": {"claims": changed(exp=None)},
    "from the future": {"claims": lambda claims: {**claims, "iat": time.time() + 90}},
    "not valid yet": {"claims": lambda claims: {**claims, "nbf": time.time() + 90}},
    "no subject": {"claims": changed(sub=None)},
    "an empty subject": {"claims": changed(sub="")},
    "a subject that is a number": {"claims": changed(sub=1)},
    "a very long subject": {"claims": changed(sub="x" * 192)},
    "no id token": {"tokens": lambda sent: {"access_token": sent["access_token"]}},
    "an id token that is none": {"tokens": lambda sent: {**sent, "id_token": "a.b.c"}},
    "no tokens": {"tokens": lambda sent: [sent]},
    "an error instead": {"tokens": lambda sent: {"error": HOSTILE}},
}


@pytest.mark.parametrize("lie", LIES)
def test_whatever_a_provider_lies_about_nobody_is_signed_in(
    provider: Provider, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser()
    address = back(browser, provider)
    for name, way in LIES[lie].items():
        setattr(provider, name, way)
    answer = browser.get(address)
    assert "Our company didn't confirm who you are" in refused(answer)
    assert who(browser) == ""
    assert not User.objects.exists()
    assert "a sign-in by Our company failed: " in caplog.text


@pytest.mark.parametrize(
    "claims",
    [
        lambda claims: {**claims, "exp": time.time() - 45},
        lambda claims: {**claims, "iat": time.time() + 45, "nbf": time.time() + 45},
    ],
)
def test_a_clock_may_differ_by_a_minute(provider: Provider, claims: Callable[[Claims], Claims]) -> None:
    provider.claims = claims
    browser, _answer = signs_in(provider)
    assert who(browser) == "ana"


@pytest.mark.parametrize(
    "configuration",
    [
        changed(issuer="https://evil.example"),
        changed(issuer=None),
        changed(token_endpoint=None),
        changed(authorization_endpoint="javascript:alert(1)"),
        lambda config: [config],
    ],
)
def test_a_provider_that_says_it_is_another_is_not_asked(
    provider: Provider, configuration: Callable[[Claims], Claims]
) -> None:
    provider.configuration = configuration
    assert "didn't confirm who you are" in refused(Browser().get("/sign-in/provider/"))


def test_while_the_provider_is_away_the_page_says_so_and_other_ways_in_stay(provider: Provider, ana: User) -> None:
    browser = Browser()
    address = back(browser, provider)
    provider.is_away = True
    for answer in (Browser().get("/sign-in/provider/"), browser.get(address)):
        assert "Our company isn't answering." in refused(answer, 503)
        assert answer["Retry-After"] == "5"
    assert link(browser.open("sign-in"))
    assert not SignIn.objects.filter(expire_date__gt=timezone.now() + timezone.timedelta(minutes=11)).exists()


def test_doctor_asks_the_provider(provider: Provider) -> None:
    assert oidc.fault() == ""
    provider.configuration = changed(issuer="https://evil.example")
    assert "names another issuer: 'https://evil.example'" in oidc.fault()
    provider.is_away = True
    assert "502" in oidc.fault()


def test_a_machine_where_nothing_listens_is_a_provider_that_is_away(provider: Provider, settings: Settings) -> None:
    settings.OIDC_ISSUER = "http://localhost:1"
    assert "isn't answering" in refused(Browser().get("/sign-in/provider/"), 503)


# --- A browser that lies ---------------------------------------------------------------------------------------------


def test_an_answer_counts_once_and_only_in_the_browser_that_asked(provider: Provider) -> None:
    browser, thief = Browser(), Browser()
    address = back(browser, provider)
    assert "This sign-in wasn't started in this browser, or has expired" in refused(thief.get(address))
    assert browser.get(address).status_code == 302
    again = Browser()
    again.cookies = browser.cookies
    assert "This sign-in wasn't started in this browser, or has expired" in refused(again.get(address))


@pytest.mark.parametrize("query", ["", "?state=x&code=y", "?code=y", "?error=access_denied", f"?state={HOSTILE}"])
def test_an_answer_that_nobody_asked_for_is_refused(provider: Provider, query: str) -> None:
    assert "This sign-in wasn't started in this browser, or has expired" in refused(Browser().get(CALLBACK + query))


def test_a_sign_in_that_took_too_long_is_refused(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser()
    address = back(browser, provider)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert "This sign-in wasn't started in this browser, or has expired" in refused(browser.get(address))


def test_who_cancels_at_the_provider_is_told_that_nothing_happened(provider: Provider) -> None:
    browser = Browser()
    state = browser.get("/sign-in/provider/")["Location"].partition("state=")[2].partition("&")[0]
    answer = browser.get(CALLBACK, {"state": state, "error": "access_denied"})
    assert "You cancelled the sign-in." in refused(answer)
    state = browser.get("/sign-in/provider/")["Location"].partition("state=")[2].partition("&")[0]
    answer = browser.get(CALLBACK, {"state": state, "error": HOSTILE})
    assert "didn't confirm who you are" in refused(answer)


def test_nobody_is_led_to_another_server(provider: Provider) -> None:
    browser = Browser()
    assert browser.get(back(browser, provider, page="https://evil.example/"))["Location"] == "/"


def test_a_browser_that_only_began_is_forgotten_and_a_sign_in_lasts_as_any_other(
    provider: Provider, settings: Settings
) -> None:
    browser = Browser()
    address = back(browser, provider)
    (row,) = SignIn.objects.all()
    assert row.expire_date < timezone.now() + timezone.timedelta(minutes=11)
    browser.get(address)
    (row,) = SignIn.objects.all()
    assert row.expire_date > timezone.now() + timezone.timedelta(seconds=settings.IDLE_SECONDS - 60)


# --- The environment -------------------------------------------------------------------------------------------------


def test_without_a_provider_there_is_no_button_and_no_address(guest: Browser, maria: Browser) -> None:
    assert "Sign in with" not in guest.open("sign-in").text
    for address in ("/sign-in/provider/", CALLBACK):
        guest.open(address, status=404)
    assert maria.send("connect-provider", {}).status_code == 404
    assert "Connect with" not in maria.open("new-password").text


def test_other_machines_are_answered_once_there_is_a_provider(provider: Provider, settings: Settings) -> None:
    away = Browser(REMOTE_ADDR="203.0.113.7")
    assert link(away.open("sign-in"))
    settings.OIDC_ISSUER = ""
    assert not sign_in.anybody_can()
    assert away.get("/sign-in/").status_code == 403


def test_roles_are_those_that_the_environment_names_now(db: None, settings: Settings) -> None:
    settings.OIDC_ROLES = [*ROLES, ("support", "editor", "*")]
    roles.give("auditor", by=TERMINAL, group=Group.objects.create(name="admins").name)
    for _start in range(2):
        identities.keep_roles()
        assert Role.objects.count() == 4
    settings.OIDC_ROLES = [("support", "viewer", "booking*")]
    identities.keep_roles()
    assert sorted(Role.objects.values_list("group__name", "role", "apps")) == [
        ("admins", "auditor", "*"),
        ("support", "viewer", "booking*"),
    ]
    Group.objects.filter(name="support").update(name="renamed")
    identities.keep_roles()
    assert sorted(Role.objects.values_list("group__name", "role")) == [("admins", "auditor"), ("support", "viewer")]


def test_the_environment_names_groups_roles_and_apps() -> None:
    text = " support = viewer:booking* ,, admins=admin,audit=auditor:x,a b/c=editor: "
    assert environment.roles_of_groups(text) == [
        ("support", "viewer", "booking*"),
        ("admins", "admin", "*"),
        ("audit", "auditor", "*"),
        ("a b/c", "editor", "*"),
    ]
    for role in domain.ROLES:
        assert environment.roles_of_groups(f"x={role}") == [("x", role, "*")]


@pytest.mark.parametrize(
    "text", ["support", "support=", "=viewer", "support=owner", "x" * 151 + "=viewer", "a\nb=viewer"]
)
def test_roles_that_are_none_end_adkweb_with_the_reason(text: str) -> None:
    with pytest.raises(SystemExit, match="is not like support=viewer"):
        environment.roles_of_groups(text)


@pytest.mark.parametrize(
    "issuer", ["id.example.com", "http://id.example.com", "ftp://localhost", "https://x?y=1", "https://"]
)
def test_an_issuer_is_an_address_with_https(issuer: str) -> None:
    with pytest.raises(SystemExit, match="must be an address such as"):
        environment.check_provider(issuer)


def test_a_provider_without_its_other_settings_ends_adkweb_with_their_names() -> None:
    assert environment.check_provider("", ROLES=[]) == ""
    assert environment.check_provider("http://127.0.0.1:9000/realm", ROLES=ROLES) == "127.0.0.1"
    with pytest.raises(SystemExit, match="so set ADKWEB_OIDC_CLIENT_ID and ADKWEB_OIDC_ROLES, too"):
        environment.check_provider("https://id.example.com", CLIENT_ID="", CLIENT_SECRET="x", ROLES=[])
