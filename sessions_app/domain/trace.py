"""Works out what the agents of a turn did and when, one within the other (pure).

ADK stores an event when something has ended; clock.py works out when. So a model call runs from the end of the previous
event in its line to the end of its own event. The line of a branch has the events of this branch, of those above it and
of those below it: `par.a` does not wait for `par.b`. A tool runs from the event with the call to the event with the
response of the same id. Two things can't be known: tools that ran side by side are stored as one event, when all have
ended; and what an agent did without a model, in a callback, counts for the next model call.

A branch `par.a` is the agent `a` within `par`; `helper@adk-1` is an agent within the tool call `adk-1`. An agent to
which another one transferred is within that one. A clock that goes back counts as stopped.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .clock import UNTIMED, Clock, Ended, Took, sign_of_all
from .description import Description, Part
from .event import is_partial
from .invocations import ASKING_CALLS, Told, stands_for
from .model_calls import WHY, by_model, error_of, failure_of, is_exception, model_of, tokens_of
from .shorten import words
from .summary import cut_off

# --- Spans ------------------------------------------------------------------------------------------------------------

AGENT: Final = "agent"
MODEL: Final = "model"
TOOL: Final = "tool"
WAIT: Final = "wait"  # for a person, or for another system
SUMMARY: Final = "summary"  # a model sums the conversation up
DEEPEST: Final = 24  # levels; deeper spans are shown beside their parent


@dataclass(slots=True, eq=False)
class Span:
    """A stretch of a turn: booking called gemini-3-flash, from 0.0 to 1.2 seconds.

    `start` and `end` are seconds since 1970, or lower bounds of them. `end` is None for a call without an answer.
    `events` has the ids of its first and last event: for a tool, those of the call and of the response.
    """

    kind: str
    name: str  # of the agent, the model or the tool
    agent: str  # who called the model or the tool
    start: float
    end: float | None
    parent: "Span | None" = None
    start_known: bool = True
    end_known: bool = True
    events: list[str] = field(default_factory=list)
    tokens: int = 0
    failed: bool = False
    why: str = ""  # in the words of the error
    transferred: bool = False  # an agent to which another one transferred
    depth: int = 0
    children: list["Span"] = field(default_factory=list)
    asked: dict[int, "Span"] = field(default_factory=dict, repr=False)  # the calls of an agent that wait for a response

    @property
    def took(self) -> Took | None:
        """Returns how long it took; None if it has not ended."""
        if self.end is None:
            return None
        return Ended(self.start, self.start_known).until(Ended(self.end, self.end_known))

    def add(self, event_id: str) -> None:
        """Notes an event that belongs to the span."""
        self.events[1:] = [event_id] if self.events else []
        self.events = self.events or [event_id]


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of a turn, each before those within it, and where the time went.

    At most the requested number of spans; `more` were left out, but are counted in the sums. `model` and `tools` are
    how long at least one model or tool was working; in parallel branches, they overlap. `waiting` is how long something
    waited for someone while nothing was working.
    """

    start: float
    end: float
    spans: list[Span]
    more: int
    model: Took
    tools: Took
    waiting: Took
    tokens: int
    errors: int

    @property
    def took(self) -> float:
        """Returns the seconds from the first event to the last."""
        return self.end - self.start


def trace_of(roots: list[Span], start: Ended, end: Ended, most: int) -> Trace:
    """Returns the trace of the outermost spans."""
    spans = list(_ordered(roots))
    _close_containers(spans)
    of_kind = {kind: [each for each in spans if each.kind == kind] for kind in (MODEL, SUMMARY, TOOL, WAIT)}
    models, calls, waits = of_kind[MODEL] + of_kind[SUMMARY], of_kind[TOOL], of_kind[WAIT]
    model, tools = _merged(models), _merged(calls)
    working = _union([*model, *tools])
    waiting = _length(_union([*working, *_merged(waits, end.at)])) - _length(working)
    return Trace(
        start.at,
        end.at,
        spans[:most],
        max(0, len(spans) - most),
        Took(_length(model), _sign(models)),
        Took(_length(tools), _sign(calls)),
        Took(waiting, _sign(waits)),
        sum(each.tokens for each in spans),
        sum(each.failed for each in spans),
    )


