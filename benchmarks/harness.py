"""What the benchmarks share: large databases, processes beside, an agent that writes, servers, timing, tables in Markdown.

Databases are made by google-adk's own services and filled past them. PostgreSQL runs with fsync, as in production. Sides
that are compared take turns. A figure is the median, ± half of the distance between the quartiles.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import multiprocessing
import os
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
from django.core.management import call_command
from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from playwright.sync_api import Page, sync_playwright

from sessions_app.access import tokens
from sessions_app.history.index import build
from sessions_app.search.index import feed
from sessions_app.sources import database, registry
from tests.servers import CHROMIUM_ARGS, PostgreSQL, chromium, free_port
from tests.support.people import as_admin

ROOT = Path(__file__).resolve().parent.parent
SIZE = float(os.environ.get("SIZE", "1"))
TEXT = "I found three flights. The cheapest is TP431 at 412.50 EUR, with one stop in Frankfurt. Shall I book it?"
APP, USER, LONG = "booking", "ana", "long"
EACH, ACTIVE = 10, 1_000  # events of a session; sessions that are written to at the same time
BEGAN = 1_767_225_600  # 2026-01-01, when the first event was; each comes a second after the one before
RATE = 20  # events that the agent appends in a second
MB = 2**20


def sized(count: Any, least: Any = 1) -> Any:
    """A number of events, rounds or seconds, as SIZE wants it."""
    return type(count)(max(count * SIZE, least))


@contextmanager
def benchmark(title: str) -> Iterator[tuple[Path, PostgreSQL]]:
    """A folder and a PostgreSQL for one module."""
    began = time.monotonic()
    print(f"# {title}", flush=True)
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        yield Path(name), server
    print(f"\n{os.cpu_count()} processors, {time.monotonic() - began:.0f} s in all\n", flush=True)


# --- Timing and tables ------------------------------------------------------------------------------------------------


def timed(act: Callable[[], Any]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def taking_turns(rounds: int, *acts: Callable[[], Any]) -> list[list[float]]:
    """Milliseconds of each act. They take turns, and each is done once before."""
    for act in acts:
        act()
    return [list(side) for side in zip(*([timed(act) for act in acts] for _ in range(rounds)), strict=True)]


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which a share of all values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def late(values: Iterable[float]) -> tuple[float, float, float]:
    """The median, what one in a hundred exceeds, and the worst: LATE names the columns."""
    values = list(values)
    return quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1)


LATE = ("median, ms", "99 of 100", "worst")


def heading(title: str, *columns: str) -> None:
    """Begins a table."""
    print(f"\n## {title}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)


def row(*cells: Any) -> None:
    """A row of it; of a list of numbers, their median and spread."""
    print(f"| {' | '.join(map(_cell, cells))} |", flush=True)


def versus(what: str, ours: Sequence[float], theirs: Sequence[float], *more: Any, rate: bool = False) -> None:
    """A row with adkweb's numbers, google-adk's, and how many times better adkweb is; a `rate` is better when higher."""
    mine, other = statistics.median(ours), statistics.median(theirs) or 0.1
    row(what, ours, theirs, f"{mine / other if rate else other / mine:.1f}×", *more)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        first, middle, third = statistics.quantiles(value, method="inclusive") if len(value) > 1 else value * 3
        return f"{_cell(float(middle))} ± {_cell((third - first) / 2)}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- Databases --------------------------------------------------------------------------------------------------------


def both(folder: Path, server: PostgreSQL) -> dict[str, str]:
    """A place on either kind of database."""
    return {"SQLite": str(folder / "lite.db"), "PostgreSQL": server.create_database("large")}


def adk(place: str, *, writers: int = 5) -> Any:
    """google-adk's own service on a URL or file, with a connection for each writer."""
    if "://" in place:
        return DatabaseSessionService(place.replace("postgresql:", "postgresql+asyncpg:"), pool_size=writers)
    return SqliteSessionService(place)


def event_of(number: int, delta: dict[str, Any] | None = None) -> Event:
    """What an agent appends."""
    content = types.Content(role="model", parts=[types.Part(text=TEXT)])
    actions = EventActions(state_delta=delta or {"n": number})
    return Event(author="agent", invocation_id=f"a{number // 10}", content=content, actions=actions)


def as_json(event: Event) -> Any:
    """The same for adkweb's API."""
    return event.model_dump(mode="json", exclude_none=True)


def make(place: str, *names: str) -> str:
    """Has google-adk make its tables, and sessions with these names. Returns the place."""

    async def create() -> None:
        service = adk(place)
        for name in names or ("first",):
            await service.create_session(app_name=APP, user_id=USER, session_id=name)
        await service.close()

    asyncio.run(create())
    return place


