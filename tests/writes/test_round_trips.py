"""One append is one statement, one round trip and one commit: most of adkweb's speed, and all of its simplicity."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import StaleSession
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session

DELTAS: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 1, "user:b": 2}, {"a": 1, "user:b": 2, "app:c": 3}, {"app:c": None}]
WARM = 4  # executions, after which psycopg prepares a statement


@pytest.fixture
def ref(new_database: Callable[[str], str], open_source: Callable[[str], str], actor: Actor) -> SessionRef:
    """A session on PostgreSQL."""
    return create_session(open_source(new_database("postgresql")), "app", "ana", actor=actor, session_id="s1")


@contextmanager
def protocol(alias: str, file: Path) -> Iterator[Counter[str]]:
    """Counts the messages between this process and PostgreSQL, as libpq's own trace has them: `F Sync`, `B DataRow`."""
    found: Counter[str] = Counter()
    pgconn = connections[alias].connection.pgconn
    with file.open("w") as trace:
        pgconn.trace(trace.fileno())
        try:
            yield found
        finally:
            pgconn.untrace()
    for line in file.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) > 3:
            found[f"{fields[1]} {fields[3]}"] += 1


def _event(delta: dict[str, Any]) -> dict[str, Any]:
    return {"author": "agent", "invocation_id": "i", "actions": {"state_delta": delta}}


@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: "+".join(delta) or "no delta")
def test_an_append_is_one_round_trip_of_one_prepared_statement(
    ref: SessionRef, actor: Actor, tmp_path: Path, delta: dict[str, Any]
) -> None:
    for _ in range(WARM):
        append_event(ref, _event(delta), actor=actor)
    with protocol(ref.source, tmp_path / "trace") as messages:
        for _ in range(10):
            append_event(ref, _event(delta), actor=actor)
    assert messages["F Sync"] == messages["B ReadyForQuery"] == 10  # the times that the process waited for the server
    assert messages["F Bind"] == messages["F Execute"] == messages["B DataRow"] == 10
    assert messages["F Parse"] == messages["F Query"] == 0  # nothing is parsed again, and there is no BEGIN or COMMIT
    assert len(timeline.events(ref, actor=SYSTEM).rows) == WARM + 10


def test_an_append_that_compares_the_revision_is_one_round_trip_too(
    ref: SessionRef, actor: Actor, tmp_path: Path
) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    for _ in range(WARM):
        revision = append_event(ref, _event({"a": 1}), actor=actor, expected=revision).revision or 0
    with protocol(ref.source, tmp_path / "trace") as messages:
        for _ in range(10):
            revision = append_event(ref, _event({"a": 1}), actor=actor, expected=revision).revision or 0
    assert messages["F Sync"] == 10
    with pytest.raises(StaleSession):
        append_event(ref, _event({"a": 1}), actor=actor, expected=revision - 1)
    assert len(timeline.events(ref, actor=SYSTEM).rows) == WARM + 10


def test_django_sends_exactly_one_statement_for_an_append(ref: SessionRef, actor: Actor) -> None:
    statements: list[str] = []

    def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(sql)
        return execute(sql, params, many, context)

    with connections[ref.source].execute_wrapper(record):
        for delta in DELTAS:
            append_event(ref, _event(delta), actor=actor)
    assert len(statements) == len(DELTAS)
    assert all(sql.startswith("WITH") and "INSERT INTO events" in sql for sql in statements)
    # A statement for each set of scopes, and no more: a new text for every append would never be prepared.
    for delta in DELTAS:
        append_event(ref, _event(delta), actor=actor)
    assert len(set(statements)) == len(DELTAS)


def test_an_append_works_without_prepared_statements_for_poolers_that_have_none(
    new_database: Callable[[str], str],
    open_source: Callable[[str], str],
    settings: Settings,
    actor: Actor,
    tmp_path: Path,
) -> None:
    settings.PREPARED_STATEMENTS = False
    source = open_source(new_database("postgresql"))
    ref = create_session(source, "app", "ana", actor=actor, session_id="s1")
    for _ in range(WARM):
        append_event(ref, _event({"a": 1}), actor=actor)
    with protocol(source, tmp_path / "trace") as messages:
        for _ in range(10):
            append_event(ref, _event({"a": 1}), actor=actor)
    assert messages["F Sync"] == messages["F Parse"] == 10
    assert not any("_pg3_" in line for line in (tmp_path / "trace").read_text().splitlines())


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: "+".join(delta) or "no delta")
def test_an_append_to_sqlite_is_one_transaction_that_is_alone_in_the_file_from_its_start(
    source: str, form: str, actor: Actor, delta: dict[str, Any]
) -> None:
    ref = create_session(source, "app", "ana", actor=actor, session_id="s1")
    traced: list[str] = []
    sqlite = connections[source].connection
    sqlite.set_trace_callback(traced.append)
    append_event(ref, _event(delta), actor=actor)
    sqlite.set_trace_callback(None)
    # What a trigger does is told as the same statement once more.
    statements = [sql.split()[0] for sql, _again in itertools.groupby(traced)]
    assert statements[:2] == ["PRAGMA", "BEGIN"]  # how long to wait for the file, and the waiting itself
    assert statements.count("BEGIN") == 1
    assert statements[-2:] == ["INSERT", "COMMIT"]
    assert len(statements) <= 6 + 2 * 2, statements  # lock, read, update, insert; read and write each wider scope
