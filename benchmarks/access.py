"""Measures what roles and rules cost: pages, answers to programs and appends, with many of them and with none.

    python -m benchmarks.access [--rounds 60]

Two adkwebs, each one process, on databases with the same rows: in one, whoever asks has 50 roles, and there are 100 rules of
masking and 20 of approval; in the other, they have one role, and there are no rules. The sides take turns, request by
request. “noise” is what the side without rules differs from itself, its odd requests from its even ones. Queries are counted
apart: those of a request that finds nothing remembered, and of one right after it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.agents import APP, LONG, SHORT, USER, Client, fill, free_port, server
from benchmarks.appends import TEXT, prepare
from tests.servers import PostgreSQL
from tests.support.people import as_admin

ROLES, MASKS, APPROVALS, SOURCES = 50, 100, 20, 20
MOST_SLOWER, MOST_READY = 1.10, 0.05
SESSION = f"{APP}/{USER}/{LONG}"
PAGES = {
    "home": "/",
    "sessions": "/sessions/",
    "sessions with a word": "/sessions/?q=flights",
    "app": f"/a/SOURCE/{APP}/",
    "sessions of the app": f"/a/SOURCE/{APP}/sessions/",
    "user": f"/u/SOURCE/{APP}/{USER}/",
    "session of 5,000 events": f"/s/SOURCE/{SESSION}/",
    "the same as a chat": f"/s/SOURCE/{SESSION}/?density=chat",
    "its events, a page more": f"/s/SOURCE/{SESSION}/events/",
    "form of its state": f"/s/SOURCE/{SESSION}/edit/",
    "edits": "/edits/",
    "proposals": "/proposals/",
}
_API = f"/api/apps/{APP}/users/{USER}/sessions"
ANSWERS = {
    "sessions": f"{_API}?limit=50",
    "a session of 20 events": f"{_API}/{SHORT}",
    "a session of 5,000 events, the newest 100": f"{_API}/{LONG}?newest=100",
    "all of them": f"{_API}/{LONG}",
    "its state": f"{_API}/{LONG}/state",
    "its events, 100": f"{_API}/{LONG}/events?limit=100",
    "search": "/api/sessions?q=flights",
    "export of a session of 20 events": f"/api/export?{urlencode({'app': APP, 'user': USER, 'session': SHORT})}",
}


@dataclass(frozen=True)
class Side:
    """One adkweb: who may ask there, and how many queries each address took."""

    source: str
    token: str
    cookie: str
    queries: dict[str, tuple[int, int]]


# --- Setting a side up, in a process of its own -----------------------------------------------------------------------


def set_up(data: str, place: str, ruled: bool, pipe: Connection) -> None:
    """Adopts and indexes a source, makes people and rules, and counts queries."""
    os.environ["ADKWEB_DATA_DIR"] = data
    prepare()
    from django.core.management import call_command
    from django.db import connections

    from sessions_app.access import tokens
    from sessions_app.search.index import feed
    from sessions_app.sources import database, registry

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    connections.databases["default"]["NAME"] = f"{data}/adkweb.db"
    call_command("migrate", verbosity=0)
    (source,) = registry.add(place)
    database.open_source(source, adopting=True)
    cookie = _person(ruled)
    if ruled:
        _rules()
    feed.catch_up(source.alias)
    token = tokens.create("bench", "admin", "*", by=as_admin("maria"))[1]
    addresses = [*PAGES.values(), *ANSWERS.values()]
    queries = {each: _queries(each.replace("SOURCE", source.alias), source.alias, token, cookie) for each in addresses}
    pipe.send(Side(source.alias, token, cookie, queries))
    connections.close_all()


def _person(ruled: bool) -> str:
    """Signs in somebody with many roles, or one. Returns the cookie."""
    from django.conf import settings

    from sessions_app.models import Role
    from tests.live.pages import signed_in

    key = signed_in("maria")
    if ruled:
        row = Role.objects.get()
        row.apps = "book*"
        row.save()
        for number in range(ROLES - 1):
            Role.objects.create(person=row.person, role="viewer", apps=f"team-{number}*", given_by="bench")
    return f"{settings.SESSION_COOKIE_NAME}={key}"


def _rules() -> None:
    from sessions_app.access import approval
    from sessions_app.access.actor import TERMINAL
    from sessions_app.checks import mask_rules
    from sessions_app.domain.mask_patterns import FORMS
    from sessions_app.domain.masks import FORM, KEY, PATH, TOOL

    made = [("*", FORM, form) for form in FORMS]
    made += [("book*", PATH, f"profile.card{number}.number") for number in range(20)]
    made += [("*", TOOL, f"charge_{number}: card.number") for number in range(15)]
    made += [("*" if number % 2 else "book*", KEY, f"*secret-{number}*") for number in range(MASKS - len(made))]
    for each in made:
        mask_rules.create(*each, actor=TERMINAL)
    for number in range(APPROVALS):
        approval.make(by=TERMINAL, keys=f"limit-{number}-*", apps="book*")


def _queries(address: str, alias: str, token: str, cookie: str) -> tuple[int, int]:
    """Returns how many queries a request takes that finds nothing remembered, and one right after it."""
    from django.db import connections
    from django.test import Client as Tester
    from django.test.utils import CaptureQueriesContext

    from sessions_app.access import approval, masking, roles, tokens

    client, counts = Tester(SERVER_NAME="localhost"), []
    name, _, value = cookie.partition("=")
    client.cookies[name] = value
    headers = {"Authorization": f"Bearer {token}"} if address.startswith("/api/") else {}
    client.get(address, headers=headers)
    for known in (roles.known, tokens.known, approval.known):
        known.clear()
    masking.forget()
    for _time in range(2):
        with CaptureQueriesContext(connections["default"]) as own, CaptureQueriesContext(connections[alias]) as theirs:
            answer = client.get(address, headers=headers)
            b"".join(answer) if answer.streaming else answer.content  # type: ignore[arg-type]
        assert answer.status_code == 200, (address, answer.status_code)
        counts.append(len(own) + len(theirs))
    return counts[0], counts[1]


# --- Measuring --------------------------------------------------------------------------------------------------------


class Asker(Client):
    """Asks one of the two, as a person or as a program."""

    def __init__(self, port: int, side: Side) -> None:
        super().__init__(port, side.token)
        self.side = side

    def took(self, address: str) -> float:
        """Returns milliseconds until an answer is there, which must be one."""
        headers = (
            {"Authorization": f"Bearer {self.token}"} if address.startswith("/api/") else {"Cookie": self.side.cookie}
        )
        began = time.perf_counter()
        self._connection.request("GET", address.replace("SOURCE", self.side.source), headers=headers)
        answer = self._connection.getresponse()
        text = answer.read()
        took = (time.perf_counter() - began) * 1000
        assert answer.status == 200, (address, answer.status, text[:500])
        return took

    def appended(self, number: int) -> float:
        """Returns milliseconds of appending an event."""
        event = {
            "author": "agent",
            "content": {"role": "model", "parts": [{"text": TEXT}]},
            "actions": {"state_delta": {"n": number, "user:n": number}},
        }
        began = time.perf_counter()
        status, text = self.call("POST", f"{_API}/{SHORT}/events", event)
        took = (time.perf_counter() - began) * 1000
        assert status == 201, (status, text[:500])
        return took


def compared(what: str, none: list[float], ruled: list[float], queries: str = "") -> bool:
    """Prints a line, and returns whether the side with rules is not too much slower."""
    median, other = statistics.median(none), statistics.median(ruled)
    noise = statistics.median(none[::2]) / statistics.median(none[1::2]) - 1
    print(
        f"  {what:<44} {median:>7.1f} {_late(none):>7.1f}   {other:>7.1f} {_late(ruled):>7.1f}   "
        f"{(other / median - 1) * 100:>+5.0f} %  {abs(noise) * 100:>4.0f} %   {queries}",
        flush=True,
    )
    return other / median <= MOST_SLOWER


def _late(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


def measure(none: Asker, ruled: Asker, rounds: int) -> None:
    """Prints pages, answers and appends of both sides."""
    head = f"{'':<44} {'none':>7} {'p95':>7}   {'rules':>7} {'p95':>7}   {'':>7}  {'noise':>6}   queries, cold and warm"
    slower = []
    for kind, addresses in (("Pages", PAGES), ("Answers to programs", ANSWERS)):
        print(f"\n{kind}, milliseconds (median of {rounds})\n\n  {head}")
        for what, address in addresses.items():
            for _time in range(3):
                none.took(address), ruled.took(address)
            pairs = [(none.took(address), ruled.took(address)) for _ in range(rounds)]
            queries = ", ".join(
                f"{a} → {b}" for a, b in zip(none.side.queries[address], ruled.side.queries[address], strict=True)
            )
            sides = [list(side) for side in zip(*pairs, strict=True)]
            if not compared(what, *sides, queries):
                slower.append(what)
    print(f"\nAppends by HTTP, milliseconds (median of {rounds * 5})\n")
    pairs = [(none.appended(n), ruled.appended(n)) for n in range(rounds * 5)]
    compared("POST of an event", *(list(side) for side in zip(*pairs, strict=True)))
    print(f"\n  more than {MOST_SLOWER - 1:.0%} slower: {', '.join(slower) or 'none'}")


async def appends(places: dict[bool, str], rounds: int) -> None:
    """Prints how long an agent's append takes in its own process."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    from sessions_app.adk import DjangoSessionService

    sides: dict[bool, list[float]] = {False: [], True: []}
    services = {ruled: DjangoSessionService(place) for ruled, place in places.items()}
    sessions = {ruled: await service.create_session(app_name=APP, user_id=USER) for ruled, service in services.items()}
    for number in range(rounds * 10):
        for ruled, service in services.items():
            content = types.Content(role="model", parts=[types.Part(text=TEXT)])
            event = Event(author="agent", content=content, actions=EventActions(state_delta={"n": number}))
            began = time.perf_counter()
            await service.append_event(sessions[ruled], event)
            sides[ruled].append((time.perf_counter() - began) * 1000)
    compared("DjangoSessionService", sides[False], sides[True])
    for service in services.values():
        await service.close()


