"""A session's events as their rows hold them: in order, beside a cursor, as views with their changes.

What reads.py puts its answers together from. Every function here expects the source to be open.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func, IntegerField, JSONField, Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from . import sources, values
from .events import Description, describe
from .keys import SessionKey
from .models import Event
from .paging import read_cursor, write_cursor
from .state import ABSENT, UNKNOWN, Change, State, scope_of

NEAR: Final = 40  # events looked through first
RECENT: Final = 500  # events looked through for the last writer or the previous value of a key
LARGE: Final = 8_000_000  # what an event may weigh to be read, and all events of a page together: see `weight`
_SMALL: Final = 1_000_000  # characters of what a list looks into, row by row
_OBJECT: Final = 24  # characters that a list, an object or a key weighs beside its own
_SKIPPED: Final = 30  # so much lighter is what is only measured
_PACKED: Final = 30  # times its size on disk that a text of PostgreSQL's may have, which packs what is long


@dataclass(slots=True)
class EventView:
    """One stored event, described; `changes` are its state changes with the values before, where they are known."""

    key: SessionKey
    id: str
    seq: int | None
    invocation_id: str
    timestamp: float
    data: dict[str, Any]
    description: Description
    changes: list[Change] = field(default_factory=list)
    cursor: str = ""
    size: int = 0  # characters of an event that is too large to be read here; nothing is known of what is in it


@dataclass(frozen=True, slots=True)
class Writer:
    """The event that last wrote a key."""

    event_id: str
    seq: int | None
    author: str
    actor: str  # of an edit, else empty
    timestamp: float
    key: SessionKey  # of the session that it wrote in


# --- Rows and views ---------------------------------------------------------------------------------------------------


def events_of(key: SessionKey) -> QuerySet[Event]:
    """The events of a session, in no order."""
    found = Event.objects.using(key.source).filter(
        app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
    )
    return measured(found, key.source)


def measured(found: QuerySet[Event], source: str) -> QuerySet[Event]:
    """Events with their JSON as `text`; of those that are too large only their length: “#31000000”."""
    return found.defer("event_data", *no_seq(source)).annotate(text=Measured("event_data"))


def no_seq(source: str) -> list[str]:
    """The columns of an event that this source does not have."""
    return [] if sources.is_adopted(source) else ["seq"]


def initial_state(db: BaseDatabaseWrapper, key: SessionKey) -> State | None:
    """What the session began with, full keys; None where it was never recorded, or is too large to be read."""
    if not sources.is_adopted(key.source):
        return None
    with db.cursor() as cursor:
        of_session = "FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s"
        cursor.execute("SELECT " + measured_sql("initial_state", db.vendor) + of_session, key[1:])
        stored = cursor.fetchone()
    if not stored or stored[0] is None or large(stored[0]):
        return None
    return as_object(values.stored(stored[0]))


def ordered(found: QuerySet[Event], source: str, *, newest: bool = True) -> QuerySet[Event]:
    """In append order, the newest first or last."""
    names = ["seq"] if sources.is_adopted(source) else ["timestamp", "id"]
    return found.order_by(*(f"-{name}" if newest else name for name in names))


def before_cursor(source: str, cursor: str) -> Q:
    """The events before a place; raises Invalid for a text that names none."""
    return _beside(source, cursor, "lt")


def after_cursor(source: str, cursor: str) -> Q:
    """The events after a place; raises Invalid for a text that names none."""
    return _beside(source, cursor, "gt")


def _beside(source: str, cursor: str, side: str) -> Q:
    if sources.is_adopted(source):
        (seq,) = read_cursor(cursor, int)
        return Q(**{f"seq__{side}": seq})
    moment, name = read_cursor(cursor, float, str)
    return Q(**{f"timestamp__{side}": moment}) | Q(timestamp=moment, **{f"id__{side}": name})


def weight(text: str | None) -> int:
    """What a JSON text costs to be read: its length, and what lists, objects and keys take in memory."""
    if not text:
        return 0
    if text.startswith("#"):
        return int(text[1:]) // _SKIPPED
    return len(text) + _OBJECT * (text.count("{") + text.count("[") + text.count(":"))


def large(text: str | None) -> int:
    """The length of a text that is too large to be read; 0 for any other."""
    if not text or not (text.startswith("#") or weight(text) > LARGE):
        return 0
    return int(text[1:]) if text.startswith("#") else len(text)


