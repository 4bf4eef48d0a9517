"""The second factor: a password alone opens nothing, a code is good once, guesses are slowed down, secrets are encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any, Final

import pytest
import time_machine
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from pytest_django import Settings

from sessions_app.access import invitations, lockout, sign_in
from sessions_app.access.actor import TERMINAL
from sessions_app.models import AuditRow
from tests.support.device import code_of
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

PASSWORD: Final = "correct horse battery staple"


@pytest.fixture
def clock() -> Iterator[Any]:
    """A clock that a test moves."""
    with time_machine.travel("2026-11-01T08:00:10Z", tick=False) as moved:
        yield moved


@pytest.fixture
def ana(db: None, clock: Any) -> User:
    """Somebody with a password, and an admin beside her."""
    User.objects.create_superuser("chief", password=PASSWORD)
    return User.objects.create_user("ana", password=PASSWORD)


def first_step(name: str = "ana", next_page: str = "") -> tuple[Browser, Any]:
    """A browser that gave the password, and the answer."""
    browser = Browser()
    return browser, browser.send("sign-in", {"username": name, "password": PASSWORD, "next": next_page})


def set_up(browser: Browser, address: str = "second-factor") -> tuple[str, list[str]]:
    """Sets up an app: its secret, and the recovery codes."""
    secret = browser.open(address).one("code", id="factor-secret").text
    page = page_of(browser.send(address, {"code": code_of(secret)}))
    return secret, page.one("pre", id="recovery-codes").text.split()


@pytest.fixture
def app(ana: User, clock: Any) -> tuple[str, list[str]]:
    """Ana's app and her recovery codes; half a minute has gone by."""
    browser, _answer = first_step()
    made = set_up(browser)
    clock.shift(timedelta(seconds=30))
    return made


def is_in(browser: Browser) -> bool:
    """Whether a browser is shown pages."""
    return bool(browser.get("/edits/").status_code == 200)


def test_the_password_alone_opens_nothing_and_the_code_leads_where_it_was_wanted(app: tuple[str, list[str]]) -> None:
    browser, answer = first_step(next_page="/edits/?before=x")
    assert answer["Location"] == "/sign-in/code/"
    assert "autofocus" in browser.open("second-step").one("input", id="code")
    assert not is_in(browser)
    answer = browser.send("second-step", {"code": code_of(app[0])})
    assert answer["Location"] == "/edits/?before=x"
    assert is_in(browser)


def test_a_session_that_somebody_else_put_into_the_browser_is_not_the_one_that_passed_the_first_step(
    app: tuple[str, list[str]],
) -> None:
    browser = Browser()
    session = browser.session
    session["known to somebody else"] = True
    session.save()
    browser.send("sign-in", {"username": "ana", "password": PASSWORD})
    other = Browser()
    other.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    assert browser.open("second-step").one("input", id="code")
    assert other.get("/sign-in/code/")["Location"] == "/sign-in/"


@pytest.mark.parametrize(("steps", "right"), [(-2, False), (-1, False), (0, True), (1, True), (2, False)])
def test_a_code_is_good_beside_its_half_minute_but_never_again(
    app: tuple[str, list[str]], steps: int, right: bool
) -> None:
    browser, _answer = first_step()
    sent = browser.send("second-step", {"code": code_of(app[0], steps)})
    assert sent.status_code == (302 if right else 403)  # that of the half minute before switched it on
    again, _answer = first_step()
    assert again.send("second-step", {"code": code_of(app[0], steps)}).status_code == 403
    assert not is_in(again)


def test_a_recovery_code_signs_in_once_and_new_ones_replace_the_old(app: tuple[str, list[str]]) -> None:
    _secret, codes = app
    assert len(set(codes)) == 10
    browser, _answer = first_step()
    assert browser.send("second-step", {"code": f" {codes[3][:4]} {codes[3][4:]}"}).status_code == 302
    assert "9 recovery codes left" in browser.open("second-factor").text
    again, _answer = first_step()
    assert again.send("second-step", {"code": codes[3]}).status_code == 403
    assert browser.send("new-codes", {"old": "wrong"}).status_code == 400
    made = page_of(browser.send("new-codes", {"old": PASSWORD})).one("pre", id="recovery-codes").text.split()
    assert not set(made) & set(codes)
    assert again.send("second-step", {"code": codes[4]}).status_code == 403
    assert again.send("second-step", {"code": made[4]}).status_code == 302


