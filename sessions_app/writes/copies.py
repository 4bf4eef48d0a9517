"""Stores sessions and state as another database had them."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import IntegrityError
from django.utils.translation import gettext as _

from .. import broadcast
from ..access.actor import Actor
from ..access.shown import check_unmasked
from ..domain.errors import AlreadyExists, Conflict
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Scope, State
from ..models import keeps_milliseconds, stored_instant
from ..sources import database, dialect
from .incomplete import IMPORTING, check_complete, is_untouched
from .rows import (
    SESSION,
    check_names,
    event_text,
    lock_scope,
    lock_session,
    merge,
    note_place,
    same_values,
    transaction_on,
)


class ImportedEvent(NamedTuple):
    """An event's row as another database had it; `text` is its JSON."""

    id: str
    invocation_id: str
    timestamp: float
    text: str


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session's row as another database had it, with its states as JSON.

    `initial_state` is None if it was never recorded. `begins_here` is True for a fork: adkweb makes it from a session
    of this source, and it writes no `user:` or `app:` key.
    """

    ref: SessionRef
    created: float
    updated: float
    state: str
    initial_state: str | None
    begins_here: bool = False


def import_session(
    session: ImportedSession, events: Sequence[ImportedEvent], *, actor: Actor, after: str | None, last: bool
) -> None:
    """Stores the next batch of an imported session's events unchanged and in this order, all or nothing.

    `after` is the id of the session's newest event so far. Pass None to create the session, and "" if it has no events
    yet. Until the `last` batch, the session's own state is IMPORTING. Raises AlreadyExists, Conflict (the session is
    not being imported, or someone wrote to it in the meantime), Invalid, NotFound, NotAllowed and SourceError.
    """
    actor.check_may("admin", session.ref.source, session.ref.app_name)
    ref = session.ref
    _check_states(session, actor)
    check_names(ref)
    try:
        with database.writing(ref.source) as db, transaction_on(db), db.cursor() as cursor:
            if after is None:
                _begin_import(cursor, session)
            elif not is_untouched(lock_session(cursor, ref)) or _newest_event(cursor, ref) != after:
                raise Conflict(_("Someone wrote to this session during the import."))
            if events:
                milliseconds = keeps_milliseconds(db)
                cursor.executemany(
                    """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
                    VALUES (%s, %s, %s, %s, %s, %s, %s)""",
                    [
                        (*ref[1:], event.id, event.invocation_id, stored_instant(event.timestamp, db), text)
                        for event in events
                        for text in [event_text(json.loads(event.text), db) if milliseconds else event.text]
                    ],
                )
            if last:
                cursor.execute(
                    f"UPDATE sessions SET state = %s, initial_state = %s, update_time = %s WHERE {SESSION}",
                    [session.state, session.initial_state, stored_instant(session.updated, db), *ref[1:]],
                )
                if not session.begins_here and database.keeps_creations(ref.source):
                    # Negative: the events up to here were written elsewhere, so they have no order among those of
                    # other sessions.
                    cursor.execute(
                        f"""UPDATE sessions SET initial_place = (SELECT -coalesce(max({dialect.of(db).seq}), 0) - 1
                            FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s) WHERE {SESSION}""",
                        [*ref[1:], *ref[1:]],
                    )
    except IntegrityError as error:
        raise Conflict(_("This session already has a different event with this id.")) from error
    broadcast.tell("events", ref)


def _check_states(session: ImportedSession, actor: Actor) -> None:
    states = [read_stored_or_none(text) for text in (session.state, session.initial_state)]
    check_complete(as_object(states[0]))  # with the mark in its last state, it would stay half-imported for good
    check_unmasked(states, actor, session.ref.app_name)


def import_state(ref: SessionRef, scope: Scope, state: State, *, actor: Actor, updated: float, overwrite: bool) -> None:
    """Stores the state of a user or an app as another database had it.

    If the row exists already, these keys get their values only with `overwrite`, and its other keys stay. Raises
    Invalid, NotFound, NotAllowed and SourceError.
    """
    actor.check_may("admin", ref.source, ref.app_name)
    check_unmasked(state, actor, ref.app_name)
    check_names(ref)
    with database.writing(ref.source) as db, transaction_on(db), db.cursor() as cursor:
        at = stored_instant(updated, db)
        merge(cursor, ref, scope, {}, (), at)
        made = cursor.rowcount == 1
        before = lock_scope(cursor, ref, scope)
        delta = {name: value for name, value in state.items() if not same_values(before.get(name, ABSENT), value)}
        if delta and (made or overwrite):
            merge(cursor, ref, scope, delta, (), at if made else stored_instant(time.time(), db))
            if database.keeps_creations(ref.source):  # no event explains it, as after a session was deleted
                whose = ref.user_id if scope == "user" else ""
                cursor.execute(
                    "INSERT INTO adkweb_deleted VALUES (%s, %s, 0) ON CONFLICT DO NOTHING", [ref.app_name, whose]
                )


def _begin_import(cursor: Any, session: ImportedSession) -> None:
    created = stored_instant(session.created, cursor.db)
    marked = json.dumps(IMPORTING)
    cursor.execute(
        """INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
        VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
        [*session.ref[1:], marked, session.initial_state, created, created],
    )
    if cursor.rowcount == 0:
        raise AlreadyExists(_("There's already a session “%(id)s”.") % {"id": session.ref.session_id})
    for scope in ("user", "app"):  # ADK needs both rows, as in create_session
        merge(cursor, session.ref, scope, {}, (), created)
    if session.begins_here and database.keeps_creations(session.ref.source):
        note_place(cursor, session.ref)


def _newest_event(cursor: Any, ref: SessionRef) -> str:
    """Returns the id of the event that was appended last, or "" if there is none."""
    cursor.execute(
        f"""SELECT id FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s
        ORDER BY {dialect.of(cursor.db).newest_first} LIMIT 1""",
        ref[1:],
    )
    row = cursor.fetchone()
    return row[0] if row else ""
