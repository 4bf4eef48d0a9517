"""Aligns two runs: turns by their user messages, and within them the events by what they are and say (pure).

Ids, times and tokens don't count as differences. The work is bounded: in stretches that are too long, events are paired
in order.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from .description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Description
from .differences import stretches
from .invocations import begins_turn
from .json_values import as_object, equal

MOST: Final = 2_000  # turns, or events of a turn, among which the best pairs are searched
_ASKING: Final = frozenset({AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL})
_IDS: Final = frozenset({"id", "functionCallId", "function_call_id"})  # in the arguments with which ADK asks
_BY_ID: Final = frozenset({"requested_auth_configs", "requested_tool_confirmations"})
_ELSEWHERE: Final = frozenset({*_BY_ID, "state_delta", "compaction", "rewind_before_invocation_id"})
_NOTHING: Final[tuple[Any, ...]] = (None, False, "", [], {})

Aspect = Literal[
    "error",
    "author",
    "kind",
    "tools",
    "arguments",
    "response",
    "text",
    "thought",
    "code",
    "media",
    "output",
    "state",
    "actions",
]


class Told(Protocol):
    """An event with its description."""

    @property
    def data(self) -> Mapping[str, Any]:
        """Returns the event's JSON."""
        ...  # pragma: no cover

    @property
    def description(self) -> Description:
        """Returns what it is and says."""


E = TypeVar("E", bound=Told)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair(Generic[E]):
    """An event of each run, or of only one of them. `differs` lists in what two differ, the most important first."""

    left: E | None
    right: E | None
    differs: tuple[Aspect, ...] = ()

    @property
    def same(self) -> bool:
        """Returns whether both runs have the same."""
        return bool(self.left and self.right and not self.differs)

    def differs_in(self, *aspects: Aspect) -> bool:
        """Returns whether two events differ in one of these."""
        return not set(aspects).isdisjoint(self.differs)


@dataclass(slots=True)
class AlignedTurn(Generic[E]):
    """A turn of each run, or of only one of them. Numbers count from 1; 0 is what comes before the first message.

    With `coarse`, it was too long: its events are paired in order.
    """

    left: int | None
    right: int | None
    pairs: list[Pair[E]] = field(default_factory=list)
    coarse: bool = False

    @property
    def same(self) -> bool:
        """Returns whether both runs have the same."""
        return all(pair.same for pair in self.pairs)


@dataclass(slots=True)
class Alignment(Generic[E]):
    """Two runs beside each other. With `coarse`, there were too many turns: they are paired in order."""

    turns: list[AlignedTurn[E]]
    coarse: bool = False

    @property
    def pairs(self) -> list[Pair[E]]:
        """Returns the events of all turns."""
        return [pair for turn in self.turns for pair in turn.pairs]

    @property
    def first(self) -> Pair[E] | None:
        """Returns the first divergence; None if the runs are the same."""
        return next((pair for pair in self.pairs if not pair.same), None)


def align(left: Sequence[E], right: Sequence[E]) -> Alignment[E]:
    """Aligns the events of two runs. adkweb's note that a session is a fork is left out: it says nothing about the
    run."""
    (before_a, *a), (before_b, *b) = _turns(left), _turns(right)
    search = _Search()
    ways: list[Callable[[_Turn[E]], str]] = [lambda turn: turn.text, lambda turn: turn.message]
    rows: list[AlignedTurn[E]] = []
    if before_a.events or before_b.events:
        rows.append(_aligned(before_a, before_b))
    rows += [_aligned(one, other) for one, other in search.matched(a, b, ways)]
    return Alignment(rows, search.gave_up)


def aspects_of(event: Told) -> dict[Aspect, Any]:
    """Returns what an event says, by aspect, for comparing two events."""
    d, data = event.description, event.data
    actions = {name: value for name, value in d.actions.items() if name not in _ELSEWHERE and value not in _NOTHING}
    asked = [list(as_object(d.actions.get(name)).values()) for name in sorted(_BY_ID)]
    summary = as_object(d.actions.get("compaction")).get("compacted_content")
    heard = [as_object(data.get(f"{way}_transcription")).get("text") for way in ("input", "output")]
    return {
        "error": [data.get("error_code"), data.get("error_message"), bool(data.get("interrupted"))],
        "author": [d.author, d.edit.get("actor")],
        "kind": d.kind,
        "tools": [[part.kind, part.name] for part in d.of("call", "response")],
        "arguments": [_arguments(part.name, part.value) for part in d.calls],
        "response": [part.value for part in d.responses],
        "text": [*(part.value for part in d.of("text")), *heard],
        "thought": [part.value for part in d.of("thought")],
        "code": [[part.kind, part.value] for part in d.of("code", "code_result")],
        "media": [part.value for part in d.of("image", "file", "unknown")],
        "output": data.get("output"),
        "state": [d.delta, sorted(d.removed)],
        "actions": [actions, asked, summary, bool(d.actions.get("rewind_before_invocation_id"))],
    }


