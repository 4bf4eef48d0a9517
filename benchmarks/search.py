"""Measures indexing a large source and searching it, beside what google-adk offers.

    python -m benchmarks.search [--events 1000000]

The tables are google-adk's own, and adkweb's own database is of the same kind as the source. google-adk has no search: what
stands beside it is its list of all sessions, which is what a program would have to look through.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

from benchmarks.appends import TEXT, prepare
from benchmarks.opening import ACTIVE, EVENTS, PER_SESSION, fill, make, most_memory, service_of
from tests.servers import PostgreSQL

RUNS = 5
WATCHED = 200  # sessions that are stored together
CHECKED = 10.0  # seconds of checking a rule
WORDS = TEXT.split()
QUERIES = {
    "everything": "",
    "a word that every session has": WORDS[3],
    "a phrase that every session has": f'"{" ".join(WORDS[2:5])}"',
    "part of a word": WORDS[5][1:],
    "two words": f"{WORDS[0]} {WORDS[3]}",
    "a word that one session has": "needle",
    "a word that none has": "zebra",
    "a user, in part": "user:471",
    "an author": "author:agent",
    "a value of state": "user:tier > 500",
    "a comparison and a word": f"turns:<5 {WORDS[3]}",
    "all but a word": f"-{WORDS[3]}",
}
SORTS = ("-last", "-started", "title", "user", "-turns", "-tokens", "-took")


def measure(place: str, own: str) -> None:
    """Indexes a source and searches it, in a process of its own."""
    prepare()
    from django.core.management import call_command
    from django.db import connection

    from tests.support.own import own_database

    with own_database(own):
        call_command("migrate", verbosity=0)
        from sessions_app.sources import database, registry

        (source,) = registry.add(place)
        database.open_source(source, adopting=True)
        gc.collect()
        gc.freeze()  # as `serve` does
        _index(source.alias)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        _find_new(source.alias)
        _search()
        _pages()
        _watch()
        _check_rule(source.alias)


def _index(alias: str) -> None:
    """Tells how fast a source is indexed, what memory that takes, and what room."""
    from django.db import connection, connections

    from sessions_app.history.index import build
    from sessions_app.search.index.feed import Feeder

    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events")
        (events,) = cursor.fetchone()
    began = time.monotonic()
    build.catch_up(alias, 3_600.0)
    read, memory, before = time.monotonic(), most_memory(), _bytes(connection)
    feeder = Feeder(alias)
    while feeder.feed(5.0):
        pass
    took = time.monotonic() - read
    print(
        f"  indexed in {took:.0f} s: {events / took:,.0f} events/s, {most_memory() - memory:+.0f} MB of memory, "
        f"{(_bytes(connection) - before) / events:,.0f} bytes an event (history, before: {read - began:.0f} s)",
        flush=True,
    )


def _bytes(connection: Any) -> int:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(cursor.fetchone()[0])


def _find_new(alias: str) -> None:
    """Tells how soon an event can be found that was just appended; the index is looked at as the server does it."""
    from sessions_app.access.actor import SYSTEM
    from sessions_app.domain.session_ref import SessionRef
    from sessions_app.live.search_feeder import SearchFeeder
    from sessions_app.writes.append import append_event

    feeder = SearchFeeder()
    feeder.start()
    ref, taken = SessionRef(alias, "app", "u7", "s15"), []
    time.sleep(2)
    for number in range(RUNS):
        append_event(ref, {"author": "agent", "content": {"parts": [{"text": f"needle n{number}x"}]}}, actor=SYSTEM)
        began = time.monotonic()
        while not _results(f"n{number}x").rows:
            time.sleep(0.01)
        taken.append(time.monotonic() - began)
    feeder.end()
    feeder.join()
    print(
        f"  a new event is found after {statistics.median(taken):.2f} s (median), {max(taken):.2f} s at most",
        flush=True,
    )


def _results(text: str, sort: str = "-last") -> Any:
    from sessions_app.access.actor import SYSTEM
    from sessions_app.search.language import parse
    from sessions_app.search.results import search

    return search(parse(text, now=time.time(), zone=UTC), actor=SYSTEM, sort=sort)


def _search() -> None:
    """Tells how long the first page of each query takes."""
    from sessions_app.access.actor import SYSTEM
    from sessions_app.search.completing import complete
    from sessions_app.search.health import histogram
    from sessions_app.search.language import parse

    for what, text in QUERIES.items():
        _tell(what, lambda text=text: _results(text), text)  # type: ignore[misc]
    for sort in SORTS:
        _tell(f"sorted by {sort}", lambda sort=sort: _results("", sort))  # type: ignore[misc]
    _tell("histogram", lambda: histogram(parse("", now=time.time(), zone=UTC), actor=SYSTEM))
    _tell("completion of a user", lambda: complete("user:47", 7, actor=SYSTEM))
    _tell("completion of a key", lambda: complete("ti", 2, actor=SYSTEM))


def _pages() -> None:
    """Tells how long whole pages take, and home's figures, for the last day of the source and for a month."""
    from sessions_app.access.actor import SYSTEM
    from sessions_app.search import health

    end, browser = 1_767_225_600.0 + 11 * 86_400, _somebody()
    for what, text in {"everything": "", "a word": WORDS[3]}.items():
        _tell(f"the page of sessions, {what}", lambda text=text: _open(browser, f"/sessions/?q={text}"))  # type: ignore[misc]
    for days in (1, 30):
        during = health.Range(end - days * 86_400, end)
        _tell(f"home: figures of {days} days", lambda during=during: health.figures(during, actor=SYSTEM))  # type: ignore[misc]
        _tell("home: tools, failures", lambda during=during: _lists(during))  # type: ignore[misc]
        for what, address in {"home": "/", "the page of an app": "/a/agent/app/"}.items():
            asked = f"{address}?from={during.start:.0f}&to={during.end:.0f}"
            _tell(f"{what} as a whole, {days} days", lambda asked=asked: _open(browser, asked))  # type: ignore[misc]


