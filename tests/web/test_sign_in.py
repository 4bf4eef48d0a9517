"""Signing in: by the printed link, once; by password where there is an account; and nothing is shown without."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.urls.resolvers import RoutePattern
from django.utils import timezone
from django.utils.translation import override
from pytest_django import Settings

from sessions_app.access import lockout, sign_in
from sessions_app.access.sign_ins import digest
from sessions_app.models import PasswordTries, SignInToken
from sessions_app.web.urls import urlpatterns
from tests.web.conftest import NAME, Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
AWAY = "203.0.113.7"
OPEN_TO_ALL = {"sign-in", "second-step", "provider-sign-in", "provider-callback", "join", "set_language"}


@pytest.fixture
def admin(person: User) -> User:
    """Somebody with a password and every right."""
    person.is_superuser = person.is_staff = True
    person.set_password(PASSWORD)
    person.save()
    return person


def example(name: str, converter: object) -> object:
    """A value that a part of an address takes."""
    return {"IntConverter": 0, "UUIDConverter": uuid4()}.get(type(converter).__name__, name)


def every_address() -> dict[str, str]:
    """An address of every page in urls.py, by name: a new page is here by itself."""
    found = {}
    for url in urlpatterns:
        assert isinstance(url.pattern, RoutePattern)
        names = {name: example(name, converter) for name, converter in url.pattern.converters.items()}
        found[str(url.name)] = reverse(str(url.name), kwargs=names)
    return found


def signed_in(browser: Browser) -> bool:
    return "_auth_user_id" in browser.session


# --- The link ---------------------------------------------------------------------------------------------------------


def test_the_link_signs_in_and_leads_home(guest: Browser) -> None:
    response = guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    assert (response.status_code, response["Location"]) == (302, "/")
    assert guest.open("home").one("h1").text == "Home"


def test_the_link_signs_in_exactly_once(guest: Browser) -> None:
    token = sign_in.sign_in_token()
    guest.get("/sign-in/", {"token": token})
    second = Browser()
    page = second.open("sign-in", query={"token": token}, status=403)
    assert "This link has expired or has already been used" in page.one(role="alert").text
    assert not signed_in(second)


def test_a_link_is_used_up_by_whoever_opens_it_first(maria: Browser, guest: Browser) -> None:
    token = sign_in.sign_in_token()
    assert maria.get("/sign-in/", {"token": token})["Location"] == "/"
    guest.get("/sign-in/", {"token": token})
    assert not signed_in(guest)


def test_a_new_start_leaves_the_link_of_another_good(guest: Browser) -> None:
    first, second = sign_in.sign_in_token(), sign_in.sign_in_token()
    for token in (second, first):
        browser = Browser()
        browser.get("/sign-in/", {"token": token})
        assert signed_in(browser)
    guest.get("/sign-in/", {"token": first})
    assert not signed_in(guest)


def test_links_that_nobody_opens_do_not_pile_up(guest: Browser) -> None:
    sign_in.sign_in_token()
    SignInToken.objects.update(created=timezone.now() - sign_in.LINK_LIFETIME - timedelta(seconds=1))
    tokens = [sign_in.sign_in_token()]
    assert SignInToken.objects.count() == 1
    tokens += [sign_in.sign_in_token() for _ in range(sign_in.LINKS)]
    assert SignInToken.objects.count() == sign_in.LINKS
    guest.get("/sign-in/", {"token": tokens[0]})
    assert not signed_in(guest)
    guest.get("/sign-in/", {"token": tokens[1]})
    assert signed_in(guest)


def test_looking_at_the_links_head_does_not_use_it_up(guest: Browser) -> None:
    token = sign_in.sign_in_token()
    guest.head("/sign-in/", {"token": token})
    guest.get("/sign-in/", {"token": token})
    assert signed_in(guest)


def test_an_expired_link_signs_nobody_in(guest: Browser) -> None:
    token = sign_in.sign_in_token()
    SignInToken.objects.update(created=timezone.now() - sign_in.LINK_LIFETIME - timedelta(seconds=1))
    page = guest.open("sign-in", query={"token": token}, status=403)
    assert "adkweb prints a new link each time it starts" in page.one(role="alert").text
    assert not signed_in(guest)


@pytest.mark.parametrize("token", ["guess", "'; --", "é\u0000", "x" * 10_000])
def test_an_unknown_link_signs_nobody_in(guest: Browser, token: str) -> None:
    sign_in.sign_in_token()
    assert (
        "expired or has already been used"
        in guest.open("sign-in", query={"token": token}, status=403).one(role="alert").text
    )
    assert not signed_in(guest)


def test_a_token_is_kept_only_as_its_hash() -> None:
    token = sign_in.sign_in_token()
    assert token not in str(list(SignInToken.objects.values()))


def test_a_link_leads_where_it_was_wanted(guest: Browser) -> None:
    query = {"token": sign_in.sign_in_token(), "next": "/edits/?before=x"}
    assert guest.get("/sign-in/", query)["Location"] == "/edits/?before=x"


ELSEWHERE = [
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "javascript:alert(1)",
    "http:///evil.example",
    "\t//x",
    "'",
    "x",
    "edits",
    "edits/",
]


@pytest.mark.parametrize("address", ELSEWHERE)
def test_nobody_is_led_to_another_server(guest: Browser, address: str) -> None:
    assert guest.get("/sign-in/", {"token": sign_in.sign_in_token(), "next": address})["Location"] == "/"
    assert guest.get("/sign-in/", {"next": address})["Location"] == "/"  # signed in by now


# --- Signed out -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("Safety", "Every page requires people to sign in.")
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_page_asks_for_sign_in(method: str) -> None:
    pages = {name: address for name, address in every_address().items() if name not in OPEN_TO_ALL}
    answers = {name: getattr(Browser(), method)(address) for name, address in pages.items()}
    led = {name: (answer.status_code, answer.get("Location")) for name, answer in answers.items()}
    assert led == {name: (302, f"/sign-in/?next={address}") for name, address in pages.items()}


def test_a_page_comes_back_after_sign_in(guest: Browser) -> None:
    wanted = guest.get("/edits/?before=abc")["Location"]
    assert guest.get(f"{wanted}&token={sign_in.sign_in_token()}")["Location"] == "/edits/?before=abc"


def test_the_language_can_be_chosen_before_sign_in(guest: Browser) -> None:
    with override("en"):  # a request leaves its language behind
        response = guest.post(reverse("set_language"), {"language": "es", "next": "/sign-in/"})
        assert response["Location"] == "/sign-in/"
        assert guest.open("sign-in").one("html")["lang"] == "es"


def test_a_page_that_does_not_exist_says_so_to_everybody(guest: Browser) -> None:
    assert guest.open("/no/such/page/", status=404).one("h1").text == "Not found"


# --- Passwords --------------------------------------------------------------------------------------------------------


def test_a_name_and_password_sign_in(guest: Browser, admin: User) -> None:
    form = guest.open("sign-in", query={"next": "/edits/"}).one("form", method="post", class_="form")
    response = guest.post("/sign-in/", {**form.fields(), "username": NAME, "password": PASSWORD})
    assert (response.status_code, response["Location"]) == (302, "/edits/")
    assert signed_in(guest)


def test_without_an_account_there_is_no_password_form_but_the_command_that_makes_one(guest: Browser) -> None:
    page = guest.open("sign-in")
    assert page.all("input", type="password") == []
    assert "adkweb createsuperuser" in page.texts("pre")


@pytest.mark.parametrize(("name", "password"), [(NAME, "wrong"), ("nobody", PASSWORD), (NAME, ""), ("", "")])
def test_a_wrong_password_keeps_the_name_and_signs_nobody_in(
    guest: Browser, admin: User, name: str, password: str
) -> None:
    response = guest.post("/sign-in/", {"username": name, "password": password, "next": "/edits/"})
    fields = page_of(response).one("form", class_="form").fields()
    assert response.status_code == 403
    assert (fields["username"], fields["password"], fields["next"]) == (name, "", "/edits/")
    assert not signed_in(guest)


def test_an_account_that_was_closed_signs_nobody_in(guest: Browser, admin: User) -> None:
    get_user_model().objects.create_superuser("other", password=PASSWORD)
    admin.is_active = False
    admin.save()
    assert guest.post("/sign-in/", {"username": NAME, "password": PASSWORD}).status_code == 403
    assert not signed_in(guest)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were hashed."""
    seen: list[str] = []
    whole = lockout.authenticate

    def authenticate(request: HttpRequest, **given: str) -> User | None:
        seen.append(given["password"])
        return whole(request, **given)

    monkeypatch.setattr(lockout, "authenticate", authenticate)
    return seen


