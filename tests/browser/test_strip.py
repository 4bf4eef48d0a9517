"""The strip above the timeline: what it says under the pointer, and what its colours mean."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import SEOUL, own, path, type_json
from tests.browser.seed import TRACED, TRAVEL
from tests.browser.watching import two_frames, until


def go(page: Page, address: str, *, drawn: bool = True) -> Locator:
    """The session's page; its strip, which a session without events does not have."""
    page.goto(address)
    strip = page.get_by_role("slider", name="Time travel")
    if drawn:
        expect(strip).to_be_visible()
    return strip


def point_at(page: Page, bar: Locator) -> None:
    """Puts the pointer on the middle of something."""
    box = bar.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_the_pointer_tells_turn_and_number_of_an_event_and_the_legend_opens_for_it_and_for_the_keyboard(
    page: Page,
) -> None:
    strip = go(page, path("s", *TRACED))
    tip = strip.locator(".tip")
    expect(tip).to_be_hidden()
    point_at(page, strip.locator("svg > .bar").first)
    expect(tip).to_have_text(re.compile(r"^event 1 · Turn 1 · \d+ \w+, \d\d:\d\d · (?:[≥≤≈] )?[\d.]+ (s|min)"))
    point_at(page, strip.locator("svg > .bar").last)
    count = strip.locator("svg > .bar").count()
    expect(tip).to_have_text(re.compile(rf"^event {count} · "))
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()

    button, legend = page.locator(".legend > summary"), page.locator(".legend > .menu-items")
    expect(button).to_have_accessible_name("Legend")
    expect(legend).to_be_hidden()
    button.click()
    expect(legend).to_contain_text("a tool call")
    agents = page.get_by_role("list", name="Agents")
    assert agents.locator("li").all_inner_texts() == legend.locator(".agents > li").all_inner_texts() != []
    page.mouse.click(5, 5)
    expect(legend).to_be_hidden()
    button.focus()
    page.keyboard.press("Enter")
    expect(legend).to_be_visible()
    page.keyboard.press("Escape")
    expect(legend).to_be_hidden()
    expect(button).to_be_focused()


# The words of gaps that can be seen, which of the others in the picture they reach into, and how wide it and its place are.
DRAWN = """() => {
    const box = (element) => element.getBoundingClientRect();
    const line = ({ left }) => ({ left, right: left + 2 });
    const others = [...document.querySelectorAll("#travel .bar")].map(box);
    others.push(...[...document.querySelectorAll("#strip .cursor:not([hidden])")].map(box).map(line));
    const seen = [...document.querySelectorAll(".pausewords > span")].flatMap((words) => {
        const range = document.createRange();
        range.selectNodeContents(words);
        return range.getBoundingClientRect().bottom > box(words).bottom + 2 ? [] : [range.getBoundingClientRect()];
    });
    const strip = document.querySelector("#strip");
    const padding = 2 * parseFloat(getComputedStyle(strip).paddingLeft);
    const lanes = document.querySelector("#strip .lanes");
    const names = box(lanes).width && box(lanes).width + parseFloat(getComputedStyle(lanes).marginInlineEnd);
    return {
        words: seen.length,
        covered: seen.filter((one) => others.some(({ left, right }) => left < one.right - 1 && right > one.left + 1)).length,
        missing: strip.clientWidth - padding - names - box(travel).width,
    };
}"""


