"""Reads the part of events that is about state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import TextField
from django.db.models.expressions import RawSQL

from ..access.actor import Actor
from ..access.shown import shown_object
from ..domain.edit_note import edit_of
from ..domain.event import delta_of, read_reduced, removed_by
from ..domain.json_values import as_object
from ..domain.parallel import Write, Writes, write_of
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, State, scope_of
from ..sources import database
from ..sources.dialect import Database, Either, if_json
from .event_views import EventView, before_cursor, events_of, one_by_one, ordered, views
from .listed import sessions_since
from .size_limits import LARGE, LOOKED_THROUGH, Size, large, measured_sql, size_of_event, weight

NEAR: Final = 40  # events that are searched first
RECENT: Final = 500  # events that are searched for the last writer or the previous value of a key
_BESIDE: Final = 500  # events of the invocations of a page that are searched for parallel writes
_LAST: Final = 100  # last writers that are checked for parallel writes
_LOOKED_FOR: Final = 2_000  # keys of an event whose previous values are searched for


@dataclass(frozen=True, slots=True)
class Writer:
    """The event that last wrote a key."""

    event_id: str
    seq: Seq | None
    author: str
    actor: str  # who made the edit; empty if it isn't one
    timestamp: float
    ref: SessionRef  # the session that it wrote in
    branch: str = field(default="", compare=False)


def initial_state(db: BaseDatabaseWrapper, ref: SessionRef, actor: Actor) -> State | None:
    """Returns a session's initial state with full keys; None if it was never recorded, or is too large to be read."""
    if not database.is_adopted(ref.source):
        return None
    with db.cursor() as cursor:
        of_session = "FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s"
        cursor.execute(f"SELECT {measured_sql('initial_state', db)} {of_session}", ref[1:])
        stored = cursor.fetchone()
    if not stored or stored[0] is None or large(stored[0]):
        return None
    return shown_object(stored[0], actor, ref.app_name)


# Delta, author, note and branch. For an event that is not valid JSON, the whole event.
_LOOKED_AT: Final = Either(
    postgresql="""jsonb_build_array(event_data #> '{actions,state_delta}', event_data -> 'author',
        event_data #> '{custom_metadata,adkweb}', event_data -> 'branch')""",
    sqlite=if_json(
        "event_data",
        "json_extract(event_data, '$.actions.state_delta', '$.author', '$.custom_metadata.adkweb', '$.branch')",
        otherwise="event_data",
    ),
)


def state_sql(db: Database) -> str:
    """Returns the SQL of what an event says about state, to be read by `said_of_state`; null if it is too large."""
    return measured_sql(f"CASE WHEN {size_of_event(db)} <= {LARGE} THEN {_LOOKED_AT.on(db)} END", db)


def said_of_state(text: str | None, actor: Actor, app_name: str) -> dict[str, Any]:
    """Returns an event with only its author, delta and note."""
    return shown_object(text, actor, app_name, "event", read_reduced)


def state_rows(
    ref: SessionRef, actor: Actor, before: str | None = None, limit: int = RECENT, after: int = 0
) -> tuple[list[dict[str, Any]], bool]:
    """Returns the newest events of a session (before a cursor, after a seq), reduced to what they say about state;
    newest first.

    Also returns whether these are all that were requested: they end before they weigh more than LARGE together."""
    events = events_of(ref)
    if after:
        events = events.filter(seq__gt=after)
    if before:
        events = events.filter(before_cursor(before))
    stored = (
        ordered(events, ref.source)
        .annotate(size=Size("event_data"), said=RawSQL(state_sql(ref.source), [], TextField()))
        .values_list("id", "timestamp", "size", "said", "seq")[:limit]
    )
    rows: list[dict[str, Any]] = []
    left = LARGE
    for event_id, timestamp, size, text, seq in one_by_one(stored, ref.source):
        left -= weight(text) + (size or 0) // LOOKED_THROUGH
        if text is None or large(text) or left < 0:
            return rows, False
        event = said_of_state(text, actor, ref.app_name)
        note = edit_of(event)
        row = {"id": event_id, "timestamp": timestamp, "seq": seq, "delta": delta_of(event), "by": event.get("author")}
        rows.append(row | {"actor": note.get("actor"), "removed": removed_by(event)})
    return rows, True


def writer(ref: SessionRef, row: dict[str, Any]) -> Writer:
    """Returns the writer that a row of `state_rows` names."""
    return Writer(row["id"], row.get("seq"), str(row["by"] or ""), str(row["actor"] or ""), row["timestamp"], ref)


# --- The values before ------------------------------------------------------------------------------------------------


def add_changes(ref: SessionRef, page: Sequence[EventView], actor: Actor) -> None:
    """Gives each event its changes, with the previous values.

    The previous value of a session key is exact: only this session writes it. Other sessions may have written an `app:`
    or `user:` key in the meantime, so its previous value is only shown if the edit itself recorded it. If an event
    writes very many keys, only the first ones get previous values."""
    writers = [view for view in page if not view.description.edit]
    wanted = {k for view in writers for k in islice(view.description.delta, _LOOKED_FOR) if scope_of(k)[0] == "session"}
    before = _values_before(ref, page, wanted, actor) if wanted else {}
    for view in page:
        known = before.get(view.id, {})
        recorded = as_object(view.description.edit.get("replaced"))
        removed = set(view.description.removed)
        for name, value in view.description.delta.items():
            old = recorded.get(name, ABSENT) if view.description.edit else known.get(name, UNKNOWN)
            new = UNKNOWN if name in view.cut else value
            view.changes.append(Change(name, old, ABSENT if name in removed else new))
    _note_parallel(ref, page, actor)