def fill(place: str, sessions: int, *, each: int = EACH, long: int = 0, of_a_user: int = 2) -> str:
    """Has google-adk make its tables, and adds sessions s0, s1, … with so many events, and one named `long`.

    They are written to in turns. The first event of each is a user's, and every tenth of all sets keys of the user and the
    app. Half of the long session's are calls of tools and what they return."""
    total, postgresql = sessions * each + long, "://" in place

    def moment(number: int) -> Any:
        """When an event was, as google-adk's tables have it."""
        seconds = BEGAN + number
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if postgresql else float(seconds)

    def session_rows() -> Iterator[tuple[Any, ...]]:
        for s in range(sessions):
            yield APP, f"u{s // of_a_user}", f"s{s}", "{}", moment(0), moment(s)
        if long:
            yield APP, USER, LONG, json.dumps({"step": total}), moment(0), moment(total)

    def event_rows() -> Iterator[tuple[Any, ...]]:
        every = total // long if long else total + 1
        for n in range(total):
            of_long = min(long, n // every + 1)  # of the long session, until and with this one
            if of_long and n == (of_long - 1) * every:
                user, session, number = USER, LONG, of_long - 1
            else:
                first = (n - of_long) // (ACTIVE * each) * ACTIVE  # of the sessions that are written to now
                number, s = divmod(n - of_long - first * each, min(ACTIVE, sessions - first))
                user, session = f"u{(first + s) // of_a_user}", f"s{first + s}"
            event = json.dumps(_event(n, number, session == LONG))
            yield APP, user, session, f"e{n}", f"i{n // 50}", moment(n), event

    tables = {
        "sessions (app_name, user_id, id, state, create_time, update_time)": session_rows(),
        "events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)": event_rows(),
    }
    make(place)
    if not postgresql:
        with closing(sqlite3.connect(place)) as file, file:
            for table, rows in tables.items():
                file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * (table.count(',') + 1))})", rows)
        return place
    with psycopg.connect(place, autocommit=True) as connection:
        for table, rows in tables.items():
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        connection.execute("VACUUM ANALYZE")  # which it would do while it is measured
        connection.execute("CHECKPOINT")
    return place


def _event(n: int, number: int, long: bool) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": TEXT}]
    if long and number % 4 == 1:
        parts = [{"function_call": {"name": "search", "args": {"from": "LIS", "to": "ICN", "n": n}}}]
    if long and number % 4 == 2:
        parts = [{"function_response": {"name": "search", "response": {"flights": [TEXT] * 3}}}]
    return {
        "id": f"e{n}",
        "author": "agent" if number else "user",
        "invocation_id": f"i{n // 50}",
        "timestamp": BEGAN + n,
        "content": {"role": "model", "parts": parts},
        "usage_metadata": {"prompt_token_count": 900, "total_token_count": 940},
        "actions": {"state_delta": {"step": n} | ({} if n % 10 else {"user:tier": n, "app:limit": n})},
    }


def opened(place: str, *, indexed: bool = True) -> str:
    """Makes adkweb's own tables in this process's database, and adopts and indexes a source. Returns its alias."""
    call_command("migrate", verbosity=0)
    (source,) = registry.add(place)
    database.open_source(source, adopting=True)
    gc.collect()
    gc.freeze()  # as `serve` does
    if indexed:
        build.catch_up(source.alias, 3_600.0)
        feed.catch_up(source.alias)
    return source.alias


@cache
def token() -> dict[str, str]:
    """The headers of a program that may do everything, in this process's own database."""
    return {"Authorization": f"Bearer {tokens.create('bench', 'admin', '*', by=as_admin('maria'))[1]}"}


# --- Processes beside -------------------------------------------------------------------------------------------------

parent: Connection  # in a worker: to whoever has it work


class Worker:
    """A process with a data directory of its own, which calls one function after the other."""

    def __init__(self, data: Path) -> None:
        context, before = multiprocessing.get_context("spawn"), os.environ["ADKWEB_DATA_DIR"]
        data.mkdir(mode=0o700, exist_ok=True)
        self.pipe, theirs = context.Pipe()
        self.hear = self.pipe.recv  # waits for what the process says next
        os.environ["ADKWEB_DATA_DIR"] = str(data)
        self._process = context.Process(target=_work, args=[theirs], daemon=True)
        self._process.start()
        os.environ["ADKWEB_DATA_DIR"] = before
        theirs.close()
        self.hear()

    def begin(self, function: Callable[..., Any] | None, *given: Any) -> None:
        """Has a function called. `hear` returns what it tells, and at last what it returns."""
        self.pipe.send((function, given))

    def call(self, function: Callable[..., Any] | None, *given: Any) -> Any:
        """What a function returns there, or what the one that was begun answers."""
        self.begin(function, *given)
        return self.hear()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.join(5)


def _work(pipe: Connection) -> None:
    global parent
    parent = pipe
    tell(None)
    while True:
        function, given = pipe.recv()
        tell(function(*given))


def tell(what: Any) -> None:
    """In a worker, says something to whoever has it work."""
    parent.send(what)


