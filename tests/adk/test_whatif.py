"""A recorded session continues at an event with something changed: nothing is called before it, and no tool after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.models import BaseLlm, LLMRegistry, LlmRequest, LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types

from sessions_app.adk.whatif import Impossible, WhatIf
from tests.adk.replayed import agent, answer, call, record

pytestmark = pytest.mark.filterwarnings("ignore")
ran: list[str] = []
heard: list[LlmRequest] = []

Script = Callable[[LlmRequest], "str | types.Part | list[types.Part]"]


class Thinks(BaseLlm):
    """A model that answers what a function says, and notes what it was asked."""

    model: str = "thinks"
    think: Any = None

    @classmethod
    def supported_models(cls) -> list[str]:
        """The names of models of this kind."""
        return ["other-.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Says it."""
        heard.append(llm_request)
        said = self.think(llm_request) if self.think else f"I am {llm_request.model}."
        parts = [types.Part(text=each) if isinstance(each, str) else each for each in _list(said)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said]


LLMRegistry.register(Thinks)


def look(item: str, tool_context: ToolContext) -> dict[str, Any]:
    """Looks something up."""
    ran.append("look")
    tool_context.state["looked"] = item
    return {"item": item, "price": 3}


def pay(amount: int, tool_context: ToolContext) -> dict[str, Any]:
    """Acts on the world."""
    ran.append("pay")
    tool_context.state["user:paid"] = amount
    return {"paid": amount}


def clerk(think: Script, **given: Any) -> LlmAgent:
    """The agent of today, whose model thinks."""
    given = {"tools": [look, pay], "instruction": "The tier is {tier?}.", "output_key": "said", **given}
    return LlmAgent(name="clerk", model=Thinks(think=think), **given)


def steps(request: LlmRequest) -> str | types.Part:
    """Looks tea up, pays what it costs, and says what came of that."""
    responses = {}
    for content in request.contents:
        for part in content.parts or []:
            if part.text and content.role == "user" and not part.text.startswith("For context"):
                said, responses = part.text, {}
            if part.function_response:
                responses[part.function_response.name] = part.function_response.response
    if "look" not in responses:
        return call("look", item=said)
    if "pay" not in responses:
        return call("pay", amount=responses["look"]["price"])
    tier = str(request.config.system_instruction).partition("tier is ")[2].partition(".")[0]
    return f"{said}: {responses['pay']}, tier {tier}"


async def _continued(
    recording: dict[str, Any],
    app: Any,
    at: int,
    answers: dict[str, Any] | None = None,
    **change: Any,
) -> tuple[list[Event], dict[str, Any], list[dict[str, Any]]]:
    said: list[Event] = []
    asked: list[dict[str, Any]] = []

    async def ask(unknown: dict[str, Any]) -> dict[str, Any]:
        asked.append(unknown)
        return (answers or {})[unknown["tool"]]

    change = {"at": recording["events"][at]["id"], **change}
    ended = await WhatIf(recording, change, ask=ask, say=said.append).run_on(app)
    return said, ended, asked


def continued(*given: Any, **change: Any) -> tuple[list[Event], dict[str, Any], list[dict[str, Any]]]:
    """What was made from the turn's message on, how it ended, and which calls someone had to decide."""
    ran.clear()
    heard.clear()
    return asyncio.run(_continued(*given, **change))


def recorded(*messages: Any, **given: Any) -> dict[str, Any]:
    """The session of the clerk that says these things, and its tools."""
    return asyncio.run(record(clerk(steps), *(messages or ("tea",)), **given))


def texts(events: list[Event]) -> list[str]:
    """What was said."""
    return [part.text for each in events if each.content for part in each.content.parts or [] if part.text]


def edit(**state: Any) -> dict[str, Any]:
    """An edit of the state."""
    return {"author": "system", "invocation_id": "edit-1", "actions": {"state_delta": state}}


# The events of a turn: 0 the message, 1 and 2 look and its response, 3 and 4 pay and its response, 5 the text.


def test_without_a_change_the_agent_does_the_same_and_no_tool_runs() -> None:
    said, ended, asked = continued(recorded(), clerk(steps), 0)
    assert (texts(said), ran, asked, ended["error"]) == (["tea", "tea: {'paid': 3}, tier "], [], [], "")
    assert ended["state"] == {"looked": "tea", "user:paid": 3, "said": "tea: {'paid': 3}, tier "}


@pytest.mark.parametrize(("at", "calls"), [(0, 3), (1, 2), (2, 2), (3, 1), (4, 1)])
def test_until_the_event_no_model_is_called_and_then_it_is(at: int, calls: int) -> None:
    said, _ended, _asked = continued(recorded(), clerk(steps), at, edit=edit(tier="gold"))
    assert (len(heard), ran) == (calls, [])
    assert texts(said)[-1] == "tea: {'paid': 3}, tier gold"
    assert [each.author for each in said].index("system") == at + 1


def test_after_the_last_event_of_a_turn_comes_the_next_message() -> None:
    recording = recorded("tea", "milk", "honey")
    said, ended, _asked = continued(recording, clerk(steps), 5, edit=edit(tier="gold"))
    assert texts(said) == ["milk", "milk: {'paid': 3}, tier gold"]
    assert len(heard) == 3
    said, ended, _asked = continued(recording, clerk(steps), 5, edit=edit(tier="gold"), later=True)
    assert texts(said)[2:] == ["honey", "honey: {'paid': 3}, tier gold"]
    assert ended["unsent"] == 0


