"""Loads a whole session, as an agent does: its merged state, and its events as they are stored, unparsed.

One statement reads all of it, so that state, revision and events belong to one moment: an agent that continues from
here misses nothing and sees nothing twice."""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.shown import shown_object, shown_text
from ..domain.errors import Invalid, NotFound
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import Scope, Scoped, State
from ..domain.units import text_in_seconds
from ..models import read_instant, stored_instant
from ..sources import database, dialect
from ..sources.dialect import each_row
from .size_limits import LARGE, weight

STATE: Final = 3 * LARGE  # the most that a scope's state may weigh to be loaded by a request
_FEW: Final = 100
PAGE: Final = 1_000  # events that are streamed at once, or fewer that weigh as much as LARGE


class TooLong(ValueError):
    """The events are longer than may be loaded at once."""


class StoredEvent(NamedTuple):
    """The row of an event. `text` is its JSON, in which the values of the columns may be missing."""

    text: str
    id: str
    invocation_id: str
    timestamp: float
    seq: Seq | None = None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session at one moment. `seq` is that of its newest event, loaded or not: 0 if there is none, None if
    unknown."""

    ref: SessionRef
    state: Scoped
    created: float
    revision: float
    seq: Seq | None
    events: list[StoredEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Head:
    """A session's row, the id of its newest event, and the seq of the requested event; None if there is none."""

    created: float
    revision: float
    newest: str | None
    seq: Seq | None


def load(
    ref: SessionRef,
    *,
    actor: Actor,
    newest: int | None = None,
    since: float | None = None,
    after: Seq | None = None,
    most: int | None = None,
    longest: int | None = None,
) -> StoredSession | None:
    """Returns a session with its events in append order, or None if there is no such session.

    Three arguments limit the events: to the `newest` ones, to those `since` a time, to those `after` a seq. Raises
    Invalid for a state that weighs more than `most`, and `TooLong` for events of more than `longest` characters."""
    if not actor.may_see(ref.source, ref.app_name):
        return None
    with database.using(ref.source) as db:
        statement, parameters = _loading(db, ref, newest, since, after)
        if longest is None:
            with db.cursor() as cursor:
                cursor.execute(statement, parameters)
                rows = cursor.fetchall()
        else:
            with closing(each_row(ref.source, statement, parameters)) as stored_rows:
                rows = list(_no_longer(stored_rows, longest))
    head = next((row for row in rows if row[0] == 0), None)
    if head is None:
        return None
    events = [row for row in rows if row[0] == 1]
    events.sort(key=lambda row: row[6] or (row[4], row[2]))
    return StoredSession(
        ref,
        Scoped(
            session=read_state(head[1], most, "session", actor, ref.app_name),
            app=read_state(head[2], most, "app", actor, ref.app_name),
            user=read_state(head[3], most, "user", actor, ref.app_name),
        ),
        read_instant(head[4]),
        read_instant(head[5]),
        head[6] or NO_SEQ,
        [_event(row[1:5] + row[6:], actor, ref.app_name) for row in events],
    )


def _loading(
    db: BaseDatabaseWrapper, ref: SessionRef, newest: int | None, since: float | None, after: int | None
) -> tuple[str, dict[str, Any]]:
    """Returns the statement of `load` and its values. It yields a row of kind 0 for the session and one of kind 1 for
    each event."""
    of, parameters = dialect.of(db), _names(ref)
    seq, order, text = of.number, of.newest_first, of.text
    only = limit = ""
    if since is not None:
        only, parameters["since"] = f"AND timestamp >= {_AT}", stored_instant(since, db)
    if after is not None:
        only, parameters["after"] = f"{only} AND {seq} > %(after)s", after
    if newest is not None:
        limit, parameters["newest"] = "LIMIT %(newest)s", newest
    statement = f"""SELECT 0, {text("s.state")}, {text("a.state")}, {text("u.state")},
            s.create_time, s.update_time, (SELECT {seq} FROM events WHERE {_EVENTS} ORDER BY {order} LIMIT 1)
        FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
        LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
        WHERE s.app_name = %(app)s AND s.user_id = %(user)s AND s.id = %(session)s
        UNION ALL SELECT * FROM (
            SELECT 1, {text("event_data")}, id, invocation_id, timestamp, timestamp, {seq}
            FROM events WHERE {_EVENTS} {only} ORDER BY {order} {limit}) AS loaded"""
    return statement, parameters


def _no_longer(rows: Iterator[tuple[Any, ...]], longest: int) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        longest -= len(row[1] or "") if row[0] else 0
        if longest < 0:
            raise TooLong
        yield row


