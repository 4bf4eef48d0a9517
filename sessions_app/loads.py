"""A session whole, as an agent loads it: merged state, and its events as they are stored, unparsed.

One statement reads all of it, so that state, revision and events are of one moment: an agent that goes on from here misses
nothing and sees nothing twice.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as _

from . import sources
from .errors import Invalid, NotFound
from .event_rows import as_object, listed
from .gathering import each_row
from .keys import SessionKey
from .models import read_instant, stored_instant
from .paging import Page, read_cursor, write_cursor
from .state import Scoped
from .units import text_in_seconds
from .values import stored
from .weights import LARGE, weight

_STATE: Final = 3 * LARGE  # what a scope's state may weigh that a request loads
PAGE: Final = 1_000  # events read at once where they are streamed, or fewer that weigh as much as LARGE


class StoredEvent(NamedTuple):
    """An event's row; `text` is its JSON, in which the columns' values may be missing."""

    text: str
    id: str
    invocation_id: str
    timestamp: float
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session at one moment; `seq` is the place of its newest event, loaded or not: 0 for none, None for not asked."""

    key: SessionKey
    state: Scoped
    created: float
    revision: float
    seq: int | None
    events: list[StoredEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session stands: its newest event's id, and the place of the event that was asked about; None for none."""

    created: float
    revision: float
    newest: str | None
    seq: int | None


def load(
    key: SessionKey,
    *,
    newest: int | None = None,
    since: float | None = None,
    after: int | None = None,
    most: int | None = None,
) -> StoredSession | None:
    """A session with its events in append order, or None where there is no such session.

    Of the events only the `newest` so many, those with a timestamp of `since` or later, those after the place `after`.
    Raises Invalid for a state that weighs more than `most`.
    """
    with sources.using(key.source) as db:
        place, order = _order(key.source, db.vendor)
        only = f"AND timestamp >= {_AT}" if since is not None else ""
        only += f" AND {place} > %(after)s" if after is not None else ""
        limit = "LIMIT %(newest)s" if newest is not None else ""
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT 0, s.state{_TEXT[db.vendor]}, a.state{_TEXT[db.vendor]}, u.state{_TEXT[db.vendor]},
                    s.create_time, s.update_time, (SELECT {place} FROM events WHERE {_EVENTS} ORDER BY {order} LIMIT 1)
                FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
                LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
                WHERE s.app_name = %(app)s AND s.user_id = %(user)s AND s.id = %(session)s
                UNION ALL SELECT * FROM (
                    SELECT 1, event_data{_TEXT[db.vendor]}, id, invocation_id, timestamp, timestamp, {place}
                    FROM events WHERE {_EVENTS} {only} ORDER BY {order} {limit}) AS loaded""",
                {
                    **_names(key),
                    **({} if since is None else {"since": stored_instant(since, db)}),
                    **({} if after is None else {"after": after}),
                    **({} if newest is None else {"newest": newest}),
                },
            )
            rows = cursor.fetchall()
    head = next((row for row in rows if row[0] == 0), None)
    if head is None:
        return None
    events = [row for row in rows if row[0] == 1]
    events.sort(key=lambda row: row[6] or (row[4], row[2]))
    return StoredSession(
        key,
        Scoped(session=_state(head[1], most), app=_state(head[2], most), user=_state(head[3], most)),
        read_instant(head[4]),
        read_instant(head[5]),
        head[6] or 0,
        [_event(row[1:5] + row[6:]) for row in events],
    )


def stream(
    key: SessionKey, *, newest: int | None = None, since: float | None = None, after: int | None = None
) -> tuple[StoredSession, Iterator[list[StoredEvent]]] | None:
    """As `load`, its events by page: memory is that of a page, and nothing is held open while a slow reader takes them.

    The session is of one moment, and so are its events: those up to the newest one at that moment, which never change.
    Raises NotFound between two pages where it was deleted, so that nobody takes its beginning for all of it.
    """
    sources.get(key.source)
    if newest is not None or not sources.is_numbered(key.source):  # few, or without places to page by
        found = load(key, newest=newest, since=since, after=after, most=_STATE)
        return None if found is None else (found, iter([found.events]))
    found = load(key, newest=0, most=_STATE)
    return None if found is None else (found, _pages(key, found.seq or 0, since, after or 0))


def _pages(key: SessionKey, last: int, since: float | None, after: int) -> Iterator[list[StoredEvent]]:
    while after < last:
        with sources.using(key.source) as db:
            seq, _order_by = _order(key.source, db.vendor)
            only = "AND timestamp >= %s" if since is not None else ""
            moment = [stored_instant(since, db)] if since is not None else []
            statement = f"""SELECT event_data{_TEXT[db.vendor]}, id, invocation_id, timestamp, {seq} FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s {only} AND {seq} > %s AND {seq} <= %s
                ORDER BY {seq} LIMIT {PAGE}"""
            rows, left = [], LARGE
            with closing(each_row(key.source, statement, [*key[1:], *moment, after, last])) as found:
                for row in found:
                    rows.append(row)
                    left -= len(row[0] or "")
                    if left < 0:
                        break
        if not rows:
            if since is None or place(key) is None:
                raise NotFound(_("The session was deleted while it was read."))
            return
        yield [_event(row) for row in rows]
        after = rows[-1][-1]


def _event(row: tuple[Any, ...]) -> StoredEvent:
    text, event_id, invocation_id, timestamp, seq = row
    at = read_instant(timestamp)
    return StoredEvent(text_in_seconds(text or "{}", at), event_id, invocation_id, at, seq)


def load_all(source: str, app_name: str, user_id: str | None = None, *, hidden: bool = False) -> list[StoredSession]:
    """Every session of an app, or of one user, without events; the one updated longest ago first, which is ADK's order.

    `hidden`: also those of `own_session`.
    """
    return load_page(source, app_name, user_id, hidden=hidden).rows


def load_page(
    source: str,
    app_name: str,
    user_id: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    *,
    hidden: bool = False,
) -> Page[StoredSession]:
    """As `load_all`, by page: a session that is updated meanwhile comes again at the end, and none is left out."""
    with sources.using(source) as db, db.cursor() as cursor:

        def rows(columns: str, table: str, tail: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
            cursor.execute(f"SELECT {columns} FROM {table} WHERE app_name = %(app)s {tail}", {"app": app_name} | names)
            return list(cursor.fetchall())

        text = _TEXT[db.vendor]
        names: dict[str, Any] = {} if user_id is None else {"user": user_id}
        of_user = "" if user_id is None else "AND user_id = %(user)s"
        shown = "" if hidden else f"AND {listed(source)}"
        beyond, place = "", {}
        if after is not None:
            moment, user, name = read_cursor(after, float, str, str)
            beyond = "AND (update_time, user_id, id) > (%(moment)s, %(after_user)s, %(after_id)s)"
            place = {"moment": stored_instant(moment, db), "after_user": user, "after_id": name}
        found = rows(
            f"user_id, id, state{text}, create_time, update_time",
            "sessions",
            f"{of_user} {shown} {beyond} ORDER BY update_time, user_id, id {'' if limit is None else f'LIMIT {limit:d}'}",
            names | place,
        )
        if limit is not None and user_id is None:  # of many users only those of the page
            names = {f"user{number}": user for number, user in enumerate({row[0] for row in found})}
            of_user = f"AND user_id IN ({', '.join(f'%({name})s' for name in names) or 'NULL'})"
        users = dict(rows(f"user_id, state{text}", "user_states", of_user, names))
        apps = rows(f"state{text}", "app_states", "", {})
    app, states = _state(apps[0][0] if apps else None), {user: _state(state) for user, state in users.items()}
    sessions = [
        StoredSession(
            SessionKey(source, app_name, user, name),
            Scoped(session=_state(state), app=app, user=states.get(user, {})),
            read_instant(created),
            read_instant(updated),
            None,
        )
        for user, name, state, created, updated in found
    ]
    last = sessions[-1] if limit is not None and len(sessions) == limit else None
    following = write_cursor(last.revision, last.key.user_id, last.key.session_id) if last else None
    return Page(sessions, following)


def place(key: SessionKey, event_id: str = "") -> Place | None:
    """Where a session stands, and an event in it; None where there is no such session."""
    with sources.using(key.source) as db, db.cursor() as cursor:
        seq, order = _order(key.source, db.vendor)
        cursor.execute(
            f"""SELECT create_time, update_time, (SELECT id FROM events WHERE {_EVENTS} ORDER BY {order} LIMIT 1),
                (SELECT {seq} FROM events WHERE {_EVENTS} AND id = %(event)s)
            FROM sessions WHERE app_name = %(app)s AND user_id = %(user)s AND id = %(session)s""",
            {**_names(key), "event": event_id},
        )
        row = cursor.fetchone()
    return Place(read_instant(row[0]), read_instant(row[1]), row[2], row[3]) if row else None


_TEXT = {"postgresql": "::text", "sqlite": ""}
_AT = "%(since)s"
_EVENTS = "app_name = %(app)s AND user_id = %(user)s AND session_id = %(session)s"


def _order(source: str, vendor: str) -> tuple[str, str]:
    """An event's place, and the newest first, as SQL; without adkweb's column, which only reads do, time and id order."""
    if vendor == "sqlite":
        return "rowid", "rowid DESC"
    return ("seq", "seq DESC") if sources.is_adopted(source) else ("NULL::bigint", "timestamp DESC, id DESC")


def _names(key: SessionKey) -> dict[str, Any]:
    return {"app": key.app_name, "user": key.user_id, "session": key.session_id}


def _state(text: str | None, most: int | None = None) -> dict[str, Any]:
    if most is not None and weight(text) > most:
        raise Invalid(_("This state is too large to be read here: %(n)s characters.") % {"n": len(text or "")})
    return as_object(stored(text)) if text else {}
