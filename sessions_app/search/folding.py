"""Sums a session up: its turns, times, tokens and failures, from its events one after the other. Pure.

A turn is one user message and everything that it caused. It took the time between the ends of its events, as
domain/clock.py knows them, without the time that it waited for a person.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

from ..domain.agents import COLOURS, key_of
from ..domain.clock import Clock, Ended
from ..domain.cost import Usage, usage_of
from ..domain.description import Description, Part
from ..domain.invocations import ASKING_CALLS, begins_turn, seconds_of
from ..domain.json_values import as_object
from ..domain.model_calls import by_model, is_exception
from ..domain.pending import Entry
from .lines import clean, failure_of

_TITLE: Final = 120
_MOST_TOKENS: Final = 2**53
_MOST_USED: Final = 2**31 - 1  # tokens of a model in a turn
_MOST_MODELS: Final = 20  # of a turn
_MOST_CALLS: Final = 50  # that wait at the same time
MOST_ARTIFACTS: Final = 200  # that an event saves
_ARTIFACT: Final = 100  # characters of a name
_NUMBERED: Final = re.compile(r"(?:\w+[-.:])*\w*\d\w*(?:[-.:]\w+)*")  # what tells failures of the same kind apart


@dataclass(slots=True)
class Summary:
    """A session in numbers, as far as it was read. Times are seconds."""

    events: int = 0
    turns: int = 0
    failed_turns: int = 0
    tokens: int = 0
    errors: int = 0
    took: float = 0.0
    least: bool = False  # it took at least so long
    first: float = 0.0
    last: float = 0.0
    opening: str = ""  # the first words of the first user message
    error: str = ""  # the last one
    error_seq: int = 0
    failed: bool = False  # the last turn
    edited: bool = False
    spoken: bool = False  # has an event that is not an edit
    open: bool = False  # the last event was not a last word
    stopped: bool = False  # someone stopped the last run
    invocation: str = ""  # the last one
    read: int = 0  # the seq of the last event, and its id
    read_id: str = ""
    segments: int = 0  # of the index of words
    turn_at: float = 0.0  # when the last turn began, and what it has taken so far
    turn_seq: int = 0
    turn_event: int = 0  # the number of its first event
    turn_took: float = 0.0
    turn_least: bool = False
    clock: float = 0.0  # the base of the clock of the last turn
    ended: float = 0.0  # when the last event ended; that is known, if it is not `late`
    late: bool = False
    turn_tokens: int = 0
    turn_models: dict[str, list[int]] = field(
        default_factory=dict
    )  # by model: its span (0: the turn's), prompt, output
    models: int = 0  # spans of them
    calls: int = 0
    saves: int = 0  # of artifacts: each event counts once for each name
    agents: list[int] = field(
        default_factory=list
    )  # the first ones that have a colour of their own: see domain/agents.py
    asked: dict[str, list[Any]] = field(
        default_factory=dict
    )  # calls that wait: by id, number, tool, seq, and when they began
    callers: dict[str, str] = field(default_factory=dict)  # agents that wait for them, in the last turn: by the same id
    pending: list[Entry] = field(default_factory=list)  # what its events mean for what waits: see domain/pending.py

    @classmethod
    def stored(cls, text: str) -> "Summary":
        """Returns a summary from JSON. Fields of a later adkweb on the same database are passed over."""
        summary = cls(**{name: value for name, value in json.loads(text).items() if name in cls.__slots__})
        summary.pending = [Entry(*each) for each in summary.pending]
        return summary

    @property
    def tools(self) -> dict[str, str]:
        """Returns the tools of the calls that wait, by the call's id."""
        return {key: tool for key, (_number, tool, *_when) in self.asked.items()}

    @property
    def sign(self) -> str:
        """Returns "" if it took exactly so long, and “≥” if it took at least so long."""
        return "≥" if self.least or self.late else ""


class Span(NamedTuple):
    """A turn (t), a further model of a turn (m), a call (c), a failure (f) or a saved artifact (a), by its number in the
    session.

    It `took` so many seconds: exactly, or at least or at most if it has a `sign`. `name` is that of the tool, the failure,
    the model, or the artifact (see `artifact_name`). `prompt` and `output` are the tokens of that model alone, so those of
    a turn are its first one's. `first_event` is the number of a turn's first event in the session.
    """

    kind: str
    number: int
    name: str
    at: float
    took: float | None
    failed: bool
    tokens: int
    seq: int
    prompt: int = 0
    output: int = 0
    first_event: int = 0
    sign: str = ""


