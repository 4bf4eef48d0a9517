"""The timeline's rows: events by invocation, with the time since the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..reads import EventView


@dataclass(frozen=True, slots=True)
class Line:
    """One event, and the seconds since the one before it in its invocation; None for the first."""

    event: EventView
    since: float | None


@dataclass(slots=True)
class Invocation:
    """Events that follow each other in one invocation."""

    id: str
    lines: list[Line] = field(default_factory=list)

    @property
    def first(self) -> EventView:
        """Its first event on this page."""
        return self.lines[0].event

    @property
    def seconds(self) -> float:
        """From its first event to its last."""
        return max(0.0, self.lines[-1].event.timestamp - self.first.timestamp)


def invocations(events: Sequence[EventView]) -> list[Invocation]:
    """Events in append order, grouped where neighbours share an invocation."""
    found: list[Invocation] = []
    for event in events:
        if not found or found[-1].id != event.invocation_id:
            found.append(Invocation(event.invocation_id))
        lines = found[-1].lines
        lines.append(Line(event, event.timestamp - lines[-1].event.timestamp if lines else None))
    return found
