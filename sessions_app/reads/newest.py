"""Reads what happened last in a source, and what runs in it now."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.conf import settings

from ..access.actor import Actor
from ..domain.invocations import Running, running
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..sources import database
from ..sources.dialect import SEQ
from .event_views import EventView, newest_views
from .lists import GLANCE, titles_of

RUNNING_REACH: Final = 300  # events of all sessions looked through for those whose agent runs
APPENDED: Final = 5_000  # events of a source listed at once


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session whose agent runs now."""

    ref: SessionRef
    title: str
    flight: Running


class Revision(NamedTuple):
    """When a session was created and written, and its user's and its app's state, as the database has them; and what differs
    as well where a program wrote to these rows itself.
    """

    created: Any
    session: Any
    user: Any
    app: Any
    session_row: Any
    user_row: Any
    app_row: Any


# --- What moves -------------------------------------------------------------------------------------------------------


# SQLite keeps no trace of an update but the row itself; MD5 is Django's, and gets no text that it could not encode.
_ROW: Final = {"postgresql": "{0}.xmin::text", "sqlite": "md5(hex({0}.state))"}


def revisions(source: str, keys: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, Revision]:
    """For each session that exists, what differs as soon as its state, or its user's or app's, was written."""
    keys = [ref for ref in keys if actor.may_see(ref.app_name)]
    if not keys:
        return {}
    names = [name for ref in keys for name in ref[1:]]
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            f"""SELECT s.app_name, s.user_id, s.id, s.create_time, s.update_time, u.update_time, a.update_time,
            {", ".join(_ROW[db.vendor].format(table) for table in "sua")}
            FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
            LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
            WHERE (s.app_name, s.user_id, s.id) IN (VALUES {", ".join(["(%s, %s, %s)"] * len(keys))})""",
            names,
        )
        return {SessionRef(source, *row[:3]): Revision(*row[3:]) for row in cursor.fetchall()}


def appended(source: str, seq: Seq, also: Collection[Seq] = (), limit: int = APPENDED) -> list[tuple[Seq, SessionRef]]:
    """Returns seq and session of each event with a greater seq, or one of `also` (PostgreSQL only), in order.

    A PostgreSQL source that was not adopted has no seqs: then nothing.
    """
    with database.using(source) as db:
        if not database.is_numbered(source):
            return []
        column = SEQ[db.vendor]
        also_these = f"OR {column} = ANY(%s)" if also else ""
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT {column}, app_name, user_id, session_id FROM events WHERE {column} > %s {also_these}
                ORDER BY {column} LIMIT %s""",
                [seq, *([list(also)] if also else []), limit],
            )
            return [(row[0], SessionRef(source, *row[1:])) for row in cursor.fetchall()]


def data_version(source: str) -> int:
    """SQLite's mark that differs as soon as another connection has written to the file; as this thread sees it."""
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


def newest_seq(source: str) -> Seq:
    """Returns the greatest seq of an event in any session of a source; 0 where there is none."""
    with database.using(source) as db:
        if not database.is_numbered(source):
            return NO_SEQ
        with db.cursor() as cursor:
            cursor.execute(f"SELECT max({SEQ[db.vendor]}) FROM events")
            return cursor.fetchone()[0] or NO_SEQ


def newest_events(source: str, limit: int, *, actor: Actor) -> list[EventView]:
    """The newest events of any session, the newest first."""
    with database.using(source):
        return newest_views(source, limit, GLANCE, actor)


def running_now(source: str, *, actor: Actor) -> list[RunningSession]:
    """The sessions whose agent runs now, as far as the source's newest events tell; the one with the newest event first."""
    with database.using(source):
        by_session: dict[SessionRef, list[dict[str, Any]]] = {}
        for view in newest_views(source, RUNNING_REACH, GLANCE, actor):
            by_session.setdefault(view.ref, []).append(view.data)
        now = time.time()
        flights = {ref: running(events[::-1], now, settings.SILENCE_SECONDS) for ref, events in by_session.items()}
        busy = {ref: flight for ref, flight in flights.items() if flight and not flight.waiting}
        titles = titles_of(source, busy.keys())
        return [RunningSession(ref, titles.get(ref, ""), flight) for ref, flight in busy.items()]