def guess(browser: Browser, name: str = NAME, password: str = "wrong", address: str = "127.0.0.1") -> HttpResponse:
    response: HttpResponse = browser.post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address)
    return response


def test_after_a_few_wrong_passwords_no_other_is_looked_at_for_a_while(
    guest: Browser, admin: User, hashed: list[str]
) -> None:
    assert [guess(guest).status_code for _ in range(lockout.FREE)] == [403] * lockout.FREE
    refused = guess(guest, password=PASSWORD)
    assert (refused.status_code, refused["Retry-After"]) == (429, "5")
    assert "Too many wrong passwords. Try again in 5 seconds." in page_of(refused).one(role="alert").text
    assert not signed_in(guest)
    assert hashed == ["wrong"] * lockout.FREE


def test_the_pause_grows_and_ends(guest: Browser, admin: User) -> None:
    pauses = []
    for _ in range(lockout.FREE + 12):
        PasswordTries.objects.update(until=0)
        guess(guest)
        pauses.append(int(guess(guest).headers.get("Retry-After", 0)))
    expected = [0, 0, 5, 10, 20, 40, 80]  # the second try of a round counts where there is no pause
    assert all(0 <= wanted - pause <= 3 for wanted, pause in zip(expected, pauses, strict=False)), pauses
    assert pauses[-1] == lockout.LONGEST_PAUSE
    PasswordTries.objects.update(until=0)
    assert guess(guest, password=PASSWORD)["Location"] == "/"


