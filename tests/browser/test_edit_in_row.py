"""The form that edits a key stands where the key is, and gives the focus back to it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Visit
from tests.browser.places import SEOUL, open_form, own, path, type_json
from tests.browser.seed import APP, FAMILY, FAMILY_KEYS, USER

REF = own("in-place")


def row(page: Page, key: str) -> Locator:
    """The row of a key in the state as it is now."""
    return page.locator(f"#groups [data-key-row='{key}']")


def pencil(page: Page, key: str) -> Locator:
    """What edits a key in its row."""
    return row(page, key).get_by_role("link", name=f"Edit {key}", exact=True)


def edit_there(page: Page, key: str) -> None:
    """Opens the form of a key by keyboard."""
    pencil(page, key).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#edit .cm-content")).to_be_focused()


def top(part: Locator) -> float:
    """Where a part of the page begins."""
    box = part.bounding_box()
    assert box
    return box["y"]


def test_the_form_stands_where_its_row_was_and_the_filter_and_what_is_in_sight_stay(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 800})
    page.goto(path("s", *FAMILY))
    page.get_by_role("searchbox", name="Filter keys").fill("number_")
    key = FAMILY_KEYS[12]
    pencil(page, key).focus()
    scroll = page.locator("#state > .scroll")
    before, scrolled = top(row(page, key)), scroll.evaluate("(box) => box.scrollTop")
    edit_there(page, key)
    expect(row(page, key)).to_be_hidden()
    expect(page.locator("#edit .buttons")).to_be_in_viewport(ratio=1)
    assert page.locator("#edit footer").evaluate("(row) => row.offsetHeight") < 60  # one row of buttons
    moved = scroll.evaluate("(box) => box.scrollTop") - scrolled
    assert abs(top(page.locator("#edit")) + moved - before) < 10
    page.keyboard.press("Escape")
    expect(pencil(page, key)).to_be_focused()
    expect(page.get_by_role("searchbox", name="Filter keys")).to_have_value("number_")
    expect(page.locator("#groups [data-key-row]:visible")).to_have_count(len(FAMILY_KEYS))


def test_the_row_of_a_key_that_somebody_else_changes_meanwhile_is_shown_under_its_form(page: Page) -> None:
    ref = own("meanwhile")
    page.goto(path("s", *ref))
    edit_there(page, "count")
    other = page.context.new_page()
    open_form(other, ref, "count")
    type_json(other, "43")
    other.get_by_role("button", name="Apply").click()
    expect(row(page, "count")).to_contain_text("43")
    expect(row(page, "count")).to_be_visible()
    expect(page.locator("#edit .cm-content")).to_contain_text("4")
    expect(page.locator("#edit .cm-content")).to_be_focused()
    page.keyboard.press("Escape")
    edit_there(page, "count")
    expect(row(page, "count")).to_be_hidden()


def test_what_others_write_meanwhile_leaves_the_form_alone_and_the_row_has_the_focus_once_it_is_saved(
    page: Page,
) -> None:
    page.goto(path("s", *REF))
    edit_there(page, "count")
    type_json(page, "41")
    other = page.context.new_page()
    open_form(other, REF, "step", "aaa")
    type_json(other, '"pay"')
    type_json(other, "1", 1)
    other.get_by_role("button", name="Apply").click()
    expect(row(page, "step")).to_contain_text("pay")
    expect(row(page, "aaa")).to_be_visible()
    expect(row(page, "count")).to_be_hidden()
    expect(page.locator("#edit .cm-content")).to_be_focused()
    page.keyboard.type("2")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(row(page, "count")).to_contain_text("412")
    expect(row(page, "count").locator(".changed")).to_have_count(1)
    expect(pencil(page, "count")).to_be_focused()
    edit_there(page, "aaa")
    page.get_by_label("What to do with this key").select_option("remove")
    page.get_by_role("button", name="Apply").click()
    expect(row(page, "aaa")).to_have_count(0)
    expect(pencil(page, "count")).to_be_focused()  # the next one
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Edit state").click()
    page.get_by_label("Key to edit or add").fill("brand new")
    page.keyboard.press("Enter")
    type_json(page, "1")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(pencil(page, "brand new")).to_be_focused()


def test_who_removes_a_key_is_at_the_next_one_also_when_the_answer_comes_after_the_row_is_gone(page: Page) -> None:
    def late(route: Route) -> None:
        if route.request.method != "POST":
            return route.fallback()
        answer = route.fetch()
        expect(row(page, "count")).to_have_count(0)
        return route.fulfill(response=answer)

    page.goto(path("s", *own("in-place-late")))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    page.route("**/edit/**", late)
    edit_there(page, "count")
    page.get_by_label("What to do with this key").select_option("remove")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#edit .editrow")).to_have_count(0)
    expect(pencil(page, "note")).to_be_focused()


@pytest.mark.long
def test_a_page_that_is_loaded_anew_begins_at_the_row(page: Page) -> None:
    page.goto(path("u", "demo", APP, USER))
    page.keyboard.press("e")
    page.get_by_label("Key to edit or add").fill("user:in-place")
    page.keyboard.press("Enter")
    for text in ("one", "two"):
        type_json(page, f'"{text}"')
        page.keyboard.press("ControlOrMeta+Enter")
        expect(row(page, "user:in-place")).to_contain_text(text)
        edit_there(page, "user:in-place")
    page.keyboard.press("Escape")
    expect(pencil(page, "user:in-place")).to_be_focused()


# --- What can be done with a key --------------------------------------------------------------------------------------


def box_of(part: Locator) -> tuple[float, float, float, float]:
    """From where to where a part is: left, top, right, bottom."""
    box = part.bounding_box()
    assert box
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


KEYS = ("app:total_searches", "user:tier", "user:name", "booking", "fare", "__session_metadata__")


def test_what_can_be_done_with_a_key_stands_in_the_same_columns_in_each_row_and_is_aligned(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    expect(page.locator("#travel")).to_be_visible()
    lefts = set()
    for key in KEYS:
        line = row(page, key)
        expect(line.locator(".rowacts")).to_have_css("opacity", "0")
        line.hover()
        expect(line.locator(".rowacts")).to_have_css("opacity", "1")
        acts = [box_of(act) for act in line.locator(".rowacts > *").all()]
        name = box_of(line.locator(".key").first)
        assert all(abs((top + bottom - name[1] - name[3]) / 2) < 1 for _left, top, _right, bottom in acts), key
        lefts.add(tuple(round(act[0]) for act in acts))
    assert len(lefts) == 1


def test_who_wrote_a_key_begins_beside_what_can_be_done_with_it(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    line = row(page, "last_answer")
    line.locator(".wrote").evaluate("(wrote) => wrote.insertAdjacentHTML('beforeend', ' · <span>root</span>')")
    line.locator("[data-row-key=e]").focus()
    acts, wrote, turn = (box_of(line.locator(each)) for each in (".rowacts", ".wrote", ".wrote > a"))
    assert acts[2] <= wrote[0] <= turn[0]


@pytest.mark.parametrize("width", [390, 820])
def test_without_a_pointer_it_is_behind_one_sign_and_a_sheet_has_it_in_words(visit: Visit, width: int) -> None:
    page = visit(viewport={"width": width, "height": 900}, has_touch=True, is_mobile=True)
    page.goto(path("s", *SEOUL))
    page.locator("[role=tab][data-tab-target=state]").tap()
    lefts = set()
    for key in KEYS:
        acts, value = box_of(row(page, key).locator(".rowacts")), box_of(row(page, key).locator(".value").first)
        assert acts[0] >= value[2] or acts[1] >= value[3] - 1, key
        assert acts[2] - acts[0] >= 44
        lefts.add(round(acts[0]))
    assert len(lefts) == 1
    sheet = page.locator(".rowsheet")
    row(page, "user:tier").locator(".rowacts").tap()
    expect(sheet).to_contain_text("user:tier")
    for button in sheet.get_by_role("button").all():
        left, top, right, bottom = box_of(button)
        assert bottom - top >= 44
        assert right - left > width * 0.9
    sheet.get_by_role("button", name="Edit user:tier").tap()
    expect(sheet).to_be_hidden()
    expect(page.locator("form.editbox")).to_contain_text("user:tier")
