"""Puts tool calls and their responses beside each other, as ADK does for a model's request (pure).

The parts are JSON as ADK stores them. Nothing here raises because of what a database holds."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..domain.content import Raw, object_of, objects, parts_of


@dataclass(frozen=True, slots=True)
class Content:
    """One content of the request. `quoted` says that it is another agent's, given as context.

    `index` is that of the event that it represents, `events` has the indexes of all events in it. `home` is the index
    of the event beside which it is shown: its call for a response, the last event before its end for a summary, -1 for
    none."""

    index: int
    author: str
    role: str
    parts: tuple[Raw, ...]
    events: tuple[int, ...]
    home: int
    invocation_id: str = ""
    quoted: bool = False
    summary: bool = False
    written: bool = True  # whether it has a content at all
    asks: bool = False  # asks a person for a confirmation or a sign-in
    waiting: frozenset[str] = frozenset()

    @property
    def calls(self) -> list[Raw]:
        """Returns its tool calls; none if it is quoted, because the model then gets them as text."""
        return [] if self.quoted else objects(self.parts, "function_call")

    @property
    def responses(self) -> list[Raw]:
        """Returns its tool responses."""
        return [] if self.quoted else objects(self.parts, "function_response")


def content_of(event: Raw, index: int) -> Content:
    """Returns what an event says by itself."""
    content, actions = object_of(event, "content"), object_of(event, "actions")
    waiting = event.get("long_running_tool_ids")
    return Content(
        index,
        str(event.get("author") or ""),
        str(content.get("role") or ""),
        tuple(parts_of(content)),
        (index,),
        index,
        str(event.get("invocation_id") or ""),
        written=isinstance(event.get("content"), dict),
        asks=bool(actions.get("requested_tool_confirmations") or actions.get("requested_auth_configs")),
        waiting=frozenset(map(str, waiting)) if isinstance(waiting, list) else frozenset(),
    )


# --- Calls and responses ----------------------------------------------------------------------------------------------


def without_lone_responses(contents: list[Content]) -> list[Content]:
    """Leaves out responses without an earlier call."""
    result = []
    ids: set[Any] = set()
    names: set[Any] = set()
    for content in contents:
        if content.responses:
            kept = tuple(
                part
                for part in content.parts
                if (response := _response(part)) is None
                or (response["id"] in ids if response.get("id") else response.get("name") in names)
            )
            if kept:
                result.append(content if len(kept) == len(content.parts) else replace(content, parts=kept))
        else:
            result.append(content)
        ids |= {call["id"] for call in content.calls if call.get("id")}
        names |= {call["name"] for call in content.calls if not call.get("id") and call.get("name")}
    return result


def beside_the_latest(contents: list[Content]) -> list[Content]:
    """Leaves out what lies between a call and its response in the last content. Each of several calls gets its
    response."""
    if len(contents) < 2 or not contents[-1].responses:
        return contents
    last = contents[-1]
    parts_for: dict[int, list[Raw]] = {}
    for part in last.parts:
        response = _response(part)
        owner = None if response is None else _owner(contents, len(contents) - 1, response)
        if owner is not None:
            parts_for.setdefault(owner, []).append(part)
    if not parts_for or set(parts_for) == {len(contents) - 2}:
        return contents
    newest = max(parts_for)
    parts_for[newest] += [part for part in last.parts if _response(part) is None]
    result = []
    for index, content in enumerate(contents[: newest + 1]):
        if not content.responses:
            result.append(content)
        elif kept := tuple(part for part in content.parts if not _is_answer(contents, index, part, parts_for)):
            kept_turn = replace(content, parts=kept)
            if kept_turn.responses or kept_turn.calls:
                result.append(kept_turn)
        if index in parts_for:
            answers = [*_answers(contents, index), replace(last, parts=tuple(parts_for[index]))]
            result.append(replace(_merged(answers), home=content.home))
    return result


def _is_answer(contents: list[Content], index: int, part: Raw, calls: Collection[int | None]) -> bool:
    response = _response(part)
    return response is not None and _owner(contents, index, response) in calls


def _answers(contents: list[Content], call: int) -> list[Content]:
    """Returns the responses to a call before the last content, without the other parts of their contents."""
    answers = []
    for index in range(call + 1, len(contents) - 1):
        content = contents[index]
        if content.responses:
            parts = tuple(
                part
                for part in content.parts
                if (
                    not content.calls
                    if (response := _response(part)) is None
                    else _owner(contents, index, response) == call
                )
            )
            if any(_response(part) is not None for part in parts):
                answers.append(replace(content, parts=parts))
    return answers


def _owner(contents: list[Content], end: int, response: Raw) -> int | None:
    """Returns the index of the last content before `end` that made the call of a response."""
    wanted, name = response.get("id"), response.get("name")
    for index in range(end - 1, -1, -1):
        for call in contents[index].calls:
            if (call.get("id") == wanted) if wanted else (not call.get("id") and name and call.get("name") == name):
                return index
    return None


def paired(contents: list[Content]) -> list[Content]:
    """Puts each call's last response right after it, and leaves out what the model said to earlier responses."""
    calls: dict[Any, list[int]] = {}
    for index, content in enumerate(contents):
        for call in () if content.responses else content.calls:
            calls.setdefault(call.get("id"), []).append(index)
    responses_to: dict[tuple[Any, int], list[int]] = {}
    for index, content in enumerate(contents):
        for response in content.responses:
            if indexes := calls.get(response.get("id")):
                owner = indexes[max(bisect_left(indexes, index) - 1, 0)]
                responses_to.setdefault((response.get("id"), owner), []).append(index)
    if not any(content.responses for content in contents):
        return contents
    stale = {index for indexes in responses_to.values() for index in _stale(contents, indexes)}
    result = []
    for index, content in enumerate(contents):
        if index in stale or content.responses:
            continue
        result.append(content)
        answers = {indexes[-1] for call in content.calls if (indexes := responses_to.get((call.get("id"), index)))}
        if answers:
            result.append(replace(_merged([contents[each] for each in sorted(answers)]), home=content.home))
    return result