def test_a_name_waits_wherever_it_is_guessed_from(guest: Browser, admin: User) -> None:
    """X-Forwarded-For says whatever its sender likes, where a proxy lets it pass."""
    answers = [guess(guest, address=f"203.0.113.{n}").status_code for n in range(10)]
    assert answers == [403] * lockout.FREE + [429] * (10 - lockout.FREE)


@pytest.mark.parametrize("network", ["203.0.113.7", "2001:db8:0:1::{0:x}", "::ffff:203.0.113.7"])
def test_an_address_waits_whichever_names_it_guesses(guest: Browser, admin: User, network: str) -> None:
    answers = [guess(guest, f"name{n}", address=network.format(n)).status_code for n in range(1, 11)]
    assert answers == [403] * lockout.FREE + [429] * (10 - lockout.FREE)
    assert guess(guest, password=PASSWORD, address="198.51.100.1")["Location"] == "/"


def test_whoever_has_a_password_cannot_guess_anothers_more_often_by_it(guest: Browser, admin: User) -> None:
    get_user_model().objects.create_user("eve", password=PASSWORD)
    answers = []
    for n in range(lockout.FREE * 2):
        answers.append(guess(guest, f"name{n}").status_code)
        guess(Browser(), "eve", PASSWORD)
    assert answers[-1] == 429


def test_a_right_password_starts_the_count_anew(guest: Browser, admin: User) -> None:
    for _ in range(3):
        for _wrong in range(lockout.FREE - 1):
            assert guess(guest, address=AWAY).status_code == 403
            PasswordTries.objects.filter(pk=lockout.key_of("address", AWAY)).delete()
        assert guess(guest, password=PASSWORD).status_code == 302
        guest.logout()


def test_an_empty_password_is_no_try_and_ends_no_pause(guest: Browser, admin: User) -> None:
    for _ in range(lockout.FREE):
        guess(guest)
        assert guess(guest, password="").status_code == 403
    assert guess(guest).status_code == 429


def test_a_password_of_megabytes_is_not_hashed(guest: Browser, admin: User, hashed: list[str]) -> None:
    assert guess(guest, password="x" * (lockout.LONGEST_PASSWORD + 1)).status_code == 403
    assert guess(guest, password=PASSWORD + "\u0000" * lockout.LONGEST_PASSWORD).status_code == 403
    assert hashed == []
    assert guess(guest, password="x" * lockout.LONGEST_PASSWORD).status_code == 403
    assert len(hashed) == 1


def test_neither_names_nor_passwords_that_were_tried_are_stored(guest: Browser, admin: User) -> None:
    guess(guest, "hunter2", "hunter2")
    assert "hunter2" not in str(list(PasswordTries.objects.values()))


def test_tries_are_forgotten_after_a_day(guest: Browser, admin: User) -> None:
    for n in range(lockout.FREE):
        guess(guest, f"name{n}")
    PasswordTries.objects.update(seen=time.time() - 25 * 3600)
    guess(guest)
    assert {row.count for row in PasswordTries.objects.all()} == {1}


def test_who_signs_in_and_out_and_who_fails_is_in_the_log(
    guest: Browser, admin: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "adkweb.sign_in")
    for _ in range(lockout.FREE + 1):
        guess(guest, address=AWAY)
    guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    guest.post("/sign-out/")
    guess(guest, password=PASSWORD, address="::1")
    PasswordTries.objects.all().delete()
    guess(guest, password=PASSWORD, address="::1")
    login = get_user_model().objects.exclude(username=NAME).get().username
    assert caplog.messages == [
        *[f"{NAME}: a wrong password from {AWAY}"] * lockout.FREE,
        f"{NAME}: no further password is tried from {AWAY} for 5 s",
        f"{login} signed in by the link from 127.0.0.1",
        f"{login} signed out from 127.0.0.1",
        f"{NAME}: no further password is tried from ::1 for 5 s",
        f"{NAME} signed in by password from ::1",
    ]
    assert PASSWORD not in caplog.text


