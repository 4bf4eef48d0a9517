"""An edit while the agent runs: it waits and the run completes, or it is written at once and the run ends."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Error, Page, Route, expect

from tests.browser.agent import BOOK, FLIGHT
from tests.browser.conftest import Watch
from tests.browser.places import path, type_json
from tests.browser.watching import HURRY, LATE, World, ref, watch_session
from tests.parts import long_but


@pytest.fixture(params=long_but(["lite", "pg"], "lite"))
def source(request: pytest.FixtureRequest) -> str:
    """Each kind of database."""
    return str(request.param)


# Keeps what is told of queued edits, which goes by itself, maybe before a test looks.
OUTCOMES = """new MutationObserver(() => {
        sessionStorage.outcomes = (sessionStorage.outcomes ?? "") + (document.querySelector("#outcomes")?.textContent ?? "");
    }).observe(document, { childList: true, subtree: true });"""


def told(page: Page) -> str:
    """Returns what was told of queued edits so far; nothing while the page is being loaded."""
    try:
        return str(page.evaluate("sessionStorage.outcomes ?? ''"))
    except Error:
        return ""


def open_form(page: Page, reason: str) -> None:
    """The form for the key `note`, filled."""
    page.get_by_role("link", name="Edit note", exact=True).dispatch_event("click")
    expect(page.locator("#edit .cm-content")).to_be_visible()
    type_json(page, '"new"')
    page.get_by_label("Reason").fill(reason)


def test_an_edit_queued_while_the_agent_runs_is_applied_after_it_and_the_run_completes(
    world: World, me: Callable[..., Page], source: str
) -> None:
    agent, session, page = world.agents[source], "waits", me()
    page.add_init_script(OUTCOMES)
    page.add_init_script(HURRY)  # messages go by themselves sooner
    agent.do(session, create={"note": "old"})
    watch_session(page, source, session)
    agent.begin(session, say=FLIGHT, held=True)
    expect(page.locator("#status [data-running]")).to_be_visible(timeout=LATE)
    open_form(page, "by phone")
    form = page.locator("form.editbox")
    expect(form).to_contain_text("Agent running")
    expect(form).to_contain_text("the agent's next append fails")
    page.get_by_label("Reason").press("Enter")  # what Enter does is what does no harm

    waits = page.locator("#queued article")
    expect(waits).to_contain_text("Waiting until the agent is idle")
    for word in (getpass.getuser(), "by phone", "note", '"old"', '"new"'):
        expect(waits).to_contain_text(word)
    agent.go_on()
    agent.wait()  # the run completes: nothing failed
    outcome = page.locator("#outcomes article")
    deadline = time.monotonic() + LATE / 1000
    while "Queued edit applied" not in told(page):  # nobody reloads
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
    expect(waits).to_have_count(0)
    expect(page.locator('[data-key-row="note"]')).to_contain_text('"new"', timeout=LATE)
    stored = agent.stored[session]
    expect(page.locator(".ev")).to_have_count(len(stored) + 1, timeout=LATE)
    shown = page.locator(".ev").evaluate_all("all => all.map((each) => each.id.slice('event-'.length))")
    assert shown[:-1] == stored  # after everything that the run wrote
    assert "edit" in (page.locator(".ev").last.get_attribute("class") or "")
    expect(page.locator(".toast").nth(1)).to_have_count(0)  # what was said before, that it waits, is not true any more
    expect(outcome).to_have_count(0)  # it goes by itself,
    page.reload()
    expect(page.locator(".ev").last).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)  # and is not told again

    # The agent goes on from it.
    agent.do(session, say=BOOK)
    expect(page.locator(".ev")).to_have_count(len(agent.stored[session]) + 1, timeout=LATE)


def test_the_same_edit_applied_now_is_written_at_once_and_ends_the_run_as_the_warning_says(
    world: World, me: Callable[..., Page], source: str
) -> None:
    agent, session, page = world.agents[source], "now", me()
    agent.do(session, create={"note": "old"})
    watch_session(page, source, session)
    agent.begin(session, say=FLIGHT, held=True)
    expect(page.locator("#status [data-running]")).to_be_visible(timeout=LATE)
    open_form(page, "at once")
    expect(page.locator("form.editbox .notice.warn")).to_contain_text("StaleSessionError")
    page.get_by_role("button", name="Apply now").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator('[data-key-row="note"]')).to_contain_text('"new"')
    agent.go_on()
    with pytest.raises(AssertionError, match="StaleSessionError"):
        agent.wait()
    agent.error = ""


@pytest.mark.long
def test_an_edit_begun_while_the_agent_was_idle_is_not_written_into_a_run_and_can_be_withdrawn(
    world: World, me: Callable[..., Page], watch: Watch, source: str
) -> None:
    watch.allow(409)
    agent, session, page = world.agents[source], "back", me()
    agent.do(session, create={"note": "old"})
    watch_session(page, source, session)
    open_form(page, "thought of before")
    agent.begin(session, say=FLIGHT, held=True)
    expect(page.locator("#status [data-running]")).to_be_visible(timeout=LATE)
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("form.editbox")).to_contain_text("Agent running")
    expect(page.get_by_label("Reason")).to_have_value("thought of before")
    page.get_by_role("button", name="Apply when idle").click()
    waits = page.locator("#queued article")
    expect(waits).to_contain_text("thought of before")
    waits.get_by_role("button", name="Cancel").click()
    expect(waits).to_have_count(0)
    agent.go_on()
    agent.wait()
    page.goto(path("s", *ref(source, session)))
    expect(page.locator(".ev")).to_have_count(len(agent.stored[session]))
    expect(page.locator('[data-key-row="note"]')).to_contain_text('"old"')


@pytest.mark.long
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "taken off the page meanwhile"])
def test_who_withdraws_too_late_is_told_so(world: World, me: Callable[..., Page], listed: bool) -> None:
    agent, session, page = world.agents["lite"], f"late{listed}", me()
    agent.do(session, create={"note": "old"})
    watch_session(page, "lite", session)
    agent.begin(session, say=FLIGHT, held=True)
    expect(page.locator("#status [data-running]")).to_be_visible(timeout=LATE)
    open_form(page, "too late")
    page.get_by_role("button", name="Apply when idle").click()

    def send_twice(route: Route) -> None:
        assert route.fetch().status == 204  # somebody else was faster
        if not listed:
            expect(page.locator("#queued article")).to_have_count(0)  # the page has heard of it
        route.continue_()

    page.route("**/cancel/", send_twice)
    page.locator("#queued article").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("is no longer waiting")
    expect(page.locator("#queued article")).to_have_count(0)
    agent.go_on()
    agent.wait()
