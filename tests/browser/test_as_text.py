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


def test_a_new_key_has_the_type_of_what_is_typed_and_its_reason_comes_right_after(page: Page) -> None:
    open_form(page, REF, "new to all")
    types = type_of(page, "new to all")
    for text, name in (
        ("KE925", "string"),
        ("7", "number"),
        ("true", "true/false"),
        ("[1,", "JSON"),
        ("KE925", "string"),
    ):
        page.locator("json-editor .cm-content").press("ControlOrMeta+a")
        page.keyboard.type(text)
        expect(types.get_by_role("radio", name=name, exact=True)).to_be_checked()
        expect(page.locator(".json-type.bad")).to_have_count(1 if name == "JSON" else 0)
    page.keyboard.press("Tab")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("as she asked")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator('[data-key-row="new to all"]')).to_contain_text("KE925")
    expect(page.locator(".inv").last).to_contain_text("as she asked")


def test_another_key_is_asked_for_behind_a_button_and_the_buttons_stand_in_one_row(page: Page) -> None:
    open_form(page, REF, "step")
    field = page.get_by_label("Key to edit or add")
    expect(field).to_be_hidden()
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        tops = page.locator(".editbox .buttons > *").evaluate_all("(all) => all.map((each) => each.offsetTop)")
        assert (len(tops), len(set(tops))) == (3, 1), width
    page.locator("summary").filter(has_text="Another key").press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("count")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content").nth(1)).to_be_focused()
    expect(page.get_by_text("Saved as event #")).to_have_count(0)


@pytest.mark.long
def test_a_text_in_the_place_of_a_number_is_taken_as_one_by_enter(page: Page) -> None:
    open_form(page, REF, "count")
    type_json(page, "007")
    expect(page.locator(".json-type.bad")).to_be_visible()
    type_json(page, "7")
    expect(page.locator(".json-type.bad")).to_have_count(0)
    page.keyboard.press("Enter")  # it is JSON: a new line
    assert value(page) == "7\n"
    for json in ("[1,", '"half', '{"a": 1}'):
        type_json(page, json)
        expect(page.get_by_role("button", name="as a string")).to_have_count(0)
    type_json(page, "KE925")
    expect(page.get_by_role("button", name="as a string")).to_have_text("Use “KE925” as a string ⏎")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    expect(type_of(page, "count").get_by_role("radio", name="string")).to_be_checked()
    assert value(page) == "KE925"
    expect(page.get_by_role("button", name="as a string")).to_have_count(0)


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
    page.get_by_role("button", name="Use “LH 1181” as a string").click()
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
