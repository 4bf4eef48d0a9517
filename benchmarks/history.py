"""How fast the past is: state at any event, a key's history, comparing; and google-adk beside it.

A source of a million events, 100,000 of them in one session, each of which sets a key. google-adk answers the same question
by loading the session and folding it, which knows neither the state that the session began with nor what others wrote.
"""

import asyncio
import random
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from benchmarks import harness as bench
from benchmarks.harness import APP, LONG, USER, sized
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history import drift, key_history, moments
from sessions_app.writes.append import append_event

SESSIONS, LONGEST = sized(90_000, 90), sized(100_000, 100)
EVENTS = SESSIONS * bench.EACH + LONGEST
TIMES = sized(50, 3)


def some_event() -> str:
    """Of the long session: every tenth of the source, as `fill` makes them."""
    return f"e{random.randrange(1, LONGEST) * (EVENTS // LONGEST)}"


def told(what: str, times: list[float]) -> None:
    """Prints the median and the worst."""
    bench.row(what, times, max(times))


def measure(ref: SessionRef, served: bench.Served) -> None:
    """Prints how long questions take in a process, and the same as a browser gets it."""

    def state() -> Any:
        return moments.state_at(ref, some_event(), actor=SYSTEM)

    def history(key: str) -> Any:
        return key_history.history(ref, key, actor=SYSTEM)

    def read(name: str, **query: str) -> None:
        part = {} if name == "session" else {"HX-Request": "true"}
        served.read(f"{reverse(name, kwargs=ref._asdict())}?{urlencode(query)}", **part)

    for what, ask in {
        "state at an event": state,
        f"history of a key with {LONGEST:,} writes, first page": lambda: history("step"),
        "history of an app: key, first page": lambda: history("app:limit"),
        "two events compared": lambda: moments.compare(state(), state()),
        "over HTTP: the panel at an event": lambda: read("state-at", at=some_event()),
        "over HTTP: the session's page at an event": lambda: read("session", at=some_event()),
        "over HTTP: a key's history, first page": lambda: read("session-history", key="step"),
        "over HTTP: two events compared": lambda: read("compare", a=some_event(), b=some_event()),
    }.items():
        told(what, *bench.taking_turns(TIMES, ask))
    told("drift, by replaying the session", *bench.taking_turns(3, lambda: drift.own(ref, actor=SYSTEM)))
    appended = []
    for number in range(TIMES):
        event = append_event(ref, bench.as_json(bench.event_of(number, {"app:limit": number})), actor=SYSTEM).event
        appended.append(bench.timed(lambda: moments.state_at(ref, event["id"], actor=SYSTEM)))  # noqa: B023
    told("state at an event that was appended just now", appended)


async def fold(place: str, event_id: str) -> None:
    """The state at an event as google-adk's user can have it."""
    service = bench.adk(place)
    session = await service.get_session(app_name=APP, user_id=USER, session_id=LONG)
    state: dict[str, Any] = {}
    for event in session.events:
        state |= event.actions.state_delta
        if event.id == event_id:
            break
    await service.close()


if __name__ == "__main__":
    with bench.benchmark("History") as (folder, server):
        for what, place in bench.both(folder, server).items():
            ref = SessionRef(bench.opened(bench.fill(place, SESSIONS, long=LONGEST)), APP, USER, LONG)
            bench.heading(f"{what}, milliseconds", "", "median", "worst")
            with bench.adkweb(place) as served:
                measure(ref, served)
            folded = bench.timed(lambda: asyncio.run(fold(place, some_event())))  # noqa: B023
            told("google-adk: get_session and fold, once", [folded])
