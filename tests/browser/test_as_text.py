"""A string is typed without quotes, what is no JSON cannot be sent, and the editor is there when it is needed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import open_form, own, path, type_json

REF = own("as-text")


def value(page: Page) -> str:
    """What the editor holds."""
    return str(page.locator("json-editor textarea").input_value())


def type_of(page: Page, key: str) -> Locator:
    """The switch of a key's type."""
    return page.get_by_role("group", name=f"Type of {key}")


def test_a_string_is_typed_as_it_is_and_sent_by_ctrl_enter(page: Page) -> None:
    open_form(page, REF, "step")
    expect(type_of(page, "step").get_by_role("radio", name="string")).to_be_checked()
    expect(page.locator("json-editor .cm-content")).to_have_text("choose")
    page.locator("json-editor .cm-content").fill('KE924 "now"')
    expect(page.locator("json-editor .cm-deletedChunk")).to_have_text("choose")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator('[data-key-row="step"]')).to_contain_text('KE924 \\"now\\"')


def test_what_is_typed_without_quotes_is_taken_as_text_by_enter(page: Page) -> None:
    open_form(page, REF, "new to all")
    type_json(page, "KE925")
    expect(page.locator(".json-type.bad")).to_contain_text("not a JSON value")
    expect(page.get_by_role("button", name="Use as string")).to_have_text("Use as string “KE925” ⏎")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    expect(type_of(page, "new to all").get_by_role("radio", name="string")).to_be_checked()
    assert value(page) == "KE925"
    expect(page.get_by_role("button", name="Use as string")).to_have_count(0)
    page.get_by_role("button", name="Apply").click()
    expect(page.locator('[data-key-row="new to all"]')).to_contain_text("KE925")


@pytest.mark.long
def test_a_number_may_be_meant_as_text(page: Page) -> None:
    open_form(page, REF, "count")
    type_json(page, "007")
    expect(page.locator(".json-type.bad")).to_be_visible()
    type_json(page, "7")
    expect(page.locator(".json-type.bad")).to_have_count(0)
    page.keyboard.press("Enter")  # it is JSON: a new line
    assert value(page) == "7\n"
    page.get_by_role("button", name="Use as string").click()
    assert value(page) == "7"
    for json in ("[1,", '"half', '{"a": 1}'):
        type_json(page, json)
        expect(page.get_by_role("button", name="Use as string")).to_have_count(0)


def test_ctrl_enter_goes_to_the_first_field_that_is_wrong_and_says_why(page: Page) -> None:
    open_form(page, REF)
    expect(page.locator("#new-key")).to_be_focused()
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#new-key")).to_be_focused()
    assert page.locator("#new-key").evaluate("(field) => field.validationMessage")
    open_form(page, REF, "step", "brand-new", "count")
    said = page.locator(".json-type.bad")
    expect(page.locator(".json-type")).to_have_text(["string", "empty", "number"])  # nothing is wrong before it is sent
    type_json(page, "[", 2)
    page.get_by_label("Reason").press("ControlOrMeta+Enter")
    expect(page.get_by_role("textbox", name="Value of brand-new")).to_be_focused()
    expect(said.first).to_have_text("a value is missing")
    page.locator("[data-operation]").nth(1).select_option("null")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("textbox", name="Value of count")).to_be_focused()
    type_json(page, "5", 2)
    page.get_by_label("Reason").press("ControlOrMeta+Enter")
    expect(page.get_by_text("Saved as event #")).to_be_visible()


@pytest.mark.long
def test_without_scripts_the_form_comes_back_offering_it(visit: Visit, watch: Watch) -> None:
    watch.allow(400)
    page = visit(java_script_enabled=False)
    page.goto(path("s", *REF, end="edit/?key=step"))
    page.get_by_label("number").check()
    page.locator("textarea").fill("LH 1181")
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Use as string “LH 1181”").click()
    assert value(page) == "LH 1181"
    page.get_by_role("button", name="Apply").click()
    expect(page.locator('[data-key-row="step"]')).to_contain_text('"LH 1181"')


def test_the_editor_is_fetched_when_somebody_begins_to_edit(page: Page) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if "json-editor" in request.url:
            asked.append(request.url)

    page.on("request", note)
    page.goto(path("s", *REF))
    expect(page.locator("#stats")).to_contain_text("event")
    assert asked == []
    page.keyboard.press("e")
    expect(page.get_by_label("Key to edit or add")).to_be_focused()
    page.keyboard.type("step")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    page.reload()
    page.get_by_role("link", name="Edit count").dispatch_event("click")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    assert len(asked) <= 2
