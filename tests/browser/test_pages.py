"""What a person does on each page: by keyboard, without scripts, on a narrow screen, in another language."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Error, Locator, Page, expect

from tests.browser.conftest import Sweep, Visit, Watch
from tests.browser.places import EACH_PAGE, PLACES, SEOUL, add_key, open_event, open_form, own, path, type_json
from tests.browser.seed import LONG, LONG_EVENTS
from tests.browser.watching import AS_CLICKED, two_frames
from tests.parts import in_two_parts

SESSION = path("s", *SEOUL)


def follow(page: Page, key: str) -> None:
    """Presses a key that leads to another page, and waits for it."""
    with page.expect_event("load"):
        page.keyboard.press(key)


def tap(locator: Locator) -> None:
    """Clicks what is in sight already; Playwright's own click scrolls what sticks to the edge to the middle first."""
    box = locator.bounding_box()
    assert box
    locator.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def row_of_focus(page: Page) -> Locator:
    """The row that the keyboard is on."""
    return page.locator("[data-row]:has(:focus)")


# --- Keyboard ---------------------------------------------------------------------------------------------------------


def test_keys_move_through_the_timeline_open_events_beside_it_and_lead_to_forms_and_back(page: Page) -> None:
    page.goto(path("s", *own("keys")))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    events = page.locator(".ev")
    page.keyboard.press("j")
    expect(events.nth(1).locator("a.line")).to_be_focused()  # a reader of a timeline is at its end
    page.keyboard.press("k")
    expect(events.nth(0).locator("a.line")).to_be_focused()
    page.keyboard.press("k")
    expect(events.nth(0).locator("a.line")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#moment .then")).to_contain_text("Event")
    page.locator("#show-event").press("Enter")
    expect(page.locator("#detail")).to_contain_text("Where to?")
    expect(page.locator("#state")).to_be_hidden()
    expect(events.nth(1)).to_have_class(re.compile("selected"))
    events.nth(1).locator("a.line").focus()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_contain_text("Hello from keys")
    expect(page.locator(".ev.selected")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    expect(page.locator("#state")).to_be_visible()
    expect(page.locator(".ev.selected")).to_have_count(0)
    expect(events.nth(0).locator("a.line")).to_be_focused()
    expect(page).to_have_url(re.compile("/keys/$"))

    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    expect(page.locator("dialog#keys")).to_contain_text("previous")
    page.keyboard.press("a")  # belongs to the page below
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.get_by_label("Key to edit or add")).to_be_focused()
    page.keyboard.type("a?n")  # typed, not pressed
    expect(page.get_by_label("Key to edit or add")).to_have_value("a?n")
    page.keyboard.press("Escape")
    expect(page.locator("form.editbox")).to_have_count(0)
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile(r"/keys/\?pane=add$"))
    page.get_by_label("Reason").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#pane")).to_be_hidden()
    expect(page).to_have_url(re.compile("/keys/$"))


