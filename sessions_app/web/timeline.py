"""The timeline's rows: events by invocation, with the time since the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..event_rows import EventView


@dataclass(frozen=True, slots=True)
class Line:
    """One event, and the seconds since the one before it in its invocation; None for the first."""

    event: EventView
    since: float | None


@dataclass(slots=True)
class Invocation:
    """Events that follow each other in one invocation; `again` where a page shows its beginning already, which then
    counts in `count` and not in `lines`.
    """

    id: str
    first: EventView
    last: float
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    again: bool = False

    @property
    def seconds(self) -> float:
        """From its first event to its last."""
        return max(0.0, self.last - self.first.timestamp)


def invocations(events: Sequence[EventView], after: Invocation | None = None) -> list[Invocation]:
    """Events in append order, grouped where neighbours share an invocation; `after` is what they follow."""
    found: list[Invocation] = []
    if after and events and events[0].invocation_id == after.id:
        found.append(replace(after, lines=[], again=True))
    for event in events:
        if not found or found[-1].id != event.invocation_id:
            found.append(Invocation(event.invocation_id, event, event.timestamp))
        current = found[-1]
        current.lines.append(Line(event, event.timestamp - current.last if current.count else None))
        current.count += 1
        current.last = event.timestamp
    return found
