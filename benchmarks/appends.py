"""Appends beside google-adk's services: how many a second, in an agent's process and over HTTP, and how many fail.

Both sides write the same to databases of their own; google-adk's never saw adkweb. A new SQLite file has a write-ahead log
where adkweb makes it, and a rollback journal where google-adk does; an agent's has the journal on both sides. Every append
sets a session's key, and every fifth a `user:` and an `app:` key. “failed” is the share of appends that raised an error:
adkweb's, then google-adk's.
"""

import asyncio
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import harness as bench
from benchmarks.harness import APP, USER, Served, Worker, sized
from sessions_app.adk import DjangoSessionService
from tests.servers import PostgreSQL

SECONDS, ROUNDS = sized(1.2, 0.3), sized(3, 2)
WARM, KEYS = 5, 20  # appends of each writer that are not counted; keys of the user and the app that it sets
PATCHES = sized(50, 5)  # of each client
CASES = [  # writers, and processes that they are in
    ("PostgreSQL", 1, 1),
    ("PostgreSQL", 16, 1),
    ("PostgreSQL", 16, 4),
    ("SQLite, new", 1, 1),
    ("SQLite, new", 16, 1),
    ("SQLite, an agent's", 1, 1),
    ("SQLite, an agent's", 16, 1),
]


def write(ours: bool, place: str, writers: list[int]) -> tuple[int, int]:
    """In a worker, appends in a task for each writer, from when the parent says. Returns how many, and how many failed."""

    async def write_all() -> tuple[int, int]:
        service: Any = DjangoSessionService(place) if ours else bench.adk(place, writers=16)
        sessions = [await service.create_session(app_name=APP, user_id=f"user{writer}") for writer in writers]
        appended = failed = 0

        async def work(writer: int, session: Any) -> None:
            nonlocal appended, failed
            await asyncio.sleep(max(0.0, begin - time.time()))
            number = 0
            while time.time() < begin + SECONDS:
                number += 1
                key = f"{writer}.{number // 5 % KEYS}"
                shared = {} if number % 5 else {f"user:{key}": number, f"app:{key}": number}
                try:
                    await service.append_event(session, bench.event_of(number, {"n": number, **shared}))
                    appended += 1
                except Exception:  # whatever it raises is a failed append, after which a session is loaded anew
                    failed += 1
                    session = await service.get_session(app_name=APP, user_id=session.user_id, session_id=session.id)

        for session in sessions * WARM:
            await service.append_event(session, bench.event_of(0))
        bench.tell("ready")
        begin = bench.asked()
        await asyncio.gather(*map(work, writers, sessions))
        await service.close()
        return appended, failed

    return asyncio.run(write_all())


def measure(workers: list[Worker], ours: bool, place: str, writers: int) -> tuple[float, float]:
    """Appends a second, and the share that failed."""
    for index, worker in enumerate(workers):  # one after the other: google-adk's fail when they start together
        worker.call(write, ours, place, list(range(writers))[index :: len(workers)])
    begin = time.time() + 0.05
    for worker in workers:
        worker.pipe.send(begin)
    appended, failed = map(sum, zip(*(worker.hear() for worker in workers), strict=True))
    return appended / SECONDS, failed / max(1, appended + failed)


def in_process(folder: Path, server: PostgreSQL) -> None:
    """Prints DjangoSessionService beside google-adk's service for the same database."""
    bench.heading(
        "DjangoSessionService: appends a second", "database: writers, processes", "adkweb", "google-adk", "", "failed"
    )

    def place_of(what: str, name: str) -> str:
        if what == "PostgreSQL":
            return server.create_database(name)
        place = folder / f"{name}.db"
        return bench.make(str(place)) if what == "SQLite, an agent's" else str(place)

    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(folder / f"worker{n}")) for n in range(4)]
        for case, (what, writers, processes) in enumerate(CASES):
            found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
            for number in range(ROUNDS):
                for ours, rounds in found.items():
                    place = place_of(what, f"bench_{case}_{number}_{'ours' if ours else 'theirs'}")
                    rounds.append(measure(workers[:processes], ours, place, writers))
            (us, us_failed), (them, them_failed) = (map(list, zip(*rounds, strict=True)) for rounds in found.values())
            failed = f"{statistics.mean(us_failed):.1%}, {statistics.mean(them_failed):.1%}"
            bench.versus(f"{what}: {writers}, {processes}", us, them, failed, rate=True)


def over_http(folder: Path, server: PostgreSQL) -> None:
    """Prints adkweb beside `adk api_server`, one process each, on databases with the same rows."""
    bench.make(theirs := server.create_database("theirs"))
    bench.opened(ours := server.create_database("ours", template="theirs"))
    bench.heading("PATCH of a session's state over HTTP: answers a second", "", "adkweb", "google-adk", "")
    with bench.adkweb(ours, headers=bench.token()) as us, bench.adk_api_server(theirs, folder) as them:
        for route, way in {"adkweb's": ("/api", "/state", "set"), "ADK's": ("", "", "stateDelta")}.items():
            for clients in (1, 8):
                sides = ((us, *way), (them, "", "", "stateDelta"))
                pairs = [[patches(clients, *side) for side in sides] for _ in range(ROUNDS)]
                bench.versus(f"{route} route, {clients} at once", *map(list, zip(*pairs, strict=True)), rate=True)


def patches(count: int, served: Served, before: str, after: str, name: str) -> float:
    """How many a second so many clients are answered together, each changing a new session again and again."""
    paths = [f"/apps/{APP}/users/{USER}/sessions/new-{time.monotonic_ns()}-{n}" for n in range(count)]
    clients = [served.again() for _ in paths]
    for client, path in zip(clients, paths, strict=True):
        client.ask("POST", path, {})

    def work(client: Served, path: str) -> None:
        for n in range(PATCHES):
            client.ask("PATCH", before + path + after, {name: {"n": n}})

    with ThreadPoolExecutor(count) as threads:
        began = time.perf_counter()
        list(threads.map(work, clients, paths))  # raises what a thread raised
        return float(count * PATCHES / (time.perf_counter() - began))


if __name__ == "__main__":
    with bench.benchmark("Appends") as (folder, server):
        in_process(folder, server)
        over_http(folder, server)
