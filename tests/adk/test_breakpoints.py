"""When an agent's process asks adkweb about breakpoints."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from sessions_app.adk.breakpoints import Breakpoints, Channel

CONTEXT = SimpleNamespace(
    invocation_id="i1",
    session=SimpleNamespace(app_name="helper", user_id="ana", id="s1"),
    agent_name="helper",
    function_call_id="c1",
    state={},
)


class Says(Channel):
    """Answers what it was told to say, and counts how often it was asked."""

    def __init__(self, **answer: Any) -> None:
        super().__init__()
        self.answer, self.asked = answer, 0

    def reaches(self, invocation: str) -> bool:
        """Everything is asked."""
        return True

    async def send(self, step: dict[str, Any]) -> dict[str, Any]:
        """Answers."""
        self.asked += 1
        return self.answer


def asked(channel: Says, calls: int, plugin: Breakpoints) -> int:
    """Returns how often it was asked in so many calls of a tool."""
    before = channel.asked

    async def call() -> None:
        for _ in range(calls):
            await plugin.before_tool_callback(tool=SimpleNamespace(name="pay"), tool_args={}, tool_context=CONTEXT)

    asyncio.run(call())
    return channel.asked - before


def test_without_a_breakpoint_it_asks_once_until_there_is_a_new_one() -> None:
    channel = Says(none=3)
    plugin = Breakpoints(channel)
    assert asked(channel, 2, plugin) == 2  # until it is sure to hear of a new one
    channel.newest = 3
    assert asked(channel, 50, plugin) == 0
    channel.newest = 4
    assert asked(channel, 1, plugin) == 1
    channel.answer = {"none": 4}
    assert asked(channel, 50, plugin) == 1


def test_with_a_breakpoint_or_an_older_adkweb_it_asks_before_each_call() -> None:
    channel = Says(pauses=False)
    channel.newest = 3
    assert asked(channel, 5, Breakpoints(channel)) == 5


def test_what_someone_decided_counts_when_the_time_is_over() -> None:
    class Late(Says):
        async def send(self, step: dict[str, Any]) -> dict[str, Any]:
            if step.get("over"):
                return {"decision": self.answer}
            return {"pauses": True, "seconds": 0.1, "refusal": "No."}

    args: dict[str, Any] = {"n": 1}

    def call(**decision: Any) -> Any:
        pausing = Breakpoints(Late(**decision))
        tool = SimpleNamespace(name="pay", description="")
        return asyncio.run(pausing.before_tool_callback(tool=tool, tool_args=args, tool_context=CONTEXT))

    assert (call(go="continue", args={"n": 2}), args) == (None, {"n": 2})
    assert call(go="continue", result={"paid": True}) == {"paid": True}
    assert call(go="refuse", why="Two.") == {"error": "Two."}
    assert call(go="away") == {"error": "No."}
