"""A session is watched while google-adk's Runner writes it from a process of its own."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.agent import BOOK, FLIGHT, Agent
from tests.browser.conftest import Visit, Watch
from tests.browser.looks import check
from tests.browser.places import open_event, type_json
from tests.browser.watching import (
    AS_CLICKED,
    FRAMES,
    HURRY,
    LATE,
    MARIA,
    NO_SOCKET,
    World,
    expect_at_end,
    expect_rows,
    expect_state,
    give_name_and_password,
    height_of,
    insert,
    note,
    noted,
    notice,
    rows,
    scroll_to_row,
    until,
    watch_session,
    words,
)
from tests.parts import long_but

WIDTHS = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}
UNANSWERED = ("WebSocket connection to", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")

_numbers = count(1)


@pytest.fixture
def lite(world: World) -> Path:
    """The SQLite file."""
    return world.server.folder / "lite.db"


@pytest.fixture
def agent(world: World) -> Agent:
    """The one on SQLite."""
    return world.agents["lite"]


@pytest.fixture
def session(agent: Agent) -> str:
    """A session that begins, on SQLite."""
    name = f"s{next(_numbers)}"
    agent.do(name, create={})
    return name


# --- A run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", long_but(["lite", "pg"], "lite"))
def test_every_event_of_a_run_appears_once_and_in_order_while_it_runs(
    world: World, me: Callable[..., Page], source: str
) -> None:
    agent, session = world.agents[source], f"run-on-{source}"
    agent.do(session, create={"user:name": "Ana"})
    page = me()
    page.add_init_script(HURRY)
    watch_session(page, source, session)
    home = page.context.new_page()
    home.goto("/")
    expect_state(home, "live")
    expect(page.locator("#no-events")).to_be_visible()
    expect(page.locator("#strip")).to_be_hidden()
    badge = page.locator("#status [data-running]")
    running = home.locator("#running li", has=home.locator(f'a[href$="/{session}/"]'))
    expect(badge).to_have_count(0)
    expect(running).to_have_count(0)

    agent.begin(session, say=FLIGHT, pause=1.0, held=True)
    expect(badge).to_contain_text("running")
    expect(page.locator(".crumbs > span")).to_have_class("status running")  # what a telephone shows
    expect(page).to_have_title(re.compile("^● "))
    working = page.locator("#working")
    expect(working).to_have_text(re.compile(r"\d s$"))
    expect(working).to_be_in_viewport()
    expect(running).to_be_visible()
    expect(running).to_contain_text(re.compile(r"\d s"))
    expect(badge.locator("time")).to_have_text(re.compile(r"^([2-9]|\d\d) s$"))  # it counts
    agent.go_on()
    agent.wait()
    ended = time.time()
    expect(badge).to_have_count(0)
    expect(running).to_have_count(0)
    expect(working).to_be_hidden()
    expect(page).not_to_have_title(re.compile("^●"))
    first = list(agent.stored[session])
    assert len(first) == 5
    expect_rows(page, first)
    assert noted(page, "rows") == first
    assert noted(page, "times")[1] / 1000 < ended - 1, "the rows came only when the run was over"
    expect(page.locator("#no-events")).to_have_count(0)
    expect(page.locator("#strip")).to_be_visible()
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".turn")).to_contain_text("Turn 1")
    expect(page.locator(".turn")).to_contain_text("tok")
    expect(page.locator("#stats")).to_contain_text("5 events")
    turn = home.locator("#feed [data-feed]").first
    expect(turn).to_have_attribute("data-feed", first[0])
    expect(turn.locator(f"a[href$='#event-{first[-1]}']")).to_have_count(1)

    # The state came with it, and each key was marked when it changed, and no other.
    state = page.locator("#groups")
    expect(state.locator("[data-key-row='best_flight'] .value")).to_have_text('"TP431"')
    expect(state.locator("[data-key-row='booking_step'] .value")).to_have_text('"choose"')
    expect(state.locator("[data-key-row='last_answer']")).to_be_visible()  # the last event wrote it
    searched = {"searches", "candidates", "best_flight", "booking_step", "app:total_searches"}
    assert set(noted(page, "changed")) == {*searched, "last_answer", "visit", "user:visits"}
    expect(page.locator("#key-count")).to_have_text("9 keys")
    expect(page.locator(".changed")).to_have_count(0)
    page.evaluate("noted.changed.length = 0")
    agent.begin(session, say=BOOK, pause=0.3)
    until(page, "noted.changed.includes('booking_step')")  # for a while
    agent.wait()
    expect(state.locator("[data-key-row='amount_due'] .value")).to_have_text("412.5")
    expect_rows(page, agent.stored[session])
    assert noted(page, "rows") == agent.stored[session]
    expect(badge).to_have_count(0)
    expect(state.locator("[data-key-row='last_answer'] .value")).to_contain_text("It comes to 412.50 EUR.")
    assert set(noted(page, "changed")) == {"booking", "amount_due", "booking_step", "last_answer"}


@pytest.mark.parametrize("density", long_but(["chat", "trace"], "chat"))
def test_a_run_is_followed_as_a_chat_and_as_a_trace(
    agent: Agent, session: str, me: Callable[..., Page], density: str
) -> None:
    page = me()
    page.add_init_script(HURRY)
    watch_session(page, "lite", session, f"?density={density}")
    agent.begin(session, say=FLIGHT, pause=0.7)
    if density == "chat":
        call = page.locator(".message.tool .what > .fold > summary")
        expect(call).to_have_count(1)
        expect(call).to_contain_text("→ ")  # the answer came later
    else:
        expect(page.locator(".lane.model")).to_have_count(1)
        expect(page.locator(".lane.tool .figures")).to_contain_text(re.compile(r"\d"))
    agent.wait()
    agent.do(session, say=BOOK)
    expect_rows(page, agent.stored[session])
    expect(page.locator(".turn")).to_have_count(2)
    fresh = page.context.new_page()
    fresh.goto(page.url)
    shown = fresh.locator("#events").inner_text()
    assert {"chat": "TP431", "trace": "search_flights"}[density] in shown
    until(page, "shown => document.querySelector('#events').innerText === shown", shown)  # as if it had come at once


def test_a_call_that_is_followed_has_failed_once_an_error_ended_it(
    agent: Agent, session: str, me: Callable[..., Page]
) -> None:
    page = watch_session(me(), "lite", session, "?density=chat")
    agent.do(session, append=[{"text": "Pay", "author": "user"}, {"call": "pay"}])
    call = page.locator(".message.tool")
    expect(call.locator("summary")).to_have_text(re.compile(r"pay \(\)\s+no answer"))
    (error,) = agent.do(session, append=[{"error_code": "CardError", "error_message": "declined"}])
    expect(call.locator("summary")).to_have_text(re.compile(r"pay \(\)\s+failed"))
    expect(call).to_have_attribute("data-ends", error)
    expect(call.locator(".when")).to_have_text(re.compile("m?s$"))


@pytest.mark.long
def test_what_a_reader_has_opened_stays_open_while_the_agent_goes_on(
    agent: Agent, session: str, me: Callable[..., Page]
) -> None:
    agent.do(session, append=[{"text": "Hello", "delta": {"seats": {"one": {"row": 12}}, "count": 1}}])
    page = watch_session(me(), "lite", session)
    open_event(page, page.locator(".ev .line"))
    expect(page.locator("#detail")).to_contain_text("Hello")
    page.keyboard.press("Escape")
    seats = page.locator("#groups [data-key-row='seats'] details").first
    summary = seats.locator("summary").first
    summary.click()
    expect(seats).to_have_attribute("open", "")
    summary.focus()
    heading = page.locator("#groups > .scope.user")
    heading.evaluate("heading => heading.textContent = 'shared by all of ana@example.com’s sessions'")
    agent.do(session, append=[{"delta": {"count": 2}}])
    expect(page.locator("#groups [data-key-row='count'] .value")).to_have_text("2")
    expect(heading).to_contain_text("ana@example.com")  # what everyone is told may hide whose sessions they are
    expect(seats).to_have_attribute("open", "")
    expect(summary).to_be_focused()
    agent.do(session, append=[{"delta": {"seats": {"one": {"row": 14}}}}])
    expect(page.locator("#groups [data-key-row='seats']")).to_contain_text("14")
    expect(seats).to_have_attribute("open", "")
    page.locator(".ev .line").first.click()
    expect(page.locator("#detail")).to_contain_text("Hello")
    agent.do(session, append=3)
    expect(page.locator(".ev")).to_have_count(6)
    expect(page.locator("#detail")).to_contain_text("Hello")
    expect(page.locator(".ev.selected")).to_have_count(1)


def test_an_edit_of_mine_is_marked_where_others_watch(
    agent: Agent, session: str, me: Callable[..., Page], maria: Callable[..., Page]
) -> None:
    agent.do(session, append=[{"delta": {"step": "choose", "count": 1}}])
    mine, marias = watch_session(me(), "lite", session), watch_session(maria(), "lite", session)
    mine.keyboard.press("e")
    mine.get_by_label("Key to edit or add").fill("step")
    mine.keyboard.press("Enter")
    expect(mine.locator("json-editor .cm-content")).to_have_text("choose")
    type_json(mine, '"pay"')
    mine.get_by_label("Reason").fill("she asked for it")
    mine.get_by_role("button", name="Apply").click()
    expect(mine.get_by_text("Saved as event #")).to_be_visible()
    expect(marias.locator("#groups [data-key-row='step'] .value")).to_have_text('"pay"')
    expect(marias.locator(".ev")).to_have_count(2)
    expect(marias.locator(".inv").last).to_contain_text("she asked for it")
    assert noted(marias, "changed")
    assert set(noted(marias, "changed")) == {"step"}
    expect_rows(mine, rows(marias))


@pytest.mark.parametrize("query", long_but(["?kind=errors", "?author=billing"], "?kind=errors"))
def test_a_filtered_timeline_gets_its_own_rows_alone(
    agent: Agent, session: str, me: Callable[..., Page], query: str
) -> None:
    failed = {"text": "no", "error_code": "503", "error_message": "no"}
    events = [{"text": "one"}, failed, {"text": "two", "author": "billing"}, {**failed, "author": "billing"}]
    first = agent.do(session, append=events)
    chosen = [1, 3] if "kind" in query else [2, 3]
    page = watch_session(me(), "lite", session, query)
    expect_rows(page, [first[n] for n in chosen])
    more = agent.do(session, append=[*events, *events, {"text": "the last", "delta": {"over": True}}])
    expect(page.locator("#groups [data-key-row='over']")).to_be_visible()
    expect_rows(page, [first[n] for n in chosen] + [more[n + start] for start in (0, 4) for n in chosen])


# --- Reading while it moves -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_reader_at_the_end_stays_there_when_the_timeline_gets_less_room(
    lite: Path, session: str, me: Callable[..., Page]
) -> None:
    insert(lite, session, 80)
    page = watch_session(me(), "lite", session)
    page.locator("#status").evaluate("status => { status.style.cssText = 'display: block; height: 150px' }")
    until(page, "document.querySelector('.ev:last-of-type').getBoundingClientRect().bottom <= innerHeight")
    expect_at_end(page)


@pytest.mark.parametrize("size", long_but(WIDTHS, "wide"))
def test_what_is_read_does_not_move_and_what_is_new_is_told(
    agent: Agent, lite: Path, session: str, me: Callable[..., Page], size: str
) -> None:
    insert(lite, session, 50)
    page = watch_session(me(viewport=WIDTHS[size]), "lite", session)
    expect_at_end(page)
    page.locator("#events").evaluate("""events => {
        for (const row of events.querySelectorAll(".ev")) row.style.paddingBlockEnd = "12px";
        document.fonts.dispatchEvent(new Event("loadingdone"));  // as when a font comes late, by which rows are higher
    }""")
    expect_at_end(page)
    # The strip, above it, takes room in the frame in which the page notes that it was scrolled.
    page.locator("[data-timeline]").evaluate("""timeline => {
        timeline.dispatchEvent(new Event("scroll"));
        document.querySelector("#strip").style.minHeight = "200px";
    }""")
    expect_at_end(page)
    agent.do(session, append=2)
    expect(page.locator(".ev")).to_have_count(52)
    expect(note(page)).to_be_hidden()
    until(page, "document.querySelector('.ev:last-of-type').getBoundingClientRect().bottom <= innerHeight")
    expect_at_end(page)

    row = scroll_to_row(page, 30)
    before = height_of(row)
    agent.do(session, append=1)
    expect(note(page)).to_have_text("1 new event")
    assert height_of(row) == pytest.approx(before, abs=1)
    run = agent.do(session, say=FLIGHT, pause=0.2)  # the state, the badge and the numbers above change as well
    expect(note(page)).to_have_text(f"{1 + len(run)} new events")
    expect(page.locator("[data-running]")).to_have_count(0)
    expect(page.locator(".ev")).to_have_count(53 + len(run))
    assert height_of(row) == pytest.approx(before, abs=1)
    expect(note(page).get_by_role("button")).to_be_in_viewport(ratio=1)
    note(page).get_by_role("button").click()
    expect(note(page)).to_be_hidden()
    expect(page.locator(".ev").last).to_be_in_viewport(ratio=1)
    expect_at_end(page)

    # Whoever goes there without it is not told either, and follows again.
    scroll_to_row(page, 30)
    agent.do(session, append=1)
    expect(note(page)).to_have_text("1 new event")
    page.locator(".ev").last.scroll_into_view_if_needed()
    page.keyboard.press("End")
    expect(note(page)).to_be_hidden()
    agent.do(session, append=1)
    expect(page.locator(".ev")).to_have_count(55 + len(run))
    expect(page.locator(".ev").last).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", long_but(WIDTHS, "narrow"))
def test_who_is_at_the_end_stays_there(
    agent: Agent, lite: Path, session: str, me: Callable[..., Page], size: str
) -> None:
    insert(lite, session, 50)
    page = watch_session(me(viewport=WIDTHS[size]), "lite", session)
    for number in range(3):
        page.wait_for_timeout(2500)  # after a while of silence all parts of the page come in one message
        agent.do(session, append=[{"text": "Hello", "delta": {f"key{key}": number for key in range(12)}}])
        expect(page.locator(".ev")).to_have_count(51 + number)
        expect(page.locator("#stats")).to_contain_text(f"{51 + number} events")
        expect(note(page)).to_be_hidden()
        expect_at_end(page)


@pytest.mark.long
def test_a_reader_of_the_state_on_a_phone_is_left_alone(
    agent: Agent, lite: Path, session: str, me: Callable[..., Page]
) -> None:
    insert(lite, session, 80)
    agent.do(session, append=[{"delta": {f"key{number:02}": number for number in range(40)}}])
    page = watch_session(me(viewport=WIDTHS["narrow"]), "lite", session)
    scroll_to_row(page, 30)
    page.get_by_role("tab", name="State").click()
    key = page.locator("#groups [data-key-row='key20'] .kv")
    for block in ("center", "end"):  # in the middle, and where the State tab ends
        key.evaluate("(row, block) => row.scrollIntoView({ block })", block)
        before = height_of(key)
        agent.do(session, append=[{"text": "Hello", "delta": {"key39": block}}])
        expect(page.locator("#groups [data-key-row='key39'] .value")).to_have_text(f'"{block}"')
        assert height_of(key) == pytest.approx(before, abs=1)
        page.evaluate("scrollTo(0, document.scrollingElement.scrollHeight)")
    before = height_of(key)
    agent.do(session, append=[{"text": "Hello", "delta": {"key40": "over"}}])
    expect(page.locator("#groups [data-key-row='key40'] .value")).to_have_text('"over"')
    assert height_of(key) == pytest.approx(before, abs=1)
    page.get_by_role("tab", name="Events").click()
    expect(note(page)).to_have_text("3 new events")


@pytest.mark.long
def test_the_feed_keeps_the_focus_while_events_arrive(agent: Agent, session: str, me: Callable[..., Page]) -> None:
    (event,) = agent.do(session, append=[{"text": "the one being read"}])
    page = me()
    page.goto("/")
    expect_state(page, "live")
    link = page.locator(f"#feed a[href$='#event-{event}']")
    link.focus()
    (newest,) = agent.do(session, append=1)
    expect(page.locator(f"#feed a[href$='#event-{newest}']")).to_be_focused()  # it is the same turn


def test_who_watches_is_told_and_who_pauses_sees_nothing_new_until_going_on(
    agent: Agent, session: str, me: Callable[..., Page], maria: Callable[..., Page]
) -> None:
    page = watch_session(me(), "lite", session)
    people = page.locator("[data-live-people]")
    other = watch_session(maria(), "lite", session)
    expect(people).to_have_text("2 watching")
    expect(other.locator("[data-live-people]")).to_have_text("2 watching")
    assert MARIA["DJANGO_SUPERUSER_USERNAME"] in (people.get_attribute("title") or "")
    again = watch_session(page.context.new_page(), "lite", session)  # another tab is not another person
    expect(again.locator("[data-live-people]")).to_have_text("2 watching")
    again.close()

    agent.do(session, append=2)
    expect(page.locator(".ev")).to_have_count(2)
    button = page.locator("[data-live-pause]")
    button.click()
    expect(words(page)).to_have_text("paused")
    expect(button).to_have_text("Resume")
    expect(page.locator("#announcer")).to_contain_text("paused")
    page.evaluate("document.addEventListener('animationstart', ({ target }) => noted.marked.push(target.id))")
    agent.do(session, append=3)
    expect(words(page)).to_have_text("paused · 3 new events")
    expect(other.locator(".ev")).to_have_count(5)
    expect(page.locator(".ev")).to_have_count(2)
    page.keyboard.press("p")
    expect(words(page)).to_have_text("updates live")
    expect(page.locator("[data-live]")).to_have_attribute("title", "New events appear by themselves.")
    expect(button).to_have_text("Pause")
    expect_rows(page, agent.stored[session])
    until(page, "noted.marked.filter((id) => id.startsWith('event-')).length === 3")
    expect(page.locator(".ev.fresh")).to_have_count(0)
    other.close()
    expect(people).to_have_text("1 watching")


def test_the_figures_of_an_open_home_follow_what_agents_do_and_the_focus_stays(
    agent: Agent, session: str, me: Callable[..., Page]
) -> None:
    home = me()
    home.goto("/?range=24h")
    expect_state(home, "live")
    home.evaluate("window.same = true")
    sessions = home.locator(".chart.sessions")
    before = int(sessions.locator("b").inner_text())
    app = home.locator("[data-panel='source lite']").get_by_role("link", name="booking", exact=True)
    time_of = home.locator("[data-panel='source lite'] tbody time")
    last = time_of.get_attribute("datetime") or ""
    app.focus()
    agent.do(session, say=FLIGHT)
    expect(sessions.locator("b")).to_have_text(str(before + 1), timeout=10_000)
    expect(time_of).not_to_have_attribute("datetime", last)
    expect(app).to_be_focused()
    assert home.evaluate("window.same")
    plot = sessions.locator(".plot")
    plot.hover()
    expect(plot.locator(".tip")).to_be_visible()  # the new chart tells its numbers, too


# --- Connections ------------------------------------------------------------------------------------------------------


def test_a_server_that_is_started_again_is_found_and_nothing_is_lost(
    world: World, agent: Agent, session: str, me: Callable[..., Page], watch: Watch
) -> None:
    watch.excuse(*UNANSWERED)
    page = me()
    page.context.add_init_script(HURRY)
    watch_session(page, "lite", session)
    home = page.context.new_page()
    home.goto("/")
    expect_state(home, "live")
    agent.do(session, append=2)
    expect(page.locator(".ev")).to_have_count(2)
    page.evaluate("noted.sockets.length = 0")
    world.server.stop()
    try:
        for each in (page, home):
            expect(words(each)).to_have_text(re.compile(r"^(reconnecting in \d+ s|connecting…)$"))
            expect(words(each)).to_be_visible()
            expect(each.locator("#announcer")).to_contain_text("The connection was lost.")
        agent.do(session, append=3)
        until(page, "noted.sockets.length >= 5")
        tried = len(noted(page, "sockets"))
        page.get_by_role("button", name="Try now").click()
        assert len(noted(page, "sockets")) > tried
    finally:
        world.server.start()
    waits = noted(page, "sockets")[:5]
    assert waits[0] > 200
    assert waits == sorted(set(waits)), "it does not wait longer each time"
    agent.do(session, append=1)
    expect_state(page, "live")
    expect_state(home, "live")
    expect_rows(page, agent.stored[session])
    agent.do(session, append=1)
    expect_rows(page, agent.stored[session])
    assert noted(page, "rows") == agent.stored[session]
    expect(home.locator(f"#feed a[href$='#event-{agent.stored[session][-1]}']")).to_be_visible()


@pytest.mark.parametrize("way", long_but(NO_SOCKET, "closed"))
def test_without_any_websocket_the_page_looks_by_itself(
    agent: Agent, session: str, me: Callable[..., Page], way: str
) -> None:
    page = me()
    page.context.add_init_script(HURRY)
    page.add_init_script(NO_SOCKET[way])
    watch_session(page, "lite", session, state="polling")
    expect(words(page)).to_have_text("updates every 5 s")
    agent.begin(session, say=FLIGHT, pause=1.0)
    expect(page.locator("#status [data-running]")).to_be_visible()
    agent.wait()
    expect_rows(page, agent.stored[session])
    assert noted(page, "rows") == agent.stored[session]
    expect(page.locator("#status [data-running]")).to_have_count(0)
    expect(page.locator("#groups [data-key-row='best_flight'] .value")).to_have_text('"TP431"')
    home = page.context.new_page()
    home.add_init_script(NO_SOCKET[way])
    home.goto("/")
    expect_state(home, "polling")
    (newest,) = agent.do(session, append=1)
    expect(home.locator(f"#feed a[href$='#event-{newest}']")).to_be_visible()


HIDEABLE = 'Object.defineProperty(document, "hidden", { get: () => Boolean(window.isHidden) })'


def hide(page: Page, hidden: bool = True) -> None:
    """Another tab is looked at, or this one again (HIDEABLE)."""
    page.evaluate("on => { isHidden = on; document.dispatchEvent(new Event('visibilitychange')) }", hidden)


@pytest.mark.long
def test_a_hidden_tab_lets_go_and_catches_up_when_it_is_shown(
    agent: Agent, session: str, me: Callable[..., Page], maria: Callable[..., Page]
) -> None:
    page, other = me(), watch_session(maria(), "lite", session)
    page.add_init_script(HIDEABLE)
    page.clock.install()
    watch_session(page, "lite", session)
    expect(other.locator("[data-live-people]")).to_have_text("2 watching")
    hide(page)
    agent.do(session, append=1)  # for a while it goes on
    expect(page.locator(".ev")).to_have_count(1)
    page.clock.fast_forward("00:31")
    expect(other.locator("[data-live-people]")).to_have_text("1 watching")
    agent.do(session, append=4)
    expect(other.locator(".ev")).to_have_count(5)
    expect(page.locator(".ev")).to_have_count(1)
    hide(page, False)
    expect_rows(page, agent.stored[session])
    expect_state(page, "live")
    expect(other.locator("[data-live-people]")).to_have_text("2 watching")


def test_the_title_of_a_tab_says_that_the_agent_runs_has_ended_failed_or_waits(
    agent: Agent, session: str, me: Callable[..., Page]
) -> None:
    page = me()
    page.add_init_script(HIDEABLE)
    watch_session(page, "lite", session)
    plain = page.title()
    hide(page)
    agent.begin(session, say=FLIGHT, held=True)
    expect(page).to_have_title(f"● {plain}")
    agent.go_on()
    expect(page).to_have_title(f"✓ {plain}")
    hide(page, False)
    expect(page).to_have_title(plain)

    # Who looks has seen how it ended.
    agent.begin(session, say=BOOK, held=True)
    expect(page).to_have_title(f"● {plain}")
    agent.go_on()
    expect(page).to_have_title(plain)

    hide(page)
    agent.do(session, append=[{"text": "no", "error_code": "503", "error_message": "no"}])
    expect(page).to_have_title(f"⚠ {plain}")
    hide(page, False)
    expect(page).to_have_title(plain)
    agent.do(session, say="Pay on the company account")
    expect(page).to_have_title(f"? {plain}")
    page.reload()
    expect(page).to_have_title(re.compile(r"^\? "))


def test_a_hidden_tab_stays_connected_while_the_agent_runs_and_lets_go_after(
    agent: Agent, session: str, me: Callable[..., Page], maria: Callable[..., Page]
) -> None:
    page, other = me(), watch_session(maria(), "lite", session)
    page.add_init_script(HIDEABLE)
    page.clock.install()
    watch_session(page, "lite", session)
    people = other.locator("[data-live-people]")
    expect(people).to_have_text("2 watching")
    agent.begin(session, say=FLIGHT, held=True)
    expect(page.locator("#status [data-running]")).to_be_visible()
    hide(page)
    for _minute in range(2):
        page.clock.fast_forward("00:31")
        page.clock.fast_forward("00:31")
    agent.go_on()
    agent.wait()
    expect_rows(page, agent.stored[session])
    expect(page).to_have_title(re.compile("^✓ "))
    expect(people).to_have_text("2 watching")
    page.clock.fast_forward("00:31")
    expect(people).to_have_text("1 watching")


# --- Taken away -------------------------------------------------------------------------------------------------------


def _sign_out(world: World, page: Page) -> None:
    tab = page.context.new_page()
    tab.goto("/")
    tab.locator(".topbar details.menu > summary").click()
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()


def _set_active(world: World, active: bool) -> None:
    visitors = "User.objects.filter(is_superuser=True).exclude(password__startswith='!')"  # not whom the link signs in
    code = f"from django.contrib.auth.models import User; {visitors}.update(is_active={active})"
    world.server.run("shell", "-v", "0", "-c", code)


def _deactivate(world: World, page: Page) -> None:
    _set_active(world, False)


@pytest.mark.parametrize(
    ("socket", "take"),
    [
        pytest.param(True, _sign_out, id="websocket, sign out"),
        pytest.param(True, _deactivate, id="websocket, deactivate", marks=pytest.mark.long),
        pytest.param(False, _sign_out, id="polling, sign out", marks=pytest.mark.long),
        pytest.param(False, _deactivate, id="polling, deactivate", marks=pytest.mark.long),
    ],
)
def test_who_may_not_look_any_more_is_not_given_the_next_event(
    world: World,
    agent: Agent,
    session: str,
    visitor: Visit,
    me: Callable[..., Page],
    watch: Watch,
    take: Callable[[World, Page], None],
    socket: bool,
) -> None:
    watch.allow(403)  # what polling is answered
    page = visitor(world.server)
    if not socket:
        page.add_init_script(HURRY)
        page.add_init_script(NO_SOCKET["closed"])
    give_name_and_password(page)
    watch_session(page, "lite", session, state="live" if socket else "polling")
    mine = watch_session(me(), "lite", session)
    agent.do(session, append=1)
    expect(page.locator(".ev")).to_have_count(1)
    try:
        take(world, page)
        agent.do(session, append=1)
        expect(mine.locator(".ev")).to_have_count(2)
        expect_state(page, "out")
        expect(words(page)).to_have_text("signed out")
        expect(notice(page)).to_be_visible()
        expect(notice(page)).to_contain_text("You have been signed out")
        assert len(rows(page)) == 1
    finally:
        _set_active(world, True)


def test_a_session_that_is_deleted_says_so(agent: Agent, session: str, me: Callable[..., Page]) -> None:
    agent.do(session, append=[{"text": "one"}, {"text": "Hello", "author": "user"}])
    page = watch_session(me(), "lite", session)
    expect(page.locator("#status [data-running]")).to_be_visible()
    agent.do(session, delete=True)
    expect(notice(page)).to_have_text("This session was deleted.")
    expect(words(page)).to_have_text("deleted")
    assert len(rows(page)) == 2
    expect(page.locator("#status [data-running]")).to_have_count(0)


@pytest.mark.long
def test_a_session_that_was_made_anew_is_loaded_and_the_row_that_has_the_focus_keeps_it(
    lite: Path, session: str, me: Callable[..., Page]
) -> None:
    insert(lite, session, 3)
    page = watch_session(me(), "lite", session)
    expect(page.locator(".ev")).to_have_count(3)
    page.evaluate("document.querySelector('#event-bulk-00000').dataset.old = ''")
    page.locator("#event-bulk-00001 a.line").focus()
    with closing(sqlite3.connect(lite, timeout=30)) as db, db:
        db.execute(
            "UPDATE sessions SET create_time = create_time + 1, update_time = update_time + 1 WHERE id = ?", [session]
        )
    expect(page.locator("[data-old]")).to_have_count(0)
    expect(page.locator("#event-bulk-00001 a.line")).to_be_focused()


# --- Much at once -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_1500_events_at_once_come_in_order_and_the_page_goes_on_answering(
    lite: Path, session: str, me: Callable[..., Page]
) -> None:
    ids = insert(lite, session, 150, "before")
    page = me()
    page.add_init_script(AS_CLICKED)
    watch_session(page, "lite", session)
    expect(page.locator(".ev")).to_have_count(50)
    page.evaluate(FRAMES)
    began = time.monotonic()
    ids += insert(lite, session, 1500)
    until(page, "document.querySelector('#event-bulk-01499')")
    took = time.monotonic() - began
    gap = noted(page, "gap")
    print(f"\n1500 events in {took:.1f} s; the longest frame took {gap:.0f} ms")
    shown = rows(page)
    assert 400 <= len(shown) <= 600
    assert shown == ids[-len(shown) :]
    assert gap < 2000
    until(page, "document.querySelector('[data-row]:last-of-type').getBoundingClientRect().top < innerHeight")
    expect_at_end(page)


@pytest.mark.long
def test_a_long_session_is_read_to_its_beginning_and_back_with_few_rows_at_a_time(
    lite: Path, session: str, me: Callable[..., Page]
) -> None:
    ids = insert(lite, session, 5, "before")
    page = watch_session(me(), "lite", session)
    ids += insert(lite, session, 1000)
    until(page, "document.querySelector('#event-bulk-00999')")
    expect_at_end(page)
    seen = {*rows(page)}
    for end, edge in ((0, 0), (-1, 1_000_000)):
        while True:
            shown = rows(page)
            first = ids.index(shown[0])
            assert shown == ids[first : first + len(shown)]
            assert len(shown) <= 700  # a page above what is kept, until the next frame
            seen |= {*shown}
            if shown[end] == ids[end]:
                break
            page.locator("[data-timeline]").evaluate("(box, edge) => { box.scrollTop = edge }", edge)
            until(page, "(was) => [...document.querySelectorAll('.ev')].at(was[0]).id !== was[1]", [end, shown[end]])
    assert seen == {*ids}
    expect(page.get_by_role("link", name="Later events")).to_have_count(0)
    twice = page.evaluate(
        """Object.entries(Object.groupBy(document.querySelectorAll("[id]"), ({ id }) => id))
            .filter(([, all]) => all.length > 1).map(([id]) => id)"""
    )
    assert twice == []


@pytest.mark.long
def test_rows_that_are_being_read_are_not_let_go(lite: Path, session: str, me: Callable[..., Page]) -> None:
    page = watch_session(me(), "lite", session)
    insert(lite, session, 590)
    expect(page.locator(".ev")).to_have_count(590, timeout=LATE)
    row = scroll_to_row(page, 300)
    before = height_of(row)
    insert(lite, session, 50, "more")
    expect(note(page)).to_have_text("50 new events", timeout=LATE)
    expect(row).to_be_in_viewport()
    assert height_of(row) == pytest.approx(before, abs=1)


@pytest.mark.long
def test_who_has_missed_much_starts_anew_though_the_agent_goes_on(
    agent: Agent, lite: Path, session: str, me: Callable[..., Page]
) -> None:
    truth = insert(lite, session, 5, "before")
    page = me()
    page.add_init_script(AS_CLICKED)
    watch_session(page, "lite", session)
    page.locator("[data-live-pause]").click()
    expect(words(page)).to_have_text("paused")
    truth += insert(lite, session, 6000)
    agent.begin(session, append=200)
    agent.wait_for(session, 5)
    page.locator("[data-live-pause]").click()
    agent.wait()
    until(page, "(id) => document.getElementById(`event-${id}`)", agent.stored[session][-1])
    truth += agent.stored[session]
    shown = rows(page)
    assert shown == truth[-len(shown) :]
    page.get_by_role("link", name="Earlier events").dispatch_event("click")
    until(page, "(before) => document.querySelectorAll('.ev').length > before", len(shown))
    shown = rows(page)
    assert shown == truth[-len(shown) :]


# --- Everybody --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_live_pages_are_accessible(agent: Agent, lite: Path, session: str, me: Callable[..., Page]) -> None:
    insert(lite, session, 60)
    page = watch_session(me(color_scheme="light", reduced_motion="reduce"), "lite", session)
    scroll_to_row(page, 10)
    agent.do(session, append=[{"author": "user", "text": "Hello", "delta": {"seen": True}}])
    expect(note(page)).to_have_text("1 new event")
    expect(page.locator("[data-running]")).to_be_visible()
    check(page)
    page.locator("[data-live-pause]").click()
    expect(words(page)).to_have_text("paused")
    check(page)
    page.goto("/")
    expect_state(page, "live")
    expect(page.locator(f'#running a[href$="/{session}/"]')).to_be_visible()
    check(page)
    agent.do(session, append=1)  # ends it
