"""The days of a timeline: which one each turn has, and how long nothing happened, for a reader in Lisbon."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.places import own, path
from tests.browser.seed import CROWDED, GOOD, LONG
from tests.browser.serving import Adkweb
from tests.browser.watching import AS_CLICKED, insert

WEEK = ["Mon 26 Oct", "Tue 27 Oct 1 day later", "Fri 30 Oct 3 days later", "Mon 2 Nov 3 days later"]


def days(page: Page) -> Locator:
    """The lines between the rows."""
    return page.locator("#events .day")


def test_a_timeline_says_where_a_day_begins_and_how_long_nothing_happened(page: Page) -> None:
    page.goto(path("s", *CROWDED))
    expect(days(page)).to_have_text(WEEK)


def test_the_day_of_a_turn_is_in_its_heading(page: Page) -> None:
    page.goto(path("s", *GOOD))
    expect(page.locator(".turn time").first).to_have_text("26 Oct, 07:33:20")
    expect(page.locator(".ev").first).to_be_visible()
    expect(days(page)).to_have_count(0)


def test_an_event_that_arrives_on_another_day_begins_that_day(page: Page, server: Adkweb) -> None:
    ref = own("days")
    page.goto(path("s", *ref))
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
    expect(page.locator(".ev")).to_have_count(100)
    expect(days(page)).to_have_count(1)
    expect(page.locator("#events .timeline > :first-child").first).to_have_class("day")
