"""A session's events as their rows hold them: in order, beside a cursor, as views with their changes.

What reads.py puts its answers together from. Every function here expects the source to be open.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, BooleanField, F, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from . import sources, values
from .errors import Invalid
from .events import EDIT_PREFIX, Description, delta_of, describe, edit_of, removed_by
from .filters import BY_AUTHOR, FILTERS
from .keeping import sessions_at
from .keys import OWN_NAME, SessionKey
from .models import App, Event, Session, User
from .paging import read_cursor, write_cursor
from .state import ABSENT, UNKNOWN, Change, State, scope_of
from .units import event_in_seconds
from .weights import GLANCED, LARGE, LOOKED_THROUGH, SIZE_OF, Measured, Size, large, measured_sql, weight

NEAR: Final = 40  # events looked through first
SPOKEN: Final = 100  # events looked through for one that is no edit
RECENT: Final = 500  # events looked through for the last writer or the previous value of a key
ACTIVE: Final = 12  # sessions looked at for the newest events of all
_LOOKED_FOR: Final = 2_000  # keys of an event whose values before are looked for
_PACKED: Final = 30  # times its size on disk that a text of PostgreSQL's may have, which packs what is long
_PLACE: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it


# The events of a row of `sessions`, as SQL.
OF_SESSION: Final = """events.app_name = sessions.app_name AND events.user_id = sessions.user_id
    AND events.session_id = sessions.id"""


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
    weight: int = 0


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
    return measured(found)


def measured(found: QuerySet[Event]) -> QuerySet[Event]:
    """Events with their JSON as `text`; of those that are too large only their length: “#31000000”."""
    return found.defer("event_data").annotate(text=Measured("event_data"))


def events_at(source: str, seqs: Sequence[int]) -> Iterator[Event]:
    """The events of any session that have these seqs, in this order; as `at`, each has its own.

    Read in as many questions as their sizes let expect, so that whoever stops early has not read all.
    """
    if not seqs:
        return
    found = Event.objects.using(source)
    if sources.is_numbered(source):
        column = _PLACE[connections[source].vendor]
        found = found.annotate(at=RawSQL(column, [], BigIntegerField())).filter(at__in=seqs)
    else:
        found = found.annotate(at=F("seq")).filter(any_of(sessions_at(sources.identity(source), seqs)))
    sizes: dict[int, int] = {}
    for at, size in found.annotate(size=Size("event_data")).values_list("at", "size"):
        sizes[at] = sizes.get(at, 0) + (size or 0)
    there = [seq for seq in seqs if seq in sizes]
    order = {seq: number for number, seq in enumerate(there)}
    for begin, end in _batches([_unpacked(source, sizes[seq]) for seq in there], LARGE):
        rows: list[Any] = list(measured(found.filter(at__in=there[begin:end])))
        yield from sorted(rows, key=lambda row: order[row.at])


def any_of(wanted: Mapping[tuple[str, str, str], Collection[int]]) -> Q:
    """The events with these seqs of each of these sessions."""
    each = (Q(app_name=app, user_id=user, session_id=name, seq__in=seqs) for (app, user, name), seqs in wanted.items())
    return Q(*each, _connector=Q.OR) if wanted else Q(pk__in=[])


