"""Pages of a session beside its timeline: opened, shared, left, and used there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.looks import barriers, check, sideways
from tests.browser.places import own, path, type_json
from tests.browser.seed import FAMILY, FAMILY_KEYS, GOOD, TRAVEL
from tests.browser.targets import small
from tests.parts import in_two_parts, long_but

SESSION = path("s", *TRAVEL)
AT = SESSION + "?at=t396"
PAGES = {
    "add": "Add event",
    "artifacts": "Artifacts",
    "compare?a=t100&b=now": "Compare two moments",
    "context": "What the model gets next",
    "drift": "Differences from events",
    "edit?key=n": "Edit state",
    "e/t396": "Event 396",
    "e/t396/fork": "Fork at event 396",
    "e/t396/undo": "Undo event 396",
    "forks": "Forks",
    "history": "History of a key",
    "history?key=n": "n",
    "restore?to=t396": "Restore the state at event 396",
    "rewind?before=e-50": "Rewind to before event 250",
}
SPLITTER = "[role=separator]"


def pane(page: Page) -> Locator:
    """What stands beside the timeline."""
    return page.locator("#pane")


def title(page: Page) -> Locator:
    """Its heading."""
    return page.locator("#pane-title")


def opened(page: Page, words: str) -> None:
    """The pane shows a page, beside the timeline."""
    expect(title(page)).to_have_text(words)
    expect(title(page)).to_be_focused()
    expect(page.locator(".ev").last).to_be_in_viewport()
    expect(page.locator("h1")).to_have_count(1)


def with_pane(name: str, address: str = SESSION) -> str:
    """The address of a session with a pane."""
    return f"{address}{'&' if '?' in address else '?'}pane={quote(name, safe='')}"


# --- Opening and leaving ----------------------------------------------------------------------------------------------


# Each opens a pane with this title, by this key; by a click where no key is named.
OFFERED = {
    "Undo…": ("Undo event 396", "U"),
    "Restore…": ("Restore the state at event 396", "Enter"),
    "Rewind…": ("Rewind to before event 395", ""),
    "Fork…": ("Fork at event 396", "Shift+F"),
    "Compare with now": ("Compare two moments", ""),
    "History": ("History of a key", ""),
    "History of tree": ("tree", "h"),
}


def test_what_is_offered_at_an_event_opens_beside_the_timeline(page: Page) -> None:
    page.goto(AT)
    expect(page.locator("#moment .written").first).to_be_visible()
    for link, (words, key) in OFFERED.items():
        offered = page.locator("#moment").get_by_role("link", name=link, exact=True)
        if key:
            offered.first.focus()
            page.keyboard.press(key)
        else:
            offered.first.click()
        opened(page, words)
        expect(page).to_have_url(re.compile(r"/travel/\?at=t396&pane="))
        page.keyboard.press("Escape")
        expect(pane(page)).to_be_hidden()
        expect(page.locator("#moment")).to_be_visible()
        expect(offered.first).to_be_focused()
        expect(page).to_have_url(re.compile(r"/travel/\?at=t396$"))


@pytest.mark.long
def test_what_is_offered_now_opens_there_and_the_back_button_closes_it(page: Page) -> None:
    page.goto(SESSION)
    for words in ("History", "Compare", "Differences from events", "Artifacts", "What the model got", "Add event"):
        if words in ("Differences from events", "Artifacts"):
            page.locator("#main .rare > summary").click()
        page.locator("#main").get_by_role("link", name=words, exact=True).click()
        expect(pane(page)).to_be_visible()
        expect(page.locator("#state")).to_be_hidden()
        expect(page).to_have_url(re.compile(r"/travel/\?pane=\w+$"))
        page.go_back()
        expect(pane(page)).to_be_hidden()
        expect(page.locator("#state")).to_be_visible()
        expect(page).to_have_url(re.compile("/travel/$"))
        page.go_forward()
        expect(pane(page)).to_be_visible()
        page.go_back()
        expect(pane(page)).to_be_hidden()


@in_two_parts(["restore?to=t396"], PAGES)
@pytest.mark.parametrize("contrast", long_but([False, True], False))
def test_an_address_opens_its_pane_which_is_accessible_and_fits(page: Page, names: list[str], contrast: bool) -> None:
    wrong = []
    for name in names:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(with_pane(name))
        opened(page, PAGES[name])
        expect(page.locator("#pane-page .empty .wait, #pane-page progress")).to_have_count(0)
        barred = barriers(page, within="#pane", contrast=contrast)
        wrong += [f"{name}, {line}" for line in (*barred, *small(page), *sideways(page, (1440, 900, 390)))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_the_page_around_a_pane_is_accessible(page: Page) -> None:
    page.goto(with_pane("history?key=n", AT))
    opened(page, "n")
    check(page)


@pytest.mark.parametrize("other", long_but(["Trace", "State"], "Trace"))
def test_a_pane_stays_open_with_another_density_or_filter(page: Page, other: str) -> None:
    page.goto(with_pane(f"history?key={FAMILY_KEYS[-1]}", path("s", *FAMILY, end="?at=last")))
    opened(page, FAMILY_KEYS[-1])
    link = page.locator(".timelinebar").get_by_role("link", name=re.compile(f"^{other}"))
    link.click()
    expect(page).to_have_url(re.compile(r"(?=\S*pane=)\S*(density=trace|kind=state)"))
    if other == "Trace":  # the page stays
        expect(link).to_be_focused()
        expect(page.locator("#pane-title")).to_have_text(FAMILY_KEYS[-1])
    else:
        opened(page, FAMILY_KEYS[-1])


ELSEWHERE = (
    "//example.com/",
    "https://example.com/s/demo/booking/bea/travel/drift/",
    "javascript:alert(1)",
    "../family/drift",
    "%2e%2e/family/drift/",
    path("s", *FAMILY, end="drift/"),
    "../../../../../sign-out",
    "delete",
    "export",
    "e/../../family/drift",
    "e/t396/json",
    "compare?with=" + path("s", *FAMILY),
    "<img src=x onerror=alert(1)>",
)


@pytest.mark.parametrize("name", long_but(ELSEWHERE, "//example.com/"))
def test_an_address_that_names_anything_else_opens_nothing(page: Page, name: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-pane" in request.headers else None)
    page.goto(with_pane(name))
    expect(page.locator("#strip svg").first).to_be_visible()
    expect(page.locator("#stats")).to_contain_text("events")
    expect(pane(page)).to_be_hidden()
    expect(page.locator("#state")).to_be_visible()
    assert asked == []


def test_links_in_the_pane_stay_in_it_and_go_back_one_by_one(page: Page) -> None:
    page.goto(SESSION)
    page.locator("#state").get_by_role("link", name="History", exact=True).click()
    opened(page, "History of a key")
    pane(page).get_by_role("link", name="user:far").click()
    expect(title(page)).to_have_text("user:far")
    pane(page).get_by_role("link", name="Older values").click()
    expect(pane(page).locator(".write").nth(60)).to_be_visible()
    pane(page).locator(".choosekey > summary").click()
    expect(pane(page).locator(".keychoices a")).not_to_have_count(1)
    page.keyboard.type("TRE")
    expect(pane(page).locator(".keychoices a:visible")).to_have_text(["tree"])
    page.keyboard.press("Enter")  # the one that is left
    expect(title(page)).to_have_text("tree")
    page.go_back()
    expect(title(page)).to_have_text("user:far")
    page.go_back()
    expect(title(page)).to_have_text("History of a key")
    page.go_forward()
    expect(title(page)).to_have_text("user:far")
    pane(page).get_by_role("link", name="Close").click()
    expect(pane(page)).to_be_hidden()
    expect(page).to_have_url(re.compile("/travel/$"))


@pytest.mark.long
def test_a_link_to_an_event_goes_there_and_going_back_shows_the_pane_again(page: Page) -> None:
    page.goto(with_pane("history?key=n"))
    opened(page, "n")
    pane(page).get_by_role("link", name="#392").click()
    expect(page.locator("#moment .then")).to_contain_text("Event 392")
    expect(page.locator("#event-t392")).to_have_class(re.compile("selected"))
    expect(pane(page)).to_be_hidden()
    page.go_back()
    expect(title(page)).to_have_text("n")
    page.locator("#event-t396 .line").click()  # in the timeline, too
    expect(page.locator("#moment .then")).to_contain_text("Event 396")
    expect(pane(page)).to_be_hidden()
    expect(page).to_have_url(re.compile(r"/travel/\?at=t396$"))


def test_what_the_model_got_follows_the_event_that_is_chosen(page: Page) -> None:
    page.goto(path("s", *FAMILY))
    button = page.locator("#main").get_by_role("link", name="What the model got")
    button.click()
    opened(page, "What the model gets next")
    page.locator("#event-last .line").click()
    expect(title(page)).to_have_text("What the model gets next · after event 2")
    expect(page.locator("#event-last .line")).to_be_focused()
    expect(page).to_have_url(re.compile(r"pane=context%3Fat%3Dlast"))
    expect(button).to_have_text("What the model got#2")
    page.keyboard.press("k")
    expect(title(page)).to_contain_text("event 1")
    pane(page).get_by_role("link", name="Close").click()
    expect(page.locator("#moment .then")).to_contain_text("Event 1")
    button.click()
    expect(title(page)).to_contain_text("event 1")
    page.locator("#travel-back").dispatch_event("click")
    expect(title(page)).to_have_text("What the model gets next")
    expect(button).to_have_text("What the model got")


def test_what_the_model_gets_next_says_that_events_have_come_since_and_loads_them(page: Page, visit: Visit) -> None:
    address = path("s", *own("pane-live"))
    page.goto(with_pane("context", address))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    again = pane(page).get_by_role("link", name="New events: refresh")
    expect(page.locator(".sizes")).to_be_visible()
    other = visit()
    other.goto(address + "add/")
    type_json(other, '{"author": "user", "content": {"role": "user", "parts": [{"text": "Are you there?"}]}}')
    other.get_by_role("button", name="Add event").click()
    expect(again).to_be_visible()
    expect(page.locator("#pane-page")).not_to_contain_text("Are you there?")
    claim = page.get_by_text("the state and events as they are now")
    expect(claim).to_be_hidden()
    again.click()
    expect(page.locator("#pane-page")).to_contain_text("Are you there?")
    expect(again).to_be_hidden()
    expect(claim).to_be_visible()


def test_what_the_model_got_has_the_cursor_in_its_address_however_soon_it_is_asked_for(page: Page) -> None:
    page.add_init_script("const wait = setTimeout; window.setTimeout = (f, ms) => (ms === 400 ? 0 : wait(f, ms));")
    page.goto(SESSION)  # travel.js writes no address by itself
    page.evaluate("""() => {
        document.querySelector("#event-t396 .line").click();
        document.querySelector("a[data-follows]").click();
    }""")
    expect(title(page)).to_contain_text("event 396")
    expect(page).to_have_url(re.compile(r"(?=.*[?&]at=t396(&|$)).*pane=context%3Fat%3Dt396"))
    page.go_back()
    expect(pane(page)).to_be_hidden()
    expect(page).to_have_url(re.compile(re.escape(SESSION)))


@pytest.mark.long
def test_a_page_can_be_opened_alone_or_in_a_tab_of_its_own(page: Page) -> None:
    page.goto(with_pane("drift"))
    opened(page, "Differences from events")
    with page.context.expect_page() as tab:
        page.locator("#state, #pane").get_by_role("link", name="Open as a page").click(modifiers=["ControlOrMeta"])
    expect(tab.value.get_by_role("heading", name="Differences from events", level=1)).to_be_visible()
    pane(page).get_by_role("link", name="Open as a page").click()
    expect(page).to_have_url(re.compile("/travel/drift/$"))
    expect(page.get_by_role("heading", name="Differences from events", level=1)).to_be_visible()


@pytest.mark.long
def test_two_runs_beside_each_other_have_the_window_for_themselves(page: Page) -> None:
    page.goto(with_pane("compare", path("s", *GOOD)))
    page.locator("#pane-page .otherruns a").first.click()
    expect(page).to_have_url(re.compile("/compare/.*with="))


def test_keys_belong_to_the_pane_while_the_focus_is_in_it(page: Page) -> None:
    page.goto(with_pane(f"history?key={FAMILY_KEYS[-1]}", path("s", *FAMILY)))
    opened(page, FAMILY_KEYS[-1])
    page.keyboard.press("j")
    expect(pane(page).locator(".write").first.locator("a").first).to_be_focused()
    page.keyboard.press("e")
    opened(page, "Edit state")
    expect(page).to_have_url(re.compile(rf"pane=edit%3Fkey%3D{re.escape(FAMILY_KEYS[-1])}$"))


def test_a_narrow_screen_shows_a_pane_as_its_state(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844})
    page.goto(SESSION)
    page.locator(".rest > summary").click()
    page.locator("#main").get_by_role("link", name="What the model got").click()
    expect(title(page)).to_be_in_viewport()
    expect(page.locator("#events")).to_be_hidden()
    assert sideways(page, (390,)) == []
    pane(page).get_by_role("link", name="Close").click()
    expect(page.locator("#events")).to_be_visible()
    expect(pane(page)).to_be_hidden()


# --- Writing ----------------------------------------------------------------------------------------------------------


def test_an_undo_in_the_pane_is_told_and_the_timeline_follows(page: Page) -> None:
    page.goto(path("s", *own("pane-undo")))
    page.evaluate("window.same = true")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    page.locator(".ev:has(.delta) .line").last.click()
    page.locator("#moment").get_by_role("link", name="Undo…", exact=True).click()
    opened(page, "Undo event 2")
    pane(page).get_by_role("button", name="Apply").click()
    toast = page.locator(".toast.ok")
    expect(toast).to_contain_text("Saved as event #3.")
    expect(pane(page)).to_be_hidden()
    expect(page.locator(".ev.edit")).to_contain_text("count")
    toast.get_by_role("button", name="Undo").click()
    expect(toast).to_contain_text("Undone.")
    toast.get_by_role("link", name="View").click()
    expect(page.locator("#moment .then")).to_contain_text("Event 4")
    expect(pane(page)).to_be_hidden()
    assert page.evaluate("window.same")


def test_an_edit_in_place_is_told_without_another_page(page: Page) -> None:
    page.goto(path("s", *own("pane-edit")))
    page.evaluate("window.same = true")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    page.keyboard.press("e")
    page.get_by_label("Key to edit or add").fill("step")
    page.keyboard.press("Enter")
    type_json(page, '"pay"')
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".toast.ok")).to_contain_text("Saved as event #3.")
    expect(page.locator("form.editbox")).to_have_count(0)
    expect(page.locator("#state [data-key-row='step']")).to_contain_text('"pay"')
    assert page.evaluate("window.same")


@contextmanager
def answered_late(page: Page) -> Iterator[None]:
    """Holds what is sent until the block has ended."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST":
            held.append(route)
        else:
            route.continue_()

    page.route("**/s/**", hold)
    with page.expect_request(lambda request: request.method == "POST"):
        yield
    page.evaluate("1")  # the answer comes after what was held
    [sent] = held
    sent.continue_()


