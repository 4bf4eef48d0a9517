"""Reads what happened last in a source, and what is running in it now."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.conf import settings

from ..access.actor import Actor
from ..domain.invocations import Running, running_of
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..sources import database, dialect
from ..sources.dialect import is_wanted, wanted
from .event_views import EventView, newest_views, written_last_views
from .lists import GLANCE, titles_of

RUNNING_REACH: Final = 300  # events of all sessions that are searched for running agents
APPENDED: Final = 5_000  # events of a source that are listed at once


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session whose agent is running now, and its newest event."""

    ref: SessionRef
    title: str
    flight: Running
    event: EventView


class Revision(NamedTuple):
    """The moments at which a session was created and written, and its user's and its app's state was written.

    They are as the database stores them.

    The `_row` fields differ, too, if a program has written to these rows itself."""

    created: Any
    session: Any
    user: Any
    app: Any
    session_row: Any
    user_row: Any
    app_row: Any


# --- What moves -------------------------------------------------------------------------------------------------------


def revisions(source: str, keys: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, Revision]:
    """Returns for each session that exists a value that changes whenever its state, or its user's or app's, is written."""
    keys = [ref for ref in keys if actor.may_see(ref.source, ref.app_name)]
    if not keys:
        return {}
    columns = ("app_name", "user_id", "id")
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            f"""{wanted(columns, len(keys))}
            SELECT s.app_name, s.user_id, s.id, s.create_time, s.update_time, u.update_time, a.update_time,
            {", ".join(map(dialect.of(db).row_version, "sua"))}
            FROM wanted CROSS JOIN sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
            LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
            WHERE {is_wanted("s", columns)}""",
            [name for ref in keys for name in ref[1:]],
        )
        return {SessionRef(source, *row[:3]): Revision(*row[3:]) for row in cursor.fetchall()}


def appended(source: str, seq: Seq, also: Collection[Seq] = (), limit: int = APPENDED) -> list[tuple[Seq, SessionRef]]:
    """Returns the seq and session of each event with a greater seq, or with one of `also` (PostgreSQL only), in order.

    Returns nothing for a PostgreSQL source that is not adopted: its events have no seq."""
    with database.using(source) as db:
        if not database.is_numbered(source):
            return []
        column = dialect.of(db).seq
        also_these = f"OR {column} = ANY(%s)" if also else ""
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT {column}, app_name, user_id, session_id FROM events WHERE {column} > %s {also_these}
                ORDER BY {column} LIMIT %s""",
                [seq, *([list(also)] if also else []), limit],
            )
            return [(row[0], SessionRef(source, *row[1:])) for row in cursor.fetchall()]


def data_version(source: str) -> int:
    """Returns SQLite's number that changes whenever another connection than this thread's writes to the file."""
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


def newest_seq(source: str) -> Seq:
    """Returns the greatest seq of an event in any session of a source; 0 if there is none."""
    with database.using(source) as db:
        if not database.is_numbered(source):
            return NO_SEQ
        with db.cursor() as cursor:
            cursor.execute(f"SELECT max({dialect.of(db).seq}) FROM events")
            return cursor.fetchone()[0] or NO_SEQ


def newest_events(source: str, limit: int, *, actor: Actor) -> list[EventView]:
    """Returns the newest events of all sessions, the newest first."""
    with database.using(source):
        near = newest_views(source, limit, GLANCE, actor)
        if len(near) == limit or actor.sees_all_of(source) or not database.is_numbered(source):
            return near
        return written_last_views(source, limit, GLANCE, actor)  # the actor's apps have been quiet


def running_now(source: str, *, actor: Actor) -> list[RunningSession]:
    """Returns the sessions whose agent is running now, as far as the source's newest events show. The one with the
    newest event comes first."""
    with database.using(source):
        by_session: dict[SessionRef, list[EventView]] = {}
        for view in newest_views(source, RUNNING_REACH, GLANCE, actor):
            by_session.setdefault(view.ref, []).append(view)
        now, silence = time.time(), settings.SILENCE_SECONDS
        flights = {
            ref: running_of([(view.data, view.description) for view in reversed(views)], now, silence)
            for ref, views in by_session.items()
        }
        busy = {ref: flight for ref, flight in flights.items() if flight and not flight.waiting}
        titles = titles_of(source, busy.keys(), actor)
        return [RunningSession(ref, titles.get(ref, ""), flight, by_session[ref][0]) for ref, flight in busy.items()]