def _stale(contents: list[Content], indexes: list[int]) -> set[int]:
    """Returns what the model said between two responses to one call, in one invocation, if it did nothing else in
    between."""
    stale: set[int] = set()
    for index, following in pairwise(indexes):
        content, other = contents[index], contents[following]
        if (content.invocation_id, content.author) != (other.invocation_id, other.author) or content.asks:
            continue
        between = range(index + 1, following)
        if all(_is_reply(contents[each], content.invocation_id) for each in between):
            stale.update(between)
    return stale


def _is_reply(content: Content, invocation_id: str) -> bool:
    own = content.invocation_id == invocation_id and content.author != "user" and content.role == "model"
    return own and not content.calls and not content.summary and any(part.get("text") for part in content.parts)


def without_lone_calls(contents: list[Content]) -> list[Content]:
    """Leaves out calls that no one answered, except those that wait for an answer."""
    answered = {response["id"] for content in contents for response in content.responses if response.get("id")}
    kept_ids = answered.union(*(content.waiting for content in contents))
    result = []
    for content in contents:
        if not content.calls:
            result.append(content)
        elif kept := tuple(p for p in content.parts if not (name := (_call(p) or {}).get("id")) or name in kept_ids):
            result.append(content if len(kept) == len(content.parts) else replace(content, parts=kept))
    return result


def _merged(contents: Sequence[Content]) -> Content:
    """Makes one content of several contents with responses. Keeps the last response to each call."""
    parts: list[Raw] = []
    indexes: dict[Any, int] = {}
    for number, content in enumerate(contents):
        for part in content.parts:
            response = _response(part)
            if response is not None and number and response.get("id") in indexes:
                parts[indexes[response.get("id")]] = part
                continue
            if response is not None:
                indexes[response.get("id")] = len(parts)
            parts.append(part)
    return replace(
        contents[0], parts=tuple(parts), events=tuple(dict.fromkeys(e for content in contents for e in content.events))
    )


def _call(part: Raw) -> Raw | None:
    value = part.get("function_call")
    return value if isinstance(value, dict) else None


def _response(part: Raw) -> Raw | None:
    value = part.get("function_response")
    return value if isinstance(value, dict) else None