def _sign(spans: Iterable[Span]) -> str:
    return sign_of_all(took.sign for each in spans if (took := each.took))


def _ordered(roots: list[Span]) -> Iterator[Span]:
    """Yields each span before those within it; in the order in which they started."""
    left = roots[::-1]
    while left:
        span = left.pop()
        yield span
        left += span.children[::-1]


def _close_containers(spans: list[Span]) -> None:
    """Ends the agents without events of their own, such as a ParallelAgent, with the last of those within them."""
    for span in reversed(spans):
        if span.kind == AGENT and not span.events:
            ends = [(each.end, each.end_known) for each in span.children if each.end is not None]
            span.end, span.end_known = max(ends, default=(span.start, span.start_known))


_Stretch = tuple[float, float]


def _merged(spans: Iterable[Span], open_until: float | None = None) -> list[_Stretch]:
    ended = ((each.start, open_until if each.end is None else each.end) for each in spans)
    return _union([(start, end) for start, end in ended if end is not None and end > start])


def _union(stretches: list[_Stretch]) -> list[_Stretch]:
    """Returns stretches of time without overlaps: [(1, 5)] for [(1, 3), (2, 5)]."""
    merged: list[_Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _length(stretches: list[_Stretch]) -> float:
    return sum(end - start for start, end in stretches)


# --- Reading a turn ---------------------------------------------------------------------------------------------------

MOST: Final = 1_000  # spans
_SILENT: Final = frozenset({"checkpoint", "unknown", "finish", "live", "empty"})


def trace(told: Iterable[Told], most: int = MOST) -> Trace:
    """Returns the trace of a turn.

    `told` are its events with their descriptions, in the order in which they were stored, whatever they contain.
    """
    events, clock = list(told), Clock()
    ends = [clock.ended(event, said) for event, said in events]
    reader = _Reader(next((ended for ended in ends if ended.at), UNTIMED))
    for (event, said), ended in zip(events, ends, strict=True):
        if not said.edit and not is_partial(event):
            reader.hear(event, said, ended)
    reader.close()
    return trace_of(reader.roots, reader.begin, max(reader.begin, reader.root.below), most)


@dataclass(slots=True, eq=False)
class _Line:
    """A branch: when it last had an event, and which agent is working there.

    Of `par.a`, `par` is a group: groups in the same branch run one after the other, the agents of a group side by side.
    """

    begin: Ended
    above: "_Line | None" = None
    name: str = ""
    group: bool = False
    at: Ended = UNTIMED
    below: Ended = UNTIMED  # the last event here, or in a branch within
    agent: Span | None = None
    container: Span | None = None  # the agent that the branch itself names
    handed_to: str = ""  # the agent to which `agent` has transferred
    lines: dict[str, "_Line"] = field(default_factory=dict)

    def before(self) -> Ended:
        """Returns when the event before the next one ended in this line."""
        at, line = max(self.begin, self.below), self.above
        while line:
            at, line = max(at, line.begin, line.at), line.above
        return at

    def advance(self, at: Ended) -> None:
        """Notes the end of an event of this branch."""
        self.at, line = at, self
        while line:
            line.below = max(line.below, at)
            line = line.above  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Heard:
    """An event as it is read: its id, its line, and the time from the event before until its own end."""

    id: str
    line: _Line
    since: Ended
    at: Ended


class _Reader:
    """A turn, as far as its events have been read."""

    def __init__(self, begin: Ended) -> None:
        self.begin = begin
        self.roots: list[Span] = []
        self.root = _Line(begin)
        self.calls: dict[tuple[str, ...], deque[Span]] = {}  # those without an answer, the oldest first
        self.tools: dict[str, Span] = {}  # by the id of the call, answered or not
        self.lines: dict[str, _Line] = {}
        self.invocation = ""

    def hear(self, event: Mapping[str, Any], said: Description, ended: Ended) -> None:
        """Adds the next event."""
        line = self._line_of(event)
        since = line.before()
        at = ended if ended.at >= since.at else Ended(since.at, ended.known)
        if self._begins_unseen(event, said):
            since = at
        heard = _Heard(str(event.get("id") or ""), line, since, at)
        if said.actions.get("compaction"):
            self._span(SUMMARY, model_of(event), "", heard, None, tokens=tokens_of(event))
        elif said.author == "user" and said.responses:
            for line in [self._take_answer(part, heard) for part in said.responses]:
                line.advance(heard.at)  # an agent that did not ask doesn't wait for the answer
            return
        elif said.author != "user" and (by_model(event, said) or not _SILENT.issuperset(said.kinds)):
            self._hear_agent(event, said, heard)
        line.advance(heard.at)

    def _begins_unseen(self, event: Mapping[str, Any], said: Description) -> bool:
        """Returns whether an invocation starts with an agent's work, whose start is unknown."""
        name, last = str(event.get("invocation_id") or ""), self.invocation
        self.invocation = name or last
        return bool(name and last and name != last) and said.author != "user" and not said.actions.get("compaction")

    def close(self) -> None:
        """Distinguishes tools that wait for someone from those that never answered."""
        for calls in self.calls.values():
            for call in calls:
                call.kind = WAIT if call.kind == _ASKING_TOOL else call.kind

    # --- Agents -------------------------------------------------------------------------------------------------------

    def _hear_agent(self, event: Mapping[str, Any], said: Description, heard: _Heard) -> None:
        agent = self._agent(said.author, heard)
        agent.end, agent.end_known = heard.at
        agent.add(heard.id)
        heard.line.lines.clear()  # everything that worked for this agent has finished
        for part in said.responses:
            self._take_response(part, agent, heard)
        failed, why = failure_of(event, said)
        if is_exception(said) and agent.asked:
            self._fail_calls(agent, why, heard)
        elif by_model(event, said):
            tokens = tokens_of(event)
            why = why or cut_off(event)
            self._span(MODEL, model_of(event), agent.name, heard, agent, tokens=tokens, failed=failed, why=why)
            agent.asked.clear()  # a model is called when all tools have answered
        elif results := said.of("code_result"):
            failed = any(part.failed for part in results)
            why = words(results[-1].value, WHY) if failed else ""
            self._span(TOOL, "code", agent.name, heard, agent, failed=failed, why=why)
        for call in said.calls:
            self._ask(call, agent, heard)
        target = said.actions.get("transfer_to_agent")
        heard.line.handed_to = target if isinstance(target, str) else heard.line.handed_to

    def _line_of(self, event: Mapping[str, Any]) -> _Line:
        branch, line = event.get("branch"), self.root
        for name in branch.split(".", DEEPEST)[:DEEPEST] if isinstance(branch, str) and branch else ():
            if name not in line.lines:
                group = "@" not in name and not line.group
                line.lines[name] = _Line(line.before() if group else self.begin, line, name, group)
            line = line.lines[name]
        return line

    def _agent(self, name: str, heard: _Heard) -> Span:
        """Returns the agent that wrote an event: the one working in its branch, or one that starts there."""
        line = heard.line
        container = self._container(line)
        if line.agent is None and container and container.name == name:
            line.agent = container
        if line.agent is None or line.agent.name != name:
            line.agent = self._begin(name, *_parent(name, line), heard.since)
        line.handed_to = ""
        return line.agent

    def _begin(self, name: str, parent: Span | None, transferred: bool, since: Ended) -> Span:
        span = Span(AGENT, name, name, since.at, since.at, start_known=since.known, transferred=transferred)
        return self._within(parent, span)

    def _container(self, line: _Line) -> Span | None:
        """Returns the agent that a branch names, and starts it, and those around it, if they are new."""
        new = [line]
        while new[-1].above and new[-1].container is None:
            new.append(new[-1].above)
        for each in reversed(new):
            if each.container is None and each.above:
                each.container = self._begin_container(each, each.above, each.before())
        return line.container

    def _begin_container(self, line: _Line, above: _Line, since: Ended) -> Span:
        name, _, run = line.name.rpartition("@")
        name = name or line.name
        if above.container and above.container.name == name:  # `par` in `all.par.par.a`, as an agent and as a group
            return above.container
        caller = self.tools.get(run) or (above.agent if above.agent and above.agent.asked else None)
        if caller:
            return self._begin(name, caller, False, since)
        if above.agent is None:  # what starts beside it in branches of their own runs at the same time
            return self._begin(name, above.container, False, since)
        if above.agent.name != name:
            above.agent, above.handed_to = self._begin(name, *_parent(name, above), since), ""
        return above.agent

    # --- Calls --------------------------------------------------------------------------------------------------------

    def _ask(self, call: Part, agent: Span, heard: _Heard) -> None:
        kind = WAIT if call.name in ASKING_CALLS else _ASKING_TOOL if call.waiting else TOOL
        name, after = call.name, _Heard(heard.id, heard.line, heard.at, heard.at)
        if kind == WAIT:
            original, tool = stands_for(call)
            name = tool or (self.tools[original].name if original in self.tools else call.name)
        span = self._span(kind, name, agent.name, after, agent)
        span.end = None
        if kind != WAIT:
            agent.asked[id(span)] = span
        self.calls.setdefault(_key(call, agent.name), deque()).append(span)
        if call.id:
            self.tools[call.id], self.lines[call.id] = span, heard.line

    def _take_response(self, part: Part, agent: Span, heard: _Heard) -> None:
        """Ends the tool that an agent's event answers; for one that asks someone, the waiting starts then."""
        why = words(error_of(part.value), WHY) if part.failed else ""
        span = self._answered(part, agent.name)
        if span is None:  # its call is not among the events, or it was answered before: the tool ran again
            self._span(TOOL, part.name, agent.name, heard, agent, failed=part.failed, why=why)
            return
        asks = span.kind == _ASKING_TOOL
        span.kind = TOOL if asks else span.kind
        self._end(span, heard, why, failed=part.failed)
        if asks and not part.failed:
            after = _Heard(span.events[0], heard.line, heard.at, heard.at)
            wait = self._span(WAIT, span.name, span.agent, after, span.parent)
            wait.end = None
            self.calls.setdefault(_key(part, agent.name), deque()).append(wait)

    def _take_answer(self, part: Part, heard: _Heard) -> _Line:
        """Ends the wait for a user. Returns the branch that waited."""
        span = self._answered(part, "")
        if span is None:
            return heard.line
        span.kind = WAIT if span.kind == _ASKING_TOOL else span.kind
        self._end(span, heard, "", failed=False)
        return self.lines.get(part.id, heard.line)

    def _answered(self, part: Part, agent: str) -> Span | None:
        key = _key(part, agent)
        calls = self.calls.get(key)
        return calls.popleft() if calls else None

    def _fail_calls(self, agent: Span, why: str, heard: _Heard) -> None:
        """Ends what an agent called with the exception of a tool."""
        for span in list(agent.asked.values()):
            span.kind = TOOL if span.kind == _ASKING_TOOL else span.kind
            self._end(span, heard, why, failed=True)
        self.calls = {key: deque(each for each in calls if each.end is None) for key, calls in self.calls.items()}

    def _end(self, span: Span, heard: _Heard, why: str, *, failed: bool) -> None:
        span.end, span.failed, span.why = max(span.start, heard.at.at), failed, why
        span.end_known = heard.at.known
        span.add(heard.id)
        if span.parent:
            span.parent.asked.pop(id(span), None)

    def _span(self, kind: str, name: str, agent: str, heard: _Heard, within: Span | None, **fields: Any) -> Span:
        span = Span(kind, name, agent, heard.since.at, heard.at.at, events=[heard.id], **fields)
        span.start_known, span.end_known = heard.since.known, heard.at.known
        return self._within(within, span)

    def _within(self, parent: Span | None, span: Span) -> Span:
        while parent and parent.depth >= DEEPEST:
            parent = parent.parent
        span.parent, span.depth = parent, parent.depth + 1 if parent else 0
        (parent.children if parent else self.roots).append(span)
        return span


_ASKING_TOOL: Final = "asking tool"  # a long-running call: its tool is working, or waits for someone


def _parent(name: str, line: _Line) -> tuple[Span | None, bool]:
    """Returns the span in which an agent starts in a branch, and whether another agent transferred to it."""
    if line.agent is None or line.handed_to != name:
        return line.container, False
    each = line.agent
    while each.name != name:
        if not each.transferred or each.parent is None:
            return line.agent, True
        each = each.parent
    return each.parent, each.transferred  # back to an agent that transferred before


def _key(part: Part, agent: str) -> tuple[str, ...]:
    return (part.id,) if part.id else (agent, part.name)
