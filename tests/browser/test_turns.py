"""Turns on a session's page: a heading folds its turn, and stays one heading wherever a page of the timeline begins."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

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


# Whether nothing covers an element, such as the strip.
ON_TOP = """(element) => {
    const { x, y } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(x + 1, y + 1));
}"""


def opened(page: Page) -> Locator:
    return page.locator(".turn", has=page.locator("[aria-expanded=true]"))


@pytest.mark.parametrize("before", ["events", "trace"])
def test_a_trace_of_many_turns_is_a_list_in_which_the_last_failed_turn_is_open(page: Page, before: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 480})
    page.goto(f"{path('s', *SEOUL)}?density={before}")
    expect(
        page.locator("#travel")
    ).to_be_visible()  # it comes last, and a reader who does something holds their own place
    page.keyboard.press("3")
    expect(page.locator(".slowest .turnbar rect")).to_have_attribute("width", "100%")
    expect(opened(page)).to_have_count(1)
    expect(opened(page)).to_have_id("turn-11")
    expect(page.locator(".lane.failed:visible")).to_be_in_viewport()
    expect(page.locator("#turn-17")).not_to_be_in_viewport()
    page.get_by_role("button", name="Fold all turns").click()
    expect(page.locator(".waterfall:not([hidden])")).to_have_count(page.locator(".turn").count())


def test_the_whole_heading_of_a_turn_folds_it_in_a_trace(page: Page) -> None:
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    expect(opened(page)).to_have_count(1)
    page.locator("#turn-12 .turnbar").click()
    expect(opened(page)).to_have_count(2)
    page.locator("#turn-12 .took").click()
    expect(opened(page)).to_have_count(1)


def test_earlier_turns_fill_a_high_window_and_the_open_one_stays_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    for shown in (".turn", ".asked"):
        expect(page.locator(f"{shown}:visible")).to_have_count(17)
    expect(opened(page)).to_have_id("turn-11")
    expect(page.locator(".lane.failed:visible")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_a_trace_begins_with_a_whole_heading_below_the_strip(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    expect(page.locator("#travel")).to_be_visible()
    expect(page.locator(".lane.failed:visible")).to_be_in_viewport()
    cut = """() => {
        const { bottom } = document.querySelector("#strip").getBoundingClientRect();
        return [...document.querySelectorAll(".turn, .asked")].map((each) => each.getBoundingClientRect())
            .filter((box) => box.height && box.top < bottom - 1 && box.bottom > bottom + 1).length;
    }"""
    page.wait_for_function(f"() => ({cut})() === 0")


def test_a_trace_without_a_failure_begins_with_the_slowest_turn(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 460})
    page.goto(f"{path('s', 'demo', 'booking', '지우', 'busan-jeju')}?density=trace")
    expect(page.locator("#turn-2")).to_have_class(re.compile("slowest"))
    expect(page.locator("#turn-2")).to_be_in_viewport()
    expect(page.locator("#turn-4")).not_to_be_in_viewport()


def test_a_step_opens_the_turn_that_it_leads_to_and_shows_its_bar(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 560})
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    expect(page.locator("#travel")).to_be_visible()
    page.keyboard.press("[")  # the newest event
    expect(opened(page).last).to_have_id("turn-17")
    page.keyboard.press("[")  # the question is seen in a folded turn, too
    expect(page.locator(".selected.asked")).to_have_count(1)
    page.locator("#turn-17").get_by_role("button").click()
    page.locator("#turn-16 + .asked .line").click()
    expect(opened(page).last).to_have_id("turn-16")
    page.locator("#turn-11").get_by_role("button").click()
    page.keyboard.press("<")  # the last error
    expect(opened(page).first).to_have_id("turn-11")
    expect(page.locator("#turn-11 ~ .waterfall .lane:has(.shown)").first).to_be_in_viewport(ratio=1)
    page.keyboard.press("<")  # in a turn that is not there as a whole
    expect(opened(page).first).to_have_id("turn-7")


def test_a_step_up_shows_the_heading_of_the_turn_that_it_leads_to(page: Page) -> None:
    page.goto(f"{path('s', *SEOUL)}?density=events")
    expect(page.locator(".ev").last).to_be_in_viewport()
    expect(page.locator("#travel")).to_be_visible()
    page.keyboard.press("<")  # the last error
    expect(page.locator(".ev.selected")).to_be_in_viewport()
    heading = page.locator("#turn-11 .turnname")
    expect(heading).to_be_in_viewport(ratio=1)
    assert heading.evaluate(ON_TOP)


def test_keys_move_over_the_rows_of_an_open_turn_and_lead_to_their_events(page: Page) -> None:
    page.goto(f"{path('s', *SEOUL)}?density=trace")
    expect(page.locator("#travel")).to_be_visible()
    page.locator("#turn-11 + .asked .line").focus()
    page.keyboard.press("j")
    lane = page.locator(".lane:focus-within")
    expect(lane).to_have_class(re.compile("failed"))
    page.keyboard.press("Enter")
    expect(lane.locator(".shown")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator("#turn-12 + .asked.selected:focus-within")).to_have_count(1)  # the state goes along
    page.keyboard.press("k")
    expect(lane.locator(".shown")).to_have_count(1)
    page.locator("#turn-3 [data-turn-fold]").click()
    page.keyboard.press("j")
    expect(page.locator("#turn-3 + .asked:focus-within")).to_have_count(1)  # and not at the end
