"""THE WRITE PATH: the only code that changes a session, whoever asks and through whichever door.

`append_event` locks the session's row first and then, where the delta touches them, the user's and the app's, always in
this order, so that writers cannot deadlock. Everything of one append is in one transaction: on PostgreSQL in one
statement and one round trip, on SQLite in an IMMEDIATE transaction, which this process's appends share (commits.py). A
test reads the code and finds no other way.
"""

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from . import broadcast, commits, sources
from .access import Actor
from .errors import AlreadyExists, Conflict, Invalid, NotFound, StaleSession
from .events import ID_LENGTH, Event, check_event, delta_of, is_partial, removed_by, same
from .keys import SessionKey
from .models import BETWEEN, keeps_milliseconds, read_instant, stored_instant
from .state import ABSENT, PREFIXES, Scope, State, apply, scope_of, split, without_temp
from .units import event_in_milliseconds, event_in_seconds, whole_milliseconds
from .values import check, check_name, dumps, equal

log = logging.getLogger("adkweb.writes")

_STEP: Final = 1e-6  # seconds; the smallest step by which a revision advances, which is the databases' own
_STEP_OF_JS: Final = 1e-3  # that adk-js sees


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append stored: the event, its place, and the session's revision after it.

    `seq` and `revision` are None for a partial event, which is not stored, and for one that was there already.
    """

    event: Event
    seq: int | None = None
    revision: float | None = None


def append_event(
    key: SessionKey,
    event: Mapping[str, Any],
    *,
    actor: Actor,
    expected: float | Mapping[str, Any] | None = None,
    revision: float | None = None,
) -> Appended:
    """Stores an event and applies its state delta, all or nothing.

    `expected` is what the caller believes and wants compared under the lock: the session's revision, or full keys with
    the values that they must still have (ABSENT for a key that must not exist); beside such values, `revision`.

    A partial event is returned untouched and not stored; the same event again changes nothing and returns the stored
    one. Raises Invalid, NotFound, NotAllowed, StaleSession (revision), Conflict (values, with the current ones in
    `detail`; another event under this id; the session is being copied or imported), SourceError.
    """
    if is_partial(event):
        return Appended(dict(event))
    actor.check_may("append", key.app_name)
    stored = check_event(event)
    _check_names(key)
    with sources.writing(key.source) as db:
        if keeps_milliseconds(db):
            stored["timestamp"] = whole_milliseconds(stored["timestamp"])
        append = _Append(key, stored, expected, revision, _event_text(stored, db))
        try:
            appended = append.postgresql(db) if db.vendor == "postgresql" else commits.share(db, append.sqlite)
        except (IntegrityError, Conflict, StaleSession) as refused:
            # A caller that never heard the answer sends the event again, with what it expected the first time.
            before = _stored_event(db, key, stored["id"])
            if before is not None and same(before, stored):
                return Appended(before)
            if before is not None or isinstance(refused, IntegrityError):
                raise Conflict(
                    _("Another event of this session has the id %(id)s.") % {"id": stored["id"]}
                ) from refused
            raise
    broadcast.tell("events", key)
    return appended


def create_session(
    source: str,
    app_name: str,
    user_id: str,
    *,
    actor: Actor,
    state: Mapping[str, Any] | None = None,
    session_id: str | None = None,
) -> SessionKey:
    """Creates a session with initial state, split by scope; without a session_id it gets a UUID.

    Initial state is not an event: it is kept in `sessions.initial_state`, with full keys. Raises AlreadyExists, Invalid,
    NotAllowed, SourceError.
    """
    actor.check_may("append", app_name)
    key = SessionKey(
        source,
        check_name(app_name, _("the app's name"), ID_LENGTH),
        check_name(user_id, _("the user's id"), ID_LENGTH),
        check_name((session_id or "").strip() or str(uuid.uuid4()), _("the session's id"), ID_LENGTH),
    )
    initial = without_temp(check(dict(state or {})))
    scoped = split(initial)
    with sources.writing(source) as db, _transaction(db), db.cursor() as cursor:
        now = stored_instant(time.time(), db)
        cursor.execute(
            """INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            [*key[1:], dumps(scoped.session), dumps(initial), now, now],
        )
        if cursor.rowcount == 0:
            raise AlreadyExists(_("The session %(id)s exists already.") % {"id": key.session_id})
        # ADK's DatabaseSessionService needs both rows to exist, empty or not.
        for scope in ("user", "app"):
            _merge(cursor, key, scope, scoped.scope(scope), (), now)
        if sources.keeps_creations(source):
            _note_place(cursor, key)
    broadcast.tell("events", key)
    return key


