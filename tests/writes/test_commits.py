"""Threads that write to one SQLite file share a commit, and fail, wait and are interrupted each for itself."""

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.utils import translation

from sessions_app import broadcast
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict, NotFound, SourceError, StaleSession
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import views
from sessions_app.sources import database
from sessions_app.writes import commits
from sessions_app.writes.append import Appended, append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.at_work import until
from tests.support.people import ALICE
from tests.support.stored import assert_state_is_what_events_say, events_of, in_threads, query, state_of


@pytest.fixture(params=["sqlite", "sqlite-database"])
def form(request: pytest.FixtureRequest) -> str:
    """SQLite only: PostgreSQL has as many writers as it likes."""
    return str(request.param)


@pytest.fixture(params=["wal", "delete"])
def mode(request: pytest.FixtureRequest, source: str) -> str:
    """Both journals."""
    assert query(source, f"PRAGMA journal_mode = {request.param}") == [(request.param,)]
    return str(request.param)


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session."""
    return create_session(source, "app", "user", actor=ALICE, session_id="s", state={"n": 0})


def append(ref: SessionRef, number: int, **options: Any) -> Appended:
    event = {"id": f"e{number}", "actions": {"state_delta": {f"k{number}": number, f"app:k{number}": number}}}
    return append_event(ref, event, actor=ALICE, **options)


def share(ref: SessionRef, work: Callable[[], None]) -> None:
    with database.using(ref.source) as db:
        commits.share(db, lambda _db: work())


def led(ref: SessionRef, first: Callable[[], None], others: list[Callable[[], Any]]) -> list[Any]:
    """What becomes of one that leads, does its work when all others wait, and of these."""
    leads = threading.Event()

    def lead() -> BaseException | None:
        def work() -> None:
            leads.set()
            while len(commits.line_of(ref.source)._waiting) < len(others):
                time.sleep(0.005)
            first()

        try:
            share(ref, work)
        except KeyboardInterrupt as error:
            return error
        return None

    def follow(work: Callable[[], Any]) -> Any:
        leads.wait()
        return work()

    return in_threads([lead, *(partial(follow, work) for work in others)])


def path_of(source: str) -> str:
    return str(connections.databases[source]["ADKWEB"]["path"])


@contextmanager
def file_taken(source: str, waiting: int) -> Iterator[None]:
    """Another program has the file until so many threads wait in line; a helper lets it go."""
    with closing(sqlite3.connect(path_of(source), isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")

        def let_go() -> None:
            while len(commits.line_of(source)._waiting) < waiting - 1:  # the first one leads
                time.sleep(0.005)
            other.execute("ROLLBACK")

        helper = threading.Thread(target=let_go)
        helper.start()
        yield
        helper.join()


def commits_of(source: str, mode: str) -> int:
    """How many transactions have changed the file: each has written its first page, or a frame that says how large the
    file is after it.
    """
    if mode == "delete":
        return int.from_bytes(Path(path_of(source)).read_bytes()[24:28])
    log = Path(f"{path_of(source)}-wal").read_bytes()
    size = int.from_bytes(log[8:12])
    frames = range(32, len(log), size + 24)
    return sum(log[at + 8 : at + 16] == log[16:24] and log[at + 4 : at + 8] != bytes(4) for at in frames)


def test_writers_who_wait_share_one_commit(ref: SessionRef, mode: str) -> None:
    before = commits_of(ref.source, mode)
    with file_taken(ref.source, 12):
        results = in_threads([partial(append, ref, n) for n in range(12)])
    assert commits_of(ref.source, mode) == before + 1
    appended = [result for result in results if isinstance(result, Appended)]
    assert len(appended) == 12
    revisions = [each.revision or 0 for each in sorted(appended, key=lambda each: each.seq or 0)]
    assert all(a < b for a, b in itertools.pairwise(revisions))
    assert {event["id"]: seq for seq, event in events_of(ref)} == {each.event["id"]: each.seq for each in appended}
    assert_state_is_what_events_say(ref.source, {ref: {"n": 0}})


@pytest.mark.usefixtures("mode", "own")
def test_one_that_is_refused_fails_alone_in_its_own_thread_and_language(ref: SessionRef) -> None:
    append(ref, 0)
    revision = views.session(ref, actor=SYSTEM).revision
    missing = ref._replace(session_id="missing")

    def spanish() -> Appended:
        with translation.override("es"):
            return append(missing, 1)

    def taken() -> Appended:
        return append_event(ref, {"id": "e0", "actions": {"state_delta": {"app:x": 1}}}, actor=ALICE)

    bad: list[Callable[[], Any]] = [
        spanish,
        partial(append, missing, 1),
        taken,
        partial(append, ref, 2, expected=revision - 1),
        partial(append, ref, 3, expected={"n": 1, "user:none": None}),
    ]
    with file_taken(ref.source, 11):
        results = in_threads([*bad, *(partial(append, ref, n) for n in range(10, 16))])
    assert [type(result) for result in results] == [NotFound, NotFound, Conflict, StaleSession, Conflict] + [
        Appended
    ] * 6
    assert str(results[0]) == "No hay ninguna sesión «missing»."
    assert str(results[1]) == "There's no session “missing”."
    assert results[4].detail["current"]["n"] == 0
    assert {event["id"] for _seq, event in events_of(ref)} == {"e0", *(f"e{n}" for n in range(10, 16))}
    assert "x" not in state_of(ref)["app"]
    assert query(ref.source, "SELECT count(*) FROM user_states WHERE user_id = 'user' AND state <> '{}'") == [(0,)]
    assert_state_is_what_events_say(ref.source, {ref: {"n": 0}})


def test_the_same_event_sent_by_many_at_once_is_stored_once(ref: SessionRef) -> None:
    with file_taken(ref.source, 8):
        event = {"id": "e", "timestamp": time.time()}
        results = in_threads([partial(append_event, ref, event, actor=ALICE) for _ in range(8)])
    assert [result.event["id"] for result in results if isinstance(result, Appended)] == ["e"] * 8
    assert len(events_of(ref)) == 1


def test_nobody_is_answered_or_told_of_before_the_commit_and_where_it_fails_everybody_hears_it(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    query(ref.source, "PRAGMA journal_mode = delete")
    monkeypatch.setattr(commits, "PATIENCE_SECONDS", 1.0)
    told: list[SessionRef] = []
    monkeypatch.setattr(broadcast, "tell", lambda _what, key: told.append(key))
    with closing(sqlite3.connect(path_of(ref.source), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sessions").fetchall()  # with a rollback journal, no commit passes a reader
        results = led(ref, lambda: None, [partial(append, ref, n) for n in range(4)])
        assert [type(result) for result in results] == [SourceError] * 5
        assert all("another program has locked the file" in str(result) for result in results)
        assert told == []
        reader.execute("COMMIT")
    assert events_of(ref) == []
    append(ref, 1)
    assert told == [ref]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_thread_that_is_interrupted_while_it_leads_holds_up_nobody(ref: SessionRef) -> None:
    results = led(ref, interrupt, [partial(append, ref, n) for n in range(6)])
    assert isinstance(results[0], KeyboardInterrupt)
    assert {type(result) for result in results[1:]} == {Appended}  # led by the next
    assert len(events_of(ref)) == 6


def test_where_the_leader_is_interrupted_in_the_work_of_another_nothing_is_stored_and_all_hear_it(
    ref: SessionRef,
) -> None:
    work = [partial(append, ref, 1), partial(share, ref, interrupt), partial(append, ref, 2)]
    results = led(ref, lambda: None, work)
    assert isinstance(results[0], KeyboardInterrupt)
    errors = [result for result in results[1:] if isinstance(result, SourceError)]
    stored = sorted(event["id"] for _seq, event in events_of(ref))  # in line, threads stand as they came
    assert errors
    assert stored == sorted(result.event["id"] for result in results[1:] if isinstance(result, Appended))
    append(ref, 3)


def test_one_that_is_interrupted_while_it_waits_leaves_the_line(ref: SessionRef) -> None:
    """In the main thread, which is where a signal interrupts."""
    held, go_on = threading.Event(), threading.Event()

    def hold(_db: Any) -> None:
        held.set()
        go_on.wait()

    def lead() -> None:
        try:
            with database.using(ref.source) as db:
                commits.share(db, hold)
        finally:
            connections.close_all()

    leader = threading.Thread(target=lead)
    leader.start()
    held.wait()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            append(ref, 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not commits.line_of(ref.source)._waiting
    go_on.set()
    leader.join()
    assert append(ref, 2).seq == 1


def test_within_a_transaction_of_the_callers_an_append_is_part_of_it(ref: SessionRef) -> None:
    waiting = threading.Thread(target=in_threads, args=([partial(append, ref, 2)],))

    def undone() -> None:
        with transaction.atomic(using=ref.source):
            append(ref, 1)
            with pytest.raises(NotFound):
                append(ref._replace(session_id="missing"), 1)
            # Another thread waits for the file, which this one has, and for nothing that would keep this one from going on.
            waiting.start()
            until(lambda: commits.line_of(ref.source)._taken, "the other thread has the file")
            append(ref, 3)
            other = create_session(ref.source, "app", "user", actor=ALICE)
            delete_session(other, actor=ALICE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        undone()
    waiting.join()
    assert [event["id"] for _seq, event in events_of(ref)] == ["e2"]


def test_a_process_that_is_forked_while_others_write_writes_itself(ref: SessionRef) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(_db: Any) -> None:
        held.set()
        go_on.wait()

    def lead() -> None:
        with database.using(ref.source) as db:
            commits.share(db, hold)
        connections.close_all()

    leader = threading.Thread(target=lead)
    leader.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12's, of any fork beside threads
        child = os.fork()
    if child == 0:
        os._exit(bool(commits.lines))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    leader.join()


def test_what_fails_in_sqlite_itself_is_the_same_error_as_djangos(ref: SessionRef) -> None:
    with database.using(ref.source) as db:
        with pytest.raises(OperationalError, match="no such table: nowhere"):
            commits.share(db, lambda db: commits.Cursor(db).execute("DELETE FROM nowhere"))
        assert not db.connection.in_transaction


_OTHER = """
import asyncio, sys, time
from google.adk.events import Event
from google.adk.sessions.sqlite_session_service import SqliteSessionService
async def main():
    service = SqliteSessionService(sys.argv[1])
    session = await service.create_session(app_name="other", user_id="u", session_id="s")
    print("ready", flush=True)
    for number in range(int(sys.argv[2])):
        await service.append_event(session, Event(author="agent", invocation_id=str(number)))
asyncio.run(main())
"""


@pytest.mark.guarantee(
    "Agents",
    "An agent in another process gets a chance to write even while sixteen adkweb threads write to the same file.",
)
@pytest.mark.parametrize("form", ["sqlite"])
def test_an_agent_of_another_process_gets_its_turns_among_sixteen_busy_threads(ref: SessionRef, mode: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _OTHER, path_of(ref.source), "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        numbers = itertools.count()

        def write() -> int:
            done = 0
            while other.poll() is None:
                append(ref, next(numbers))
                done += 1
            return done

        results = in_threads([write] * 16)
    assert other.returncode == 0  # none of its appends failed, which is after five seconds of waiting
    assert all(isinstance(result, int) for result in results)
    assert len(events_of(ref)) == sum(result for result in results if isinstance(result, int))
    assert len(events_of(SessionRef(ref.source, "other", "u", "s"))) == 30
