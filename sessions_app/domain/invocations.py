"""The invocations of a session: which one is running, and which events rewinds undid (pure).

The running one is derived from the session's newest events alone.

ADK does not store when an invocation starts or ends. An invocation runs from a user's event until each of its branches
has had its last word. Then it is over, or it waits for someone.

Some things can't be known. After an agent's last word, another agent may follow in the same branch (SequentialAgent,
LoopAgent, Workflow). Only resumable apps say so, with checkpoints; otherwise, the invocation looks ended until the next
agent's first event. A Workflow's `node_info.output_for` names the last output, but its last node may have none. An
exception below a SequentialAgent or ParallelAgent stores nothing, so only silence shows that the invocation has ended.

An edit of a session with a running invocation notes that it ended the invocation, because ADK refuses that agent's next
append. If an event follows anyway, the agent's service has received the edit, and the invocation is still
running.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from .content import Raw, object_of
from .description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Description, Part
from .edit_note import ended_by, is_copy
from .event import is_partial
from .json_values import as_object
from .kinds import describe

ASKING_CALLS: Final = frozenset({AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL})
UPDATES: Final = "adkweb_updates"  # in custom_metadata: the ids of calls that a user's event answers, but not for good
_ENDS: Final = frozenset({"error", "stopped"})
_SPOKEN: Final = _ENDS | {"interrupted", "transcription", "output", "finish"}  # say something without parts
_LAST_TIMESTAMP: Final = 2**32 - 1  # as in event.check_event; any other timestamp counts as 0


Told = tuple[Mapping[str, Any], Description]  # an event and its description


@dataclass(frozen=True, slots=True)
class Running:
    """An invocation that has started and not ended. If it is `waiting`, it waits for a person or a system, not for the
    agent."""

    invocation_id: str
    since: float  # seconds since 1970: when the current run started, or the time of its earliest event that was seen
    last: float  # the time of its newest event
    waiting: bool  # for answers to long-running calls, confirmations and sign-ins
    waits_for: tuple[str, ...] = ()  # the names of the tools that wait
    calls: tuple[str, ...] = ()  # the names of the tools that are running


def running(events: Sequence[Mapping[str, Any]], now: float, silence: float) -> Running | None:
    """Returns the running invocation, otherwise the newest one that waits, otherwise None.

    `events` are the newest events of one session as they are stored, in the order in which they were stored. It never
    raises, whatever they contain. After `silence` seconds without an event, or once the user has started another turn, an
    invocation is no longer running. A waiting one keeps waiting, because a person may take days; but not if the user moved
    on to something else.
    """
    return running_of([(event, describe(event)) for event in events if isinstance(event, Mapping)], now, silence)


def running_of(told: Iterable[Told], now: float, silence: float) -> Running | None:
    """Returns what `running` returns, for events with their descriptions."""
    session = _Session(silence)
    for event, said in live_events(told):
        if said.edit:
            session.end(ended_by(said.edit))
        else:
            session.hear(event, said)
    in_flight = []
    waits = session.waits()
    for name, found in reversed(session.invocations.items()):
        if session.answered_elsewhere(name, found):
            continue
        busy = found.open or (found.at_work and name not in waits)  # waiting pauses the workflow agents
        if busy and not found.copied and not found.ended and not now - found.last > silence:
            tools = tuple(dict.fromkeys(found.calls.values()))
            in_flight.append(Running(name, found.since, found.last, waiting=False, calls=tools))
        elif name in waits and session.said <= found.asked:
            in_flight.append(Running(name, found.since, found.last, waiting=True, waits_for=tuple(waits[name])))
    return min(in_flight, key=lambda each: each.waiting, default=None)  # min takes the first of equals: the newest


def live_events(told: Iterable[Told]) -> list[Told]:
    """Returns the events that belong to an agent's run or end one, without those that a rewind undid.

    Compactions are left out, as are edits that ended nothing.
    """
    events = list(told)
    first: dict[str, int] = {}
    for place, (event, _) in enumerate(events):
        first.setdefault(_text(event.get("invocation_id")), place)
    live, place = [], len(events) - 1
    while place >= 0:  # backwards, as in ADK: a rewind that was itself rewound has no effect
        _, said = events[place]
        if target := _text(said.actions.get("rewind_before_invocation_id")):
            place = min(
                first.get(target, 0), place
            )  # an invocation that isn't among the events is older than all of them
        elif ended_by(said.edit) if said.edit else not said.actions.get("compaction"):
            live.append(events[place])
        place -= 1
    return live[::-1]


@dataclass(slots=True)
class _Invocation:
    """What is known about an invocation so far."""

    since: float
    last: float
    open: set[str] = field(default_factory=set)  # branches that have not had their last word
    at_work: dict[str, str] = field(default_factory=dict)  # workflow agents with a checkpoint and no end: their branch
    copied: bool = False  # its newest event is a fork's copy, so no agent is running it here
    ended: bool = False  # an edit or another message of the user's ended it, and none of its events followed
    asked: int = 0  # the number of the event in which it asked last
    newly_asked: dict[str, str] = field(default_factory=dict)  # in its newest event: call id to tool name
    answers: frozenset[str] = frozenset()  # the ids of the calls that a user answers in its only event
    calls: dict[str, str] = field(default_factory=dict)  # tools that are running: id of the call to name of the tool

    def say(self, branch: str, goes_on: bool) -> None:
        """Notes that a branch has spoken. This continues from the branches above; a last word also ends those below."""
        self.open -= {each for each in self.open if _within(branch, each) or (not goes_on and _within(each, branch))}
        if goes_on:
            self.open.add(branch)


class _Session:
    """What is known about all invocations so far. In `invocations`, the one with the newest event comes last."""

    def __init__(self, silence: float) -> None:
        self.silence = silence
        self.events, self.said = 0, 0  # how many; the number of the last user message
        self.invocations: dict[str, _Invocation] = {}
        # These are not in _Invocation, because older versions of ADK store the answer under another invocation.
        self.asked: dict[str, tuple[str, str, str]] = {}  # id of an unanswered call: invocation, branch, tool
        self.tools: dict[str, str] = {}  # id of any call: the name of its tool
        self.answered: dict[str, dict[str, None]] = {}  # id of a call that a user answered: the invocations, in order
        self.requested: set[str] = set()  # calls whose tools have asked, mostly by a call that ADK makes for them

    def end(self, name: str) -> None:
        """Notes that an edit ended an invocation."""
        if name in self.invocations:
            self.invocations[name].ended = True

    def hear(self, event: Mapping[str, Any], said: Description) -> None:
        """Takes in the next event of an agent or a user."""
        name, branch, at = _text(event.get("invocation_id")), _text(event.get("branch")), seconds_of(event)
        self.events += 1
        if begins_turn(said):
            self.said = self.events
            for other in self.invocations.values():  # if one of them was alive, its next event says so
                other.ended = True
        is_new = name not in self.invocations
        found = self.invocations.pop(name, None) or _Invocation(at, at)
        self.invocations[name] = found
        found.copied, found.ended = is_copy(event), False
        gap, found.since, found.last = at - found.last, found.since or at, max(at, found.last)
        for part in said.responses:
            found.calls.pop(part.id or part.name, None)
        _take_checkpoint(found, branch, said)
        goes_on = _goes_on(event, said)
        if goes_on is None:
            pass
        elif said.author == "user":
            if not found.open or gap > self.silence:
                found.since = at or found.since
            final = [part.id for part in said.responses if part.id not in updates_of(event)]
            for call_id in final:
                self.asked.pop(call_id, None)
                self.answered.setdefault(call_id, {}).setdefault(name)
            only_answers = is_new and not begins_turn(said)
            found.answers = frozenset(call_id for call_id in final if call_id and only_answers)
            found.newly_asked = {}
            found.say(branch, goes_on=True)
        else:
            self._hear_agent(name, branch, goes_on, said)
            found.answers = frozenset()
        above, _, agent = branch.rpartition(".")
        if above and agent == said.author and said.actions.get("escalate"):
            found.say(above, goes_on=False)  # a ParallelAgent stops all of its branches, whatever they are doing

    def _hear_agent(self, name: str, branch: str, goes_on: bool, said: Description) -> None:
        found = self.invocations[name]
        found.calls |= {call.id or call.name: call.name for call in said.calls if not _is_asking(call)}
        if _broke_off(said):
            found.calls.clear()
            found.at_work.clear()  # if only one sub-agent ended, the next one's checkpoint follows at once
            for call_id in found.newly_asked:
                if call_id in self.asked and _within(self.asked[call_id][1], branch):
                    del self.asked[call_id]  # its tool failed before it could ask anyone
        found.newly_asked = dict(self._asks(said))
        found.asked = self.events if found.newly_asked else found.asked
        self.asked |= {call_id: (name, branch, tool) for call_id, tool in found.newly_asked.items() if call_id}
        found.say(branch, goes_on)

    def answered_elsewhere(self, name: str, found: _Invocation) -> bool:
        """Returns whether an invocation consists only of an answer to a call that a later one answers, too: some
        programs store an answer twice, and the agent continues with the second."""
        return any(next(reversed(self.answered[call_id])) != name for call_id in found.answers)

    def waits(self) -> dict[str, list[str]]:
        """Returns the tools that each waiting invocation waits for, by invocation, each tool once."""
        found: dict[str, list[str]] = {}
        for name, _, tool in self.asked.values():
            found.setdefault(name, []).append(tool)
        for name, invocation in self.invocations.items():
            if "" in invocation.newly_asked:  # no one can answer a call without an id: it waits until an event follows
                found.setdefault(name, []).append(invocation.newly_asked[""])
        return {name: list(dict.fromkeys(tools)) for name, tools in found.items()}

    def _asks(self, said: Description) -> Iterable[tuple[str, str]]:
        """Yields what an agent's event asks of someone else: the id of the call and the name of the tool."""
        for call in said.calls:
            self.tools |= {call.id: call.name} if call.id else {}
            if _is_asking(call):
                original_id, tool = stands_for(call)
                self.requested |= {original_id} - {""}
                yield call.id, tool or self.tools.get(original_id) or call.name
        requested = _requested(said)
        for part in said.responses:
            if part.id not in requested and part.id in self.requested:
                self.requested.remove(part.id)  # its tool has run now, wherever the answer came from
                self.asked.pop(part.id, None)
            elif part.id in requested and part.id not in self.requested:
                self.requested.add(part.id)
                yield part.id, part.name


