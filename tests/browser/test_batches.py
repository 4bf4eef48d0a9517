"""Many sessions at once: selected by keyboard or by mouse, tried, edited, undone, compared."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import type_json
from tests.parts import long_but


@pytest.fixture
def table(page: Page) -> Page:
    """Three sessions that only these tests change, indexed."""
    page.goto("/sessions/?q=session:together")
    expect(page.get_by_text("Indexing")).to_have_count(0)
    expect(boxes(page)).to_have_count(3)
    return page


def boxes(page: Page) -> Locator:
    """The box of each session."""
    return page.locator("input[name=ref]")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def fill(page: Page, key: str, value: str) -> None:
    """Types a key and its value into the form."""
    page.locator("#new-key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    type_json(page, value)


def test_sessions_are_selected_by_keyboard_and_edited_and_undone_together(table: Page) -> None:
    bar = table.locator(".chosenbar")
    expect(bar).to_be_hidden()
    press(table, "j", "x", "j", "j", "Shift+X")
    expect(bar).to_contain_text("3 selected")
    expect(table.locator("input[name=ref]:checked")).to_have_count(3)
    expect(bar.get_by_role("button", name="Compare")).to_be_disabled()
    press(table, "e")
    table.wait_for_url(re.compile("/batches/"))  # and until it has loaded: before, a key does nothing
    fill(table, "callback", '"done"')
    table.keyboard.press("ControlOrMeta+Enter")  # Dry run
    expect(table.locator(".tally")).to_contain_text("will change3")
    expect(table.locator(".differing li").first).to_contain_text("new")
    table.wait_for_load_state()
    table.keyboard.press("ControlOrMeta+Enter")  # Edit 3 sessions
    expect(table.get_by_text("3 sessions were changed.")).to_be_visible()
    table.wait_for_load_state()
    press(table, "u")  # Undo this batch
    expect(table.get_by_text("The edits to 3 sessions were undone.")).to_be_visible()
    table.get_by_role("link", name="the batch this undoes").click()
    expect(table.get_by_role("link", name="Undone")).to_be_visible()


@pytest.mark.long
def test_what_is_selected_is_tagged_by_keyboard_and_the_tag_taken_back(table: Page) -> None:
    press(table, "j", "x", "j", "x", "l")
    expect(table.get_by_label("Tag", exact=True)).to_be_focused()
    table.keyboard.type("by keyboard")
    table.keyboard.press("Enter")
    said = table.locator(".toast")
    expect(said).to_contain_text("2 sessions were tagged “by keyboard”.")
    said.get_by_role("button", name="Undo").click()
    expect(table.locator(".toast")).to_contain_text("Removed the tag “by keyboard” from 2 sessions.")


@pytest.mark.long
def test_all_that_match_are_meant_once_that_is_ticked_and_nothing_after_escape(table: Page) -> None:
    boxes(table).first.check()
    boxes(table).nth(2).click(modifiers=["Shift"])
    bar = table.locator(".chosenbar")
    expect(bar).to_contain_text("3 selected")
    bar.get_by_label("all 3 matches").check()
    expect(bar).to_contain_text(re.compile(r"All \d+ selected"))
    press(table, "Escape")
    expect(bar).to_be_hidden()
    expect(table.locator("input[name=ref]:checked")).to_have_count(0)


@pytest.mark.long
def test_what_is_selected_stays_so_when_the_table_is_sorted(table: Page) -> None:
    boxes(table).first.check()
    value = boxes(table).first.input_value()
    table.get_by_role("link", name="User", exact=True).click()
    expect(table.locator("th[aria-sort]")).to_have_text("User")
    expect(table.locator("input[name=ref]:checked")).to_have_value(value)
    expect(table.locator(".chosenbar")).to_contain_text("1 selected")


@pytest.mark.long
def test_two_sessions_are_compared_in_two_clicks_and_one(table: Page) -> None:
    boxes(table).nth(0).check()
    boxes(table).nth(1).check()
    table.get_by_role("button", name="Compare").click()
    expect(table).to_have_url(re.compile("/compare/"))


@pytest.mark.parametrize("width", long_but([390, 1440], 390))
def test_what_can_be_done_to_selected_sessions_is_in_sight(table: Page, width: int) -> None:
    table.set_viewport_size({"width": width, "height": 800})
    boxes(table).first.check()
    for name in ("Tag…", "Export"):
        menu = table.locator(".chosenbar > .menu", has=table.locator("summary", has_text=name))
        menu.locator("summary").click()
        expect(menu.locator(".menu-items")).to_be_in_viewport(ratio=1)
        menu.locator("summary").click()


def test_a_deletion_needs_the_number_of_sessions(table: Page) -> None:
    boxes(table).first.check()
    table.get_by_role("button", name="Delete…").click()
    table.wait_for_url(re.compile("/batches/"))
    button = table.get_by_role("button", name="Delete 1 session")
    expect(button).to_be_disabled()
    table.get_by_label(re.compile("To confirm, enter the number of sessions")).fill("1")
    expect(button).to_be_enabled()
    table.get_by_role("button", name="Discard").click()
    expect(table).to_have_url(re.compile("/sessions/$"))


@pytest.mark.long
def test_without_scripts_the_boxes_and_the_buttons_work(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto("/sessions/?q=session:together")
    boxes(page).first.check()
    expect(page.locator(".chosenbar")).to_be_visible()
    page.locator("button[name=act][value=edit]").click()
    expect(page).to_have_url(re.compile("/batches/"))
