"""Indexing a large source and searching it, beside what google-adk offers.

adkweb's own database is of the same kind as the source. google-adk has no search: what stands beside it is its list of all
sessions, which a program would have to look through.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from benchmarks import harness as bench
from benchmarks.harness import APP, EACH, sized
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history.index import build
from sessions_app.live.search_feeder import SearchFeeder
from sessions_app.models import Rule, SearchSession
from sessions_app.search import inbox, results
from sessions_app.search.completing import complete
from sessions_app.search.health import histogram
from sessions_app.search.index import feed
from sessions_app.search.language import parse
from sessions_app.search.selecting import among
from sessions_app.writes.append import append_event
from tests.support.own import own_database

SESSIONS = sized(100_000, 100)
ASKING = sized(10_000, 20)
RUNS, WATCHED = 5, 200  # of each query; sessions that are stored together
CHECKED = sized(10.0, 2.0)  # seconds of checking a rule
WORDS = bench.TEXT.split()
QUERIES = {
    "everything": "",
    "a word that all have": WORDS[3],
    "a phrase that all have": f'"{" ".join(WORDS[2:5])}"',
    "a part of a word that all have": WORDS[5][1:],
    "two words that all have": f"{WORDS[0]} {WORDS[3]}",
    "a word that one has": "needle",
    "a word that none has": "zebra",
    "a user, in part": "user:471",
    "an author": "author:agent",
    "a value of state": "user:tier > 500",
    "a value of state, ever": "was.user:tier > 500",
    "a value that all had": "was.step >= 0",
    "a value that one had": "was.step = 500",
    "who changed a key": 'changed:"app:limit by agent"',
    "what waits for an answer": "waits:any",
    "what waits for a tool": "waits-for:approve",
    "what has waited for long": "waiting:>1s",
    "a comparison and a word": f"turns:<5 {WORDS[3]}",
    "all but a word": f"-{WORDS[3]}",
}
SORTS = ("-last", "-started", "title", "user", "-turns", "-tokens", "-took")
ROOM = {
    "postgresql": "SELECT pg_database_size(current_database())",
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}


def measure(place: str, own: str) -> None:
    """In a worker, indexes a source and searches it."""
    with own_database(own):
        alias = bench.opened(place, indexed=False)
        bench.heading("Indexing", "", "seconds", "events in a second", "MB of memory", "bytes an event")
        index("history", lambda: build.catch_up(alias, 3_600.0))
        index("search", lambda: feed.catch_up(alias))
        connection.cursor().execute("ANALYZE")
        bench.heading("Milliseconds", "", "first", "then", "sessions")
        find_new(alias)
        ask(alias)
        search()
        pages(alias)
        bench.heading("A new rule", "condition", f"sessions of {EACH} events checked in a second")
        for condition in ("step >= 0", "user:tier >= 0"):
            check(alias, condition)


def index(what: str, read: Callable[[], Any]) -> None:
    """Prints how fast a source is read, what memory that takes, and what room."""

    def room() -> int:
        with connection.cursor() as cursor:
            return int(cursor.execute(ROOM[connection.vendor]).fetchone()[0])

    before, memory, events = room(), bench.most_memory(), SESSIONS * EACH
    seconds = bench.timed(read) / 1000
    bench.row(what, seconds, events / seconds, bench.most_memory() - memory, (room() - before) / events)


def parsed(text: str) -> Any:
    """A query as it is asked now."""
    return parse(text, now=time.time(), zone=UTC)


def found(text: str, sort: str = "-last") -> Any:
    """The first page of a query."""
    return results.search(parsed(text), actor=SYSTEM, sort=sort)


def find_new(alias: str) -> None:
    """Prints how soon an event can be found that was just appended, while the index is fed as the server does it."""
    feeder, taken = SearchFeeder(), []
    feeder.start()
    time.sleep(2)
    for number in range(RUNS):
        event = {"author": "agent", "content": {"parts": [{"text": f"needle n{number}x"}]}}
        append_event(SessionRef(alias, APP, "u7", "s15"), event, actor=SYSTEM)
        began = time.monotonic()
        while not found(f"n{number}x").rows:
            time.sleep(0.01)
        taken.append((time.monotonic() - began) * 1000)
    feeder.end()
    feeder.join()
    bench.row("until a new event can be found", taken[0], taken[1:], "")


def ask(alias: str) -> None:
    """Lets an agent ask in many sessions, and prints how long that takes to index."""
    asks = {"author": "agent", "long_running_tool_ids": ["c"]}
    call = {"function_call": {"id": "c", "name": "approve", "args": {"amount": 455.75, "currency": "EUR"}}}
    for number in range(ASKING):
        ref = SessionRef(alias, APP, f"u{number // 2}", f"s{number}")
        append_event(ref, {**asks, "content": {"parts": [call]}, "timestamp": time.time()}, actor=SYSTEM)
    bench.row(f"indexing {ASKING:,} calls that wait", bench.timed(lambda: feed.catch_up(alias)), "", "")


def told(what: str, run: Callable[[], Any]) -> None:
    """Prints the first run and the others, and how many sessions were found."""
    first, answer = bench.timed(run), run()
    count = f"{answer.count:,}{'+' if answer.more else ''}" if hasattr(answer, "more") else ""
    bench.row(what, first, [bench.timed(run) for _ in range(RUNS)], count)


def search() -> None:
    """Prints how long the first page of each query takes, and what else is asked."""
    for what, text in QUERIES.items():
        told(f"{what}: `{text}`" if text else what, lambda: found(text))  # noqa: B023
    for sort in SORTS:
        told(f"sorted by {sort}", lambda: found("", sort))  # noqa: B023
    told("the count over time", lambda: histogram(parsed(""), actor=SYSTEM))
    told("completion of a user", lambda: complete("user:47", 7, actor=SYSTEM))
    told("completion of a key", lambda: complete("ti", 2, actor=SYSTEM))
    told("what waits, the first page", lambda: inbox.waiting(actor=SYSTEM))
    told("what waits, counted", lambda: inbox.count(actor=SYSTEM))
    stored = list(SearchSession.objects.order_by("digest").values_list("pk", flat=True)[:WATCHED])
    told(f"a watched word in {WATCHED} stored sessions", lambda: among(stored, parsed(WORDS[3]), now=time.time()))


def pages(alias: str) -> None:
    """Prints how long whole pages take; home and an app's for the last day of the source and for a month."""
    person, _made = get_user_model().objects.get_or_create(username="bench", is_superuser=True)
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(person)
    end = bench.BEGAN + SESSIONS * EACH
    addresses = {
        "the page of sessions": "/sessions/?q=",
        "the same with a word": f"/sessions/?q={WORDS[3]}",
        "the inbox": "/inbox/",
    }
    for days in (1, 30):
        during = f"?from={end - days * 86_400}&to={end}"
        addresses |= {
            f"home, {days} days": f"/{during}",
            f"the page of an app, {days} days": f"/a/{alias}/{APP}/{during}",
        }
    for what, address in addresses.items():
        assert browser.get(address).status_code == 200, address
        told(what, lambda: browser.get(address))  # noqa: B023


