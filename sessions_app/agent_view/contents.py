"""Builds the contents of an agent's request from the events of a session, as google-adk builds them (pure).

The rules are google-adk's, to the letter, and in its order: events that a rewind undid are left out, then those that
are not for the agent (exclusion.py), then those that a summary covers (summaries.py). What other agents said is quoted
as context. At last, each response is put beside its call (content.py). Every event that is left out has a reason.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..domain.content import Raw, calls_of, object_of
from ..domain.invocations import rewinds_in
from .content import Content, beside_the_latest, paired, without_lone_calls, without_lone_responses
from .exclusion import MEDIA, Kind, Reader, Reason, excluded, is_progress
from .summaries import summarised


@dataclass(slots=True)
class Contents:
    """The contents of a request in order, and by index a reason for every event that is left out.

    `order` holds the indexes of the events; they are in the order of time where summaries are among them.
    """

    order: Sequence[int]
    contents: list[Content] = field(default_factory=list)
    left_out: dict[int, Reason] = field(default_factory=dict)


def contents(
    events: Sequence[Raw], reader: Reader, rewound: Mapping[int, int] | None = None, *, ends: bool = True
) -> Contents:
    """Builds what the model gets from stored events, given in append order. Never raises because of what a database
    holds.

    `rewound` maps the index of an event to the index of the rewind that undid it, if the caller knows of rewinds
    outside these events. `ends` says that no event follows them."""
    if rewound is None:
        rewound = rewinds_in(events)
    left_out = {index: Reason("rewind") if by == index else Reason("rewound", by) for index, by in rewound.items()}
    included = _included(events, reader, left_out)
    contents, order = summarised(events, included, reader, left_out)
    contents = _quoted(_transcribed(contents, events), events, reader)
    for step, kind in _STEPS:
        if step is not beside_the_latest or ends:
            kept = step(contents)
            _explain(left_out, contents, kept, kind)
            contents = kept
    contents = [content for content in contents if content.written]
    arrived = {index for content in contents for index in content.events}
    for index in included:
        if index not in arrived:
            left_out.setdefault(index, Reason("empty"))
    return Contents(order, contents, left_out)


def in_order(result: Contents) -> list[tuple[int, Content | Reason]]:
    """Lists what the model gets and, in between, what is left out: each with the index of the event beside which it is
    shown."""
    rank = {index: number for number, index in enumerate(result.order)}
    left = sorted(result.left_out, key=rank.__getitem__, reverse=True)
    items: list[tuple[int, Content | Reason]] = []
    for content in result.contents:
        while left and rank[left[-1]] <= rank.get(content.home, -1):
            items.append((left[-1], result.left_out[left.pop()]))
        items.append((content.home, content))
    return [*items, *((index, result.left_out[index]) for index in reversed(left))]


def task(events: Iterable[Raw], reader: Reader) -> str | None:
    """Returns, as JSON, the arguments of the call that delegated to an agent: the first thing that the agent gets.

    None for an agent that does not run in an isolation scope.
    """
    for event in events if reader.isolation_scope is not None else ():
        for call in calls_of(event):
            if call.get("id") == reader.isolation_scope and isinstance(call.get("args"), dict) and call["args"]:
                return json.dumps(call["args"], ensure_ascii=False)
    return None


def _included(events: Sequence[Raw], reader: Reader, left_out: dict[int, Reason]) -> list[int]:
    """Returns the indexes of the events that are for the reader, and adds a reason for each of the others."""
    live = [index for index in range(len(events)) if index not in left_out]
    calls = {str(call["id"]) for index in live for call in calls_of(events[index]) if call.get("id")}
    included = []
    for index in live:
        kind = excluded(events[index], reader) or ("progress" if is_progress(events[index], reader, calls) else None)
        if kind:
            left_out[index] = Reason(kind)
        else:
            included.append(index)
    return included


def _transcribed(contents: list[Content], events: Sequence[Raw]) -> list[Content]:
    """Turns transcriptions of speech into contents, and joins consecutive pieces."""

    def text(content: Content, way: str) -> str:
        return (
            "" if content.summary else str(object_of(events[content.index], f"{way}_transcription").get("text") or "")
        )

    result = []
    heard: dict[str, list[tuple[int, str]]] = {"input": [], "output": []}
    for content, following in zip(contents, [*contents[1:], None], strict=False):
        way = "" if content.written else next((way for way in heard if text(content, way)), "")
        if way:
            heard[way].append((content.index, text(content, way)))
            if following and text(following, way):
                continue
            indexes, texts = zip(*heard[way], strict=True)
            heard[way] = []
            role, parts = ("user" if way == "input" else "model"), ({"text": "".join(texts)},)
            content = replace(content, role=role, parts=parts, events=indexes, written=True)
        result.append(content)
    return result


def _quoted(contents: list[Content], events: Sequence[Raw], reader: Reader) -> list[Content]:
    """Quotes as context what other agents did, and the answers to their calls."""
    authors = {str(call["id"]): content.author for content in contents for call in content.calls if call.get("id")}
    result = []
    for content in contents:
        other = _is_other(content, events, reader) or any(
            (author := authors.get(str(response.get("id") or ""))) and author not in (reader.agent, "user")
            for response in content.responses
        )
        if not other or not content.parts:
            result.append(content)
        elif parts := tuple(part for part in content.parts if _is_quotable(part)):
            result.append(replace(content, role="user", parts=parts, quoted=True, waiting=frozenset()))
    return result


def _is_other(content: Content, events: Sequence[Raw], reader: Reader) -> bool:
    if not content.summary and events[content.index].get("live_session_id"):
        return content.author != "user"
    return bool(reader.agent) and content.author not in (reader.agent, "user")


def _is_quotable(part: Raw) -> bool:
    if part.get("thought"):
        return False
    names = ("function_call", "function_response", *MEDIA)
    return bool(str(part.get("text") or "").strip()) or any(part.get(name) is not None for name in names)


_STEPS: Final[tuple[tuple[Callable[[list[Content]], list[Content]], Kind], ...]] = (
    (without_lone_responses, "unpaired"),
    (beside_the_latest, "overtaken"),
    (paired, "replaced"),
    (without_lone_calls, "unanswered"),
)


def _explain(left_out: dict[int, Reason], before: list[Content], after: list[Content], kind: Kind) -> None:
    """Adds a reason for each event that a step left out."""
    kept = {index for content in after for index in content.events}
    answered = {response.get("id"): content.index for content in after for response in content.responses}
    for content in before:
        by = next((answered.get(each.get("id")) for each in content.responses), None) if kind == "replaced" else None
        left_out |= {index: Reason(kind, by) for index in content.events if index not in kept}
