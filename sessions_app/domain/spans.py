"""Takes a turn apart into agents, model calls, tools and waits, each with its time, one within the other. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from .clock import Ended, Took, sign_of_all

AGENT: Final = "agent"
MODEL: Final = "model"
TOOL: Final = "tool"
WAIT: Final = "wait"  # for a person, or for another system
SUMMARY: Final = "summary"  # a model sums the conversation up
DEEPEST: Final = 24  # levels; what would be deeper stands beside its parent


@dataclass(slots=True, eq=False)
class Span:
    """A stretch of a turn: booking called gemini-3-flash, from 0.0 to 1.2 seconds.

    `start` and `end` are seconds since 1970, or the least that is known of them. `end` is None for a call without an
    answer. `events` has the ids of its first and last event: of a tool, those of the call and of the response.
    """

    kind: str
    name: str  # of the agent, the model or the tool
    agent: str  # who called the model or the tool
    start: float
    end: float | None
    parent: "Span | None" = None
    start_known: bool = True
    end_known: bool = True
    events: list[str] = field(default_factory=list)
    tokens: int = 0
    failed: bool = False
    why: str = ""  # in the words of the error
    transferred: bool = False  # an agent to which another one transferred
    depth: int = 0
    children: list["Span"] = field(default_factory=list)
    asked: dict[int, "Span"] = field(default_factory=dict, repr=False)  # the calls of an agent that wait for a response

    @property
    def took(self) -> Took | None:
        """Returns how long it took; None if it has not ended."""
        if self.end is None:
            return None
        return Ended(self.start, self.start_known).until(Ended(self.end, self.end_known))

    def add(self, event_id: str) -> None:
        """Notes an event that belongs to the span."""
        self.events[1:] = [event_id] if self.events else []
        self.events = self.events or [event_id]


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of a turn, each before those within it, and where the time went.

    At most so many spans as were asked for; `more` were left out, but are counted in the sums. `model` and `tools` are how
    long at least one model or tool was at work; in parallel branches, they overlap. `waiting` is how long something waited
    for somebody and nothing was at work.
    """

    start: float
    end: float
    spans: list[Span]
    more: int
    model: Took
    tools: Took
    waiting: Took
    tokens: int
    errors: int

    @property
    def took(self) -> float:
        """Returns the seconds from the first event to the last."""
        return self.end - self.start


def trace_of(roots: list[Span], start: Ended, end: Ended, most: int) -> Trace:
    """Returns the trace of the spans that are in no other one."""
    spans = list(_ordered(roots))
    _close_containers(spans)
    of_kind = {kind: [each for each in spans if each.kind == kind] for kind in (MODEL, SUMMARY, TOOL, WAIT)}
    models, calls, waits = of_kind[MODEL] + of_kind[SUMMARY], of_kind[TOOL], of_kind[WAIT]
    model, tools = _merged(models), _merged(calls)
    working = _union([*model, *tools])
    waiting = _length(_union([*working, *_merged(waits, end.at)])) - _length(working)
    return Trace(
        start.at,
        end.at,
        spans[:most],
        max(0, len(spans) - most),
        Took(_length(model), _sign(models)),
        Took(_length(tools), _sign(calls)),
        Took(waiting, _sign(waits)),
        sum(each.tokens for each in spans),
        sum(each.failed for each in spans),
    )


def _sign(spans: Iterable[Span]) -> str:
    return sign_of_all(took.sign for each in spans if (took := each.took))


def _ordered(roots: list[Span]) -> Iterator[Span]:
    """Yields each span before those within it; in the order in which they began."""
    left = roots[::-1]
    while left:
        span = left.pop()
        yield span
        left += span.children[::-1]


def _close_containers(spans: list[Span]) -> None:
    """Ends the agents without events of their own, such as a ParallelAgent, with the last of those within them."""
    for span in reversed(spans):
        if span.kind == AGENT and not span.events:
            ends = [(each.end, each.end_known) for each in span.children if each.end is not None]
            span.end, span.end_known = max(ends, default=(span.start, span.start_known))


_Stretch = tuple[float, float]


def _merged(spans: Iterable[Span], open_until: float | None = None) -> list[_Stretch]:
    ended = ((each.start, open_until if each.end is None else each.end) for each in spans)
    return _union([(start, end) for start, end in ended if end is not None and end > start])


def _union(stretches: list[_Stretch]) -> list[_Stretch]:
    """Returns stretches of time without overlaps: [(1, 5)] for [(1, 3), (2, 5)]."""
    merged: list[_Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _length(stretches: list[_Stretch]) -> float:
    return sum(end - start for start, end in stretches)
