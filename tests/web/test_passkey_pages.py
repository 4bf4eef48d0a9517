"""Pages with passkeys: they are added after the password, shown at the second step, and removed."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from pytest_django import Settings

from sessions_app.access import lockout
from sessions_app.models import AuditRow
from tests.support.device import Device, code_of
from tests.web.conftest import Browser
from tests.web.html import Element, page_of
from tests.web.test_second_factor import is_in

pytestmark = pytest.mark.django_db

PASSWORD: Final = "correct horse battery staple"
HOSTILE: Final = "<script>alert(1)</script>"


@pytest.fixture
def ana(db: None) -> User:
    """Somebody with a password."""
    return User.objects.create_user("ana", password=PASSWORD)


def first_step(host: str = "localhost:8000", next_page: str = "", name: str = "ana") -> Browser:
    """A browser that gave the password."""
    browser = Browser(headers={"host": host})
    browser.send("sign-in", {"username": name, "password": PASSWORD, "next": next_page})
    return browser


def options_of(page: Element, act: str) -> str:
    """The options that a page gives the browser."""
    return page.one("form", data_passkey=act)["data-options"]


def add(browser: Browser, name: str = "Phone", address: str = "add-passkey") -> tuple[Device, Any]:
    """A device to which a passkey was added, and the answer."""
    device = Device()
    page = page_of(browser.send(address, {"name": name, "old": PASSWORD}))
    return device, browser.send(address, {"credential": device.make(options_of(page, "create"))})


@pytest.fixture
def phone(ana: User) -> tuple[Device, list[str]]:
    """Ana's phone, with a passkey, and her recovery codes."""
    device, answer = add(first_step())
    return device, page_of(answer).one("pre", id="recovery-codes").text.split()


def show(browser: Browser, device: Device, **client: Any) -> Any:
    """Shows a passkey at the second step."""
    options = options_of(browser.open("second-step"), "get")
    return browser.send("second-step", {"credential": device.sign(options, **client)})


def test_a_passkey_is_added_after_the_password_and_listed(ana: User) -> None:
    browser = first_step()
    assert browser.open("second-factor").links()["Add a passkey…"] == "/second-factor/passkeys/add/"
    refused = browser.send("add-passkey", {"name": "Phone", "old": "wrong"})
    assert refused.status_code == 400
    assert page_of(refused).one(role="alert").text == "Wrong password."
    assert page_of(refused).one("input", id="name")["value"] == "Phone"
    assert browser.send("add-passkey", {"credential": "{}"}).status_code == 400
    _device, answer = add(browser, HOSTILE)
    assert len(page_of(answer).one("pre", id="recovery-codes").text.split()) == 10
    row = browser.open("second-factor").one("ul", class_="passkeys").one("li")
    assert row.one("b").text == HOSTILE
    assert "Last used: never" in row.text
    _device, answer = add(browser, "Stick")
    assert answer["Location"] == "/second-factor/"
    assert "10 recovery codes left" in browser.open("second-factor").text


def test_the_second_step_asks_for_the_passkey_and_leads_where_it_was_wanted(phone: tuple[Device, list[str]]) -> None:
    browser = first_step(next_page="/edits/?before=x")
    page = browser.open("second-step")
    assert "data-focus" in page.one("form", data_passkey="get")
    assert "autofocus" not in page.one("input", id="code")
    assert not is_in(browser)
    answer = show(browser, phone[0])
    assert answer["Location"] == "/edits/?before=x"
    assert is_in(browser)
    assert json.loads(AuditRow.objects.latest("number").detail) == {"how": "password and a passkey"}
    assert "never" not in browser.open("second-factor").one("ul", class_="passkeys").text


def test_a_refused_passkey_says_so_and_a_recovery_code_or_the_next_try_helps(phone: tuple[Device, list[str]]) -> None:
    device, codes = phone
    browser = first_step()
    answer = show(browser, device, origin="https://evil.example")
    assert answer.status_code == 403
    assert "Your browser's response wasn't valid" in page_of(answer).one(role="alert").text
    assert not is_in(browser)
    again = browser.send("second-step", {"credential": device.sign(options_of(page_of(answer), "get"))})
    assert again.status_code == 302
    other = first_step()
    assert other.send("second-step", {"code": codes[0]}).status_code == 302


