"""The story of time travel, from looking to taking back: once by mouse, once by keyboard, on the demo store."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import SEOUL, path
from tests.browser.serving import Adkweb

SESSION = path("s", *SEOUL)
SEARCH = 67  # an answer of search_flights, which writes four of the session's keys and one of the app's


@pytest.fixture
def page(own_server: Adkweb, visitor: Visit) -> Page:
    """Somebody who is signed in, at the session."""
    page = visitor(own_server)
    page.goto(own_server.link)
    expect(page.get_by_role("heading", name="demo")).to_be_visible()
    page.goto(SESSION)
    expect(page.get_by_role("slider", name="Time travel")).to_be_visible()
    return page


def event(page: Page, seq: int) -> Locator:
    """An event's row in the timeline."""
    return page.locator(".ev").filter(has=page.locator(".seq", has_text=re.compile(f"^{seq}$")))


def shown(page: Page, key: str, panel: str = "#moment") -> Locator:
    """A key's value in the panel."""
    return page.locator(f"{panel} [data-key-row='{key}'] .kv:has(> .key[title='{key}']) > .value")


def at(page: Page, seq: int) -> None:
    """The panel shows the state at an event."""
    expect(page.locator("#moment .then")).to_contain_text(f"Event {seq}")


def saved(page: Page) -> int:
    """The seq of the event that was just written."""
    note = page.locator(".toast", has_text=re.compile(r"event #\d+"))
    expect(note).to_have_count(1)
    found = re.search(r"#(\d+)", note.inner_text())
    assert found
    note.evaluate("each => each.remove()")  # the next one is told beside it
    return int(found[1])


@pytest.mark.long
def test_by_mouse(page: Page) -> None:
    # Click an event: the state just after it, and what it changed.
    event(page, SEARCH).locator(".line").click()
    at(page, SEARCH)
    expect(shown(page, "searches")).to_have_text("3")
    expect(page.locator("#moment [data-key-row='searches'] > .was del")).to_have_text("1")
    expect(shown(page, "app:total_searches")).to_have_text("7")

    # Drag along the strip, to its beginning and back.
    box = page.get_by_role("slider", name="Time travel").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 3, box["y"] + 20, steps=15)
    page.mouse.up()
    at(page, 1)
    expect(shown(page, "searches")).to_be_hidden()
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator("#moment")).to_be_hidden()
    event(page, SEARCH).locator(".line").click()

    # Compare it with now.
    page.get_by_role("link", name="Compare with now").click()
    expect(page.get_by_role("heading", name="Compare two moments")).to_be_visible()
    expect(page.locator("#pane")).to_contain_text("last_answer")
    expect(page.locator("#pane")).not_to_contain_text("booking_step")
    page.go_back()

    # A key's history: every value, who, and why.
    at(page, SEARCH)
    page.locator("#moment [data-key-row='booking_step']").get_by_role("link", name=re.compile("History")).click()
    rows = page.locator("#pane").locator("[data-row]")
    expect(rows.first).to_contain_text("#67")
    expect(rows.first).to_contain_text('"ready"')
    expect(rows.first).to_contain_text('"choose"')
    page.go_back()

    # Take the event back; one of its keys was written since by another session, whose value stands.
    at(page, SEARCH)
    page.get_by_role("link", name="Undo…", exact=True).click()
    page.get_by_label("Keep this value").check()
    page.get_by_role("button", name=re.compile("Apply")).click()
    undone = saved(page)
    expect(shown(page, "booking_step", "#state")).to_have_text('"ready"')
    expect(shown(page, "app:total_searches", "#state")).to_have_text("10")
    expect(event(page, undone)).to_contain_text(re.compile("undo|Undo"))

    # Bring one key back to a value that it had.
    page.locator("#state [data-key-row='searches']").get_by_role("link", name=re.compile("History")).click()
    earlier = page.locator("#pane").locator("[data-row]").filter(has_text=re.compile(r"#67\b"))
    earlier.last.hover()  # the first names it as its reason
    earlier.last.get_by_role("link", name="Restore this value").click()
    page.get_by_role("button", name=re.compile("Apply")).click()
    saved(page)
    expect(shown(page, "searches", "#state")).to_have_text("3")

    # Bring the session's keys back to how they were at the event.
    event(page, SEARCH).locator(".line").click()
    at(page, SEARCH)
    page.get_by_role("link", name="Restore…").click()
    expect(page.locator("#pane")).not_to_contain_text("app:total_searches")  # others' state only where one asks for it
    page.get_by_role("link", name="All scopes").click()
    expect(page.locator("#pane")).to_contain_text("app:total_searches")
    page.get_by_role("button", name=re.compile("Apply")).click()
    saved(page)
    expect(shown(page, "booking_step", "#state")).to_have_text('"choose"')
    expect(shown(page, "app:total_searches", "#state")).to_have_text("7")

    # Rewind the conversation to before an invocation: what the agent no longer sees is grey.
    event(page, 69).locator(".line").click()
    at(page, 69)
    page.get_by_role("link", name="Rewind…").click()
    expect(page.locator("#pane")).to_contain_text("Hidden from the agent")
    page.get_by_role("button", name="Rewind").click()
    saved(page)
    expect(event(page, 69)).to_have_class(re.compile(r"\bgone\b"))
    given = [int(row.inner_text()) for row in page.locator(".ev:not(.gone) .seq").all()]
    assert SEARCH in given
    assert not {69, 72, undone} & {*given}

    # Fork the session at the event.
    event(page, SEARCH).locator(".line").click()
    at(page, SEARCH)
    page.get_by_role("link", name="Fork…").click()
    page.locator("#pane").get_by_label("Session id").fill("another-way")
    page.get_by_role("button", name="Fork").click()
    expect(page).to_have_url(re.compile("/another-way/"))
    expect(shown(page, "booking_step", "#state")).to_have_text('"choose"')
    expect(page.locator(".ev")).to_have_count(50)
    page.goto(SESSION)
    expect(page.locator("#forks")).to_contain_text("1 fork")


