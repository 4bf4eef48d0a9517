"""What a model gets of a session's events, as ADK builds the contents of its request for one agent (pure).

Kept to the letter of google-adk: rewinds are followed backwards, then events are left out that are of another scope, node
or branch, that are empty or ADK's own; what a summary covers gives way to it; what other agents did is told as context; at
last responses are put beside their calls. Every event that does not arrive has a reason.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ..domain.content import Raw, calls_of, object_of, parts_of, responses_of
from ..domain.kinds import AUTH_CALL, CONFIRMATION_CALL
from ..domain.rewinds import rewinds_in
from .turns import Turn, beside_the_latest, paired, turn_of, without_lone_calls, without_lone_responses

Kind = Literal[
    "rewind",  # the event that rewinds
    "rewound",
    "scope",  # of another isolation scope
    "node",  # a message for another node of a workflow
    "empty",  # nothing that a model reads
    "branch",
    "framework",
    "auth",
    "confirmation",
    "progress",  # what a tool said on its own branch while it ran
    "compacted",
    "contained",  # a summary that another one contains
    "unpaired",  # a response without its call
    "unanswered",  # a call without a response
    "replaced",  # by a later response to the same call
    "overtaken",  # between a call and its late response
]
Range = tuple[int, float, float]  # a summary: its event's place, and from when to when it covers
_FRAMEWORK_CALL: Final = "adk_framework"
_OWN_CALLS: Final[dict[str, Kind]] = {
    _FRAMEWORK_CALL: "framework",
    AUTH_CALL: "auth",
    CONFIRMATION_CALL: "confirmation",
}
_MEDIA: Final = ("inline_data", "file_data", "executable_code", "code_execution_result")
_ALWAYS: Final = ("function_call", "function_response", "tool_call", "tool_response")


@dataclass(frozen=True, slots=True)
class Reader:
    """For whom the contents are: an agent's name, and the branch, scope and node path that it runs with."""

    agent: str
    branch: str = ""
    scope: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an event is left out; `by` is the place of the event that did it, where it was one."""

    kind: Kind
    by: int | None = None


@dataclass(slots=True)
class Contents:
    """What arrives, in order; `left_out` has a reason for every other event, by place. `order`: the places by time, as
    summaries have it.
    """

    order: Sequence[int]
    turns: list[Turn] = field(default_factory=list)
    left_out: dict[int, Reason] = field(default_factory=dict)


def contents(
    events: Sequence[Raw], reader: Reader, rewound: Mapping[int, int] | None = None, *, ends: bool = True
) -> Contents:
    """What the model gets of events in append order, as stored; never raises for what a database holds.

    `rewound`: by place, that of the rewind which took the event back, where the caller knows of more than these events
    tell. `ends`: whether nothing follows them.
    """
    found = Contents(range(len(events)))
    for place, by in (rewinds_in(events) if rewound is None else rewound).items():
        found.left_out[place] = Reason("rewind") if by == place else Reason("rewound", by)
    live = [place for place in range(len(events)) if place not in found.left_out]
    calls = {str(call["id"]) for place in live for call in calls_of(events[place]) if call.get("id")}
    included = []
    for place in live:
        kind = excluded(events[place], reader) or ("progress" if _is_progress(events[place], reader, calls) else None)
        if kind:
            found.left_out[place] = Reason(kind)
        else:
            included.append(place)
    turns = _told(_transcribed(_compacted(events, included, reader, found), events), events, reader)
    for step, kind in _STEPS:
        if step is not beside_the_latest or ends:
            left = step(turns)
            _explain(found, turns, left, kind)
            turns = left
    found.turns = [turn for turn in turns if turn.written]
    arrived = {place for turn in found.turns for place in turn.events}
    for place in included:
        if place not in arrived:
            found.left_out.setdefault(place, Reason("empty"))
    return found


def in_order(found: Contents) -> list[tuple[int, Turn | Reason]]:
    """What arrives, and between it what does not: each with the place of the event beside which it stands."""
    position = {place: number for number, place in enumerate(found.order)}
    left = sorted(found.left_out, key=position.__getitem__, reverse=True)
    items: list[tuple[int, Turn | Reason]] = []
    for turn in found.turns:
        while left and position[left[-1]] <= position.get(turn.home, -1):
            items.append((left[-1], found.left_out[left.pop()]))
        items.append((turn.home, turn))
    return [*items, *((place, found.left_out[place]) for place in reversed(left))]


def task(events: Iterable[Raw], reader: Reader) -> str | None:
    """What an agent with an isolation scope is told first: the arguments of the call that delegated to it, as JSON."""
    for event in events if reader.scope is not None else ():
        for call in calls_of(event):
            if call.get("id") == reader.scope and isinstance(call.get("args"), dict) and call["args"]:
                return json.dumps(call["args"], ensure_ascii=False)
    return None


def range_of(event: Raw) -> tuple[float, float] | None:
    """From when to when an event's summary covers; None for an event without one."""
    compaction = object_of(object_of(event, "actions"), "compaction")
    start, end = compaction.get("start_timestamp"), compaction.get("end_timestamp")
    if not isinstance(compaction.get("compacted_content"), dict) or not (_is_number(start) and _is_number(end)):
        return None
    return float(start), float(end)  # type: ignore[arg-type]