def test_codes_that_were_stored_as_allauth_makes_them_stay_good(app: tuple[str, list[str]]) -> None:
    row = Authenticator.objects.get(type="recovery_codes")
    row.data = {"seed": get_adapter().encrypt("ab" * 40), "used_mask": 1}
    row.save()
    used, code, *_more = row.wrap().generate_codes()
    browser, _answer = first_step()
    assert browser.send("second-step", {"code": used}).status_code == 403
    assert browser.send("second-step", {"code": code}).status_code == 302
    assert "8 recovery codes left" in browser.open("second-factor").text


@pytest.mark.parametrize("code", ["", "000000", "é", "１２３４５６", "a\0b", "1" * 10_000, "<script>alert(1)</script>"])
def test_a_code_that_is_none_is_refused_in_words(app: tuple[str, list[str]], code: str) -> None:
    browser, _answer = first_step()
    answer = browser.send("second-step", {"code": code})
    assert answer.status_code == 403
    assert "This code is wrong or has already been used" in page_of(answer).one(role="alert").text
    assert not is_in(browser)


def test_guessing_codes_has_to_wait_although_the_password_is_given_again(app: tuple[str, list[str]]) -> None:
    for number in range(lockout.FREE):
        browser, _answer = first_step()
        browser.defaults["REMOTE_ADDR"] = f"203.0.113.{number}"
        assert browser.send("second-step", {"code": "000000"}).status_code == 403
    browser, _answer = first_step()
    browser.defaults["REMOTE_ADDR"] = "203.0.113.9"
    answer = browser.send("second-step", {"code": code_of(app[0])})
    assert (answer.status_code, answer["Retry-After"]) == (429, "5")
    assert "Try again in 5 seconds" in page_of(answer).one(id="code_error").text
    assert not is_in(browser)
    failed = AuditRow.objects.filter(act="sign-in-failed", by="ana", detail='{"how":"code"}')
    assert failed.count() == lockout.FREE


def test_the_second_step_ends_after_ten_minutes_or_with_the_account(
    app: tuple[str, list[str]], ana: User, clock: Any
) -> None:
    late, _answer = first_step()
    clock.shift(timedelta(minutes=10, seconds=1))
    assert late.send("second-step", {"code": code_of(app[0])})["Location"] == "/sign-in/"
    browser, _answer = first_step()
    ana.set_password(PASSWORD + "!")
    ana.save()
    assert browser.send("second-step", {"code": code_of(app[0])})["Location"] == "/sign-in/"
    assert not is_in(late)
    assert not is_in(browser)


def test_secrets_and_codes_are_stored_encrypted_and_shown_once(ana: User) -> None:
    browser, _answer = first_step()
    secret, codes = set_up(browser)
    stored = str(list(Authenticator.objects.values()))
    assert secret not in stored
    assert not any(code in stored for code in codes)
    page = browser.open("second-factor").text
    assert secret not in page
    assert not any(code in page for code in codes)


def test_a_changed_key_refuses_codes_in_words_and_the_old_one_as_fallback_reads_them(
    app: tuple[str, list[str]], settings: Settings
) -> None:
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key"
    browser, _answer = first_step()
    answer = browser.send("second-step", {"code": code_of(app[0])})
    assert answer.status_code == 403
    assert "An admin can reset it" in page_of(answer).one(role="alert").text
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.send("second-step", {"code": app[1][0]}).status_code == 403
    settings.SECRET_KEY_FALLBACKS = [old]
    assert browser.send("second-step", {"code": code_of(app[0])}).status_code == 302


def test_the_set_up_shows_a_picture_and_takes_only_the_apps_code(ana: User) -> None:
    browser, _answer = first_step()
    page = browser.open("second-factor")
    secret = page.one("code", id="factor-secret").text
    assert page.one("svg", class_="qr").one("path")["d"].count("M") > 300
    assert browser.send("second-factor", {"code": "000000"}).status_code == 400
    assert not Authenticator.objects.exists()
    assert browser.open("second-factor").one("code", id="factor-secret").text == secret
    assert browser.send("second-factor", {"code": code_of(secret)}).status_code == 200
    assert browser.send("second-factor", {"code": code_of(secret)}).status_code == 400
    assert Authenticator.objects.filter(type="totp").count() == 1


