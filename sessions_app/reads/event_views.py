"""Reads a session's events: in order, before or after a cursor, as views with their changes.

The other files of this folder build their answers from these functions. Each function expects the source to be open."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter
from typing import Any, Final

from django.db import connections
from django.db.models import BooleanField, FloatField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_object, shown_pieces
from ..domain.clock import UNTIMED, Clock, Ended, ends
from ..domain.description import Description
from ..domain.edit_note import edit_of
from ..domain.errors import Invalid, NotFound
from ..domain.event import removed_by
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.kinds import describe
from ..domain.positions import Seq, SeqRange
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, Scope
from ..domain.units import event_in_seconds
from ..models import Event, Session, keeps_milliseconds
from ..sources import database, dialect
from ..sources.dialect import Database, written
from .filters import BY_AUTHOR, FILTERS
from .large_events import beginning_of
from .listed import names_of_apps
from .paging import read_cursor, write_cursor
from .size_limits import LARGE, Measured, Size, large, weight

ACTIVE: Final = 12  # sessions that are searched for the newest events of all
APPS: Final = 50  # apps whose sessions are searched so for an actor who may not see every app
NEAR: Final = 10_000  # events of a source that are searched for those of some apps


@dataclass(slots=True)
class EventView:
    """A stored event with its description. `changes` has its state changes, with the previous values if these are
    known; `ended` is when it ended, if `timed` was requested."""

    ref: SessionRef
    id: str
    seq: Seq | None
    invocation_id: str
    timestamp: float
    data: dict[str, Any]
    description: Description
    changes: list[Change] = field(default_factory=list)
    cursor: str = ""
    size: int = 0  # characters of an event that is too large to be read whole: `data` has the starts of long values
    cut: frozenset[str] = frozenset()  # keys of its delta whose values are not whole
    in_milliseconds: bool = False  # its time, unlike that of its source's other events: read as such
    unread: bool = False  # nothing is known about a large event: its JSON can't be read
    weight: int = 0
    ended: Ended = UNTIMED


# --- Rows and views ---------------------------------------------------------------------------------------------------


def events_of(ref: SessionRef) -> QuerySet[Event]:
    """Returns the events of a session, in no order."""
    events = Event.objects.using(ref.source).filter(
        app_name=ref.app_name, user_id=ref.user_id, session_id=ref.session_id
    )
    return measured(events)


def measured(events: QuerySet[Event]) -> QuerySet[Event]:
    """Returns the events with their JSON as `text`, for those that are too large only their length: “#31000000”; and
    with `written`, when they were stored."""
    at = RawSQL(written(connections[events.db]), [], FloatField())
    return events.defer("event_data").annotate(text=Measured("event_data"), written=at)


def timed(views: Sequence[EventView], clock: Clock | None = None) -> Clock:
    """Notes when each of some consecutive events of a session ended. Returns the clock of the last turn, for the events
    after them."""
    clock = clock or Clock()
    told = (({**view.data, "timestamp": view.timestamp}, view.description) for view in views)
    for view, ended in zip(views, ends(told, clock), strict=True):
        view.ended = ended
    return clock


def any_of(wanted: Mapping[tuple[str, str, str], Collection[Seq]]) -> Q:
    """Returns a condition for the events with these seqs in each of these sessions."""
    each = (Q(app_name=app, user_id=user, session_id=name, seq__in=seqs) for (app, user, name), seqs in wanted.items())
    return Q(*each, _connector=Q.OR) if wanted else Q(pk__in=[])


def newest_views(source: str, limit: int, most: int, actor: Actor) -> list[EventView]:
    """Returns the newest events of all sessions that the actor may see, the newest first, up to a weight of `most`.

    For an actor who may not see every app, only those among the last NEAR of the source. If events have no numbers,
    searches as `written_last_views` does."""
    if not database.is_numbered(source):
        return written_last_views(source, limit, most, actor)
    events = measured(Event.objects.using(source))
    if not actor.sees_all_of(source):
        events = events.filter(_near_and_of(names_of_apps(source, actor), source))
    return views(events.order_by(RawSQL(dialect.of(source).seq, []).desc()), source, actor, limit, most)[0]


def _near_and_of(apps: Sequence[str], db: Database) -> RawSQL:
    """Returns the condition for events of some apps, after which others may have written a million events.

    With its index, SQLite would go through all events of these apps."""
    number, column = dialect.of(db).seq, dialect.of(db).without_index("events.app_name")
    one_of = f"{column} IN ({', '.join(['%s'] * len(apps))})" if apps else "FALSE"
    return RawSQL(f"({number} > (SELECT max({number}) FROM events) - {NEAR} AND {one_of})", apps, BooleanField())


def written_last_views(source: str, limit: int, most: int, actor: Actor) -> list[EventView]:
    """Returns the newest events of the ACTIVE sessions that were written last and that the actor may see."""
    sessions = Session.objects.using(source).order_by("-update_time")
    parts = [sessions]
    if not actor.sees_all_of(source):  # app by app, as the index has them
        parts = [sessions.filter(app_name=name) for name in names_of_apps(source, actor)[:APPS]]
    last = (row for part in parts for row in part.values_list("update_time", "app_name", "user_id", "id")[:ACTIVE])
    newest: list[EventView] = []
    for _time, *names in nlargest(ACTIVE, last, key=itemgetter(0)):
        ref = SessionRef(source, *names)
        newest += views(ordered(events_of(ref), source), source, actor, max(limit // 10, 12), most // ACTIVE, ref)[0]
    return sorted(newest, key=lambda view: (view.seq or 0, view.id), reverse=True)[:limit]


def ordered(events: QuerySet[Event], source: str, *, newest: bool = True) -> QuerySet[Event]:
    """Returns the events in append order, the newest first or last."""
    names = ["seq"] if database.is_numbered(source) else ["timestamp", "id"]
    return events.order_by(*(f"-{name}" if newest else name for name in names))


def before_cursor(cursor: str) -> Q:
    """Returns a condition for the events before a cursor. Raises Invalid for a text that is not a cursor."""
    return _beside(cursor, "lt")


def after_cursor(cursor: str) -> Q:
    """Returns a condition for the events after a cursor. Raises Invalid for a text that is not a cursor."""
    return _beside(cursor, "gt")


def _beside(cursor: str, side: str) -> Q:
    # A page that was opened before its database was adopted continues by time.
    with suppress(Invalid):
        (seq,) = read_cursor(cursor, int)
        return Q(**{f"seq__{side}": seq})
    moment, name = read_cursor(cursor, float, str)
    return Q(**{f"timestamp__{side}": moment}) | Q(timestamp=moment, **{f"id__{side}": name})


def views(
    events: QuerySet[Event], source: str, actor: Actor, limit: int, most: int = LARGE, ref: SessionRef | None = None
) -> tuple[list[EventView], bool]:
    """Returns the first of some events, and whether there are others: at most `limit`, with a weight of at most `most`
    together.

    The weight limits a page because a hundred events may be as large as the database allows. At least one event is
    returned, whatever it weighs."""
    rows: list[EventView] = []
    for row in lazily(events, source, limit + 1, most):
        if len(rows) == limit or (rows and most <= 0):
            return rows, True
        most -= weight(row.text)  # type: ignore[attr-defined]
        if rows and most < 0:
            return rows, True
        rows.append(view_of(ref or SessionRef(source, row.app_name, row.user_id, row.session_id), row, actor))
    return rows, False


def lazily(events: QuerySet[Event], source: str, limit: int, most: int = LARGE) -> Iterator[Event]:
    """Yields rows one by one on SQLite. On PostgreSQL, runs as many queries as their sizes on disk require."""
    if dialect.of(source).reads_lazily:
        yield from one_by_one(events[:limit], source)
        return
    sizes = events.annotate(size=Size("event_data")).values_list("size", flat=True)[:limit]
    for begin, end in batches(list(map(dialect.of(source).unpacked, sizes)), most):
        yield from events[begin:end]


def one_by_one(rows: QuerySet[Any], source: str) -> Iterable[Any]:
    """Yields rows as SQLite finds them, so that a caller that stops reads no more. PostgreSQL sends all of them at
    once."""
    return rows.iterator(chunk_size=1) if dialect.of(source).reads_lazily else rows


def batches(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of rows with these sizes that are read at once: (0, 3), (3, 5)."""
    begin = 0
    while begin < len(sizes):
        end, left = begin + 1, most - sizes[begin]
        while end < len(sizes) and (left := left - sizes[end]) >= 0:
            end += 1
        yield begin, end
        begin = end


