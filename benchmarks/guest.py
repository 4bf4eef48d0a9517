"""Measures what an agent notices while adkweb does, in its database, what roles, rules and privacy are about.

    python -m benchmarks.guest [--events 1000000] [--alone 60]

A PostgreSQL of a million events, with fsync, to which an agent appends 20 events a second by google-adk's own service: by
itself first, and then while another process reads home for somebody with one quiet app, looks for secrets, indexes
everything anew behind masks, exports and erases users, tries and applies a rule of retention, reveals values, writes
edits that end, and applies proposals.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.appends import prepare
from benchmarks.opening import EVENTS, Appends, agent, fill, make
from tests.servers import PostgreSQL

MANY = 100  # edits, proposals, and values that are revealed
READS = 3_000  # of home
USERS = 20  # that are exported, and others that are erased

Work = Iterator[tuple[str, Callable[[], Any]]]


def works(url: str, folder: str, pipe: Connection) -> None:
    """A process that does one thing after the other, and sends what it was, how long it took and what came of it."""
    os.environ["ADKWEB_DATA_DIR"] = folder
    prepare()
    from django.core.management import call_command
    from django.db import connections

    from sessions_app.access import roles
    from sessions_app.models import Role
    from tests.support.own import own_database
    from tests.support.people import an_admin

    with own_database(f"sqlite:///{folder}/adkweb.db"):
        call_command("migrate", verbosity=0)
        people = [an_admin(name) for name in ("maria", "ben")]
        Role.objects.update(reveals=True)
        maria, ben = map(roles.actor_of, people)
        for what, act in (*_opening(url), *_reading(maria), *_hiding(maria), *_editing(maria, ben), *_privacy(maria)):
            began = time.monotonic()
            result = act()
            pipe.send((what, time.monotonic() - began, str(result or "")))
        connections.close_all()
    pipe.send(None)


def _opening(url: str) -> Work:
    from sessions_app.history.index import build
    from sessions_app.search.index import feed
    from sessions_app.sources import database, registry

    (source,) = registry.add(url)

    def opened() -> None:
        database.open_source(source, adopting=True)
        build.catch_up(source.alias, 3_600.0)
        feed.catch_up(source.alias)

    yield "opens, adopts and indexes it", opened


def _reading(maria: Any) -> Work:
    from sessions_app.access.actor import Actor, Grant
    from sessions_app.reads import newest
    from sessions_app.writes.append import append_event
    from sessions_app.writes.sessions import create_session

    vera = Actor("vera", (Grant("read", apps="quiet"),))

    def at_home() -> str:
        append_event(create_session(_alias(), "quiet", "ana", actor=maria), {"author": "user"}, actor=maria)
        for _ in range(READS):
            running, views = newest.running_now(_alias(), actor=vera), newest.newest_events(_alias(), 10, actor=vera)
        return f"{len(running)} running, {len(views)} event"

    yield f"reads home {READS:,} times for who sees one app", at_home


def _hiding(maria: Any) -> Work:
    from sessions_app.checks import mask_rules
    from sessions_app.search.index import feed

    yield "looks for what looks like a secret", lambda: f"{len(mask_rules.proposals(actor=maria))} rules proposed"

    def masked() -> None:
        mask_rules.create("*", "key", "*token*", actor=maria)
        mask_rules.create("*", "form", "card", actor=maria)
        feed.catch_up(_alias())

    yield "indexes it anew behind masks", masked


def _editing(maria: Any, ben: Any) -> Work:
    from sessions_app.access import approval
    from sessions_app.domain.errors import Held
    from sessions_app.domain.state import ABSENT, UNKNOWN
    from sessions_app.edits import edit, ending, expiry, proposal_job, proposals, reveal
    from sessions_app.edits.edit import Entry

    def timed() -> str:
        for number in range(MANY):
            edit.edit_state(_ref(number), [Entry("user:trial", 1, ABSENT)], actor=maria, of={"lasts": 0.001})
        return f"{ending.apply_due()} ended, {expiry.rows().filter(state='waiting').count()} wait"

    yield f"writes {MANY} edits that end, and ends them", timed

    def approved() -> str:
        approval.make(by=maria, keys="user:tier")
        for number in range(MANY):
            try:
                edit.overwrite_state(_ref(number), [Entry("user:tier", "vip", UNKNOWN)], actor=maria)
            except Held as held:
                proposal_job.apply(held.detail["proposal"], actor=ben)
        return f"{proposals.rows().filter(state='applied').count()} applied"

    yield f"proposes {MANY} edits, and applies them", approved

    def revealed() -> str:
        for number in range(MANY):
            edit.edit_state(_ref(number), [Entry("token", "abc", ABSENT)], actor=ben)
        return f"{sum(reveal.key(_ref(n), 'token', 'a call', actor=ben) == 'abc' for n in range(MANY))} revealed"

    yield f"writes {MANY} values, and reveals them", revealed


def _privacy(maria: Any) -> Work:
    from sessions_app.models import Job, RetentionRule
    from sessions_app.privacy import erasures, exports, retention, retention_job
    from tests.support.at_work import settle

    def done(kind: str, begin: Callable[..., Any], first: int) -> str:
        for number in range(first, first + USERS):
            begin(_alias(), "app", f"u{number}", actor=maria)
            settle(kind, 600)
        return f"{Job.objects.filter(kind=kind, state='done').count()} done"

    yield f"exports {USERS} users", lambda: done("export", exports.begin, 200)
    yield f"erases {USERS} users", lambda: done("erase", erasures.begin, 400)

    def retained() -> str:
        retention.save(_alias(), "app", 30, export=False, actor=maria)
        RetentionRule.objects.update(due=0)
        retention_job.begin_due()
        settle("retention", 600)
        return str(RetentionRule.objects.get().result)

    yield "tries a rule of retention", lambda: retention.try_(_alias(), "app", 30, actor=maria)
    yield "deletes idle sessions by it", retained


def _alias() -> str:
    from sessions_app.sources import registry

    (source,) = registry.listed()
    return source.alias


def _ref(number: int) -> Any:
    from sessions_app.domain.session_ref import SessionRef

    return SessionRef(_alias(), "app", f"u{number}", f"s{2 * number}")


def measure(url: str, folder: str, alone: float) -> None:
    """Prints what the agent notices, by itself and at each thing that adkweb does."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    writer = context.Process(target=agent, args=(url, there), daemon=True)
    writer.start()

    def appends() -> Appends:
        here.send("tell")
        return Appends(*here.recv())

    def by_itself() -> None:
        appends()
        time.sleep(alone)
        print(f"  {'nothing: the agent is by itself':<51} {appends()}", flush=True)

    time.sleep(5)  # for it to start
    by_itself()
    mine, theirs = context.Pipe()
    guest = context.Process(target=works, args=(url, folder, theirs))
    guest.start()
    while (done := mine.recv()) is not None:
        what, seconds, result = done
        print(f"  {what:<42} {seconds:6.1f} s  {appends()}  {result}", flush=True)
    guest.join()
    by_itself()
    here.send("stop")
    writer.join()


def main() -> None:
    """Fills a database, and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"of the source ({EVENTS})")
    parser.add_argument("--alone", type=float, default=60, help="seconds that the agent writes by itself (60)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adkweb-bench-") as name, PostgreSQL(fsync=True) as server:
        os.environ["ADKWEB_DATA_DIR"] = name
        url = server.create_database("agent")
        asyncio.run(make(url))
        fill(url, given.events)
        print(f"\nPostgreSQL, {given.events:,} events: what adkweb does, and what the agent notices\n", flush=True)
        measure(url, name, given.alone)
    print(f"\n{os.cpu_count()} processors")


if __name__ == "__main__":
    main()
