"""How soon a live page shows what was written, what many watchers cost, what an idle one costs, and what a burst does.

    python -m benchmarks.live [--seconds 10]

Every server here is `adkweb SOURCE` in a process of its own, the writers and the watchers are in other processes, and
every database was made by google-adk's own service (SqliteSessionService; DatabaseSessionService on PostgreSQL with fsync,
as in production). All clocks are this machine's. Targets are printed beside the figures; nothing is asserted.

- Commit → DOM: a MutationObserver in the page notes when an event's row is there. Foreign writes count from the moment in
  which google-adk's append returned. Own ones are POSTs of the "Add event" form and count from the event's timestamp, which
  adkweb takes just before the append: reading the state, the append and its commit are within the figure.
- Watchers: websockets in one process; a frame is received when `recv` returns. Counted from when the append returned.
- A burst is written past all services, in ten transactions, and counted from when the last of them was committed.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import http.client
import json
import math
import multiprocessing
import os
import random
import re
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import psycopg
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.appends import TEXT, dashboard, prepare
from tests.servers import CHROMIUM_ARGS, PostgreSQL, chromium

APP, USER = "app", "ana"
SESSIONS, WATCHERS, RATE = 20, 200, 50  # events a second, of all sessions together
PAGE_RATE = 10  # events a second before one page
BURST, TRANSACTIONS = 5_000, 10
WARM = 3  # events that are not counted
PATIENCE = 15.0  # seconds that the last event may take before it counts as lost
LINGER = 7.0  # a follower waits 5 s for somebody to come back, and looks once a second
SERVICES = {"SQLite": "SqliteSessionService", "PostgreSQL": "DatabaseSessionService"}

# --- Writers and watchers, in processes of their own ------------------------------------------------------------------


@dataclass
class Written:
    """What a writer did: by event id, when the append was called and when it returned; ids of failed appends."""

    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0


def make(place: str, names: list[str]) -> None:
    """google-adk's service makes the tables and the sessions."""

    async def create() -> None:
        service = _service(place)
        for name in names:
            await service.create_session(app_name=APP, user_id=USER, session_id=name)
        await service.close()

    asyncio.run(create())