def test_too_many_refused_passkeys_have_to_wait(phone: tuple[Device, list[str]]) -> None:
    browser = first_step()
    for _time in range(lockout.FREE):
        assert browser.send("second-step", {"credential": "x"}).status_code == 403
    answer = show(browser, phone[0])
    assert (answer.status_code, answer["Retry-After"]) == (429, "5")
    assert "Too many failed attempts" in page_of(answer).one(role="alert").text
    assert not is_in(browser)


def test_removing_a_passkey_asks_for_the_password_and_the_last_one_may_have_to_stay(
    phone: tuple[Device, list[str]], settings: Settings
) -> None:
    browser = first_step()
    show(browser, phone[0])
    address = browser.open("second-factor").one("a", aria_label="Remove the passkey Phone")["href"]
    browser.open(address)
    assert browser.send(address, {"old": "wrong"}).status_code == 400
    settings.REQUIRE_SECOND_FACTOR = True
    assert browser.send(address, {"old": PASSWORD}).status_code == 409
    settings.REQUIRE_SECOND_FACTOR = False
    User.objects.create_user("eva", password=PASSWORD)
    assert first_step(name="eva").send(address, {"old": PASSWORD}).status_code == 404
    assert browser.send(address, {"old": PASSWORD})["Location"] == "/second-factor/"
    assert not Authenticator.objects.exists()


def test_an_app_beside_a_passkey_keeps_the_codes_and_either_can_go(
    phone: tuple[Device, list[str]], settings: Settings
) -> None:
    settings.REQUIRE_SECOND_FACTOR = True
    browser = first_step()
    show(browser, phone[0])
    secret = browser.open("second-factor").one("code", id="factor-secret").text
    assert browser.send("second-factor", {"code": code_of(secret)})["Location"] == "/second-factor/"
    assert "from your authenticator app" in first_step().open("second-step").text
    assert browser.send("remove-second-factor", {"old": PASSWORD}).status_code == 302
    assert "from your authenticator app" not in first_step().open("second-step").text
    assert [row.type for row in Authenticator.objects.order_by("type")] == ["recovery_codes", "webauthn"]


def test_an_admins_reset_removes_passkeys_and_signs_the_person_out(phone: tuple[Device, list[str]]) -> None:
    browser = first_step()
    show(browser, phone[0])
    User.objects.create_superuser("chief", password=PASSWORD)
    chief = first_step(name="chief")
    form = chief.open("person", name="ana").one("form", action="/people/ana/reset-second-factor/")
    assert chief.send(form["action"], form.fields()).status_code == 302
    assert not is_in(browser)
    assert not Authenticator.objects.exists()
    assert is_in(first_step())


def test_where_everybody_needs_a_second_factor_a_passkey_is_one(ana: User, settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = True
    browser = first_step(next_page="/edits/")
    assert browser.send("second-step", {"name": ""}).status_code == 403
    assert browser.send("second-step", {"credential": "{}"}).status_code == 403
    assert not is_in(browser)
    device, answer = add(browser, address="second-step")
    assert page_of(answer).links()["I've stored them"] == "/edits/"
    assert is_in(browser)
    again = first_step()
    assert show(again, device).status_code == 302
    assert is_in(again)


def test_a_page_opened_by_an_ip_address_says_where_passkeys_work(phone: tuple[Device, list[str]]) -> None:
    browser = first_step("127.0.0.1:8000")
    page = browser.open("second-step")
    assert "http://localhost:8000/" in page.one(role="note").text
    assert not page.all("form", data_passkey="get")
    browser.send("second-step", {"code": phone[1][0]})
    page = browser.open("second-factor")
    assert "works only at localhost" in page.one("ul", class_="passkeys").text
    assert "http://localhost:8000/" in page.one(role="note").text
    assert "Add a passkey…" not in page.links()
    assert "http://localhost:8000/" in browser.open("add-passkey").one(role="note").text
    assert browser.send("add-passkey", {"name": "Stick", "old": PASSWORD}).status_code == 400


def test_pages_without_https_and_of_another_host_say_what_is_missing(
    phone: tuple[Device, list[str]], settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["adkweb.example.com"]
    browser = first_step("adkweb.example.com")
    assert "Browsers support passkeys only over https" in browser.open("second-step").one(role="note").text
    page = page_of(browser.get("/sign-in/code/", secure=True))
    assert "only work at localhost" in page.one(role="note").text


def test_an_account_without_a_password_adds_a_passkey_without_one(maria: Browser) -> None:
    maria.defaults["HTTP_HOST"] = "localhost:8000"
    assert not maria.open("add-passkey").all("input", type="password")
    assert add(maria)[1].status_code == 200