def updates_of(event: Mapping[str, Any]) -> Sequence[str]:
    """Returns the ids of the long-running calls of which a user's event says how far they are: they still wait for their
    result."""
    said = as_object(event.get("custom_metadata")).get(UPDATES)
    return [each for each in said if isinstance(each, str)] if isinstance(said, list) else []


def _take_checkpoint(found: _Invocation, branch: str, said: Description) -> None:
    if said.actions.get("end_of_agent"):
        # Only workflow agents count: an LlmAgent also says this before the agent that it transfers to has started.
        if said.author in found.at_work:
            found.say(found.at_work.pop(said.author), goes_on=False)  # this event's branch can be a sub-agent's
    elif isinstance(said.actions.get("agent_state"), dict):
        found.at_work[said.author] = branch


def _goes_on(event: Mapping[str, Any], said: Description) -> bool | None:
    """Returns whether the agent will say more, or None if the event doesn't show it.

    This is stricter than ADK's `is_final_response`, which also counts as final an event without any content, and
    long-running calls beside ordinary ones.
    """
    if is_partial(event):
        return True
    if not said.parts and not _SPOKEN.intersection(said.kinds) and not event.get("finish_reason"):
        return None
    if "interrupted" in said.kinds or said.actions.get("skip_summarization") or _requested(said):
        return False
    if said.calls:
        return not all(map(_is_asking, said.calls))
    if _broke_off(said):
        return False
    return bool(said.responses) or any(part.kind in ("code", "code_result") for part in said.parts[-1:])


