"""The card with the schema of a key, beside its name: by the pointer, and by the keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looks import barriers
from tests.browser.places import SEOUL, path
from tests.browser.seed import FAMILY, FAMILY_KEYS
from tests.browser.watching import later


def test_a_key_shows_what_is_known_of_it_while_the_pointer_is_on_it(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/schema/key/" in request.url else None)
    page.goto(path("s", *SEOUL))
    card, name = page.locator("#keycard"), page.locator('#state [data-key-row="booking_step"] .key').first
    expect(card).to_be_hidden()
    assert asked == []
    name.hover()
    expect(card).to_be_visible()
    expect(card).to_contain_text("booking_step")
    expect(card).to_contain_text("Written by")
    card.get_by_role("link").first.hover()
    later(page, 600)  # longer than it would wait before it closes
    expect(card).to_be_visible()
    assert barriers(page, within="#keycard") == []
    page.locator("h1").hover()
    expect(card).to_be_hidden()
    name.hover()
    expect(card).to_be_visible()
    assert len(asked) == 1, "what was fetched is kept"
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    assert page.url.endswith(path("s", *SEOUL)), "Escape closed nothing else"


@pytest.mark.long
def test_the_keyboard_reaches_every_key_by_one_stop_and_the_card_by_enter(page: Page) -> None:
    page.goto(path("s", *FAMILY))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")  # the state was pushed
    card, stop = page.locator("#keycard"), page.locator('#state .key[tabindex="0"]')
    expect(stop).to_have_count(1)
    first, last = (page.locator(f'#state [data-key-row="{key}"] .key') for key in FAMILY_KEYS[:2])
    stop.focus()
    for _key in range(page.locator("#state [data-key-row]").count()):
        if first.evaluate("(name) => name === document.activeElement"):
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(last).to_be_focused()
    expect(stop).to_have_count(1)
    expect(card).to_be_visible()
    expect(last).to_have_attribute("aria-describedby", "keycard")
    page.keyboard.press("Enter")
    expect(card.get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(last).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(first).to_be_focused()
    page.evaluate("""() => {
        const groups = document.querySelector("#groups");
        groups.replaceChildren(...groups.cloneNode(true).childNodes);
    }""")  # as live.js puts a state in that was pushed
    expect(first).to_be_focused()
    expect(stop).to_have_count(1)


@pytest.mark.long
def test_the_card_stays_within_a_narrow_window(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto(path("s", *SEOUL))
    page.get_by_role("tab", name="State").click()
    page.locator('#state [data-key-row="booking_step"] .key').first.click()
    card = page.locator("#keycard")
    expect(card).to_be_visible()
    box = card.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 700