def check(alias: str, condition: str) -> None:
    """Prints how many sessions a second are checked against a new rule, with all of their past."""
    number, began = rules.create(alias, APP, "", condition, actor=SYSTEM), time.monotonic()
    while rules.rule(alias, APP, number, actor=SYSTEM).percent is not None and time.monotonic() < began + CHECKED:
        time.sleep(0.1)
    took, walked = time.monotonic() - began, Rule.objects.values_list("walked", flat=True).get(pk=number)
    rules.delete(alias, APP, number, actor=SYSTEM)
    bench.row(condition, SearchSession.objects.filter(pk__lte=walked).count() / took)


if __name__ == "__main__":
    with bench.benchmark(f"Search in {SESSIONS * EACH:,} events of {SESSIONS:,} sessions") as (folder, server):
        own = {"SQLite": f"sqlite:///{folder}/own.db", "PostgreSQL": server.create_database("own")}
        for what, place in bench.both(folder, server).items():
            print(f"\n# {what}", flush=True)
            bench.fill(place, SESSIONS)
            with bench.Worker(folder / what) as worker:
                worker.call(measure, place, own[what])
            bench.heading("google-adk, milliseconds", "", "once")
            listed = bench.adk(place).list_sessions(app_name=APP)
            bench.row("list of all sessions", bench.timed(lambda: asyncio.run(listed)))  # noqa: B023
