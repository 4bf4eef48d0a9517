"""Rewinding a conversation to before an invocation, as ADK means it, in one event that an agent understands.

The session's own keys go back to what they were just before the invocation's first event, initial state kept, which ADK's
own rewind loses. As with ADK, `user:` and `app:` keys stay; artifacts stay, too, because only an artifact service has them.
"""

import time
import uuid
from dataclasses import dataclass, field
from typing import Final

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from . import changes, edits, moments, reads, sources
from .access import Actor
from .edits import Entry
from .errors import Invalid, NotFound
from .event_rows import EventView, as_object, events_of, ordered, view_of
from .events import Event, check_event
from .keys import SessionKey
from .state import ABSENT, UNKNOWN, Change, diff
from .writes import Appended, append_event

USER: Final = "user"  # the author of a rewind, as ADK's own has it


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of which versions were saved since: it stays at `now`; `then` is None where it did not exist yet."""

    name: str
    then: int | None
    now: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rewind comes to. `gone` events are seen no more by the agent, `back` ones, rewound earlier, are seen again."""

    key: SessionKey
    invocation_id: str
    revision: float
    first: EventView
    last: EventView
    gone: int
    back: int
    changes: list[Change]
    unknown: list[str] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)


def plan(key: SessionKey, invocation_id: str) -> Plan:
    """What rewinding to before an invocation would write and hide; raises NotFound, Behind, SourceError."""
    session = reads.session(key)  # first: what is written from here on makes the rewind stale
    with sources.using(key.source):
        found = events_of(key)
        rows = ordered(found.filter(invocation_id=invocation_id), key.source, newest=False)[:1] if invocation_id else []
        first = next((view_of(key, row) for row in rows), None)
    if first is None:
        raise NotFound(_("There is no invocation “%(id)s” in this session.") % {"id": invocation_id})
    then = moments.state_at(key, first.id, before=True).state.session
    unknown = sorted(name for name, value in then.items() if value is UNKNOWN)
    own = {name: value for name, value in session.state.session.items() if name not in unknown}
    past = {name: value for name, value in then.items() if value is not UNKNOWN}
    last, gone, back = _seen(key, first.seq or 0)
    return Plan(
        key,
        invocation_id,
        session.revision,
        first,
        last or first,
        gone,
        back,
        diff(own, past),
        unknown,
        _artifacts(key, first),
    )


def event_of(found: Plan, actor: Actor, reason: str, event_id: str) -> Event:
    """The event that the rewind is; raises Invalid for a reason that is too long."""
    entries = [Entry(change.key, change.new, change.old) for change in found.changes]
    return check_event(
        {
            "id": event_id,
            "invocation_id": f"e-{event_id}",
            "author": USER,
            "timestamp": time.time(),
            "actions": {
                "rewind_before_invocation_id": found.invocation_id,
                "state_delta": {e.key: None if e.value is ABSENT else e.value for e in entries},
            },
            "custom_metadata": {"adkweb": edits.note(entries, actor, reason)},
        }
    )


def rewind(
    key: SessionKey,
    invocation_id: str,
    *,
    actor: Actor,
    reason: str = "",
    revision: float | None = None,
    once: str = "",
) -> Appended:
    """Rewinds to before an invocation. With `revision`, of the plan that a person saw, only if nobody has written since;
    sent again with the same `once`, because its answer was lost, it is written once.

    Raises StaleSession where somebody wrote meanwhile, NotFound, NotAllowed, Invalid, Behind, SourceError.
    """
    actor.check_may("append", key.app_name)
    event_id = edits.id_of(once, ["rewind", invocation_id]) if once else str(uuid.uuid4())
    if once and (before := _written(key, event_id, invocation_id)):
        return Appended(before.data)
    found = plan(key, invocation_id)
    event = event_of(found, actor, reason, event_id)
    return append_event(key, event, actor=actor, expected=found.revision if revision is None else revision)


def _written(key: SessionKey, event_id: str, invocation_id: str) -> EventView | None:
    try:
        found = reads.event(key, event_id)
    except NotFound:
        return None
    if found.description.actions.get("rewind_before_invocation_id") != invocation_id:
        raise Invalid(_("Another event of this session has the id %(id)s.") % {"id": event_id})
    return found


# --- What the agent sees ----------------------------------------------------------------------------------------------

_END: Final = 2**62


def _seen(key: SessionKey, first: int) -> tuple[EventView | None, int, int]:
    """The last event that the agent sees from a place on, how many these are, and how many before it that it would see
    again.
    """
    changes.catch_up(key.source)
    rewinds = changes.marks(key, ["rewind"])
    spans = _spans([(mark.seq, mark.since) for mark in rewinds], _END)
    then = _spans([(mark.seq, mark.since) for mark in rewinds if mark.seq < first], first - 1)
    gone = [(max(a, first), b) for a, b in spans if b >= first]
    back = _count(key, then) - _count(key, [(a, min(b, first - 1)) for a, b in spans if a < first])
    return _last(key, gone), _count(key, gone), back


def _spans(rewinds: list[tuple[int, int | None]], end: int) -> list[tuple[int, int]]:
    """The places, up to one, that no rewind takes back: backwards, as ADK does it."""
    found = []
    for place, since in reversed(rewinds):
        if place > end:
            continue  # taken back itself
        found.append((place + 1, end))
        end = (since if since is not None and since < place else place) - 1
    return [(a, b) for a, b in [*found, (0, end)] if a <= b]


def _last(key: SessionKey, spans: list[tuple[int, int]]) -> EventView | None:
    with sources.using(key.source):
        for a, b in spans:  # the newest first
            for row in ordered(events_of(key).filter(seq__gte=a, seq__lte=b), key.source)[:1]:
                return view_of(key, row)
    return None


def _count(key: SessionKey, spans: list[tuple[int, int]]) -> int:
    with sources.using(key.source):
        found = events_of(key)
        return sum(found.filter(seq__gte=a, seq__lte=b).order_by().values("id").count() for a, b in spans)


# --- Artifacts --------------------------------------------------------------------------------------------------------

_SAVED: Final = {  # events that tell of artifacts, as SQL
    "postgresql": "(event_data #> '{actions,artifact_delta}') NOT IN ('{}', 'null')",
    "sqlite": """CASE WHEN json_valid(event_data)
        THEN json_extract(event_data, '$.actions.artifact_delta') END NOT IN ('{}')""",
}


def _artifacts(key: SessionKey, first: EventView) -> list[Artifact]:
    """The session's artifacts that changed since an event; those of the user are not rewound by ADK either."""
    then: dict[str, int] = {}
    now: dict[str, int] = {}
    with sources.using(key.source) as db:
        saved = events_of(key).filter(RawSQL(_SAVED[db.vendor], [], BooleanField()))
        for row in ordered(saved, key.source, newest=False):
            view = view_of(key, row)
            versions = as_object(view.description.actions.get("artifact_delta"))
            now |= versions
            if (view.seq or 0) < (first.seq or 0):
                then |= versions
    changed = sorted(name for name in now if not name.startswith("user:") and then.get(name) != now[name])
    return [Artifact(name, then.get(name), now[name]) for name in changed]