def test_another_message_keeps_its_files_and_may_need_a_tool_that_was_not_called() -> None:
    def with_file(_events: Any) -> types.Content:
        file = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
        return types.Content(role="user", parts=[types.Part(text="tea"), file])

    answers = {"look": {"result": {"price": 5}}, "pay": {"result": {"paid": "by hand"}}}
    said, _ended, asked = continued(recorded(with_file), clerk(steps), 0, answers, message="milk")
    assert [(each["tool"], each["args"]) for each in asked] == [("look", {"item": "milk"}), ("pay", {"amount": 5})]
    assert (texts(said)[-1], ran) == ("milk: {'paid': 'by hand'}, tier ", [])
    assert said[0].content is not None
    assert said[0].content.parts is not None
    assert said[0].content.parts[1].inline_data is not None


def test_a_message_can_follow_the_last_event() -> None:
    answers = {"look": {"result": {"price": 3}}}
    said, _ended, asked = continued(recorded(), clerk(steps), 5, answers, message="milk")
    assert texts(said)[0] == "milk"
    assert [each["tool"] for each in asked] == ["look"]  # that 3 can be paid is recorded
    with pytest.raises(Impossible, match="nothing comes after this event"):
        continued(recorded(), clerk(steps), 5)


def test_another_result_of_a_tool() -> None:
    recording = recorded()
    call_id = recording["events"][1]["content"]["parts"][0]["functionCall"]["id"]
    answers = {"pay": {"fail": "declined"}}
    said, ended, asked = continued(recording, clerk(steps), 2, answers, results={call_id: {"price": 99}})
    assert [each["args"] for each in asked] == [{"amount": 99}]
    assert ended["error"] == "ToolFailed: declined"
    assert ran == []
    answers = {"pay": {"run": True}}
    said, ended, _asked = continued(recording, clerk(steps), 2, answers, results={call_id: {"price": 99}})
    assert (ran, ended["state"]["user:paid"], texts(said)[-1]) == (["pay"], 99, "tea: {'paid': 99}, tier ")


def test_another_instruction_and_another_model() -> None:
    recording = recorded(state={"tier": "gold"})
    said, _ended, _asked = continued(recording, clerk(steps), 0, instructions={"clerk": "Now the tier is new {tier}."})
    assert texts(said)[-1] == "tea: {'paid': 3}, tier new gold"
    said, _ended, _asked = continued(recording, clerk(steps), 2, models={"clerk": "other-2"})
    assert texts(said)[-1] == "I am other-2."
    for change in ({"instructions": {"nobody": "x"}}, {"models": {"nobody": "x"}}):
        with pytest.raises(Impossible, match="there's no agent nobody"):
            continued(recording, clerk(steps), 0, **change)


def test_an_error_is_tried_again() -> None:
    def broken(request: LlmRequest) -> Any:
        raise ValueError("no model today")

    recording = recorded()
    message = recording["events"][0]
    failed = {**message, "id": "e2", "author": "clerk", "content": None, "errorCode": "X", "errorMessage": "x"}
    recording["events"] = [message, failed]
    answers = {name: {"result": {"price": 1}} for name in ("look", "pay")}
    said, ended, _asked = continued(recording, clerk(steps), 1, answers)
    assert (ended["error"], texts(said)[-1]) == ("", "tea: {'price': 1}, tier ")
    _said, ended, _asked = continued(recording, clerk(broken), 0)
    assert ended["error"] == "ValueError: no model today"


def test_the_agent_of_today_may_not_get_to_the_event() -> None:
    _said, ended, _asked = continued(recorded(), clerk(steps, tools=[pay]), 4)
    assert ended["error"].startswith("the agent of today doesn't get to this event: event ")
    assert heard == []


def test_a_confirmation_is_asked_for_again_and_its_answer_is_sent() -> None:
    def today() -> LlmAgent:
        return clerk(steps, tools=[look, FunctionTool(pay, require_confirmation=True)])

    recording = asyncio.run(record(today(), "tea", answer("adk_request_confirmation", {"confirmed": True})))
    for later in (True, False):
        said, ended, asked = continued(recording, today(), 0, later=later)
        assert (asked, ran, ended["error"], texts(said)[-1]) == ([], [], "", "tea: {'paid': 3}, tier ")
        said, ended, _asked = continued(recording, clerk(lambda _request: "No."), 0, later=later)
        assert (texts(said), ended["error"], ended["unsent"]) == (["tea", "No."], "", 1)


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
def test_branches_and_orders_continue_where_each_was(kind: Any) -> None:
    def today() -> Any:
        first = LlmAgent(name="first", model=Thinks(think=steps), tools=[look, pay])
        return kind(name="both", sub_agents=[first, agent("second", "Two.", "Two.")])

    recording = asyncio.run(record(today(), "tea"))
    for at, event in enumerate(recording["events"][:-1]):
        said, ended, asked = continued(recording, today(), at)
        assert (ended["error"], asked, ran) == ("", [], []), event
        assert sorted(texts(said)) == sorted(["tea", "tea: {'paid': 3}, tier ", "Two."]), event


def test_a_tool_that_takes_long_is_asked_for() -> None:
    def today() -> LlmAgent:
        return clerk(lambda _request: next(says), tools=[LongRunningFunctionTool(ship)])

    says = iter([call("ship"), "It takes days."])

    recording = asyncio.run(record(clerk(lambda _request: "No."), "tea"))
    _said, ended, asked = continued(recording, today(), 0, {"ship": {"result": {"status": "pending"}}})
    assert ([each["tool"] for each in asked], ran, ended["error"]) == (["ship"], [], "")


def ship() -> dict[str, str]:
    """Takes days."""
    ran.append("ship")
    return {"status": "on its way"}