def ready(directory: Path) -> None:
    """Prints how long `/ready` takes with many sources."""
    import sqlite3

    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    first = directory / "source0.db"
    service = SqliteSessionService(str(first))
    asyncio.run(service.create_session(app_name="app", user_id="ana"))
    places = [str(first)]
    for number in range(1, SOURCES):
        places.append(str(directory / f"source{number}.db"))
        with sqlite3.connect(first) as db, sqlite3.connect(places[-1]) as copy:
            db.backup(copy)
    with _adkweb(str(directory / "ready"), places) as client:
        client.read("/ready")
        taken = []
        for _ in range(150):
            began = time.perf_counter()
            client.read("/ready")
            taken.append(time.perf_counter() - began)
            time.sleep(0.1)  # long enough for new looks
    ordered = sorted(taken)
    print(
        f"\n/ready with {SOURCES} sources: median {statistics.median(ordered) * 1000:.1f} ms, p95 "
        f"{ordered[int(len(ordered) * 0.95)] * 1000:.1f} ms, worst {ordered[-1] * 1000:.1f} ms "
        f"(at most {MOST_READY * 1000:.0f})"
    )


@contextmanager
def _adkweb(data: str, places: list[str]) -> Iterator[Client]:
    port = free_port()
    command = [str(Path(sys.executable).parent / "adkweb"), *places, "--port", str(port)]
    with server(command, port, {"ADKWEB_DATA_DIR": data, "ADKWEB_RATE_PERSON": "0"}) as client:
        yield client


