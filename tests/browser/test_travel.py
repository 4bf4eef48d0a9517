"""Time travel on the session page: by mouse, by keyboard, by a shared link, while the session goes on."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, own, path
from tests.browser.seed import LONG, LONG_EVENTS, TRAVEL, TRAVEL_EVENTS
from tests.browser.serving import Adkweb
from tests.browser.watching import AS_CLICKED, HURRY, insert, two_frames, until
from tests.parts import long_but

SESSION = path("s", *TRAVEL)
# Counts what the page asks for at once, besides what it will need for steps, and makes each answer wait as if the server
# were far away, or for as long as asked.held.
SLOW = """
    window.asked = { now: 0, most: 0, addresses: [], held: false };
    const real = window.fetch;
    window.fetch = async (...all) => {
        if (String(all[0]).includes("/state/stretch/")) return real(...all); // ahead of steps, while nothing waits
        asked.now += 1;
        asked.most = Math.max(asked.most, asked.now);
        asked.addresses.push(String(all[0]));
        try {
            do await new Promise((done) => setTimeout(done, 120));
            while (asked.held);
            return await real(...all);
        } finally {
            asked.now -= 1;
        }
    };
"""


def moment(page: Page) -> Locator:
    """The panel at an event."""
    return page.locator("#moment")


def value(page: Page, key: str, where: str = "#moment") -> Locator:
    """A key's value in a panel."""
    return page.locator(f"{where} [data-key-row='{key}'] .kv:has(> .key[title='{key}']) > .value")


def go(page: Page, address: str = SESSION) -> Locator:
    """The session's page; its strip."""
    page.goto(address)
    strip = page.get_by_role("slider", name="Time travel")
    expect(strip).to_be_visible()
    return strip


def n_at(number: int) -> str:
    """What `n` is after event t<number> of TRAVEL."""
    return str(number - number % 4)


def drag(page: Page, strip: Locator, shares: list[float], steps: int = 12) -> None:
    """Presses the mouse on the strip, goes to each share of its width, and lets go."""
    box = strip.bounding_box()
    assert box
    for number, share in enumerate(shares):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=steps if number else 1)
        if not number:
            page.mouse.down()
    page.mouse.up()


def test_a_link_that_is_copied_right_after_a_step_leads_to_what_is_shown(page: Page) -> None:
    go(page)
    copied = page.evaluate(
        """() => new Promise((done) => {
            navigator.clipboard.writeText = async (text) => done(text);
            new MutationObserver(() => {
                if (!document.querySelector("#moment [data-at=t396]")) return;
                setTimeout(() => document.querySelector("[data-copy-view]").click());
            }).observe(document.querySelector("#moment"), {childList: true, subtree: true});
            document.querySelector("#event-t396 .line").click();
        })"""
    )
    assert "at=t396" in copied


# --- By mouse ---------------------------------------------------------------------------------------------------------