def _watch() -> None:
    """Tells how long it takes to ask a watched query about some sessions. That is done before and after they are stored."""
    from sessions_app.models import SearchSession
    from sessions_app.search.language import parse
    from sessions_app.search.selecting import among

    numbers = list(SearchSession.objects.order_by("digest").values_list("pk", flat=True)[:WATCHED])
    for count in (1, 20, WATCHED):
        for kind, word in {"common": WORDS[3], "part of a": WORDS[5][1:], "rare": "needle"}.items():
            query = parse(word, now=time.time(), zone=UTC)

            def ask(query: Any = query, some: list[int] = numbers[:count]) -> None:
                among(some, query, now=time.time())

            _tell(f"watched, {count} sessions: {kind} word", ask)


def _check_rule(alias: str) -> None:
    """Tells how many sessions a second are checked against a new rule, with all of their past."""
    from sessions_app.access.actor import SYSTEM
    from sessions_app.checks import rules
    from sessions_app.models import Rule, SearchSession

    for condition in ("step >= 0", "user:tier >= 0"):
        number = rules.create(alias, "app", "", condition, actor=SYSTEM)
        began = time.monotonic()
        while rules.rule(alias, "app", number, actor=SYSTEM).percent is not None and time.monotonic() < began + CHECKED:
            time.sleep(0.1)
        took = time.monotonic() - began
        walked = Rule.objects.values_list("walked", flat=True).get(pk=number)
        rules.delete(alias, "app", number, actor=SYSTEM)
        done = SearchSession.objects.filter(pk__lte=walked).count()
        print(f"  rule {condition:<31} {done / took:8,.0f} sessions/s of {PER_SESSION} events", flush=True)


def _somebody() -> Any:
    """Returns a browser of somebody who is signed in."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    person, _made = get_user_model().objects.get_or_create(username="bench", is_superuser=True)
    client = Client(HTTP_HOST="localhost")
    client.force_login(person)
    client.get("/edits/")  # what a server has loaded before its first page
    return client


def _open(browser: Any, address: str) -> None:
    answer = browser.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address}: {answer.status_code}")


def _lists(during: Any) -> None:
    from sessions_app.access.actor import SYSTEM
    from sessions_app.search import health

    for read in (health.slowest_tools, health.failures):
        read(during, actor=SYSTEM)


def _tell(what: str, run: Callable[[], Any], text: str = "") -> None:
    times = []
    for _run in range(RUNS):
        began = time.perf_counter()
        answer = run()
        times.append((time.perf_counter() - began) * 1000)
    count = f"{answer.count:,}{'+' if answer.more else ''} sessions" if hasattr(answer, "more") else ""
    first, later = times[0], statistics.median(times[1:])
    print(
        f"  {what:<36} first {first:6.0f} ms, then {later:6.0f} ms   {count:<18} {text}",
        flush=True,
    )


def _with_users(place: str) -> None:
    """Makes the first event of each session a user's, so that it is a turn."""
    import sqlite3

    import psycopg

    is_first = f"CAST(substr(id, 2) AS integer) % {ACTIVE * PER_SESSION} < {ACTIVE}"
    if "://" in place:
        db: Any = psycopg.connect(place)
        db.execute(
            f"""UPDATE events SET event_data = event_data || '{{"author": "user"}}' WHERE id LIKE 'e%' AND {is_first}"""
        )
    else:
        db = sqlite3.connect(place)
        db.execute(f"UPDATE events SET event_data = json_set(event_data, '$.author', 'user') WHERE {is_first}")
    db.commit()
    db.close()


async def _adk(place: str) -> None:
    service = service_of(place)
    began = time.perf_counter()
    listed = await service.list_sessions(app_name="app")
    took = (time.perf_counter() - began) * 1000
    print(f"  {'google-adk: list of all sessions':<36} {took:12.0f} ms   {len(listed.sessions):,}")
    if hasattr(service, "close"):
        await service.close()


def main() -> None:
    """Both databases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"of the source ({EVENTS})")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        places = {
            "SQLite": (str(Path(name) / "agent.db"), f"sqlite:///{name}/own.db"),
            "PostgreSQL": (server.create_database("agent"), server.create_database("own")),
        }
        for what, (place, own) in places.items():
            os.environ["ADKWEB_DATA_DIR"] = f"{name}/{what}"
            Path(name, what).mkdir()
            print(f"\n{what}, {given.events:,} events of {given.events // PER_SESSION:,} sessions\n", flush=True)
            asyncio.run(make(place))
            fill(place, given.events)
            _with_users(place)
            searcher = context.Process(target=measure, args=(place, own))
            searcher.start()
            searcher.join()
            asyncio.run(_adk(place))
    print(f"\n{os.cpu_count()} processors")


if __name__ == "__main__":
    main()
