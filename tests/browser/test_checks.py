"""A rule from its first letter to the event that broke it, and live: by a person who looks at the page."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.domain.session_ref import SessionRef
from tests.browser.conftest import Watch
from tests.browser.places import open_form, own, path, type_json
from tests.browser.watching import LATE

HEALTH = path("a", "demo", "booking", end="checks/")


def write(page: Page, ref: SessionRef, key: str, value: str) -> None:
    """Edits a key in a tab of its own, as another person would."""
    other = page.context.new_page()
    open_form(other, ref, key)
    type_json(other, value)
    other.get_by_role("button", name="Apply").click()
    expect(other.get_by_text("Saved as event")).to_be_visible()
    other.close()


def test_a_rule_is_written_broken_live_and_leads_to_the_event(page: Page, watch: Watch) -> None:
    watch.allow(400)
    ref = own("rules")
    page.goto(path("a", "demo", "booking"))
    page.get_by_role("link", name="State health").click()
    page.wait_for_url(re.compile("/checks/"))  # and until it has loaded: before, nobody hears what is typed
    condition = page.get_by_label("Must always hold")
    condition.fill("rule_total >")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Something is missing")
    page.wait_for_load_state()
    condition.fill("rule_total >= 0")
    expect(page.locator(".trial")).to_have_text("No sessions break this now.")
    expect(page.get_by_label("Name (optional)")).to_have_attribute("placeholder", "rule_total >= 0")
    page.get_by_label("Name (optional)").fill("No debts")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No sessions broke this rule")).to_be_visible()
    write(page, ref, "rule_total", "-5")
    row = page.locator("#breaches tbody tr")
    look_again_until(page, row)
    expect(row).to_contain_text("rules")
    expect(row).to_contain_text("broken")
    row.get_by_role("link", name="now").click()
    expect(page.locator("#moment")).to_contain_text("rule_total")
    page.goto("/")
    page.locator("ul.attention").get_by_role("link", name="No debts").first.click()
    expect(page.get_by_role("heading", name="No debts")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Rule “No debts” deleted.")).to_be_visible()


def test_what_needs_attention_is_seen_as_often_as_it_is_counted(page: Page) -> None:
    page.goto(path("u", "demo", "booking", "omar@example.com"))
    items = page.locator("ul.attention > li")
    expect(items.filter(has_text="is waiting for an answer")).to_have_count(1)  # with a button, unlike a failure
    assert items.evaluate_all("items => items.map(item => getComputedStyle(item).opacity)") == ["1"] * items.count()
    expect(page.locator("header:has(+ .attention) > .muted")).to_have_text(str(items.count()))


def test_alert_when_at_a_key_starts_a_rule_whose_condition_is_completed(page: Page) -> None:
    page.goto(path("s", "demo", "booking", "ana", "madrid-return"))
    page.locator("#state [data-key-row='booking_step'] .key").hover()
    page.locator("#keycard").get_by_role("link", name="Alert when…").click()
    condition = page.get_by_role("combobox", name="Must always hold")
    expect(condition).to_be_focused()
    expect(condition).to_have_value(re.compile("^state.booking_step "))
    expect(page.locator(".trial")).to_have_text(re.compile("this now"))
    page.keyboard.type("7")  # replaces the value
    expect(condition).to_have_value(re.compile(r"^state\.booking_step \S+ 7$"))
    condition.fill("")
    page.keyboard.type("app:to")
    expect(page.get_by_role("option", name="app:total_searches")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("option", name=">= at least")).to_be_visible()
    page.keyboard.type(">= 1")
    expect(page.locator("#rule-options")).to_be_hidden()  # nothing else can follow
    expect(condition).to_have_value("app:total_searches >= 1")


def look_again_until(page: Page, there: Locator) -> None:
    """Loads a page again until something is there: a new event is indexed and checked within a second or two."""
    deadline = time.monotonic() + LATE / 1000
    while not there.count():
        assert time.monotonic() < deadline
        page.wait_for_timeout(300)
        page.reload()


@pytest.mark.long
def test_state_health_names_keys_and_leads_to_the_event_that_wrote_them(page: Page) -> None:
    write(page, own("rules"), "apiKey", '"hunter22"')
    page.goto(HEALTH)
    row = page.locator("tr", has_text="named like a secret").first
    look_again_until(page, row)
    expect(row).to_contain_text("apiKey")
    expect(page.locator("main")).not_to_contain_text("hunter22")
    row.get_by_role("link").last.click()
    expect(page.locator("#moment")).to_contain_text("apiKey")
