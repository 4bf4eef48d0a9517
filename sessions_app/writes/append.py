"""THE WRITE PATH: the only code that appends an event to a session, no matter who asks and through which door.

`append_event` locks the session's row first. Then, if the delta touches them, it locks the user's row and the app's
row, always in this order, so that writers cannot deadlock. An append is one transaction: on PostgreSQL a single
statement and round trip, on SQLite an IMMEDIATE transaction that the appends of this process share (commits.py). A test
reads the code and checks that nothing outside this folder changes ADK's tables.
"""

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from django.db import DatabaseError, IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import approval
from ..access.actor import Actor
from ..access.shown import check_unmasked, shown
from ..domain.edit_note import NOTES, ORIGIN, RUN, check_no_note, run_of
from ..domain.errors import Conflict, Invalid, StaleSession
from ..domain.event import Event, check_event, delta_of, is_partial, removed_by, same
from ..domain.json_values import dumps
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, PREFIXES, Scope, State, apply, scope_of, split
from ..domain.units import event_in_seconds, whole_milliseconds
from ..models import Job, keeps_milliseconds, read_instant, stored_instant
from ..sources import database, registry
from . import commits
from .counted import counted
from .incomplete import MARK, check_complete, check_unmarked, incomplete
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
_STEP: Final = 1e-6  # seconds: a revision advances by at least this much, the resolution of the databases
_STEP_OF_JS: Final = 1e-3  # the resolution of adk-js

# Copies of sessions come through copies.py. “approved” is an edit that a second person applies (edits/proposal_job.py).
Origin = Literal["agent", "person", "approved"]
# An edit carries adkweb's note. The note on a fork's copy never comes through an append.
_REFUSED_NOTES: Final[dict[Origin, tuple[str, ...]]] = {"agent": NOTES, "person": (ORIGIN,), "approved": (ORIGIN,)}


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append: the event, its seq, and the session's revision after it.

    `seq` and `revision` are None for a partial event, which is not stored, and for an event that was already there.
    """

    event: Event
    seq: Seq | None = None
    revision: float | None = None


@counted
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

    An agent's event that carries adkweb's own notes is refused, no matter how it comes in; so is one that claims to be of a
    run that adkweb didn't start in this session. Pass `origin="person"` for
    an edit, which has such a note, and may need a second person: then Held is raised.

    `expected` is compared with the stored session under the lock. It is either the session's revision, or a mapping
    from full keys to the values that they must still have (ABSENT for a key that must not exist). With such a mapping,
    pass the revision as `revision`.

    A partial event is returned as it is and not stored. An event that is sent again changes nothing: the stored one is
    returned, even if the second copy has no timestamp. Raises Invalid, NotFound, NotAllowed, StaleSession (the revision
    differs), Conflict (values differ: `detail` has the keys that `changed`, and the `current` values; or another event
    has this id; or the session is still being copied or imported) and SourceError.
    """
    if is_partial(event):
        return Appended(dict(event))
    stored = check_append(ref, event, actor=actor, origin=origin)
    with database.writing(ref.source) as db:
        if keeps_milliseconds(db):
            stored["timestamp"] = whole_milliseconds(stored["timestamp"])
        append = _Append(ref, stored, expected, revision, event_text(stored, db), actor)
        try:
            appended = append.postgresql(db) if db.vendor == "postgresql" else commits.share(db, append.sqlite)
        except (IntegrityError, Conflict, StaleSession) as refused:
            # A caller that never got the answer sends the event again, expecting what it expected the first time.
            before = _stored_event(db, ref, stored["id"])
            if before is not None and event.get("timestamp") is None:
                stored["timestamp"] = before["timestamp"]
            # As the actor sees it: someone who can't see a value isn't told whether the one they send is the same.
            if before is not None and same(*(shown(each, actor, ref.app_name, "event") for each in (before, stored))):
                return Appended(shown(before, actor, ref.app_name, "event"))
            if before is not None or isinstance(refused, IntegrityError):
                raise Conflict(
                    _("This session already has an event with the id %(id)s.") % {"id": stored["id"]}
                ) from refused
            raise
    broadcast.tell("events", ref)
    return Appended(shown(appended.event, actor, ref.app_name, "event"), appended.seq, appended.revision)