def _broke_off(said: Description) -> bool:
    return not _ENDS.isdisjoint(said.kinds)


def _is_asking(call: Part) -> bool:
    return call.waiting or call.name in ASKING_CALLS


def stands_for(call: Part) -> tuple[str, str]:
    """Returns the id and the tool of the call that ADK asks a person about, each "" if this call doesn't have it."""
    if call.name == CONFIRMATION_CALL and isinstance(original := call.value.get("originalFunctionCall"), dict):
        return _text(original.get("id")), _text(original.get("name"))
    return (_text(call.value.get("functionCallId")), "") if call.name == AUTH_CALL else ("", "")


def _requested(said: Description) -> set[str]:
    """Returns the ids of the calls whose tools asked for a confirmation or a sign-in."""
    found = (said.actions.get(name) for name in ("requested_tool_confirmations", "requested_auth_configs"))
    return {call_id for requests in found if isinstance(requests, dict) for call_id in requests}


def _within(branch: str, above: str) -> bool:
    return not above or branch == above or branch.startswith(f"{above}.")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def seconds_of(event: Mapping[str, Any]) -> float:
    """Returns the time of an event; 0 if it has none that can be."""
    value = event.get("timestamp")
    return float(value) if isinstance(value, int | float) and 0 <= value <= _LAST_TIMESTAMP else 0.0


# --- Rewinds and turns ------------------------------------------------------------------------------------------------

Number = TypeVar("Number", bound=int)  # a Seq, or an index in a list


def taken_back(rewinds: Iterable[tuple[Number, Number | None]]) -> list[tuple[Number, Number]]:
    """Returns the ranges that rewinds undid, the newest first: [(313, 317)] for an event 317 that rewinds to 313.

    Each rewind is a pair: its own number, and that of the first event of the invocation that it undoes. If there is no
    such event, the second is None, and the range has only the rewind itself. A rewind that another one undid has no
    effect.
    """
    found: list[tuple[Number, Number]] = []
    for place, since in sorted(rewinds, key=lambda each: each[0], reverse=True):
        if not found or place < found[-1][0]:
            found.append((since if since is not None and since < place else place, place))
    return found


def rewinds_in(events: Sequence[Raw]) -> dict[int, int]:
    """Returns, by an event's index, the index of the rewind that undid it: {3: 5, 4: 5, 5: 5}."""
    first: dict[str, int] = {}
    for place, event in enumerate(events):
        if name := event.get("invocation_id"):
            first.setdefault(str(name), place)
    wanted = [
        (place, object_of(event, "actions").get("rewind_before_invocation_id")) for place, event in enumerate(events)
    ]
    stretches = taken_back((place, first.get(str(name))) for place, name in wanted if name)
    return {each: last for start, last in stretches for each in range(start, last + 1)}


def begins_turn(told: Description) -> bool:
    """Returns whether an event is a user message, written or spoken. An answer to a call is not: it continues the turn.
    Neither is a partial transcription of someone who is still speaking."""
    spoken = told.heard and not told.interim
    return told.author == "user" and not told.edit and bool(told.text or told.media or spoken)
