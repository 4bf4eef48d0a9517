"""For those who use keys and screen readers: keys can be switched off, a page begins where it is new, and news is said."""

from __future__ import annotations

import re
from html import unescape
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.places import SEOUL, own, path
from tests.browser.serving import Adkweb
from tests.browser.watching import insert
from tests.parts import long_but

REF = own("keys")
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def change(page: Page, action: str, key: str) -> None:
    """Presses `key` for an action, where the list of keys is open."""
    page.get_by_role("button", name=f"Change the key for {action}", exact=True).click()
    page.keyboard.press(key)


def test_keys_of_one_letter_can_be_switched_off_and_stay_so(page: Page) -> None:
    page.goto(path("s", *REF))
    page.keyboard.press("?")
    switch = page.get_by_role("dialog").get_by_label("Single-key shortcuts")
    expect(switch).to_be_checked()
    switch.uncheck()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator("#stats")).to_contain_text("event")
    for key in "?ej":
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("form.editbox")).to_have_count(0)
    expect(page.locator(".ev .line:focus")).to_have_count(0)
    page.locator(".topbar .menu summary").click()
    page.get_by_role("button", name="Single-key shortcuts").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_key_that_is_pressed_before_the_scripts_of_a_page_have_come_is_not_lost(page: Page) -> None:
    held: list[Route] = []
    page.route("**/js/pages.js*", lambda route: held.append(route))
    page.goto(path("s", *REF), wait_until="commit")
    expect(page.locator(".ev .line").last).to_be_visible()
    for key in "kke":  # two rows up, to the form
        page.keyboard.press(key)
    held[0].continue_()
    field = page.get_by_label("Key to edit or add")
    expect(field).to_be_focused()
    expect(field).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator(".ev .line").first).to_be_focused()


def test_the_list_of_keys_has_every_key_that_a_page_waits_for() -> None:
    pages = "".join(file.read_text("utf-8") for file in TEMPLATES.rglob("*.html"))
    waited = {unescape(key) for key in re.findall(r'data-(?:row-)?key="([^"{]+)"', pages)} - {"Escape"}
    listed = re.findall(r'data-hint="([^"]+)"', (TEMPLATES / "_keys.html").read_text("utf-8"))
    assert {"e", "<", "x", "1"} <= waited <= set(map(unescape, listed))
    assert len(listed) == len(set(listed))


def test_no_key_has_two_meanings_on_a_page() -> None:
    areas = re.findall(r'data-area="(\w+)"(.+?)</section>', (TEMPLATES / "_keys.html").read_text("utf-8"), re.DOTALL)
    keys = {area: [unescape(hint)[0] for hint in re.findall(r'data-hint="([^"]+)"', rows)] for area, rows in areas}
    everywhere = keys.pop("everywhere")
    keys["inbox"].remove("o")  # only in a row, whose own keys come first
    session = [*keys.pop("session"), *keys.pop("key"), *keys.pop("past")]
    for there in (session, *keys.values()):
        assert len({*everywhere, *there}) == len(everywhere) + len(there)


def test_a_key_is_changed_in_every_tab_and_stays_so_and_that_of_another_action_is_refused(page: Page) -> None:
    page.goto(path("s", *REF))
    other = page.context.new_page()
    other.goto(path("s", *REF))
    edit = page.get_by_role("link", name="Edit state")
    expect(edit).to_have_text("Edit state e", use_inner_text=True)
    page.keyboard.press("?")
    change(page, "edit state", "q")
    said = page.locator("dialog#keys [data-said]")
    expect(said).to_have_text("“q” is now assigned to “edit state”.")
    change(page, "chat", "!")
    page.get_by_role("button", name="Close").click()
    for each in (page, other):
        expect(each.get_by_role("link", name="Edit state")).to_have_text("Edit state q", use_inner_text=True)
        expect(each.get_by_role("link", name="Chat")).to_have_attribute("title", "!")
        each.keyboard.press("e")
        expect(each.locator("form.editbox")).to_have_count(0)
        each.keyboard.press("q")
        expect(each.locator("form.editbox")).to_be_visible()
    page.keyboard.press("Escape")
    page.reload()
    expect(edit).to_have_text("Edit state q", use_inner_text=True)
    page.keyboard.press("?")
    page.get_by_role("button", name="Reset all keys").click()
    expect(said).to_have_text("All keys are set to their defaults.")
    page.get_by_role("button", name="Close").click()
    for each in (page, other):
        expect(each.get_by_role("link", name="Edit state")).to_have_text("Edit state e", use_inner_text=True)
    page.keyboard.press("e")
    expect(page.locator("form.editbox")).to_be_visible()
    page.keyboard.press("Escape")

    # A key of another action is refused, and Escape leaves the key as it is.
    page.keyboard.press("?")
    change(page, "edit state", "j")
    expect(said).to_have_text("“j” is already assigned to “next”. Press another key, or Escape.")
    page.keyboard.press("Escape")
    expect(said).to_be_empty()
    expect(page.locator("dialog#keys")).to_be_visible()
    expect(page.locator("dialog#keys [data-hint=e]")).to_have_text("e")
    change(page, "edit state", "Tab")  # goes on to the next button
    page.keyboard.press("w")
    expect(page.locator("dialog#keys [data-hint=e]")).to_have_text("e")
    change(page, "next", "n")
    expect(said).to_contain_text("is already assigned to “new session")
    page.keyboard.press("z")
    change(page, "edit state", "j")  # which is free now
    expect(said).to_have_text("“j” is now assigned to “edit state”.")
    assert page.evaluate("JSON.parse(localStorage.keymap)") == {"j": "z", "e": "j"}
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("z")
    expect(page.locator(".ev .line:focus")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator("form.editbox")).to_be_visible()