def test_keys_move_through_tables_and_make_a_session(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("j")
    expect(row_of_focus(page)).to_contain_text("booking")
    page.keyboard.press("j")
    expect(row_of_focus(page)).to_contain_text("claims")
    follow(page, "Enter")
    expect(page.get_by_role("heading", name="claims", exact=True)).to_be_visible()
    follow(page, "n")
    expect(page.get_by_role("heading", name="New session")).to_be_visible()
    expect(page.get_by_label("App", exact=True)).to_have_value("claims")


@pytest.mark.long
def test_keys_go_from_event_to_event(page: Page) -> None:
    page.goto(SESSION)
    numbers = page.locator(".ev .seq").all_inner_texts()
    open_event(page, page.locator(".ev .line").nth(5))
    with page.expect_event("load"):
        page.get_by_role("link", name="Open as a page").click()
    for key, number in (("", numbers[5]), ("j", numbers[6]), ("k", numbers[5]), ("k", numbers[4])):
        if key:
            follow(page, key)
        expect(page.get_by_role("heading", name=f"Event {number}", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Seoul trip")).to_be_visible()
    expect(page.locator(".ev:target")).to_be_in_viewport()


# --- The session page -------------------------------------------------------------------------------------------------


@in_two_parts(["Errors"], ["Messages", "Tools", "State", "Errors"])
def test_filters_show_the_events_that_they_name(page: Page, names: list[str]) -> None:
    page.goto(path("s", "demo", "booking", "ana", "december-trip"))
    filters = page.get_by_role("navigation", name="Filters")
    everything = page.locator(".ev").count()
    for name in names:
        chip = filters.get_by_role("link", name=re.compile(f"^{name} [0-9]+$"))  # the number arrives after the page
        expect(chip).to_be_visible()
        number = int(chip.locator(".n").inner_text())
        chip.click()
        expect(chip).to_have_attribute("aria-current", "true")
        expect(page.locator(".ev")).to_have_count(number)
        assert 0 < number < everything
    filters.get_by_role("link", name="All").click()
    expect(page.locator(".ev")).to_have_count(everything)
    page.wait_for_load_state()  # before, a click leads to the event's own page
    open_event(page, page.locator(".ev .line").last)
    page.locator(".facts").get_by_role("link", name="booking").click()
    expect(page.locator(".ev .who", has_not_text="booking")).to_have_count(0)
    filters.get_by_role("link", name="Show every author").click()
    expect(page.locator(".ev")).to_have_count(everything)


def test_earlier_events_do_not_move_what_is_being_read(page: Page) -> None:
    page.add_init_script(AS_CLICKED)
    page.goto(path("s", *LONG))
    expect(page.get_by_role("slider", name="Time travel")).to_be_visible()  # which takes room above
    expect(page.locator(".ev")).to_have_count(50)
    expect(page.locator(".ev").last).to_be_in_viewport()
    for shown in range(100, LONG_EVENTS + 1, 50):
        page.locator("[data-timeline]").evaluate("box => { box.scrollTop = 200 }")
        two_frames(page)  # what follows a scroll is done in the next frame
        read = page.locator(".ev").nth(7)
        name = read.get_attribute("id")
        before = read.bounding_box()
        page.get_by_role("link", name="Earlier events").dispatch_event("click")
        expect(page.locator(".ev")).to_have_count(shown)
        after = page.locator(f"[id='{name}']").bounding_box()
        assert before
        assert after
        assert after["y"] == pytest.approx(before["y"], abs=2)
    expect(page.get_by_role("link", name="Earlier events")).to_have_count(0)
    expect(page.locator(".ev").first).to_contain_text("Message 0")
    assert page.locator(".ev .seq").all_inner_texts() == sorted(page.locator(".ev .seq").all_inner_texts(), key=int)


@pytest.mark.parametrize("width", [1440, 1800])
def test_what_comes_after_a_session_page_does_not_move_it(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script("""window.tops = new Set();
        (function look() {
            const split = document.querySelector(".split");
            if (split) tops.add(split.getBoundingClientRect().top);
            requestAnimationFrame(look);
        })();""")
    page.goto(path("s", "demo", "booking", "ana", "madrid-return"))
    expect(page.locator("#stats")).to_contain_text("8 events")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    two_frames(page)
    assert len(page.evaluate("[...tops]")) == 1


@pytest.mark.long
def test_the_id_is_copied(visit: Visit) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.goto(SESSION)
    page.get_by_role("button", name="Copy the session id").click()
    expect(page.locator("#copy-status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "seoul-trip"


# --- Editing ----------------------------------------------------------------------------------------------------------


def test_enter_in_the_reason_applies_the_edit(page: Page) -> None:
    page.goto(path("s", *own("enter-applies")))
    page.get_by_role("link", name="Edit step").dispatch_event("click")
    type_json(page, '"pay"')
    page.get_by_label("Reason").fill("by Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator(".ev").last.locator(".delta")).to_have_text('step "choose" "pay"')


@pytest.mark.long
def test_several_keys_are_one_edit(page: Page) -> None:
    page.goto(path("s", *own("several-keys")))
    page.keyboard.press("e")
    for number, key in enumerate(("step", "count", "note", "brand new")):
        if number:
            page.locator(".another > summary").click()
        page.get_by_label("Key to edit or add").fill(key)
        page.keyboard.press("Enter")
        expect(page.locator(".editrow")).to_have_count(number + 1)
    type_json(page, '"pay"', 0)
    page.get_by_label("What to do with this key").nth(1).select_option("Remove key")
    expect(page.locator("json-editor").nth(1)).to_be_hidden()
    page.get_by_label("Remove note from this edit").click()
    expect(page.locator(".editrow")).to_have_count(3)
    expect(page.locator("json-editor").nth(0)).to_contain_text("pay")  # what was typed stays
    type_json(page, '{"a": [1, null]}', 2)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    chips = page.locator(".ev").last.locator(".delta")
    expect(chips).to_have_text(['step "choose" "pay"', "count 4 removed", "brand new {a: [1, null]}"])


@pytest.mark.long
def test_a_value_that_is_no_json_is_refused_at_its_place(page: Page) -> None:
    open_form(page, own("refused"), "step", "count")
    type_json(page, "{'single': 1}", 1)
    expect(page.locator(".json-type.bad")).to_contain_text("line 1, column 2")
    page.get_by_label("Reason").press("ControlOrMeta+Enter")
    expect(page.locator("json-editor .cm-content").nth(1)).to_be_focused()
    expect(page.get_by_text("Saved as event #")).to_have_count(0)


@pytest.mark.long
def test_a_refused_form_comes_back_filled(page: Page, watch: Watch) -> None:
    watch.allow(400)
    open_form(page, own("refused"), "step")
    page.get_by_label("Reason").fill("no reason")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing would change")
    expect(page.get_by_label("Reason")).to_have_value("no reason")
    expect(page.locator(".editrow")).to_have_count(1)
    type_json(page, '"pay"')
    add_key(page, "temp:x")
    expect(page.locator(".editrow")).to_have_count(2)
    type_json(page, "1", 1)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("temp:")
    expect(page.locator("json-editor .cm-content").nth(0)).to_contain_text("pay")
    expect(page.locator("json-editor .cm-content").nth(1)).to_contain_text("1")
    watch.stay = False


def test_leaving_an_edited_form_is_asked_and_the_draft_comes_back(page: Page, watch: Watch) -> None:
    session = path("s", *own("draft"))
    page.goto(session)
    page.get_by_role("link", name="Edit step").dispatch_event("click")
    expect(page.locator("json-editor .cm-content")).to_be_visible()
    page.goto("/tokens/")  # nothing was typed: nobody is asked
    page.goto(session)
    page.get_by_role("link", name="Edit step").dispatch_event("click")
    type_json(page, '"half-way')
    watch.stay = False
    page.reload()
    assert watch.asked == 1
    page.get_by_role("link", name="Edit count").dispatch_event("click")
    expect(page.locator("json-editor .cm-content")).to_have_text("4")  # a draft belongs to its key
    page.get_by_role("link", name="Edit step").dispatch_event("click")
    expect(page.locator("json-editor .cm-content")).to_contain_text('"half-way')
    add_key(page, "count")
    expect(page.locator(".editrow")).to_have_count(2)
    page.reload()  # still asked: the form that came back has what was typed
    assert watch.asked == 2


@pytest.mark.long
def test_a_second_conflict_asks_again_and_brings_back_what_was_sent_without_a_word(
    page: Page, visit: Visit, watch: Watch
) -> None:
    watch.allow(409)
    ref, other = own("conflict-again"), visit()

    def write(value: int) -> None:
        open_form(other, ref, "count")
        type_json(other, str(value))
        other.get_by_role("button", name="Apply").click()
        expect(other.get_by_text("Saved as event #")).to_be_visible()

    open_form(page, ref, "count")
    type_json(page, "7")
    page.get_by_label("Reason").fill("why not")
    for value, button in ((10, "Apply"), (11, "Apply my choice")):
        write(value)
        page.get_by_role("button", name=button).click()
        expect(page.locator(".theirs")).to_contain_text(str(value))
        expect(page.locator(".yours")).to_contain_text("7")
        expect(page.get_by_label("Reason")).to_have_value("why not")
        expect(page.get_by_label("Write mine")).not_to_be_checked()
        expect(page.locator("[data-guard-restored]")).to_be_hidden()
        page.get_by_label("Write mine").check()
    page.get_by_role("button", name="Apply my choice").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator("#state .kv:has(> .key[title='count']) > .value")).to_have_text("7")


@pytest.mark.guarantee("Edits", "You don't lose what you typed if a form is rejected or the connection is lost.")
@pytest.mark.long
def test_what_was_sent_into_a_lost_connection_is_kept(page: Page, watch: Watch) -> None:
    watch.excuse("net::ERR", "htmx:sendError")
    watch.stay = False
    ref = own("conflict-again")
    open_form(page, ref, "step")
    type_json(page, '"pay"')
    page.context.set_offline(True)
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".toast")).to_be_visible()
    page.context.set_offline(False)
    page.reload()
    expect(page.locator("[data-guard-restored]")).to_be_visible()
    expect(page.locator("json-editor .cm-content")).to_contain_text("pay")


def test_an_event_is_added_by_hand(page: Page, watch: Watch) -> None:
    watch.allow(400)
    page.goto(path("s", *own("add-event"), end="add/"))
    type_json(page, '{"author": "user",}')
    expect(page.locator(".json-type.bad")).to_contain_text("line 1, column 18")
    page.get_by_role("button", name="Add event").click()
    expect(page.locator("json-editor .cm-content")).to_be_focused()
    type_json(page, '{"actions": {"state_delta": []}}')
    page.get_by_label("Reason").fill("to try")
    page.get_by_role("button", name="Add event").click()
    expect(page.get_by_role("alert")).to_contain_text("actions.state_delta: must be an object")
    expect(page.locator("json-editor .cm-content")).to_contain_text("state_delta")
    expect(page.get_by_label("Reason")).to_have_value("to try")
    event = {"author": "user", "content": {"role": "user", "parts": [{"text": "By hand ✍️"}]}}
    type_json(page, json.dumps({**event, "actions": {"state_delta": {"step": "hand"}}}, ensure_ascii=False))
    page.get_by_role("button", name="Add event").click()
    expect(page.get_by_text("The event was added.")).to_be_visible()
    last = page.locator(".ev").last
    expect(last).to_be_in_viewport()
    expect(last).to_contain_text("By hand ✍️")
    expect(last.locator(".delta")).to_have_text('step "choose" "hand"')


# --- Sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_is_made_with_initial_state(page: Page, watch: Watch) -> None:
    watch.allow(400, 409)
    page.goto(path("a", "demo", "booking"))
    page.get_by_role("link", name="New session").click()
    page.get_by_label("User", exact=True).fill("지우/../ñ")
    page.get_by_label("Session id").fill("made here #1")
    type_json(page, "[1]")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#state_error")).to_contain_text(
        "The initial state must be a JSON object with the state's keys"
    )
    expect(page.get_by_label("Session id")).to_have_value("made here #1")
    type_json(page, '{"first": 1, "user:likes": ["녹차"]}')
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("Session created.")).to_be_visible()
    expect(page.get_by_role("heading", name="made here #1")).to_be_visible()
    expect(page.locator("#state")).to_contain_text("user:likes")
    expect(page.locator("#state .kv", has_text="first")).to_contain_text("created")
    page.go_back()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#session_id_error")).to_contain_text("already a session")
    watch.stay = False  # what the refused form holds is not lost unasked
    page.locator("#session_id_error").get_by_role("link").click()
    expect(page.get_by_role("heading", name="made here #1")).to_be_visible()


def test_deleting_needs_the_id_typed(page: Page) -> None:
    page.goto(path("s", *own("delete-me")))
    page.locator(".rare > summary").click()
    page.get_by_role("link", name="Delete", exact=True).click()
    button = page.get_by_role("button", name="Delete")
    expect(button).to_be_disabled()
    page.get_by_label("Enter the session id to confirm").fill("delete-m")
    expect(button).to_be_disabled()
    page.get_by_label("Enter the session id to confirm").fill("delete-me")
    button.click()
    expect(page.get_by_text("Session “delete-me” deleted.")).to_be_visible()
    expect(page.get_by_role("link", name="delete-me")).to_have_count(0)


# --- Without scripts --------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("Live pages", "You can read every page without JavaScript.")
def test_everything_is_read_without_scripts(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto("/")
    page.get_by_role("main").get_by_role("link", name="booking", exact=True).click()
    page.get_by_role("main").get_by_role("link", name="ana", exact=True).first.click()
    page.get_by_role("row").get_by_role("link", name="Seoul trip", exact=True).first.click()
    expect(page.get_by_role("heading", name="Seoul trip")).to_be_visible()
    expect(page.locator("#state .key[title='user:tier']")).to_be_visible()
    number = page.locator(".ev .seq").last.inner_text()
    page.locator(".ev .line").last.click()
    expect(page.get_by_role("heading", name=f"Event {number}", exact=True)).to_be_visible()
    expect(page.locator(".parts")).to_contain_text("You are welcome")
    page.goto(path("s", *LONG))
    expect(page.locator(".ev").last).to_contain_text(f"Message {LONG_EVENTS - 1}")
    page.get_by_role("link", name="Earlier events").click()
    expect(page.locator(".ev").last).to_contain_text(f"Message {LONG_EVENTS - 51}")
    expect(page.get_by_role("heading", name="long")).to_be_visible()  # a page, not a piece of one


def test_state_is_edited_without_scripts(visit: Visit, watch: Watch) -> None:
    watch.allow(400, 409)
    page, other = visit(java_script_enabled=False), visit(java_script_enabled=False)
    for each in (page, other):
        each.goto(path("s", *own("plain")))
        each.get_by_role("link", name="Edit state").click()
        each.get_by_label("Key to edit or add").fill("step")
        each.keyboard.press("Enter")
    value = page.get_by_label("Value of step")
    expect(value).to_have_value("choose")
    page.get_by_label("number").check()
    value.fill("pay")
    page.get_by_label("Reason").fill("no scripts")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".error")).to_be_visible()
    expect(value).to_have_value("pay")
    expect(page.get_by_label("Reason")).to_have_value("no scripts")
    page.get_by_label("string").check()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator(".ev").last.locator(".delta")).to_have_text('step "choose" "pay"')
    other.get_by_label("Value of step").fill("fly")
    other.get_by_role("button", name="Apply").click()
    expect(other.locator(".theirs")).to_contain_text('"pay"')
    other.get_by_label("Keep this value").check()
    other.get_by_role("button", name="Apply my choice").click()
    expect(other.get_by_text("Nothing was written")).to_be_visible()
    expect(other.locator(".ev").last.locator(".delta")).to_have_text('step "choose" "pay"')


