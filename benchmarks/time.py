"""How fast the past is: state at any event, a key's history, comparing; beside google-adk in the same run.

    python -m benchmarks.time [--events 1000000] [--times 50]

A source of a million events, one session of them of 100 000, made by the database itself; every event of that session sets
a key, every tenth of all events a `user:` and an `app:` key. What adkweb keeps to be fast (its projection) is first built
for all of it. google-adk answers the same question by loading the session and folding it, which knows neither the state
that the session began with nor what other sessions wrote. Targets are printed beside the figures; nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from benchmarks.appends import TEXT, dashboard, prepare
from tests.servers import CHROMIUM_ARGS, PostgreSQL, chromium

APP, USER, LONG = "app", "ana", "long"
EVENTS, SHARE = 1_000_000, 10  # one event of so many is the long session's
SESSIONS, USERS = 9_000, 900  # those of the others
RARE = 20_000  # every so many events of the long session write the key `rare`
TARGET = 100  # milliseconds
COLD = 5  # processes
SECONDS = 3  # along the strip

# --- A source that is made by its database ----------------------------------------------------------------------------

_FILL = {
    "postgresql": """
        INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
        SELECT {app}, {of}, {id}, '{{}}', '{{"begun": true}}', TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-01'
        FROM generate_series(0, {sessions}) AS s;
        INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT {app}, {of}, {id}, 'e' || n, 'i' || (n / 50), TIMESTAMP '2026-01-01' + n * interval '1 second',
        jsonb_build_object('id', 'e' || n, 'author', 'agent', 'invocation_id', 'i' || (n / 50), 'timestamp', 1767225600 + n,
            'content', jsonb_build_object('role', 'model', 'parts', '[{{"text": "{text}"}}]'::jsonb),
            'usage_metadata', '{{"prompt_token_count": 900, "total_token_count": 940}}'::jsonb,
            'actions', jsonb_build_object('state_delta', jsonb_strip_nulls(jsonb_build_object(
                'n', CASE WHEN s = 0 OR n % 3 = 0 THEN n END, 'rare', CASE WHEN s = 0 AND n % {rare} = 0 THEN n END,
                'user:tier', CASE WHEN {shared} THEN n END, 'app:limit', CASE WHEN {shared} THEN n END))))
        FROM (SELECT n, CASE WHEN n % {share} = 0 THEN 0 ELSE 1 + n % {sessions} END AS s
            FROM generate_series(1, {events}) AS n) AS numbers ORDER BY n""",
    "sqlite": """
        WITH RECURSIVE numbers (s) AS (SELECT 0 UNION ALL SELECT s + 1 FROM numbers WHERE s < {sessions})
        INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
        SELECT {app}, {of}, {id}, '{{}}', '{{"begun": true}}', 1767225600.0, 1767225600.0 FROM numbers;
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {events})
        INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT {app}, {of}, {id}, 'e' || n, 'i' || (n / 50), 1767225600.0 + n,
        json_object('id', 'e' || n, 'author', 'agent', 'invocation_id', 'i' || (n / 50), 'timestamp', 1767225600 + n,
            'content', json('{{"role": "model", "parts": [{{"text": "{text}"}}]}}'),
            'usage_metadata', json('{{"prompt_token_count": 900, "total_token_count": 940}}'),
            'actions', json_object('state_delta', json_patch('{{}}', json_object(
                'n', CASE WHEN s = 0 OR n % 3 = 0 THEN n END, 'rare', CASE WHEN s = 0 AND n % {rare} = 0 THEN n END,
                'user:tier', CASE WHEN {shared} THEN n END, 'app:limit', CASE WHEN {shared} THEN n END))))
        FROM (SELECT n, CASE WHEN n % {share} = 0 THEN 0 ELSE 1 + n % {sessions} END AS s FROM numbers)""",
}
_STATES = [
    "INSERT INTO app_states (app_name, state, update_time) VALUES ({app}, '{{\"limit\": {last}}}', {now})",
    """INSERT INTO user_states (app_name, user_id, state, update_time)
    SELECT DISTINCT app_name, user_id, state, create_time FROM sessions""",
    'UPDATE sessions SET state = \'{{"begun": true, "n": {last}, "rare": {last}}}\' WHERE id = \'{long}\'',
]
_SETTLE = {"postgresql": ["VACUUM ANALYZE", "CHECKPOINT"], "sqlite": ["ANALYZE"]}


def fill(alias: str, events: int) -> None:
    """Makes sessions and events, past adkweb's own write path."""
    from django.db import connections

    connection = connections[alias]
    words = {
        "app": f"'{APP}'",
        "of": f"CASE s WHEN 0 THEN '{USER}' ELSE 'u' || (s / {SHARE}) END",
        "id": f"CASE s WHEN 0 THEN '{LONG}' ELSE 's' || s END",
        "shared": "n % 10 = 0",
        "text": TEXT,
        "long": LONG,
        "sessions": SESSIONS,
        "share": SHARE,
        "rare": RARE,
        "events": events,
        "last": events,
        "now": "TIMESTAMP '2026-01-01'" if connection.vendor == "postgresql" else "1767225600.0",
    }
    with connection.cursor() as cursor:
        for statement in [*_FILL[connection.vendor].split(";\n"), *_STATES]:
            cursor.execute(statement.format(**words))
        for statement in _SETTLE[connection.vendor]:  # which the database would do while it is measured
            cursor.execute(statement)


