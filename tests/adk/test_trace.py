"""The trace of what google-adk's own Runner stores: who worked within whom, called what and waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool

from sessions_app.domain.description import CONFIRMATION_CALL
from sessions_app.domain.kinds import describe
from sessions_app.domain.trace import Trace, trace
from tests.adk.test_running import Chat, agent, tool, works

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def traced(chat: Chat, *acts: Callable[[Chat], Any]) -> Trace:
    for act in (Chat.say, *acts):
        act(chat)
    return trace((each, describe(each)) for each in chat.recorder.events)


def tree(trace: Trace) -> str:
    """Each span by name, within another by two blanks; model calls without any, and what failed with a “!”."""
    return "\n".join(
        "  " * each.depth
        + ("→ " if each.transferred else "")
        + (each.name or each.kind)
        + (" waits" if each.kind == "wait" else "")
        + ("!" if each.failed else "")
        for each in trace.spans
    )


WORKS = "{0}\n  model\n  tool\n  model"


def inside(text: str, levels: int = 1) -> str:
    return "\n".join("  " * levels + line for line in text.split("\n"))


def test_a_tool_is_between_two_calls_of_the_model() -> None:
    told = traced(Chat(works("a")))
    assert tree(told) == WORKS.format("a")
    model, called, again = told.spans[1:]
    assert (model.start, model.end) == (told.start, called.start)
    assert (called.end, again.end) == (again.start, told.end)
    assert told.model.seconds + told.tools.seconds == pytest.approx(told.took)


def test_agents_that_transfer_are_within_each_other() -> None:
    back = agent("b", "tool()", "transfer_to_agent(a)")
    assert tree(traced(Chat(agent("a", "transfer_to_agent(b)", "done", sub_agents=[back])))) == (
        "a\n  model\n  transfer_to_agent\n  → b\n    model\n    tool\n    model\n    transfer_to_agent\na\n  model"
    )


@pytest.mark.parametrize("resumable", [False, True], ids=["plain", "resumable"])
def test_parallel_agents_are_lanes_beside_each_other(resumable: bool) -> None:
    both = ParallelAgent(name="par", sub_agents=[works("a"), works("b")])
    told = traced(Chat(both, resumable))
    assert tree(told) == f"par\n{inside(WORKS.format('a'))}\n{inside(WORKS.format('b'))}"
    par, a, b = (each for each in told.spans if each.kind == "agent")
    assert par.start == a.start == b.start
    assert par.end == max(a.end or 0, b.end or 0)


def test_groups_of_groups_and_sequences_are_nested_as_they_were_written() -> None:
    inner = SequentialAgent(name="in", sub_agents=[works("b"), works("c")])
    deep = ParallelAgent(name="deep", sub_agents=[works("d"), works("e")])
    par = ParallelAgent(name="par", sub_agents=[works("a"), inner, deep])
    told = traced(Chat(SequentialAgent(name="seq", sub_agents=[works("x"), par, works("y")])))
    lanes = (
        inside(WORKS.format("a")),
        "  in\n" + inside(WORKS.format("b"), 2) + "\n" + inside(WORKS.format("c"), 2),
        "  deep\n" + inside(WORKS.format("d"), 2) + "\n" + inside(WORKS.format("e"), 2),
    )
    assert tree(told) == "\n".join([WORKS.format("x"), "par", *lanes, WORKS.format("y")])


def test_a_loop_of_agents_has_each_of_their_turns() -> None:
    loop = LoopAgent(name="loop", sub_agents=[agent("a", "one", "two"), agent("b", "one", "two")], max_iterations=2)
    assert tree(traced(Chat(loop))) == "\n".join(f"{name}\n  model" for name in "abab")


def test_agents_that_are_tools_are_within_the_call() -> None:
    inner = agent("b", "tool()", "done", mode="single_turn", description="b")
    told = traced(Chat(agent("a", "b()", "done", sub_agents=[inner])))
    assert tree(told) == "a\n  model\n  b\n" + inside(WORKS.format("b"), 2) + "\n  model"
    # What runs in an AgentTool is in a session of its own.
    assert tree(traced(Chat(agent("a", "b()", "done", tools=[AgentTool(works("b"))])))) == "a\n  model\n  b\n  model"


@pytest.mark.parametrize(
    ("root", "wanted"),
    [
        (lambda: agent("a", "fails()"), "a\n  model\n  fails!"),
        (lambda: agent("a", "tool()", "error 503"), "a\n  model\n  tool\n  model!"),
    ],
)
def test_what_failed_is_told_from_what_did_not(root: Callable[[], BaseAgent], wanted: str) -> None:
    assert tree(traced(Chat(root()))) == wanted


def test_waiting_for_a_person_is_nobody_s_work() -> None:
    told = traced(Chat(agent("a", "pending()", "asked", "thanks")), lambda chat: chat.answer("pending", ok=True))
    assert tree(told) == "a\n  model\n  pending\n  pending waits\n  model\n  model"
    guarded = agent("a", "tool()", "done", tools=[FunctionTool(tool, require_confirmation=True)])
    told = traced(Chat(guarded), lambda chat: chat.answer(CONFIRMATION_CALL, confirmed=True))
    assert tree(told) == "a\n  model\n  tool\n  tool waits\n  tool\n  model"
    assert told.waiting.seconds > 0
    assert traced(Chat(agent("a", "pending()", "asked"))).spans[3].end is None
