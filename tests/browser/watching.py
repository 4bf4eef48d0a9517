"""Pages that are watched while events arrive: what they show, and what was ever put into them."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from sessions_app.domain.session_ref import SessionRef
from tests.browser.agent import APP, USER, Agent
from tests.browser.places import path
from tests.browser.serving import Adkweb

MARIA: Final = {
    "DJANGO_SUPERUSER_USERNAME": "maria@example.com",
    "DJANGO_SUPERUSER_PASSWORD": "correct horse battery staple",
    "DJANGO_SUPERUSER_EMAIL": "maria@example.com",
}
LATE: Final = 60_000  # milliseconds for what takes a while

# Notes every row that is put into the timeline, every key that is marked, and for every socket that is opened
# how long the page waited before, in milliseconds (with HURRY).
NOTE: Final = """(() => {
    const noted = { rows: [], times: [], changed: [], marked: [], sockets: [] };
    window.noted = noted;
    window.WebSocket = class extends WebSocket {
        constructor(...given) { super(...given); noted.sockets.push(window.waited); }
    };
    document.addEventListener("readystatechange", () => {
        if (document.readyState !== "interactive") return;
        const events = document.querySelector("#events");
        if (!events) return;
        new MutationObserver((records) => {
            for (const { addedNodes } of records) for (const node of addedNodes) {
                if (node.nodeType !== 1) continue;
                for (const row of node.matches(".ev") ? [node] : node.querySelectorAll(".ev")) {
                    noted.rows.push(row.id.slice("event-".length));
                    noted.times.push(performance.timeOrigin + performance.now());
                }
            }
        }).observe(events, { childList: true, subtree: true });
        new MutationObserver((records) => {
            for (const { target } of records) {
                if (target.matches(".changed")) noted.changed.push(target.closest("[data-key-row]").dataset.keyRow);
            }
        }).observe(document.querySelector("#groups"), { subtree: true, attributeFilter: ["class"] });
    });
})()"""
# Measures the longest frame. A page that draws all the time costs a fifteenth of a core, so one test alone asks for it.
FRAMES: Final = """(() => {
    noted.gap = 0;
    let before = performance.now();
    requestAnimationFrame(function measure() {
        const now = performance.now();
        noted.gap = Math.max(noted.gap, now - before);
        before = now;
        requestAnimationFrame(measure);
    });
})()"""
NO_SOCKET: Final = {
    "closed": """window.WebSocket = class extends EventTarget {
        constructor() { super(); setTimeout(() => this.dispatchEvent(new CloseEvent("close", { code: 1006 }))); }
        close() {}
    }""",
    "refused": """window.WebSocket = class { constructor() { throw new DOMException("insecure", "SecurityError") } }""",
}

# A page waits a fifth as long: for its next look or its next try of a connection, until what it marks is marked no more.
HURRY: Final = """for (const name of ["setInterval", "setTimeout"]) {
    const real = window[name];
    window[name] = (work, wait, ...given) => real(() => {
        window.waited = wait;
        work(...given);
        window.waited = 0;
    }, wait / 5);
}"""


def ref(source: str, session: str) -> SessionRef:
    """A session of the agent's."""
    return SessionRef(source, APP, USER, session)


@dataclass
class World:
    """A server on two databases, an agent on each, and two people who are signed in."""

    server: Adkweb
    agents: Mapping[str, Agent]
    me: StorageState
    maria: StorageState


def sign_in(browser: Browser, server: Adkweb) -> tuple[StorageState, StorageState]:
    """The cookies of the developer, and of an admin."""
    server.run("createsuperuser", "--noinput", variables=MARIA)
    with browser.new_context() as context:
        context.new_page().goto(server.link)
        me = context.storage_state()
    with browser.new_context(base_url=server.address) as context:
        page = context.new_page()
        give_name_and_password(page)
        return me, context.storage_state()


