"""Finds the calls of a session's agents that wait for a person or another system to answer them (pure).

ADK keeps no list of them. A call waits from the event that makes it until a user's event answers it, or until a rewind or a
stop of its run ends it. A newer message, a later final text or a restart doesn't end it: it can still be answered.

Each event that matters becomes an Entry of a log. What waits is read from the log alone, so that a long session needn't be
read again with each event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from .description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Description, Part
from .invocations import (
    Running,
    Told,
    begins_turn,
    live_events,
    seconds_of,
    stands_for,
    taken_back,
    updates_of,
)
from .json_values import as_object
from .kinds import describe

CONFIRMATION, INPUT, CREDENTIAL, LONG_RUNNING = "confirmation", "input", "credential", "long-running"
KINDS: Final = (CONFIRMATION, INPUT, CREDENTIAL, LONG_RUNNING)
_KIND_OF: Final = {CONFIRMATION_CALL: CONFIRMATION, INPUT_CALL: INPUT, AUTH_CALL: CREDENTIAL}
_BOILERPLATE: Final = "Please approve or reject the tool call "
MOST: Final = 300  # entries that a log keeps
OPENED, ANSWERED, ENDED, SAID, REWOUND = "opened", "answered", "ended", "said", "rewound"


class Entry(NamedTuple):
    """A change to what waits, by one event. `what` is one of:

    - opened: the call `id` waits from now on
    - answered: the call `id` doesn't wait any longer
    - ended: the calls of the invocation `id` don't
    - said: the user said something else
    - rewound: all events since the one with the seq `since` are undone
    """

    what: str
    seq: int
    id: str = ""
    invocation_id: str = ""
    event_id: str = ""
    kind: str = ""
    tool: str = ""
    at: float = 0.0
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A call that waits for an answer.

    `seq` and `event_id` are those of the event that asks, `since` is its time in seconds since 1970. `kind` is one of KINDS.
    `tool` is the one that is to be confirmed, or that needs a sign-in; `call_id` is what an answer names. A call is
    `passed_over` if the user said something else after it.
    """

    call_id: str
    kind: str
    tool: str
    since: float
    seq: int
    event_id: str
    invocation_id: str
    passed_over: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a call: `hint` is the agent's own words, "" if it has none; `args` are the arguments of the tool, or
    what an input request comes with. `schema` is that of the answer, if the agent gave one; `payload` is what a
    confirmation starts with."""

    hint: str
    args: Any
    schema: Any = None
    payload: Any = None


def asked(call: Part) -> Asked:
    """Returns what a call asks. ADK's own sentence about how a program answers is no hint."""
    if call.name == CONFIRMATION_CALL:
        confirmation = as_object(call.value.get("toolConfirmation"))
        hint = _text(confirmation.get("hint"))
        args = as_object(call.value.get("originalFunctionCall")).get("args")
        return Asked("" if hint.startswith(_BOILERPLATE) else hint, args, payload=confirmation.get("payload"))
    if call.name == INPUT_CALL:
        value = call.value
        return Asked(_text(value.get("message")), value.get("payload"), value.get("response_schema"))
    return Asked("", None if call.name == AUTH_CALL else call.value)


def pending(events: Sequence[Mapping[str, Any]]) -> list[Pending]:
    """Returns the calls that wait for an answer, the oldest first.

    `events` are all events of one session as they are stored, in any order in which a database gives those of one moment. A
    seq is here the index of an event. It never raises, whatever they contain.
    """
    log: list[Entry] = []
    tools: dict[str, str] = {}
    first: dict[str, int] = {}
    for seq, event in enumerate(events):
        if isinstance(event, Mapping):
            said = describe(event)
            tools |= {call.id: call.name for call in said.calls}
            log += entries(event, said, seq, tools, first.get(rewinds(said)))
            first.setdefault(_text(event.get("invocation_id")), seq)
    return waiting(log)


def entries(
    event: Mapping[str, Any], said: Description, seq: int, tools: Mapping[str, str], since: int | None
) -> Iterator[Entry]:
    """Yields what an event means for what waits. `tools` are the names of the tools of calls, by id. `since` is the seq of
    the first event that it undoes, if it is a rewind and that is known."""
    if rewinds(said):
        yield Entry(REWOUND, seq, since=since)
        return
    invocation, event_id = _text(event.get("invocation_id")), _text(event.get("id"))
    if said.author == "user":
        if begins_turn(said):
            yield Entry(SAID, seq)
        updates = updates_of(event)
        yield from (Entry(ANSWERED, seq, part.id) for part in said.responses if part.id and part.id not in updates)
    elif "stopped" in said.kinds:
        yield from (Entry(ANSWERED, seq, part.id) for part in said.responses if part.id)
        if not said.responses:
            yield Entry(ENDED, seq, invocation)
    else:
        for call in said.calls:
            if call.id and (call.waiting or call.name in _KIND_OF):
                kind, at = _KIND_OF.get(call.name, LONG_RUNNING), seconds_of(event)
                yield Entry(OPENED, seq, call.id, invocation, event_id, kind, _tool(call, tools), at)