def press(page: Page, *keys: str) -> None:
    """Presses keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


# How many times Tab has to be pressed to get from where the keyboard is to a thing; Shift+Tab, if that is negative.
STOPS_TO = """(thing) => {
    const stops = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
        .filter((each) => each.checkVisibility());
    const way = (stops.indexOf(thing) - stops.indexOf(document.activeElement) + stops.length) % stops.length;
    return way > stops.length / 2 ? way - stops.length : way;
}"""


def tab(page: Page, thing: Locator, there: str) -> None:
    """Presses Tab, the shorter way, until `there` is true of the thing. Where it is not asked at each stop, that is as far
    as the page's order of things says: a group of choices is one stop."""
    expect(thing).to_be_visible()
    handle = thing.element_handle()
    way = handle.evaluate(STOPS_TO)
    key = "Shift+Tab" if way < 0 else "Tab"
    press(page, *[key] * max(0, abs(way) - 10))
    for _stop in range(600):
        if handle.evaluate(there):
            return
        page.keyboard.press(key)
    raise AssertionError(f"no way by the tab key to {thing}")


def go(page: Page, thing: Locator) -> None:
    """Goes to a link, a button or a field by the tab key, from wherever the keyboard is."""
    tab(page, thing, "each => each === document.activeElement")


def enter(page: Page, thing: Locator) -> None:
    """Goes to a link or a button by keyboard, and takes it."""
    go(page, thing)
    page.keyboard.press("Enter")


def choose(page: Page, choice: Locator) -> None:
    """Goes to a group of choices by keyboard, and to one of them by the arrows."""
    tab(page, choice, "each => each.name === document.activeElement.name")
    page.keyboard.press("Space")
    for _choice in range(5):
        if choice.is_checked():
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"no way by keyboard to {choice}")


def go_to_search(page: Page) -> None:
    """From the newest event back to SEARCH, and the state there."""
    page.goto(SESSION)
    expect(page.get_by_role("slider", name="Time travel")).to_be_visible()
    press(page, "k")
    while page.locator(".ev:focus-within .seq").inner_text() != str(SEARCH):
        press(page, "k")
    press(page, "t")
    at(page, SEARCH)


@pytest.mark.long
def test_by_keyboard(page: Page) -> None:
    # From event to event, from change to change, and along the strip.
    go_to_search(page)
    expect(shown(page, "searches")).to_have_text("3")
    press(page, "[")
    at(page, SEARCH - 1)
    expect(shown(page, "searches")).to_have_text("1")
    press(page, "}")
    at(page, SEARCH)
    go(page, page.get_by_role("slider", name="Time travel"))
    press(page, "Home")
    at(page, 1)
    press(page, "End")
    at(page, 72)
    press(page, "Escape")
    expect(page.locator("#moment")).to_be_hidden()

    # Compare it with now, and come back.
    go_to_search(page)
    enter(page, page.get_by_role("link", name="Compare with now"))
    expect(page.get_by_role("heading", name="Compare two moments")).to_be_visible()
    press(page, "Escape")
    expect(page.get_by_role("heading", name="Seoul trip")).to_be_visible()

    # A key's history.
    go_to_search(page)
    page.locator("#moment [data-key-row='booking_step'] [data-at]").first.focus()
    press(page, "h")
    expect(page.locator("#pane").locator("[data-row]").first).to_contain_text("#67")
    press(page, "Escape")
    expect(page.get_by_role("heading", name="Seoul trip")).to_be_visible()

    # Undo, with the three-way choice; and undo that.
    go_to_search(page)
    press(page, "U")
    choose(page, page.get_by_label("Keep this value"))
    enter(page, page.get_by_role("button", name=re.compile("Apply")))
    undone = saved(page)
    expect(shown(page, "booking_step", "#state")).to_have_text('"ready"')
    event(page, undone).locator(".line").focus()
    press(page, "t")
    at(page, undone)
    press(page, "U")
    enter(page, page.get_by_role("button", name=re.compile("Apply")))
    saved(page)
    expect(shown(page, "booking_step", "#state")).to_have_text('"choose"')

    # Restore, rewind, fork.
    go_to_search(page)
    enter(page, page.get_by_role("link", name="Restore…"))
    enter(page, page.get_by_role("link", name="All scopes"))
    expect(page.locator("#pane")).to_contain_text("app:total_searches")
    enter(page, page.get_by_role("button", name=re.compile("Apply")))
    saved(page)
    expect(shown(page, "app:total_searches", "#state")).to_have_text("7")
    go_to_search(page)
    press(page, "]", "]")
    at(page, 69)
    enter(page, page.get_by_role("link", name="Rewind…"))
    enter(page, page.get_by_role("button", name="Rewind"))
    saved(page)
    expect(event(page, 69)).to_have_class(re.compile(r"\bgone\b"))
    go_to_search(page)
    press(page, "Shift+F")
    go(page, page.locator("#pane").get_by_label("Session id"))
    page.keyboard.type("another-way")
    press(page, "Enter")
    expect(page).to_have_url(re.compile("/another-way/"))
    expect(page.locator(".ev")).to_have_count(50)
