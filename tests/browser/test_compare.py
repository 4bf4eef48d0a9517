"""A good and a bad session: from the table to where they part in three actions, and on from difference to difference."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import SEOUL, path
from tests.browser.seed import BAD, GOOD

RUNS = path("s", *GOOD, end="compare/?with=" + path("s", *BAD))


@pytest.fixture
def table(page: Page) -> Page:
    """The good run and the bad one, indexed."""
    page.goto("/sessions/?q=app:trips")
    expect(page.get_by_text("Indexing")).to_have_count(0)
    expect(page.locator("input[name=ref]")).to_have_count(2)
    return page


def test_a_good_and_a_bad_session_lead_to_the_first_divergence_in_three_actions(table: Page) -> None:
    boxes = table.locator("input[name=ref]")
    actions = [
        boxes.nth(0).check,
        boxes.nth(1).check,
        table.get_by_role("button", name="Compare").click,
    ]
    for act in actions:
        act()
    assert len(actions) <= 3
    expect(table).to_have_url(re.compile("#first-divergence$"))
    first = table.locator("#first-divergence")
    expect(first).to_be_in_viewport()
    expect(first.locator(".says")).to_have_text("First divergence: an argument of a tool call")
    assert sorted(first.locator("mark").all_text_contents()) == ["EUR", "USD"]
    expect(table.locator(".why")).to_contain_text("prompt_version")


@pytest.mark.long
def test_a_bad_session_leads_there_in_three_actions_too(page: Page) -> None:
    page.goto(path("s", *BAD))
    page.get_by_role("link", name="Compare", exact=True).first.click()
    page.locator(".otherruns a").first.click()
    expect(page.locator("#first-divergence")).to_be_in_viewport()


@pytest.mark.long
def test_keys_lead_from_difference_to_difference(page: Page) -> None:
    page.goto(RUNS)
    differing = page.locator("[data-differs]")
    for number in (0, 1, 2, 2 + 1):
        page.keyboard.press("n")
        expect(differing.nth(number).locator("a").first).to_be_focused()
        expect(differing.nth(number)).to_be_in_viewport()
    page.keyboard.press("Shift+N")
    expect(differing.nth(2).locator("a").nth(0)).to_be_focused()
    page.locator(".sameturns summary").first.click()
    page.keyboard.press("n")
    expect(differing.nth(0).locator("a").first).to_be_focused()


def test_keys_lead_to_the_line_of_the_turns_that_one_run_has(page: Page) -> None:
    page.goto(path("s", *BAD, end="compare/?with=" + path("s", *SEOUL)))
    line = page.locator("details.only > summary")
    expect(line).to_contain_text("Only in B: turns 5 to 17 · 61 events")
    page.locator(".cmp[data-differs] a.seq").last.focus()
    page.keyboard.press("n")
    expect(line).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("details.only .cmp").first).to_be_visible()
    page.keyboard.press("Shift+N")
    expect(page.locator(".cmp[data-differs]").last.locator("a").first).to_be_focused()


@pytest.mark.long
def test_on_a_phone_left_stands_above_right_and_each_says_which_it_is(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844})
    page.goto(RUNS + "#first-divergence")
    cells = page.locator("#first-divergence .cell")
    above, below = cells.evaluate_all("(all) => all.map((cell) => cell.getBoundingClientRect().toJSON())")
    assert above["bottom"] <= below["top"] + 1
    assert above["left"] == below["left"]
    expect(cells.first.locator(".ab").first).to_be_visible()


@pytest.mark.long
def test_without_scripts_the_page_says_as_much(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto(RUNS)
    page.get_by_role("link", name="Next difference").click()
    expect(page.locator("#first-divergence")).to_be_in_viewport()
    page.get_by_role("link", name="Swap").click()
    expect(page.locator(".runhead").first).to_contain_text("bad-run")