def give_name_and_password(page: Page) -> None:
    """Signs the admin in."""
    page.goto("/")
    page.get_by_label("Name").fill(MARIA["DJANGO_SUPERUSER_USERNAME"])
    page.get_by_label("Password").fill(MARIA["DJANGO_SUPERUSER_PASSWORD"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#main h1")).to_have_text("Home")


def watch_session(page: Page, source: str, session: str, query: str = "", state: str = "live") -> Page:
    """Opens a session, with everything noted from the beginning, and waits until it is live."""
    page.add_init_script(NOTE)
    page.goto(path("s", *ref(source, session), end=query))
    expect_state(page, state)
    return page


def expect_state(page: Page, state: str, timeout: float = LATE) -> None:
    """How the connection is."""
    expect(page.locator("[data-live]")).to_have_attribute("data-state", state, timeout=timeout)


def words(page: Page) -> Locator:
    """What is said of the connection."""
    return page.locator("[data-live-words]")


def note(page: Page) -> Locator:
    """What tells a reader of new events."""
    return page.locator("[data-timeline-new]")


def notice(page: Page) -> Locator:
    """The sentence at the top."""
    return page.locator("[data-live-notice]")


def rows(page: Page) -> list[str]:
    """The ids of the events in the timeline, in its order."""
    ids = page.locator(".ev").evaluate_all("all => all.map((each) => each.id.slice('event-'.length))")
    assert isinstance(ids, list)
    return ids


def noted(page: Page, what: str) -> Any:
    """What was noted since the page began."""
    return page.evaluate(f"noted.{what}")


def expect_rows(page: Page, ids: list[str], timeout: float = LATE) -> None:
    """Exactly these events, in this order; each was put into the page once."""
    expect(page.locator(".ev")).to_have_count(len(ids), timeout=timeout)
    assert rows(page) == ids
    added = noted(page, "rows")
    assert len(added) == len(set(added)), "an event was put into the page twice"


# As in a browser that does not say what comes into sight: rows beyond those that are shown are asked for by clicking.
AS_CLICKED: Final = "delete window.IntersectionObserver;"


def until(page: Page, expression: str, argument: Any = None) -> None:
    """Waits until something is true in the page; Playwright's own way to do so is refused by adkweb's CSP."""
    deadline = time.monotonic() + LATE / 1000
    while not page.evaluate(expression, argument):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)


def expect_at_end(page: Page) -> None:
    """Waits until the newest event is in sight, to the pixel: what stands above it may take its room only now."""
    until(
        page,
        """() => {
            const box = document.querySelector("[data-timeline]");
            const scroller = getComputedStyle(box).overflowY === "auto" ? box : document.scrollingElement;
            return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2;
        }""",
    )


def scroll_to_row(page: Page, number: int) -> Locator:
    """Moves a row of the timeline to its top, as a person scrolls; returns it by its id."""
    name = page.locator(".ev").nth(number).get_attribute("id")
    row = page.locator(f"[id='{name}']")
    row.evaluate("row => row.scrollIntoView({ block: 'center', behavior: 'instant' })")
    two_frames(page)  # what follows a scroll is done in the next frame
    return row


def two_frames(page: Page) -> None:
    """Waits until a page has drawn what it has done by now."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def later(page: Page, milliseconds: int) -> None:
    """Waits until a page has done what it had put off by so much, however busy the machine is: timers keep their order."""
    page.evaluate("wait => new Promise((done) => setTimeout(done, wait))", milliseconds)


def height_of(row: Locator) -> float:
    """Where a row stands in the window."""
    return float(row.evaluate("row => row.getBoundingClientRect().top"))


def insert(file: Path, session: str, count: int, name: str = "bulk", user: str = USER) -> list[str]:
    """Many events at once, by one transaction of somebody else's, faster than google-adk writes them."""
    now = time.time()
    ids = [f"{name}-{number:05}" for number in range(count)]
    owner = (APP, user, session)

    def event(number: int, id: str) -> tuple[Any, ...]:
        at, invocation = now + number / 1_000_000, f"e-{name}-{number // 7}"
        content = {"role": "model", "parts": [{"text": f"{id} " + "and so on " * (number % 9)}]}
        data = {"id": id, "author": APP, "invocation_id": invocation, "timestamp": at, "content": content}
        return id, *owner, invocation, at, json.dumps(data)

    connection = sqlite3.connect(file, timeout=30)
    try:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [event(number, id) for number, id in enumerate(ids)],
            )
            connection.execute(
                "UPDATE sessions SET update_time = ? WHERE (app_name, user_id, id) = (?, ?, ?)", (now, *owner)
            )
    finally:
        connection.close()
    return ids


def watching(visitor: Callable[..., Page], world: World, who: StorageState | None = None, **options: Any) -> Page:
    """A page of one of the people."""
    return visitor(world.server, storage_state=who or world.me, **options)
