"""How fast adkweb appends beside google-adk's own services, what it costs to run, and how fast a long session opens.

    python -m benchmarks.appends [--seconds 1.2] [--rounds 3]

Both sides write the same events to databases of their own (google-adk's never saw adkweb), in turns, in the same run; a
number is the median of the rounds. A new SQLite file has a write-ahead log where adkweb makes it, and a rollback journal
where google-adk does; an agent's has the journal on both sides. PostgreSQL runs with fsync, as in production. Every append
sets a session key, every fifth a `user:` and an `app:` key as well. "failed" is the share of appends that raised an error,
"wrong" the share of `app:` keys that in the end do not have the value of the last append that succeeded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.servers import PostgreSQL

ROOT = Path(__file__).resolve().parent.parent
WRITERS, PROCESSES = 16, 4
KEYS = 20  # `app:` keys of each writer
WARM = 5  # appends that are not counted
TEXT = "I found three flights. The cheapest is TP431 at 412.50 EUR, with one stop in Frankfurt. Shall I book it?"
LARGE = 100_000


@dataclass
class Task:
    """What one process does for one measurement; `app` is its own in each, `place` a file or URL."""

    side: str  # adkweb or google-adk
    form: str  # as tests/conftest.py names them; -journal: adkweb's file is one that an agent made, without a log
    place: str
    app: str
    writers: list[int]
    seconds: float


@dataclass
class Outcome:
    """What one writer did, and what its `app:` keys must be now."""

    appended: int = 0
    failed: int = 0
    expected: dict[str, int] = field(default_factory=dict)

    def succeeded(self, delta: dict[str, Any]) -> None:
        """Counts an append that was acknowledged."""
        self.appended += 1
        self.expected |= {key.removeprefix("app:"): n for key, n in delta.items() if key.startswith("app:")}


def delta_of(writer: int, number: int) -> dict[str, Any]:
    """The state delta of a writer's n-th append."""
    delta = {"n": number}
    if number % 5 == 0:
        place = number // 5 % KEYS
        delta |= {f"user:{place}": number, f"app:{writer}.{place}": number}
    return delta


# --- The two sides ----------------------------------------------------------------------------------------------------


def adkweb(task: Task, ready: Callable[[], float]) -> list[Outcome]:
    """Threads, each with a session of its own."""
    from django.db import connections

    from sessions_app.access.actor import Actor
    from sessions_app.domain.errors import Error
    from sessions_app.sources import adoption, database, registry
    from sessions_app.writes.append import append_event
    from sessions_app.writes.sessions import create_session

    (source,) = registry.add(task.place)
    if task.form.startswith("sqlite-database"):
        adoption.create(source.alias, "database")
    database.open_source(source)
    if task.form.endswith("-journal"):
        with connections[source.alias].cursor() as cursor:
            cursor.execute("PRAGMA journal_mode = DELETE")
    actor = Actor.holding("benchmark", "admin")
    outcomes = [Outcome() for _ in task.writers]
    gate = threading.Barrier(len(task.writers) + 1)
    start = [0.0]

    def write(writer: int, outcome: Outcome) -> None:
        ref = create_session(source.alias, task.app, f"user{writer}", actor=actor, session_id="s")

        def append(number: int) -> None:
            delta = delta_of(writer, number)
            event = {
                "author": "agent",
                "invocation_id": f"e-{number // 10}",
                "content": {"role": "model", "parts": [{"text": TEXT}]},
                "actions": {"state_delta": delta},
            }
            try:
                append_event(ref, event, actor=actor)
            except Error:
                outcome.failed += 1
            else:
                outcome.succeeded(delta)

        for number in range(WARM):
            append(number)
        outcome.appended = outcome.failed = 0
        gate.wait()
        gate.wait()
        time.sleep(max(0.0, start[0] - time.time()))
        number = WARM
        while time.time() < start[0] + task.seconds:
            append(number)
            number += 1
        connections[source.alias].close()

    threads = [threading.Thread(target=write, args=pair) for pair in zip(task.writers, outcomes, strict=True)]
    for thread in threads:
        thread.start()
    gate.wait()
    start[0] = ready()
    gate.wait()
    for thread in threads:
        thread.join()
    return outcomes


def google_adk(task: Task, ready: Callable[[], float]) -> list[Outcome]:
    """Asyncio tasks, each with a session of its own; after an error a session is loaded anew."""
    return asyncio.run(_google_adk(task, ready))


