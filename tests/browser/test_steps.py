"""Steps from event to event are made by the page itself, and show what the server would."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.places import path
from tests.browser.seed import ODDS, TRAVEL

ASKS = """() => {
    window.asked = [];
    const real = window.fetch;
    window.fetch = (...all) => {
        asked.push(String(all[0]));
        return real(...all);
    };
    window.plainly = real;
}"""
# Kept once the page has read the first answer for steps, and has worked on it.
READS = """
    const text = Response.prototype.text;
    window.held = new Promise((done) => {
        Response.prototype.text = async function () {
            const told = await text.call(this);
            if (this.url.includes("/state/stretch/")) setTimeout(done);
            return told;
        };
    });
"""
# A panel without what scripts add, and without the event by which the link to a whole value names the value.
PLAIN = """
    const plain = (panel) => {
        const copy = panel.cloneNode(true);
        for (const time of copy.querySelectorAll("time")) time.replaceWith(time.dateTime);
        for (const key of copy.querySelectorAll(".key[role]"))
            for (const name of ["role", "tabindex", "aria-expanded", "aria-haspopup"]) key.removeAttribute(name);
        for (const link of copy.querySelectorAll("a[href*='key=']")) link.href = link.href.replace(/at=[^&]*/, "");
        for (const field of copy.querySelectorAll("[class='']")) field.removeAttribute("class");
        const text = copy.innerHTML.replace(/<!--.*?-->/gs, "").replace(/\\s+/g, " ");
        return text.trim().replace(/> ?</g, ">\\n<").split("\\n");
    };
"""
BOTH = (
    """async () => {"""
    + PLAIN
    + """
    const panel = document.querySelector("#moment");
    const { at } = panel.querySelector("[data-moment]").dataset;
    const answer = await plainly(`${panel.dataset.state}?at=${encodeURIComponent(at)}&show=state`,
        { headers: { "HX-Request": "true" } });
    const box = document.createElement("div");
    box.innerHTML = await answer.text();
    return [at, plain(panel), plain(box)];
}"""
)


def held(page: Page, session: tuple[str, ...], at: str) -> None:
    """Opens a session at an event, and waits until the page holds what it needs for steps from there."""
    page.add_init_script(READS)
    page.goto(f"{path('s', *session)}?at={at}")
    page.evaluate("held")
    page.evaluate(ASKS)


def same_as_told(page: Page) -> str:
    """Compares the panel with the server's; the event that is shown."""
    at, here, told = page.evaluate(BOTH)
    assert here == told, at
    return str(at)


def walk(page: Page, keys: str) -> list[str]:
    """Presses keys, each once the step before is shown, and compares; the events that were shown."""
    seen = []
    for key in keys:
        before = page.locator("[data-moment]").get_attribute("data-at")
        page.keyboard.press(key)
        expect(page.locator("[data-moment]")).not_to_have_attribute("data-at", before or "")
        seen.append(same_as_told(page))
    return seen


def asked(page: Page, name: str) -> list[str]:
    """What the page asked for since it was opened."""
    addresses: list[str] = page.evaluate("asked")
    return [address for address in addresses if f"/{name}/?" in address]


@pytest.mark.parametrize(
    ("keys", "events"),
    [("[[]{{}[[]]]", 6), pytest.param("[[[[]][[[{{}}[[{]]]]]]]}}]]]", 11, marks=pytest.mark.long)],
)
def test_each_step_shows_what_the_server_tells_and_asks_it_nothing(page: Page, keys: str, events: int) -> None:
    held(page, TRAVEL, "t200")
    assert len({*walk(page, keys)}) >= events
    assert asked(page, "state") == []


@pytest.mark.long
@pytest.mark.parametrize(
    "keys",
    [
        "[" * 10 + "]" * 4 + "{}<<>]]",
        pytest.param("[" * 25 + "]" * 10 + "{}" * 3 + "<<>" + "]" * 8, marks=pytest.mark.long),
    ],
)
def test_keys_that_come_and_go_are_shown_as_the_server_shows_them(page: Page, keys: str) -> None:
    held(page, ODDS, "o70")
    walk(page, keys)


@pytest.mark.long
def test_further_steps_are_asked_for_in_time(page: Page) -> None:
    held(page, TRAVEL, "t300")
    walk(page, "[" * 90)
    assert asked(page, "state") == []
    assert 2 <= len(asked(page, "stretch")) <= 4


@pytest.mark.long
def test_at_an_end_of_the_session_nothing_is_asked_for_again(page: Page) -> None:
    held(page, TRAVEL, "t400")
    walk(page, "[[[]]]")
    assert asked(page, "state") == asked(page, "stretch") == []


def test_a_row_that_is_clicked_is_shown_at_once_and_keeps_what_was_unfolded(page: Page) -> None:
    held(page, TRAVEL, "t380")
    tree = page.locator("#moment [data-key-row='tree'] details").first
    tree.locator("summary").first.click()
    page.locator("#event-t381 .line").click()
    expect(page.locator("#moment [data-travel-words]")).to_contain_text("381")
    expect(tree).to_have_attribute("open", "")
    page.locator("#event-t384 .line").click()
    expect(page.locator("#moment [data-key-row='n']")).to_contain_text("384")
    expect(tree).to_have_attribute("open", "")
    expect(page).to_have_url(re.compile(r"\?at=t384$"))
    assert asked(page, "state") == []


@pytest.mark.long
def test_the_button_that_was_pressed_keeps_the_focus(page: Page) -> None:
    held(page, TRAVEL, "t200")
    page.locator("#step-back").focus()
    for number in (199, 198):
        page.keyboard.press("Enter")
        expect(page.locator("#moment [data-travel-words]")).to_contain_text(str(number))
        expect(page.locator("#step-back")).to_be_focused()
