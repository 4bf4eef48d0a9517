"""The events of a session as its single page shows them: by turn, with their numbers, and as bars."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ...domain.clock import Took
from ...domain.description import Description
from ...domain.json_values import as_object
from ...domain.kinds import HIGHLIGHTS, describe
from ...domain.positions import Seq
from ...domain.state import ABSENT, STORED, UNKNOWN, Change, State, scope_of
from ...domain.turns import begins_turn
from ...domain.units import event_in_seconds
from ...reads.event_views import EventView, timed
from ...reads.large_events import beginning_in
from ...reads.weights import LARGE, large, weight
from ...transfer.items import EventItem, parse
from ...transfer.single_file import WholeSession

BARS: Final = 300


@dataclass(slots=True)
class Turn:
    """A user message and what it caused. `number` is 0 for what comes before the first one."""

    number: int
    events: list[EventView] = field(default_factory=list)

    @property
    def begun(self) -> float:
        """Returns when it began."""
        return self.events[0].timestamp

    @property
    def took(self) -> Took:
        """Returns how long it took."""
        timed(self.events)
        return self.events[0].ended.until(max(each.ended for each in self.events))

    @property
    def tokens(self) -> int:
        """Returns the tokens of its model calls."""
        return sum(each.description.tokens or 0 for each in self.events)

    @property
    def errors(self) -> int:
        """Returns how many of its events failed."""
        return sum(each.description.failed for each in self.events)

    @property
    def keys(self) -> int:
        """Returns how many keys it wrote."""
        return len({key for each in self.events for key in each.description.delta})


@dataclass(frozen=True, slots=True)
class Bar:
    """Some events that follow each other: their numbers, how many values they wrote, and the most telling kind."""

    first: int
    last: int
    writes: int
    kind: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """The figures of a whole session."""

    events: int
    turns: int
    tokens: int
    errors: int
    begun: float | None
    ended: float | None


def turns_of(whole: WholeSession) -> Iterator[Turn]:
    """Yields the turns of a session. Events are read when it is their turn."""
    turn = Turn(0)
    for event in _views(whole):
        if begins_turn(event.description):
            if turn.events:
                yield turn
            turn = Turn(turn.number + 1)
        turn.events.append(event)
    if turn.events:
        yield turn


def numbers_of(whole: WholeSession) -> Numbers:
    """Returns how many events, turns and tokens a session has, how many events failed, and from when to when it goes."""
    turns = tokens = errors = 0
    for _event, told in _described(whole):
        turns += begins_turn(told)
        tokens += told.tokens or 0
        errors += told.failed
    times = [event.timestamp for event in whole.events]
    return Numbers(len(times), turns, tokens, errors, times[0] if times else None, times[-1] if times else None)


def bars_of(whole: WholeSession) -> list[Bar]:
    """Returns the session's events in at most BARS bars."""
    told = [(_kind_of(description), len(description.delta)) for _event, description in _described(whole)]
    number = min(BARS, len(told))
    bars = []
    for bar in range(number):
        first, end = len(told) * bar // number, len(told) * (bar + 1) // number
        some = told[first:end]
        kind = max((kind for kind, _writes in some), key=lambda kind: HIGHLIGHTS.index(kind) if kind else -1)
        bars.append(Bar(first + 1, end, sum(writes for _kind, writes in some), kind))
    return bars


def _kind_of(told: Description) -> str:
    """Returns the most telling kind of an event that the strip has a colour for; empty for none."""
    kinds = [kind for kind in HIGHLIGHTS if kind in told.kinds]
    return "error" if told.failed else kinds[-1] if kinds else ""


def _described(whole: WholeSession) -> Iterator[tuple[EventItem, Description]]:
    for item in whole.events:
        yield item, describe(_data(item))


def _views(whole: WholeSession) -> Iterator[EventView]:
    """Yields the events with what they changed. Their number stands where a source has its own (`seq`)."""
    state: State = dict(whole.past.start) if whole.past else {}
    for index, item in enumerate(whole.events):
        data = _data(item)
        told = describe(data)
        view = EventView(whole.ref, item.id, Seq(index + 1), item.invocation_id, item.timestamp, data, told)
        view.size = large(item.text)
        view.unread = _has_many_items(item.text)
        after = whole.past.changes[index] if whole.past else {}
        view.changes = list(_changes(told, state, after, known=whole.past is not None))
        state |= after
        yield view


def _changes(told: Description, before: State, after: State, *, known: bool) -> Iterator[Change]:
    for key, value in told.delta.items():
        stored = known and scope_of(key)[0] in STORED
        new = ABSENT if key in told.removed else value
        yield Change(key, before.get(key, ABSENT) if stored else UNKNOWN, after.get(key, new) if stored else new)


def _has_many_items(text: str) -> bool:
    """Tells whether an event would take much more memory than its text."""
    return weight(text) - len(text) > LARGE


def _data(item: EventItem) -> dict[str, Any]:
    """Returns an event with the values of its row, as `view_of` of reads/event_views.py does."""
    if _has_many_items(item.text):
        stored = {"timestamp": item.timestamp}
    else:
        stored = as_object(parse(item.text))
        stored = beginning_in(stored) if large(item.text) else stored
    return {**event_in_seconds(stored), "id": item.id, "invocation_id": item.invocation_id}