def test_a_click_shows_the_state_just_after_an_event_and_an_edit_asks_before_it_leaves_the_past(
    page: Page,
) -> None:
    page.set_viewport_size({"width": 1100, "height": 800})
    go(page)
    expect(page.locator("[data-travel-here]")).to_be_hidden()  # a key does it where there is no room for the button
    page.keyboard.press("t")
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", f"t{TRAVEL_EVENTS}")
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_be_visible()
    for number in (TRAVEL_EVENTS, TRAVEL_EVENTS - 1):  # the first step back from now leads to the past
        page.keyboard.press("[")
        expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", f"t{number}")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator("#event-t396 .line").click()
    expect(moment(page).locator(".then")).to_contain_text("Event")
    expect(value(page, "n")).to_have_text("396")
    expect(value(page, "user:far")).to_have_text("396")
    expect(moment(page).locator("[data-key-row='n'] > .was del")).to_have_text("392")
    expect(moment(page).locator(".written")).to_have_count(3)
    expect(value(page, "kept")).to_have_text('"so"')
    expect(page.locator("#event-t396")).to_have_class(re.compile("selected"))
    expect(page.locator("#state")).to_be_hidden()
    expect(page).to_have_url(re.compile(r"\?at=t396$"))

    page.locator("#event-t399 .line").click()
    expect(moment(page)).to_contain_text(re.compile(r"Event \d+"))
    expect(moment(page).locator(".written")).to_have_count(0)
    expect(page.locator(".ev.selected")).to_have_count(1)
    page.get_by_role("link", name="Back to now").click()
    expect(moment(page)).to_be_hidden()
    expect(value(page, "n", "#state")).to_have_text("400")
    expect(page).to_have_url(re.compile(r"/travel/$"))
    expect(page.locator(".ev.selected")).to_have_count(0)

    # An edit asks before it leaves the past.
    past = page.get_by_role("dialog")
    page.locator("#event-t396 .line").click()
    expect(moment(page)).to_be_visible()
    number = page.locator("#event-t396 .seq").inner_text()
    page.keyboard.press("e")
    expect(past.get_by_role("heading")).to_have_text(f"You are at event {number}")
    page.keyboard.press("Escape")
    expect(past).to_be_hidden()
    expect(moment(page)).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.press("e")
    expect(page.get_by_label("Key to edit or add")).to_be_focused()
    expect(moment(page)).to_be_hidden()
    expect(page.locator("#state")).to_be_visible()
    page.locator("#event-t396 .line").click()
    expect(moment(page)).to_be_visible()
    page.get_by_role("link", name="Edit state").click()
    past.get_by_role("link", name="Fork here").click()
    expect(page.locator("#pane-title")).to_contain_text("Fork")


@pytest.mark.long
def test_the_parts_of_an_event_stay_chosen_from_event_to_event(page: Page) -> None:
    go(page)
    page.locator("#event-t396 .line").click()
    expect(value(page, "n")).to_have_text("396")
    page.get_by_role("link", name=re.compile("^Changes")).click()
    expect(moment(page).locator("[data-key-row]")).to_have_count(3)
    expect(page).to_have_url(re.compile("at=t396&show=changes$"))
    page.locator("#event-t397 .line").click()
    expect(moment(page)).to_contain_text("This event changed nothing")
    page.get_by_role("link", name="Next state change").click()
    expect(moment(page).locator("[data-key-row]")).to_have_count(3)
    expect(moment(page).locator("[data-key-row='n'] :is(del, ins)")).to_have_text(["396", "400"])
    page.get_by_role("link", name="Event", exact=True).click()
    expect(page.locator("#detail .facts")).to_contain_text("t400")


@pytest.mark.long
def test_a_writer_leads_to_the_state_that_it_left(page: Page) -> None:
    go(page)
    page.locator("#state [data-key-row='n'] .by a[data-at]").click()
    expect(value(page, "n")).to_have_text("400")
    expect(moment(page).locator(".written")).to_have_count(3)
    page.locator("#moment [data-key-row='kept']").get_by_text("created").wait_for()


def test_the_part_that_is_chosen_before_the_answer_comes_is_the_one_that_is_shown(page: Page) -> None:
    go(page)
    page.evaluate("""() => {
        document.querySelector("#event-t396 .line").click();
        document.querySelector("#state [data-travel-show=changes]").click();
    }""")
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t400")
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-show", "changes")


def test_an_answer_that_comes_when_somebody_went_back_to_now_is_not_shown(page: Page) -> None:
    go(page)
    page.route(
        "**/state/stretch/**", lambda route: route.fulfill(body="", content_type="text/html")
    )  # so that each event is asked for
    page.locator("#event-t396 .line").click()
    expect(value(page, "n")).to_have_text("396")
    held: list[Route] = []
    page.route(re.compile(r"/state/\?.*at=t399"), lambda route: held.append(route))
    page.evaluate("document.addEventListener('adkweb:moment', (e) => (window.seen ??= []).push(e.detail?.at ?? 'now'))")
    with page.expect_request(re.compile(r"at=t399")):
        page.locator("#event-t399 .line").click()
    page.get_by_role("link", name="Back to now").click()
    page.locator("#event-t396 .line").click()
    with page.expect_response(re.compile(r"at=t399")):
        held[0].continue_()
    until(page, "window.seen.length >= 2")
    expect(value(page, "n")).to_have_text("396")
    assert page.evaluate("window.seen") == ["now", "t396"]


