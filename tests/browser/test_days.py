"""The days of a timeline: where one begins, and how long nothing happened, for a reader in Lisbon."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.places import own, path
from tests.browser.seed import CROWDED, LONG, LONG_EVENTS
from tests.browser.serving import Adkweb
from tests.browser.watching import AS_CLICKED, insert

WEEK = ["Mon 26 Oct", "Tue 27 Oct 1 day later", "Fri 30 Oct 3 days later", "Mon 2 Nov 3 days later"]


def days(page: Page) -> Locator:
    """The lines between the rows."""
    return page.locator("#events .day")


def test_a_timeline_says_where_a_day_begins_and_how_long_nothing_happened(page: Page) -> None:
    page.goto(path("s", *CROWDED))
    expect(days(page)).to_have_text(WEEK)


@pytest.mark.long
def test_the_day_that_is_read_stays_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 420})
    page.goto(path("s", *CROWDED))
    page.locator(".ev").nth(3).evaluate("row => row.scrollIntoView({ block: 'start', behavior: 'instant' })")
    top = page.locator("[data-timeline]").evaluate("box => box.getBoundingClientRect().top")
    tops = days(page).evaluate_all("all => all.map((each) => each.getBoundingClientRect().top)")
    assert any(abs(each - top) < 2 for each in tops), (top, tops)


def test_an_event_that_arrives_on_another_day_begins_that_day(page: Page, server: Adkweb) -> None:
    ref = own("days")
    page.goto(path("s", *ref))
    expect(days(page)).to_have_count(1)
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    insert(server.demo, ref.session_id, 1, user=ref.user_id)
    expect(page.locator(".ev")).to_have_count(2)
    expect(days(page)).to_have_count(2)
    expect(days(page).last).to_contain_text("days later")


@pytest.mark.long
def test_earlier_events_of_the_same_day_begin_no_other(page: Page) -> None:
    page.add_init_script(AS_CLICKED)
    page.goto(path("s", *LONG))
    expect(days(page)).to_have_count(1)
    page.get_by_role("link", name="Earlier events").click()
    expect(page.locator(".ev")).to_have_count(min(200, LONG_EVENTS))
    expect(days(page)).to_have_count(1)
    expect(page.locator("#events .timeline > :first-child").first).to_have_class("day")