def stream(
    ref: SessionRef, *, actor: Actor, newest: int | None = None, since: float | None = None, after: Seq | None = None
) -> tuple[StoredSession, Iterator[list[StoredEvent]]] | None:
    """Returns what `load` does, but the events by page: only one page is in memory, and nothing is kept open for a slow
    reader.

    The session is read at one moment, and its events are those up to the newest one of that moment, which never change.
    Raises NotFound between two pages if the session was deleted, so that its start isn't taken for the whole."""
    if not actor.may_see(ref.source, ref.app_name):
        return None
    database.get(ref.source)
    numbered = database.is_numbered(ref.source)
    if not numbered or (newest is not None and newest <= _FEW):  # no seqs to page by, or most likely one page
        with suppress(TooLong):
            session = load(
                ref,
                newest=newest,
                since=since,
                after=after,
                most=STATE,
                longest=LARGE if numbered else None,
                actor=actor,
            )
            return None if session is None else (session, iter([session.events]))
    session = load(ref, newest=0, most=STATE, actor=actor)
    if session is None:
        return None
    first = max(after or NO_SEQ, _before_newest(ref, newest, since) if newest is not None else NO_SEQ)
    return session, _pages(ref, session.seq or NO_SEQ, since, first, actor)


def _before_newest(ref: SessionRef, newest: int, since: float | None) -> Seq:
    """Returns the seq that is followed by exactly `newest` events; 0 if there are no more than these."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        column, order = dialect.of(db).number, dialect.of(db).newest_first
        only = f"AND timestamp >= {_AT}" if since is not None else ""
        cursor.execute(
            f"SELECT {column} FROM events WHERE {_EVENTS} {only} ORDER BY {order} LIMIT 1 OFFSET {newest:d}",
            {**_names(ref), **({} if since is None else {"since": stored_instant(since, db)})},
        )
        seq: Seq = (cursor.fetchone() or (NO_SEQ,))[0]
        return seq


def _pages(ref: SessionRef, last: Seq, since: float | None, after: Seq, actor: Actor) -> Iterator[list[StoredEvent]]:
    while after < last:
        with database.using(ref.source) as db:
            column = dialect.of(db).number
            only = "AND timestamp >= %s" if since is not None else ""
            moment = [stored_instant(since, db)] if since is not None else []
            statement = f"""SELECT {dialect.of(db).text("event_data")}, id, invocation_id, timestamp, {column} FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s {only} AND {column} > %s AND {column} <= %s
                ORDER BY {column} LIMIT {PAGE}"""
            rows, left = [], LARGE
            with closing(each_row(ref.source, statement, [*ref[1:], *moment, after, last])) as stored_rows:
                for row in stored_rows:
                    rows.append(row)
                    if len(row[0] or "") > left:  # then its items need not be counted
                        break
                    left -= weight(row[0])
                    if left < 0:
                        break
        if not rows:
            if since is None or read_head(ref, actor=SYSTEM) is None:
                raise NotFound(_("The session was deleted while it was being read."))
            return
        after, page = rows[-1][-1], [_event(row, actor, ref.app_name) for row in rows]
        del rows, row  # they may be large
        yield page
        del page


def _event(row: tuple[Any, ...], actor: Actor, app_name: str) -> StoredEvent:
    text, event_id, invocation_id, timestamp, seq = row
    at = read_instant(timestamp)
    seen = shown_text(text or "{}", actor, app_name, "event")
    return StoredEvent(text_in_seconds(seen, at), event_id, invocation_id, at, seq)


def read_head(ref: SessionRef, event_id: str = "", *, actor: Actor) -> Head | None:
    """Returns the head of a session, with the seq of an event in it; None if there is no such session."""
    if not actor.may_see(ref.source, ref.app_name):
        return None
    with database.using(ref.source) as db, db.cursor() as cursor:
        seq, order = dialect.of(db).number, dialect.of(db).newest_first
        cursor.execute(
            f"""SELECT create_time, update_time, (SELECT id FROM events WHERE {_EVENTS} ORDER BY {order} LIMIT 1),
                (SELECT {seq} FROM events WHERE {_EVENTS} AND id = %(event)s)
            FROM sessions WHERE app_name = %(app)s AND user_id = %(user)s AND id = %(session)s""",
            {**_names(ref), "event": event_id},
        )
        row = cursor.fetchone()
    return Head(read_instant(row[0]), read_instant(row[1]), row[2], row[3]) if row else None


_AT = "%(since)s"
_EVENTS = "app_name = %(app)s AND user_id = %(user)s AND session_id = %(session)s"


def _names(ref: SessionRef) -> dict[str, Any]:
    return {"app": ref.app_name, "user": ref.user_id, "session": ref.session_id}


def read_state(text: str | None, most: int | None, scope: Scope, actor: Actor, app_name: str) -> State:
    """Returns the state of a scope in a JSON text. Raises Invalid for a text that weighs more than `most`."""
    if most is not None and weight(text) > most:
        raise Invalid(_("This state is too large to show here: %(n)s characters.") % {"n": len(text or "")})
    return shown_object(text, actor, app_name, scope) if text else {}