def test_dragging_along_the_strip_asks_for_one_state_at_a_time_and_ends_at_the_last(page: Page) -> None:
    page.add_init_script(SLOW)
    strip = go(page)
    page.evaluate("asked.held = true")
    drag(page, strip, [0.9, 0.2, 0.7, 0.05, 0.5])
    page.evaluate("asked.held = false")
    places = strip.get_attribute("data-seqs")
    assert places
    bars = [int(place) for place in places.split()]
    expect(moment(page)).to_have_attribute("data-state", re.compile("state/$"))
    shown = moment(page).locator("[data-moment]")
    middle = bars[len(bars) // 2]
    near = "|".join(str(seq) for seq in range(middle - 3, middle + 4))
    expect(shown).to_have_attribute("data-seq", re.compile(f"^({near})$"))
    expect(page.locator(".ev.selected")).to_be_in_viewport()  # the timeline comes along
    number = int((shown.get_attribute("data-at") or "t0")[1:])
    expect(value(page, "n")).to_have_text(n_at(number))
    asked = page.evaluate("asked")
    assert asked["most"] == 1
    states = [address for address in asked["addresses"] if "/state/" in address]
    assert len(states) == 2  # of some 50 moves, those for which there was time
    expect(page).to_have_url(re.compile(rf"at=t{number}$"))


@pytest.mark.long  # by the clock
def test_dragging_leaves_room_for_thirty_frames_a_second(page: Page) -> None:
    strip = go(page)
    box = strip.bounding_box()
    assert box
    page.mouse.move(box["x"] + 5, box["y"] + 10)
    page.mouse.down()
    profiler = page.context.new_cdp_session(page)
    profiler.send(
        "Performance.enable", {"timeDomain": "threadTicks"}
    )  # of the page's own thread, so nobody else's work

    def worked() -> float:
        return next(
            float(metric["value"])
            for metric in profiler.send("Performance.getMetrics")["metrics"]
            if metric["name"] == "TaskDuration"
        )

    before, moves = worked(), 120
    for number in range(moves):
        share = abs((number / 40) % 2 - 1)
        page.mouse.move(box["x"] + 2 + share * (box["width"] - 4), box["y"] + 10)
    assert (worked() - before) / moves < 1 / 30
    page.mouse.up()


@pytest.mark.long
def test_an_answer_that_nobody_waits_for_any_more_is_not_shown(page: Page) -> None:
    page.add_init_script(SLOW)
    go(page)
    page.locator("#event-t396 .line").click()
    page.keyboard.press("Escape")  # nothing is open yet
    page.locator("#event-t397 .line").click()
    page.locator("#event-t393 .line").click()
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t393")
    page.locator("#event-t398 .line").click()
    page.get_by_role("link", name="Back to now").click()
    until(page, "!asked.now")
    two_frames(page)
    expect(moment(page)).to_be_hidden()
    expect(page.locator("#state")).to_be_visible()
    assert page.evaluate("asked.most") == 1


# --- By keyboard ------------------------------------------------------------------------------------------------------


def test_by_keyboard_there_is_one_cursor_in_the_past(page: Page) -> None:
    go(page)
    at = moment(page).locator("[data-moment]")
    for key in "jkk":
        page.keyboard.press(key)
    page.keyboard.press("t")
    expect(at).to_have_attribute("data-at", "t398")
    for key, event in (("]", "t399"), ("]", "t400"), ("]", "t400"), ("[", "t399"), ("{", "t396"), ("{", "t392")):
        page.keyboard.press(key)
        expect(at).to_have_attribute("data-at", event)
    page.keyboard.press("}")
    expect(at).to_have_attribute("data-at", "t396")
    expect(value(page, "n")).to_have_text("396")
    page.keyboard.press("Escape")
    expect(moment(page)).to_be_hidden()
    expect(page.locator("#event-t396 .line")).to_be_focused()

    # In the past there is one cursor: what is shown is selected, and has the focus.
    page.locator("#event-t396 .line").click()
    expect(at).to_have_attribute("data-at", "t396")
    for key, event in (("[", "t395"), ("]", "t396"), ("j", "t397"), ("j", "t398"), ("k", "t397"), ("{", "t396")):
        page.keyboard.press(key)
        expect(at).to_have_attribute("data-at", event)
        expect(page.locator(f"#event-{event} .line")).to_be_focused()
        expect(page.locator(".ev.selected")).to_have_attribute("id", f"event-{event}")
    for _ in range(5):
        page.keyboard.press("k")  # faster than answers
    expect(page.locator("#event-t391 .line")).to_be_focused()
    expect(at).to_have_attribute("data-at", "t391")
    page.keyboard.press("Escape")
    expect(page.locator(".ev.selected")).to_have_count(0)
    page.keyboard.press("k")
    expect(page.locator("#event-t390 .line")).to_be_focused()
    expect(moment(page)).to_be_hidden()  # now is not left by moving


def test_keys_lead_from_now_to_the_last_change_and_say_calmly_where_there_is_no_error(page: Page, watch: Watch) -> None:
    watch.allow(404)
    page.add_init_script(HURRY)
    go(page)
    page.keyboard.press("{")
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t400")  # it changed state itself
    page.keyboard.press("Escape")
    expect(moment(page)).to_be_hidden()
    page.keyboard.press(">")
    toast = page.get_by_role("status").filter(has_text="No later errors.")
    expect(toast).to_have_class("toast info")
    expect(toast).to_have_count(0)  # it goes by itself


@pytest.mark.parametrize("density", ["chat", "trace"])
def test_the_focus_goes_along_to_what_says_nothing(page: Page, density: str) -> None:
    page.goto(path("s", *SEOUL, end=f"?density={density}"))
    at = moment(page).locator("[data-moment]")
    page.keyboard.press("k")
    page.keyboard.press("t")
    expect(at).to_be_visible()
    silent = 0
    for _ in range(8):
        before = at.get_attribute("data-at")
        page.keyboard.press("[")
        expect(at).not_to_have_attribute("data-at", str(before))
        row = page.locator(".ev.selected")
        expect(row).to_have_id(f"event-{at.get_attribute('data-at')}")
        says = "silent" not in str(row.get_attribute("class"))
        until(
            page,
            f"() => document.querySelector('.ev.selected').contains(document.activeElement) === {str(says).lower()}",
        )
        assert says or page.evaluate("document.activeElement === document.body")
        silent += not says
    assert silent


def test_the_strip_is_a_slider_for_the_keyboard(page: Page) -> None:
    strip = go(page)
    at = moment(page).locator("[data-moment]")
    expect(strip).to_have_attribute("aria-valuetext", "Now")
    strip.focus()
    page.keyboard.press("Home")
    expect(at).to_have_attribute("data-at", "t1")
    expect(strip).to_have_attribute("aria-valuenow", "0")
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"Event \d+ of"))
    expect(value(page, "n")).to_have_text("0")
    expect(page).to_have_url(re.compile("at=t1$"))  # to be sent to somebody else
    page.keyboard.press("ArrowRight")
    expect(at).to_have_attribute("data-at", "t2")
    page.keyboard.press("Shift+ArrowRight")
    expect(at).to_have_attribute("data-at", "t4")
    page.keyboard.press("PageUp")
    expect(at).to_have_attribute("data-at", re.compile("t4[0-9]"))
    page.keyboard.press("End")
    expect(at).to_have_attribute("data-at", f"t{TRAVEL_EVENTS}")
    page.keyboard.press("ArrowLeft")
    expect(at).to_have_attribute("data-at", "t399")
    expect(strip).to_be_focused()
    page.keyboard.press("Escape")
    expect(moment(page)).to_be_hidden()
    expect(strip).to_have_attribute("aria-valuetext", "Now")