def _note_place(cursor: Any, key: SessionKey) -> None:
    """Notes after which event the session was made, which is when its initial `user:` and `app:` keys were written.

    When every lock is held, as an event is numbered; the numbers between two events tell the order of sessions made there.
    """
    greatest = "greatest" if cursor.db.vendor == "postgresql" else "max"
    cursor.execute(
        f"""UPDATE sessions SET initial_place = (
            SELECT {greatest}(first,
                coalesce((SELECT max(initial_place) FROM sessions
                    WHERE initial_place >= first AND initial_place < first + {BETWEEN - 2}), 0),
                coalesce((SELECT max(place) FROM adkweb_deleted
                    WHERE place >= first AND place < first + {BETWEEN - 2}), 0),
                coalesce((SELECT max(place) FROM adkweb_deleted_writes
                    WHERE place >= first AND place < first + {BETWEEN - 2}), 0)) + 1
            FROM (SELECT (coalesce(max({_PLACE[cursor.db.vendor]}), 0) + 1) * {BETWEEN} AS first FROM events) AS newest)
        WHERE {_SESSION}""",
        key[1:],
    )


_PLACE: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it


def delete_session(key: SessionKey, *, actor: Actor, revision: float | None = None) -> None:
    """Deletes a session with its events; app and user state stay. With `revision` only if nobody has written since it was
    that one. Raises NotFound, NotAllowed, StaleSession, SourceError.
    """
    actor.check_may("admin", key.app_name)
    _check_names(key)
    with sources.writing(key.source) as db, _transaction(db), db.cursor() as cursor:
        _locked(cursor, key)
        if revision not in (None, _revision(cursor, key)):
            raise StaleSession
        # In this order: a trigger of adopt.py reads what the events wrote, and they go with their session.
        cursor.execute("DELETE FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", key[1:])
        cursor.execute("DELETE FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s", key[1:])
    broadcast.tell("events", key)
    log.info("%s deleted the session %s", actor.name, "/".join(key))


# --- Import -----------------------------------------------------------------------------------------------------------

# The own state of a session that is being imported: its last batch puts the real one in its place. What reads the session
# meanwhile finds a shorter one, whole in itself.
IMPORTING: Final[State] = {"adkweb:importing": True}
_MARK: Final = next(iter(IMPORTING))  # its key, which stays where google-adk writes to the session


def is_half(state: Mapping[str, Any]) -> bool:
    """Whether a session with this own state is being copied or imported, or was when that stopped."""
    return _MARK in state


def check_whole(state: Mapping[str, Any]) -> None:
    """Raises Conflict for the own state of a session that is being copied or imported: nothing is written to one."""
    if is_half(state):
        raise _half_made()


def _half_made() -> Conflict:
    return Conflict(_("This session is being copied or imported; it can be written to when that is done."))


