"""The timeline as a chat, as events and as traces: a failed run is read in each, and the run of an agent is followed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.places import path
from tests.browser.seed import TRACED
from tests.browser.watching import expect_at_end, until

RUN = path("s", *TRACED)
SEOUL = path("s", "demo", "booking", "ana", "seoul-trip")
PAYS = "payment service"  # why the last call of the run failed


def lane(page: Page, name: str) -> Locator:
    """A row of the trace."""
    return page.locator(".lane", has=page.locator(f".name[title='{name}']"))


def test_a_failed_run_is_read_in_each_density_and_a_lane_leads_through_its_events(page: Page) -> None:
    page.goto(RUN)
    expect(page.locator("#travel")).to_be_visible()
    page.keyboard.press("<")  # the last error
    moment = page.locator("#moment [data-moment]")
    failed = page.locator(".ev.selected.error")
    expect(failed).to_contain_text(PAYS)
    at = moment.get_attribute("data-at")

    page.keyboard.press("1")
    expect(page).to_have_url(re.compile(f"density=chat.*at={at}|at={at}.*density=chat"))
    failure = page.locator(".ev.selected .message.failed")
    expect(failure).to_be_in_viewport()
    expect(failure).to_contain_text(PAYS)
    call = page.locator(".message.tool", has_text="pay ()")
    expect(call).to_have_text(re.compile(r"pay \(\)\s+failed"))
    call.locator("summary").click()
    expect(call.locator(".inner")).to_contain_text("Arguments")

    page.keyboard.press("3")
    expect(page).to_have_url(re.compile(f"at={at}"))
    pay = lane(page, "pay")
    expect(pay).to_have_class(re.compile("failed"))
    expect(pay.locator(".shown")).to_have_count(1)
    expect(pay.locator(".figures")).to_contain_text("ConnectionError")

    page.keyboard.press("2")
    expect(page.locator("#events")).to_have_attribute("data-density", "events")
    expect(page.locator(".ev.selected")).to_be_in_viewport()
    expect(page.locator(".ev.selected")).to_have_id(f"event-{at}")

    # A lane of a parallel agent leads through its events.
    page.keyboard.press("3")
    agent = lane(page, "researcher_of_all_cheap_flights")
    expect(agent).to_have_count(1)
    tool = page.locator(".lane.tool.failed").first
    expect(tool.locator(".figures")).to_contain_text("429 too many requests")
    tool.locator(".name").hover()
    expect(tool.locator(".guide").first).to_be_visible()
    tool.locator(".name a").click()
    expect(page.locator("#moment [data-moment]")).to_have_attribute("data-at", "r2.25")
    expect(tool.locator(".shown").first).to_be_attached()
    page.keyboard.press("Escape")
    expect(page.locator(".lane:has(.shown)")).to_have_count(0)


def test_a_row_of_a_trace_shows_its_event_and_is_the_only_one_that_is_lit(page: Page) -> None:
    page.goto(f"{RUN}?density=trace")
    expect(page.locator("#travel")).to_be_visible()
    pay = lane(page, "pay")
    pay.locator(".name a").click()
    shown = page.locator("#moment [data-show]")
    expect(shown).to_have_attribute("data-show", "event")
    expect(page.locator("#moment .part")).to_contain_text("pay")
    expect(page.locator(".lane:has(.shown)")).to_have_count(1)
    expect(pay.locator(".shown")).to_have_count(1)
    page.locator("#show-state").click()  # which stays for the next one
    expect(shown).to_have_attribute("data-show", "state")
    expect(page.locator(".lane:has(.shown)")).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator(".asked .line").first.click()
    expect(shown).to_have_attribute("data-show", "state")
    lane(page, "pay").locator(".name a").click()
    expect(shown).to_have_attribute("data-show", "event")


def test_a_row_of_a_trace_is_as_high_as_its_line_and_has_another_only_for_an_error(page: Page) -> None:
    page.goto(f"{RUN}?density=trace")
    expect(page.locator(".lane").first).to_be_visible()
    heights = page.locator(".lane").evaluate_all(
        "lanes => lanes.map((lane) => [lane.querySelector('.fault') !== null, lane.getBoundingClientRect().height])"
    )
    assert {has_error for has_error, _ in heights} == {False, True}
    assert all(26 <= height <= (50 if has_error else 32) for has_error, height in heights), heights


def edges(page: Page, selector: str, side: str) -> set[int]:
    """Where what is visible of a page begins (left) or ends (right)."""
    boxes = (
        "(all, side) => all.filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect()[side])"
    )
    return {round(each) for each in page.locator(selector).evaluate_all(boxes, side)}


def test_numbers_of_a_trace_stand_below_each_other_and_bars_below_the_questions(page: Page) -> None:
    page.goto(f"{SEOUL}?density=trace")
    page.get_by_role("button", name="Fold all turns").click()  # opens them
    expect(page.locator(".lane.tool").first).to_be_visible()
    assert len(edges(page, ".turn .took", "right")) == 1
    assert len(edges(page, ".turnbar", "left")) == 1
    assert len(edges(page, ".waterfall:has(.tok) .lane .took", "right")) == 1
    (start,) = edges(page, ".waterfall .lane .spans", "left")
    assert edges(page, ".asked .line", "left") == {start}


def test_a_phone_shows_bars_in_the_whole_width_and_the_times_of_their_axis_stay(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 520})
    page.goto(f"{RUN}?density=trace")
    last = page.locator(".lane").last
    for bar in (page.locator(".turnbar").last, last.locator(".spans")):
        expect(bar).to_be_visible()
        assert bar.evaluate("each => each.getBoundingClientRect().width") == pytest.approx(366, abs=1)
    page.mouse.move(200, 300)
    page.mouse.wheel(0, 10)
    last.evaluate("row => scrollBy(0, row.getBoundingClientRect().top - 250)")
    expect(page.locator(".axis > .spans").last).to_be_in_viewport(ratio=1)


TOP = """() => {
    const { top } = document.querySelector("[data-timeline]").getBoundingClientRect();
    const boxes = [...document.querySelectorAll("#events [data-row]")].map((row) => [row, row.getBoundingClientRect()]);
    const [row, box] = boxes.find(([, { height, bottom }]) => height > 0 && bottom > top + 1);
    return [row.id, Math.round(box.top)];
}"""


def test_the_row_at_the_top_and_the_focus_stay_in_another_density(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 600})  # what follows the row fills it in each of them
    page.goto(f"{SEOUL}?density=events")
    expect(page.get_by_role("slider", name="Time travel")).to_be_visible()  # which takes room above
    expect_at_end(page)
    page.locator("#turn-12").evaluate("row => row.scrollIntoView()")
    expect(page.locator("[data-timeline]")).to_have_attribute("data-following", "false")
    page.locator("#turn-12 ~ .ev .line").first.focus()
    focused = page.locator(".ev:focus-within").get_attribute("id")
    top = page.evaluate(TOP)
    for key, density in (("1", "Chat"), ("3", "Trace"), ("2", "Events"), ("3", "Trace")):
        page.keyboard.press(key)
        expect(page.locator("[data-densities] [aria-current]")).to_have_text(density)
        expect(page.locator(".ev:focus-within")).to_have_id(focused or "")
        until(
            page, f"([id, top]) => {{ const [at, is] = ({TOP})(); return at === id && Math.abs(is - top) <= 1; }}", top
        )
    page.goto(SEOUL)  # it is remembered
    expect(page.locator("[data-densities] [aria-current]")).to_have_text("Trace")
    expect(page.locator("[data-first]")).to_be_in_viewport()  # where a trace opens
    page.keyboard.press("2")
    expect(page.locator("[data-densities] [aria-current]")).to_have_text("Events")
    expect_at_end(page)


def test_on_another_scale_the_same_turns_are_open_and_the_row_at_the_top_stays(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 600})
    page.goto(f"{SEOUL}?density=trace")
    opened = page.locator(".turn:has([aria-expanded=true])")
    expect(opened).to_have_count(1)
    page.locator("#turn-8 .turnbar").click()
    page.locator("#turn-14 .turnbar").click()
    expect(opened).to_have_count(3)
    page.evaluate("window.samePage = true")
    link = page.get_by_role("link", name="To scale")
    for shown in ("true", None):
        page.evaluate("""() => {
            document.querySelector("#turn-9").scrollIntoView();
            document.querySelector("[data-timeline]").scrollBy(0, 8);
        }""")
        expect(page.locator("[data-timeline]")).to_have_attribute("data-following", "false")
        top = page.evaluate(TOP)
        link.click()
        expect(page.locator("#trace-8 > .trace")).to_have_class("trace scaled" if shown else "trace")
        assert link.get_attribute("aria-current") == shown
        assert page.evaluate(TOP) == [top[0], pytest.approx(top[1], abs=1)]
        page.locator("#events").evaluate("events => events.lastElementChild.scrollIntoView()")
        expect(page.locator("#turn-17")).to_be_in_viewport()  # the last page of the timeline has come
        assert [turn.get_attribute("id") for turn in opened.all()] == ["turn-8", "turn-11", "turn-14"]
    assert page.evaluate("window.samePage")


@pytest.mark.long
@pytest.mark.parametrize("density", ["chat", "trace"])
def test_keys_move_over_what_is_shown_and_turns_fold(page: Page, density: str) -> None:
    page.goto(f"{SEOUL}?density={density}")
    for _ in range(4):
        page.keyboard.press("k")
        focused = page.locator(".ev:focus-within")
        expect(focused).to_be_visible()
        expect(focused).to_be_in_viewport()
    turn = page.locator(".turn").last
    rows = turn.locator("xpath=following-sibling::li[not(contains(@class, 'asked'))]")
    if density == "trace":  # which is opened for another turn
        turn.get_by_role("button").click()
        expect(rows.first).to_be_visible()
    turn.get_by_role("button").click()
    for row in rows.all():
        expect(row).to_be_hidden()


def test_a_link_to_earlier_rows_that_has_just_left_the_page_is_not_followed(page: Page) -> None:
    page.add_init_script("""
        window.seen = [];
        const Real = IntersectionObserver;
        window.IntersectionObserver = class extends Real {
          constructor(tell, options) { super(tell, options); seen.push(tell); }
        };""")
    page.goto(SEOUL)
    expect(page.locator("#strip svg").first).to_be_attached()  # htmx works
    page.evaluate("""() => {
        const target = Object.assign(document.createElement("a"), {href: "/about-to-leave/"});
        for (const tell of seen) tell([{isIntersecting: true, target}]);
    }""")
    page.wait_for_timeout(200)
    expect(page).to_have_url(re.compile(SEOUL))
    page.keyboard.press("3")  # the page is still there, and hears keys
    expect(page.locator("#events")).to_have_attribute("data-density", "trace")
