"""THE WRITE PATH: the only code that changes a session, whoever asks and through whichever door.

`append_event` locks the session's row first and then, where the delta touches them, the user's and the app's, always in
this order, so that writers cannot deadlock. Everything of one append is in one transaction: on PostgreSQL in one
statement and one round trip, on SQLite in an IMMEDIATE transaction, which this process's appends share (commits.py). A
test reads the code and finds no other way.
"""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from .. import broadcast
from ..access.actor import Actor
from ..domain.edit_note import NOTES, ORIGIN, check_no_note
from ..domain.event import Event, check_event, delta_of, is_partial, removed_by, same
from ..domain.json_values import dumps
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, PREFIXES, Scope, State, apply, scope_of, split
from ..domain.units import event_in_seconds, whole_milliseconds
from ..errors import Conflict, StaleSession
from ..models import keeps_milliseconds, read_instant, stored_instant
from ..sources import database
from . import commits
from .half_made import MARK, check_whole, half_made
from .rows import (
    SESSION,
    check_names,
    event_text,
    lock_scope,
    lock_session,
    merge,
    raise_not_found,
    same_values,
    stored_object,
)

log = logging.getLogger("adkweb.writes")
_STEP: Final = 1e-6  # seconds; the smallest step by which a revision advances, which is the databases' own
_STEP_OF_JS: Final = 1e-3  # that adk-js sees