def google_adk(place: str, names: list[str], rate: float, seconds: float) -> Written:
    """google-adk's service appends to the sessions, `rate` events a second in all, not quite evenly."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    written = Written()

    async def write(service: Any, name: str) -> None:
        where = {"app_name": APP, "user_id": USER, "session_id": name}
        session = await service.get_session(**where)
        for number, at in _moments(rate / len(names), seconds):
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            event = Event(
                id=_id(name, number),
                author="agent",
                invocation_id=f"e-{number // 10}",
                content=types.Content(role="model", parts=[types.Part(text=f"{time.time()} {TEXT}")]),
                actions=EventActions(state_delta={"n": number}),
            )
            before = time.time()
            try:
                await service.append_event(session, event)
            except Exception:  # whatever it raises is a failed append; a session is loaded anew after one
                written.failed.append(event.id)
                session = await service.get_session(**where)
            else:
                written.times[event.id] = before, time.time()

    async def everything() -> None:
        service = _service(place)
        began = time.monotonic()
        await asyncio.gather(*(write(service, name) for name in names))
        written.seconds = time.monotonic() - began
        await service.close()

    asyncio.run(everything())
    return written


def adkweb(place: str, names: list[str], rate: float, seconds: float) -> Written:
    """adkweb's write path appends, in a thread for each four sessions, as another adkweb process does."""
    from django.db import connections

    from sessions_app.access.actor import Actor
    from sessions_app.domain.errors import Error
    from sessions_app.domain.session_ref import SessionRef
    from sessions_app.sources import registry
    from sessions_app.writes.append import append_event

    (source,) = registry.add(place)
    written = Written()
    began = time.monotonic()

    def write(mine: list[str]) -> None:
        for number, at in _moments(rate * len(mine) / len(names), seconds):
            time.sleep(max(0.0, at - time.monotonic()))
            name = mine[number % len(mine)]
            event = {
                "id": _id(name, number),
                "author": "agent",
                "invocation_id": f"e-{number // 40}",
                "content": {"role": "model", "parts": [{"text": f"{time.time()} {TEXT}"}]},
                "actions": {"state_delta": {"n": number}},
            }
            before = time.time()
            try:
                append_event(
                    SessionRef(source.alias, APP, USER, name), event, actor=Actor.holding("benchmark", "admin")
                )
            except Error:
                written.failed.append(str(event["id"]))
            else:
                written.times[str(event["id"])] = before, time.time()
        connections.close_all()

    threads = [threading.Thread(target=write, args=[names[n::5]]) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written.seconds = time.monotonic() - began
    return written


def burst(place: str, name: str, count: int) -> tuple[float, float]:
    """Valid events, as many as there are, as fast as the database takes them; when it began and when it had ended."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    now = time.time()
    rows = []
    for number in range(count):
        event = Event(
            id=_id(name, number),
            author="agent",
            invocation_id=f"e-{number // 10}",
            timestamp=now + number / 1e4,
            content=types.Content(role="model", parts=[types.Part(text=TEXT)]),
            actions=EventActions(state_delta={"n": number}),
        )
        text = event.model_dump_json(exclude_none=True)
        rows.append((event.id, APP, USER, name, event.invocation_id, event.timestamp, text))
    sqlite = "://" not in place
    sign, instant = ("?", "?") if sqlite else ("%s", "to_timestamp(%s) AT TIME ZONE 'UTC'")
    insert = f"""INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        VALUES ({", ".join([sign] * 5)}, {instant}, {sign})"""
    update = f"UPDATE sessions SET state = {sign}, update_time = {instant} WHERE id = {sign}"
    size = math.ceil(count / TRANSACTIONS)
    began = time.time()
    with closing(sqlite3.connect(place) if sqlite else psycopg.connect(place)) as connection:
        cursor: Any = connection.cursor()
        for start in range(0, count, size):
            part = rows[start : start + size]
            cursor.executemany(insert, part)
            cursor.execute(update, [json.dumps({"n": start + len(part) - 1}), part[-1][5], name])
            connection.commit()
    return began, time.time()


Received = list[tuple[str, list[tuple[str, float]]]]  # of each watcher: its session, and the events in order, and when


def watch(pipe: Connection, address: str, cookie: str, paths: dict[str, str], count: int) -> Received:
    """Watchers of sessions, `count` in all, until each has as many events as is said through the pipe, or too late."""
    return asyncio.run(_watch(pipe, address, cookie, paths, count))


async def _watch(pipe: Connection, address: str, cookie: str, paths: dict[str, str], count: int) -> Received:
    from websockets.asyncio.client import connect

    row = re.compile(r'id=\\"event-([^"\\]+)\\"')
    received: Received = []
    ready = asyncio.Semaphore(0)
    some = asyncio.Semaphore(20)  # that open at the same time

    async def one(name: str) -> None:
        got: list[tuple[str, float]] = []
        received.append((name, got))
        url = address.replace("http", "ws") + paths[name]
        async with some:
            socket = await connect(
                url, origin=address, additional_headers={"Cookie": cookie}, compression=None, max_size=None
            )
            await socket.recv()
        ready.release()
        async with socket:
            while True:
                frame = await socket.recv()
                now = time.time()
                got += [(found, now) for found in row.findall(frame)]

    names = list(paths)
    tasks = [asyncio.create_task(one(names[n % len(names)])) for n in range(count)]
    for _ in range(count):
        await asyncio.wait_for(ready.acquire(), 60)
    pipe.send("ready")
    expected: dict[str, int] = await asyncio.to_thread(pipe.recv)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and any(len(got) < expected[name] for name, got in received):
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)  # for what comes twice
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for problem in {str(error) for error in ended if isinstance(error, Exception)}:
        print(f"a watcher ended: {problem}", file=sys.stderr)
    return received


def _service(place: str) -> Any:
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    if "://" in place:
        return DatabaseSessionService(place.replace("postgresql://", "postgresql+asyncpg://"), pool_size=SESSIONS)
    return SqliteSessionService(place)


def _moments(rate: float, seconds: float) -> Iterator[tuple[int, float]]:
    """Numbers and times (of time.monotonic): at this rate on the average, and not in step with anybody who looks."""
    at = time.monotonic() + random.random() / rate
    for number in range(round(rate * seconds)):
        yield number, at
        at += (0.5 + random.random()) / rate


def _id(name: str, number: int) -> str:
    return f"{name}-{number}"


TASKS: dict[str, Callable[..., Any]] = {
    "make": make,
    "google-adk": google_adk,
    "adkweb": adkweb,
    "burst": burst,
    "watch": watch,
}


def serve(pipe: Connection) -> None:
    """A process that does whatever it is told to."""
    prepare()
    import google.adk.sessions  # noqa: F401 - not while others are measured

    pipe.send("ready")
    while (task := pipe.recv()) is not None:
        name, values = task
        pipe.send(TASKS[name](*([pipe] if name == "watch" else []), **values))


class Hand:
    """Such a process, from outside."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=[theirs], daemon=True)
        self._process.start()

    def begin(self, task: str, /, **values: Any) -> None:
        """Has something done; `end` has what came of it."""
        self.pipe.send((task, values))

    def end(self) -> Any:
        """Waits for the next thing that the process says."""
        if not self.pipe.poll(120):
            raise SystemExit("a measuring process does not answer")
        return self.pipe.recv()

    def close(self) -> None:
        """Ends the process."""
        with suppress(BrokenPipeError):
            self.pipe.send(None)
        self._process.join(5)


# --- A server, its pages and its forms --------------------------------------------------------------------------------


class Server:
    """adkweb on one source, and somebody who is signed in."""

    def __init__(self, process: psutil.Process, address: str, jar: CookieJar, alias: str) -> None:
        self.process, self.address, self._alias = process, address, alias
        self.cookies = {cookie.name: str(cookie.value) for cookie in jar}

    @property
    def cookie(self) -> str:
        """The header."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def path(self, name: str, kind: str = "s") -> str:
        """A session's address."""
        return f"/{kind}/{self._alias}/{APP}/{USER}/{name}/"

    def live(self, name: str) -> str:
        """A session's websocket, from its beginning."""
        return self.path(name, "live/session") + "?after=0&language=en"

    def cpu(self) -> float:
        """Seconds that it has used."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def running(place: str) -> Iterator[Server]:
    """adkweb on a source."""
    alias = place.rpartition("/")[2].removesuffix(".db")
    with dashboard(place) as (process, address, browser):
        jar: CookieJar = next(h.cookiejar for h in browser.handlers if hasattr(h, "cookiejar"))
        yield Server(process, address, jar, alias)


class Form:
    """The “Add event” form of a session, opened and sent again and again over one connection."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name
        self._path = server.path(name) + "add/"
        self._connection = http.client.HTTPConnection(server.address.partition("//")[2], timeout=30)
        self._fields: dict[str, str] = {}

    def open(self) -> None:
        """Reads the form."""
        _status, text = self._ask("GET")
        found = re.findall(r'name="(csrfmiddlewaretoken|once)" value="([^"]*)"', text)
        self._fields = {name: html.unescape(value) for name, value in found}

    def send(self, number: int) -> float:
        """Sends it; how long the answer took."""
        event = {
            "id": _id(self._name, number),
            "author": "agent",
            "content": {"role": "model", "parts": [{"text": f"{time.time()} {TEXT}"}]},
            "actions": {"state_delta": {"n": number}},
        }
        body = urlencode({**self._fields, "event": json.dumps(event), "reason": ""})
        began = time.perf_counter()
        status, text = self._ask("POST", body)
        if status != 302:
            raise SystemExit(f"the form answers {status}: {text[:2000]}")
        return time.perf_counter() - began

    def _ask(self, method: str, body: str = "") -> tuple[int, str]:
        headers = {"Cookie": self._server.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request(method, self._path, body, headers)
        answer = self._connection.getresponse()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, rest = value.partition("=")
                self._server.cookies[cookie] = rest.partition(";")[0]
        return answer.status, answer.read().decode()


OBSERVE = """
window.seen = []; window.batches = 0; window.tasks = 0; window.gap = 0;
addEventListener("DOMContentLoaded", () => {
  const events = document.querySelector("#events");
  if (!events) return;
  new MutationObserver((records) => {
    const now = Date.now();
    const before = seen.length;
    for (const record of records)
      for (const node of record.addedNodes) if (node.id?.startsWith("event-")) seen.push([node.id.slice(6), now]);
    if (seen.length > before) batches += 1;
  }).observe(events, { childList: true, subtree: true });
});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) tasks = Math.max(tasks, entry.duration);
}).observe({ type: "longtask" });
let last = performance.now();
requestAnimationFrame(function tick() {
  const now = performance.now();
  gap = Math.max(gap, now - last);
  last = now;
  requestAnimationFrame(tick);
});
"""


@contextmanager
def page_of(browser: Browser, server: Server, name: str) -> Iterator[Page]:
    """Chromium on a session's page, connected, with an observer of its rows."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        context.add_cookies([{"name": n, "value": v, "url": server.address} for n, v in server.cookies.items()])
        context.add_init_script(OBSERVE)
        page = context.new_page()
        page.goto(server.address + server.path(name))
        page.wait_for_selector("[data-live][data-state=live]")
        page.wait_for_timeout(500)
        page.evaluate("tasks = gap = 0")  # what loading the page took is not asked
        yield page


def rows_of(page: Page, count: int) -> list[tuple[str, float]]:
    """The rows that were added and when, as soon as there are so many."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and page.evaluate("seen.length") < count:
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    return [(name, moment / 1000) for name, moment in page.evaluate("seen")]


def stored(place: str, name: str) -> dict[str, float]:
    """By id and in append order, the timestamps of a session's events."""
    if "://" in place:
        statement = "SELECT id, event_data->>'timestamp' FROM events WHERE session_id = %s ORDER BY seq"
        with psycopg.connect(place) as connection:
            return {row[0]: float(row[1]) for row in connection.execute(statement, [name])}
    statement = "SELECT id, event_data->>'$.timestamp' FROM events WHERE session_id = ? ORDER BY rowid"
    with closing(sqlite3.connect(place)) as file:
        return {row[0]: float(row[1]) for row in file.execute(statement, [name])}


# --- Measuring --------------------------------------------------------------------------------------------------------


def one_page(what: str, place: str, server: Server, browser: Browser, writer: Hand, seconds: float) -> None:
    """Commit → DOM: own and foreign writes."""
    took = []
    form = Form(server, "own")
    with page_of(browser, server, "own") as page:
        form.open()
        for number, at in _moments(PAGE_RATE, seconds):
            time.sleep(max(0.0, at - time.monotonic()))
            took.append(form.send(number))
            time.sleep(max(0.0, min(at + 0.4 / PAGE_RATE - time.monotonic(), 1)))
            form.open()  # which also takes away what the last answer wanted to say
        began = stored(place, "own")
        _one_page(what, "own", rows_of(page, len(began)), began, took)
    with page_of(browser, server, "foreign") as page:
        writer.begin("google-adk", place=place, names=["foreign"], rate=PAGE_RATE, seconds=seconds)
        while not writer.pipe.poll():
            page.wait_for_timeout(200)  # Playwright's own work goes on
        written: Written = writer.end()
        rows = rows_of(page, len(stored(place, "foreign")))
        ended = {name: times[1] for name, times in written.times.items()}
        _one_page(what, "foreign", rows, ended, [after - before for before, after in written.times.values()])


ONE_PAGE = "{:<11} {:<8} {:>6} {:>5} {:>8} {:>8} {:>8} {:>12}   {}"


def _one_page(
    what: str, side: str, rows: list[tuple[str, float]], began: dict[str, float], took: Sequence[float]
) -> None:
    times = [moment - began[name] for name, moment in rows if name in began][WARM:]
    target = "p50 < 50, p99 < 200" if side == "own" else "p50 < 300"
    lost = len(began) - len(rows)
    figures = (_ms(part(times)) for part in (p50, p99, max))
    print(ONE_PAGE.format(what, side, len(times), lost, *figures, _ms(p50(took)), target), flush=True)


CROWD = "{:<11} {:<11} {:>6} {:>7} {:>5} {:>5} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>6}"


def crowd(what: str, place: str, server: Server, writer: Hand, watchers: Hand, seconds: float) -> None:
    """Many watchers of many sessions, written to by google-adk and by adkweb."""
    for side, names in crowds().items():
        paths = {name: server.live(name) for name in names}
        watchers.begin("watch", address=server.address, cookie=server.cookie, paths=paths, count=WATCHERS)
        if watchers.end() != "ready":
            raise SystemExit("the watchers could not open their sockets")
        began, used, memory = time.monotonic(), server.cpu(), 0
        writer.begin(side, place=place, names=names, rate=RATE, seconds=seconds)
        while not writer.pipe.poll(0.25):
            memory = max(memory, server.process.memory_info().rss)
        cpu = (server.cpu() - used) / (time.monotonic() - began)
        written: Written = writer.end()
        expected = {name: list(stored(place, name)) for name in names}
        watchers.pipe.send({name: len(found) for name, found in expected.items()})
        received: Received = watchers.end()
        memory = max(memory, server.process.memory_info().rss)
        lost = twice = disordered = 0
        times = []
        for name, got in received:
            ids = [event_id for event_id, _moment in got]
            lost += len(set(expected[name]) - set(ids))
            twice += sum(number - 1 for number in Counter(ids).values())
            disordered += list(dict.fromkeys(ids)) != [found for found in expected[name] if found in set(ids)]
            times += [moment - written.times[found][1] for found, moment in got if found in written.times]
        figures = (_ms(part(times)) for part in (p50, p99, max))
        rate = len(written.times) / written.seconds
        rss = f"{memory / 2**20:.0f} MiB"
        counts = (f"{rate:.0f}/s", len(written.failed), lost, twice, disordered)
        print(CROWD.format(what, side, sum(map(len, expected.values())), *counts, *figures, rss, f"{cpu:.0%}"))
        sys.stdout.flush()


def crowds() -> dict[str, list[str]]:
    """Sessions for each side."""
    return {side: [f"{side}.{number}" for number in range(SESSIONS)] for side in ("google-adk", "adkweb")}


IDLE = "{:<11} {:>12} {:>12} {:>10} {:>10} {:>10}   {}"


def idle(places: dict[str, str], seconds: float) -> None:
    """One watcher of an idle session, then none; both servers at the same time."""
    from websockets.sync.client import connect

    with running(places["SQLite"]) as first, running(places["PostgreSQL"]) as second:
        servers = dict(zip(places, (first, second), strict=True))
        time.sleep(2)
        before = {what: server.process.num_threads() for what, server in servers.items()}
        sockets: list[Any] = [
            connect(
                server.address.replace("http", "ws") + server.live("idle"),
                origin=server.address,  # type: ignore[arg-type]
                additional_headers={"Cookie": server.cookie},
            )
            for server in servers.values()
        ]
        time.sleep(3)  # what is pushed at first
        watched = _cpu_over(servers, seconds)
        during = {what: server.process.num_threads() for what, server in servers.items()}
        for socket in sockets:
            socket.close()
        time.sleep(LINGER)
        alone = _cpu_over(servers, seconds)
        for what, server in servers.items():
            threads = before[what], during[what], server.process.num_threads()
            target = "< 1% of a core watched; no thread left"
            print(IDLE.format(what, f"{watched[what]:.2%}", f"{alone[what]:.2%}", *threads, target), flush=True)


def _cpu_over(servers: dict[str, Server], seconds: float) -> dict[str, float]:
    began, used = time.monotonic(), {what: server.cpu() for what, server in servers.items()}
    time.sleep(seconds)
    over = time.monotonic() - began
    return {what: (server.cpu() - used[what]) / over for what, server in servers.items()}


FLOOD = "{:<11} {:>7} {:>8} {:>7} {:>8} {:>10} {:>10} {:>12} {:>11}   {}"


def flood(what: str, place: str, server: Server, browser: Browser, writer: Hand) -> None:
    """Thousands of events within about a second, into the session that a page shows."""
    with page_of(browser, server, "burst") as page:
        writer.begin("burst", place=place, name="burst", count=BURST)
        began, ended = _while_waiting(page, writer)
        rows = rows_of(page, BURST)
        in_order = [name for name, _moment in rows] == list(stored(place, "burst"))
        shown = page.evaluate("document.querySelectorAll('#events [data-row]').length")
        last = page.evaluate(f"!!document.getElementById('event-{_id('burst', BURST - 1)}')")
        figures = page.evaluate("[batches, tasks, gap]")
        late = rows[-1][1] - ended if rows else math.inf
        print(
            FLOOD.format(
                what,
                f"{ended - began:.2f} s",
                len(rows),
                "yes" if in_order and last else "NO",
                figures[0],
                f"{late:.2f} s",
                f"{len(rows) / max(0.01, late + ended - began):,.0f}/s",
                f"{figures[1]:.0f} ms",
                f"{figures[2]:.0f} ms",
                f"all {BURST:,} in order; {shown:,} kept",
            ),
            flush=True,
        )


def _while_waiting(page: Page, hand: Hand) -> Any:
    while not hand.pipe.poll():
        page.wait_for_timeout(50)
    return hand.end()


def p50(times: Iterable[float]) -> float:
    """The median."""
    return _percentile(times, 0.5)


def p99(times: Iterable[float]) -> float:
    """What one in a hundred exceeds."""
    return _percentile(times, 0.99)


def _percentile(times: Iterable[float], part: float) -> float:
    found = sorted(times)
    return found[min(len(found) - 1, int(part * len(found)))] if found else math.nan


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def heading(title: str, row: str, *names: str) -> None:
    """Of a table."""
    print(f"\n{title}\n\n{row.format(*names)}", flush=True)


def main() -> None:
    """Runs everything, in less than three minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of one measurement (10)")
    parser.add_argument("--only", default="pages,burst,crowd,idle", help="of pages,burst,crowd,idle")
    given = parser.parse_args()
    only = given.only.split(",")
    began, load = time.monotonic(), os.getloadavg()
    writer, watchers = Hand(), Hand()
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as folder, PostgreSQL(fsync=True) as postgresql:
        places = {"SQLite": str(Path(folder) / "live.db"), "PostgreSQL": postgresql.create_database("live")}
        try:
            writer.end()
            watchers.end()
            for place in places.values():
                names = ["own", "foreign", "burst", "idle", *(name for side in crowds().values() for name in side)]
                writer.begin("make", place=place, names=names)
                writer.end()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
                measure(only, places, browser, writer, watchers, given.seconds)
                browser.close()
            if "crowd" in only:
                title = f"{WATCHERS} watchers of {SESSIONS} sessions, {RATE} events a second in all. Targets: nothing lost, "
                names = ("events", "rate", "fail", "lost", "twice", "order", "p50", "p99", "max", "RSS", "CPU")
                heading(title + "p99 < 500 ms, server < 250 MB", CROWD, "database", "writer", *names)
                for what, place in places.items():
                    with running(place) as server:
                        crowd(what, place, server, writer, watchers, given.seconds)
            if "idle" in only:
                names = ("watched", "nobody", "threads:", "watched", "after")
                heading(
                    "Idle: CPU, and threads before, while and after a session is watched", IDLE, "database", *names, ""
                )
                idle(places, min(8.0, given.seconds))
        finally:
            writer.close()
            watchers.close()
    loads = " → ".join(" ".join(f"{number:.1f}" for number in found) for found in (load, os.getloadavg()))
    print(f"\n{os.cpu_count()} processors, load {loads}, {time.monotonic() - began:.0f} s in all")


def measure(
    only: list[str], places: dict[str, str], browser: Browser, writer: Hand, watchers: Hand, seconds: float
) -> None:
    """What one page shows."""
    if "pages" in only:
        names = ("writes", "events", "lost", "p50", "p99", "max", "write p50", "target, ms")
        heading("From commit to the row in the browser, one page", ONE_PAGE, "database", *names)
        for what, place in places.items():
            with running(place) as server:
                one_page(what, place, server, browser, writer, seconds)
    if "burst" in only:
        names = ("written", "shown", "order", "batches", "last after", "rate", "longest task", "longest gap", "target")
        heading(f"A burst of {BURST:,} events into the session of a page", FLOOD, "database", *names)
        for what, place in places.items():
            with running(place) as server:
                flood(what, place, server, browser, writer)


if __name__ == "__main__":
    main()
