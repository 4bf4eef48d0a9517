"""Where a session's stored state is not what its events say: an update that was lost, or a direct write.

Only the session's own keys: those of `app:` and `user:` are written from other sessions, too, some deleted meanwhile.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from . import sources
from .errors import NotFound
from .event_rows import as_object
from .events import delta_of, removed_by
from .keys import SessionKey
from .state import Change, State, apply, diff, scope_of, split
from .writes import IMPORTING

_FIRST_PAGE: Final = 32  # events; then as many as PAGE_LENGTH allows
_LARGEST_PAGE: Final = 500
_PAGE_LENGTH: Final = 1_000_000  # characters that a page of events aims at
_PLACE: Final = {"postgresql": "seq", "sqlite": "rowid"}


def drift(key: SessionKey) -> list[Change]:
    """The session keys that differ: `old` is what initial state and events make of them, `new` is what is stored.

    Of a session whose initial state was never recorded only the keys that its events write; of one that is being imported,
    or whose events have no places (PostgreSQL, not adopted), nothing. The session may be written to meanwhile: state and
    events are of one moment. Memory is that of a page of events. Raises NotFound, SourceError.
    """
    with sources.using(key.source) as db:
        if db.vendor == "postgresql" and not sources.is_adopted(key.source):
            return []
        stored, initial, last = _head(db, key)
        if stored == IMPORTING:
            return []
        folded = split(initial or {}).session
        written: set[str] = set()
        for event in _events(db, key, last):
            delta = split(delta_of(event)).session
            removed = [bare for scope, bare in map(scope_of, removed_by(event)) if scope == "session"]
            folded = apply(folded, delta, removed)
            written |= delta.keys()
    if initial is None:
        stored = {name: value for name, value in stored.items() if name in written}
    return diff(folded, stored)


def _head(db: BaseDatabaseWrapper, key: SessionKey) -> tuple[State, State | None, int | None]:
    """Stored state, initial state, and the place of the newest event; None where there is none."""
    place = _PLACE[db.vendor]
    with db.cursor() as cursor:
        cursor.execute(
            f"""SELECT state, {"initial_state" if sources.is_adopted(key.source) else "NULL"}, (SELECT {place} FROM events
                WHERE app_name = sessions.app_name AND user_id = sessions.user_id AND session_id = sessions.id
                ORDER BY {place} DESC LIMIT 1)
            FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s""",
            key[1:],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(f"Session {key.session_id} not found.")
    return _object(row[0]), None if row[1] is None else _object(row[1]), row[2]


def _events(db: BaseDatabaseWrapper, key: SessionKey, last: int | None) -> Iterator[dict[str, Any]]:
    place = _PLACE[db.vendor]
    after, size = -1, _FIRST_PAGE
    while last is not None:
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT {place}, event_data FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s
                AND {place} > %s AND {place} <= %s ORDER BY {place} LIMIT %s""",
                [*key[1:], after, last, size],
            )
            rows = cursor.fetchall()
        yield from (_object(text) for _number, text in rows)
        if len(rows) < size:
            return
        after, length = rows[-1][0], sum(len(text or "") for _number, text in rows)
        size = max(1, min(_LARGEST_PAGE, size * _PAGE_LENGTH // max(1, length)))


def _object(text: str | None) -> dict[str, Any]:
    try:
        return as_object(json.loads(text or "null"))
    except (ValueError, RecursionError):  # which `adkweb doctor` tells apart
        return {}