def newest_views(source: str, limit: int, most: int) -> list[EventView]:
    """The newest events of any session, the newest first, and no more than weigh `most`; without numbers, of the ACTIVE
    sessions that were written last.
    """
    found = measured(Event.objects.using(source))
    if sources.is_numbered(source):
        return views(found.order_by(RawSQL(_PLACE[connections[source].vendor], []).desc()), source, limit, most)[0]
    last = Session.objects.using(source).order_by("-update_time").values_list("app_name", "user_id", "id")[:ACTIVE]
    newest: list[EventView] = []
    for names in last:
        key = SessionKey(source, *names)
        newest += views(ordered(events_of(key), source), source, max(limit // 10, 12), most // ACTIVE, key)[0]
    return sorted(newest, key=lambda view: (view.seq or 0, view.id), reverse=True)[:limit]


def initial_state(db: BaseDatabaseWrapper, key: SessionKey) -> State | None:
    """What the session began with, full keys; None where it was never recorded, or is too large to be read."""
    if not sources.is_adopted(key.source):
        return None
    with db.cursor() as cursor:
        of_session = "FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s"
        cursor.execute(f"SELECT {measured_sql('initial_state', db.vendor)} {of_session}", key[1:])
        stored = cursor.fetchone()
    if not stored or stored[0] is None or large(stored[0]):
        return None
    return as_object(values.stored(stored[0]))


def ordered(found: QuerySet[Event], source: str, *, newest: bool = True) -> QuerySet[Event]:
    """In append order, the newest first or last."""
    names = ["seq"] if sources.is_numbered(source) else ["timestamp", "id"]
    return found.order_by(*(f"-{name}" if newest else name for name in names))


def before_cursor(source: str, cursor: str) -> Q:
    """The events before a place; raises Invalid for a text that names none."""
    return _beside(source, cursor, "lt")


def after_cursor(source: str, cursor: str) -> Q:
    """The events after a place; raises Invalid for a text that names none."""
    return _beside(source, cursor, "gt")


def _beside(source: str, cursor: str, side: str) -> Q:
    with nullcontext() if sources.is_numbered(source) else suppress(Invalid):
        (seq,) = read_cursor(cursor, int)
        return Q(**{f"seq__{side}": seq})
    moment, name = read_cursor(cursor, float, str)
    return Q(**{f"timestamp__{side}": moment}) | Q(timestamp=moment, **{f"id__{side}": name})


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
    sizes = found.annotate(size=Size("event_data")).values_list("size", flat=True)[:limit]
    for begin, end in _batches([_unpacked(source, size) for size in sizes], most):
        yield from found[begin:end]


def _batches(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """From where to where rows of these sizes are read at once."""
    begin = 0
    while begin < len(sizes):
        end, left = begin + 1, most - sizes[begin]
        while end < len(sizes) and (left := left - sizes[end]) >= 0:
            end += 1
        yield begin, end
        begin = end


def _unpacked(source: str, size: int | None) -> int:
    """What a text may have in characters, by its size on disk."""
    packed = connections[source].vendor == "postgresql" and (size or 0) > 2_000
    return (size or 0) * (_PACKED if packed else 1)


def view_of(key: SessionKey, row: Event) -> EventView:
    """A row as a view, its changes not yet added."""
    text: str | None = row.text  # type: ignore[attr-defined]
    size = large(text)
    stored = {"timestamp": row.timestamp} if size else as_object(event_in_seconds(_loads(text)))
    # The columns are what ADK itself believes; the exact time stands in the event.
    data = {**stored, "id": row.id, "invocation_id": row.invocation_id}
    timestamp = stored.get("timestamp")
    exact = isinstance(timestamp, int | float) and not isinstance(timestamp, bool) and abs(timestamp) < 2**53
    return EventView(
        key,
        row.id,
        row.seq,
        row.invocation_id,
        float(timestamp) if exact else row.timestamp,  # type: ignore[arg-type]
        data,
        describe(data),
        cursor=write_cursor(row.seq) if sources.is_numbered(key.source) else write_cursor(row.timestamp, row.id),
        size=size,
        weight=weight(text),
    )


def _loads(text: str | None) -> Any:
    """The value of a stored JSON text; None for what is none."""
    try:
        return values.STORED.decode(text or "null")
    except ValueError:
        return None


def filtered(found: QuerySet[Event], key: SessionKey, kind: str, author: str) -> QuerySet[Event]:
    """Those of one of FILTERS, and of an author; raises Invalid for a filter that is none."""
    vendor = connections[key.source].vendor
    if kind:
        if kind not in FILTERS:
            raise Invalid(_("There is no filter “%(name)s”.") % {"name": kind})
        found = found.filter(RawSQL(FILTERS[kind][vendor], [], BooleanField()))
    if author:
        found = found.filter(RawSQL(BY_AUTHOR[vendor], [author], BooleanField()))
    return found


def edit_view(source: str, row: Event) -> EventView:
    """An edit's row as a view; its note tells the values before."""
    view = view_of(SessionKey(source, row.app_name, row.user_id, row.session_id), row)
    replaced, removed = as_object(edit_of(view.data).get("replaced")), set(removed_by(view.data))
    view.changes = [
        Change(name, replaced.get(name, ABSENT), ABSENT if name in removed else value)
        for name, value in view.description.delta.items()
    ]
    return view


def newest_first(source: str) -> str:
    """Append order backwards, as SQL."""
    if not sources.is_numbered(source):
        return "timestamp DESC, id DESC"
    return "seq DESC" if sources.get(source).vendor == "postgresql" else "rowid DESC"


def sessions_since(key: SessionKey, scope: str) -> Iterator[SessionKey]:
    """The sessions that may have written a scope last: those at least as new as its row."""
    stored: QuerySet[Any] = App.objects.using(key.source).filter(app_name=key.app_name)
    found = Session.objects.using(key.source).filter(app_name=key.app_name)
    if scope == "user":
        stored = User.objects.using(key.source).filter(app_name=key.app_name, user_id=key.user_id)
        found = found.filter(user_id=key.user_id)
    written = stored.values_list("update_time", flat=True).first()
    if written is None:
        return
    for user_id, name in (
        found.filter(update_time__gte=written).order_by("update_time").values_list("user_id", "id")[:20]
    ):
        yield SessionKey(key.source, key.app_name, user_id, name)


# Delta, author and note; of an event that is no valid JSON all of it.
_LOOKED_AT: Final = {
    "postgresql": """jsonb_build_array(event_data #> '{actions,state_delta}', event_data -> 'author',
        event_data #> '{custom_metadata,adkweb}')""",
    "sqlite": """CASE WHEN json_valid(event_data)
        THEN json_extract(event_data, '$.actions.state_delta', '$.author', '$.custom_metadata.adkweb')
        ELSE event_data END""",
}


def state_sql(vendor: str) -> str:
    """What an event says of state, as SQL, for `said_of_state`; null for one that is too large."""
    return measured_sql(f"CASE WHEN {SIZE_OF[vendor]} <= {LARGE} THEN {_LOOKED_AT[vendor]} END", vendor)


def said_of_state(text: str | None) -> dict[str, Any]:
    """An event with nothing but author, delta and note."""
    found = _loads(text)
    if not isinstance(found, list):
        return as_object(found)
    delta, author, note = found
    return {"author": author, "actions": {"state_delta": delta}, "custom_metadata": {"adkweb": note}}


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
    vendor = connections[key.source].vendor
    asked = (
        ordered(found, key.source)
        .annotate(size=Size("event_data"), said=RawSQL(state_sql(vendor), [], TextField()))
        .values_list("id", "timestamp", "size", "said", "seq")[:limit]
        .iterator(chunk_size=1 if vendor == "sqlite" else RECENT)
    )
    rows: list[dict[str, Any]] = []
    left = LARGE
    for event_id, timestamp, size, text, seq in asked:
        left -= weight(text) + (size or 0) // LOOKED_THROUGH
        if text is None or large(text) or left < 0:
            return rows, False
        event = said_of_state(text)
        note = edit_of(event)
        row = {"id": event_id, "timestamp": timestamp, "seq": seq, "delta": delta_of(event), "by": event.get("author")}
        rows.append(row | {"actor": note.get("actor"), "removed": removed_by(event)})
    return rows, True


def writer(key: SessionKey, row: dict[str, Any]) -> Writer:
    """Who wrote a row of `state_rows`."""
    return Writer(row["id"], row.get("seq"), str(row["by"] or ""), str(row["actor"] or ""), row["timestamp"], key)


# --- Sessions ---------------------------------------------------------------------------------------------------------


def listed(source: str) -> str:
    """SQL about a row of `sessions`: true for those that lists and counts show.

    Left out are the sessions in which adkweb edits `user:` and `app:` state: they have its name, and nobody speaks in
    them. Where an agent has a session of that name, its newest events are not all edits, and it is shown.
    """
    return f"""(sessions.id <> '{OWN_NAME}' OR EXISTS (SELECT 1 FROM (SELECT invocation_id FROM events
        WHERE {OF_SESSION} ORDER BY {newest_first(source)} LIMIT {SPOKEN}) AS newest
        WHERE substr(invocation_id, 1, {len(EDIT_PREFIX)}) <> '{EDIT_PREFIX}'))"""


def sessions_of(source: str, app_name: str) -> QuerySet[Session]:
    """Every session of an app, in no order."""
    return Session.objects.using(source).filter(app_name=app_name)


def is_listed(source: str) -> RawSQL:
    """`listed`, as a condition."""
    return RawSQL(listed(source), [], BooleanField())


def in_lists(found: QuerySet[Session], source: str) -> QuerySet[Session]:
    """Those that are listed."""
    return found.filter(is_listed(source))


def of_known_users(found: QuerySet[Session], source: str) -> QuerySet[Session]:
    """Without those of the user whom only adkweb's edits of app state have."""
    return found.filter(~Q(user_id=OWN_NAME) | Q(is_listed(source)))


def count_events(source: str) -> str:
    """SQL for the number of a session's events, up to a limit."""
    # In an order, although any would do: only so does PostgreSQL read the index and not the whole table.
    return f"""SELECT count(*) FROM (SELECT 1 FROM events WHERE {OF_SESSION}
        ORDER BY {newest_first(source)} LIMIT %s) AS counted"""


def count_errors(source: str) -> str:
    """SQL for how many of a session's newest 100 events are errors."""
    vendor = next(s.vendor for s in sources.listed() if s.alias == source)
    return f"""SELECT count(*) FROM (SELECT {GLANCED[vendor]} FROM events WHERE {OF_SESSION}
        ORDER BY {newest_first(source)} LIMIT 100) AS newest WHERE {FILTERS["errors"][vendor]}"""


# --- The values before ------------------------------------------------------------------------------------------------


def add_changes(key: SessionKey, page: Sequence[EventView]) -> None:
    """Gives each event its changes with the values before.

    A session key's previous value is exact: only this session writes it. An `app:` or `user:` key may have been written
    from other sessions meanwhile, so its previous value is shown only where the edit itself recorded it. Of an event that
    writes very many keys the previous values of the first ones are looked for.
    """
    wanted = {k for view in page for k in islice(view.description.delta, _LOOKED_FOR) if scope_of(k)[0] == "session"}
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
        removed = {*row["removed"]}
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