def test_the_time_at_an_end_of_the_strip_gives_way_to_that_of_the_event(page: Page) -> None:
    go(page)
    began, ended = page.locator(".striptimes > time").all()
    for key, covered, shown in (("Home", began, ended), ("End", ended, began)):
        page.get_by_role("slider", name="Time travel").press(key)
        expect(covered).to_be_hidden()
        expect(shown).to_be_visible()
    page.keyboard.press("Escape")
    expect(ended).to_be_visible()


def test_words_of_the_legend_give_way_to_the_time_of_the_event(page: Page) -> None:
    strip = go(page)
    head = page.locator("#strip .cursor > .head")
    given_way = 0
    strip.press("End")
    for number in range(TRAVEL_EVENTS - 41, 0, -40):
        strip.press("PageDown")
        expect(head).to_have_text(re.compile(f"^{number} "))
        hidden, crossed = page.evaluate("""() => {
            const head = document.querySelector("#strip .cursor > .head").getBoundingClientRect();
            const words = [...document.querySelectorAll(".striptimes .agents > li")];
            const seen = words.filter((one) => one.checkVisibility({ visibilityProperty: true }));
            const across = (one) => one.left < head.right && one.right > head.left;
            return [words.length - seen.length, seen.filter((one) => across(one.getBoundingClientRect())).length];
        }""")
        assert crossed == 0
        given_way += hidden
    assert given_way
    page.keyboard.press("Escape")
    expect(page.locator(".striptimes .covered")).to_have_count(0)