class ImportedEvent(NamedTuple):
    """An event's row as another store had it; `text` is its JSON."""

    id: str
    invocation_id: str
    timestamp: float
    text: str


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session's row as another store had it, states as JSON; `initial_state` None where it was never recorded.

    `begins_here`: it is made by adkweb from what stands in this source (a fork), and writes no `user:` or `app:` key.
    """

    key: SessionKey
    created: float
    updated: float
    state: str
    initial_state: str | None
    begins_here: bool = False


def import_session(
    session: ImportedSession, events: Sequence[ImportedEvent], *, actor: Actor, after: str | None, last: bool
) -> None:
    """Stores the next events of an imported session as they are, in this order, all or nothing.

    `after` is the id of the event that must stand last before them: None makes the session, "" is for none yet. Until the
    `last` batch the session's own state is IMPORTING. Raises AlreadyExists, Conflict (it is not being imported, or was
    written to meanwhile), Invalid, NotFound, NotAllowed, SourceError.
    """
    actor.check_may("admin", session.key.app_name)
    key = session.key
    _check_names(key)
    try:
        with sources.writing(key.source) as db, _transaction(db), db.cursor() as cursor:
            if after is None:
                _begin_import(cursor, session)
            elif _lock_session(cursor, key) != IMPORTING or _newest_event(cursor, key) != after:
                raise Conflict(_("Somebody wrote to this session while it was imported."))
            if events:
                milliseconds = keeps_milliseconds(db)
                cursor.executemany(
                    """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
                    VALUES (%s, %s, %s, %s, %s, %s, %s)""",
                    [
                        (*key[1:], event.id, event.invocation_id, stored_instant(event.timestamp, db), text)
                        for event in events
                        for text in [_event_text(json.loads(event.text), db) if milliseconds else event.text]
                    ],
                )
            if last:
                cursor.execute(
                    f"UPDATE sessions SET state = %s, initial_state = %s, update_time = %s WHERE {_SESSION}",
                    [session.state, session.initial_state, stored_instant(session.updated, db), *key[1:]],
                )
                if not session.begins_here and sources.keeps_creations(key.source):
                    # Negative: up to here its events were written elsewhere, in no order with those of other sessions.
                    cursor.execute(
                        f"""UPDATE sessions SET initial_place = (SELECT -coalesce(max({_PLACE[db.vendor]}), 0) - 1
                            FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s) WHERE {_SESSION}""",
                        [*key[1:], *key[1:]],
                    )
    except IntegrityError as error:
        raise Conflict(_("Another event of this session has the same id.")) from error
    broadcast.tell("events", key)


def import_state(key: SessionKey, scope: Scope, state: State, *, actor: Actor, updated: float, overwrite: bool) -> None:
    """Makes the row of a user's or an app's state, as another store had it; one that is there gets these keys' values
    only to `overwrite`, and keeps its other keys. Raises Invalid, NotFound, NotAllowed, SourceError.
    """
    actor.check_may("admin", key.app_name)
    _check_names(key)
    with sources.writing(key.source) as db, _transaction(db), db.cursor() as cursor:
        at = stored_instant(updated, db)
        _merge(cursor, key, scope, {}, (), at)
        made = cursor.rowcount == 1
        before = _lock_scope(cursor, key, scope)
        delta = {name: value for name, value in state.items() if not _equal(before.get(name, ABSENT), value)}
        if delta and (made or overwrite):
            _merge(cursor, key, scope, delta, (), at if made else stored_instant(time.time(), db))
            if sources.keeps_creations(key.source):  # nothing tells what wrote it, as of a session that is gone
                whose = key.user_id if scope == "user" else ""
                cursor.execute(
                    "INSERT INTO adkweb_deleted VALUES (%s, %s, 0) ON CONFLICT DO NOTHING", [key.app_name, whose]
                )


def _begin_import(cursor: Any, session: ImportedSession) -> None:
    created = stored_instant(session.created, cursor.db)
    marked = json.dumps(IMPORTING)
    cursor.execute(
        """INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
        VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
        [*session.key[1:], marked, session.initial_state, created, created],
    )
    if cursor.rowcount == 0:
        raise AlreadyExists(_("The session %(id)s exists already.") % {"id": session.key.session_id})
    for scope in ("user", "app"):  # as for a session that is created
        _merge(cursor, session.key, scope, {}, (), created)
    if session.begins_here and sources.keeps_creations(session.key.source):
        _note_place(cursor, session.key)