def test_removing_it_asks_for_the_password(app: tuple[str, list[str]], ana: User, settings: Settings) -> None:
    browser, _answer = first_step()
    browser.send("second-step", {"code": code_of(app[0])})
    assert browser.send("remove-second-factor", {"old": "wrong"}).status_code == 400
    settings.REQUIRE_SECOND_FACTOR = True
    assert browser.send("remove-second-factor", {"old": PASSWORD}).status_code == 409
    settings.REQUIRE_SECOND_FACTOR = False
    assert Authenticator.objects.count() == 2
    assert browser.send("remove-second-factor", {"old": PASSWORD}).status_code == 302
    assert not Authenticator.objects.exists()
    assert first_step()[1]["Location"] == "/"


def test_a_forgotten_password_that_a_command_sets_still_needs_the_code(
    app: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.filter(username="ana").update(password="!")
    monkeypatch.setattr("getpass.getpass", lambda prompt="": PASSWORD)
    call_command("changepassword", "ana", stdout=StringIO())
    browser, answer = first_step()
    assert answer["Location"] == "/sign-in/code/"
    assert not is_in(browser)
    browser.send("second-step", {"code": code_of(app[0])})
    assert is_in(browser)


def test_an_admin_resets_it_and_the_person_is_signed_out(app: tuple[str, list[str]], ana: User) -> None:
    browser, _answer = first_step()
    browser.send("second-step", {"code": code_of(app[0])})
    assert browser.send("reset-second-factor", {}, name="ana").status_code == 403
    chief, _answer = first_step("chief")
    assert "Reset the second factor" not in chief.open("person", name="chief").text
    form = chief.open("person", name="ana").one("form", action="/people/ana/reset-second-factor/")
    assert chief.send(form["action"], form.fields()).status_code == 302
    assert not is_in(browser)
    assert not Authenticator.objects.exists()
    assert first_step()[1]["Location"] == "/"
    assert [row.act for row in AuditRow.objects.filter(act__startswith="second")] == [
        "second-factor-set",
        "second-factor-removed",
    ]


def test_where_everybody_needs_one_nobody_is_in_before_it_is_set_up(ana: User, settings: Settings) -> None:
    before, _answer = first_step()
    assert is_in(before)
    settings.REQUIRE_SECOND_FACTOR = True
    assert not is_in(before)
    browser, answer = first_step(next_page="/edits/")
    assert answer["Location"] == "/sign-in/code/"
    assert not is_in(browser)
    assert browser.send("second-step", {"code": "000000"}).status_code == 403
    secret = browser.open("second-step").one("code", id="factor-secret").text
    page = page_of(browser.send("second-step", {"code": code_of(secret)}))
    assert page.links()["I've stored them"] == "/edits/"
    assert is_in(browser)
    new = {"old": PASSWORD, "password": PASSWORD + "!"}
    assert browser.send("new-password", new).status_code == 302
    assert is_in(browser)


def test_an_invited_person_sets_one_up_where_everybody_needs_one(ana: User, settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = True
    _invitation, text = invitations.make("Eva", [], actor=TERMINAL)
    browser = Browser()
    answer = browser.send("join", {"token": text, "name": "eva", "password": PASSWORD})
    assert answer["Location"] == "/sign-in/code/"
    assert not is_in(browser)
    set_up(browser, "second-step")
    assert is_in(browser)


def test_the_printed_link_asks_for_no_code(ana: User, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ana")
    browser, _answer = first_step()
    set_up(browser)
    settings.REQUIRE_SECOND_FACTOR = True
    local = Browser()
    assert local.get("/sign-in/", {"token": sign_in.sign_in_token()})["Location"] == "/"
    assert is_in(local)


def test_whoever_is_signed_in_and_repeats_a_wrong_password_keeps_nobody_out(ana: User) -> None:
    chief, _answer = first_step("chief")
    answers = [chief.send("new-codes", {"old": "wrong"}).status_code for _ in range(lockout.FREE + 1)]
    assert answers == [400] * lockout.FREE + [429]
    for name in ("ana", "chief"):  # from the same address
        browser, _answer = first_step(name)
        assert is_in(browser), name
