"""Made-up turns whose tree and times are known: a small simulator writes the events that ADK would have stored."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sessions_app.domain.description import CONFIRMATION_CALL
from sessions_app.domain.trace import AGENT, MODEL, TOOL, WAIT, Span

Event = dict[str, Any]
BEGIN = 1_000_000.0
TICK = 1 / 1024  # a second in as many ticks as floats add without an error

ticks = st.integers(0, 2_000)


def seconds(tick: int) -> float:
    return BEGIN + tick * TICK


@dataclass(eq=False)
class Happened:
    """What really happened: a span, and those within it."""

    kind: str
    name: str
    start: int
    end: int = 0
    tokens: int = 0
    failed: bool = False
    within: list[Happened] = field(default_factory=list)

    def told(self) -> tuple[Any, ...]:
        """The span as a value; in whichever order parallel ones began."""
        inner = sorted(each.told() for each in self.within)
        return (self.kind, self.name, seconds(self.start), seconds(self.end), self.tokens, self.failed, inner)


def told(span: Span) -> tuple[Any, ...]:
    """A span of a trace in the same form."""
    inner = sorted(told(each) for each in span.children)
    return (span.kind, span.name, span.start, span.end, span.tokens, span.failed, inner)


# --- Plans: what agents are to do -------------------------------------------------------------------------------------

say = st.tuples(st.just("say"), ticks, st.integers(0, 900))
note = st.tuples(st.just("note"), ticks)
call = st.tuples(
    st.just("call"), ticks, st.integers(0, 900), ticks, st.lists(st.booleans(), min_size=1, max_size=3)
)  # a model, its tokens, and tools that fail or not
ask = st.tuples(st.just("ask"), ticks, ticks, ticks)
confirm = st.tuples(st.just("confirm"), ticks, ticks, ticks, ticks)
checkpoint = st.tuples(st.just("checkpoint"), ticks)
_simple = say | note | call | ask | confirm


def _agents(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    step = _simple | checkpoint | st.tuples(st.just("help"), ticks, inner)
    ends = (
        st.none()
        | st.tuples(st.just("transfer"), ticks, ticks, inner)
        | st.tuples(st.just("transfer to all"), ticks, ticks, several)
        | st.tuples(st.just("tool raises"), ticks, ticks)
        | st.tuples(st.just("model fails"), ticks)
    )
    return st.tuples(_simple, st.lists(step, max_size=3), ends)


agents = st.recursive(st.tuples(_simple, st.lists(_simple, max_size=2), st.none()), _agents, max_leaves=6)
turns = st.lists(
    st.tuples(st.just("one"), agents) | st.tuples(st.just("all"), st.lists(agents, min_size=1, max_size=3)),
    min_size=1,
    max_size=3,
)


# --- Running them -----------------------------------------------------------------------------------------------------


class Simulator:
    """Runs a plan: `events` as they were stored, and the `truth`."""

    def __init__(self, plan: list[tuple[str, Any]]) -> None:
        self._numbers = itertools.count()
        self.truth: list[Happened] = []
        now, stored = 0, [(0, self._event("user", "", {"text": "go"}))]
        for how, what in plan:
            lane, now = self._one(what, "", now, self.truth) if how == "one" else self._all(what, "", now, self.truth)
            stored += lane
        self.events = [{**event, "timestamp": seconds(at)} for at, event in stored]
        self.end = max(at for at, _ in stored)

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self._numbers)}"

    def _event(self, author: str, branch: str, *parts: Event, **fields: Any) -> Event:
        content = {"content": {"parts": list(parts)}} if parts else {}
        where = {"branch": branch} if branch else {}
        return {"id": self._name("e"), "author": author, "actions": {}, **where, **content, **fields}

    def _all(
        self, plans: list[Any], branch: str, now: int, into: list[Happened]
    ) -> tuple[list[tuple[int, Event]], int]:
        """Runs agents at the same time, each in a branch of its own; what they store is stored in the order of time."""
        group = Happened(AGENT, self._name("group"), now)
        into.append(group)
        above = f"{branch}.{group.name}" if branch else group.name
        lanes = [self._one(plan, above, now, group.within, own_branch=True) for plan in plans]
        group.end = max(each.end for each in group.within)
        return list(heapq.merge(*(lane for lane, _ in lanes), key=lambda each: each[0])), max(end for _, end in lanes)

    def _one(
        self, plan: Any, branch: str, now: int, into: list[Happened], *, own_branch: bool = False, run: str = ""
    ) -> tuple[list[tuple[int, Event]], int]:
        agent = Happened(AGENT, self._name("agent"), now, now)
        into.append(agent)
        if own_branch or run:
            own = agent.name + (f"@{run}" if run else "")
            branch = f"{branch}.{own}" if branch else own
        first, steps, end = plan
        work = _Work(self, agent, branch, now)
        for step in (first, *steps, *([end] if end else [])):
            work.do(step)
        return work.stored, work.now

    def _within(self, *told: Any, **more: Any) -> tuple[list[tuple[int, Event]], int]:
        return self._one(*told, **more)


class _Work:
    """An agent at work: what it has stored, and the time."""

    def __init__(self, simulator: Simulator, agent: Happened, branch: str, now: int) -> None:
        self.simulator, self.agent, self.branch, self.now = simulator, agent, branch, now
        self.stored: list[tuple[int, Event]] = []

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, "_" + step[0].replace(" ", "_"))(*step[1:])

    def _append(self, took: int, *parts: Event, author: str = "", **fields: Any) -> None:
        self.now += took
        self.stored.append((self.now, self.simulator._event(author or self.agent.name, self.branch, *parts, **fields)))
        if not author and "agent_state" not in fields.get("actions", {}):
            self.agent.end = self.now

    def _span(self, kind: str, name: str, took: int, within: list[Happened] | None = None, **fields: Any) -> Happened:
        """A span that has just ended."""
        span = Happened(kind, name, self.now - took, self.now, **fields)
        (self.agent.within if within is None else within).append(span)
        return span

    def _model(self, took: int, tokens: int, *parts: Event, **fields: Any) -> None:
        usage = {"usage_metadata": {"prompt_token_count": tokens}} if tokens else {}
        self._append(took, *parts, model_version="model-1", **usage, **fields)
        self._span(MODEL, "model-1", took, tokens=tokens)

    def _called(self) -> tuple[str, str]:
        return self.simulator._name("call"), self.simulator._name("tool")

    def _say(self, took: int, tokens: int) -> None:
        self._model(took, tokens, {"text": "hello"})

    def _note(self, took: int) -> None:
        self._append(took, actions={"state_delta": {"k": 1}})

    def _checkpoint(self, took: int) -> None:
        self._append(took, actions={"agent_state": {"step": 1}})

    def _call(self, took: int, tokens: int, tools: int, fail: list[bool]) -> None:
        names = [self._called() for _ in fail]
        self._model(took, tokens, *(_call(*each) for each in names))
        answers = [{"error": "down"} if failed else {"ok": 1} for failed in fail]
        self._append(tools, *(_response(*each, answer) for each, answer in zip(names, answers, strict=True)))
        for (_, name), failed in zip(names, fail, strict=True):
            self._span(TOOL, name, tools, failed=failed)

    def _ask(self, took: int, tool: int, wait: int) -> None:
        call_id, name = self._called()
        self._model(took, 0, _call(call_id, name), long_running_tool_ids=[call_id])
        self._append(tool, _response(call_id, name, {"status": "pending"}))
        self._span(TOOL, name, tool)
        self._answer(wait, call_id, name)

    def _confirm(self, took: int, first: int, wait: int, tool: int) -> None:
        call_id, name = self._called()
        self._model(took, 0, _call(call_id, name))
        asked = self.simulator._name("call")
        original = {"originalFunctionCall": {"id": call_id, "name": name}}
        self._append(first, _call(asked, CONFIRMATION_CALL, original), long_running_tool_ids=[asked])
        requested = {"requested_tool_confirmations": {call_id: {}}}
        self._append(0, _response(call_id, name, {"error": "This tool call requires confirmation"}), actions=requested)
        self._span(TOOL, name, first)
        self._answer(wait, asked, CONFIRMATION_CALL, name)
        self._append(tool, _response(call_id, name, {"ok": 1}))
        self._span(TOOL, name, tool)

    def _answer(self, wait: int, call_id: str, name: str, shown: str = "") -> None:
        self._append(wait, _response(call_id, name, {"confirmed": True}), author="user")
        self.stored[-1][1].pop("branch", None)
        self._span(WAIT, shown or name, wait)

    def _help(self, took: int, plan: Any) -> None:
        call_id, name = self._called()
        self._model(took, 0, _call(call_id, name))
        tool = self._span(TOOL, name, 0)
        stored, self.now = self.simulator._within(plan, self.branch, self.now, tool.within, run=call_id)
        self.stored += stored
        self._append(1, _response(call_id, name, {"ok": 1}))
        tool.end = self.now

    def _hand_over(self, took: int, tool: int) -> None:
        call_id = self.simulator._name("call")
        self._model(took, 0, _call(call_id, "transfer_to_agent"))
        self._append(tool, _response(call_id, "transfer_to_agent", {}))
        self._span(TOOL, "transfer_to_agent", tool)

    def _transfer(self, took: int, tool: int, plan: Any) -> None:
        self._hand_over(took, tool)
        stored, self.now = self.simulator._within(plan, self.branch, self.now, self.agent.within)
        self._go(stored)

    def _transfer_to_all(self, took: int, tool: int, plans: list[Any]) -> None:
        self._hand_over(took, tool)
        stored, self.now = self.simulator._all(plans, self.branch, self.now, self.agent.within)
        self._go(stored)

    def _go(self, stored: list[tuple[int, Event]]) -> None:
        self.stored[-1][1]["actions"] = {"transfer_to_agent": self.agent.within[-1].name}
        self.stored += stored

    def _tool_raises(self, took: int, tool: int) -> None:
        call_id, name = self._called()
        self._model(took, 0, _call(call_id, name))
        self._append(tool, error_code="ConnectionError")
        self._span(TOOL, name, tool, failed=True)

    def _model_fails(self, took: int) -> None:
        self._append(took, error_code="UNAVAILABLE")
        self._span(MODEL, "", took, failed=True)


def _call(call_id: str, name: str, args: Event | None = None) -> Event:
    return {"function_call": {"id": call_id, "name": name, "args": args or {}}}


def _response(call_id: str, name: str, response: Event) -> Event:
    return {"function_response": {"id": call_id, "name": name, "response": response}}