def test_the_strip_fills_its_place_whenever_that_changes_and_nothing_covers_the_words_of_a_gap(visit: Visit) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    for ref, gaps in ((SEOUL, 2), (own("markdown"), 0)):
        go(page, path("s", *ref))
        page.locator(".ev .line").first.click()
        expect(page.locator("#strip .cursor")).to_be_visible()
        words = []
        for width in (900, 1280, 1440, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            two_frames(page)
            drawn = page.evaluate(DRAWN)
            words.append(drawn.pop("words"))
            assert drawn == {"covered": 0, "missing": 0}, (ref, width)
        assert words == [0, gaps, gaps, gaps]
        page.get_by_role("link", name="History", exact=True).click()
        expect(page.locator("#pane")).to_be_visible()
        until(page, f"({DRAWN})().missing === 0")
        page.keyboard.press("Escape")
        expect(page.locator("#pane")).to_be_hidden()
        until(page, f"({DRAWN})().missing === 0")


@pytest.mark.long
def test_the_pointer_tells_how_long_a_gap_is_and_a_click_leads_to_the_event_before_it(page: Page) -> None:
    strip = go(page, path("s", *SEOUL))
    gap = strip.locator("svg > .pause").first
    expect(gap).to_be_attached()
    words = gap.evaluate("e => e.nextElementSibling.textContent.trim()")
    point_at(page, gap)
    tip = strip.locator(".tip")
    expect(tip).to_have_text(re.compile(r"^\d+ (days?|hours?|minutes?|seconds?)$"))
    assert words.split()[0].split(".")[0] in tip.inner_text()
    page.mouse.down()
    page.mouse.up()
    numbers = [int(each) for each in (strip.get_attribute("data-seqs") or "").split()]
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-seq", re.compile(r"\d+"))
    at = int(page.locator("#moment [data-moment]").get_attribute("data-seq") or 0)
    edges = [float(each) for each in (strip.get_attribute("data-edges") or "").split()]
    box, track = gap.bounding_box(), strip.bounding_box()
    assert box
    assert track
    middle = (box["x"] + box["width"] / 2 - track["x"]) / track["width"] * 100
    before = max(n for n in range(len(edges) // 2) if edges[2 * n] <= middle)
    assert at == numbers[before]


@pytest.mark.long
def test_where_no_turns_are_known_the_pointer_tells_number_and_time(page: Page) -> None:
    strip = go(page, path("s", *TRAVEL))
    point_at(page, strip)
    expect(strip.locator(".tip")).to_have_text(re.compile(r"^events? \d+( to \d+)? · .*\d\d:\d\d:\d\d$"))


# --- A range ----------------------------------------------------------------------------------------------------------


def shift_drag(page: Page, strip: Locator, first: float, last: float) -> None:
    """Drags over the strip from one share of its width to another, with Shift."""
    box = strip.bounding_box()
    assert box
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + first * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + last * box["width"], box["y"] + 20, steps=6)
    page.mouse.up()
    page.keyboard.up("Shift")


def numbers(page: Page) -> list[int]:
    """The numbers of the events that the timeline shows."""
    return [int(text) for text in page.locator(".ev .seq").all_inner_texts()]


def expect_numbers(page: Page, first: int, last: int) -> None:
    """The timeline comes to show these events, one after the other."""
    expect(page.locator(".ev .seq")).to_have_text([str(number) for number in range(first, last + 1)])


def range_line(page: Page) -> Locator:
    """What is said of the range."""
    return page.get_by_role("group", name="Range of events")


def test_dragging_with_shift_narrows_the_timeline_to_a_range_that_can_be_shared(page: Page, visit: Visit) -> None:
    strip = go(page, path("s", *SEOUL))
    whole = page.locator(".ev").count()
    shift_drag(page, strip, 0.7, 0.2)
    expect(page).to_have_url(re.compile(r"/seoul-trip/\?from=[\w-]+&to=[\w-]+$"))
    line = range_line(page)
    expect(line).to_contain_text(re.compile(r"Events \d+–\d+\s*8 turns\s*2 d\s*[\d.]+k tokens\s*2 errors"))
    words = line.locator("b").first.inner_text().removeprefix("Events ")
    first, last = map(int, words.split("–"))
    assert 1 < first < last < 72
    expect_numbers(page, first, last)
    expect(page.locator("#moment")).to_be_hidden()  # nobody went anywhere in time
    shade = page.get_by_role("slider", name="Time travel").locator("svg > .ranged")
    expect(shade).to_have_count(1)

    other = visit()
    other.goto(page.url)
    expect_numbers(other, first, last)
    other.get_by_role("link", name=re.compile("^Errors")).click()
    expect(other).to_have_url(re.compile("kind=errors&from="))
    expect(other.locator(".ev")).to_have_count(2)
    expect(range_line(other)).to_be_visible()

    page.reload()
    page.get_by_role("link", name="Compare both ends").click()
    expect(page.locator("#pane-title")).to_be_visible()
    page.go_back()
    expect(page.locator("#pane")).to_be_hidden()
    expect(line).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/seoul-trip/$"))
    expect(page.locator(".ev")).to_have_count(whole)
    expect(line).to_be_hidden()


@pytest.mark.long
def test_a_range_is_selected_without_dragging_from_one_event_to_another(page: Page) -> None:
    go(page, path("s", *TRAVEL, end="?at=t380"))
    expect(page.locator("#moment [data-moment]")).to_be_visible()
    page.keyboard.press("s")
    begun = page.locator("#range-begun")
    expect(begun).to_contain_text("One end of the range is event 380.")
    expect(page.get_by_role("button", name="Range", exact=True)).to_have_attribute("aria-pressed", "true")
    page.locator("#event-t371 .line").click()
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-at", "t371")
    begun.get_by_role("button", name="Select up to here").click()
    expect(page).to_have_url(re.compile(r"from=t371&to=t380"))
    expect(range_line(page)).to_contain_text("Events 371–380")
    expect_numbers(page, 371, 380)
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-at", "t371")
    page.keyboard.press("Escape")  # first back to now, then to all events
    expect(page.locator("#moment")).to_be_hidden()
    expect(range_line(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/travel/$"))

    page.keyboard.press("s")
    page.keyboard.press("Escape")
    expect(page.locator("#range-begun")).to_be_hidden()


@pytest.mark.long
def test_a_click_with_shift_selects_from_the_event_that_is_shown_to_there(page: Page) -> None:
    strip = go(page, path("s", *TRAVEL, end="?at=t380"))
    expect(strip).to_have_attribute("aria-valuetext", re.compile("^Event 380 of "))
    shift_drag(page, strip, 0.9, 0.9)
    expect(page).to_have_url(re.compile(r"from=t\d+&to=t380"))
    expect(page.locator(".ev .seq").last).to_have_text("380")
    assert set(numbers(page)) == set(range(numbers(page)[0], 381))


@pytest.mark.long
def test_a_range_that_is_gone_is_told_and_everything_else_works(page: Page) -> None:
    go(page, path("s", *TRAVEL, end="?from=<img src=x onerror=alert(1)>&to=t10"))
    warning = page.get_by_role("alert").filter(has_text="isn't in this session")
    expect(warning).to_contain_text("event “<img src=x onerror=alert(1)>” isn't in this session")
    assert numbers(page)[-1] == 400
    page.locator("#event-t396 .line").click()
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-at", "t396")
    warning.get_by_role("link").click()
    expect(warning).to_be_hidden()


@pytest.mark.long
def test_what_is_appended_after_a_range_enters_the_strip_and_not_the_timeline(page: Page, visit: Visit) -> None:
    address = path("s", *own("ranged"))
    go(page, address)
    ids = page.locator(".ev").evaluate_all("rows => rows.map((row) => row.id.replace('event-', ''))")
    strip = go(page, f"{address}?from={ids[0]}&to={ids[1]}")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    other = visit()
    other.goto(address + "add/")
    other.get_by_role("button", name="Add event").click()
    expect(other.get_by_text("The event was added.")).to_be_visible()
    expect(strip.locator("svg > .bar")).to_have_count(3)
    expect(page.locator(".ev")).to_have_count(2)
    expect(page.locator("[data-timeline-new]")).to_be_hidden()
    expect(strip.locator("svg > .ranged")).to_have_count(1)


@pytest.mark.long
def test_a_long_range_is_read_from_end_to_end(page: Page) -> None:
    go(page, path("s", *TRAVEL, end="?from=t20&to=t350"))
    assert numbers(page)[-1] == 350
    first = page.locator(".ev").first
    while (before := first.get_attribute("id")) != "event-t20":
        page.locator(".scroll[data-timeline]").evaluate("e => e.scrollTo(0, 0)")
        until(page, "id => document.querySelector('.ev').id !== id", before)
    assert numbers(page) == list(range(20, 351))


# --- Pinned keys ------------------------------------------------------------------------------------------------------


def pin(page: Page, key: str) -> Locator:
    """The line of a pinned key."""
    return page.locator(f".pin[data-pin='{key}']")


def test_a_key_is_pinned_by_its_button_and_by_its_key_and_its_value_is_that_at_the_cursor(page: Page) -> None:
    strip = go(page, path("s", *TRAVEL))
    row = page.locator("#state [data-key-row='n']")
    row.hover()
    row.get_by_role("button", name="Pin n to the strip").click()
    expect(page).to_have_url(re.compile(r"\?pin=n$"))
    expect(pin(page, "n").locator("polyline")).to_have_count(1)
    expect(pin(page, "n").locator("[data-pin-value]")).to_have_text("400")
    page.locator("#state [data-key-row='tree'] a").last.focus()
    page.keyboard.press("Shift+P")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")  # where no key has the focus, p pauses
    expect(pin(page, "tree").locator(".band").first).to_be_attached()
    expect(pin(page, "tree").locator("[data-pin-value]")).to_have_text("{a: [400]}")

    page.locator("#event-t397 .line").click()
    expect(pin(page, "n").locator("[data-pin-value]")).to_have_text("396")
    expect(strip).to_have_attribute("aria-valuetext", re.compile("^Event 397 of "))
    expect(page.get_by_role("button", name="Pin n to the strip")).to_have_attribute("aria-pressed", "true")
    box = strip.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    expect(pin(page, "n").locator("[data-pin-value]")).to_have_text("200")
    page.mouse.move(box["x"], box["y"] - 200)
    expect(pin(page, "n").locator("[data-pin-value]")).to_have_text("396")
    values = pin(page, "n").locator("ol > li").all_inner_texts()
    assert (values[0], values[1]) == ("at the start: 0", "events 3 to 4: 4")


@pytest.mark.long
def test_pins_are_remembered_for_the_app_and_can_be_shared_and_taken_back(page: Page, visit: Visit) -> None:
    go(page, path("s", *SEOUL, end="?pin=booking_step"))
    page.locator("#state [data-key-row='searches']").hover()
    page.get_by_role("button", name="Pin searches to the strip").click()
    expect(page.locator(".pin")).to_have_count(2)
    go(page, path("s", *TRACED))  # of the same app
    expect(page).to_have_url(re.compile(r"\?pin=booking_step&pin=searches$"))
    expect(page.locator(".pin")).to_have_count(2)
    go(page, path("s", "demo", "support", "ana", "draft"), drawn=False)
    expect(page).not_to_have_url(re.compile("pin="))

    other = visit()
    go(other, path("s", *SEOUL, end="?pin=booking_step&pin=searches&pin=no%3Cb%3E"))
    expect(other.locator(".pin")).to_have_count(3)
    expect(pin(other, "no<b>").locator("[data-pin-value]")).to_have_text("no such key")
    other.get_by_role("button", name="Unpin booking_step").click()
    expect(other.locator(".pin")).to_have_count(2)
    expect(other.get_by_role("slider", name="Time travel")).to_be_focused()
    other.reload()
    expect(other.locator(".pin")).to_have_count(2)
    for _ in range(2):
        other.locator("[data-unpin]").first.click()
    expect(other.locator(".pins")).to_have_count(0)
    expect(other).to_have_url(re.compile(r"/seoul-trip/$"))


@pytest.mark.long
def test_at_most_five_keys_are_pinned(page: Page) -> None:
    keys = ["booking_step", "searches", "fare", "visit", "channel", "payment"]
    go(page, path("s", *SEOUL, end="?" + "&".join(f"pin={key}" for key in keys)))
    expect(page.locator(".pin")).to_have_count(5)
    other = page.locator("[data-pin-key='payment']")
    expect(other).to_be_disabled()
    expect(other).to_have_attribute("title", "You can pin up to 5 keys.")


@pytest.mark.long
def test_the_line_of_a_pinned_key_goes_on_while_the_session_does(page: Page, visit: Visit) -> None:
    address = path("s", *own("pinned"))
    go(page, f"{address}?pin=count")
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(pin(page, "count").locator("[data-pin-value]")).to_have_text("4")
    other = visit()
    other.goto(address + "edit/?key=count")
    type_json(other, "77")
    other.get_by_role("button", name="Apply").click()
    expect(other.get_by_text("Saved as event #")).to_be_visible()
    expect(pin(page, "count").locator("[data-pin-value]")).to_have_text("77")
