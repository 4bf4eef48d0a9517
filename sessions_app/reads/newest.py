"""Reads what happened last in a source, and what is running in it now."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..access.actor import Actor
from ..domain.invocations import Running, begins_turn
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..sources import database, dialect
from ..sources.dialect import is_wanted, wanted
from . import at_work
from .event_views import EventView, newest_views, written_last_views
from .lists import GLANCE, titles_of

REACH: Final = 300  # events of all sessions that are searched for running agents, and for turns
ENOUGH: Final = 60  # events in which there are turns to show
TURNS: Final = 8
APPENDED: Final = 5_000  # events of a source that are listed at once


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session whose agent is running now, and its newest event. `is_paused` says that it pauses at a breakpoint."""

    ref: SessionRef
    title: str
    flight: Running
    event: EventView
    is_paused: bool = False


@dataclass(slots=True)
class NewTurn:
    """A turn, as far as it is among the newest events: its last event and the first that was read, what the user `said` if
    that is the first, and what `failed` last. `title` is that of the session if nobody knows what was said."""

    ref: SessionRef
    last: EventView
    is_open: bool  # it is running, or waits
    first: EventView = field(init=False)
    said: EventView | None = None
    failed: EventView | None = None
    title: str = ""

    @property
    def outcome(self) -> EventView | None:
        """Returns the event that says what became of it; None if nothing has."""
        return self.failed or (None if self.last is self.said else self.last)


class Happening(NamedTuple):
    """The sessions that run now in a source, its newest turns, the newest first, and the id of its newest event, "" without
    one."""

    running: list[RunningSession]
    turns: list[NewTurn]
    newest: str


class Revision(NamedTuple):
    """The moments at which a session was created and written, and its user's and its app's state was written.

    They are in the form in which the database stores them.

    The `_row` fields also change if a program writes to these rows directly."""

    created: Any
    session: Any
    user: Any
    app: Any
    session_row: Any
    user_row: Any
    app_row: Any


# --- What moves -------------------------------------------------------------------------------------------------------


def revisions(source: str, keys: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, Revision]:
    """Returns for each session that exists a value that changes whenever its state, or its user's or app's, is
    written."""
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


def happening(source: str, *, actor: Actor) -> Happening:
    """Returns the sessions whose agent is running now, of those with the source's newest events, the one with the newest
    event first; and the newest turns."""
    with database.using(source):
        near = newest_views(source, REACH, GLANCE, actor)
        by_session: dict[SessionRef, list[EventView]] = {}
        for view in near:
            by_session.setdefault(view.ref, []).append(view)
        known = at_work.known(by_session.keys(), actor=actor)
        flights = {
            ref: known[ref].running([(view.data, view.description) for view in reversed(views)])
            for ref, views in by_session.items()
        }
        if len(near) < ENOUGH and not actor.sees_all_of(source) and database.is_numbered(source):
            near = written_last_views(source, ENOUGH, GLANCE, actor)  # the actor's apps have been quiet
        turns = _turns(near, {ref for ref, flight in flights.items() if flight})
        busy = {ref: flight for ref, flight in flights.items() if flight and not flight.waiting}
        titles = titles_of(source, busy.keys() | {turn.ref for turn in turns if turn.said is None}, actor)
        paused = {ref for ref in busy if (work := known[ref].at_work) and work.paused}
        running = [
            RunningSession(ref, titles.get(ref, ""), flight, by_session[ref][0], ref in paused)
            for ref, flight in busy.items()
        ]
        for turn in turns:
            turn.title = titles.get(turn.ref, "")
        return Happening(running, turns, near[0].id if near else "")


def _turns(newest: Iterable[EventView], open_in: Collection[SessionRef]) -> list[NewTurn]:
    """Gathers the newest events, the newest first, into at most TURNS turns. The newest turn of a session may be open."""
    turns: list[NewTurn] = []
    of_session: dict[SessionRef, NewTurn | None] = {}
    for view in newest:
        if view.description.edit:
            continue
        turn = of_session.get(view.ref)
        if turn is None:
            if len(turns) == TURNS:
                continue
            turn = NewTurn(view.ref, view, is_open=view.ref in open_in and view.ref not in of_session)
            turns.append(turn)
        turn.first = view
        if turn.failed is None and view.description.failed:
            turn.failed = view
        turn.said = view if begins_turn(view.description) else None
        of_session[view.ref] = None if turn.said else turn
    return turns