async def _google_adk(task: Task, ready: Callable[[], float]) -> list[Outcome]:
    from google.adk.events import Event, EventActions
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.genai import types

    service: Any
    if task.form in ("sqlite", "sqlite-journal"):
        service = SqliteSessionService(task.place)
    elif task.form == "postgresql":
        url = task.place.replace("postgresql://", "postgresql+asyncpg://")
        service = DatabaseSessionService(url, pool_size=WRITERS)  # one connection for each, as adkweb has
    else:
        service = DatabaseSessionService(f"sqlite+aiosqlite:///{task.place}")
    outcomes = [Outcome() for _ in task.writers]
    names = [{"app_name": task.app, "user_id": f"user{writer}", "session_id": "s"} for writer in task.writers]
    sessions = [await service.create_session(**name) for name in names]

    async def append(index: int, number: int) -> None:
        delta = delta_of(task.writers[index], number)
        event = Event(
            author="agent",
            invocation_id=f"e-{number // 10}",
            content=types.Content(role="model", parts=[types.Part(text=TEXT)]),
            actions=EventActions(state_delta=delta),
        )
        try:
            await service.append_event(sessions[index], event)
        except Exception:  # whatever it raises is a failed append
            outcomes[index].failed += 1
            sessions[index] = await service.get_session(**names[index])
        else:
            outcomes[index].succeeded(delta)

    for number in range(WARM):
        await asyncio.gather(*(append(index, number) for index in range(len(sessions))))
    for outcome in outcomes:
        outcome.appended = outcome.failed = 0
    start = ready()
    await asyncio.sleep(max(0.0, start - time.time()))

    async def write(index: int) -> None:
        number = WARM
        while time.time() < start + task.seconds:
            await append(index, number)
            number += 1

    await asyncio.gather(*map(write, range(len(sessions))))
    await service.close()
    return outcomes


SIDES = {"adkweb": adkweb, "google-adk": google_adk}


def serve(pipe: Connection) -> None:
    """A process that measures whatever it is told to."""
    prepare()
    import google.adk.sessions  # noqa: F401 - not while others are measured

    while (task := pipe.recv()) is not None:

        def ready() -> float:
            pipe.send("ready")
            return float(pipe.recv())

        pipe.send(SIDES[task.side](task, ready))


def prepare() -> None:
    """Loads Django with a data directory that is thrown away, and silences what google-adk says about itself."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    logging.disable(logging.CRITICAL)


# --- Measuring --------------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """One round of one side."""

    rate: float
    failed: float
    wrong: float


class Bench:
    """Processes that stay for the whole run, and the databases that they write to."""

    def __init__(self, directory: Path, server: PostgreSQL, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._directory, self._server, self._seconds = directory, server, seconds
        self._pipes: list[Connection] = []
        self._processes = []
        self._count = 0
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=[theirs], daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def measure(self, side: str, form: str, writers: int, processes: int) -> Measured:
        """One round, on a database of its own."""
        self._count += 1
        name = f"bench{self._count}"
        place = self._server.create_database(name) if form == "postgresql" else str(self._directory / f"{name}.db")
        if form != "postgresql":
            Path(place).touch()
        everybody = list(range(writers))
        pipes = self._pipes[:processes]
        for index, pipe in enumerate(
            pipes
        ):  # one after the other: google-adk's processes fail when they start together
            pipe.send(Task(side, form, place, "app", everybody[index::processes], self._seconds))
            _answer(pipe)
        start = time.time() + 0.05
        for pipe in pipes:
            pipe.send(start)
        outcomes = [outcome for pipe in pipes for outcome in _answer(pipe)]
        appended = sum(outcome.appended for outcome in outcomes)
        failed = sum(outcome.failed for outcome in outcomes)
        stored = _app_state(place)
        expected = {key: n for outcome in outcomes for key, n in outcome.expected.items()}
        wrong = sum(stored.get(key) != n for key, n in expected.items())
        return Measured(appended / self._seconds, failed / max(1, appended + failed), wrong / max(1, len(expected)))

    def close(self) -> None:
        """Ends the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            with suppress(BrokenPipeError):  # it has ended already, by an error
                pipe.send(None)
            process.join(5)


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(120):
        raise SystemExit("a measuring process does not answer")
    return pipe.recv()


def _app_state(place: str) -> dict[str, Any]:
    statement = "SELECT state FROM app_states WHERE app_name = 'app'"
    if "://" in place:
        with psycopg.connect(place) as connection:
            row = connection.execute(statement).fetchone()
    else:
        with closing(sqlite3.connect(place)) as file:
            row = file.execute(statement).fetchone()
    found: dict[str, Any] = json.loads(row[0]) if row and isinstance(row[0], str) else (row or [{}])[0]
    return found


CASES = [
    # what, form, google-adk's service, writers, processes
    ("PostgreSQL, fsync on", "postgresql", "DatabaseSessionService", 1, 1),
    ("PostgreSQL, fsync on", "postgresql", "DatabaseSessionService", WRITERS, 1),
    ("PostgreSQL, fsync on", "postgresql", "DatabaseSessionService", WRITERS, PROCESSES),
    ("SQLite, new", "sqlite-database", "DatabaseSessionService", 1, 1),
    ("SQLite, new", "sqlite-database", "DatabaseSessionService", WRITERS, 1),
    ("SQLite, new", "sqlite", "SqliteSessionService", 1, 1),
    ("SQLite, new", "sqlite", "SqliteSessionService", WRITERS, 1),
    ("SQLite, an agent's", "sqlite-journal", "SqliteSessionService", 1, 1),
    ("SQLite, an agent's", "sqlite-journal", "SqliteSessionService", WRITERS, 1),
]


