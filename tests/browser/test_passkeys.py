"""Passkeys in a real browser, whose virtual device makes one and signs in with it."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.looks import check, sideways
from tests.browser.serving import Adkweb
from tests.browser.targets import small
from tests.browser.watching import MARIA, give_name_and_password

DEVICE: Final = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
# Browsers before 2025 have no more than this.
NO_JSON: Final = """for (const name of ["parseCreationOptionsFromJSON", "parseRequestOptionsFromJSON"]) {
    delete PublicKeyCredential[name];
}"""
CANCEL: Final = """() => {
    navigator.credentials.get = () => Promise.reject(new DOMException("", "NotAllowedError"));
}"""
NAME, PASSWORD = MARIA["DJANGO_SUPERUSER_USERNAME"], MARIA["DJANGO_SUPERUSER_PASSWORD"]


def first_step(page: Page) -> None:
    """Gives name and password, after which a passkey is asked for."""
    page.goto("/")
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Second step")).to_be_visible()


def add(page: Page, name: str) -> None:
    """Adds a passkey, by the keyboard alone."""
    page.goto("/second-factor/passkeys/add/")
    expect(page.locator("#main [autofocus]")).to_be_focused()  # after the page is loaded; what was typed before is lost
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Create passkey")).to_be_focused()
    page.keyboard.press("Enter")


def look(page: Page) -> None:
    """Nothing bars anybody from a page, is too wide for it, or too small to be pressed."""
    check(page)
    assert sideways(page) == []
    assert small(page) == []


def test_a_passkey_is_made_and_signs_in_and_what_goes_wrong_is_said(own_server: Adkweb, visitor: Visit) -> None:
    own_server.run("createsuperuser", "--noinput", variables=MARIA)
    local = own_server.address.replace("127.0.0.1", "localhost")
    page = visitor(own_server, base_url=local)
    device = page.context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    give_name_and_password(page)
    add(page, "My phone")
    expect(page.locator("#recovery-codes")).to_be_visible()
    page.get_by_role("link", name="I've stored them").click()
    expect(page.locator(".passkeys")).to_contain_text("My phone")
    look(page)

    page.add_init_script(NO_JSON)
    add(page, "My phone again")
    expect(page.get_by_role("alert")).to_contain_text("This device already has one of your passkeys")
    expect(page.get_by_role("button", name="Create passkey")).to_be_focused()
    look(page)
    page.locator(".topbar details.menu > summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    first_step(page)
    expect(page.get_by_role("button", name="Use a passkey")).to_be_focused()
    look(page)
    page.evaluate(CANCEL)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("No passkey was used")
    page.reload()
    page.keyboard.press("Enter")
    expect(page.locator("#main h1")).to_have_text("Home")
    page.goto("/second-factor/")
    expect(page.locator(".passkeys")).not_to_contain_text("never")

    old = visitor(own_server, base_url=local)
    old.add_init_script("delete window.PublicKeyCredential")
    first_step(old)
    expect(old.get_by_role("alert")).to_contain_text("This browser doesn't support passkeys")
    expect(old.get_by_role("button", name="Use a passkey")).to_be_disabled()