# --- Measuring --------------------------------------------------------------------------------------------------------


def timed(act: Callable[[], Any]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def show(what: str, times: list[float], target: float = TARGET) -> None:
    """One line: median and worst."""
    worst = f"worst {max(times):>8,.1f}" if len(times) > 1 else ""
    print(f"  {what:<58} {statistics.median(times):>10,.1f} ms  {worst}  (target {target:,.0f})", flush=True)


def cold(place: str, event_id: str) -> float:
    """The first question in a process: to connect is within it, to start Python is not. Runs in a process of its own."""
    prepare()
    from sessions_app.access.actor import SYSTEM
    from sessions_app.domain.session_ref import SessionRef
    from sessions_app.history import moments
    from sessions_app.sources import registry

    (source,) = registry.add(place)
    return timed(lambda: moments.state_at(SessionRef(source.alias, APP, USER, LONG), event_id, actor=SYSTEM))


# In the page: what is drawn, and what is asked for meanwhile.
_COUNT = """() => {
    const found = { frames: 0, longest: 0, answers: 0, most: 0 };
    const began = performance.now();
    let [last, asking] = [began, 0];
    const fetched = window.fetch;
    window.fetch = async (...asked) => {
        found.most = Math.max(found.most, ++asking);
        try { return await fetched(...asked); } finally { asking--; found.answers++; }
    };
    const frame = (now) => {
        found.frames++;
        found.longest = Math.max(found.longest, now - last);
        last = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    window.counted = () => ({ ...found, seconds: (performance.now() - began) / 1000 });
}"""


class Bench:
    """One source, filled."""

    def __init__(self, place: str, events: int, times: int, data: Path) -> None:
        from sessions_app.domain.session_ref import SessionRef
        from sessions_app.sources import database, registry

        (source,) = registry.add(place)
        database.open_source(source)
        self.place, self.alias, self.events, self.times, self.data = place, source.alias, events, times, data
        self.ref = SessionRef(source.alias, APP, USER, LONG)
        self.random = random.Random(5)
        made = timed(lambda: fill(self.alias, events))
        print(
            f"  made in {made / 1000:.0f} s: {events:,} events, {events // SHARE:,} of them in one session", flush=True
        )

    def event(self) -> str:
        """Some event of the long session."""
        return f"e{self.random.randrange(1, self.events // SHARE) * SHARE}"

    def rebuilding(self) -> None:
        """Prints how long everything takes to be read the first time, and what is kept of it."""
        from sessions_app.history.index import build

        before, writes = self._size(), 0

        def rebuild() -> None:
            nonlocal writes
            writes = build.rebuild(self.alias)

        seconds = timed(rebuild) / 1000
        kept = self._size() - before
        print(
            f"  built in {seconds:,.1f} s: {self.events / seconds:,.0f} events a second, {writes:,} writes of keys;"
            f" {kept / 2**20:,.0f} MiB kept, {kept / self.events:,.0f} bytes an event",
            flush=True,
        )

    def _size(self) -> int:
        """Of adkweb's own database."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(file.stat().st_size for file in self.data.glob("adkweb.db*"))

    def calls(self) -> None:
        """Prints what pages and the API ask."""
        from sessions_app.access.actor import SYSTEM
        from sessions_app.history import drift, key_history, moments

        context = multiprocessing.get_context("spawn")
        with context.Pool(1, maxtasksperchild=1) as processes:
            show(
                f"state at an event, first question of a process ({COLD})",
                [processes.apply(cold, (self.place, self.event())) for _ in range(COLD)],
            )
        questions: dict[str, Callable[[], Any]] = {
            "state at an event": lambda: moments.state_at(self.ref, self.event(), actor=SYSTEM),
            f"history of a key with {self.events // SHARE:,} writes, first page": lambda: key_history.history(
                self.ref, "n", actor=SYSTEM
            ),
            f"history of a key with {self.events // RARE:,} writes": lambda: key_history.history(
                self.ref, "rare", actor=SYSTEM
            ),
            "history of an app: key, first page": lambda: key_history.history(self.ref, "app:limit", actor=SYSTEM),
            "two events compared": lambda: moments.compare(
                moments.state_at(self.ref, self.event(), actor=SYSTEM),
                moments.state_at(self.ref, self.event(), actor=SYSTEM),
            ),
        }
        for what, ask in questions.items():
            show(what, [timed(ask) for _ in range(self.times)])
        show(
            "drift, by replaying the session",
            [timed(lambda: drift.own(self.ref, actor=SYSTEM)) for _ in range(3)],
            target=2_000,
        )
        show("state at an event that was appended just now", [self._appended() for _ in range(self.times)])

    def _appended(self) -> float:
        from sessions_app.access.actor import SYSTEM, Actor
        from sessions_app.history import moments
        from sessions_app.writes.append import append_event

        event = {"author": "agent", "actions": {"state_delta": {"n": self.random.random(), "app:limit": 1}}}
        event_id = append_event(self.ref, event, actor=Actor.holding("benchmark", "admin")).event["id"]
        return timed(lambda: moments.state_at(self.ref, event_id, actor=SYSTEM))

    def over_http(self) -> None:
        """Prints the same as a browser gets it; the server is asked once before."""
        from django.urls import reverse

        names = self.ref._asdict()
        with dashboard(self.place, data=str(self.data)) as (_process, address, browser):

            def get(name: str, /, *, part: bool = True, **query: str) -> Callable[[], Any]:
                path = f"{reverse(name, kwargs=names)}?{urlencode(query)}"
                asked = urllib.request.Request(address + path, headers={"HX-Request": "true"} if part else {})
                return lambda: browser.open(asked, timeout=60).read()

            questions = {
                "over HTTP: the panel at an event": lambda: get("state-at", at=self.event()),
                "over HTTP: the session's page at an event": lambda: get("session", part=False, at=self.event()),
                "over HTTP: a key's history, first page": lambda: get("session-history", key="n"),
                "over HTTP: two events compared": lambda: get("compare", a=self.event(), b=self.event()),
            }
            for what, question in questions.items():
                question()()
                show(what, [timed(question()) for _ in range(self.times)])
            self.strip(
                address, next(handler.cookiejar for handler in browser.handlers if hasattr(handler, "cookiejar"))
            )

    def strip(self, address: str, jar: CookieJar) -> None:
        """Prints how smoothly Chromium moves along the strip: frames a second, and the most requests at once."""
        from django.urls import reverse

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies([{"name": c.name, "value": str(c.value), "url": address} for c in jar])
            page = context.new_page()
            page.goto(address + reverse("session", kwargs=self.ref._asdict()))
            box = page.locator("#travel").bounding_box(timeout=60_000)
            assert box
            page.evaluate(_COUNT)
            page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
            page.mouse.down()
            began = time.monotonic()
            while (passed := time.monotonic() - began) < SECONDS:
                share = 0.5 + 0.48 * math.sin(passed * 2)
                page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
            page.mouse.up()
            found = page.evaluate("window.counted()")
            browser.close()
        assert found["answers"], "nothing was asked for along the strip"
        print(
            f"  {'moving along the strip':<58} {found['frames'] / found['seconds']:>10,.0f} frames a second (target 30), the"
            f" longest {found['longest']:.0f} ms; {found['answers']} answers, at most {found['most']} at once (target 1)",
            flush=True,
        )

    def google_adk(self) -> None:
        """Prints what google-adk does for state at an event; once, as it takes seconds."""
        show("google-adk: get_session and fold", [timed(lambda: asyncio.run(fold(self.place, self.event())))])


async def fold(place: str, event_id: str) -> dict[str, Any]:
    """The state at an event as google-adk's user can have it."""
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    service: Any
    if "://" in place:
        service = DatabaseSessionService(place.replace("postgresql:", "postgresql+asyncpg:"))
    else:
        service = SqliteSessionService(place)
    session = await service.get_session(app_name=APP, user_id=USER, session_id=LONG)
    state: dict[str, Any] = {}
    for event in session.events:
        state |= event.actions.state_delta
        if event.id == event_id:
            break
    await service.close()
    return state


def main() -> None:
    """Runs everything, in a few minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"of the source ({EVENTS})")
    parser.add_argument("--times", type=int, default=50, help="that each question is asked (50)")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        directory = Path(name)
        (directory / "data").mkdir()
        os.environ["ADKWEB_DATA_DIR"] = str(directory / "data")  # of the processes, too: what is built is built once
        prepare()
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        (directory / "time.db").touch()
        for what, place in {"SQLite": str(directory / "time.db"), "PostgreSQL": server.create_database("past")}.items():
            print(f"\n{what}\n")
            bench = Bench(place, given.events, given.times, directory / "data")
            bench.rebuilding()
            bench.calls()
            bench.over_http()
            bench.google_adk()
            with closing(connections[bench.alias]):
                pass
    print(f"\n{os.cpu_count()} processors, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
