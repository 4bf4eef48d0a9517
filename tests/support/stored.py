"""Reads what is really in ADK's tables, without adkweb's own queries, and runs threads that write at the same time."""

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import connections

from sessions_app.domain.event import Event, delta_of, removed_by
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import Scope, State, fold, scope_of, split

TABLES = ("app_states", "user_states", "sessions", "events")

T = TypeVar("T")


def query(source: str, sql: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Returns the rows of a query."""
    with connections[source].cursor() as cursor:
        cursor.execute(sql, list(parameters))
        return list(cursor.fetchall())


def execute(source: str, sql: str, parameters: Iterable[Any] = ()) -> None:
    """Runs a statement, as another program would."""
    with connections[source].cursor() as cursor:
        cursor.execute(sql, list(parameters))


def overwrite_event(ref: SessionRef, event: Event) -> None:
    """Overwrites the data of the event with this id, as another program would."""
    data = [json.dumps(event), ref.session_id, event["id"]]
    execute(ref.source, "UPDATE events SET event_data = %s WHERE session_id = %s AND id = %s", data)


def everything(source: str) -> dict[str, list[tuple[Any, ...]]]:
    """Returns every row of every table, to show that nothing changed."""
    return {table: sorted(query(source, f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def counts(source: str) -> dict[str, int]:
    """Returns the number of rows in every table."""
    return {table: query(source, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def events_of(ref: SessionRef) -> list[tuple[int, Event]]:
    """Returns a session's events with their seqs, in append order."""
    return [(seq, event) for seq, of, event in stored_events(ref.source) if of == ref]


def stored_events(source: str, app_name: str = "") -> list[tuple[int, SessionRef, Event]]:
    """Returns all events, or those of an app, with their seqs and sessions, in append order."""
    seq = "seq" if connections[source].vendor == "postgresql" else "rowid"
    of_app, names = ("WHERE app_name = %s", [app_name]) if app_name else ("", [])
    columns = f"{seq}, app_name, user_id, session_id, event_data"
    rows = query(source, f"SELECT {columns} FROM events {of_app} ORDER BY {seq}", names)
    return [(number, SessionRef(source, *each), json.loads(data)) for number, *each, data in rows]


def state_of(ref: SessionRef) -> dict[Scope, State]:
    """Returns the stored state of the three scopes that a session sees."""
    return {
        "session": _one(ref.source, "sessions", ("app_name", "user_id", "id"), ref[1:]),
        "user": _one(ref.source, "user_states", ("app_name", "user_id"), ref[1:3]),
        "app": _one(ref.source, "app_states", ("app_name",), ref[1:2]),
    }


def assert_state_is_what_events_say(
    source: str, initial: dict[SessionRef, State] | None = None, app_name: str = ""
) -> None:
    """Asserts that every stored scope equals the fold, in append order, of the deltas of all sessions that share it.

    `initial` is the state that sessions were created with. With `app_name`, only this app is looked at.
    """
    given: dict[SessionRef, State] = initial or {}
    deltas = [(ref, delta_of(event), removed_by(event)) for _seq, ref, event in stored_events(source, app_name)]
    of_app, names_of_app = ("WHERE app_name = %s", [app_name]) if app_name else ("", [])
    for names in query(source, f"SELECT app_name, user_id, id FROM sessions {of_app}", names_of_app):
        ref = SessionRef(source, *names)
        for scope, stored in state_of(ref).items():
            length = {"session": 4, "user": 3, "app": 2}[scope]
            start: State = {}
            for other, state in given.items():
                start |= split(state).scope(scope) if other[:length] == ref[:length] else {}
            series = [
                (split(delta).scope(scope), [bare for s, bare in map(scope_of, removed) if s == scope])
                for other, delta, removed in deltas
                if other[:length] == ref[:length]
            ]
            folded = fold({}, [(start, ()), *series])
            assert equal(stored, folded), f"{scope} state of {ref}: {stored} is stored, the events say {folded}"


def in_threads(work: Iterable[Callable[[], T]]) -> list[T | Exception]:
    """Runs functions at the same time, each in its own thread. Returns their results or errors in order."""
    jobs = list(work)
    results: list[Any] = [None] * len(jobs)
    start = threading.Barrier(len(jobs))

    def run(place: int, job: Callable[[], T]) -> None:
        try:
            start.wait()
            results[place] = job()
        except Exception as error:
            results[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a writer hangs"
    return results


def _one(source: str, table: str, columns: tuple[str, ...], values: Iterable[str]) -> State:
    where = " AND ".join(f"{column} = %s" for column in columns)
    rows = query(source, f"SELECT state FROM {table} WHERE {where}", values)
    found: State = json.loads(rows[0][0]) if rows else {}
    return found


def as_they_happened(source: str) -> None:
    """Makes each event of an adopted source stored at the time that it says, as if its agent had run then."""
    if connections[source].vendor == "postgresql":
        execute(source, "UPDATE events SET written = to_timestamp((event_data ->> 'timestamp')::float)")
    else:
        at = "(SELECT json_extract(event_data, '$.timestamp') FROM events WHERE events.rowid = seq)"
        execute(source, f"UPDATE adkweb_written SET at = coalesce({at}, at)")
