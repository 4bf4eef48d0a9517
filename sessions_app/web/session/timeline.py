"""The timeline's rows: events by invocation, with the time since the one before, and whether agents are still given them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...agent_view.conversation import LeftOut, left_out
from ...domain.edit_note import ended_by
from ...domain.session_ref import SessionRef
from ...errors import Error
from ...reads.event_views import EventView


@dataclass(frozen=True, slots=True)
class Line:
    """One event, and the seconds since the one before it in its invocation; None for the first, and for one whose clock was
    behind. `left_out`: why no agent is given it any more.
    """

    event: EventView
    since: float | None
    left_out: LeftOut | None = None


@dataclass(slots=True)
class Invocation:
    """Events that follow each other in one invocation; `again` where a page shows its beginning already, which then
    counts in `count` and not in `lines`. Of an edit, `ended` is the invocation that it ended, and `in_vain` says that this
    one went on: its agent's service took the edit in.
    """

    id: str
    first: EventView
    last: float
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    again: bool = False
    in_vain: bool = False

    @property
    def ended(self) -> str:
        """The invocation that this edit ended, if it is one that did."""
        return ended_by(self.first.description.edit)

    @property
    def seconds(self) -> float:
        """From its first event to its last."""
        return max(0.0, self.last - self.first.timestamp)


def invocations(
    events: Sequence[EventView], after: Invocation | None = None, gone: Mapping[str, LeftOut] | None = None
) -> list[Invocation]:
    """Events in append order, grouped where neighbours share an invocation; `after` is what they follow, `gone` by id why
    they are left out.
    """
    gone = gone or {}
    found: list[Invocation] = []
    if after and events and events[0].invocation_id == after.id:
        found.append(replace(after, lines=[], again=True))
    for event in events:
        if not found or found[-1].id != event.invocation_id:
            found.append(Invocation(event.invocation_id, event, event.timestamp))
        current = found[-1]
        since = event.timestamp - current.last
        current.lines.append(Line(event, since if current.count and since >= 0 else None, gone.get(event.id)))
        current.count += 1
        current.last = max(current.last, event.timestamp)
    later = set[str]()
    for invocation in reversed(found):
        invocation.in_vain = invocation.ended in later
        later.add(invocation.id)
    return found


def no_longer_given(ref: SessionRef, events: Sequence[EventView]) -> dict[str, LeftOut]:
    """By id, why no agent is given an event any more; nothing where that cannot be told now: no timeline waits for it."""
    try:
        return left_out(ref, events)
    except Error:
        return {}