def _note_parallel(ref: SessionRef, page: Sequence[EventView], actor: Actor) -> None:
    """Notes which keys agents on parallel branches wrote, too. Reads more only where an event has a branch and a
    delta."""
    mine = [(view, write_of(view.data, view.invocation_id, view.description.delta)) for view in page]
    invocations = {write.invocation_id for view, write in mine if write.branch and view.changes}
    if not invocations:
        return
    writes, _by_seq = _writes_in(ref, invocations, actor)
    for view, write in mine:
        view.changes = [
            replace(change, beside=others) if (others := writes.beside(write, change.key)) else change
            for change in view.changes
        ]


def _writes_in(ref: SessionRef, invocations: Collection[str], actor: Actor) -> tuple[Writes, dict[Seq | None, Write]]:
    of_them = ordered(events_of(ref).filter(invocation_id__in=invocations), ref.source, newest=False)
    rows, _more = views(of_them, ref.source, actor, _BESIDE, LARGE // 4, ref)
    writes = {each.seq: write_of(each.data, each.invocation_id, each.description.delta) for each in rows}
    return Writes(writes.values()), writes


def written_beside(ref: SessionRef, writers: Mapping[str, Writer], *, actor: Actor) -> dict[str, tuple[str, ...]]:
    """Returns, for keys with these last writers, who else wrote them at the same time in this session."""
    actor.check_sees(ref)
    mine = {name: writer for name, writer in writers.items() if writer.ref == ref and writer.branch}
    seqs = sorted({writer.seq for writer in mine.values() if writer.seq is not None}, reverse=True)[:_LAST]
    if not seqs:
        return {}
    with database.using(ref.source):
        invocations = set(events_of(ref).filter(seq__in=seqs).values_list("invocation_id", flat=True)) - {""}
        writes, by_seq = _writes_in(ref, invocations, actor)
    wrote = {name: by_seq[writer.seq] for name, writer in mine.items() if writer.seq in by_seq}
    return {name: others for name, write in wrote.items() if (others := writes.beside(write, name))}


def _values_before(ref: SessionRef, page: Sequence[EventView], names: set[str], actor: Actor) -> dict[str, State]:
    """Returns, by event id, the values of the session keys just before the event wrote them. Leaves out unknown ones.

    Also reads the events in between, which a filter may hide. Reads only a few if these are enough."""
    for limit in (NEAR + len(page), RECENT + len(page)):
        rows, whole = state_rows(ref, actor, before=page[-1].cursor, limit=limit)
        values, unknown = _told_by(rows, page, names)
        if not unknown or len(rows) < limit:
            break
    initial = None
    if unknown and whole and len(rows) < limit:
        initial = initial_state(connections[ref.source], ref, actor)
    if initial is not None:
        for name, ids in unknown.items():
            for event_id in ids:
                values[event_id][name] = initial.get(name, ABSENT)
    return values


def _told_by(
    rows: Sequence[dict[str, Any]], page: Sequence[EventView], names: set[str]
) -> tuple[dict[str, State], dict[str, list[str]]]:
    """Returns the values before each event of a page that rows (the newest first) contain, and which values are
    missing."""
    values: dict[str, State] = {view.id: {} for view in page}
    wanted = {view.id: names & view.description.delta.keys() for view in page}
    # The row of the newest event is not among them.
    unknown: dict[str, list[str]] = {name: [page[-1].id] for name in wanted[page[-1].id]}
    for row in rows:
        delta = as_object(row["delta"])
        removed = {*row["removed"]}
        for name in unknown.keys() & delta.keys():
            value = ABSENT if delta[name] is None and name in removed else delta[name]
            for event_id in unknown.pop(name):
                values[event_id][name] = value
        for name in wanted.get(row["id"], ()):
            unknown.setdefault(name, []).append(row["id"])
    return values, unknown


# --- Who wrote a key --------------------------------------------------------------------------------------------------


def writers(ref: SessionRef, after: Seq = NO_SEQ, *, actor: Actor) -> dict[str, Writer]:
    """Returns the last writer of each key, with its prefix, that this session's newest RECENT events wrote, or those
    after a seq."""
    actor.check_sees(ref)
    with database.using(ref.source):
        writers: dict[str, Writer] = {}
        for row in state_rows(ref, actor, after=after)[0]:
            writers = dict.fromkeys(row["delta"], writer(ref, row)) | writers
        return writers


def last_writer(ref: SessionRef, full_key: str, *, actor: Actor) -> Writer | None:
    """Returns the event that last wrote a key of any scope. Searches the sessions that were active since the scope
    changed."""
    actor.check_sees(ref)
    scope, _bare = scope_of(full_key)
    with database.using(ref.source):
        sessions = [ref] if scope == "session" else list(sessions_since(ref, scope))
        writers = [
            writer(candidate, row)
            for candidate in sessions
            for row in state_rows(candidate, actor, limit=100)[0]
            if full_key in as_object(row["delta"])
        ]
        return max(writers, key=lambda writer: writer.timestamp, default=None)
