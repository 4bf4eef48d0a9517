"""Filtering the keys of the state by name, now and at an event."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import own, path
from tests.browser.seed import FAMILY, FAMILY_KEYS, TRAVEL

SESSION = path("s", *FAMILY)
LAST = FAMILY_KEYS[-1]


def test_keys_are_filtered_as_one_types_and_from_moment_to_moment(page: Page) -> None:
    page.goto(SESSION)
    state, moment = page.locator("#state"), page.locator("#moment")
    rows = state.locator("[data-key-row]")
    before = rows.count()
    page.keyboard.press("f")
    field = state.get_by_role("searchbox", name="Filter keys")
    expect(field).to_be_focused()
    field.fill("NUMBER_15")
    expect(rows.filter(visible=True)).to_have_count(1)
    expect(state.locator("[data-key-row]:not([hidden])")).to_contain_text("meanwhile")
    expect(state.locator(".statefilter")).to_contain_text(f"1 of {before}")
    expect(state.locator(".scope:visible")).to_have_count(1)  # the others have no such key
    field.press("ArrowDown")
    expect(state.locator("[data-key-row]:not([hidden]) .key")).to_be_focused()

    page.locator("#event-all .line").click()
    expect(moment.locator("[data-key-row]:visible")).to_have_count(1)
    expect(moment.get_by_role("searchbox", name="Filter keys")).to_have_value("NUMBER_15")
    page.keyboard.press("]")
    expect(moment.locator("[data-moment]")).to_have_attribute("data-at", "last")
    expect(moment.locator("[data-key-row]:visible")).to_have_count(1)
    moment.get_by_role("searchbox", name="Filter keys").fill("nothing like it")
    expect(moment.locator("[data-key-row]:visible")).to_have_count(0)
    expect(moment.locator(".statefilter")).to_contain_text("no such key")
    moment.get_by_role("searchbox", name="Filter keys").press("Escape")
    expect(moment.locator("[data-key-row][hidden]")).to_have_count(0)
    expect(moment.get_by_role("searchbox", name="Filter keys")).to_have_value("")


def test_what_differs_from_now_is_filtered_from_moment_to_moment(page: Page) -> None:
    page.goto(f"{path('s', *TRAVEL)}?at=t200")
    moment = page.locator("#moment")
    box, rows = moment.get_by_label("Differs from now"), moment.locator("[data-key-row]:visible")
    box.check()
    expect(moment.locator("[data-key-row]:visible:not([data-differs])")).to_have_count(0)
    expect(moment.locator("[data-differs][hidden]")).to_have_count(0)
    expect(moment.locator(".chip .n")).to_have_text(str(rows.count()))
    page.keyboard.press("[")
    expect(moment.locator("[data-travel-words]")).to_contain_text("199")
    expect(box).to_be_checked()
    expect(moment.locator("[data-key-row]:visible:not([data-differs])")).to_have_count(0)
    page.locator("#travel").press("End")
    expect(moment.locator(".statefilter")).to_contain_text("same as now")
    expect(rows).to_have_count(0)
    box.uncheck()
    expect(moment.locator("[data-key-row][hidden]")).to_have_count(0)


def test_a_filter_of_few_keys_is_in_sight_while_it_is_used(page: Page) -> None:
    page.goto(path("s", *own("keys")))
    field = page.locator("#state").get_by_role("searchbox", name="Filter keys")
    box = page.locator("#state .statefilter")
    assert box.evaluate("box => box.offsetHeight") == 1
    page.keyboard.press("f")
    expect(field).to_be_focused()
    assert box.evaluate("box => box.offsetHeight") > 20
    field.fill("st")
    field.blur()
    assert box.evaluate("box => box.offsetHeight") > 20
    field.fill("")
    field.blur()
    assert box.evaluate("box => box.offsetHeight") == 1


@pytest.mark.long
def test_a_filter_stays_while_the_state_is_pushed_anew(page: Page) -> None:
    page.goto(SESSION)
    page.keyboard.press("f")
    page.get_by_role("searchbox", name="Filter keys").fill("number_03")
    shown = page.locator("#state [data-key-row]:visible")
    expect(shown).to_have_count(1)
    # As live.js puts it in: every row is new.
    page.evaluate("""() => {
        const groups = document.querySelector("#groups");
        const fresh = groups.cloneNode(true);
        for (const row of fresh.querySelectorAll("[hidden]")) row.hidden = false;
        groups.replaceChildren(...fresh.childNodes);
    }""")
    expect(shown).to_have_count(1)


def test_a_thousand_keys_are_filtered_by_each_letter(page: Page) -> None:
    page.goto(SESSION)
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")  # the state was pushed
    page.evaluate("""() => {
        const row = document.querySelector("#groups [data-key-row]");
        for (let n = 0; n < 1000; n += 1) {
            const copy = row.cloneNode(true);
            copy.dataset.keyRow = `many.key_${n}`;
            row.after(copy);
        }
    }""")
    field = page.get_by_role("searchbox", name="Filter keys")
    field.press_sequentially("key_99")
    expect(page.locator("#state [data-key-row]:visible")).to_have_count(11)  # 99 and 990 to 999


def test_on_a_phone_the_field_is_behind_a_button_and_hides_nothing_while_it_is_hidden(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(SESSION)
    page.get_by_role("tab", name="State").tap()
    rows = page.locator("#state [data-key-row]:visible")
    field, button = page.locator("#state [data-state-filter]"), page.get_by_role("button", name="Filters")
    before = rows.count()
    expect(field).to_be_hidden()
    button.tap()
    expect(field).to_be_focused()
    field.fill("number_15")
    expect(rows).to_have_count(1)
    button.tap()
    expect(field).to_be_hidden()
    expect(rows).to_have_count(before)
