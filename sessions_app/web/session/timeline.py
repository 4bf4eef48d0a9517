"""The rows of the timeline: events grouped by invocation, with the time since the event before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...access.actor import Actor
from ...agent_view.conversation import LeftOut, left_out
from ...domain.edit_note import ended_by
from ...domain.session_ref import SessionRef
from ...errors import Error
from ...reads.event_views import EventView


@dataclass(frozen=True, slots=True)
class Line:
    """An event and the seconds since the one before it in its invocation: None for the first one, or if a clock was
    behind.

    `left_out` says why no agent is given the event any more."""

    event: EventView
    since: float | None
    left_out: LeftOut | None = None


@dataclass(slots=True)
class Invocation:
    """Consecutive events of one invocation.

    `again`: a page shows its beginning already, which is in `count` but not in `lines`. `in_vain`: the invocation that
    this edit ended went on, because its agent's service took the edit in."""

    id: str
    first: EventView
    last: float
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    again: bool = False
    in_vain: bool = False

    @property
    def ended(self) -> str:
        """Returns the invocation that this edit ended, or an empty string."""
        return ended_by(self.first.description.edit)

    @property
    def seconds(self) -> float:
        """Returns the seconds from its first event to its last."""
        return max(0.0, self.last - self.first.timestamp)


def invocations(
    events: Sequence[EventView], after: Invocation | None = None, gone: Mapping[str, LeftOut] | None = None
) -> list[Invocation]:
    """Groups consecutive events of one invocation. `after` is the invocation before them; `gone` says, by id, why an
    event is left out."""
    gone = gone or {}
    groups: list[Invocation] = []
    if after and events and events[0].invocation_id == after.id:
        groups.append(replace(after, lines=[], again=True))
    for event in events:
        if not groups or groups[-1].id != event.invocation_id:
            groups.append(Invocation(event.invocation_id, event, event.timestamp))
        current = groups[-1]
        since = event.timestamp - current.last
        current.lines.append(Line(event, since if current.count and since >= 0 else None, gone.get(event.id)))
        current.count += 1
        current.last = max(current.last, event.timestamp)
    later = set[str]()
    for invocation in reversed(groups):
        invocation.in_vain = invocation.ended in later
        later.add(invocation.id)
    return groups


def no_longer_given(ref: SessionRef, events: Sequence[EventView], who: Actor) -> dict[str, LeftOut]:
    """Returns, by id, why no agent is given an event any more. Empty if that is not known yet: no timeline waits for
    it."""
    try:
        return left_out(ref, events, actor=who)
    except Error:
        return {}
