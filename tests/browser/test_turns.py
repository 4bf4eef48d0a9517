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


def test_a_trace_of_many_turns_is_a_list_at_first_and_a_turn_opens_when_it_is_to_be_seen(page: Page) -> None:
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    for shown in (".turn", ".asked"):
        expect(page.locator(f"{shown}:visible")).to_have_count(17)
    expect(page.locator(".waterfall:not([hidden])")).to_have_count(1)
    expect(page.locator(".slowest .turnbar rect")).to_have_attribute("width", "100")
    expect(page.locator("#travel")).to_be_visible()
    page.keyboard.press("<")  # the last error
    expect(page.locator("#turn-11").get_by_role("button")).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".waterfall:not([hidden])")).to_have_count(2)
    page.get_by_role("button", name="Fold all turns").click()
    expect(page.locator(".waterfall:not([hidden])")).to_have_count(17)
