"""Locks, reads and writes the rows of a session and its state, inside one transaction."""

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from ..domain.errors import Invalid, NotFound
from ..domain.event import ID_LENGTH, Event
from ..domain.json_values import check_name, dumps, equal
from ..domain.positions import BETWEEN
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Scope, State, apply
from ..domain.units import event_in_milliseconds
from ..models import keeps_milliseconds, read_instant
from ..sources import dialect
from . import commits


def note_place(cursor: Any, ref: SessionRef) -> None:
    """Records after which event the session was created, which is when its initial `user:` and `app:` keys were
    written.

    Call it while every lock is held, as when an event gets its number. There are BETWEEN numbers between two events;
    they give the order of the sessions created between them. On PostgreSQL, a number is never reused: if the newest
    events were deleted, sessions may have been created after them, and this one after those.
    """
    of = dialect.of(cursor.db)
    within = f"AND {{}} < first + {BETWEEN - 2}" if of.reuses_numbers else ""
    cursor.execute(
        f"""UPDATE sessions SET initial_place = (
            SELECT {of.greatest}(first,
                coalesce((SELECT max(initial_place) FROM sessions
                    WHERE initial_place >= first {within.format("initial_place")}), 0),
                coalesce((SELECT max(place) FROM adkweb_deleted WHERE place >= first {within.format("place")}), 0),
                coalesce((SELECT max(place) FROM adkweb_deleted_writes
                    WHERE place >= first {within.format("place")}), 0)) + 1
            FROM (SELECT (coalesce(max({of.seq}), 0) + 1) * {BETWEEN} AS first FROM events) AS newest)
        WHERE {SESSION}""",
        ref[1:],
    )


# --- Both databases ---------------------------------------------------------------------------------------------------


def transaction_on(db: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    """Returns a transaction of this source. On SQLite, which allows one writer, the threads of this process take turns.

    Left to SQLite, each thread would sleep and try again. That halves the speed, and unlucky threads would give up.
    """
    return commits.alone(db) if dialect.of(db).has_one_writer else transaction.atomic(using=db.alias)


SESSION: Final = "app_name = %s AND user_id = %s AND id = %s"
_SCOPE_TABLES: Final[dict[Scope, tuple[str, tuple[str, ...]]]] = {
    "user": ("user_states", ("app_name", "user_id")),
    "app": ("app_states", ("app_name",)),
}


def check_names(ref: SessionRef) -> None:
    """Raises NotFound for names that no column can hold. A driver would report them as an error of the source."""
    what = _("a name")  # looked up once: three times would slow an append noticeably
    try:
        for name in ref[1:]:
            check_name(name, what, ID_LENGTH)
    except Invalid as error:
        raise NotFound(error.message) from error


def lock_session(cursor: Any, ref: SessionRef) -> State:
    """Locks the session's row until the transaction ends, and returns its own state."""
    return stored_object(locked(cursor, ref))


def locked(cursor: Any, ref: SessionRef) -> Any:
    """Locks the session's row like `lock_session`, and returns the stored state without parsing it."""
    cursor.execute(f"SELECT state FROM sessions WHERE {SESSION} {dialect.of(cursor.db).for_update}", ref[1:])
    return (cursor.fetchone() or raise_not_found(ref))[0]


def raise_not_found(ref: SessionRef) -> NoReturn:
    """Raises NotFound with the session's name."""
    raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})


def revision_of(cursor: Any, ref: SessionRef) -> float:
    """Returns when a session last changed, in seconds since 1970."""
    cursor.execute(f"SELECT update_time FROM sessions WHERE {SESSION}", ref[1:])
    return read_instant(cursor.fetchone()[0])


def lock_scope(cursor: Any, ref: SessionRef, scope: Scope) -> State:
    """Locks the row of a scope until the transaction ends, and returns its state: {} if there is no row."""
    table, names = _SCOPE_TABLES[scope]
    where = " AND ".join(f"{name} = %s" for name in names)
    cursor.execute(
        f"SELECT state FROM {table} WHERE {where} {dialect.of(cursor.db).for_update}", ref[1 : 1 + len(names)]
    )
    row = cursor.fetchone()
    return {} if row is None else stored_object(row[0])


def merge(cursor: Any, ref: SessionRef, scope: Scope, delta: State, removed: Iterable[str], at: Any) -> None:
    """Applies a delta to the user's or the app's state. An empty delta only makes sure that the row exists."""
    table, names = _SCOPE_TABLES[scope]
    columns = ", ".join(names)
    values = ref[1 : 1 + len(names)]
    if not delta:
        resolve = "DO NOTHING"
    elif dialect.of(cursor.db).merges_states:
        resolve = f"({columns}) DO UPDATE SET state = t.state || EXCLUDED.state, update_time = EXCLUDED.update_time"
    else:
        delta = apply(lock_scope(cursor, ref, scope), delta, removed)
        resolve = f"({columns}) DO UPDATE SET state = EXCLUDED.state, update_time = EXCLUDED.update_time"
    text = json.dumps(delta)
    cursor.execute(
        f"""INSERT INTO {table} AS t ({columns}, state, update_time)
        VALUES ({", ".join(["%s"] * len(names))}, %s, %s) ON CONFLICT {resolve}""",
        [*values, text, at],
    )


def event_text(event: Event, db: BaseDatabaseWrapper) -> str:
    """Returns an event's JSON in the form that this source keeps."""
    kept = event_in_milliseconds(event) if keeps_milliseconds(db) else event
    text = dumps(kept)
    try:
        text.encode()
    except UnicodeEncodeError:  # the name of a key that it removes
        return json.dumps(kept)
    return text


def stored_object(stored: Any) -> dict[str, Any]:
    """Parses a stored state. Raises Invalid if it cannot be read, because overwriting it would lose it."""
    try:
        value = json.loads(stored) if isinstance(stored, str) else stored
    except (ValueError, RecursionError) as error:  # written by another program
        raise Invalid(_("Couldn't read the stored value, so nothing was written: %(why)s") % {"why": error}) from error
    return value if isinstance(value, dict) else {}


def same_values(a: Any, b: Any) -> bool:
    """Compares two values; ABSENT equals only itself."""
    return a is b if a is ABSENT or b is ABSENT else equal(a, b)
