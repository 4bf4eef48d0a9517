"""How fast agents and clients are served, beside google-adk in the same run, on the same PostgreSQL server, with fsync.

    python -m benchmarks.agents [--rounds 5] [--seconds 2]

Over HTTP: adkweb, as `adkweb URL` starts it, beside `adk api_server`, each one process, on databases with the same rows
(google-adk's never saw adkweb). Without HTTP: DjangoSessionService beside DatabaseSessionService in one process of
asyncio. The sides take turns; a number is the median of the rounds, and of a rate the median of the rounds' rates.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers import PostgreSQL

ROOT = Path(__file__).resolve().parent.parent
APP, USER, LONG, SHORT = "booking", "ana", "long", "short"
EVENTS, SESSIONS, RECENT, PATCHES = 5_000, 10_000, 20, 50
CLIENTS = 8
TEXT = "I found three flights. The cheapest is TP431 at 412.50 EUR, with one stop in Frankfurt. Shall I book it?"


# --- The same rows in both databases ----------------------------------------------------------------------------------


async def fill(url: str) -> None:
    """Makes the tables and the sessions with google-adk; events and sessions beyond the first are copies of its rows."""
    from google.adk.events import Event, EventActions
    from google.adk.sessions import DatabaseSessionService
    from google.genai import types

    service = DatabaseSessionService(url.replace("postgresql:", "postgresql+asyncpg:"))
    state = {"step": 0, "user:tier": "gold", "app:limit": 10, "__session_metadata__": {"displayName": "A trip"}}
    for name in (LONG, SHORT):
        session = await service.create_session(app_name=APP, user_id=USER, session_id=name, state=state)
        for number in range(20):
            parts = [types.Part(text=TEXT)]
            if number % 4 == 1:
                parts = [types.Part.from_function_call(name="search", args={"from": "LIS", "to": "ICN", "n": number})]
            if number % 4 == 2:
                parts = [types.Part.from_function_response(name="search", response={"flights": [TEXT] * 3})]
            event = Event(
                author="agent",
                invocation_id=f"e-{number // 10}",
                content=types.Content(role="model", parts=parts),
                actions=EventActions(state_delta={"step": number}),
                usage_metadata=types.GenerateContentResponseUsageMetadata(
                    prompt_token_count=900, candidates_token_count=40, total_token_count=940
                ),
            )
            await service.append_event(session, event)
    await service.db_engine.dispose()
    with psycopg.connect(url) as connection:
        connection.execute(
            f"""INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            SELECT app_name, user_id, session_id, id || '-' || n, invocation_id, timestamp + n * interval '1 second',
                jsonb_set(event_data, '{{id}}', to_jsonb(id || '-' || n))
            FROM events, generate_series(1, {EVENTS // 20 - 1}) AS n
            WHERE session_id = '{LONG}'"""
        )
        connection.execute(
            f"""UPDATE sessions SET update_time = (SELECT max(timestamp) FROM events WHERE session_id = '{LONG}')
            WHERE id = '{LONG}'"""
        )
        connection.execute(
            f"""INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
            SELECT app_name, 'omar', 's' || n, state, create_time, update_time + n * interval '1 second'
            FROM sessions, generate_series(1, {SESSIONS}) AS n WHERE id = '{SHORT}'"""
        )
        connection.execute("INSERT INTO user_states SELECT app_name, 'omar', state, update_time FROM user_states")


# --- The two servers --------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(command: list[str], port: int, environment: dict[str, str]) -> Iterator[Client]:
    """A server in a process of its own, once it answers."""
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            client = Client(port)
            for _ in range(300):
                try:
                    client.call("GET", "/health")
                    break
                except OSError:
                    time.sleep(0.1)
            yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


class Client:
    """One connection, kept open."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.token = port, token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """The status and the whole answer."""
        sent = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        try:
            self._connection.request(method, path, sent, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def read(self, path: str) -> Any:
        """An answer that must be one."""
        status, text = self.call("GET", path)
        assert status == 200, (path, status, text[:500])
        return text


@contextmanager
def servers(ours: str, theirs: str, directory: Path) -> Iterator[tuple[Client, Client]]:
    """adkweb on one database, `adk api_server` on the other."""
    agents = directory / "agents" / APP
    agents.mkdir(parents=True)
    (agents / "agent.py").write_text(
        "from google.adk.agents import Agent\nroot_agent = Agent(name='booking', model='none')\n"
    )
    (agents / "__init__.py").write_text("from . import agent\n")
    environment = {"ADKWEB_DATA_DIR": str(directory / "data")}
    scripts = Path(sys.executable).parent

    def run(*words: str) -> str:
        command = [str(scripts / "adkweb"), *words]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("adopt", ours)  # without it, adkweb shows a PostgreSQL database and writes nothing
    token = run("token", "create", "bench", "--right", "admin")
    ports = [free_port(), free_port()]
    ours_command = [str(scripts / "adkweb"), ours, "--port", str(ports[0])]
    uri = theirs.replace("postgresql:", "postgresql+asyncpg:")
    theirs_command = [
        str(scripts / "adk"),
        "api_server",
        f"--session_service_uri={uri}",
        "--port",
        str(ports[1]),
        str(agents.parent),
    ]
    with server(ours_command, ports[0], environment) as us, server(theirs_command, ports[1], {}) as them:
        us.token = token
        yield us, them


# --- Over HTTP --------------------------------------------------------------------------------------------------------

ROUTE = f"/apps/{APP}/users/{USER}/sessions"


def timed(act: Callable[[], Any]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def rate(clients: list[Client], new: Callable[[int], str], send: Callable[[str, int], tuple[str, Any]]) -> float:
    """How many a second so many clients are answered together, each changing a session of its own PATCHES times."""
    paths = [new(number) for number in range(len(clients))]

    def work(client: Client, path: str) -> None:
        for n in range(PATCHES):
            status, text = client.call("PATCH", *send(path, n))
            assert status in (200, 201), (status, text[:500])

    with ThreadPoolExecutor(len(clients)) as threads:
        start = time.perf_counter()
        for _done in threads.map(work, clients, paths):  # raises what a thread raised: a refusal is no answer
            pass
        return len(clients) * PATCHES / (time.perf_counter() - start)


def over_http(us: Client, them: Client, rounds: int) -> None:
    """Prints reads in milliseconds and writes a second."""
    cases = {
        f"GET a session of {EVENTS:,} events, our route": (f"/api{ROUTE}/{LONG}", f"{ROUTE}/{LONG}"),
        f"GET a session of {EVENTS:,} events, ADK's route": (f"{ROUTE}/{LONG}", f"{ROUTE}/{LONG}"),
        f"list a user's {SESSIONS:,} sessions, a page": (
            f"/api/apps/{APP}/users/omar/sessions?limit=50",
            f"/apps/{APP}/users/omar/sessions",
        ),
        f"list a user's {SESSIONS:,} sessions, ADK's route": (
            f"/apps/{APP}/users/omar/sessions",
            f"/apps/{APP}/users/omar/sessions",
        ),
    }
    assert len(json.loads(us.read(f"/api{ROUTE}/{LONG}"))["events"]) == EVENTS
    assert json.loads(us.read(f"{ROUTE}/{LONG}"))["events"] == json.loads(them.read(f"{ROUTE}/{LONG}"))["events"]
    print(f"\nOver HTTP, milliseconds (median of {rounds})\n")
    for what, (ours, theirs) in cases.items():
        us.read(ours), them.read(theirs)
        pairs = [(timed(lambda: us.read(ours)), timed(lambda: them.read(theirs))) for _ in range(rounds)]  # noqa: B023
        show(what, *(statistics.median(side) for side in zip(*pairs, strict=True)), faster=-1)
    print(f"\nOver HTTP, PATCH of state a second: {PATCHES} to each session (median of {rounds})\n")
    for what, ours in (
        ("our route", (f"/api{ROUTE}/", "/state", "set")),
        ("ADK's route", (f"{ROUTE}/", "", "stateDelta")),
    ):
        for count in (1, CLIENTS):
            sides = [(us, *ours), (them, f"{ROUTE}/", "", "stateDelta")]
            pairs = [[patches(count, *side) for side in sides] for _ in range(rounds)]
            show(
                f"{count} client{'s' * (count > 1)}, {what}",
                *(statistics.median(side) for side in zip(*pairs, strict=True)),
                faster=1,
            )


def patches(count: int, side: Client, before: str, after: str, field: str) -> float:
    """How many a second, in new sessions."""
    names = [f"patched-{time.monotonic_ns()}-{number}" for number in range(count)]
    clients = [Client(side.port, side.token) for _ in range(count)]
    for client, name in zip(clients, names, strict=True):
        client.call("POST", f"{ROUTE}/{name}", {})
    return rate(clients, names.__getitem__, lambda name, n: (f"{before}{name}{after}", {field: {"n": n}}))


# --- In the agent's process -------------------------------------------------------------------------------------------


async def in_process(ours: str, theirs: str, rounds: int, seconds: float) -> None:
    """Prints appends a second, and how long it takes to load a long session's newest events."""
    from google.adk.events import Event, EventActions
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai import types

    from sessions_app.adk import DjangoSessionService

    services: list[Any] = [
        DjangoSessionService(ours),
        DatabaseSessionService(theirs.replace("postgresql:", "postgresql+asyncpg:")),
    ]
    round_number = 0

    async def appends(service: Any, writers: int) -> float:
        nonlocal round_number
        round_number += 1
        sessions = [
            await service.create_session(app_name="appends", user_id=f"u{n}", session_id=f"{round_number}-{n}")
            for n in range(writers)
        ]
        done = 0
        end = time.perf_counter() + seconds

        async def write(session: Any) -> None:
            nonlocal done
            while time.perf_counter() < end:
                content = types.Content(role="model", parts=[types.Part(text=TEXT)])
                actions = EventActions(state_delta={"n": done})
                await service.append_event(session, Event(author="agent", content=content, actions=actions))
                done += 1

        start = time.perf_counter()
        await asyncio.gather(*map(write, sessions))
        return done / (time.perf_counter() - start)

    async def load(service: Any, newest: int | None) -> float:
        start = time.perf_counter()
        config = GetSessionConfig(num_recent_events=newest) if newest else None
        found = await service.get_session(app_name=APP, user_id=USER, session_id=LONG, config=config)
        assert len(found.events) == (newest or EVENTS)
        return (time.perf_counter() - start) * 1000

    print(f"\nDjangoSessionService beside DatabaseSessionService, appends a second (median of {rounds})\n")
    for writers in (1, 16):
        pairs = [[await appends(service, writers) for service in services] for _ in range(rounds)]
        show(f"{writers} writer{'s' * (writers > 1)}", *map(statistics.median, zip(*pairs, strict=True)), faster=1)
    print(
        f"\nDjangoSessionService beside DatabaseSessionService, get_session in milliseconds (median of {3 * rounds})\n"
    )
    for newest in (RECENT, None):
        pairs = [[await load(service, newest) for service in services] for _ in range(3 * rounds)]
        what = f"the last {newest} of {EVENTS:,} events" if newest else f"all {EVENTS:,} events"
        show(what, *map(statistics.median, zip(*pairs, strict=True)), faster=-1)
    await services[0].close()
    await services[1].db_engine.dispose()


def show(what: str, ours: float, theirs: float, *, faster: int) -> None:
    """One line; `faster` is 1 where more is better."""
    ratio = ours / theirs if faster > 0 else theirs / ours
    print(f"{what:<52} adkweb {ours:>9,.1f}   google-adk {theirs:>9,.1f}   {ratio:>6.1f}x", flush=True)


def main() -> None:
    """Runs everything, in about two minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="in which the sides take turns (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement of a rate (2)")
    given = parser.parse_args()
    began = time.monotonic()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as database:
        os.environ["ADKWEB_DATA_DIR"] = f"{name}/agent"
        theirs = database.create_database("theirs")
        asyncio.run(fill(theirs))
        ours = database.create_database("ours")
        with psycopg.connect(database.create_database("spare"), autocommit=True) as connection:
            connection.execute("DROP DATABASE ours")
            connection.execute("CREATE DATABASE ours TEMPLATE theirs")
        with servers(ours, theirs, Path(name)) as (us, them):
            over_http(us, them, given.rounds)
        asyncio.run(in_process(ours, theirs, given.rounds, given.seconds))
    print(f"\n{os.cpu_count()} processors, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
