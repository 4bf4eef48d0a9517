"""What it costs an agent when adkweb opens its database for the first time: a large one, while the agent writes to it.

    python -m benchmarks.opening [--events 1000000] [--alone 100]

The tables are google-adk's own, and so is the agent: a process that appends 20 events a second by google-adk's service. It
writes by itself, about as long as adopting takes, and then while another process opens the database, reads all of it and
indexes it for searching, and at the end by itself again. Appends are told beside those without adkweb; the time of each
step and the most memory that its process grew by are told, too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from benchmarks.appends import TEXT, prepare
from tests.servers import PostgreSQL

EVENTS, PER_SESSION = 1_000_000, 10
ACTIVE = 1_000  # sessions that are written to in turns
RATE = 20  # appends a second

_NUMBERS = """(SELECT n, n / {span} * {active} + n % {active} AS s FROM {numbers}) AS numbered ORDER BY n"""
_FILL = {
    "postgresql": """
        INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
        SELECT 'app', 'u' || (s / 2), 's' || s, '{{}}', TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-01'
        FROM generate_series(0, {sessions} - 1) AS s;
        INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT 'app', 'u' || (s / 2), 's' || s, 'e' || n, 'i' || n, TIMESTAMP '2026-01-01' + n * interval '1 second',
        jsonb_build_object('id', 'e' || n, 'author', 'agent', 'invocation_id', 'i' || n, 'timestamp', 1767225600 + n,
            'content', jsonb_build_object('role', 'model', 'parts', '[{{"text": "{text}"}}]'::jsonb),
            'usage_metadata', '{{"prompt_token_count": 900, "total_token_count": 940}}'::jsonb,
            'actions', jsonb_build_object('state_delta', jsonb_strip_nulls(jsonb_build_object(
                'step', n, 'user:tier', CASE WHEN n % 10 = 0 THEN n END, 'app:limit', CASE WHEN n % 10 = 0 THEN n END))))
        FROM {numbered};
        ANALYZE""",
    "sqlite": """
        WITH RECURSIVE numbers (s) AS (SELECT 0 UNION ALL SELECT s + 1 FROM numbers WHERE s < {sessions} - 1)
        INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
        SELECT 'app', 'u' || (s / 2), 's' || s, '{{}}', 1767225600.0, 1767225600.0 FROM numbers;
        WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {events} - 1)
        INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT 'app', 'u' || (s / 2), 's' || s, 'e' || n, 'i' || n, 1767225600.0 + n,
        json_object('id', 'e' || n, 'author', 'agent', 'invocation_id', 'i' || n, 'timestamp', 1767225600 + n,
            'content', json('{{"role": "model", "parts": [{{"text": "{text}"}}]}}'),
            'usage_metadata', json('{{"prompt_token_count": 900, "total_token_count": 940}}'),
            'actions', json_object('state_delta', json_patch('{{}}', json_object(
                'step', n, 'user:tier', CASE WHEN n % 10 = 0 THEN n END, 'app:limit', CASE WHEN n % 10 = 0 THEN n END))))
        FROM {numbered}""",
}


def fill(place: str, events: int) -> None:
    """Makes sessions and events in google-adk's own tables, by the database itself."""
    import sqlite3

    import psycopg

    vendor = "postgresql" if "://" in place else "sqlite"
    numbers = f"generate_series(0, {events} - 1) AS n" if vendor == "postgresql" else "numbers"
    words = {
        "sessions": events // PER_SESSION,
        "events": events,
        "text": TEXT,
        "numbered": _NUMBERS.format(span=ACTIVE * PER_SESSION, active=ACTIVE, numbers=numbers),
    }
    db: Any = psycopg.connect(place) if vendor == "postgresql" else sqlite3.connect(place)
    for statement in _FILL[vendor].format(**words).split(";\n"):
        db.execute(statement)
    db.commit()
    db.close()


# --- The agent --------------------------------------------------------------------------------------------------------


def service_of(place: str) -> Any:
    """google-adk's own service."""
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    if "://" in place:
        return DatabaseSessionService(place.replace("postgresql:", "postgresql+asyncpg:"))
    return SqliteSessionService(place)


async def make(place: str) -> None:
    """The tables, and the agent's session."""
    service = service_of(place)
    await service.create_session(app_name="app", user_id="agent", session_id="agent")
    if hasattr(service, "close"):
        await service.close()


def agent(place: str, pipe: Connection) -> None:
    """A process that appends until it is told to stop; asked, it tells the appends since: seconds, and how many failed."""
    prepare()
    asyncio.run(_agent(place, pipe))


