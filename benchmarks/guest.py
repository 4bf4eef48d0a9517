"""What an agent notices while adkweb works in its database.

The agent appends 20 events a second by google-adk's own service to a database of a million events: by itself first, and
then while another process opens, adopts and indexes it, and runs agents beside it; on PostgreSQL then also while that
does what masks, approval and privacy are about; and at the end by itself again, which tells what adkweb's triggers and
indexes cost.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command

from benchmarks import harness as bench
from benchmarks.harness import APP, EACH, sized
from benchmarks.running import agents_in
from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM
from sessions_app.access.roles import Role
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Held
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits import edit, ending, proposal_job, proposals, reveal
from sessions_app.edits.edit import Entry
from sessions_app.history.index import build
from sessions_app.models import Job
from sessions_app.privacy import erasures, exports, retention, retention_job
from sessions_app.privacy.retention import RetentionRule
from sessions_app.running import children, runs
from sessions_app.running.servers import RUN
from sessions_app.search import inbox
from sessions_app.search.index import feed
from sessions_app.sources import database, registry
from sessions_app.writes.sessions import create_session
from tests.support.at_work import settle
from tests.support.people import an_admin

SESSIONS = sized(100_000, 100)
ALONE = sized(60.0, 5.0)  # seconds that the agent writes by itself
AT_ONCE = 4  # runs
MANY, USERS = sized(100, 5), sized(20, 2)  # edits and the like; users that are exported, and others that are erased

Work = Iterator[tuple[str, Callable[[], Any]]]


def opening(place: str) -> Work:
    """Opens a source for the first time."""
    call_command("migrate", verbosity=0)
    (source,) = registry.add(place)
    before = bench.most_memory()
    yield "opens it", lambda: database.open_source(source)
    yield "adopts it", lambda: database.open_source(source, adopting=True)

    def index() -> str:
        build.catch_up(source.alias, 3_600.0)
        feed.catch_up(source.alias)
        return f"{bench.most_memory() - before:.0f} MB of memory"

    yield "indexes it", index


def guarding(place: str) -> Work:
    """What masks, approval and privacy are about, with a result that says whether it was done."""
    (alias,) = (source.alias for source in registry.add(place))
    people = [an_admin(name) for name in ("maria", "ben")]
    Role.objects.update(reveals=True)
    maria, ben = map(roles.actor_of, people)
    refs = [SessionRef(alias, APP, f"u{number}", f"s{2 * number}") for number in range(MANY)]

    def mask() -> None:
        mask_rules.create("*", "key", "*token*", actor=maria)
        mask_rules.create("*", "form", "card", actor=maria)
        feed.catch_up(alias)

    yield "indexes it anew behind masks", mask

    def end() -> str:
        for ref in refs:
            edit.edit_state(ref, [Entry("user:trial", 1, ABSENT)], actor=maria, of={"lasts": 0.001})
        return f"{ending.apply_due()} ended"

    yield f"writes {MANY} edits that end, and takes them back", end

    def approve() -> str:
        approval.make(by=maria, keys="user:tier")
        for ref in refs:
            try:
                edit.overwrite_state(ref, [Entry("user:tier", "vip", UNKNOWN)], actor=maria)
            except Held as held:
                proposal_job.apply(held.detail["proposal"], actor=ben)
        return f"{proposals.rows().filter(state='applied').count()} applied"

    yield f"proposes {MANY} edits, and applies them", approve

    def show() -> str:
        for ref in refs:
            edit.edit_state(ref, [Entry("token", "abc", ABSENT)], actor=ben)
        return f"{sum(reveal.key(ref, 'token', 'a call', actor=ben) == 'abc' for ref in refs)} revealed"

    yield f"writes {MANY} values, and reveals them", show

    def done(kind: str, begin: Callable[..., Any], first: int) -> str:
        for number in range(first, first + USERS):
            begin(alias, APP, f"u{number}", actor=maria)
            settle(kind, 600)
        return f"{Job.objects.filter(kind=kind, state='done').count()} done"

    yield f"exports {USERS} users", lambda: done("export", exports.begin, MANY)
    yield f"erases {USERS} users", lambda: done("erase", erasures.begin, MANY + USERS)
    yield "tries a rule of retention", lambda: retention.try_(alias, APP, 30, actor=maria)

    def retain() -> str:
        retention.save(alias, APP, 30, export=False, actor=maria)
        RetentionRule.objects.update(due=0)
        retention_job.begin_due()
        settle("retention", 600)
        return RetentionRule.objects.get().result

    yield "deletes idle sessions by it", retain


def running(place: str) -> Work:
    """Runs agents beside it, which write to the same database."""
    (alias,) = (source.alias for source in registry.add(place))
    settings.AGENTS, settings.RUN_AGENTS = {alias: str(agents_in(Path(settings.DATA_DIR) / "agents"))}, True

    def say() -> str:
        jobs = []
        for number in range(MANY):
            ref = create_session(alias, APP, "ana", session_id=f"said{number}", actor=SYSTEM)
            jobs.append(runs.say(ref, "What time is it?", actor=SYSTEM))
            while Job.objects.filter(kind=RUN, state="waiting").count() >= AT_ONCE:
                inbox.count(actor=SYSTEM)
                time.sleep(0.05)
        settle(RUN, 600)
        children.stop_all(5)
        return f"{Job.objects.filter(kind=RUN, state='done').count()} done"

    yield f"sends an agent {MANY} messages, {AT_ONCE} at a time", say


def work(place: str) -> None:
    """In a worker, does one thing after the other. Tells each, how long it took and what came of it."""
    for works in (opening, running, guarding) if "://" in place else (opening, running):
        for what, act in works(place):
            began = time.monotonic()
            result = act()
            bench.tell((what, time.monotonic() - began, result or ""))


def measure(place: str, agent: bench.Worker, guest: bench.Worker) -> None:
    """Prints what the agent notices, by itself and at each thing that adkweb does."""

    def noticed(what: str, seconds: float, result: Any = "") -> None:
        taken, failed = agent.call(None)
        bench.row(what, seconds, len(taken), *bench.late(taken), failed, result)

    def nothing(what: str) -> None:
        agent.call(None)
        time.sleep(ALONE)
        noticed(what, ALONE)

    nothing("does nothing")
    guest.begin(work, place)
    while (done := guest.hear()) is not None:
        noticed(*done)
    nothing("has adopted it, and does nothing")


if __name__ == "__main__":
    with bench.benchmark(f"What an agent notices, with {SESSIONS * EACH:,} events") as (folder, server):
        for what, place in bench.both(folder, server).items():
            bench.fill(place, SESSIONS)
            bench.heading(what, "adkweb", "seconds", "appends", *bench.LATE, "failed", "")
            with bench.Worker(folder / "agent") as agent, bench.Worker(folder / what) as guest:
                agent.begin(bench.agent, place)
                time.sleep(sized(5.0, 1.0))  # for it to start
                measure(place, agent, guest)