@pytest.mark.long
def test_steps_that_come_faster_than_answers_are_all_taken(page: Page) -> None:
    page.add_init_script(SLOW)
    strip = go(page)
    strip.focus()
    page.evaluate("asked.held = true")
    page.keyboard.press("End")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    page.evaluate("asked.held = false")
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t391")
    assert page.evaluate("asked.most") == 1
    assert len([a for a in page.evaluate("asked.addresses") if "/state/" in a]) <= 2


# --- Links ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("History", "If you share a link to a moment, others see the same moment.")
@pytest.mark.parametrize("scripts", long_but([True, False], True))
def test_a_link_shows_somebody_else_the_same_moment(visit: Visit, scripts: bool) -> None:
    other = visit(java_script_enabled=scripts)
    other.goto(SESSION + "?at=t8")
    expect(moment(other).locator(".then")).to_contain_text("Event")
    expect(value(other, "n")).to_have_text("8")
    expect(other.locator("#event-t8")).to_have_class(re.compile("selected"))
    if scripts:
        expect(other.locator("#event-t8")).to_be_in_viewport()
    other.get_by_role("link", name="Next event").click()
    expect(value(other, "n")).to_have_text("8")
    expect(other.locator("#event-t9")).to_have_class(re.compile("selected"))
    other.get_by_role("link", name="Back to now").click()
    expect(value(other, "n", "#state")).to_have_text("400")


def test_the_timeline_goes_on_from_an_event_far_back_to_the_newest_or_jumps_there(page: Page) -> None:
    page.add_init_script(AS_CLICKED)
    strip = go(page, path("s", *LONG))
    strip.focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("link", name="Later events")).to_be_attached()
    expect(page.locator(".ev").first).to_contain_text("Message 0")
    page.keyboard.press("Escape")  # back to now
    expect(page.get_by_role("link", name="Later events")).to_have_count(0)
    expect(page.locator(".ev").last).to_contain_text(f"Message {LONG_EVENTS - 1}")
    expect(page.locator(".ev").last).to_be_in_viewport()

    number = 20
    strip.focus()
    page.keyboard.press("Home")
    expect(page.locator(".ev.selected")).to_contain_text("Message 0")
    expect(page.locator(".ev.selected")).to_be_in_viewport()
    for _ in range(number):
        page.keyboard.press("]")
    expect(page.locator(".ev.selected")).to_contain_text(f"Message {number} ")
    while page.get_by_role("link", name="Later events").count():
        before = page.locator(".ev").count()
        page.get_by_role("link", name="Later events").dispatch_event("click")
        expect(page.locator(".ev")).not_to_have_count(before)
    expect(page.locator(".ev")).to_have_count(LONG_EVENTS)
    numbers = [int(text) for text in page.locator(".ev .seq").all_inner_texts()]
    assert numbers == sorted(set(numbers))
    expect(page.locator("[data-timeline-new]")).to_be_hidden()  # what was asked for is no news


