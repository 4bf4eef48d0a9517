"""Turns on a session's page: a heading folds its turn, and stays one heading wherever a page of the timeline begins."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.places import path

SEOUL = ("demo", "booking", "ana", "seoul-trip")


def test_a_heading_hides_its_turn_and_shows_it_again(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    last = page.locator(".turn").last
    rows = last.locator("xpath=following-sibling::li")
    count = rows.count()
    assert count
    button = last.get_by_role("button", name=re.compile("Turn 1"))
    expect(button).to_have_attribute("aria-expanded", "true")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "false")
    for row in rows.all():
        expect(row).to_be_hidden()
    expect(page.locator(".turn").nth(-2).locator("xpath=following-sibling::li[1]")).to_be_visible()
    page.keyboard.press("Enter")
    expect(rows.last).to_be_visible()
