"""Puts tool calls and their responses beside each other, as ADK does for a model's request (pure).

The parts are JSON as ADK stores them. Nothing here raises because of what a database holds."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..domain.content import Raw, object_of, objects, parts_of


@dataclass(frozen=True, slots=True)
class Turn:
    """One content of the request. `quoted` says that it is another agent's, told as context.

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


def turn_of(event: Raw, index: int) -> Turn:
    """Makes a turn of an event's own content."""
    content, actions = object_of(event, "content"), object_of(event, "actions")
    waiting = event.get("long_running_tool_ids")
    return Turn(
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


def without_lone_responses(turns: list[Turn]) -> list[Turn]:
    """Leaves out responses to calls that nobody made before."""
    result = []
    ids: set[Any] = set()
    names: set[Any] = set()
    for turn in turns:
        if turn.responses:
            kept = tuple(
                part
                for part in turn.parts
                if (response := _response(part)) is None
                or (response["id"] in ids if response.get("id") else response.get("name") in names)
            )
            if kept:
                result.append(turn if len(kept) == len(turn.parts) else replace(turn, parts=kept))
        else:
            result.append(turn)
        ids |= {call["id"] for call in turn.calls if call.get("id")}
        names |= {call["name"] for call in turn.calls if not call.get("id") and call.get("name")}
    return result


def beside_the_latest(turns: list[Turn]) -> list[Turn]:
    """Leaves out what lies between a call and its response in the last turn. Each of several calls gets its response."""
    if len(turns) < 2 or not turns[-1].responses:
        return turns
    last = turns[-1]
    parts_for: dict[int, list[Raw]] = {}
    for part in last.parts:
        response = _response(part)
        owner = None if response is None else _owner(turns, len(turns) - 1, response)
        if owner is not None:
            parts_for.setdefault(owner, []).append(part)
    if not parts_for or set(parts_for) == {len(turns) - 2}:
        return turns
    newest = max(parts_for)
    parts_for[newest] += [part for part in last.parts if _response(part) is None]
    result = []
    for index, turn in enumerate(turns[: newest + 1]):
        if not turn.responses:
            result.append(turn)
        elif kept := tuple(part for part in turn.parts if not _is_answer(turns, index, part, parts_for)):
            kept_turn = replace(turn, parts=kept)
            if kept_turn.responses or kept_turn.calls:
                result.append(kept_turn)
        if index in parts_for:
            answers = [*_answers(turns, index), replace(last, parts=tuple(parts_for[index]))]
            result.append(replace(_merged(answers), home=turn.home))
    return result


def _is_answer(turns: list[Turn], index: int, part: Raw, calls: Collection[int | None]) -> bool:
    response = _response(part)
    return response is not None and _owner(turns, index, response) in calls


def _answers(turns: list[Turn], call: int) -> list[Turn]:
    """Returns the responses to a call before the last turn, without the other parts of their turns."""
    answers = []
    for index in range(call + 1, len(turns) - 1):
        turn = turns[index]
        if turn.responses:
            parts = tuple(
                part
                for part in turn.parts
                if (not turn.calls if (response := _response(part)) is None else _owner(turns, index, response) == call)
            )
            if any(_response(part) is not None for part in parts):
                answers.append(replace(turn, parts=parts))
    return answers


def _owner(turns: list[Turn], end: int, response: Raw) -> int | None:
    """Returns the index of the last turn before `end` that made the call of a response."""
    wanted, name = response.get("id"), response.get("name")
    for index in range(end - 1, -1, -1):
        for call in turns[index].calls:
            if (call.get("id") == wanted) if wanted else (not call.get("id") and name and call.get("name") == name):
                return index
    return None


def paired(turns: list[Turn]) -> list[Turn]:
    """Puts each call's last response right after it, and leaves out what the model said to earlier responses."""
    calls: dict[Any, list[int]] = {}
    for index, turn in enumerate(turns):
        for call in () if turn.responses else turn.calls:
            calls.setdefault(call.get("id"), []).append(index)
    responses_to: dict[tuple[Any, int], list[int]] = {}
    for index, turn in enumerate(turns):
        for response in turn.responses:
            if indexes := calls.get(response.get("id")):
                owner = indexes[max(bisect_left(indexes, index) - 1, 0)]
                responses_to.setdefault((response.get("id"), owner), []).append(index)
    if not any(turn.responses for turn in turns):
        return turns
    stale = {index for indexes in responses_to.values() for index in _stale(turns, indexes)}
    result = []
    for index, turn in enumerate(turns):
        if index in stale or turn.responses:
            continue
        result.append(turn)
        answers = {indexes[-1] for call in turn.calls if (indexes := responses_to.get((call.get("id"), index)))}
        if answers:
            result.append(replace(_merged([turns[each] for each in sorted(answers)]), home=turn.home))
    return result


def _stale(turns: list[Turn], indexes: list[int]) -> set[int]:
    """Returns what the model said between two responses to one call, in one invocation, if it did nothing else in
    between."""
    stale: set[int] = set()
    for index, following in pairwise(indexes):
        turn, other = turns[index], turns[following]
        if (turn.invocation_id, turn.author) != (other.invocation_id, other.author) or turn.asks:
            continue
        between = range(index + 1, following)
        if all(_is_reply(turns[each], turn.invocation_id) for each in between):
            stale.update(between)
    return stale


def _is_reply(turn: Turn, invocation_id: str) -> bool:
    own = turn.invocation_id == invocation_id and turn.author != "user" and turn.role == "model"
    return own and not turn.calls and not turn.summary and any(part.get("text") for part in turn.parts)


def without_lone_calls(turns: list[Turn]) -> list[Turn]:
    """Leaves out calls that nobody answered, except those that wait for an answer."""
    answered = {response["id"] for turn in turns for response in turn.responses if response.get("id")}
    kept_ids = answered.union(*(turn.waiting for turn in turns))
    result = []
    for turn in turns:
        if not turn.calls:
            result.append(turn)
        elif kept := tuple(p for p in turn.parts if not (name := (_call(p) or {}).get("id")) or name in kept_ids):
            result.append(turn if len(kept) == len(turn.parts) else replace(turn, parts=kept))
    return result


def _merged(turns: Sequence[Turn]) -> Turn:
    """Makes one turn of several turns with responses. Keeps the last response to each call."""
    parts: list[Raw] = []
    indexes: dict[Any, int] = {}
    for number, turn in enumerate(turns):
        for part in turn.parts:
            response = _response(part)
            if response is not None and number and response.get("id") in indexes:
                parts[indexes[response.get("id")]] = part
                continue
            if response is not None:
                indexes[response.get("id")] = len(parts)
            parts.append(part)
    return replace(turns[0], parts=tuple(parts), events=tuple(dict.fromkeys(e for turn in turns for e in turn.events)))


def _call(part: Raw) -> Raw | None:
    value = part.get("function_call")
    return value if isinstance(value, dict) else None


def _response(part: Raw) -> Raw | None:
    value = part.get("function_response")
    return value if isinstance(value, dict) else None