# --- While the session goes on ----------------------------------------------------------------------------------------


def test_what_happens_meanwhile_is_in_the_timeline_and_the_moment_stays(page: Page, visit: Visit) -> None:
    address = path("s", *own("time-goes-on"))
    go(page, address)
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    page.locator(".ev .line").first.click()
    expect(value(page, "count")).to_have_text("3")
    expect(page.locator("#moment [data-key-row='count']")).to_contain_text("created")

    other = visit()
    other.goto(address + "edit/?key=count")
    other.locator("json-editor .cm-content").click()
    other.keyboard.press("ControlOrMeta+a")
    other.keyboard.type("77")
    other.get_by_role("button", name="Apply").click()
    expect(other.get_by_text("Saved as event #")).to_be_visible()

    expect(page.locator(".ev")).to_have_count(3)
    strip = page.get_by_role("slider", name="Time travel")
    expect(strip.locator(".bar")).to_have_count(3)  # the strip goes along
    expect(page.locator(".ev").last.locator(".delta b")).to_have_text("77")
    expect(value(page, "count", "#state")).to_have_text("77")  # kept up to date, and not shown
    expect(page.locator("#state")).to_be_hidden()
    expect(value(page, "count")).to_have_text("3")
    page.locator("main").focus()  # whoever is in the pane is left alone
    expect(page.locator("#moment [data-key-row='count'] .isnow")).to_contain_text("77")
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_be_visible()
    expect(value(page, "count", "#state")).to_have_text("77")
    expect(strip.locator(".bar.edit")).to_have_count(1)


def test_what_is_appended_while_the_timeline_is_far_back_is_told_and_not_lost(page: Page, server: Adkweb) -> None:
    page.add_init_script(AS_CLICKED)
    ref = own("far-back")
    go(page, path("s", *ref, end="?at=f5"))
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(page.get_by_role("link", name="Later events")).to_be_attached()
    shown = page.locator(".ev").count()
    insert(server.demo, ref.session_id, 1, user=ref.user_id)
    expect(page.locator(".ev")).to_have_count(shown + 1)
    expect(page.locator("[data-timeline-new]")).to_contain_text("1 new event")
    while page.get_by_role("link", name="Later events").count():
        before = page.locator(".ev").count()
        page.get_by_role("link", name="Later events").dispatch_event("click")
        expect(page.locator(".ev")).not_to_have_count(before)
    names = page.locator(".ev").evaluate_all("all => all.map((each) => each.id)")
    assert len(names) == len(set(names)) == 131
    numbers = [int(text) for text in page.locator(".ev .seq").all_inner_texts()]
    assert numbers == sorted(numbers)


# --- On a phone -------------------------------------------------------------------------------------------------------


def test_on_a_phone_the_strip_stays_beside_the_state(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    strip = go(page)
    page.locator("#event-t396 .line").click()
    expect(page.get_by_role("tab", name="State")).to_have_attribute("aria-selected", "true")
    expect(value(page, "n")).to_be_visible()
    expect(strip).to_be_in_viewport()
    box = strip.bounding_box()
    assert box
    page.touchscreen.tap(box["x"] + 1, box["y"] + box["height"] / 2)
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t1")
    expect(value(page, "n")).to_have_text("0")
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("#event-t1")).to_be_in_viewport()


