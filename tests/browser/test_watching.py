"""A watched view: a badge and a notification on whatever page is open, until the person looks."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.places import own
from tests.browser.serving import Adkweb
from tests.browser.watching import insert, until

NOTED = """window.noted = [];
window.Notification = class extends EventTarget {
    static permission = "default";
    static requestPermission() { window.asked = true; this.permission = "granted"; return Promise.resolve("granted"); }
    constructor(title, options) { super(); window.noted.push([title, options.body]); }
};
if (sessionStorage.granted) window.Notification.permission = "granted";"""


def test_a_person_is_told_what_begins_to_match_on_any_page_until_they_look(page: Page, server: Adkweb) -> None:
    page.add_init_script(NOTED)
    page.goto("/sessions/?q=%22began+to+match%22")
    page.get_by_text("Save view").click()
    page.keyboard.type("To be told of")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("view="))  # and until it has loaded
    view = page.url
    assert not page.evaluate("window.asked")
    page.get_by_role("button", name="Watch").click()
    expect(page.get_by_role("button", name="Watching")).to_be_visible()

    page.goto("/edits/")
    page.evaluate("sessionStorage.granted = 1")
    page.reload()
    title = page.title()
    session = own("watched")
    insert(server.demo, session.session_id, 1, "it began to match just now", session.user_id)
    expect(page.locator("[data-news-total]")).to_have_text("1")
    expect(page).to_have_title(f"(1) {title}")
    until(page, "window.noted.length > 0")
    assert page.evaluate("window.noted") == [["To be told of", "Hello from watched"]]

    page.locator(".topbar details.menu > summary").click()
    page.locator(".menu-items").get_by_role("link", name="To be told of").click()
    expect(page).to_have_url(view)
    expect(page.locator(".sessions .main .news")).to_have_text("new")
    expect(page.locator("[data-news-total]")).to_be_hidden()
    page.reload()
    expect(page.locator(".sessions .rowlink")).to_have_count(1)
    expect(page.locator(".sessions .main .news")).to_have_count(0)
    page.get_by_role("button", name="Watching").click()
    expect(page.get_by_role("button", name="Watch", exact=True)).to_be_visible()