Origin = Literal["agent", "person"]  # copies of sessions come through copies.py
# An edit has adkweb's note; the note of a fork's copy comes with no append at all.
_REFUSED_NOTES: Final[dict[Origin, tuple[str, ...]]] = {"agent": NOTES, "person": (ORIGIN,)}


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append stored: the event, its place, and the session's revision after it.

    `seq` and `revision` are None for a partial event, which is not stored, and for one that was there already.
    """

    event: Event
    seq: Seq | None = None
    revision: float | None = None


def append_event(
    ref: SessionRef,
    event: Mapping[str, Any],
    *,
    actor: Actor,
    origin: Origin = "agent",
    expected: float | Mapping[str, Any] | None = None,
    revision: float | None = None,
) -> Appended:
    """Stores an event and applies its state delta, all or nothing.

    An agent's event that carries adkweb's own notes is refused, whichever door it comes through. Pass `origin="person"`
    for an edit, which has such a note.

    `expected` is what the caller believes and wants compared under the lock: the session's revision, or full keys with
    the values that they must still have (ABSENT for a key that must not exist); beside such values, `revision`.

    A partial event is returned untouched and not stored; the same event again changes nothing and returns the stored
    one, and so does one that left its time to the server. Raises Invalid, NotFound, NotAllowed, StaleSession (revision),
    Conflict (values, with the current ones in `detail`; another event under this id; the session is being copied or
    imported), SourceError.
    """
    if is_partial(event):
        return Appended(dict(event))
    actor.check_may("append", ref.app_name)
    stored = check_event(event)
    check_no_note(stored, _REFUSED_NOTES[origin])
    check_names(ref)
    with database.writing(ref.source) as db:
        if keeps_milliseconds(db):
            stored["timestamp"] = whole_milliseconds(stored["timestamp"])
        append = _Append(ref, stored, expected, revision, event_text(stored, db))
        try:
            appended = append.postgresql(db) if db.vendor == "postgresql" else commits.share(db, append.sqlite)
        except (IntegrityError, Conflict, StaleSession) as refused:
            # A caller that never heard the answer sends the event again, with what it expected the first time.
            before = _stored_event(db, ref, stored["id"])
            if before is not None and event.get("timestamp") is None:
                stored["timestamp"] = before["timestamp"]
            if before is not None and same(before, stored):
                return Appended(before)
            if before is not None or isinstance(refused, IntegrityError):
                raise Conflict(
                    _("Another event of this session has the id %(id)s.") % {"id": stored["id"]}
                ) from refused
            raise
    broadcast.tell("events", ref)
    return appended


class _Append:
    """One checked event on its way into one session, and what its caller expects there."""

    def __init__(
        self,
        ref: SessionRef,
        event: Event,
        expected: float | Mapping[str, Any] | None,
        revision: float | None,
        text: str,
    ) -> None:
        self.ref = ref
        self.event = event
        self.values = expected if isinstance(expected, Mapping) else None
        self.revision = revision if isinstance(expected, Mapping) else expected
        self.text = text  # as the source keeps it
        self.delta = split(delta_of(event))
        self.removed: dict[Scope, list[str]] = {scope: [] for scope in PREFIXES}
        for scope, bare in map(scope_of, removed_by(event)):
            self.removed[scope].append(bare)

    def compare(self, cursor: Any, expected: Mapping[str, Any]) -> None:
        """Locks everything that the event will touch, and raises Conflict where a key has another value by now."""
        touched = {scope_of(key)[0] for key in [*expected, *delta_of(self.event)]}
        states: dict[str, State] = {"session": lock_session(cursor, self.ref)}
        check_whole(states["session"])
        for scope in ("user", "app"):
            if scope in touched:
                # A row that is not there cannot be locked.
                merge(cursor, self.ref, scope, {}, (), stored_instant(time.time(), cursor.db))
                states[scope] = lock_scope(cursor, self.ref, scope)
        current = {key: states[scope].get(bare, ABSENT) for key in expected for scope, bare in [scope_of(key)]}
        if not all(same_values(current[key], value) for key, value in expected.items()):
            raise Conflict(current=current)

    def postgresql(self, db: BaseDatabaseWrapper) -> Appended:
        """One statement, after a comparison of values in a transaction with it: the row locks are taken in the order in
        which its parts depend on each other.
        """
        if self.values is None:
            return self._statement(db)
        with transaction.atomic(using=db.alias):
            with db.cursor() as cursor:
                self.compare(cursor, self.values)
            return self._statement(db)

    def _statement(self, db: BaseDatabaseWrapper) -> Appended:
        session, user, app = bool(self.delta.session), bool(self.delta.user), bool(self.delta.app)
        revision = self.revision
        statement = _append_statement(session=session, user=user, app=app, revision=revision is not None)
        parameters: dict[str, Any] = {
            "app_name": self.ref.app_name,
            "user_id": self.ref.user_id,
            "session_id": self.ref.session_id,
            "id": self.event["id"],
            "invocation_id": self.event["invocation_id"],
            "at": stored_instant(self.event["timestamp"], db),
            "step": _step(db),
            "event": self.text,
        }
        if session:
            parameters |= {"session": dumps(self.delta.session), "session_removed": self.removed["session"]}
        if user:
            parameters |= {"user": dumps(self.delta.user), "user_removed": self.removed["user"]}
        if app:
            parameters |= {"app": dumps(self.delta.app), "app_removed": self.removed["app"]}
        if revision is not None:
            parameters["revision"] = stored_instant(revision, db)
        with db.cursor() as cursor:
            cursor.execute(statement, parameters)
            row = cursor.fetchone()
            if row is None:
                check_whole(lock_session(cursor, self.ref))  # raises NotFound, too
                raise half_made() if revision is None else StaleSession
        return Appended(self.event, seq=row[0], revision=read_instant(row[1]))

    def sqlite(self, db: BaseDatabaseWrapper) -> Appended:
        """Read, merge, write, alone in the file: SQLite's own merge functions would round numbers and drop nulls."""
        cursor = commits.Cursor(db)
        if self.values is not None:
            self.compare(cursor, self.values)
        cursor.execute(f"SELECT state, update_time FROM sessions WHERE {SESSION}", self.ref[1:])
        state, current = cursor.fetchone() or raise_not_found(self.ref)
        check_whole(before := stored_object(state))
        current = read_instant(current)
        if self.revision is not None and self.revision != current:
            raise StaleSession
        at = stored_instant(max(self.event["timestamp"], current + _step(db)), db)
        if self.delta.session:
            state = json.dumps(apply(before, self.delta.session, self.removed["session"]))
        cursor.execute(f"UPDATE sessions SET state = %s, update_time = %s WHERE {SESSION}", [state, at, *self.ref[1:]])
        for scope in ("user", "app"):
            if delta := self.delta.scope(scope):
                merge(cursor, self.ref, scope, delta, self.removed[scope], at)
        cursor.execute(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            VALUES (%s, %s, %s, %s, %s, %s, %s)""",
            [
                *self.ref[1:],
                self.event["id"],
                self.event["invocation_id"],
                stored_instant(self.event["timestamp"], db),
                self.text,
            ],
        )
        return Appended(self.event, seq=Seq(cursor.lastrowid or 0), revision=read_instant(at))


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@cache
def _append_statement(*, session: bool, user: bool, app: bool, revision: bool) -> str:
    """The statement of one append, with only the parts that this kind of event needs."""
    parts = [
        f"""s AS (
            UPDATE sessions SET
                {"state = (state || %(session)s::jsonb) - %(session_removed)s::text[]," if session else ""}
                update_time = greatest(%(at)s::timestamp, update_time + %(step)s * interval '1 second')
            WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(session_id)s
                AND NOT jsonb_exists(state, '{MARK}')
                {"AND update_time = %(revision)s::timestamp" if revision else ""}
            RETURNING update_time)"""
    ]
    if user:
        parts.append(
            """u AS (
            INSERT INTO user_states AS t (app_name, user_id, state, update_time)
            SELECT %(app_name)s, %(user_id)s, %(user)s::jsonb - %(user_removed)s::text[], update_time FROM s
            ON CONFLICT (app_name, user_id) DO UPDATE
            SET state = (t.state || %(user)s::jsonb) - %(user_removed)s::text[], update_time = EXCLUDED.update_time
            RETURNING update_time)"""
        )
    if app:
        parts.append(
            f"""a AS (
            INSERT INTO app_states AS t (app_name, state, update_time)
            SELECT %(app_name)s, %(app)s::jsonb - %(app_removed)s::text[], update_time FROM {"u" if user else "s"}
            ON CONFLICT (app_name) DO UPDATE
            SET state = (t.state || %(app)s::jsonb) - %(app_removed)s::text[], update_time = EXCLUDED.update_time
            RETURNING update_time)"""
        )
    # The event is numbered when every lock is held, so that `seq` tells the order of writes to the user and the app too.
    last = "a" if app else "u" if user else "s"
    return f"""WITH {", ".join(parts)}
        INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT %(app_name)s, %(user_id)s, %(session_id)s, %(id)s, %(invocation_id)s, %(at)s::timestamp, %(event)s::jsonb
        FROM {last} RETURNING seq, (SELECT update_time FROM s)"""


def _stored_event(db: BaseDatabaseWrapper, ref: SessionRef, event_id: str) -> Event | None:
    with db.cursor() as cursor:
        cursor.execute(
            "SELECT event_data FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s AND id = %s",
            [*ref[1:], event_id],
        )
        row = cursor.fetchone()
    return None if row is None else event_in_seconds(stored_object(row[0]))


def _step(db: BaseDatabaseWrapper) -> float:
    return _STEP_OF_JS if keeps_milliseconds(db) else _STEP