def fold(so_far: Summary, event: Mapping[str, Any], description: Description, seq: int) -> list[Span]:
    """Adds the next event to a summary. Returns the spans that are new, or have changed."""
    so_far.events += 1
    at = seconds_of(event)
    so_far.first = so_far.first or at
    spans = _saves(so_far, description, at, seq)
    if description.edit:
        so_far.edited = True
        if not so_far.open:
            so_far.ended = max(so_far.ended, at)  # an edit takes nobody's time; one during a run changes nothing in it
    else:
        so_far.spoken = True
        _meet(so_far, description)
        ended = _fold_turn(so_far, event, description, seq)
        _fold_usage(so_far, usage_of(event, _MOST_USED))
        spans += _failures(so_far, failure_of(event, description), at, seq)
        spans += _fail_calls(so_far, event, description, ended)
        spans += _calls(so_far, description, ended, seq)
        spans += _turn(so_far)
        so_far.stopped = "stopped" in description.kinds
        so_far.invocation = clean(str(event.get("invocation_id") or ""))
        so_far.open = description.author == "user" or bool(
            description.calls or description.responses or event.get("partial") or description.actions.get("agent_state")
        )
    so_far.last = max(so_far.last, at)
    return spans


def _meet(so_far: Summary, description: Description) -> None:
    """Adds an agent that is new."""
    if (
        description.by_agent
        and len(so_far.agents) < COLOURS
        and (key := key_of(description.author)) not in so_far.agents
    ):
        so_far.agents.append(key)


def _fold_turn(so_far: Summary, event: Mapping[str, Any], description: Description, seq: int) -> Ended:
    """Adds an event to the last turn, or begins a new one. Returns when the event ended."""
    at = seconds_of(event)
    clock = Clock(0.0 if begins_turn(description) else so_far.clock)
    before, ended = Ended(so_far.ended, not so_far.late), clock.ended(event, description)
    so_far.clock = clock.base
    if begins_turn(description):
        text = description.words
        so_far.turns += 1
        so_far.failed = False
        so_far.opening = so_far.opening or clean(" ".join(text[: _TITLE * 4].split()), _TITLE)
        so_far.turn_at, so_far.turn_seq, so_far.turn_took, so_far.turn_tokens = at, seq, 0.0, 0
        so_far.turn_models, so_far.turn_event, so_far.turn_least = {}, so_far.events, False
        so_far.callers = {}
    elif description.author != "user" and before.at and ended.at:
        took = before.until(ended).seconds
        so_far.took += took
        so_far.turn_took += took
    if description.author == "user" and so_far.late:  # how much of the time until now was work, nobody knows
        so_far.least, so_far.turn_least = True, not begins_turn(description)
    so_far.ended, so_far.late = (before if before.at > ended.at else ended)[0], not ended.known
    tokens = max(0, description.tokens or 0)
    so_far.tokens = min(so_far.tokens + tokens, _MOST_TOKENS)
    so_far.turn_tokens = min(so_far.turn_tokens + tokens, _MOST_TOKENS)
    return ended


def _fold_usage(so_far: Summary, usage: Usage | None) -> None:
    """Adds what an event used to its model in this turn. What many models used is counted for the first of them."""
    if usage is None:
        return
    models, name = so_far.turn_models, clean(usage.model)
    if name not in models and len(models) == _MOST_MODELS:
        name = next(iter(models))
    if name not in models:
        so_far.models += bool(models)
        models[name] = [so_far.models if models else 0, 0, 0]
    used = models[name]
    used[1], used[2] = min(used[1] + usage.prompt, _MOST_USED), min(used[2] + usage.output, _MOST_USED)


def _turn(so_far: Summary) -> list[Span]:
    """Returns the last turn, and its further models; nothing before the first user message."""
    if not so_far.turns:
        return []
    numbers = so_far.turn_at, so_far.turn_took, so_far.failed, so_far.turn_tokens, so_far.turn_seq
    (name, (_number, prompt, output)), *further = so_far.turn_models.items() or [("", [0, 0, 0])]
    at, seq = so_far.turn_at, so_far.turn_seq
    models = [
        Span("m", number, model, at, None, False, 0, seq, given, wrote) for model, (number, given, wrote) in further
    ]
    sign = "≥" if so_far.turn_least or so_far.late else ""
    return [Span("t", so_far.turns, name, *numbers, prompt, output, so_far.turn_event, sign), *models]


