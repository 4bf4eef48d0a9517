"""Finding sessions: by keyboard and by mouse, from any page, with and without scripts."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, StorageState, expect

from tests.browser.conftest import Visit
from tests.browser.places import own, path
from tests.browser.serving import Adkweb
from tests.parts import long_but

MADRID = path("s", "demo", "booking", "ana", "madrid-return")
ERROR = "seat map service unreachable"


def asked(page: Page) -> dict[str, str]:
    """Returns what the address asks for."""
    return {name: values[0].strip() for name, values in parse_qs(urlsplit(page.url).query).items()}


def expect_asked(page: Page, query: str) -> None:
    """Waits until the page of a query has loaded. A key that is pressed while it loads does nothing."""
    end = rf"\?q={re.escape(quote(query, safe=''))}(%20)?(&|$)" if query else "$"
    expect(page).to_have_url(re.compile(f"/sessions/{end}"))
    page.wait_for_load_state()


def titles(page: Page) -> Locator:
    """The links of the sessions."""
    return page.locator(".sessions .rowlink")


@pytest.fixture(scope="module", autouse=True)
def _indexed(browser: Browser, server: Adkweb, signed_in: StorageState) -> None:
    """The demo has been read."""
    with browser.new_context(base_url=server.address, storage_state=signed_in) as context:
        page = context.new_page()
        page.goto("/sessions/?q=seat+map+unreachable")
        expect(titles(page)).to_have_count(1)
        expect(page.get_by_text("Indexing")).to_have_count(0)


# --- The query bar ----------------------------------------------------------------------------------------------------


def test_the_failing_event_is_opened_by_keyboard_alone(page: Page) -> None:
    page.goto("/edits/")
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Find sessions")
    expect(field).to_be_focused()
    expect(page.get_by_role("option").first).to_have_text(re.compile("app:"))  # what there is, before anything is typed
    page.keyboard.type("use")
    expect(page.get_by_role("option", name="user: filter")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type("an")
    expect(page.get_by_role("option", name="ana")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="ana")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(field).to_have_value("user:ana ")
    page.keyboard.type('error:any "seat map"')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/sessions/"))  # and until it has loaded: before, a key does nothing
    expect(titles(page)).to_have_count(1)
    expect(page.locator(".matched mark")).to_have_text("seat map")
    expect(page.locator("#querymarks mark")).to_have_text(["user:ana", "error:any"])
    page.keyboard.press("j")
    expect(titles(page)).to_be_focused()
    expect(page.locator("#preview .ev.selected")).to_contain_text(ERROR)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(MADRID)))
    expect(page.locator(".ev.selected")).to_contain_text(ERROR)


def test_typing_searches_cancels_what_is_under_way_and_is_one_step_of_the_history(page: Page) -> None:
    page.goto("/sessions/")
    held: list[Route] = []
    page.route(re.compile(r"/sessions/\?q=flight(&|$)"), lambda route: held.append(route))
    field = page.locator("#query")
    with page.expect_event("requestfailed", lambda request: "q=flight" in request.url):
        with page.expect_request(re.compile(r"/sessions/\?q=flight(&|$)")):
            field.press_sequentially("flight")
        field.press_sequentially(" madrid")
    assert len(held) == 1
    expect(page.locator("#querycount")).to_contain_text(re.compile(r"^2 of \d+ · \d+ ms"))
    expect_asked(page, "flight madrid")
    field.press_sequentially(" 2026-11-29")
    expect_asked(page, "flight madrid 2026-11-29")
    expect(titles(page)).to_have_count(1)
    page.go_back()
    expect_asked(page, "")
    expect(page.locator("#query")).to_have_value("")


def test_a_key_goes_on_with_an_operator_and_what_is_unknown_is_searched_for(page: Page) -> None:
    page.goto("/edits/")
    page.keyboard.press("/")
    field = page.locator("#query")
    page.keyboard.type("was.booking_step ")
    expect(page.get_by_role("option", name="in ( one of")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(field).to_have_value("was.booking_step = ")
    page.get_by_role("option", name='"confirm"').click()
    page.keyboard.type("zebra crossing")
    search = page.get_by_role("option", name='Search for “was.booking_step = "confirm" zebra crossing”')
    expect(search).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No session matches")).to_be_visible()
    page.goto("/sessions/?q=was.booking_step+%3D+confirm")
    expect(page.locator(".matched").first).to_have_text("booking_step confirm")
    expect(page.locator("#preview .ev.selected .delta").filter(has_text="booking_step").first).to_contain_text(
        "confirm"
    )


# --- The palette ------------------------------------------------------------------------------------------------------


def offered(page: Page, typed: str) -> Locator:
    """What the palette lists once the server has answered."""
    with page.expect_response(lambda response: "/palette/?q=" in response.url):
        page.get_by_role("combobox", name="Pages and actions").fill(typed)
    return page.locator("#palette [role=option]")


def test_ctrl_k_lists_where_one_was_then_what_the_page_can_do_then_pages(page: Page) -> None:
    page.goto(MADRID)
    title = page.locator("h1").inner_text()
    page.goto(path("s", *own("keys")))
    line = page.locator(".ev .line").last
    line.click()
    expect(page.locator("#moment")).to_be_visible()
    line.focus()
    page.keyboard.press("ControlOrMeta+k")
    field = page.get_by_role("combobox", name="Pages and actions")
    expect(field).to_be_focused()
    recent = page.get_by_role("group", name="Recent sessions").get_by_role("option")
    expect(recent).to_have_count(5)  # after the one that was opened here, the last active ones
    expect(recent.first).to_have_text(f"{title}booking · ana")
    expect(recent.first).to_have_attribute("aria-selected", "true")
    groups = page.locator("#palette").get_by_role("group")
    names = [group.get_attribute("aria-label") for group in groups.all()]
    assert [name for name in names if name != "Saved views"] == ["Recent sessions", "Actions", "Pages"]
    expect(groups.nth(1).get_by_role("option", name="Edit state e")).to_be_attached()
    expect(groups.last.get_by_role("option")).to_contain_text(["Home", "Sessions", "Batches"])
    assert page.locator("#palette [role=option]:not(:has(> .icon:first-child))").count() == 0
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(line).to_be_focused()
    expect(page.locator("#moment")).to_be_visible()  # Escape left nothing else


def test_ctrl_k_and_enter_lead_back_to_the_session_before_even_before_the_server_answers(page: Page) -> None:
    page.goto(MADRID)
    page.goto(path("s", *own("keys")))
    held: list[Route] = []
    page.route("**/palette/**", lambda route: held.append(route))
    with page.expect_request("**/palette/**"):
        page.keyboard.press("ControlOrMeta+k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    held[0].continue_()
    page.wait_for_url(re.compile(re.escape(MADRID)))  # and until it has loaded: before, a key does nothing
    held.clear()
    with page.expect_request("**/palette/**"):
        page.keyboard.press("ControlOrMeta+k")
    with page.expect_request("**/palette/?q=masking*"):
        page.keyboard.type("masking")  # a page that only the server knows
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page).to_have_url(re.compile("/masking/"))


def test_the_palette_goes_to_pages_apps_and_people_and_does_what_the_page_can(page: Page) -> None:
    page.goto(path("s", *own("keys")))
    page.locator(".ev .line").last.focus()
    page.keyboard.press("ControlOrMeta+k")
    expect(offered(page, "mask")).to_have_text(["MaskingSettings", "Search sessions for “mask”"])
    expect(offered(page, "tpr")).to_have_text(["Temporary editsot", "Search sessions for “tpr”"])
    expect(offered(page, "user:an")).to_have_text(["anauser", "Search sessions for “user:an”"])
    copy = re.compile("^Share: Copy link *Opens this exact view")
    expect(offered(page, "share copy")).to_have_text([copy, "Search sessions for “share copy”"])
    titled = page.get_by_role("group", name="Sessions", exact=True).get_by_role("option")
    offered(page, "from madrid")  # one that was not opened here
    expect(titled.first).to_contain_text("booking · ana")
    offered(page, "s")
    expect(page.get_by_role("option", name="Search sessions for “s”", exact=True)).to_be_attached()
    groups = page.locator("#palette [role=group]")
    assert all(group.get_by_role("option").count() <= 3 for group in groups.all())
    expect(offered(page, "dark").first).to_have_text("Theme: dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("ControlOrMeta+k")
    expect(offered(page, "edit st").first).to_have_text("Edit statee")
    page.keyboard.press("Enter")
    expect(page.locator("form.editbox")).to_be_visible()
    page.keyboard.press("ControlOrMeta+k")
    expect(offered(page, "ana").get_by_text("user of booking")).to_be_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect_asked(page, "ana")
    page.keyboard.press("ControlOrMeta+k")
    first = offered(page, "tok").first
    expect(first).to_contain_text("Tokens")
    first.click()
    expect(page).to_have_url(re.compile("/tokens/$"))


def test_the_palette_shows_keys_and_finds_by_other_words(page: Page) -> None:
    page.goto(path("s", *own("keys")))
    page.keyboard.press("ControlOrMeta+k")
    for typed, name, keys in [
        ("hom", "Home", ["o", "h"]),
        ("settings", "Settings", ["o", ","]),
        ("rewind", "Time travel", ["t"]),
        ("hotkeys", "Keyboard shortcuts", ["?"]),
        ("download", "Share: One file", []),
        ("API key", "Tokens", []),
        ("bug report", "Share: One file", []),
        ("what did the model see", "What the model got", []),
        ("duplicate", "Time travel", ["t"]),
        ("webhook", "Sessions", ["o", "s"]),
        ("csv", "Sessions", ["o", "s"]),
        ("notify", "Sessions", ["o", "s"]),
    ]:
        offered(page, typed)
        first = page.locator("#palette [role=option]:not([data-group=views])").first  # other tests save views
        expect(first.locator("span").first).to_have_text(name)
        expect(first.locator("kbd")).to_have_text(keys)
    for typed, name, also in [
        ("past", "Time travel", "past"),
        ("hotkyes", "Keyboard shortcuts", "hotkeys"),
        ("Porposals", "Proposals", ""),
        ("setting", "Settings", ""),
    ]:
        first = offered(page, typed).first
        expect(first.locator("span").first).to_have_text(name)
        expect(first.locator(".also")).to_have_text([also] if also else [])  # why it is offered
    expect(offered(page, "past").first).to_contain_text("Time travel")
    page.keyboard.press("Enter")
    expect(page.locator("#moment")).to_be_visible()
    page.goto(path("a", "demo", "booking"))
    page.keyboard.press("ControlOrMeta+k")
    expect(offered(page, "monitor").first).to_contain_text("State health")


def test_what_the_page_knows_is_listed_before_the_server_answers_and_keys_are_those_that_were_chosen(
    page: Page,
) -> None:
    page.goto(path("s", *own("keys")))
    page.evaluate("""localStorage.keymap = '{"e": "q"}'""")
    page.reload()
    held: list[Route] = []
    page.route("**/palette/**", lambda route: held.append(route))
    page.keyboard.press("ControlOrMeta+k")
    whole = re.compile(r"/palette/\?q=state\b")
    with page.expect_request(whole):
        page.keyboard.type("state")
    edit = page.get_by_role("option", name="Edit state")
    expect(edit).to_have_text("Edit stateq")
    expect(edit).to_have_attribute("aria-selected", "true")
    with page.expect_response(whole):
        for route in held:
            route.continue_()
    expect(edit).to_have_attribute("aria-selected", "true")


@pytest.mark.long
def test_escape_closes_the_list_and_then_leaves_and_tab_leaves_where_nothing_is_typed(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("a")
    options = page.locator("#queryoptions")
    expect(options).to_be_visible()
    expect(page.locator("#announcer")).to_contain_text("suggestion")
    page.keyboard.press("Escape")
    expect(options).to_be_hidden()
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#query")).not_to_be_focused()
    expect(page.locator("#query")).to_have_value("a")
    page.locator("#query").fill("")
    expect(options).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("#query")).not_to_be_focused()
    expect(page.locator("#query")).to_have_value("")


@pytest.mark.parametrize("language", long_but(["en", "es", "ko"], "es"))
def test_on_a_phone_what_stands_in_the_field_is_not_cut(page: Page, server: Adkweb, language: str) -> None:
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/sessions/")
    needed, room = page.locator("#query").evaluate("""(field) => {
        const pen = document.createElement("canvas").getContext("2d");
        pen.font = getComputedStyle(field, "::placeholder").font;
        return [pen.measureText(field.placeholder).width, field.clientWidth];
    }""")
    assert 0 < needed < room
    page.set_viewport_size({"width": 1440, "height": 844})
    expect(page.locator("#query")).to_have_attribute("placeholder", page.locator("#query").get_attribute("aria-label"))


def test_nothing_is_judged_or_moves_while_a_filter_is_being_typed(page: Page) -> None:
    page.goto("/sessions/")
    field, rows = page.locator("#query"), page.locator(".split")
    field.press_sequentially("tool")
    expect_asked(page, "tool")
    before = rows.bounding_box()
    with page.expect_response(re.compile(r"/sessions/\?q=tool%3A")):
        page.keyboard.type(":")
    expect(page.get_by_role("option").first).to_be_visible()
    expect_asked(page, "tool")
    expect(page.locator("#problems p, #querymarks .bad")).to_have_count(0)
    expect(field).not_to_have_attribute("aria-invalid", "true")
    assert rows.bounding_box() == before
    page.keyboard.press("Enter")
    expect(page.locator("#problems")).to_contain_text("Something is missing after “tool:”")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("usr:x")
    page.wait_for_timeout(400)
    expect(page.locator("#problems")).to_contain_text("tool:")
    field.blur()
    expect(page.locator("#problems")).to_contain_text("There's no filter “usr:”")


@pytest.mark.long
def test_what_is_wrong_is_marked_and_told_and_the_rest_is_used(page: Page) -> None:
    page.goto("/sessions/")
    page.locator("#query").press_sequentially("usr:x seat map")
    page.keyboard.press("Enter")
    expect(page.locator("#querymarks mark.bad")).to_have_text("usr:x")
    expect(page.locator("#problems")).to_contain_text("usr:x")
    expect(page.locator("#query")).to_have_attribute("aria-invalid", "true")
    expect(titles(page).first).to_be_visible()
    page.locator("#query").fill("seat map")
    expect(page.locator("#problems p")).to_have_count(0)
    expect(page.locator("#query")).not_to_have_attribute("aria-invalid", "true")


# --- The table, the histogram, the preview ----------------------------------------------------------------------------


@pytest.mark.long
def test_dragging_sets_the_range_and_so_do_the_arrow_keys(page: Page) -> None:
    page.goto("/sessions/?sort=-took")
    rows = page.locator(".sessions [data-row]")
    expect(page.locator("#preview .scroll")).to_be_visible()
    everything = rows.count()
    box = page.locator(".range").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 10, steps=3)
    expect(page.locator(".range > .tip")).to_contain_text("–")
    page.mouse.up()
    expect(page.locator("#query")).to_have_value(re.compile(r"^after:\S+ before:\S+$"))
    assert asked(page)["sort"] == "-took"
    expect(page.locator(".range rect.chosen")).to_have_count(1)
    thumb = page.get_by_role("slider", name="Start of the range")
    before = page.locator("#query").input_value()
    said = thumb.get_attribute("aria-valuetext")
    thumb.focus()
    page.keyboard.press("ArrowLeft")
    expect(thumb).not_to_have_attribute("aria-valuetext", said or "")
    page.keyboard.press("Enter")
    expect(page.locator("#query")).not_to_have_value(before)
    expect(page.get_by_role("slider", name="Start of the range")).to_be_focused()
    page.get_by_role("link", name="All times").click()
    expect(page.locator("#query")).to_have_value("")
    expect(rows).to_have_count(everything)


def test_columns_are_chosen_ordered_and_kept_in_the_address(page: Page) -> None:
    page.goto("/sessions/?q=user:ana")
    heads = page.locator(".sessions th")
    page.locator(".columnsmenu summary").click()
    page.get_by_label("Tokens", exact=True).uncheck()
    expect(heads).not_to_contain_text(["Tokens"])
    page.get_by_role("button", name="Move Took to the left").click()
    expect(heads).to_have_text(["Status", "Session", "User", "App", "Took", "Started", "Turns", "Events"])
    page.get_by_label("State key").fill("booking_step")
    page.keyboard.press("Enter")
    expect(heads.last).to_have_text("booking_step")
    expect(page.locator(".columnsmenu .menu-items")).to_be_visible()
    page.reload()
    expect(heads.last).to_have_text("booking_step")
    page.get_by_role("link", name="Took").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Took")
    page.locator("#query").fill("user:omar")
    expect_asked(page, "user:omar")
    expect(heads.last).to_have_text("booking_step")
    assert asked(page)["sort"] == "-took"


@pytest.mark.long
def test_a_session_is_one_row_of_36_px_and_on_a_phone_two_lines(page: Page) -> None:
    page.goto("/sessions/")
    row = page.locator(".sessions [data-row]").first
    expect(row).to_be_visible()
    assert round(row.bounding_box()["height"]) in (36, 37)  # type: ignore[index]
    expect(row.locator(".when")).to_have_text(re.compile(r"^(\d\d? \w+, )?\d\d:\d\d"), use_inner_text=True)
    page.set_viewport_size({"width": 390, "height": 844})
    tops = row.locator("td:visible:not(.statuscell)").evaluate_all(
        "all => [...new Set(all.map((each) => Math.round(each.getBoundingClientRect().top)))]"
    )
    assert len(tops) == 2
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_bar_says_what_it_counts(page: Page) -> None:
    page.goto("/sessions/")
    most = page.locator(".range > .most").inner_text().split()[-1]
    bars = (page.locator(".range").get_attribute("data-bars") or "").split("|")
    highest = next(number for number, bar in enumerate(bars) if f" · {most} session" in bar)
    box = page.locator(".range").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * (highest + 0.5) / len(bars), box["y"] + 20)
    expect(page.locator(".range > .tip")).to_have_text(bars[highest])


@pytest.mark.parametrize("before", ["", "/"])
def test_the_row_that_looks_chosen_is_the_one_that_x_selects(page: Page, before: str) -> None:
    page.goto(before or "/sessions/")
    if before:  # who comes from another page begins in #main
        page.get_by_role("banner").get_by_role("link", name="Sessions").click()
        expect(page.locator("#main")).to_be_focused()
    expect(page.locator(".sessions .previewed")).to_have_count(1)
    page.keyboard.press("x")
    expect(page.locator(".sessions .previewed input[name=ref]")).to_be_checked()
    page.keyboard.press("j")
    expect(titles(page).nth(1)).to_be_focused()


def test_enter_opens_the_row_that_looks_chosen(page: Page) -> None:
    page.goto("/sessions/")
    expect(page.locator("#preview")).to_contain_text("enter opens")
    address = page.locator(".sessions .previewed .rowlink").get_attribute("href") or ""
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address}")


def test_the_preview_follows_the_row_and_is_not_there_on_a_narrow_screen(page: Page) -> None:
    page.goto("/sessions/")
    title = page.locator("#preview h2")
    expect(title).to_have_text(titles(page).first.inner_text())
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(title).to_have_text(titles(page).nth(1).inner_text())
    page.keyboard.press("k")
    expect(title).to_have_text(titles(page).first.inner_text())
    titles(page).nth(2).hover()
    expect(title).to_have_text(titles(page).nth(2).inner_text())
    status = page.locator(".sessions .previewed .status").get_attribute("title")
    expect(page.locator("#preview .facts")).to_have_text(re.compile(f"^{status} · "))
    page.set_viewport_size({"width": 800, "height": 900})
    expect(page.locator("#preview")).to_be_hidden()


@pytest.mark.long
def test_it_works_without_scripts(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto("/")
    page.get_by_label("Find sessions").fill("seat map unreachable")
    page.keyboard.press("Enter")
    expect(titles(page)).to_have_count(1)
    page.get_by_role("link", name="Took").click()
    assert asked(page) == {"q": "seat map unreachable", "sort": "-took"}
    page.locator(".columnsmenu summary").click()
    page.get_by_label("Tokens", exact=True).uncheck()
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".sessions th").last).to_have_text("Events")
    titles(page).click()
    expect(page.locator(".ev.selected")).to_contain_text(ERROR)
