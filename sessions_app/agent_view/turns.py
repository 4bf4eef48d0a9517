"""One content of a model's request, and how ADK puts tool calls and their responses beside each other (pure).

The parts are JSON as ADK stores them; nothing here raises for what a database holds.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..domain.content import Raw, object_of, objects, parts_of


@dataclass(frozen=True, slots=True)
class Turn:
    """One content of the request: `parts` as ADK stores them. `quoted`: another agent's, told as context.

    `place` is that of the event it stands for, `events` those of all that are in it, `home` the one beside which it
    stands: of a response its call, of a summary the last event before its end, -1 for none.
    """

    place: int
    author: str
    role: str
    parts: tuple[Raw, ...]
    events: tuple[int, ...]
    home: int
    invocation_id: str = ""
    quoted: bool = False
    summary: bool = False
    written: bool = True  # whether it has a content at all
    asks: bool = False  # a person, for a confirmation or a sign-in
    waiting: frozenset[str] = frozenset()

    @property
    def calls(self) -> list[Raw]:
        """Its tool calls; what is quoted is text to the model."""
        return [] if self.quoted else objects(self.parts, "function_call")

    @property
    def responses(self) -> list[Raw]:
        """Its tool responses."""
        return [] if self.quoted else objects(self.parts, "function_response")


def turn_of(event: Raw, place: int) -> Turn:
    """An event's own content."""
    content, actions = object_of(event, "content"), object_of(event, "actions")
    waiting = event.get("long_running_tool_ids")
    return Turn(
        place,
        str(event.get("author") or ""),
        str(content.get("role") or ""),
        tuple(parts_of(content)),
        (place,),
        place,
        str(event.get("invocation_id") or ""),
        written=isinstance(event.get("content"), dict),
        asks=bool(actions.get("requested_tool_confirmations") or actions.get("requested_auth_configs")),
        waiting=frozenset(map(str, waiting)) if isinstance(waiting, list) else frozenset(),
    )


# --- Calls and responses ----------------------------------------------------------------------------------------------


def without_lone_responses(turns: list[Turn]) -> list[Turn]:
    """Without responses to calls that nobody made before."""
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
    """Where the last turn answers an earlier call, without what lies between; answers to several calls go to each."""
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
    for place, turn in enumerate(turns[: newest + 1]):
        if not turn.responses:
            result.append(turn)
        elif kept := tuple(part for part in turn.parts if not _is_answer(turns, place, part, parts_for)):
            kept_turn = replace(turn, parts=kept)
            if kept_turn.responses or kept_turn.calls:
                result.append(kept_turn)
        if place in parts_for:
            answers = [*_answers(turns, place), replace(last, parts=tuple(parts_for[place]))]
            result.append(replace(_merged(answers), home=turn.home))
    return result


def _is_answer(turns: list[Turn], place: int, part: Raw, calls: Collection[int | None]) -> bool:
    response = _response(part)
    return response is not None and _owner(turns, place, response) in calls


def _answers(turns: list[Turn], call: int) -> list[Turn]:
    """What was answered to a call before the last turn, reduced to that."""
    found = []
    for place in range(call + 1, len(turns) - 1):
        turn = turns[place]
        if turn.responses:
            parts = tuple(
                part
                for part in turn.parts
                if (not turn.calls if (response := _response(part)) is None else _owner(turns, place, response) == call)
            )
            if any(_response(part) is not None for part in parts):
                found.append(replace(turn, parts=parts))
    return found


def _owner(turns: list[Turn], end: int, response: Raw) -> int | None:
    """The last turn before a place that made the call of a response."""
    wanted, name = response.get("id"), response.get("name")
    for place in range(end - 1, -1, -1):
        for call in turns[place].calls:
            if (call.get("id") == wanted) if wanted else (not call.get("id") and name and call.get("name") == name):
                return place
    return None


def paired(turns: list[Turn]) -> list[Turn]:
    """With each call's last response right behind it, and without what the model said to those before."""
    calls: dict[Any, list[int]] = {}
    for place, turn in enumerate(turns):
        for call in () if turn.responses else turn.calls:
            calls.setdefault(call.get("id"), []).append(place)
    answers: dict[tuple[Any, int], list[int]] = {}
    for place, turn in enumerate(turns):
        for response in turn.responses:
            if places := calls.get(response.get("id")):
                owner = places[max(bisect_left(places, place) - 1, 0)]
                answers.setdefault((response.get("id"), owner), []).append(place)
    if not any(turn.responses for turn in turns):
        return turns
    stale = {place for places in answers.values() for place in _stale(turns, places)}
    result = []
    for place, turn in enumerate(turns):
        if place in stale or turn.responses:
            continue
        result.append(turn)
        found = {places[-1] for call in turn.calls if (places := answers.get((call.get("id"), place)))}
        if found:
            result.append(replace(_merged([turns[each] for each in sorted(found)]), home=turn.home))
    return result


def _stale(turns: list[Turn], places: list[int]) -> set[int]:
    """What the model said between two responses to the same call, in one invocation, if it did nothing else there."""
    found: set[int] = set()
    for place, following in pairwise(places):
        turn, other = turns[place], turns[following]
        if (turn.invocation_id, turn.author) != (other.invocation_id, other.author) or turn.asks:
            continue
        between = range(place + 1, following)
        if all(_is_reply(turns[each], turn.invocation_id) for each in between):
            found.update(between)
    return found


def _is_reply(turn: Turn, invocation_id: str) -> bool:
    own = turn.invocation_id == invocation_id and turn.author != "user" and turn.role == "model"
    return own and not turn.calls and not turn.summary and any(part.get("text") for part in turn.parts)


def without_lone_calls(turns: list[Turn]) -> list[Turn]:
    """Without calls that nobody answered, but for those that wait for an answer."""
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
    """Several turns with responses as one: of each call the last response."""
    parts: list[Raw] = []
    places: dict[Any, int] = {}
    for number, turn in enumerate(turns):
        for part in turn.parts:
            response = _response(part)
            if response is not None and number and response.get("id") in places:
                parts[places[response.get("id")]] = part
                continue
            if response is not None:
                places[response.get("id")] = len(parts)
            parts.append(part)
    return replace(turns[0], parts=tuple(parts), events=tuple(dict.fromkeys(e for turn in turns for e in turn.events)))


def _call(part: Raw) -> Raw | None:
    found = part.get("function_call")
    return found if isinstance(found, dict) else None


def _response(part: Raw) -> Raw | None:
    found = part.get("function_response")
    return found if isinstance(found, dict) else None