@pytest.mark.parametrize("meanwhile", long_but(["Cancel", "Edit count", "Differences from events"], "Edit count"))
def test_an_edit_whose_form_is_gone_when_the_answer_comes_is_told_and_the_page_stays(
    page: Page, meanwhile: str
) -> None:
    page.goto(path("s", *own("pane-late")))
    page.evaluate("window.same = true")
    page.locator("#state").get_by_role("link", name="Edit step", exact=True).dispatch_event("click")
    type_json(page, f'"{meanwhile}"')
    with answered_late(page):
        page.get_by_role("button", name="Apply", exact=True).click()
        if meanwhile == "Differences from events":
            page.locator("#main .rare > summary").click()
        page.locator("#main").get_by_role("link", name=meanwhile, exact=True).dispatch_event("click")
        if meanwhile == "Differences from events":
            opened(page, "Differences from events")
        elif meanwhile == "Edit count":
            expect(page.locator("#edit .editrow")).to_contain_text("count")
        else:
            expect(page.locator("#edit .editrow")).to_have_count(0)
    expect(page.locator(".toast.ok")).to_contain_text("Saved as event #")
    expect(page.locator("#edit .editrow")).to_have_count(1 if meanwhile == "Edit count" else 0)
    expect(pane(page)).to_be_visible(visible=meanwhile == "Differences from events")
    assert page.evaluate("window.same")


