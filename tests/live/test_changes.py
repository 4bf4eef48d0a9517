"""Which sessions have new events: none is missed, whatever order transactions commit in; none is told twice."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connections

from sessions_app.access.actor import Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import changes as tail_module
from sessions_app.reads import newest as reads_newest
from sessions_app.reads.changes import LOOK_BACK, PATIENCE_SECONDS, Tail
from sessions_app.sources import adoption
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.bulk import fill

WHO = Actor.holding("test", "admin")
SQLITE = pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
POSTGRESQL = pytest.mark.parametrize("form", ["postgresql"])


class Others:
    """Whoever writes: never the connection that looks, to which SQLite does not tell its own writes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)

    def __call__(self, function: Callable[..., Any], *values: Any, **named: Any) -> Any:
        return self._thread.submit(function, *values, **named).result()

    def session(self, source: str, name: str) -> SessionRef:
        found: SessionRef = self(create_session, source, "app", "ana", session_id=name, actor=WHO)
        return found

    def append(self, ref: SessionRef) -> None:
        self(append_event, ref, {"author": "agent", "invocation_id": "i"}, actor=WHO)

    def delete(self, ref: SessionRef) -> None:
        self(delete_session, ref, actor=WHO)

    def close(self) -> None:
        self(connections.close_all)
        self._thread.shutdown()


@pytest.fixture
def others(source: str) -> Iterator[Others]:
    writers = Others()
    yield writers
    writers.close()


def all_moved(tail: Tail) -> list[SessionRef]:
    """Everything that is new by now, in the order of the looks; a session once for each look that told it."""
    found: list[SessionRef] = []
    while moved := tail.moved():
        found += moved
    return found


@pytest.fixture
def place(form: str, new_database: Callable[[str], str]) -> str:
    return new_database(form)


@pytest.fixture
def source(form: str, place: str, open_source: Callable[[str, str], str]) -> str:
    return open_source(place, form)


@pytest.fixture
def transaction(place: str) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    """Connections of other programs."""
    opened: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(place))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def take_number(connection: psycopg.Connection[Any], ref: SessionRef) -> int:
    """Stores an event without committing; its place."""
    found = connection.execute(
        """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        VALUES (gen_random_uuid(), %s, %s, %s, 'i', now(), %s) RETURNING seq""",
        [*ref[1:], json.dumps({"author": "agent"})],
    ).fetchone()
    assert found
    return int(found[0])


# --- Both databases ---------------------------------------------------------------------------------------------------


def test_what_is_new_is_told_once_and_what_was_there_before_never(source: str, others: Others) -> None:
    old, one, two = (others.session(source, name) for name in ("old", "one", "two"))
    others.append(old)
    tail = Tail(source)
    assert all_moved(tail) == []
    others.append(one)
    assert all_moved(tail) == [one]
    for ref in (one, two, two):
        others.append(ref)
    assert sorted(all_moved(tail)) == [one, two]
    assert not tail.moved()
    assert not tail.moved()


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_more_than_one_look_can_read_is_told_by_the_next_looks(source: str, others: Others) -> None:
    keys = [others.session(source, name) for name in ("first", "second", "third")]
    tail = Tail(source)
    tail.moved()
    others(fill, keys[0], 5_200)
    others.append(keys[1])
    others.append(keys[2])
    found = set()
    for _ in range(4):
        found |= tail.moved() or set()
    assert found == set(keys)
    assert not tail.moved()


def test_a_look_at_what_did_not_move_reads_no_event(source: str, others: Others) -> None:
    ref = others.session(source, "one")
    others.append(ref)
    tail = Tail(source)
    tail.moved()
    statements: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return execute(sql, *rest)

    with connections[source].execute_wrapper(note):
        assert [tail.moved() for _ in range(10)] == [None] * 10
    assert len(statements) == 10
    if connections[source].vendor == "sqlite":
        assert set(statements) == {"PRAGMA data_version"}


# --- PostgreSQL: numbers that commit late -----------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Live pages",
    "An open page shows every event exactly once and in order, no matter who writes it, even if PostgreSQL commits it late.",
)
@POSTGRESQL
def test_a_number_that_commits_late_is_not_missed_and_told_once(source: str, others: Others, transaction: Any) -> None:
    late, later, early = (others.session(source, name) for name in ("late", "later", "early"))
    tail = Tail(source)
    first, second, third = transaction(), transaction(), transaction()
    numbers = [take_number(first, late), take_number(second, later), take_number(third, early)]
    assert numbers == sorted(numbers)
    assert tail.moved() is None
    third.commit()
    assert tail.moved() == {early}
    assert tail.moved() is None
    second.commit()
    assert tail.moved() == {later}
    others.append(early)
    assert tail.moved() == {early}
    first.commit()
    assert tail.moved() == {late}
    assert [tail.moved() for _ in range(3)] == [None] * 3


@POSTGRESQL
def test_a_number_taken_before_the_tail_began_is_not_missed(source: str, others: Others, transaction: Any) -> None:
    late, early = others.session(source, "late"), others.session(source, "early")
    others.append(early)
    first = transaction()
    take_number(first, late)
    others.append(early)
    tail = Tail(source)
    assert tail.moved() is None
    first.commit()
    assert tail.moved() == {late}
    assert tail.moved() is None


