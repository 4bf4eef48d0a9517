"""The switch of a value's type in the form that edits, what it warns of, and the values that it offers."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.looks import check
from tests.browser.places import SEOUL, open_form, own, type_json


def test_the_type_is_switched_and_the_value_converted(page: Page) -> None:
    open_form(page, own("plain"), "count")
    types = page.get_by_role("group", name="Type of count")
    text = page.locator("json-editor > textarea")
    expect(page.locator("json-editor .cm-content")).to_be_visible()

    def switch(name: str) -> None:
        types.get_by_role("radio", name=name, exact=True).check()

    def put(given: str) -> None:
        page.locator("json-editor .cm-content").click()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(given)

    expect(types.get_by_role("radio", name="number")).to_be_checked()
    for given, name, becomes in (
        ("4", "string", "4"),
        ("4", "number", "4"),
        ("4", "true/false", "true"),
        ("false", "number", "0"),
        ("choose", "string", "choose"),
        ("no", "true/false", "false"),
        ("12345678901234567890", "string", "12345678901234567890"),
        ("12345678901234567890", "number", "12345678901234567890"),
        ('"with quotes"', "string", "with quotes"),
        ("[1, 2]", "JSON", "[1, 2]"),
        ('{"a": 1}', "null", "null"),
    ):
        put(given)
        switch(name)
        expect(text).to_have_value(becomes)
        expect(types.get_by_role("radio", name=name, exact=True)).to_be_checked()

    switch("string")
    put("late")
    switch("number")
    expect(text).to_have_value("12345678901234567890")  # what had this type last
    switch("string")
    expect(text).to_have_value("12345678901234567890")
    page.keyboard.press("ArrowRight")
    expect(types.get_by_role("radio", name="number")).to_be_focused()
    expect(types.get_by_role("radio", name="number")).to_be_checked()
    page.get_by_label("What to do with this key").select_option("null")
    expect(types).to_be_hidden()


def test_a_value_that_does_not_fit_is_warned_of_while_it_is_typed(page: Page) -> None:
    open_form(page, SEOUL, "booking_step")
    warning, text = page.locator(".misfit"), page.locator("json-editor > textarea")
    expect(page.locator("json-editor .cm-content")).to_be_visible()
    expect(warning).to_have_count(0)
    type_json(page, '"paymnt"')
    expect(warning).to_contain_text("booking_step has always been one of")
    check(page)
    page.locator("[data-offered]").get_by_role("button", name="payment").click()
    expect(text).to_have_value("payment")
    expect(warning).to_have_count(0)
    page.get_by_role("radio", name="JSON").check()
    expect(warning).to_contain_text("this value is of type object")
    expect(page.get_by_role("button", name="Apply")).to_be_enabled()