def views(
    found: QuerySet[Event], source: str, limit: int, most: int = LARGE, key: SessionKey | None = None
) -> tuple[list[EventView], bool]:
    """The first of some events, and whether there are others: at most `limit`, and no more than weigh `most` together.

    A page is bounded by what it shows: a hundred events may be as large as a database lets them be. One comes in any case.
    """
    rows: list[EventView] = []
    for row in lazily(found, source, limit + 1, most):
        if len(rows) == limit or (rows and most <= 0):
            return rows, True
        most -= weight(row.text)  # type: ignore[attr-defined]
        if rows and most < 0:
            return rows, True
        rows.append(view_of(key or SessionKey(source, row.app_name, row.user_id, row.session_id), row))
    return rows, False


def lazily(found: QuerySet[Event], source: str, limit: int, most: int = LARGE) -> Iterator[Event]:
    """Rows one by one on SQLite; on PostgreSQL in as many questions as what stands on its disk lets expect."""
    if connections[source].vendor == "sqlite":
        yield from found[:limit].iterator(chunk_size=1)
        return
    packed = found.annotate(packed=PgSize("event_data")).values_list("packed", flat=True)
    sizes = [size * (_PACKED if size > 2_000 else 1) for size in packed[:limit]]
    begin = 0
    while begin < len(sizes):
        end, left = begin + 1, most - sizes[begin]
        while end < len(sizes) and (left := left - sizes[end]) >= 0:
            end += 1
        yield from found[begin:end]
        begin = end


def view_of(key: SessionKey, row: Event) -> EventView:
    """A row as a view, its changes not yet added."""
    adopted = sources.is_adopted(key.source)
    text: str | None = row.text  # type: ignore[attr-defined]
    size = large(text)
    stored = {"timestamp": row.timestamp} if size else as_object(_loads(text))
    # The columns are what ADK itself believes; the exact time stands in the event.
    data = {**stored, "id": row.id, "invocation_id": row.invocation_id}
    timestamp = stored.get("timestamp")
    exact = isinstance(timestamp, int | float) and not isinstance(timestamp, bool) and abs(timestamp) < 2**53
    return EventView(
        key,
        row.id,
        row.seq if adopted else None,
        row.invocation_id,
        float(timestamp) if exact else row.timestamp,  # type: ignore[arg-type]
        data,
        describe(data),
        cursor=write_cursor(row.seq) if adopted else write_cursor(row.timestamp, row.id),
        size=size,
    )


def _loads(text: str | None) -> Any:
    """The value of a stored JSON text; None for what is none."""
    try:
        return json.loads(text or "null", cls=values.Stored)
    except ValueError:
        return None


def newest_first(source: str) -> str:
    """Append order backwards, as SQL."""
    if not sources.is_adopted(source):
        return "timestamp DESC, id DESC"
    return "seq DESC" if sources.get(source).vendor == "postgresql" else "rowid DESC"