def send_from_pane(page: Page, link: str, button: str) -> None:
    """Sends a form in the pane of the first change."""
    page.goto(path("s", *own("pane-left")))
    page.evaluate("window.same = true")
    page.locator(".ev:has(.delta) .line").first.click()
    page.locator("#moment").get_by_role("link", name=link, exact=True).click()
    pane(page).get_by_role("button", name=button, exact=True).click()


@pytest.mark.long
def test_who_has_gone_on_to_another_pane_when_the_answer_comes_stays_there_and_is_told(page: Page) -> None:
    with answered_late(page):
        send_from_pane(page, "Undo…", "Apply")
        page.get_by_role("link", name="Add event").click()
        opened(page, "Add event")
    expect(page.locator(".toast.ok")).to_contain_text("Saved as event #")
    expect(title(page)).to_have_text("Add event")
    expect(page.locator(".ev.edit")).to_have_count(1)
    assert page.evaluate("window.same")


@pytest.mark.long
def test_who_has_asked_for_another_pane_when_the_answer_comes_gets_it_and_is_told(page: Page) -> None:
    asked: list[Route] = []
    with answered_late(page):
        send_from_pane(page, "Fork…", "Fork")
        page.route("**/add/", lambda route: asked.append(route))
        page.get_by_role("link", name="Add event").click()
    expect(page.locator(".toast.ok")).to_contain_text("Fork created")
    asked[0].continue_()
    opened(page, "Add event")
    assert page.evaluate("window.same")