def _newest_event(cursor: Any, key: SessionKey) -> str:
    """The id of the event that was appended last; empty for none."""
    place = "seq" if cursor.db.vendor == "postgresql" else "rowid"
    cursor.execute(
        f"""SELECT id FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s
        ORDER BY {place} DESC LIMIT 1""",
        key[1:],
    )
    row = cursor.fetchone()
    return row[0] if row else ""


class _Append:
    """One checked event on its way into one session, and what its caller expects there."""

    def __init__(
        self,
        key: SessionKey,
        event: Event,
        expected: float | Mapping[str, Any] | None,
        revision: float | None,
        text: str,
    ) -> None:
        self.key = key
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
        states: dict[str, State] = {"session": _lock_session(cursor, self.key)}
        check_whole(states["session"])
        for scope in ("user", "app"):
            if scope in touched:
                # A row that is not there cannot be locked.
                _merge(cursor, self.key, scope, {}, (), stored_instant(time.time(), cursor.db))
                states[scope] = _lock_scope(cursor, self.key, scope)
        current = {key: states[scope].get(bare, ABSENT) for key in expected for scope, bare in [scope_of(key)]}
        if not all(_equal(current[key], value) for key, value in expected.items()):
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
            "app_name": self.key.app_name,
            "user_id": self.key.user_id,
            "session_id": self.key.session_id,
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
                check_whole(_lock_session(cursor, self.key))  # raises NotFound, too
                raise _half_made() if revision is None else StaleSession
        return Appended(self.event, seq=row[0], revision=read_instant(row[1]))

    def sqlite(self, db: BaseDatabaseWrapper) -> Appended:
        """Read, merge, write, alone in the file: SQLite's own merge functions would round numbers and drop nulls."""
        cursor = commits.Cursor(db)
        if self.values is not None:
            self.compare(cursor, self.values)
        cursor.execute(f"SELECT state, update_time FROM sessions WHERE {_SESSION}", self.key[1:])
        state, current = cursor.fetchone() or _no(self.key)
        check_whole(before := _object(state))
        current = read_instant(current)
        if self.revision is not None and self.revision != current:
            raise StaleSession
        at = stored_instant(max(self.event["timestamp"], current + _step(db)), db)
        if self.delta.session:
            state = json.dumps(apply(before, self.delta.session, self.removed["session"]))
        cursor.execute(f"UPDATE sessions SET state = %s, update_time = %s WHERE {_SESSION}", [state, at, *self.key[1:]])
        for scope in ("user", "app"):
            if delta := self.delta.scope(scope):
                _merge(cursor, self.key, scope, delta, self.removed[scope], at)
        cursor.execute(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            VALUES (%s, %s, %s, %s, %s, %s, %s)""",
            [
                *self.key[1:],
                self.event["id"],
                self.event["invocation_id"],
                stored_instant(self.event["timestamp"], db),
                self.text,
            ],
        )
        return Appended(self.event, seq=cursor.lastrowid, revision=read_instant(at))


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
                AND NOT jsonb_exists(state, '{_MARK}')
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


# --- Both databases ---------------------------------------------------------------------------------------------------


def _transaction(db: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    """A transaction of this source; on SQLite, which has one writer at a time, in turn with this process's threads.

    Left to SQLite they would each sleep and try again, at half the speed, and the unlucky ones would give up.
    """
    return commits.alone(db) if db.vendor == "sqlite" else transaction.atomic(using=db.alias)


_SESSION: Final = "app_name = %s AND user_id = %s AND id = %s"
_SCOPE_TABLES: Final[dict[Scope, tuple[str, tuple[str, ...]]]] = {
    "user": ("user_states", ("app_name", "user_id")),
    "app": ("app_states", ("app_name",)),
}


def _check_names(key: SessionKey) -> None:
    """Raises NotFound for names that no column can hold; a driver would call them a fault of the source."""
    what = _("a name")  # once: a look-up is felt in an append
    try:
        for name in key[1:]:
            check_name(name, what, ID_LENGTH)
    except Invalid as error:
        raise NotFound(error.message) from error


def _lock_session(cursor: Any, key: SessionKey) -> State:
    """The session's own state, its row locked until the transaction ends."""
    return _object(_locked(cursor, key))


def _locked(cursor: Any, key: SessionKey) -> Any:
    """The same as it is stored, whatever that is."""
    cursor.execute(f"SELECT state FROM sessions WHERE {_SESSION} {_for_update(cursor)}", key[1:])
    return (cursor.fetchone() or _no(key))[0]


def _no(key: SessionKey) -> NoReturn:
    raise NotFound(_("Session %(id)s not found.") % {"id": key.session_id})


def _revision(cursor: Any, key: SessionKey) -> float:
    cursor.execute(f"SELECT update_time FROM sessions WHERE {_SESSION}", key[1:])
    return read_instant(cursor.fetchone()[0])


def _lock_scope(cursor: Any, key: SessionKey, scope: Scope) -> State:
    """The state of a scope, its row locked until the transaction ends; empty where there is no row."""
    table, names = _SCOPE_TABLES[scope]
    where = " AND ".join(f"{name} = %s" for name in names)
    cursor.execute(f"SELECT state FROM {table} WHERE {where} {_for_update(cursor)}", key[1 : 1 + len(names)])
    row = cursor.fetchone()
    return {} if row is None else _object(row[0])


def _merge(cursor: Any, key: SessionKey, scope: Scope, delta: State, removed: Iterable[str], at: Any) -> None:
    """Applies a delta to the user's or the app's state; an empty one only sees to it that the row exists."""
    table, names = _SCOPE_TABLES[scope]
    columns = ", ".join(names)
    values = key[1 : 1 + len(names)]
    if not delta:
        resolve = "DO NOTHING"
    elif cursor.db.vendor == "postgresql":
        resolve = f"({columns}) DO UPDATE SET state = t.state || EXCLUDED.state, update_time = EXCLUDED.update_time"
    else:
        delta = apply(_lock_scope(cursor, key, scope), delta, removed)
        resolve = f"({columns}) DO UPDATE SET state = EXCLUDED.state, update_time = EXCLUDED.update_time"
    text = json.dumps(delta)
    cursor.execute(
        f"""INSERT INTO {table} AS t ({columns}, state, update_time)
        VALUES ({", ".join(["%s"] * len(names))}, %s, %s) ON CONFLICT {resolve}""",
        [*values, text, at],
    )


def _stored_event(db: BaseDatabaseWrapper, key: SessionKey, event_id: str) -> Event | None:
    with db.cursor() as cursor:
        cursor.execute(
            "SELECT event_data FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s AND id = %s",
            [*key[1:], event_id],
        )
        row = cursor.fetchone()
    return None if row is None else event_in_seconds(_object(row[0]))


def _step(db: BaseDatabaseWrapper) -> float:
    return _STEP_OF_JS if keeps_milliseconds(db) else _STEP


def _event_text(event: Event, db: BaseDatabaseWrapper) -> str:
    """An event's JSON as this source keeps it."""
    return dumps(event_in_milliseconds(event) if keeps_milliseconds(db) else event)


def _for_update(cursor: Any) -> str:
    return "FOR UPDATE" if cursor.db.vendor == "postgresql" else ""


def _object(stored: Any) -> dict[str, Any]:
    try:
        value = json.loads(stored) if isinstance(stored, str) else stored
    except (ValueError, RecursionError) as error:  # another program's; written back, it would be lost
        raise Invalid(
            _("What is stored here cannot be read, so nothing was written: %(why)s") % {"why": error}
        ) from error
    return value if isinstance(value, dict) else {}


def _equal(a: Any, b: Any) -> bool:
    return a is b if a is ABSENT or b is ABSENT else equal(a, b)
