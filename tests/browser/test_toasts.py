"""What adkweb says in the corner: it goes by itself, but not from under a reader, and moves nothing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, open_form, own, path, type_json

LONG_ENOUGH = 21_000  # for one that offers to undo; 7 s for any other


def save(page: Page, text: str) -> Locator:
    """Writes an edit; what is said of it."""
    open_form(page, own("toasts"), "step")
    type_json(page, text)
    page.get_by_role("button", name="Apply").click()
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Saved as event #")
    page.wait_for_load_state()  # of the session's page: before, a key does nothing
    return toast


@pytest.mark.long
def test_it_goes_by_itself_but_not_while_somebody_is_at_it_and_never_follows(page: Page) -> None:
    page.clock.install()
    toast = save(page, '"one"')
    toast.hover()
    page.clock.run_for(LONG_ENOUGH)
    expect(toast).to_be_visible()
    page.mouse.move(10, 10)
    toast.get_by_role("button", name="Undo").focus()
    page.clock.run_for(LONG_ENOUGH)
    expect(toast).to_be_visible()
    page.locator("#main").focus()
    page.clock.run_for(7_000)
    expect(toast).to_be_visible()  # it can still be undone by its key
    page.clock.run_for(LONG_ENOUGH)
    expect(toast).to_have_count(0)
    page.reload()
    expect(page.locator(".ev").last).to_be_visible()
    expect(toast).to_have_count(0)


def test_it_undoes_and_does_it_again_by_keyboard_and_leads_to_the_event(page: Page) -> None:
    toast, row = save(page, '"two"'), page.locator("#groups [data-key-row=step]")
    expect(page.locator(".ev").last).to_be_in_viewport(ratio=1)
    page.keyboard.press("u")
    expect(toast).to_contain_text("Undone.")
    expect(row).not_to_contain_text("two")
    toast.get_by_role("button", name="Redo").press("Enter")
    expect(toast).to_contain_text("Redone.")  # one alone: none contradicts it
    expect(toast.get_by_role("button", name="Undo")).to_be_focused()
    expect(row).to_contain_text("two")
    toast.get_by_role("link", name="View").click()
    expect(page.locator(".ev").last).to_be_in_viewport(ratio=1)


def test_the_key_says_where_there_is_nothing_to_undo(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.keyboard.press("u")
    page.keyboard.press("u")
    toast = page.locator(".toast")
    expect(toast).to_have_text(re.compile("There's nothing to undo here.*Edits"))
    expect(toast.get_by_role("link", name="Edits")).to_have_attribute("href", "/edits/")


def test_what_was_written_since_is_asked_before_it_is_undone(page: Page) -> None:
    toast = save(page, '"three"')
    other = page.context.new_page()
    save(other, '"four"')
    expect(page.locator("#groups [data-key-row=step]")).to_contain_text("four")
    toast.get_by_role("button", name="Undo").click()
    expect(page.locator("#pane .conflict")).to_contain_text("three")
    expect(page.locator("#pane")).to_contain_text("These keys have changed in the meantime")
    expect(page.locator("#groups [data-key-row=step]")).to_contain_text("four")


def test_an_error_stays_until_it_is_closed(page: Page, watch: Watch) -> None:
    watch.excuse("net::ERR", "htmx:sendError")
    watch.stay = False
    page.clock.install()
    open_form(page, own("toasts"), "step")
    type_json(page, '"never"')
    page.context.set_offline(True)
    page.get_by_role("button", name="Apply").click()
    toast = page.get_by_role("alert")
    expect(toast).to_contain_text("Nothing was changed")
    page.clock.run_for(LONG_ENOUGH)
    toast.get_by_role("button", name="Close").click()
    expect(toast).to_have_count(0)


@pytest.mark.long
def test_without_scripts_it_stands_in_the_page(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto(path("s", *own("toasts"), end="edit/?key=step"))
    page.locator("textarea").fill("without scripts")
    page.get_by_role("button", name="Apply").click()
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Saved as event #")
    box, head = toast.bounding_box(), page.get_by_role("heading", level=1).bounding_box()
    assert box
    assert head
    assert box["y"] + box["height"] <= head["y"]
    expect(page.get_by_role("button", name="Close")).to_have_count(0)