def asked() -> Any:
    """In a worker, what that says next."""
    return parent.recv()


def agent(place: str) -> None:
    """In a worker, appends RATE events a second by google-adk's service. Asked, tells milliseconds and failures since."""

    async def append() -> None:
        service, name = adk(place), {"app_name": APP, "user_id": "agent", "session_id": "agent"}
        session, due, taken, failed = await service.create_session(**name), time.monotonic(), list[float](), 0
        while True:
            if parent.poll():
                asked()
                tell((taken, failed))
                taken, failed = [], 0
            event, began = event_of(len(taken)), time.perf_counter()
            try:
                await service.append_event(session, event)
            except Exception:  # whatever it raises is a failed append
                failed += 1
                session = await service.get_session(**name)
            taken.append((time.perf_counter() - began) * 1000)
            due = max(due + 1 / RATE, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    asyncio.run(append())


def most_memory() -> float:
    """The most MB that this process ever had (Linux; elsewhere what it has now)."""
    status = Path("/proc/self/status")
    most = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(most[1]) / 1024 if most else psutil.Process().memory_info().rss / MB


# --- Servers, and who asks them ---------------------------------------------------------------------------------------


class Served:
    """A server in a process of its own, and a connection to it that stays open."""

    def __init__(self, process: int, port: int, headers: dict[str, str]) -> None:
        self.process, self.headers, self.address = psutil.Process(process), headers, f"http://127.0.0.1:{port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def again(self, headers: dict[str, str] | None = None) -> Served:
        """Another connection, for the same person or program or another."""
        return Served(self.process.pid, self._connection.port, headers or self.headers)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """An answer, which must be one."""
        sent, headers = (
            json.dumps(body) if body else None,
            {"Content-Type": "application/json"} | self.headers | headers,
        )
        try:
            self._connection.request(method, path, sent, headers)
            answer = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError):  # it was idle for too long
            self._connection.close()
            return self.ask(method, path, body, **headers)
        text = answer.read()
        if not self.headers and (cookies := answer.headers.get_all("Set-Cookie")):  # it was the link that signs in
            self.headers = {"Cookie": "; ".join(each.partition(";")[0] for each in cookies)}
        else:
            assert answer.status in (200, 201, 202), (path, answer.status, text[:500])
        return text

    def read(self, path: str, **headers: str) -> bytes:
        """A page, or what a program reads."""
        return self.ask("GET", path, **headers)

    def memory(self) -> float:
        """MB."""
        return float(self.process.memory_info().rss / MB)


@contextmanager
def adkweb(*places: str, data: Path | None = None, headers: dict[str, str] | None = None) -> Iterator[Served]:
    """`adkweb SOURCE …`, asked with these headers or else by whoever opens the link that it prints."""
    changed = {"DJANGO_SETTINGS_MODULE": "adkweb.settings", "ADKWEB_RATE_PERSON": "0"}
    environment = os.environ | changed | ({"ADKWEB_DATA_DIR": str(data)} if data else {})
    command = [sys.executable, "manage.py", "serve", *places, "--port", "0"]
    with Popen(command, cwd=ROOT, env=environment, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout
            link = urlsplit(next(line for line in process.stdout if "http://" in line).split()[-1])
            assert link.port
            served = Served(process.pid, link.port, headers or {})
            if not headers:
                served.read(f"{link.path}?{link.query}")
            yield served
        finally:
            process.terminate()


@contextmanager
def adk_api_server(place: str, folder: Path) -> Iterator[Served]:
    """`adk api_server` on a PostgreSQL, with an agent that nobody asks."""
    agent = folder / "agents" / APP
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(f"from google.adk.agents import Agent\nroot_agent = Agent(name={APP!r})\n")
    uri, port = place.replace("postgresql:", "postgresql+asyncpg:"), free_port()
    command = [str(Path(sys.executable).parent / "adk"), "api_server", f"--session_service_uri={uri}", f"--port={port}"]
    with Popen([*command, str(agent.parent)], stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            deadline, served = time.monotonic() + 60, Served(process.pid, port, {})
            while time.monotonic() < deadline:
                with suppress(OSError, http.client.HTTPException):
                    served.again().read("/health")
                    break
                time.sleep(0.1)
            yield served
        finally:
            process.terminate()


@contextmanager
def chromium_at(served: Served, path: str, script: str) -> Iterator[Page]:
    """Chromium at a session's page, signed in, once it is live. The page begins with a script."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            cookies = (each.split("=", 1) for each in served.headers["Cookie"].split("; "))
            context.add_cookies([{"name": name, "value": value, "url": served.address} for name, value in cookies])
            context.add_init_script(script)
            page = context.new_page()
            page.goto(served.address + path)
            page.wait_for_selector("[data-live][data-state=live]")
            page.wait_for_timeout(1_500)
            yield page
        browser.close()
