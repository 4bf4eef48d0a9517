"""Titles and tags, as a person gives them: by keys, at once, and taken back from the toast."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.places import own, path


def test_a_session_is_renamed_and_tagged_by_keys_and_found_so_at_once(page: Page) -> None:
    page.goto(path("s", *own("labels")))
    heading = page.get_by_role("heading", level=1)
    page.keyboard.press("r")
    page.keyboard.type("Nadia’s refund")
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Nadia’s refund")
    expect(page).to_have_title("Nadia’s refund · adkweb")
    page.keyboard.press("l")
    for tag in ("vip", "to check"):
        expect(page.locator("#new-tag")).to_be_focused()
        page.keyboard.type(tag)
        page.keyboard.press("Enter")
        expect(page.locator("#tags").get_by_role("link", name=tag)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#new-tag")).to_be_hidden()
    page.get_by_role("button", name="Remove the tag vip").click()
    expect(page.locator("#tags").get_by_role("link")).to_have_text(["to check"])
    page.locator(".toast", has_text="vip").get_by_role("button", name="Undo").click()
    expect(page.locator("#tags").get_by_role("link")).to_have_text(["to check", "vip"])

    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("tag:to")
    expect(page.get_by_role("option", name='"to check"')).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".sessions .rowlink")).to_have_text(["Nadia’s refund"])
    expect(page.locator("#preview .tag")).to_have_text(["to check", "vip"])
    page.locator("#preview .tag").get_by_role("link", name="vip").click()
    expect(page).to_have_url(re.compile("q=tag%3A%22vip%22"))
    expect(page.locator(".sessions .rowlink")).to_have_text(["Nadia’s refund"])