@POSTGRESQL
def test_a_number_that_was_rolled_back_is_given_up_after_a_while(
    source: str, others: Others, transaction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, clock, asked = others.session(source, "one"), SimpleNamespace(now=1000.0), []

    def appended(source: str, seq: int, also: Any = (), **rest: Any) -> Any:
        asked.append(set(also))
        return real(source, seq, also, **rest)

    real = reads_newest.appended
    monkeypatch.setattr(tail_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(reads_newest, "appended", appended)
    tail = Tail(source)
    first, slow = transaction(), transaction()
    gone, waits = take_number(first, ref), take_number(slow, ref)
    first.rollback()
    others.append(ref)
    assert tail.moved() == {ref}
    clock.now += PATIENCE_SECONDS - 1
    assert tail.moved() is None
    assert asked[-1] == {gone, waits}
    slow.commit()
    assert tail.moved() == {ref}
    clock.now += 2
    others.append(ref)
    assert tail.moved() == {ref}
    tail.moved()
    assert asked[-1] == set()


@POSTGRESQL
def test_numbers_are_given_up_where_nothing_else_happens_too(
    source: str, others: Others, transaction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every look would go on asking for them."""
    ref, clock, asked = others.session(source, "one"), SimpleNamespace(now=1000.0), []
    real = reads_newest.appended
    monkeypatch.setattr(tail_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(
        reads_newest, "appended", lambda s, q, also=(), **r: asked.append(set(also)) or real(s, q, also, **r)
    )
    tail = Tail(source)
    first = transaction()
    take_number(first, ref)
    first.rollback()
    others.append(ref)
    assert tail.moved() == {ref}
    clock.now += PATIENCE_SECONDS + 1
    for _ in range(3):
        assert tail.moved() is None
    assert asked[-1] == set()


@POSTGRESQL
def test_a_leap_of_the_numbers_costs_no_memory(source: str, others: Others, place: str) -> None:
    ref = others.session(source, "one")
    others.append(ref)
    tail = Tail(source)
    with psycopg.connect(place) as connection:
        connection.execute("SELECT setval(pg_get_serial_sequence('events', 'seq'), 300000)")
    others.append(ref)
    tracemalloc.start()
    try:
        assert tail.moved() == {ref}
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert len(tail._tail._holes) <= LOOK_BACK  # type: ignore[union-attr]
    others.append(ref)
    assert tail.moved() == {ref}


@POSTGRESQL
def test_many_writers_at_once_are_all_told(source: str, others: Others, place: str, transaction: Any) -> None:
    """Each takes its number, then they commit in the opposite order, two at a time between looks."""
    keys = [others.session(source, f"s{number}") for number in range(20)]
    tail, writers = Tail(source), [transaction() for _ in keys]
    for writer, ref in zip(writers, keys, strict=True):
        take_number(writer, ref)
    found: list[SessionRef] = []
    for number, writer in enumerate(reversed(writers)):
        writer.commit()
        if number % 2:
            found += tail.moved() or set()
    assert sorted(found) == sorted(keys)
    assert tail.moved() is None


@POSTGRESQL
def test_a_tail_outlives_a_connection_that_was_cut(source: str, others: Others, place: str) -> None:
    ref = others.session(source, "one")
    tail = Tail(source)
    others.append(ref)
    with psycopg.connect(place, autocommit=True) as operator:
        operator.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND datname = current_database()"""
        )
    found: set[SessionRef] | None = None
    for _ in range(50):
        try:
            found = tail.moved()
            break
        except SourceError:
            continue
    assert found == {ref}


# --- SQLite: numbers that are given again -----------------------------------------------------------------------------


@SQLITE
def test_a_number_that_is_given_again_after_a_session_was_deleted_is_told(source: str, others: Others) -> None:
    kept, newest = others.session(source, "kept"), others.session(source, "newest")
    others.append(kept)
    for _ in range(3):
        others.append(newest)
    tail = Tail(source)
    tail.moved()
    others.delete(newest)
    assert not tail.moved()
    others.append(kept)
    assert tail.moved() == {kept}
    assert not tail.moved()


@SQLITE
def test_a_number_given_again_between_two_looks_is_a_look_at_everything_not_nothing(
    source: str, others: Others
) -> None:
    """What happened cannot be told, so the answer must not be None, which stands for “nothing was written”."""
    kept, newest = others.session(source, "kept"), others.session(source, "newest")
    others.append(kept)
    for _ in range(3):
        others.append(newest)
    tail = Tail(source)
    tail.moved()
    others.delete(newest)
    others.append(kept)
    assert tail.moved() is not None
    others.append(kept)
    assert tail.moved() == {kept}


def make_anew(source: str, others: Others, place: str, form: str) -> None:
    """Puts an empty database in the place of another, as a developer does who begins again."""
    fresh = Path(place).with_suffix(".new")
    fresh.touch()
    for file in Path(place).parent.glob(f"{Path(place).name}-*"):
        file.unlink()
    fresh.replace(place)
    if form == "sqlite-database":
        others(connections.close_all)
        others(adoption.create, source, "database")


@SQLITE
@pytest.mark.parametrize("first", ["who looks", "another thread"])
def test_a_file_that_is_made_anew_is_followed_from_its_beginning(
    source: str, others: Others, place: str, form: str, first: str
) -> None:
    """Whichever thread of this process notices it first."""
    old = others.session(source, "old")
    for _ in range(5):
        others.append(old)
    tail = Tail(source)
    tail.moved()
    make_anew(source, others, place, form)
    if first == "who looks":
        tail.moved()
    new = others.session(source, "new")
    told: set[SessionRef] = set()
    for _ in range(3):
        told |= tail.moved() or set()
        others.append(new)
    told |= tail.moved() or set()
    assert told == {new}