@pytest.mark.long
def test_who_has_closed_the_pane_when_the_answer_comes_stays_in_the_past_and_is_told(page: Page) -> None:
    with answered_late(page):
        send_from_pane(page, "Fork…", "Fork")
        page.keyboard.press("Escape")
        expect(pane(page)).to_be_hidden()
    expect(page.locator(".toast.ok")).to_contain_text("Fork created")
    expect(page.locator("#moment .then")).to_contain_text("Event")
    assert page.evaluate("window.same")


def test_a_refused_form_keeps_what_was_typed(page: Page, watch: Watch) -> None:
    watch.allow(409)
    page.goto(path("s", *own("pane-fork")))
    page.locator(".ev .line").last.click()
    page.locator("#moment").get_by_role("link", name="Fork…").click()
    opened(page, "Fork at event 2")
    pane(page).get_by_label("Session id").fill("travel")
    pane(page).get_by_label("Reason").fill("to try it")
    pane(page).get_by_role("button", name="Fork").click()
    expect(pane(page).locator("#session_id_error")).to_contain_text("already a session")
    expect(pane(page).get_by_label("Session id")).to_be_focused()
    expect(pane(page).get_by_label("Session id")).to_have_value("travel")
    expect(pane(page).get_by_label("Reason")).to_have_value("to try it")
    pane(page).get_by_label("Session id").fill("pane-forked")
    pane(page).get_by_role("button", name="Fork").click()
    expect(page).to_have_url(re.compile("/pane-forked/$"))
    expect(page.locator(".toast.ok")).to_contain_text("Fork created from pane-fork.")