def retained(ranges: Iterable[Range]) -> list[Range]:
    """The summaries that no other contains; of equal ones the last."""
    found: list[Range] = []
    end = -math.inf
    for each in sorted(ranges, key=lambda each: (each[1], -each[2], -each[0])):
        if each[2] > end or not found:
            found.append(each)
            end = each[2]
    return sorted(found)


def covering(ranges: Iterable[Range], timestamp: float) -> int | None:
    """The place of the first summary that covers a moment."""
    return next((place for place, start, end in ranges if start <= timestamp <= end), None)


def _compacted(events: Sequence[Raw], included: list[int], reader: Reader, found: Contents) -> list[Turn]:
    """The events that are left with summaries in their place, by time; and calls brought back for their responses."""
    summaries = [place for place in included if object_of(events[place], "actions").get("compaction")]
    if not summaries:
        return [turn_of(events[place], place) for place in included]
    ranges = [(place, *span) for place in summaries if (span := range_of(events[place]))]
    kept = retained(ranges)
    items: list[tuple[float, int, Turn]] = []
    for place in summaries:
        span = range_of(events[place])
        if not span:
            found.left_out[place] = Reason("empty")
        elif not any(each[0] == place for each in kept):
            by = next((n for n, start, end in kept if start <= span[0] and span[1] <= end), None)
            found.left_out[place] = Reason("contained", by)
        else:
            items.append((span[1], place, _summary(events[place], place, reader)))
    for place in included:
        if place in summaries:
            continue
        moment = timestamp_of(events[place])
        if (by := covering(kept, moment)) is not None:
            found.left_out[place] = Reason("compacted", by)
        else:
            items.append((moment, place, turn_of(events[place], place)))
    items.sort(key=lambda item: item[:2])
    times = sorted((timestamp_of(event), place) for place, event in enumerate(events))
    found.order = [place for _moment, place in times]
    turns = []
    for moment, place, turn in items:
        last = bisect_right(times, (moment, place)) - 1
        turns.append(replace(turn, home=found.order[last] if last >= 0 else -1) if turn.summary else turn)
    return _recovered(turns, included, events, found)


def _summary(event: Raw, place: int, reader: Reader) -> Turn:
    content = object_of(object_of(object_of(event, "actions"), "compaction"), "compacted_content")
    named = str(event.get("invocation_id") or "")
    turn = turn_of({"content": content, "author": reader.agent or "model", "invocation_id": named}, place)
    return replace(turn, summary=True)


def _recovered(turns: list[Turn], included: list[int], events: Sequence[Raw], found: Contents) -> list[Turn]:
    """With the calls that a summary took and whose responses are still there, and the other responses to those calls."""
    source = [turn_of(events[place], place) for place in included]
    present = {turn.place for turn in turns if not turn.summary}
    latest: dict[str, Turn] = {}
    call_of: dict[tuple[int, str], Turn] = {}
    response_to: dict[tuple[int, str], Turn] = {}
    surviving = set()
    for turn in source:
        latest.update((str(call["id"]), turn) for call in turn.calls if call.get("id"))
        for name in [str(response["id"]) for response in turn.responses if response.get("id")]:
            if name not in latest:
                continue
            call_of[turn.place, name] = latest[name]
            owner = (latest[name].place, name)
            if turn.place in present:
                surviving.add(owner)
            known = response_to.get(owner)
            if not known or timestamp_of(events[turn.place]) >= timestamp_of(events[known.place]):
                response_to[owner] = turn
    result: list[Turn] = []
    calls, others = set(), set()  # brought back
    for turn in turns:
        for name in [str(response["id"]) for response in turn.responses if response.get("id")]:
            call = None if turn.summary else call_of.get((turn.place, name))
            if call is None or call.place in present or call.place in calls:
                continue
            calls.add(call.place)
            result.append(replace(call, home=turn.home))
            for owner in [(call.place, str(each["id"])) for each in call.calls if each.get("id")]:
                other = None if owner in surviving else response_to.get(owner)
                if other and other.place not in others:
                    others.add(other.place)
                    result.append(replace(other, home=turn.home))
        result.append(turn)
    for place in calls | others:
        found.left_out.pop(place, None)
    return result


# --- Which events -----------------------------------------------------------------------------------------------------


def excluded(event: Raw, reader: Reader) -> Kind | None:
    """Why an event by itself is not for a reader, or None."""
    if event.get("isolation_scope") != reader.scope:
        return "scope"
    path = object_of(event, "node_info").get("path")
    if event.get("author") == "user" and path and path != reader.path and not responses_of(event):
        return "node"
    if _is_empty(event):
        return "empty"
    if not is_for_branch(reader.branch, event.get("branch")):
        return "branch"
    names = {str(each.get("name")) for each in (*calls_of(event), *responses_of(event))}
    return next((kind for name, kind in _OWN_CALLS.items() if name in names), None)


