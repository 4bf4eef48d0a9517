"""Writes to a file as google-adk's SqliteSessionService does.

Up to 2.7, it merges deltas into state; since 2.8, it replaces.
"""

from __future__ import annotations

import json
import time
from typing import Any

from sessions_app.domain.event import new_id
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import STORED, Scope, split
from sessions_app.sources import database

_TABLES: dict[Scope, tuple[str, tuple[str, ...]]] = {
    "app": ("app_states", ("app_name",)),
    "user": ("user_states", ("app_name", "user_id")),
}
_REPLACED = """(SELECT json_group_object(key, CASE WHEN type IN ('object', 'array') THEN json(value)
    WHEN type IN ('true', 'false') THEN json(type) ELSE value END) FROM (
    SELECT key, value, type FROM json_each({delta}) UNION ALL
    SELECT key, value, type FROM json_each(state) WHERE key NOT IN (SELECT key FROM json_each({delta}))))"""


def _new_state(merges: bool, delta: str) -> str:
    return f"json_patch(state, {delta})" if merges else _REPLACED.format(delta=delta)


def create(ref: SessionRef, state: dict[str, Any], *, merges: bool = True) -> None:
    """Creates a session as google-adk does."""
    scoped = split(state)
    with database.using(ref.source) as db, db.cursor() as cursor:
        _share(cursor, ref, scoped, merges)
        now = time.time()
        cursor.execute(
            "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (%s, %s, %s, %s, %s, %s)",
            [*ref[1:], json.dumps(scoped.session), now, now],
        )


def append(ref: SessionRef, delta: dict[str, Any], *, merges: bool = True) -> str:
    """Appends an event as google-adk does, and returns its id."""
    scoped, event_id, now = split(delta), new_id(), time.time()
    event = {
        "id": event_id,
        "author": "agent",
        "invocation_id": "i",
        "actions": {"state_delta": delta},
        "timestamp": now,
    }
    with database.using(ref.source) as db, db.cursor() as cursor:
        _share(cursor, ref, scoped, merges)
        if scoped.session:
            cursor.execute(
                f"""WITH given (delta) AS (VALUES (%s)) UPDATE sessions
                SET state = {_new_state(merges, "(SELECT delta FROM given)")}, update_time = %s
                WHERE app_name = %s AND user_id = %s AND id = %s""",
                [json.dumps(scoped.session), now, *ref[1:]],
            )
        cursor.execute(
            """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
            VALUES (%s, %s, %s, %s, 'i', %s, %s)""",
            [event_id, *ref[1:], now, json.dumps(event)],
        )
    return event_id


def _share(cursor: Any, ref: SessionRef, scoped: Any, merges: bool) -> None:
    for scope in STORED:
        if scope == "session" or not scoped.scope(scope):
            continue
        table, names = _TABLES[scope]
        cursor.execute(
            f"""INSERT INTO {table} ({", ".join(names)}, state, update_time)
            VALUES ({", ".join(["%s"] * len(names))}, %s, %s) ON CONFLICT ({", ".join(names)})
            DO UPDATE SET state = {_new_state(merges, "excluded.state")}, update_time = excluded.update_time""",
            [*ref[1 : 1 + len(names)], json.dumps(scoped.scope(scope)), time.time()],
        )