def appends(bench: Bench, rounds: int) -> None:
    """Prints the table of appends."""
    found: dict[tuple[int, str], list[Measured]] = {}
    for _ in range(rounds):
        for number, (_what, form, _service, writers, processes) in enumerate(CASES):
            for side in SIDES:
                found.setdefault((number, side), []).append(bench.measure(side, form, writers, processes))
    print("Appends per second\n")
    row = "{:<21} {:<23} {:>7} {:>9} {:>8} {:>11} {:>6}   {:<15} {:<15}"
    print(
        row.format(
            "database",
            "google-adk's service",
            "writers",
            "processes",
            "adkweb",
            "google-adk",
            "ratio",
            "adkweb",
            "google-adk",
        )
    )
    print(row.format("", "", "", "", "", "", "", "failed  wrong", "failed  wrong"))
    for number, (what, _form, service, writers, processes) in enumerate(CASES):
        ours, theirs = found[number, "adkweb"], found[number, "google-adk"]
        rates = [statistics.median(measured.rate for measured in side) for side in (ours, theirs)]
        print(
            row.format(
                what,
                service,
                writers,
                processes,
                f"{rates[0]:,.0f}",
                f"{rates[1]:,.0f}",
                f"{rates[0] / max(rates[1], 0.1):.1f}x",
                *(
                    f"{statistics.mean(m.failed for m in side):>6.1%} {statistics.mean(m.wrong for m in side):>6.1%}"
                    for side in (ours, theirs)
                ),
            ),
            flush=True,
        )


# --- Running the dashboard --------------------------------------------------------------------------------------------


@contextmanager
def dashboard(*places: str, data: str = "") -> Iterator[tuple[psutil.Process, str, urllib.request.OpenerDirector]]:
    """`adkweb SOURCE …` in a process of its own (`data`: its files), its address, and a browser that is signed in."""
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as own:
        environment = os.environ | {"ADKWEB_DATA_DIR": data or own, "DJANGO_SETTINGS_MODULE": "adkweb.settings"}
        command = [sys.executable, "manage.py", "serve", *places, "--port", "0"]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                link = next(line for line in process.stdout if "http://" in line).split()[-1]
                browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
                browser.open(link, timeout=30).read()
                yield psutil.Process(process.pid), link.partition("/sign-in")[0], browser
            finally:
                process.terminate()


def running(directory: Path, server: PostgreSQL) -> None:
    """Prints the memory of a server at rest, and how long it takes to open sessions."""
    from django.urls import reverse

    from sessions_app.access.actor import Actor
    from sessions_app.sources import database, registry
    from sessions_app.writes.sessions import create_session
    from tests.support.bulk import fill

    file = directory / "sessions.db"
    file.touch()
    places = {"SQLite": str(file), "PostgreSQL": server.create_database("sessions")}
    pages = []
    for what, place in places.items():
        (source,) = registry.add(place)
        for count in (100, LARGE):
            ref = create_session(source.alias, "app", "ana", actor=Actor.holding("b", "admin"), session_id=f"s{count}")
            fill(ref, count)
            names = {"source": ref.source, "app_name": "app", "user_id": "ana", "session_id": ref.session_id}
            pages.append((what, count, reverse("session", kwargs=names)))
        database.forget(source.alias)
    with dashboard(*places.values()) as (process, address, browser):
        time.sleep(1)
        print(f"\nMemory of the server at rest, both databases open: {process.memory_info().rss / 2**20:.0f} MiB")
        print("\nOpening a session's page, its newest 100 events, over HTTP (median of 15)\n")
        for what, count, path in pages:
            times = []
            for _ in range(16):
                start = time.perf_counter()
                browser.open(address + path, timeout=30).read()
                times.append(time.perf_counter() - start)
            print(f"{what:<11} {count:>9,} events {statistics.median(times[1:]) * 1000:>7.0f} ms")
        print(f"\nMemory after that: {process.memory_info().rss / 2**20:.0f} MiB")


def main() -> None:
    """Runs everything, in less than three minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.2, help="of one measurement (1.2)")
    parser.add_argument("--rounds", type=int, default=3, help="in which the sides take turns (3)")
    given = parser.parse_args()
    began = time.monotonic()
    prepare()
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        bench = Bench(Path(name), server, given.seconds)
        try:
            appends(bench, given.rounds)
        finally:
            bench.close()
        running(Path(name), server)
    print(f"\n{os.cpu_count()} processors, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