def test_on_a_phone_the_ways_to_read_are_tabs_and_filters_are_behind_a_button(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    go(page)
    bar, filters = page.locator(".timelinebar"), page.get_by_role("button", name="Filters")
    for name in ("Chat", "Trace", "Events"):
        tab = page.get_by_role("tab", name=name)
        tab.tap()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.locator(f"#events[data-density={name.lower()}]")).to_be_visible()
        expect(page.locator("[role=tab][aria-selected=true]")).to_have_count(1)
        expect(tab).to_be_in_viewport()  # though the timeline begins at its end
    expect(bar).to_be_hidden()
    filters.tap()
    expect(bar.get_by_role("link", name="Errors")).to_be_in_viewport()
    expect(bar.get_by_role("navigation", name="Timeline view")).to_be_hidden()  # the tabs are the same
    bar.get_by_text("Go to").tap()
    expect(page.get_by_label("Event, turn, time or key")).to_be_focused()
    field = page.get_by_label("Event, turn, time or key").bounding_box()
    assert field
    assert field["x"] >= 0
    assert field["x"] + field["width"] <= 390
    page.touchscreen.tap(190, 700)
    expect(bar).to_be_hidden()


def test_on_a_phone_the_past_has_a_bar_at_the_foot_of_both_tabs(visit: Visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    go(page)
    bar = moment(page).locator(".then")
    expect(bar).to_be_hidden()
    page.locator("#event-t396 .line").tap()
    for tab, event in (("State", "t395"), ("Events", "t394")):
        page.get_by_role("tab", name=tab).tap()
        bar.get_by_role("link", name="Previous event").tap()
        expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", event)
        box = bar.bounding_box()
        assert box
        assert round(box["y"] + box["height"]) == 844
        for step in bar.locator("a:visible, button:visible").all():
            size = step.bounding_box()
            assert size
            assert min(size["width"], size["height"]) >= 40
    expect(page.locator(f"#event-{event}")).to_be_in_viewport()
    for _ in range(8):
        bar.get_by_role("link", name="Previous event").tap()
    expect(moment(page).locator("[data-moment]")).to_have_attribute("data-at", "t386")
    until(
        page,
        """() => {
            const [row, strip] = ["#event-t386", "#strip"].map((one) => document.querySelector(one).getBoundingClientRect());
            return row.top >= strip.bottom && row.bottom <= innerHeight;  // no part of the row is below the strip
        }""",
    )
    bar.get_by_role("button", name="State").tap()
    expect(value(page, "n")).to_be_visible()
    actions = page.get_by_role("navigation", name="Actions for this event")
    expect(actions).to_be_hidden()
    page.get_by_role("button", name="Actions for this event").tap()
    expect(actions.get_by_role("link", name="Restore")).to_be_in_viewport()
    page.touchscreen.tap(190, 200)
    expect(actions).to_be_hidden()
    bar.get_by_role("link", name="Now").tap()
    expect(bar).to_be_hidden()
    expect(value(page, "n", "#state")).to_be_visible()


def test_a_link_to_a_gone_event_leads_back_and_another_is_found_by_its_number_or_a_key(
    page: Page, watch: Watch
) -> None:
    watch.allow(400, 404)
    go(page, SESSION + "?at=gone")
    expect(moment(page).get_by_role("alert")).to_contain_text("This event no longer exists")
    page.keyboard.press("Escape")
    expect(moment(page)).to_be_hidden()
    expect(value(page, "n", "#state")).to_have_text("400")
    expect(page).to_have_url(re.compile("/travel/$"))

    page.keyboard.press("g")
    field = page.get_by_label("Event, turn, time or key")
    expect(field).to_be_focused()
    field.fill("7")
    field.press("Enter")
    expect(moment(page)).to_contain_text("Event 7")
    expect(field).to_be_hidden()
    page.keyboard.press("g")
    expect(field).to_have_value("")
    field.fill("n")
    field.press("Enter")
    expect(moment(page)).to_contain_text("Event 4")  # the change of n before event 7
    page.keyboard.press("g")
    field.fill("nothing like it")
    field.press("Enter")
    error = page.locator("#go [role=alert]")
    expect(error).to_contain_text("isn't an event")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    page.keyboard.press("Escape")
    expect(moment(page)).to_be_hidden()
    page.keyboard.press("<")  # nothing failed here
    expect(page.locator("#toasts, .toasts").first).to_contain_text("No earlier errors.")