# --- Themes, languages, widths ----------------------------------------------------------------------------------------


def test_the_theme_is_chosen_and_stays(page: Page) -> None:
    page.goto("/roles/")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    toggle = page.locator("[data-theme-toggle]")
    expect(toggle).to_have_accessible_name("Theme: system")
    toggle.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    toggle.click()
    expect(toggle).to_have_accessible_name("Theme: dark")
    page.goto("/tokens/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background
    toggle.click()
    page.reload()
    expect(toggle).to_have_accessible_name("Theme: system")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background


@pytest.mark.parametrize(
    ("name", "code", "edits"),
    [("Español", "es", "Ediciones"), pytest.param("한국어", "ko", "편집", marks=pytest.mark.long)],
)
def test_the_language_is_chosen_and_stays(page: Page, name: str, code: str, edits: str) -> None:
    address = path("s", *own("keys"), end="history/?key=step")
    page.goto(address)
    page.locator(".topbar details.menu > summary").click()
    page.get_by_role("button", name=name).click()
    expect(page.locator("html")).to_have_attribute("lang", code)
    assert page.url.endswith(address)
    page.goto("/roles/")
    expect(page.locator("html")).to_have_attribute("lang", code)
    expect(page.locator(".topbar-end").get_by_role("link", name=edits)).to_be_visible()
    page.locator(".topbar details.menu > summary").click()
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_on_a_narrow_screen_the_state_is_a_tab(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844})
    page.goto(SESSION)
    timeline, trace, state = (page.get_by_role("tab", name=name) for name in ("Events", "Trace", "State"))
    expect(page.locator("[data-timeline]")).to_be_visible()
    expect(page.locator("#state")).to_be_hidden()
    expect(page.locator(".ev").last).to_be_in_viewport()
    tap(state)
    expect(state).to_have_attribute("aria-selected", "true")
    expect(page.locator("#state")).to_be_visible()
    expect(page.locator("[data-timeline]")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(trace).to_be_focused()
    expect(trace).to_have_attribute("aria-selected", "true")
    tap(timeline)
    expect(page.locator(".ev").last).to_be_in_viewport()  # where the reader was
    open_event(page, page.locator(".ev .line").last)
    expect(page.locator("#detail .parts")).to_be_visible()
    expect(state).to_have_attribute("aria-selected", "true")
    tap(timeline)
    expect(page.locator(".ev").last).to_be_in_viewport()
    page.get_by_role("link", name="Edit state").click()
    page.get_by_role("button", name="Edit the state now").click()  # the reader is in the past
    expect(page.locator("form.editbox")).to_be_in_viewport()


@pytest.mark.long
def test_no_script_is_made_of_a_text(page: Page, watch: Watch) -> None:
    watch.excuse("TrustedScript", "trusted-types-sink")  # Chromium reports what it refuses
    page.goto("/")
    made = """sink => { const script = document.createElement("script"); script[sink] = "injected = 1" }"""
    for sink in ("text", "src", "textContent"):
        with pytest.raises(Error, match="Trusted"):
            page.evaluate(made, sink)
    assert page.evaluate("'injected' in window") is False


@in_two_parts(EACH_PAGE, PLACES)
def test_nothing_is_wider_than_the_window(sweep: Sweep, names: list[str]) -> None:
    wrong = [f"{name}, {line}" for name in names for line in sweep(name).sideways]
    assert not wrong, "\n".join(wrong)


@in_two_parts(EACH_PAGE, PLACES)
def test_every_page_opens_without_an_error(sweep: Sweep, names: list[str]) -> None:
    wrong = [f"{name}, {line}" for name in names for line in sweep(name).problems]
    assert not wrong, "\n".join(wrong)