def rewinds(said: Description) -> str:
    """Returns the invocation before which an event rewinds its session; "" if it doesn't."""
    return _text(said.actions.get("rewind_before_invocation_id"))


def _tool(call: Part, tools: Mapping[str, str]) -> str:
    original_id, tool = stands_for(call)
    return tool or tools.get(original_id, "") or call.name


def add(log: list[Entry], more: Iterable[Entry]) -> None:
    """Adds what a further event means to a log, if that can matter: a message, only while a call waits. Past MOST entries,
    the oldest calls that don't wait any longer are left out, then the oldest."""
    for entry in more:
        if entry.what == OPENED or (waiting(log) if entry.what == SAID else log):
            log.append(entry)
    if len(log) > MOST:
        open_now = {(each.seq, each.call_id) for each in waiting(log)}
        over = {*islice((each for each in log if (each.seq, each.id) not in open_now), len(log) - MOST)}
        log[:] = [each for each in log if each not in over][-MOST:]


def waiting(log: Sequence[Entry]) -> list[Pending]:
    """Returns the calls that wait by a log, the oldest first. A call that asks again under the same id counts anew: ADK
    resolves an answer to the newest."""
    undone = taken_back((each.seq, each.since) for each in log if each.what == REWOUND)
    open_now: dict[str, Entry] = {}
    said = -1
    for entry in log:
        if any(first <= entry.seq <= last for first, last in undone):
            continue
        if entry.what == OPENED:
            open_now.pop(entry.id, None)
            open_now[entry.id] = entry
        elif entry.what == ANSWERED:
            open_now.pop(entry.id, None)
        elif entry.what == ENDED:
            open_now = {key: each for key, each in open_now.items() if each.invocation_id != entry.id}
        else:
            said = entry.seq
    return [
        Pending(each.id, each.kind, each.tool, each.at, each.seq, each.event_id, each.invocation_id, each.seq < said)
        for each in open_now.values()
    ]


def unfinished(told: Sequence[Told], silent: Running | None) -> Told | None:
    """Returns the last event of a run that can be continued, from a session's newest events, the oldest first, of which
    nothing runs or waits; `silent` is the invocation that started and doesn't say that it has ended.

    Such a run ended with a message of the user, a call without a response, a response, or a stop, or between two agents.
    ADK itself checks nothing: it would add to a finished one. But it refuses a SequentialAgent, ParallelAgent or
    LoopAgent in an app that isn't resumable, and its events show that."""
    live = [each for each in live_events(told) if not each[1].edit]
    if not live or any(not each.passed_over for each in pending([event for event, _said in told])):
        return None
    last, said = live[-1]
    invocation = last.get("invocation_id")
    is_between = silent is not None and silent.invocation_id == invocation
    own = [each for each in live if each[0].get("invocation_id") == invocation]
    return live[-1] if (is_between or _ended_early(last, said)) and not _cannot_resume(own) else None


def _ended_early(last: Mapping[str, Any], said: Description) -> bool:
    if last.get("error_code"):
        return "stopped" in said.kinds
    if said.author == "user":
        return begins_turn(said) or bool(said.responses)
    asks = any(call.waiting or call.name in _KIND_OF for call in said.calls)
    return bool(said.calls or said.responses) and not asks


def _cannot_resume(own: Sequence[Told]) -> bool:
    """Returns whether an invocation is surely of such an agent in such an app, by all its events: an agent of any other kind
    has a path among ADK's nodes, and a resumable app notes where it is."""
    by_agents = [(event, said.actions) for event, said in own if said.author != "user" and "stopped" not in said.kinds]
    notes = any("agent_state" in actions or actions.get("end_of_agent") for _event, actions in by_agents)
    nodes = [event.get("node_info") for event, _actions in by_agents]
    is_whole = own[0][1].author == "user" and bool(nodes) and all(isinstance(each, dict) for each in nodes)
    return is_whole and not notes and not any(as_object(each).get("path") for each in nodes)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