class Measured(Func):
    """A JSON column's text, or the length of one that is too large, behind a “#”, which no JSON begins with."""

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """As SQL that either database understands."""
        return self.as_sql(compiler, connection, template=measured_sql("%(expressions)s", "sqlite"), **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """As SQL that either database understands."""
        return self.as_sql(compiler, connection, template=measured_sql("%(expressions)s", "postgresql"), **extra)


def measured_sql(column: str, vendor: str) -> str:
    """What `Measured` is, as SQL. On PostgreSQL, OFFSET 0 lets the text be made once."""
    if vendor == "sqlite":
        length, text = "length(t)", f"{column} AS t"
    else:
        length, text = "octet_length(t)", f"({column})::text AS t OFFSET 0"
    measured = f"CASE WHEN {length} <= {LARGE} THEN t ELSE '#' || {length} END"
    return f"(SELECT {measured} FROM (SELECT {text}) AS measured) "  # noqa: S608 - of constants


class PgSize(Func):
    """The bytes that a value takes on PostgreSQL's disk, which it knows without reading it."""

    function, output_field = "pg_column_size", IntegerField()


class Valid(Func):
    """A JSON column, null where ADK stored NaN in it, which SQLite's JSON functions refuse."""

    template, output_field = "%(expressions)s", JSONField(decoder=values.Stored)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps JSON as text; PostgreSQL never has any that is not valid."""
        valid = "CASE WHEN json_valid(%(expressions)s) THEN %(expressions)s END"
        return self.as_sql(compiler, connection, template=valid, **extra)


class Small(Valid):
    """The same for a list, where each row's is looked into: null where it is large, too."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Of what is long, SQLite would read all."""
        valid = (
            f"CASE WHEN length(%(expressions)s) <= {_SMALL} AND json_valid(%(expressions)s) THEN %(expressions)s END"
        )
        return self.as_sql(compiler, connection, template=valid, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """By what it takes on disk."""
        small = f"CASE WHEN pg_column_size(%(expressions)s) <= {_SMALL} THEN %(expressions)s END"
        return self.as_sql(compiler, connection, template=small, **extra)


def state_rows(
    key: SessionKey, before: str | None = None, limit: int = RECENT, after: int = 0
) -> tuple[list[dict[str, Any]], bool]:
    """The newest of a session's events (before a cursor, after a place), reduced to what they say of state; newest first.
    And whether these are all that were asked for: they end before the one with which they weigh more than LARGE.
    """
    found = events_of(key)
    if after:
        found = found.filter(seq__gt=after)
    if before:
        found = found.filter(before_cursor(key.source, before))
    event = Valid("event_data")
    adkweb = KeyTransform("adkweb", KeyTransform("custom_metadata", event))
    fields = [
        "id",
        "timestamp",
        "delta",
        "by",
        "actor",
        "removed",
        *(["seq"] if sources.is_adopted(key.source) else []),
    ]
    asked: Iterable[dict[str, Any]] = (
        ordered(found, key.source)
        .annotate(
            delta=Measured(KeyTransform("state_delta", KeyTransform("actions", event))),
            by=KeyTextTransform("author", event),
            actor=KeyTextTransform("actor", adkweb),
            removed=KeyTransform("removed", adkweb),
        )
        .values(*fields)[:limit]
        .iterator(chunk_size=1 if connections[key.source].vendor == "sqlite" else RECENT)
    )
    rows: list[dict[str, Any]] = []
    left = LARGE
    for row in asked:
        if large(row["delta"]) or (left := left - weight(row["delta"])) < 0:
            return rows, False
        rows.append({**row, "delta": _loads(row["delta"])})
    return rows, True


def writer(key: SessionKey, row: dict[str, Any]) -> Writer:
    """Who wrote a row of `state_rows`."""
    return Writer(row["id"], row.get("seq"), str(row["by"] or ""), str(row["actor"] or ""), row["timestamp"], key)


# --- The values before ------------------------------------------------------------------------------------------------


def add_changes(key: SessionKey, page: Sequence[EventView]) -> None:
    """Gives each event its changes with the values before.

    A session key's previous value is exact: only this session writes it. An `app:` or `user:` key may have been written
    from other sessions meanwhile, so its previous value is shown only where the edit itself recorded it.
    """
    wanted = {k for view in page for k in view.description.delta if scope_of(k)[0] == "session"}
    before = _values_before(key, page, wanted) if wanted else {}
    for view in page:
        known = before.get(view.id, {})
        recorded = as_object(view.description.edit.get("replaced"))
        removed = set(view.description.removed)
        for name, value in view.description.delta.items():
            old = recorded.get(name, ABSENT) if view.description.edit else known.get(name, UNKNOWN)
            view.changes.append(Change(name, old, ABSENT if name in removed else value))


def _values_before(key: SessionKey, page: Sequence[EventView], names: set[str]) -> dict[str, State]:
    """By event id, the values of the session keys that it writes, just before it; what cannot be known is left out.

    Looks at the events between, too, which a filter may hide; at few, where these tell already.
    """
    for limit in (NEAR + len(page), RECENT + len(page)):
        rows, whole = state_rows(key, before=page[-1].cursor, limit=limit)
        found, unknown = _told_by(rows, page, names)
        if not unknown or len(rows) < limit:
            break
    if unknown and whole and len(rows) < limit and (initial := initial_state(connections[key.source], key)) is not None:
        for name, ids in unknown.items():
            for event_id in ids:
                found[event_id][name] = initial.get(name, ABSENT)
    return found


def _told_by(
    rows: Sequence[dict[str, Any]], page: Sequence[EventView], names: set[str]
) -> tuple[dict[str, State], dict[str, list[str]]]:
    """What rows, the newest first, tell of the values before each event of a page; and for which events nothing."""
    found: dict[str, State] = {view.id: {} for view in page}
    wanted = {view.id: names & view.description.delta.keys() for view in page}
    unknown: dict[str, list[str]] = {
        name: [page[-1].id] for name in wanted[page[-1].id]
    }  # its own row is not among them
    for row in rows:
        delta = as_object(row["delta"])
        noted = row["removed"] if isinstance(row["removed"], list) else []
        removed = {name for name in noted if isinstance(name, str)}
        for name in unknown.keys() & delta.keys():
            value = ABSENT if delta[name] is None and name in removed else delta[name]
            for event_id in unknown.pop(name):
                found[event_id][name] = value
        for name in wanted.get(row["id"], ()):
            unknown.setdefault(name, []).append(row["id"])
    return found, unknown


def as_object(stored: Any) -> dict[str, Any]:
    """A stored JSON object; empty for what is none."""
    return stored if isinstance(stored, dict) else {}