def check_append(ref: SessionRef, event: Mapping[str, Any], *, actor: Actor, origin: Origin) -> Event:
    """Returns an event as `append_event` stores it. Raises what that raises for reasons that don't lie in the session."""
    actor.check_may("append", ref.source, ref.app_name)
    stored = check_event(event, newer=actor.is_agent_of(ref.app_name))
    check_no_note(stored, _REFUSED_NOTES[origin])
    _check_run(ref, stored)
    check_unmarked(delta_of(stored).keys() - removed_by(stored))
    check_unmasked(delta_of(stored), actor, ref.app_name)
    check_names(ref)
    if origin == "person":
        approval.check_event(ref.source, ref.app_name, stored, actor=actor)
    return stored


def _check_run(ref: SessionRef, event: Event) -> None:
    """Raises Invalid if an event claims to be of a run that adkweb didn't start in this session. Without adkweb's own
    database it may: then no page says whose run it was."""
    if not (run := run_of(event)):
        return
    where, names = registry.identity(ref.source), zip(("app_name", "user_id", "session_id"), ref[1:], strict=True)
    try:
        known = Job.objects.filter(kind="run", pk=uuid.UUID(hex=run), where=where, **dict(names)).exists()
    except ValueError:
        known = False
    except DatabaseError:
        return
    if not known:
        raise Invalid(_("custom_metadata.%(name)s: adkweb started no such run in this session") % {"name": RUN})


class _Append:
    """A checked event on its way into a session, with what its caller expects to find there."""

    def __init__(
        self,
        ref: SessionRef,
        event: Event,
        expected: float | Mapping[str, Any] | None,
        revision: float | None,
        text: str,
        actor: Actor,
    ) -> None:
        self.ref = ref
        self.actor = actor
        self.event = event
        self.values = expected if isinstance(expected, Mapping) else None
        self.revision = revision if isinstance(expected, Mapping) else expected
        self.text = text  # as the source keeps it
        self.delta = split(delta_of(event))
        self.removed: dict[Scope, list[str]] = {scope: [] for scope in PREFIXES}
        for scope, bare in map(scope_of, removed_by(event)):
            self.removed[scope].append(bare)

    def compare(self, cursor: Any, expected: Mapping[str, Any]) -> None:
        """Locks every row that the event will touch, and raises Conflict if a key no longer has its expected value."""
        touched = {scope_of(key)[0] for key in [*expected, *delta_of(self.event)]}
        states: dict[str, State] = {"session": lock_session(cursor, self.ref)}
        check_complete(states["session"])
        for scope in ("user", "app"):
            if scope in touched:
                # Make sure that the row exists: a missing row cannot be locked.
                merge(cursor, self.ref, scope, {}, (), stored_instant(time.time(), cursor.db))
                states[scope] = lock_scope(cursor, self.ref, scope)
        current = {key: states[scope].get(bare, ABSENT) for key in expected for scope, bare in [scope_of(key)]}
        if changed := [key for key, value in expected.items() if not same_values(current[key], value)]:
            raise Conflict(current=shown(current, self.actor, self.ref.app_name), changed=changed)

    def postgresql(self, db: BaseDatabaseWrapper) -> Appended:
        """Appends the event in one statement. Values, if any are expected, are compared first, in the same transaction.

        PostgreSQL takes the row locks in the order in which the parts of the statement depend on each other.
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
                check_complete(lock_session(cursor, self.ref))  # raises NotFound, too
                raise incomplete() if revision is None else StaleSession
        return Appended(self.event, seq=row[0], revision=read_instant(row[1]))

    def sqlite(self, db: BaseDatabaseWrapper) -> Appended:
        """Reads the state, merges the delta in Python and writes the result, while no other writer has the file.

        SQLite's own merge functions would round numbers and drop nulls.
        """
        cursor = commits.Cursor(db)
        if self.values is not None:
            self.compare(cursor, self.values)
        cursor.execute(f"SELECT state, update_time FROM sessions WHERE {SESSION}", self.ref[1:])
        state, current = cursor.fetchone() or raise_not_found(self.ref)
        check_complete(before := stored_object(state))
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
    """Returns the statement of one append, with only the parts that the event needs."""
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
    # The event gets its number once every lock is held, so `seq` also gives the order of writes to user and app state.
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