def _copies(database: PostgreSQL) -> dict[bool, str]:
    """Returns two databases with the same rows."""
    first = database.create_database("none")
    asyncio.run(fill(first))
    second = database.create_database("ruled", template="none")
    return {False: first, True: second}


def main() -> None:
    """Runs everything, in about three minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="in which the sides take turns (60)")
    given = parser.parse_args()
    began, context = time.monotonic(), multiprocessing.get_context("spawn")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    with (
        tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name,
        PostgreSQL(fsync=True) as database,
        ExitStack() as stack,
    ):
        os.environ["ADKWEB_DATA_DIR"] = f"{name}/agent"
        places, askers = _copies(database), {}
        for ruled, place in places.items():
            data = Path(name, f"data-{ruled}")
            data.mkdir(mode=0o700)
            mine, theirs = context.Pipe()
            child = context.Process(target=set_up, args=(str(data), place, ruled, theirs))
            child.start()
            side = mine.recv()
            child.join()
            port = stack.enter_context(_adkweb(str(data), [place])).port
            askers[ruled] = Asker(port, side)
        time.sleep(5)
        measure(askers[False], askers[True], given.rounds)
        asyncio.run(appends(places, given.rounds))
        stack.close()
        ready(Path(name))
    print(f"\n{os.cpu_count()} processors, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
