"""Saved views: kept, sent, edited and taken back by a person."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit


def test_a_view_is_saved_opened_by_its_link_edited_and_deleted(page: Page, visit: Visit) -> None:
    page.goto("/sessions/?q=error:any&cols=user,took")
    page.get_by_text("Save view").click()
    page.keyboard.type("Everything that failed")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/sessions/\?view=[0-9a-f-]{36}$"))  # and until it has loaded
    link = page.url
    tab = page.get_by_role("navigation", name="Views").get_by_role("link", name="Everything that failed")
    expect(tab).to_have_attribute("aria-current", "true")

    page.locator("#query").fill("error:any unreachable")
    expect(page).to_have_url(re.compile(r"q=error%3Aany%20unreachable.*&view="))
    expect(page.locator(".sessions .rowlink")).to_have_count(1)
    page.get_by_role("button", name="Save changes").click()
    expect(page).to_have_url(link)
    expect(page.locator("#query")).to_have_value("error:any unreachable")

    other = visit()
    other.goto(link)
    expect(other.locator("#query")).to_have_value("error:any unreachable")
    expect(other.locator(".sessions th")).to_have_text(["Status", "Session", "User", "Took"])

    page.get_by_label("Change this view").click()
    page.get_by_role("button", name="Delete this view").click()
    expect(page).to_have_url(re.compile("/sessions/$"))
    expect(tab).to_have_count(0)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(tab).to_have_attribute("aria-current", "true")
