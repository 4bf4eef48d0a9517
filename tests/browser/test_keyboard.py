"""For those who use keys and screen readers: keys can be switched off, a page begins where it is new, and news is said."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import own, path

REF = own("keys")


def test_keys_of_one_letter_can_be_switched_off_and_stay_so(page: Page) -> None:
    page.goto(path("s", *REF))
    page.keyboard.press("?")
    switch = page.get_by_role("dialog").get_by_label("Single-key shortcuts")
    expect(switch).to_be_checked()
    switch.uncheck()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator("#stats")).to_contain_text("event")
    for key in "?ej":
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("form.editbox")).to_have_count(0)
    expect(page.locator(".ev .line:focus")).to_have_count(0)
    page.locator(".topbar .menu summary").click()
    page.get_by_role("button", name="Single-key shortcuts").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_page_begins_at_the_top_and_behind_it_for_who_comes_from_another_page(page: Page) -> None:
    page.goto(path("u", *REF[:3]))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("main").get_by_role("link", name=REF.session_id).first.click()
    expect(page.locator("#stats")).to_contain_text("event")
    expect(page.locator("#main")).to_be_focused()
    page.goto(path("s", *REF, end="edit/?key=step"))
    expect(page.locator("json-editor .cm-content")).to_be_focused()


def test_new_events_are_said_in_few_words(page: Page, visit: Visit) -> None:
    ref = own("announced")
    page.goto(path("s", *ref))
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    other = visit()
    other.goto(path("s", *ref, end="add/"))
    other.locator("json-editor .cm-content").click()
    other.keyboard.press("ControlOrMeta+a")
    other.keyboard.type('{"author": "user", "content": {"parts": [{"text": "hello"}]}}')
    other.get_by_role("button", name="Add event").click()
    expect(other.locator(".toast")).to_be_visible()
    expect(page.locator("#announcer")).to_contain_text("1 new event")
