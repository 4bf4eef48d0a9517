"""How fast pages open and sessions are read, whatever they hold; what a server takes in memory; and google-adk beside it.

Pages are those of one server for each database, with a hundred sessions of 100 events and one of 100,000. Then adkweb stands
beside `adk api_server`, and DjangoSessionService beside DatabaseSessionService, on PostgreSQL with the same rows.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from google.adk.sessions.base_session_service import GetSessionConfig

from benchmarks import harness as bench
from benchmarks.harness import APP, LONG, USER, sized
from sessions_app.adk import DjangoSessionService

LARGE, EVENTS, SESSIONS, NEWEST, ROUNDS = sized(100_000, 200), sized(5_000, 50), sized(10_000, 100), 20, sized(15, 3)
PAGES = {
    "home": "/",
    "sessions": "/sessions/",
    "a session of 100 events": f"/s/SOURCE/{APP}/u0/s0/",
    f"a session of {LARGE:,} events": f"/s/SOURCE/{APP}/{USER}/{LONG}/",
    "its events, a page more": f"/s/SOURCE/{APP}/{USER}/{LONG}/events/",
}
OF_LONG, OF_MANY = f"/apps/{APP}/users/{USER}/sessions/{LONG}", f"/apps/{APP}/users/u0/sessions"
READS = {  # adkweb's route and google-adk's
    f"GET a session of {EVENTS:,} events, adkweb's route": (f"/api{OF_LONG}", OF_LONG),
    f"GET a session of {EVENTS:,} events, ADK's route": (OF_LONG, OF_LONG),
    f"list a user's {SESSIONS:,} sessions, a page": (f"/api{OF_MANY}?limit=50", OF_MANY),
    f"list a user's {SESSIONS:,} sessions, ADK's route": (OF_MANY, OF_MANY),
}


def pages(sqlite: str, postgresql: str) -> None:
    """Prints how long pages take, and the memory of their server."""
    aliases = [bench.opened(bench.fill(place, 100, each=100, long=LARGE)) for place in (sqlite, postgresql)]
    bench.heading("Pages over HTTP, milliseconds", "", "SQLite", "PostgreSQL")
    with bench.adkweb(sqlite) as first, bench.adkweb(postgresql) as second:
        bench.row("MB of the server at rest", first.memory(), second.memory())
        for what, path in PAGES.items():
            ours, theirs = (path.replace("SOURCE", alias) for alias in aliases)
            bench.row(what, *bench.taking_turns(ROUNDS, lambda: first.read(ours), lambda: second.read(theirs)))  # noqa: B023
        bench.row("MB of the server after that", first.memory(), second.memory())


def over_http(ours: str, theirs: str, folder: Path) -> None:
    """Prints reads beside `adk api_server`."""
    with bench.adkweb(ours, headers=bench.token()) as us, bench.adk_api_server(theirs, folder) as them:
        assert json.loads(us.read(OF_LONG))["events"] == json.loads(them.read(OF_LONG))["events"]
        for what, (mine, other) in READS.items():
            bench.versus(what, *bench.taking_turns(ROUNDS, lambda: us.read(mine), lambda: them.read(other)))  # noqa: B023


def in_process(ours: str, theirs: str) -> None:
    """Prints how long an agent waits for a long session."""
    with asyncio.Runner() as runner:
        services: list[Any] = [DjangoSessionService(ours), bench.adk(theirs)]

        def load(service: Any, newest: int) -> None:
            config = GetSessionConfig(num_recent_events=newest) if newest < EVENTS else None
            read = service.get_session(app_name=APP, user_id=USER, session_id=LONG, config=config)
            assert len(runner.run(read).events) == newest

        for newest in (NEWEST, EVENTS):
            sides = bench.taking_turns(ROUNDS, *(lambda s=s: load(s, newest) for s in services))  # noqa: B023
            bench.versus(f"get_session, the newest {newest:,} events of {EVENTS:,}", *sides)
        for service in services:
            runner.run(service.close())


if __name__ == "__main__":
    with bench.benchmark("Pages, and reading sessions") as (folder, server):
        pages(*bench.both(folder, server).values())
        theirs = bench.fill(server.create_database("theirs"), SESSIONS, each=0, long=EVENTS, of_a_user=SESSIONS)
        bench.opened(ours := server.create_database("ours", template="theirs"))
        bench.heading("Reading on PostgreSQL, milliseconds", "", "adkweb", "google-adk", "")
        over_http(ours, theirs, folder)
        in_process(ours, theirs)