def _arguments(tool: str, value: Any) -> Any:
    """Returns the arguments of a call. Those with which ADK asks a person name the call by its id."""
    if tool not in _ASKING:
        return value
    return {
        name: {key: each for key, each in inner.items() if key not in _IDS} if isinstance(inner, dict) else inner
        for name, inner in as_object(value).items()
        if name not in _IDS
    }


# --- Turns and events with what they are known by ----------------------------------------------------------------------


class _Known(Generic[E]):
    """An event with the texts by which it is matched."""

    def __init__(self, event: E) -> None:
        self.event = event
        self.aspects = aspects_of(event)
        self.text = _text(self.aspects)
        kind, tools = self.aspects["kind"], self.aspects["tools"]
        self.shape = _text([kind, tools, self.aspects["author"]])
        self.deed = _text([kind, tools])


class _Turn(Generic[E]):
    """A turn with the texts by which it is matched; `events` start with its message, if it has one."""

    def __init__(self, number: int, events: list[_Known[E]]) -> None:
        self.number, self.events = number, events

    @property
    def text(self) -> str:
        return _text([known.text for known in self.events])

    @property
    def message(self) -> str:
        return _text(self.events[0].aspects["text"])


def _turns(events: Sequence[E]) -> list[_Turn[E]]:
    """Returns the turns of a run, after what comes before the first message."""
    turns: list[_Turn[E]] = [_Turn(0, [])]
    for event in events:
        if event.description.edit.get("forked"):
            continue
        if begins_turn(event.description):
            turns.append(_Turn(len(turns), []))
        turns[-1].events.append(_Known(event))
    return turns


def _text(value: Any) -> str:
    """Returns a short text for a value. Two values may have the same one: callers that rely on it must compare them,
    too."""
    try:
        written = json.dumps(value, sort_keys=True)
    except RecursionError:
        written = ""
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()


def _aligned(one: _Turn[E] | None, other: _Turn[E] | None) -> AlignedTurn[E]:
    a, b = one.events if one else [], other.events if other else []
    search = _Search()
    both_begin = int(bool(one and other and one.number and other.number))  # a message is beside the other one
    pairs = [*zip(a[:both_begin], b[:both_begin], strict=True)]
    ways: list[Callable[[_Known[E]], str]] = [lambda e: e.text, lambda e: e.shape, lambda e: e.deed]
    rows = [*pairs, *search.matched(a[both_begin:], b[both_begin:], ways)]
    numbers = one.number if one else None, other.number if other else None
    return AlignedTurn(*numbers, [_pair(x, y) for x, y in rows], search.gave_up)


def _pair(a: _Known[E] | None, b: _Known[E] | None) -> Pair[E]:
    if a is None or b is None:
        return Pair(a.event if a else None, b.event if b else None)
    return Pair(a.event, b.event, tuple(name for name, value in a.aspects.items() if not equal(value, b.aspects[name])))


# --- What stands beside what -------------------------------------------------------------------------------------------


class _Search:
    """Looks for what two sequences have in common; `gave_up` says that some of it was too long for that."""

    def __init__(self) -> None:
        self.gave_up = False

    def matched(
        self, a: Sequence[T], b: Sequence[T], ways: Sequence[Callable[[T], str]]
    ) -> Iterator[tuple[T | None, T | None]]:
        """Yields pairs of what is alike in the first way; between these, of what is alike in the next way; then in
        order."""
        if not (ways and a and b):
            yield from zip_longest(a, b)
            return
        way, *others = ways
        i = j = 0
        for x, y in [*self._common([way(each) for each in a], [way(each) for each in b]), (len(a), len(b))]:
            yield from self.matched(a[i:x], b[j:y], others)
            if x < len(a):
                yield a[x], b[y]
            i, j = x + 1, y + 1

    def _common(self, a: list[str], b: list[str]) -> list[tuple[int, int]]:
        """Returns the indexes of what both have in common: what both start and end with, and the most of what is
        between.

        It is the same if the sequences are exchanged.
        """
        start = _shared(a, b)
        end = _shared(a[start:][::-1], b[start:][::-1])
        inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
        between: list[tuple[int, int]] = []
        if max(len(inner_a), len(inner_b)) > MOST:
            self.gave_up |= bool(inner_a and inner_b)
        elif inner_a <= inner_b:
            between = [(i + n, j + n) for i, j, size in stretches(inner_a, inner_b) for n in range(size)]
        else:
            between = [(i + n, j + n) for j, i, size in stretches(inner_b, inner_a) for n in range(size)]
        return [
            *((n, n) for n in range(start)),
            *((start + i, start + j) for i, j in between),
            *((len(a) - n, len(b) - n) for n in range(end, 0, -1)),
        ]


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    """Counts the items that both start with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))
