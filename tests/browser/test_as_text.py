"""A string is typed without quotes, what is no JSON cannot be sent, and the editor is there when it is needed."""

from __future__ import annotations

from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import open_form, own, path, type_json

REF = own("as-text")


def value(page: Page) -> str:
    """What the editor holds."""
    return str(page.locator("json-editor textarea").input_value())


def test_what_is_typed_without_quotes_is_taken_as_text_by_enter(page: Page) -> None:
    open_form(page, REF, "step")
    type_json(page, 'KE924 "now"')
    apply = page.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()
    expect(page.locator(".json-type.bad")).to_contain_text("not a JSON value")
    expect(page.get_by_role("button", name="Use as string")).to_have_text('Use as string “KE924 "now"” ⏎')
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    assert value(page) == '"KE924 \\"now\\""'
    expect(page.get_by_role("button", name="Use as string")).to_have_count(0)
    apply.click()
    expect(page.locator('[data-key-row="step"]')).to_contain_text("KE924")


def test_a_number_may_be_meant_as_text(page: Page) -> None:
    open_form(page, REF, "count")
    type_json(page, "007")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    type_json(page, "7")
    expect(page.get_by_role("button", name="Apply")).to_be_enabled()
    page.keyboard.press("Enter")  # it is JSON: a new line
    assert value(page) == "7\n"
    page.get_by_role("button", name="Use as string").click()
    assert value(page) == '"7"'
    for json in ("[1,", '"half', '{"a": 1}'):
        type_json(page, json)
        expect(page.get_by_role("button", name="Use as string")).to_have_count(0)


def test_of_several_keys_it_is_said_which_one_cannot_be_sent(page: Page) -> None:
    open_form(page, REF, "step", "brand-new")
    expect(page.locator("[data-why-not]")).to_have_text("brand-new: A value is missing.")
    expect(page.get_by_role("button", name="Preview")).to_be_disabled()
    page.locator("[data-operation]").nth(1).select_option("null")
    expect(page.locator("[data-why-not]")).to_be_hidden()
    expect(page.get_by_role("button", name="Preview")).to_be_enabled()


def test_without_scripts_the_form_comes_back_offering_it(visit: Visit, watch: Watch) -> None:
    watch.allow(400)
    page = visit(java_script_enabled=False)
    page.goto(path("s", *REF, end="edit/?key=step"))
    page.locator("textarea").fill("LH 1181")
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Use as string “LH 1181”").click()
    assert value(page) == '"LH 1181"'
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
