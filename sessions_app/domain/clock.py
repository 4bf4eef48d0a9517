"""Works out when each event of a turn ended: all durations come from here (pure).

The time in an event, its stamp, is not always the time of its end. google-adk makes a model's event before it calls the
model, and renews the time only when a streamed chunk has come: without streaming, a model's event has the time at which
its call started. All other events are made when they are stored, such as a user's message or a tool's answer; only the
answers of tools that ran side by side are one event, with the time of one of them.

So what counts is when the row was written, which an adopted database records. It is ignored where it contradicts the
stamps, as after a copy or an import, which write old events at once. Without it, a model's call ended at its stamp or
later: the call took at least that long (“≥”), and what follows it at most (“≤”).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .description import Description
from .invocations import begins_turn, seconds_of
from .model_calls import by_model

SKEW: Final = 10.0  # seconds between the clocks of an agent and its database, or until a user's message is stored
_NOBODY_KNOWS: Final = -1.0


class Took(NamedTuple):
    """How long something took, in seconds: exactly, or at least (“≥”), at most (“≤”), or about (“≈”) so long."""

    seconds: float
    sign: str = ""


class Ended(NamedTuple):
    """When an event ended, in seconds since 1970; if that is not `known`, then at this time or later."""

    at: float
    known: bool = True

    def until(self, end: "Ended") -> Took:
        """Returns how long it is from this end to a later one. A clock that goes back counts as stopped."""
        return Took(max(0.0, end.at - self.at), sign_of(self.known, end.known))


def sign_of(start_known: bool, end_known: bool) -> str:
    """Returns the sign of a duration, whose start and end are known exactly or as bounds."""
    return ("" if end_known else "≥") if start_known else "≤" if end_known else "≈"


def sign_of_all(signs: Iterable[str]) -> str:
    """Returns the sign of durations that are added or compared: “≈” if some are lower bounds and others upper
    bounds."""
    different = {*signs} - {""}
    return different.pop() if len(different) == 1 else "≈" if different else ""


UNTIMED: Final = Ended(0.0)


@dataclass(slots=True)
class Clock:
    """Works out when the events of a turn ended, in the order in which they were stored.

    `base` is when the first of them was written: 0 before it, and negative if unknown.
    """

    base: float = 0.0

    def ended(self, event: Mapping[str, Any], told: Description) -> Ended:
        """Returns when the next event of the turn ended."""
        stamp, written = seconds_of(event), told.written or 0.0
        if not self.base:
            believed = written and (told.by_agent or abs(written - stamp) <= SKEW)
            self.base = written if believed else _NOBODY_KNOWS
        if self.base > 0 and stamp >= self.base - SKEW and written >= stamp - SKEW:
            return Ended(written)
        return Ended(stamp, known=not _ends_later(event, told))


def ends(told: Iterable[tuple[Mapping[str, Any], Description]], clock: Clock) -> Iterator[Ended]:
    """Yields when each of some events of a session ended, in the order in which they were stored.

    `clock` is that of the events before them, or a new one. Afterwards, it is that of the last turn.
    """
    for event, said in told:
        if begins_turn(said):
            clock.base = 0.0
        yield clock.ended(event, said)


def _ends_later(event: Mapping[str, Any], told: Description) -> bool:
    """Returns whether an event may have ended after its stamp."""
    if not told.by_agent:
        return False
    return by_model(event, told) or len(told.responses) > 1