def _failures(so_far: Summary, failure: str, at: float, seq: int) -> list[Span]:
    if not failure:
        return []
    so_far.errors += 1
    so_far.error, so_far.error_seq = clean(failure), seq
    so_far.failed_turns += not so_far.failed
    so_far.failed = True
    return [Span("f", so_far.errors, alike(failure), at, None, True, 0, seq)]


def alike(failure: str) -> str:
    """Returns what failures of one kind have in common: “quote … expired” for “quote Q-88213 expired”."""
    return clean(_NUMBERED.sub("…", failure))


def in_common(failures: Sequence[str]) -> str:
    """Returns what failures that are alike say, with those numbers that are the same in all: “timeout after 30 s”."""
    numbers = [_NUMBERED.findall(failure) for failure in failures]
    if len({len(each) for each in numbers}) != 1:
        return alike(failures[0])
    kept = [each[0] if len({*each}) == 1 else "…" for each in zip(*numbers, strict=True)]
    pieces = zip_longest(_NUMBERED.split(failures[0]), kept, fillvalue="")
    return clean("".join(chain.from_iterable(pieces)))


def _calls(so_far: Summary, description: Description, ended: Ended, seq: int) -> list[Span]:
    """Returns the calls of an event, and those that it answers."""
    spans = []
    for part in description.calls:
        if part.waiting or part.name in ASKING_CALLS:
            continue  # a person or another system takes the time
        so_far.calls += 1
        name = clean(part.name)
        spans.append(Span("c", so_far.calls, name, ended.at, None, False, 0, seq))
        if len(so_far.asked) < _MOST_CALLS:
            pair = _pair(description, part, so_far)
            so_far.asked[pair], so_far.callers[pair] = [so_far.calls, name, seq, *ended], clean(description.author)
    for part in description.responses:
        without_id = f"{clean(description.author)} {clean(part.name)} "
        key = clean(part.id) or next((key for key in so_far.asked if key.startswith(without_id)), "")
        if key in so_far.asked:
            spans.append(_answered(so_far, key, ended, part.failed))
    return spans


def _fail_calls(so_far: Summary, event: Mapping[str, Any], description: Description, ended: Ended) -> list[Span]:
    """Returns the calls that an exception of their agent ended, by the rule of domain/trace.py: a model is called when all
    tools have answered."""
    author = clean(description.author)
    waiting = [key for key, caller in so_far.callers.items() if caller == author]
    if not waiting or not by_model(event, description):
        return []
    if is_exception(description):
        return [_answered(so_far, key, ended, failed=True) for key in waiting]
    for key in waiting:
        del so_far.callers[key]
    return []


def _answered(so_far: Summary, key: str, ended: Ended, failed: bool) -> Span:
    """Returns a call that waits no longer."""
    so_far.callers.pop(key, None)
    number, name, seq, *asked = so_far.asked.pop(key)
    began = Ended(*asked)
    took, sign = began.until(ended)
    return Span("c", number, name, began.at, took, failed, 0, seq, sign=sign)


def _pair(description: Description, call: Part, so_far: Summary) -> str:
    """Returns what pairs a call with its answer: its id, otherwise who called which tool, and the number of the call."""
    return clean(call.id) or f"{clean(description.author)} {clean(call.name)} {so_far.calls}"


def _saves(so_far: Summary, description: Description, at: float, seq: int) -> list[Span]:
    """Returns a span for each artifact of which an event saves a version."""
    spans = []
    for name in islice(as_object(description.actions.get("artifact_delta")), MOST_ARTIFACTS):
        so_far.saves += 1
        spans.append(Span("a", so_far.saves, artifact_name(name), at, None, False, 0, seq))
    return spans


def artifact_name(name: str) -> str:
    """Returns what stands for an artifact's name in the index: the name, or its beginning with what tells it from others."""
    short = clean(name, _ARTIFACT)
    if short == name:
        return name
    return f"{short} {md5(name.encode(errors='surrogatepass'), usedforsecurity=False).hexdigest()}"