def is_for_branch(branch: str | None, of: Any) -> bool:
    """Whether an agent on a branch sees what happened on another: on its own, on those above, and on none."""
    return not branch or not of or f"{branch}.".startswith(f"{of}.")


def _is_empty(event: Raw) -> bool:
    if object_of(event, "actions").get("compaction"):
        return False
    content = object_of(event, "content")
    if content.get("role") and not all(_is_invisible(part) for part in parts_of(content)):
        return False
    return event.get("output_transcription") is None and event.get("input_transcription") is None


def _is_invisible(part: Raw) -> bool:
    if any(part.get(name) is not None for name in _ALWAYS) or part.get("thought_signature"):
        return False
    return bool(part.get("thought")) or not (part.get("text") or any(part.get(name) is not None for name in _MEDIA))


def _is_progress(event: Raw, reader: Reader, calls: set[str]) -> bool:
    """Whether a tool said it on a branch of its own, below the reader's; an agent that is a tool has its own name there."""
    branch = str(event.get("branch") or "").split(".") if event.get("branch") else []
    base = reader.branch.split(".") if reader.branch else []
    if len(branch) <= len(base) or branch[: len(base)] != base:
        return False
    leaves = [segment.rpartition("@") for segment in branch[len(base) :]]
    return any(mark and name in calls and leaf != reader.agent for leaf, mark, name in leaves)


# --- What is made of them ---------------------------------------------------------------------------------------------


def _transcribed(turns: list[Turn], events: Sequence[Raw]) -> list[Turn]:
    """With what was heard and said as contents; pieces that follow each other are one."""

    def text(turn: Turn, way: str) -> str:
        return "" if turn.summary else str(object_of(events[turn.place], f"{way}_transcription").get("text") or "")

    result = []
    heard: dict[str, list[tuple[int, str]]] = {"input": [], "output": []}
    for turn, following in zip(turns, [*turns[1:], None], strict=False):
        way = "" if turn.written else next((way for way in heard if text(turn, way)), "")
        if way:
            heard[way].append((turn.place, text(turn, way)))
            if following and text(following, way):
                continue
            places, texts = zip(*heard[way], strict=True)
            heard[way] = []
            role, parts = ("user" if way == "input" else "model"), ({"text": "".join(texts)},)
            turn = replace(turn, role=role, parts=parts, events=places, written=True)
        result.append(turn)
    return result


def _told(turns: list[Turn], events: Sequence[Raw], reader: Reader) -> list[Turn]:
    """With what other agents did told as context, and so what was answered to them."""
    authors = {str(call["id"]): turn.author for turn in turns for call in turn.calls if call.get("id")}
    result = []
    for turn in turns:
        other = _is_other(turn, events, reader) or any(
            (author := authors.get(str(response.get("id") or ""))) and author not in (reader.agent, "user")
            for response in turn.responses
        )
        if not other or not turn.parts:
            result.append(turn)
        elif parts := tuple(part for part in turn.parts if _is_told(part)):
            result.append(replace(turn, role="user", parts=parts, quoted=True, waiting=frozenset()))
    return result


def _is_other(turn: Turn, events: Sequence[Raw], reader: Reader) -> bool:
    if not turn.summary and events[turn.place].get("live_session_id"):
        return turn.author != "user"
    return bool(reader.agent) and turn.author not in (reader.agent, "user")


def _is_told(part: Raw) -> bool:
    if part.get("thought"):
        return False
    names = ("function_call", "function_response", *_MEDIA)
    return bool(str(part.get("text") or "").strip()) or any(part.get(name) is not None for name in names)


_STEPS: Final[tuple[tuple[Callable[[list[Turn]], list[Turn]], Kind], ...]] = (
    (without_lone_responses, "unpaired"),
    (beside_the_latest, "overtaken"),
    (paired, "replaced"),
    (without_lone_calls, "unanswered"),
)


def _explain(found: Contents, before: list[Turn], after: list[Turn], kind: Kind) -> None:
    """Notes a reason for the events that a step has left out."""
    kept = {place for turn in after for place in turn.events}
    answered = {response.get("id"): turn.place for turn in after for response in turn.responses}
    for turn in before:
        for place in turn.events:
            if place not in kept:
                by = (
                    next((answered.get(each.get("id")) for each in turn.responses), None)
                    if kind == "replaced"
                    else None
                )
                found.left_out[place] = Reason(kind, by)


# --- Raw events -------------------------------------------------------------------------------------------------------


def timestamp_of(event: Raw) -> float:
    """When it was made, in seconds; 0 where that is no number."""
    found = event.get("timestamp")
    return float(found) if _is_number(found) else 0.0  # type: ignore[arg-type]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
