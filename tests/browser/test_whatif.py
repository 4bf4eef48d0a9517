"""What-if in a browser: a fault of the demo is tried with another state, and the result stands beside what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, serve
from tests.browser.looks import check, sideways
from tests.browser.places import path
from tests.browser.serving import ROOT, Adkweb

TRIP = path("s", "demo", "booking", "ana", "december-trip")
ISSUED = "Here is the boarding pass"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb with the demo and its agents."""
    yield from serve(tmp_path, ADKWEB_AGENTS=json.dumps({"demo": str(ROOT / "examples" / "agents")}))


def looks_right(page: Page) -> None:
    """It is accessible in both themes, and nothing is wider than the window."""
    size = page.viewport_size
    assert size
    assert not sideways(page)
    page.set_viewport_size(size)
    check(page)


def changed(page: Page, text: str) -> None:
    """Takes a key into the form, and gives it another value."""
    page.get_by_label("Key to change").fill("booking_step")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor :focus")).to_be_visible()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(text)


def test_a_fault_is_gone_with_another_state(own_server: Adkweb, visitor: Visit) -> None:
    page = visitor(own_server)
    page.goto(own_server.link)
    page.goto(TRIP)
    page.locator(".ev").last.click()
    expect(page.locator("#moment .takeback")).to_contain_text("What if…")
    page.keyboard.press("W")
    page.wait_for_url("**/what-if/?at=*")
    expect(page.locator(".howitruns")).to_contain_text("Turns 1 to 4 from the recording")
    looks_right(page)
    changed(page, "confirmed")
    page.keyboard.press("ControlOrMeta+Enter")

    card = page.locator("#decide")
    expect(card).to_contain_text("booking calls issue_boarding_pass")
    expect(page.locator(".runs [data-side=B]")).to_have_count(2)
    looks_right(page)
    card.get_by_label("Error of the tool").fill("closed")
    expect(card.get_by_label("Let it fail")).to_be_checked()
    card.get_by_label("Run the tool").check()
    card.get_by_role("button", name="Continue").click()
    expect(page.locator(".runs [data-side=B]", has_text=ISSUED)).to_be_visible()
    expect(page.locator("#first-divergence [data-side=A]")).to_contain_text("CheckInError")
    expect(page.locator(".endkey", has_text="booking_step")).to_contain_text("ready")

    looks_right(page)
    page.get_by_role("link", name="Try again with a change").click()
    page.locator("label", has_text="run it").click()
    page.locator("label", has_text="10×").click()
    page.get_by_role("button", name="Run and compare").click()
    expect(page.locator(".whatifoutcomes")).to_contain_text("10 of 10", timeout=60_000)
    expect(page.locator("header [role=status]")).to_contain_text("done")
    page.get_by_role("link", name="Try 7").click()
    expect(page.locator(".runhead").last).to_contain_text("Try 7")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{TRIP}?at=*")


def test_the_same_change_is_tried_in_several_sessions(own_server: Adkweb, visitor: Visit) -> None:
    page = visitor(own_server)
    page.goto(own_server.link)
    page.goto("/sessions/?q=app:booking user:ana")
    expect(page.locator("table tr", has=page.get_by_role("checkbox"))).to_have_count(3)
    page.keyboard.press("x")
    page.keyboard.press("a")
    page.get_by_role("button", name="What if…").click()
    page.wait_for_url("**/what-ifs/*/")
    expect(page.get_by_role("button", name="Try 3 sessions")).to_be_visible()
    expect(page.locator("#whatif")).to_contain_text("an average turn of each took")
    page.locator("#part-state > summary").click()
    changed(page, "confirmed")
    page.locator("label", has_text="run it").click()
    page.get_by_role("button", name="Try 3 sessions").click()

    expect(page.get_by_role("button", name="Try again with a change")).to_be_visible(timeout=60_000)
    expect(page.locator(".totals")).to_contain_text("Ended with an error21")
    expect(page.locator("tr", has_text="December trip")).to_contain_text("better")
    page.get_by_role("link", name="December trip").click()
    expect(page.locator(".runs [data-side=B]", has_text=ISSUED)).to_be_visible()