# --- How long ---------------------------------------------------------------------------------------------------------


def row_of(browser: Browser) -> SignIn:
    return SignIn.objects.get(session_key=digest(browser.session.session_key))


def test_a_sign_in_that_nobody_uses_ends(maria: Browser, settings: Settings) -> None:
    assert row_of(maria).expire_date < timezone.now() + timedelta(seconds=settings.IDLE_SECONDS + 1)
    SignIn.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert maria.get("/")["Location"] == "/sign-in/?next=/"


def test_use_keeps_a_sign_in_and_costs_a_write_now_and_then_only(maria: Browser, settings: Settings) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    SignIn.objects.update(expire_date=soon)
    maria.get("/edits/")
    kept = row_of(maria).expire_date
    assert kept > soon + timedelta(seconds=settings.IDLE_SECONDS * 0.9)
    maria.get("/edits/")
    assert row_of(maria).expire_date == kept


def test_a_sign_in_ends_after_a_month_however_often_it_is_used(maria: Browser, settings: Settings) -> None:
    session = maria.session
    session["began"] -= settings.SESSION_COOKIE_AGE - 60
    session.save()
    maria.get("/edits/")
    assert row_of(maria).expire_date < timezone.now() + timedelta(seconds=61)


def test_sign_ins_that_ended_are_cleared_when_somebody_signs_in(maria: Browser, guest: Browser) -> None:
    SignIn.objects.update(expire_date=timezone.now() - timedelta(days=1))
    guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    assert SignIn.objects.count() == 1


# --- Other machines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [AWAY, "2001:db8::1", "", "not an address"])
def test_another_machine_is_refused_until_an_admin_exists(maria: Browser, address: str) -> None:
    response = maria.get("/", REMOTE_ADDR=address)
    assert response.status_code == 403
    assert "adkweb createsuperuser" in page_of(response).text


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_not(maria: Browser, address: str) -> None:
    assert maria.get("/", REMOTE_ADDR=address).status_code == 200


def test_a_link_does_not_sign_in_from_another_machine_and_is_not_used_up_by_it(guest: Browser) -> None:
    token = sign_in.sign_in_token()
    assert guest.get("/sign-in/", {"token": token}, REMOTE_ADDR=AWAY).status_code == 403
    guest.get("/sign-in/", {"token": token})
    assert signed_in(guest)


def test_another_machine_asks_for_sign_in_once_an_admin_exists(guest: Browser, admin: User) -> None:
    assert guest.get("/", REMOTE_ADDR=AWAY)["Location"] == "/sign-in/?next=/"
    assert guest.get("/sign-in/", REMOTE_ADDR=AWAY).status_code == 200


def test_an_admin_without_a_password_does_not_open_adkweb_to_others(guest: Browser, person: User) -> None:
    person.is_superuser = True
    person.set_unusable_password()
    person.save()
    assert guest.get("/", REMOTE_ADDR=AWAY).status_code == 403


# --- Signing out ------------------------------------------------------------------------------------------------------


def test_signing_out_ends_it(maria: Browser) -> None:
    form = maria.open("home").one("form", action="/sign-out/")
    assert maria.post(form["action"])["Location"] == "/sign-in/"
    assert not signed_in(maria)
    assert maria.get("/")["Location"] == "/sign-in/?next=/"


def test_a_link_alone_signs_nobody_out(maria: Browser) -> None:
    assert maria.get("/sign-out/").status_code == 405
    assert signed_in(maria)


@pytest.mark.guarantee("Safety", "Another site can't submit a form on someone's behalf.")
def test_another_site_cannot_send_a_form_in_somebodys_name(person: User) -> None:
    maria = Browser(enforce_csrf_checks=True)
    maria.force_login(person)
    response = maria.post("/sign-out/")
    assert response.status_code == 403
    assert "This page was opened before you signed in" in page_of(response).one("main").text
    assert signed_in(maria)


def test_a_form_of_ones_own_is_accepted(person: User) -> None:
    maria = Browser(enforce_csrf_checks=True)
    maria.force_login(person)
    form = maria.open("home").one("form", action="/sign-out/")
    assert maria.post("/sign-out/", form.fields()).status_code == 302
    assert not signed_in(maria)


def test_a_page_that_is_open_keeps_what_was_typed_when_somebody_is_signed_out(guest: Browser) -> None:
    response = guest.post("/edits/", headers={"HX-Request": "true"})
    assert (response.status_code, response["Content-Type"]) == (403, "text/plain; charset=utf-8")
    assert response.content.decode().startswith("You have been signed out")
