"""The strip above the timeline: what it says under the pointer, and what its colours mean."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.places import SEOUL, path
from tests.browser.seed import TRACED, TRAVEL


def go(page: Page, address: str) -> Locator:
    """The session's page; its strip."""
    page.goto(address)
    strip = page.get_by_role("slider", name="Time travel")
    expect(strip).to_be_visible()
    return strip


def point_at(page: Page, bar: Locator) -> None:
    """Puts the pointer on the middle of something."""
    box = bar.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_the_pointer_tells_the_turn_and_the_number_of_the_event_in_its_session(page: Page) -> None:
    strip = go(page, path("s", *TRACED))
    tip = strip.locator(".tip")
    expect(tip).to_be_hidden()
    point_at(page, strip.locator("svg > .bar").first)
    expect(tip).to_have_text(re.compile(r"^event 1 · Turn 1 · \w+ \d+, \d\d:\d\d · [\d.]+ (s|min)"))
    point_at(page, strip.locator("svg > .bar").last)
    count = strip.locator("svg > .bar").count()
    expect(tip).to_have_text(re.compile(rf"^event {count} · "))
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()


def test_the_pointer_tells_how_long_a_gap_is_and_a_click_leads_to_the_event_before_it(page: Page) -> None:
    strip = go(page, path("s", *SEOUL))
    gap = strip.locator("svg > .pause").first
    expect(gap).to_be_attached()
    words = gap.evaluate("e => e.nextElementSibling.textContent")
    point_at(page, gap)
    tip = strip.locator(".tip")
    expect(tip).to_have_text(re.compile(r"^\d+ (days?|hours?|minutes?|seconds?)$"))
    assert words.split()[0].split(".")[0] in tip.inner_text()
    page.mouse.down()
    page.mouse.up()
    numbers = [int(each) for each in (strip.get_attribute("data-seqs") or "").split()]
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-seq", re.compile(r"\d+"))
    at = int(page.locator("#moment [data-moment]").get_attribute("data-seq") or 0)
    edges = [float(each) for each in (strip.get_attribute("data-edges") or "").split()]
    box, track = gap.bounding_box(), strip.bounding_box()
    assert box
    assert track
    middle = (box["x"] + box["width"] / 2 - track["x"]) / track["width"] * 100
    before = max(n for n in range(len(edges) // 2) if edges[2 * n] <= middle)
    assert at == numbers[before]


def test_where_no_turns_are_known_the_pointer_tells_number_and_time(page: Page) -> None:
    strip = go(page, path("s", *TRAVEL))
    point_at(page, strip)
    expect(strip.locator(".tip")).to_have_text(re.compile(r"^events? \d+( to \d+)? · .*\d\d:\d\d:\d\d$"))


def test_the_legend_is_shown_to_the_pointer_and_to_the_keyboard(page: Page) -> None:
    go(page, path("s", *TRACED))
    button = page.get_by_role("button", name="Legend")
    legend = page.locator("#strip-legend")
    expect(legend).to_be_hidden()
    button.hover()
    expect(legend).to_be_visible()
    expect(legend).to_contain_text("a tool at work")
    page.mouse.move(0, 0)
    expect(legend).to_be_hidden()
    page.get_by_role("slider", name="Time travel").focus()
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    expect(legend).to_be_visible()
    expect(button).to_have_accessible_description(re.compile("an error"))