async def _agent(place: str, pipe: Connection) -> None:
    from google.adk.events import Event, EventActions
    from google.genai import types

    service, name = service_of(place), {"app_name": "app", "user_id": "agent", "session_id": "agent"}
    session, number, due = await service.get_session(**name), 0, time.monotonic()
    taken: list[float] = []
    failed = 0
    while True:
        if pipe.poll():
            if pipe.recv() == "stop":
                return
            pipe.send((taken, failed))
            taken, failed = [], 0
        event = Event(
            author="agent",
            invocation_id=f"a{number // 10}",
            content=types.Content(role="model", parts=[types.Part(text=TEXT)]),
            actions=EventActions(state_delta={"n": number}),
        )
        number += 1
        began = time.monotonic()
        try:
            await service.append_event(session, event)
        except Exception:  # whatever it raises is a failed append
            failed += 1
            session = await service.get_session(**name)
        taken.append(time.monotonic() - began)
        due = max(due + 1 / RATE, time.monotonic() - 1)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


@dataclass
class Appends:
    """What an agent noticed."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def __str__(self) -> str:
        if not self.seconds:
            return "no appends"
        ordered = sorted(self.seconds)
        median, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
        return (
            f"{len(ordered):>5,} appends: median {median * 1000:6.1f} ms, p99 {late * 1000:6.1f} ms, "
            f"worst {ordered[-1] * 1000:6.1f} ms, {self.failed} failed"
        )


# --- adkweb -----------------------------------------------------------------------------------------------------------


def most_memory() -> float:
    """The most that this process ever had, in MB (Linux; elsewhere what it has now)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return psutil.Process().memory_info().rss / 2**20


def opening(place: str, pipe: Connection) -> None:
    """A process that opens a source for the first time; sends what it has done, with seconds, CPU and memory so far."""
    prepare()
    from django.core.management import call_command

    from sessions_app.history.index import build
    from sessions_app.search.index.feed import Feeder, share
    from sessions_app.sources import database, registry

    call_command("migrate", verbosity=0)
    (source,) = registry.add(place)
    gc.collect()
    gc.freeze()  # as `serve` does
    began, before, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF), most_memory()

    def tell(what: str) -> None:
        now = resource.getrusage(resource.RUSAGE_SELF)
        cpu = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        pipe.send((what, time.monotonic() - began, cpu, most_memory() - memory))

    database.open_source(source)
    tell("opened")
    database.open_source(source, adopting=True)
    tell("adopted")
    build.catch_up(source.alias, 3_600.0)
    tell("read")
    feeder = Feeder(source.alias)
    while feeder.feed() or share(source.alias) < 1:
        pass
    tell("searchable")
    pipe.send(None)


def measure(place: str, alone: float) -> None:
    """Prints what one store's agent notices, by itself and while it is opened."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    writer = context.Process(target=agent, args=(place, there), daemon=True)
    writer.start()

    def appends() -> Appends:
        here.send("tell")
        return Appends(*here.recv())

    time.sleep(5)  # for it to start
    appends()
    time.sleep(alone)
    print(f"  {'without adkweb':<42} {appends()}", flush=True)
    mine, theirs = context.Pipe()
    opener = context.Process(target=opening, args=(place, theirs), daemon=True)
    opener.start()
    while (done := mine.recv()) is not None:
        what, seconds, cpu, memory = done
        print(f"  {what:<10} after {seconds:6.1f} s, CPU {cpu:5.1f} s, {memory:4.0f} MB   {appends()}", flush=True)
    opener.join()
    appends()
    time.sleep(alone)
    print(f"  {'adopted, without adkweb':<42} {appends()}", flush=True)  # what its triggers and indexes take
    here.send("stop")
    writer.join()


def main() -> None:
    """Both databases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"of the source ({EVENTS})")
    parser.add_argument("--alone", type=float, default=100, help="seconds that the agent writes by itself (100)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        places = {"SQLite": str(Path(name) / "agent.db"), "PostgreSQL": server.create_database("agent")}
        for what, place in places.items():
            os.environ["ADKWEB_DATA_DIR"] = f"{name}/{what}"
            Path(name, what).mkdir()
            print(f"\n{what}, {given.events:,} events of {given.events // PER_SESSION:,} sessions\n", flush=True)
            asyncio.run(make(place))
            fill(place, given.events)
            measure(place, given.alone)
    print(f"\n{os.cpu_count()} processors")


if __name__ == "__main__":
    main()