def test_the_keys_of_the_page_are_listed_first_and_those_that_go_with_what_is_typed(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.keyboard.press("?")
    heads = page.locator("dialog#keys [role=heading]:visible")
    expect(heads.first).to_have_text("Session this page")
    expect(page.get_by_role("searchbox", name="Filter shortcuts")).to_be_focused()
    page.keyboard.type("pin the")
    expect(page.locator("dialog#keys dl > div:visible")).to_have_count(1)
    expect(heads).to_have_count(1)
    change(page, "pin the key to the strip", "z")
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("k")
    page.keyboard.press("F6")  # to the first key of the state
    page.keyboard.press("z")
    expect(page.locator("#state [data-pin-key]").first).to_have_attribute("aria-pressed", "true")


def test_a_letter_leads_to_a_page_after_the_key_for_that(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.keyboard.press("o")
    pages = page.get_by_role("navigation", name="Go to a page")
    expect(pages).to_be_visible()
    page.keyboard.press("Escape")
    expect(pages).to_be_hidden()
    page.keyboard.press("o")
    page.keyboard.press("s")
    page.wait_for_url(re.compile("/sessions/$"))  # and until it has loaded: before, a key does nothing
    page.keyboard.press("o")
    expect(pages).to_be_visible()
    page.keyboard.press("h")
    expect(page).to_have_url(re.compile("[0-9]/$"))


@pytest.mark.long
def test_what_is_shown_later_shows_the_changed_keys_and_the_list_of_sessions_knows_them(page: Page) -> None:
    page.goto("/sessions/")
    page.keyboard.press("?")
    change(page, "select a session", "z")
    change(page, "extend the selection to here", "Shift+Z")
    change(page, "previous event", "w")
    page.get_by_role("button", name="Close").click()
    for key in ("j", "x", "z", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    expect(page.locator("input[name=ref]:checked")).to_have_count(1)
    expect(page.locator(".chosenbar > .keyhints kbd").nth(1)).to_have_text("⇧z")
    page.keyboard.press("Shift+Z")
    expect(page.locator("input[name=ref]:checked")).to_have_count(3)
    page.goto(path("s", *REF))
    page.locator(".ev .line").first.click()
    expect(page.get_by_role("link", name="Previous event")).to_have_attribute("title", "w")
    expect(page.get_by_role("link", name="Next event")).to_have_attribute("title", "]")


@pytest.mark.long
def test_a_map_of_keys_that_is_not_one_is_ignored(page: Page) -> None:
    page.goto(path("s", *REF))
    edit = page.get_by_role("link", name="Edit state")
    no_maps = ("{", "[]", '"ab"', "null", "7", '{"constructor": "e"}')
    no_keys = ('{"e": 1}', '{"e": "ab"}', '{"e": " "}', '{"e": ""}', '{"gone": "e"}', '{"e": "j"}')
    for stored in (*no_maps, *no_keys):
        page.evaluate("stored => localStorage.setItem('keymap', stored)", stored)
        page.reload()
        expect(edit).to_have_text("Edit state e", use_inner_text=True)
        page.keyboard.press("j")
        expect(page.locator(".ev .line:focus")).to_have_count(1)
    page.keyboard.press("e")
    expect(page.locator("form.editbox")).to_be_visible()
    page.evaluate("""localStorage.setItem('keymap', '{"e": "w", "u": "j", "n": 5}')""")  # one of three can be used
    page.reload()
    expect(edit).to_have_text("Edit state w", use_inner_text=True)
    page.keyboard.press("?")
    expect(page.locator("dialog#keys [data-hint=u]")).to_have_text("u")


@pytest.mark.long
def test_a_page_begins_at_the_top_and_behind_it_for_who_comes_from_another_page(page: Page) -> None:
    page.goto(path("u", *REF[:3]))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("main").get_by_role("link", name=REF.session_id).first.click()
    expect(page.locator("#stats")).to_contain_text("event")
    expect(page.locator("#main")).to_be_focused()
    page.goto(path("s", *REF, end="edit/?key=step"))
    expect(page.locator("json-editor .cm-content")).to_be_focused()


def test_new_events_are_said_in_few_words(page: Page, server: Adkweb) -> None:
    ref = own("announced")
    page.goto(path("s", *ref))
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    insert(server.demo, ref.session_id, 1, user=ref.user_id)
    expect(page.locator("#announcer")).to_contain_text("1 new event")


def test_escape_leads_back_to_where_one_was_before_a_key_went_elsewhere(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    row = page.locator(".ev .line").last
    row.focus()
    for key in "?oegrlf/a":
        page.keyboard.press(key)
        if key == "a":
            expect(page.locator("#pane-title")).to_have_text("Add event")
        elif key == "e":
            expect(page.locator("#edit input")).not_to_have_count(0)
        page.keyboard.press("Escape")
        expect(row, key).to_be_focused()


def test_a_list_that_a_menu_opened_gives_the_focus_back_to_the_menu(page: Page) -> None:
    page.goto("/sessions/")
    menu = page.locator(".topbar .account")
    menu.click()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()


# --- Panes ------------------------------------------------------------------------------------------------------------

FOCUSED = "name => name.contains(document.activeElement) && document.activeElement.matches(':focus-visible')"


def is_in(page: Page, where: str) -> bool:
    """Returns whether the visible focus is within what a selector finds."""
    return bool(page.locator(where).evaluate(FOCUSED))


WAYS = list(product(["chat", "events", "trace"], [False, True]))


@pytest.mark.parametrize("way", long_but(WAYS, ("chat", False), ("events", True), ("trace", False)), ids=str)
def test_a_key_goes_from_the_timeline_to_the_state_and_back_to_where_one_was(page: Page, way: tuple[str, bool]) -> None:
    density, narrow = way
    if narrow:
        page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path("s", *SEOUL, end=f"?density={density}"))
    expect(page.locator("#state .key[tabindex], #state [data-key-row] summary").first).to_be_attached()
    page.keyboard.press("k")
    page.keyboard.press("k")
    row = page.evaluate("document.activeElement.closest('[data-row]').id")
    page.keyboard.press("F6")
    assert is_in(page, "#state [data-key-row] >> nth=0")
    page.keyboard.press("ArrowDown")
    key = page.evaluate("document.activeElement.closest('[data-key-row]').dataset.keyRow")
    for there, back in ((";", ";"), ("F6", "Shift+F6"), ("Shift+F6", "F6")):
        page.keyboard.press(back)
        assert is_in(page, f"[id='{row}']")
        expect(page.locator(f"[id='{row}']")).to_be_in_viewport()
        page.keyboard.press(there)
        assert is_in(page, f"#state [data-key-row='{key}']")
        expect(page.locator(f"#state [data-key-row='{key}']")).to_be_in_viewport()


def test_a_key_goes_to_what_stands_beside_the_timeline_and_back_to_the_event_that_is_shown(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.locator(".ev .line").nth(3).click()
    expect(page.locator("#moment .then")).to_contain_text("Event 26")
    page.keyboard.press("F6")
    assert is_in(page, "#moment")
    page.keyboard.press("[")
    expect(page.locator("#moment .then")).to_contain_text("Event 25")
    shown = page.locator(".ev.selected").get_attribute("id")
    page.keyboard.press(";")
    assert is_in(page, f"[id='{shown}']")
    page.locator("#moment").get_by_role("link", name="Fork…").click()
    expect(page.locator("#pane-title")).to_be_focused()
    page.get_by_role("textbox", name="Reason").focus()
    page.keyboard.press("F6")  # from a field, where ; is a letter
    assert is_in(page, f"[id='{shown}']")
    page.keyboard.press("Shift+F6")
    expect(page.get_by_role("textbox", name="Reason")).to_be_focused()


@pytest.mark.parametrize("narrow", [False, True])
def test_the_second_stop_of_a_session_leads_to_its_state(page: Page, narrow: bool) -> None:
    if narrow:
        page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path("s", *SEOUL))
    expect(page.locator("#stats")).to_contain_text("event")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to state")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    assert is_in(page, "#state [data-key-row] >> nth=0")
    assert page.url.endswith(path("s", *SEOUL))


@pytest.mark.parametrize(("address", "first"), [("/people/", "For"), ("/roles/", "Who")])
def test_what_can_be_added_opens_in_its_first_field_and_its_head_stays_that_of_a_card(
    page: Page, address: str, first: str
) -> None:
    page.goto(address)
    head = page.locator("details.adding > summary").first
    if head.locator("xpath=..").get_attribute("open") is not None:
        head.click()
    head.click()
    expect(page.get_by_label(first, exact=True)).to_be_focused()
    expect(head).to_have_css("background-color", "rgba(0, 0, 0, 0)")  # the pointer is on it
