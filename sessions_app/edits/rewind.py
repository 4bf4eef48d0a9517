"""Rewinds a conversation to before an invocation, as ADK does, with one event that an agent understands.

The session's own keys return to their values from just before the invocation's first event. ADK's own rewind loses
initial state; this one keeps it. As with ADK, `user:` and `app:` keys stay. Artifacts stay, too: only an artifact
service has them."""

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..domain.errors import Error, Held, Invalid, NotFound
from ..domain.event import Event, check_event
from ..domain.invocations import taken_back
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, diff
from ..history import moments
from ..history.index import build, query
from ..reads import timeline, views
from ..reads.event_views import EventView, events_of, ordered, view_of
from ..reads.size_limits import SMALL
from ..sources import database
from ..sources.dialect import SQLITE, Either, if_json
from ..writes.append import Appended, append_event
from ..writes.incomplete import check_complete
from . import edit, proposals
from .edit import Entry
from .proposals import Prepared

USER: Final = "user"  # the author of a rewind, as in ADK


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact that has new versions since: it stays at `now`. `then` is None if it did not exist yet."""

    name: str
    then: int | None
    now: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The events that the agent no longer sees: how many, the first and the last (None if there are none).

    With `all`, these are all events from the first to the last. Otherwise, the agent doesn't see the others now either.
    """

    events: int
    first: EventView | None = None
    last: EventView | None = None
    all: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect of a rewind to before the invocation that starts with `first`.

    The agent sees `back` events again, which an earlier rewind undid."""

    ref: SessionRef
    invocation_id: str
    revision: float
    first: EventView
    gone: Gone
    back: int
    changes: list[Change]
    unknown: list[str] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)

    @property
    def takes_back(self) -> bool:
        """Returns whether it goes back to before an earlier rewind, and so undoes that one."""
        return bool(self.first.description.actions.get("rewind_before_invocation_id"))


def plan(ref: SessionRef, invocation_id: str, *, actor: Actor) -> Plan:
    """Returns what a rewind to before an invocation would write and hide.

    Raises NotFound, Conflict (the session is being copied or imported), Behind, SourceError."""
    session = views.session(ref, actor=actor)  # read first, so that anything written after this makes the rewind stale
    check_complete(session.state.session)
    with database.using(ref.source):
        events = events_of(ref).filter(invocation_id=invocation_id)
        rows = ordered(events, ref.source, newest=False)[:1] if invocation_id else []
        first = next((view_of(ref, row, actor) for row in rows), None)
    if first is None:
        raise NotFound(_("There's no invocation “%(id)s” in this session.") % {"id": invocation_id})
    then = moments.state_at(ref, first.id, before=True, actor=actor).state.session
    unknown = {name for name, value in then.items() if value is UNKNOWN}
    own = {name: value for name, value in session.state.session.items() if name not in unknown}
    past = {name: value for name, value in then.items() if value is not UNKNOWN}
    gone, back = _seen(ref, first.seq or NO_SEQ, actor)
    return Plan(
        ref,
        invocation_id,
        session.revision,
        first,
        gone,
        back,
        diff(own, past),
        sorted(unknown),
        _artifacts(ref, first),
    )


def event_of(planned: Plan, actor: Actor, reason: str, event_id: str) -> Event:
    """Returns the event for a rewind. Raises Invalid for a reason that is too long."""
    entries = [Entry(change.key, change.new, change.old) for change in planned.changes]
    return check_event(
        {
            "id": event_id,
            "invocation_id": f"e-{event_id}",
            "author": USER,
            "timestamp": time.time(),
            "actions": {
                "rewind_before_invocation_id": planned.invocation_id,
                "state_delta": {e.key: None if e.value is ABSENT else e.value for e in entries},
            },
            "custom_metadata": {"adkweb": edit.note(entries, actor, reason)},
        }
    )


def rewind(
    ref: SessionRef,
    invocation_id: str,
    *,
    actor: Actor,
    reason: str = "",
    revision: float | None = None,
    once: str = "",
) -> Appended:
    """Rewinds a session to before an invocation.

    With `revision`, that of the plan that a person saw, only if no one has written since. A rewind that is sent again
    with the same `once`, because the answer was lost, is written only once. Raises StaleSession if someone wrote
    in the meantime, NotFound, NotAllowed, Invalid, Conflict, Behind, SourceError."""
    actor.check_may("append", ref.source, ref.app_name)
    event_id = edit.id_of(once, ["rewind", invocation_id]) if once else str(uuid.uuid4())
    if once and (before := _written(ref, event_id, invocation_id, actor)):
        return Appended(before.data)
    try:
        found = prepared(ref, invocation_id, actor=actor, reason=reason, revision=revision, event_id=event_id)
        try:
            return append_event(ref, found.event, actor=actor, origin="person", expected=found.revision)
        except Held:
            raise proposals.keep(ref, found.event, {}, found.revision, actor=actor) from None
    except Error:
        # If it was sent twice at the same moment, the other one has been written.
        if once and (before := _written(ref, event_id, invocation_id, actor)):
            return Appended(before.data)
        raise


def prepared(
    ref: SessionRef, invocation_id: str, *, actor: Actor, reason: str, revision: float | None, event_id: str = ""
) -> Prepared:
    """Returns a rewind as an edit that can be written later. Raises what `rewind` does."""
    found = plan(ref, invocation_id, actor=MACHINE)
    event = event_of(found, actor, reason, event_id or str(uuid.uuid4()))
    return Prepared(event, {}, found.revision if revision is None else revision)


def _written(ref: SessionRef, event_id: str, invocation_id: str, actor: Actor) -> EventView | None:
    try:
        found = timeline.event(ref, event_id, actor=actor)
    except NotFound:
        return None
    if found.description.actions.get("rewind_before_invocation_id") != invocation_id:
        raise Invalid(_("This session already has an event with the id %(id)s.") % {"id": event_id})
    return found


# --- Which events a rewind leaves out ---------------------------------------------------------------------------------

_END: Final = 2**62
_Span = tuple[int, int]  # the first seq and the last


def _seen(ref: SessionRef, first: Seq, actor: Actor) -> tuple[Gone, int]:
    """Returns the events that the agent sees now and would not see after a rewind to before `first`, and how many
    events it would see again."""
    build.catch_up(ref.source)
    rewinds = query.highlights(ref, ["rewind"])
    now = _spans([(each.seq, each.since) for each in rewinds], _END)
    then = _spans([(each.seq, each.since) for each in rewinds if each.seq < first], first - 1)
    (events, *ends), (back, *_ends) = _counted(ref, [_without(now, then), _without(then, now)])
    if not events:
        return Gone(0), back
    between, *_ends = _counted(ref, [[(ends[0], ends[1])]])[0]
    with database.using(ref.source):
        found = [view_of(ref, events_of(ref).get(seq=place), actor) for place in ends]
    return Gone(events, found[0], found[1], between == events), back


def _spans(rewinds: list[tuple[Seq, Seq | None]], end: int) -> list[_Span]:
    """Returns the ranges of seq up to `end` that no rewind undoes."""
    found: list[_Span] = []
    for first, last in taken_back(each for each in rewinds if each[0] <= end):
        found.append((last + 1, end))
        end = first - 1
    return [(a, b) for a, b in [*found, (0, end)] if a <= b]


def _without(spans: list[_Span], others: list[_Span]) -> list[_Span]:
    """Returns the parts of `spans` that lie in none of the others."""
    same = {*spans} & {*others}  # most of them, if there are many: both have the same ones further back
    spans = [span for span in spans if span not in same]
    for a, b in others if spans else ():
        parts = [part for start, end in spans for part in ((start, min(end, a - 1)), (max(start, b + 1), end))]
        spans = [(start, end) for start, end in parts if start <= end]
    return spans


_COUNTED: Final = Either(
    postgresql="""SELECT lot, sum(found), min(first), max(last)
        FROM jsonb_to_recordset(%s) AS span (lot int, a bigint, b bigint),
        LATERAL (SELECT count(*) AS found, min(seq) AS first, max(seq) AS last FROM events
            WHERE app_name = %s AND user_id = %s AND session_id = %s AND seq BETWEEN a AND b) AS counted GROUP BY lot""",
    sqlite="""SELECT json_extract(value, '$.lot'), count(*), min(events.rowid), max(events.rowid)
        FROM json_each(%s) CROSS JOIN events
        WHERE app_name = %s AND user_id = %s AND session_id = %s
            AND events.rowid BETWEEN json_extract(value, '$.a') AND json_extract(value, '$.b') GROUP BY 1""",
)


def _counted(ref: SessionRef, lots: list[list[_Span]]) -> list[tuple[int, Seq, Seq]]:
    """Returns, for each list of spans, the number of its events and the seq of the first and the last. Runs one query
    in all."""
    spans = [{"lot": lot, "a": a, "b": b} for lot, found in enumerate(lots) for a, b in found]
    with database.using(ref.source) as db, db.cursor() as cursor:
        cursor.execute(_COUNTED.on(db), [json.dumps(spans), *ref[1:]])
        counted = {
            lot: (int(number), first or NO_SEQ, last or NO_SEQ) for lot, number, first, last in cursor.fetchall()
        }
    return [counted.get(lot, (0, NO_SEQ, NO_SEQ)) for lot in range(len(lots))]


# --- Artifacts --------------------------------------------------------------------------------------------------------

# The versions that events mention, one row each. Events of more than a megabyte are left out. ADK may store NaN, which
# SQLite's JSON functions refuse.
_READABLE: Final = if_json("event_data", otherwise="'{}'", also=f"{SQLITE.size('event_data')} <= {SMALL}")
_SAVED: Final = Either(
    postgresql="""SELECT seq AS place, key AS name, value::text AS version FROM events, LATERAL jsonb_each(CASE
            WHEN jsonb_typeof(event_data #> '{actions,artifact_delta}') = 'object'
            THEN event_data #> '{actions,artifact_delta}' END)
        WHERE app_name = %s AND user_id = %s AND session_id = %s AND jsonb_typeof(value) = 'number'""",
    sqlite=f"""SELECT events.rowid AS place, saved.key AS name, CAST(saved.value AS text) AS version
        FROM events, json_each(
            {_READABLE},
            '$.actions.artifact_delta') AS saved
        WHERE app_name = %s AND user_id = %s AND session_id = %s AND saved.type = 'integer' AND typeof(saved.key) = 'text'
            """,
)


def _artifacts(ref: SessionRef, first: EventView) -> list[Artifact]:
    """Returns the session's artifacts that changed since an event. Leaves out those of the user: ADK does not rewind
    them either."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        cursor.execute(
            f"""SELECT name, late, version FROM (
                SELECT name, late, version, row_number() OVER (PARTITION BY name, late ORDER BY place DESC) AS nth
                FROM (SELECT saved.*, place >= %s AS late FROM ({_SAVED.on(db)}) AS saved) AS told) AS ranked
            WHERE nth = 1""",
            [first.seq or 0, *ref[1:]],
        )
        rows = [(name, late, int(float(version))) for name, late, version in cursor.fetchall()]
    then = {name: version for name, late, version in rows if not late}
    now = {name: version for name, late, version in rows if late}
    changed = sorted(name for name in now if not name.startswith("user:") and then.get(name) != now[name])
    return [Artifact(name, then.get(name), now[name]) for name in changed]