def view_of(ref: SessionRef, row: Event, actor: Actor) -> EventView:
    """Returns a row as a view for an actor, without its changes."""
    text: str | None = row.text  # type: ignore[attr-defined]
    size, beginning = large(text), None
    if size:
        beginning = beginning_of(ref, row.id, actor)
        event = beginning.event if beginning else {"timestamp": row.timestamp}
    else:
        event = shown_object(text, actor, ref.app_name, "event", read_stored_or_none)
    stored = event_in_seconds(event)
    # ADK itself relies on the columns, but the exact time is in the event.
    data = {**stored, "id": row.id, "invocation_id": row.invocation_id}
    timestamp = stored.get("timestamp")
    exact = isinstance(timestamp, int | float) and not isinstance(timestamp, bool) and abs(timestamp) < 2**53
    return EventView(
        ref,
        row.id,
        row.seq,
        row.invocation_id,
        float(timestamp) if exact else row.timestamp,
        data,
        describe(data, row.written),  # type: ignore[attr-defined]
        cursor=write_cursor(row.seq) if database.is_numbered(ref.source) else write_cursor(row.timestamp, row.id),
        size=size,
        cut=beginning.cut if beginning else frozenset(),
        unread=bool(size) and beginning is None,
        in_milliseconds=stored is not event and not keeps_milliseconds(connections[ref.source]),
        weight=weight(text),
    )