def test_what_was_typed_outlasts_the_pane_and_the_sign_in(page: Page, watch: Watch) -> None:
    watch.allow(403)
    page.goto(with_pane("e/last/fork", path("s", *FAMILY)))
    opened(page, "Fork at event 2")
    pane(page).get_by_label("Reason").fill("a long story")
    page.keyboard.press("Escape")
    expect(pane(page)).to_be_hidden()
    toast = page.locator(".toast.info")
    expect(toast).to_contain_text("What you typed has been kept.")
    toast.get_by_role("link", name="Open it again").click()
    opened(page, "Fork at event 2")
    expect(pane(page).get_by_label("Reason")).to_have_value("a long story")
    watch.stay = True
    with page.expect_event("dialog"):
        page.locator(".topbar").get_by_role("link", name="Edits").click(no_wait_after=True)
    expect(pane(page).get_by_label("Reason")).to_have_value("a long story")
    assert watch.asked == 1  # leaving the whole page is asked about
    watch.stay = False

    page.context.clear_cookies(name=re.compile("session"))
    pane(page).get_by_role("button", name="Fork").click()
    expect(page.locator(".toast.bad")).to_contain_text("You have been signed out, and nothing was saved")
    expect(pane(page).get_by_label("Reason")).to_have_value("a long story")


def test_in_the_past_a_key_is_edited_now_or_in_a_fork_that_begins_with_another_value(page: Page) -> None:
    page.goto(path("s", *own("pane-fork")))
    page.locator(".ev .line").first.click()
    count = page.locator("#moment [data-key-row='count']")
    expect(count).to_contain_text("3")
    count.locator("[data-row-key=h]").focus()
    page.keyboard.press("e")
    past = page.get_by_role("dialog")
    expect(past).to_contain_text("You are at event 1")
    past.get_by_role("link", name="Fork here with a new value…").click()
    opened(page, "Fork at event 1")
    expect(past).to_be_hidden()
    expect(pane(page).locator(".cm-content")).to_have_text("3")
    assert barriers(page, within="#pane") == []
    type_json(page, "7")
    pane(page).get_by_label("Session id").fill("pane-forked-with")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/pane-forked-with/$"))
    expect(page.locator("#state [data-key-row='count']")).to_contain_text("7")
    expect(page.locator(".ev.edit")).to_have_count(2)  # that it is a fork, and the value

    page.goto(path("s", *own("pane-fork")))
    page.locator(".ev .line").first.click()
    expect(count).to_contain_text("3")
    count.locator("[data-row-key=h]").focus()
    page.keyboard.press("e")
    page.keyboard.press("e")  # now
    expect(page.locator("#edit .editrow")).to_contain_text("count")
    expect(page.locator("#edit .cm-content")).to_have_text("4")
    expect(page.locator("#moment")).to_be_hidden()


# --- How wide it is ---------------------------------------------------------------------------------------------------


def width(page: Page) -> float:
    """The side's."""
    box = page.locator(".side").bounding_box()
    assert box
    return box["width"]


@pytest.mark.long
def test_the_side_is_as_wide_as_the_person_made_it(page: Page) -> None:
    page.goto(SESSION)
    splitter = page.locator(SPLITTER)
    before = width(page)
    splitter.focus()
    page.keyboard.press("ArrowLeft")
    assert width(page) == before + 16
    expect(splitter).to_have_attribute("aria-valuenow", str(round(before + 16)))
    box = page.locator(".side").bounding_box()
    assert box
    page.mouse.move(box["x"], box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] - 200, box["y"] + 120, steps=5)
    page.mouse.up()
    assert width(page) == before + 216
    page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => { window.first ="
        " document.querySelector('.side').getBoundingClientRect().width })"
    )
    page.reload()
    assert page.evaluate("window.first") == width(page) == before + 216
    page.keyboard.press("Shift+Tab")
    splitter.focus()
    page.keyboard.press("End")
    assert width(page) == 1440 - 400
    page.set_viewport_size({"width": 1000, "height": 900})
    assert width(page) == 1000 - 400  # the timeline keeps its room
    splitter.dblclick()
    page.set_viewport_size({"width": 1440, "height": 900})
    assert width(page) == before
    splitter.dblclick()  # without dragging, too
    assert width(page) == 1440 - 400
    splitter.focus()
    page.keyboard.press("Home")
    assert width(page) == 320