def filtered(
    events: QuerySet[Event], ref: SessionRef, kind: str, author: str, between: SeqRange | None = None
) -> QuerySet[Event]:
    """Returns the events that match one of FILTERS, of an author, and in a range. Raises Invalid for an unknown
    filter."""
    if kind:
        if kind not in FILTERS:
            raise Invalid(_("There's no filter “%(name)s”.") % {"name": kind})
        events = events.filter(RawSQL(FILTERS[kind].on(ref.source), [], BooleanField()))
    if author:
        events = events.filter(RawSQL(BY_AUTHOR.on(ref.source), [author], BooleanField()))
    return events.filter(seq__range=between) if between else events


def edit_view(source: str, row: Event, actor: Actor) -> EventView:
    """Returns the row of an edit as a view for an actor. The edit's note has the previous values."""
    view = view_of(SessionRef(source, row.app_name, row.user_id, row.session_id), row, actor)
    replaced, removed = as_object(edit_of(view.data).get("replaced")), set(removed_by(view.data))
    view.changes = [
        Change(name, replaced.get(name, ABSENT), ABSENT if name in removed else UNKNOWN if name in view.cut else value)
        for name, value in view.description.delta.items()
    ]
    return view


# --- The JSON texts of events and states as they are stored, however large --------------------------------------------

_PIECE: Final = 8_000_000  # characters


def state_text(ref: SessionRef, scope: Scope, *, actor: Actor) -> Iterator[str]:
    """Yields the JSON text of a scope's state as it is stored, in pieces and without parsing it. Raises NotFound."""
    actor.check_sees(ref)
    table, names = {"session": ("sessions", 4), "user": ("user_states", 3), "app": ("app_states", 2)}[scope]
    columns = ("app_name", "user_id", "id")[: names - 1]
    where = " AND ".join(f"{name} = %s" for name in columns)
    sql = f"SELECT %s FROM {table} WHERE {where}"
    return shown_pieces(lambda: _pieces(ref.source, sql, "state", ref[1:names]), actor, ref.app_name, scope)


def event_text(ref: SessionRef, event_id: str, *, actor: Actor) -> Iterator[str]:
    """Yields the JSON text of an event as it is stored, in pieces and without parsing it. Raises NotFound."""
    actor.check_sees(ref)
    where = "app_name = %s AND user_id = %s AND session_id = %s AND id = %s"
    sql, names = f"SELECT %s FROM events WHERE {where}", (*ref[1:], event_id)
    return shown_pieces(lambda: _pieces(ref.source, sql, "event_data", names), actor, ref.app_name, "event")


def _pieces(source: str, sql: str, column: str, names: Sequence[str]) -> Iterator[str]:
    """Yields a text in pieces of _PIECE characters. These are large, because the database reads the whole text for each
    of them."""
    first = 1
    while True:
        with database.using(source) as db, db.cursor() as cursor:
            text = dialect.of(db).text(column)
            cursor.execute(sql.replace("%s", f"substr({text}, {first:d}, {_PIECE:d})", 1), names)
            row = cursor.fetchone()
        if row is None:
            raise NotFound(_("This no longer exists."))
        if not row[0]:
            return
        yield row[0]
        first += _PIECE
