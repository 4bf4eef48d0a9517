"""A recorded session is replayed without models and tools, and a change of the agent is named where it shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App, ResumabilityConfig
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events import Event, EventActions
from google.adk.models import LlmResponse
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.adk.tools import (
    AgentTool,
    BaseTool,
    FunctionTool,
    LongRunningFunctionTool,
    ToolContext,
    exit_loop,
    request_input,
)
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import Workflow
from google.genai import types

from sessions_app.adk.replay import DIVERGED, SAME, UNDECIDED, Outcome, Replay
from tests.adk.replayed import Message, Says, agent, answer, asked, call, record

pytestmark = pytest.mark.filterwarnings("ignore")
CONFIRM = "adk_request_confirmation"
ran: list[str] = []  # what ran: models and tools of a replay do not


def add(item: str, tool_context: ToolContext) -> dict[str, Any]:
    """Puts something into the cart."""
    ran.append("add")
    cart = [*tool_context.state.get("cart", []), item]
    tool_context.state["cart"] = cart
    return {"cart": cart}


def pay(amount: int, tool_context: ToolContext) -> dict[str, Any]:
    """Pays."""
    ran.append("pay")
    tool_context.state["user:paid"] = amount
    return {"paid": amount}


def refund(amount: int, tool_context: ToolContext) -> dict[str, Any]:
    """Asks a person first."""
    ran.append("refund")
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="Pay it back?", payload={"amount": amount})
        return {"status": "waiting"}
    return {"confirmed": tool_context.tool_confirmation.confirmed, "payload": tool_context.tool_confirmation.payload}


def ship() -> dict[str, str]:
    """Takes days."""
    ran.append("ship")
    return {"status": "on its way"}


def broken() -> str:
    """Fails."""
    ran.append("broken")
    raise RuntimeError("out of order")


def explain(**given: Any) -> dict[str, str]:
    """Says what went wrong."""
    return {"error": str(given["error"])}


def greet(callback_context: CallbackContext) -> None:
    """Counts visits."""
    callback_context.state["visits"] = callback_context.state.get("visits", 0) + 1


def closed(callback_context: CallbackContext) -> types.Content:
    """Answers in the place of the agent."""
    return types.Content(role="model", parts=[types.Part(text="The shop is closed.")])


def note_call(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, tool_response: Any) -> None:
    """Counts the calls of tools, after each."""
    tool_context.state["calls"] = tool_context.state.get("calls", 0) + 1


def note_call_twice(**given: Any) -> None:
    """Counts otherwise."""
    note_call(**given)
    note_call(**given)


def enough(tool_context: ToolContext) -> str:
    """Leaves a loop, as an agent's own tool does it."""
    ran.append("enough")
    tool_context.actions.escalate = True
    return "Enough."


class Scale(BaseTool):
    """A tool of another class, which declares its argument itself."""

    def __init__(self, argument: str = "item") -> None:
        super().__init__(name="weigh", description="Weighs.")
        self._argument = argument

    def _get_declaration(self) -> types.FunctionDeclaration:
        properties = {self._argument: types.Schema(type=types.Type.STRING)}
        schema = types.Schema(type=types.Type.OBJECT, properties=properties, required=[self._argument])
        return types.FunctionDeclaration(name="weigh", description="Weighs.", parameters=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Weighs."""
        ran.append("weigh")
        return {"grams": 100}


def sharing() -> Any:
    """Two agents with one model and one tool."""
    model, tool = Says(script=[call("add", item="tea"), "One.", call("add", item="milk"), "Two."]), FunctionTool(add)
    agents = [LlmAgent(name=name, model=model, tools=[tool]) for name in ("first", "second")]
    return SequentialAgent(name="line", sub_agents=list(agents))


def nested() -> Any:
    """Branches in branches."""
    line = SequentialAgent(name="line", sub_agents=[agent("one", "1", output_key="one"), agent("two", "2")])
    pair = ParallelAgent(
        name="pair", sub_agents=[agent("left", call("add", item="tea"), "L", tools=[add]), agent("right", "R")]
    )
    both = ParallelAgent(name="both", sub_agents=[line, pair])
    return SequentialAgent(name="all", sub_agents=[both, agent("last", "Done.")])


def until_enough(*after: Any) -> Any:
    """A loop that a tool ends, and what comes after it."""
    loop = LoopAgent(name="again", sub_agents=[agent("looker", call("enough"), "Enough.", tools=[enough])])
    return SequentialAgent(name="line", sub_agents=[loop, *after])


class Catalogue(BaseToolset):
    """Would ask a server."""

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """Its tools."""
        ran.append("catalogue")
        return [FunctionTool(ship)]

    async def close(self) -> None:
        """Nothing."""


@dataclass
class Kind:
    """An agent and what is said to it."""

    make: Callable[[], Any]
    messages: tuple[Message | Event, ...] = ("Hello",)
    streaming: bool = False


KINDS = {
    "text": Kind(lambda: agent("clerk", "Hi!")),
    "tool": Kind(lambda: agent("clerk", call("add", item="tea"), "Done.", tools=[add])),
    "two turns": Kind(
        lambda: agent("clerk", call("add", item="tea"), "Done.", call("add", item="milk"), "Done again.", tools=[add]),
        ("tea", "milk"),
    ),
    "parallel tools": Kind(
        lambda: agent("clerk", [call("add", item="tea"), call("pay", amount=3)], "Done.", tools=[add, pay])
    ),
    "same tool twice": Kind(
        lambda: agent("clerk", [call("add", item="tea"), call("add", item="milk")], "Done.", tools=[add])
    ),
    "transfer": Kind(
        lambda: agent(
            "clerk",
            call("transfer_to_agent", agent_name="cashier"),
            sub_agents=[agent("cashier", call("pay", amount=3), "Paid.", "Still here.", tools=[pay])],
        ),
        ("Pay", "Thanks"),
    ),
    "agent tool": Kind(
        lambda: agent("clerk", call("expert", request="tea?"), "Yes.", tools=[AgentTool(agent("expert", "Green tea."))])
    ),
    "sequential": Kind(
        lambda: SequentialAgent(
            name="line", sub_agents=[agent("first", "One.", output_key="first"), agent("second", "Two.")]
        )
    ),
    "parallel": Kind(
        lambda: ParallelAgent(
            name="both",
            sub_agents=[
                agent("left", call("add", item="tea"), "Left.", tools=[add], output_key="left"),
                agent("right", call("pay", amount=3), "Right.", tools=[pay], output_key="right"),
            ],
        )
    ),
    "loop": Kind(
        lambda: LoopAgent(
            name="again",
            max_iterations=5,
            sub_agents=[agent("looker", "Not yet.", call("exit_loop"), tools=[exit_loop])],
        )
    ),
    "workflow": Kind(lambda: Workflow(name="flow", edges=[("START", agent("one", "One."), agent("two", "Two."))])),
    "streaming": Kind(
        lambda: agent("clerk", "Hello there.", output_key="said"),
        streaming=True,
    ),
    "callbacks": Kind(
        lambda: agent(
            "clerk", call("add", item="tea"), "Done.", tools=[add], before_agent_callback=greet, output_key="said"
        ),
        ("Hello",),
    ),
    "answered by a callback": Kind(lambda: agent("clerk", before_agent_callback=closed)),
    "answered before the model": Kind(
        lambda: agent(
            "clerk",
            before_model_callback=lambda callback_context, llm_request: LlmResponse(
                content=types.Content(role="model", parts=[types.Part(text="No need to ask.")])
            ),
        )
    ),
    "confirmed": Kind(
        lambda: agent("clerk", call("pay", amount=3), "Paid.", tools=[FunctionTool(pay, require_confirmation=True)]),
        ("Pay", answer(CONFIRM, {"confirmed": True})),
    ),
    "declined": Kind(
        lambda: agent(
            "clerk", call("pay", amount=3), "Not paid.", tools=[FunctionTool(pay, require_confirmation=True)]
        ),
        ("Pay", answer(CONFIRM, {"confirmed": False})),
    ),
    "confirmed by a tool that asks": Kind(
        lambda: agent("clerk", call("refund", amount=3), "Waiting.", "Refunded.", tools=[refund]),
        ("Refund", answer(CONFIRM, {"confirmed": True, "payload": {"amount": 2}})),
    ),
    "confirmed in a resumable app": Kind(
        lambda: App(
            name="shop",
            root_agent=agent(
                "clerk", call("pay", amount=3), "Paid.", tools=[FunctionTool(pay, require_confirmation=True)]
            ),
            resumability_config=ResumabilityConfig(is_resumable=True),
        ),
        ("Pay", answer(CONFIRM, {"confirmed": True})),
    ),
    "long-running": Kind(
        lambda: agent("clerk", call("ship"), "Wait.", "It is there.", tools=[LongRunningFunctionTool(ship)]),
        ("Ship", answer("ship", {"status": "there"})),
    ),
    "input": Kind(
        lambda: agent("clerk", call("adk_request_input", message="How many?"), "Two, then.", tools=[request_input]),
        ("Tea", answer("adk_request_input", {"result": 2})),
    ),
    "failed tool": Kind(
        lambda: agent("clerk", call("broken"), "It is broken.", tools=[broken], on_tool_error_callback=explain)
    ),
    "failed tool that ended the turn": Kind(
        lambda: agent("clerk", call("broken"), "Hi again!", tools=[broken]), ("Break it", "Hello?")
    ),
    "no such tool": Kind(lambda: agent("clerk", call("steal"), "I can't.", tools=[add])),
    "error of the model": Kind(
        lambda: agent("clerk", LlmResponse(error_code="SAFETY", error_message="blocked"), "Hi!"), ("Bad", "Good")
    ),
    "error of a model of one's own": Kind(
        lambda: agent("clerk", LlmResponse(error_code="BUSY", error_message="later"))
    ),
    "workflow that failed": Kind(
        lambda: Workflow(name="flow", edges=[("START", agent("one", "One."), agent("two", RuntimeError("429")))])
    ),
    "failed after a transfer": Kind(
        lambda: agent(
            "clerk",
            call("transfer_to_agent", agent_name="cashier"),
            sub_agents=[agent("cashier", call("pay", amount=3), RuntimeError("429"), "Paid.", tools=[pay])],
        ),
        ("Pay", "Hello?"),
    ),
    "turn that failed": Kind(
        lambda: agent("clerk", call("add", item="tea"), RuntimeError("429"), "Hi again!", tools=[add]),
        ("Tea", "Hello?"),
    ),
    "counted after a tool": Kind(
        lambda: agent(
            "clerk",
            [call("add", item="tea"), call("add", item="milk")],
            "Done.",
            tools=[add],
            after_tool_callback=note_call,
        )
    ),
    "tool of another class": Kind(lambda: agent("clerk", call("weigh", item="tea"), "100 g.", tools=[Scale()])),
    "shared model and tool": Kind(sharing),
    "branches in branches": Kind(nested),
    "loop that a tool ends": Kind(until_enough),
    "toolset": Kind(lambda: agent("clerk", call("ship"), "Shipped.", tools=[add, Catalogue()])),
}


def recorded(kind: Kind, path: Path | None = None) -> dict[str, Any]:
    """A recording, from a database if there is a path: that gives the events in the order of their times."""

    async def recorded_by(service: BaseSessionService) -> dict[str, Any]:
        return await record(kind.make(), *kind.messages, service=service, streaming=kind.streaming)

    async def stored() -> dict[str, Any]:
        if path is None:
            return await recorded_by(InMemorySessionService())
        service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}/recorded.db")
        try:
            return await recorded_by(service)
        finally:
            await service.db_engine.dispose()

    return asyncio.run(stored())


def replayed(recording: dict[str, Any], app: Any, **given: Any) -> Outcome:
    """The outcome; no tool has run, and no model was asked."""
    ran.clear()
    asked.clear()
    outcome = asyncio.run(Replay(recording).run(app, **given))
    assert (ran, asked) == ([], [])
    return outcome


@pytest.mark.guarantee(
    "Agents", "A replay calls no model and runs no tool, and code of an agent's own only where that is allowed."
)
@pytest.mark.parametrize("in_database", [False, True], ids=["memory", "database"])
@pytest.mark.parametrize("name", KINDS)
def test_what_was_recorded_is_the_same_when_nothing_has_changed(tmp_path: Path, name: str, in_database: bool) -> None:
    recording = recorded(KINDS[name], tmp_path if in_database else None)
    assert len(recording["events"]) >= 2
    assert str(replayed(recording, KINDS[name].make())) == "same"


# --- What has changed is named ----------------------------------------------------------------------------------------


def add_renamed(product: str, tool_context: ToolContext) -> dict[str, Any]:
    """Has another argument."""
    return add(product, tool_context)


def pay_more(amount: int, currency: str) -> dict[str, Any]:
    """Needs one more argument."""
    return {}


add_renamed.__name__, pay_more.__name__ = "add", "pay"


def greet_otherwise(callback_context: CallbackContext) -> None:
    """Counts somewhere else."""
    callback_context.state["visitors"] = callback_context.state.get("visitors", 0) + 1


def greet_truly(callback_context: CallbackContext) -> None:
    """Doesn't count."""
    callback_context.state["visits"] = True


def closed_otherwise(callback_context: CallbackContext) -> types.Content:
    """Says it in other words."""
    return types.Content(role="model", parts=[types.Part(text="Come back tomorrow.")])


def cashier(**given: Any) -> Any:
    """A clerk who transfers, and what happens there."""
    return agent("clerk", sub_agents=[agent(**{"name": "cashier", "tools": [pay], **given})])


CHANGED: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "a renamed argument": (
        "tool",
        lambda: agent("clerk", tools=[add_renamed]),
        {"what": "arguments", "agent": "clerk", "tool": "add", "got": "product is missing, item is unknown"},
    ),
    "an argument more, of one of two parallel tools": (
        "parallel tools",
        lambda: agent("clerk", tools=[add, pay_more]),
        {"what": "arguments", "tool": "pay", "got": "currency is missing"},
    ),
    "a tool that is gone": ("tool", lambda: agent("clerk"), {"what": "tool", "tool": "add", "got": "no such tool"}),
    "another key of the state": (
        "callbacks",
        lambda: agent("clerk", tools=[add], before_agent_callback=greet_otherwise, output_key="said"),
        {"what": "state", "agent": "clerk", "expected": {"visits": 1}, "got": {"visitors": 1}},
    ),
    "another output_key": (
        "callbacks",
        lambda: agent("clerk", tools=[add], before_agent_callback=greet, output_key="reply"),
        {"what": "state", "expected": {"said": "Done."}, "got": {"reply": "Done."}},
    ),
    "another text of a callback": (
        "answered by a callback",
        lambda: agent("clerk", before_agent_callback=closed_otherwise),
        {"what": "text", "expected": [{"text": "The shop is closed."}], "got": [{"text": "Come back tomorrow."}]},
    ),
    "a callback that answers now": (
        "text",
        lambda: agent("clerk", before_agent_callback=closed),
        {"what": "text", "agent": "clerk"},
    ),
    "no confirmation any longer": (
        "confirmed",
        lambda: agent("clerk", tools=[pay]),
        {"what": "tool", "agent": "clerk", "tool": "pay", "got": "no confirmation"},
    ),
    "a confirmation now": (
        "tool",
        lambda: agent("clerk", tools=[FunctionTool(add, require_confirmation=True)]),
        {"what": "tool", "agent": "clerk"},
    ),
    "another name of the agent": ("text", lambda: agent("assistant"), {"what": "agent", "expected": "clerk"}),
    "a transfer that isn't possible": ("transfer", lambda: agent("clerk", tools=[pay]), {"what": "tool"}),
    "after a transfer, a renamed argument": (
        "transfer",
        lambda: cashier(tools=[pay_more]),
        {"what": "arguments", "agent": "cashier"},
    ),
    "other agents in a line": (
        "sequential",
        lambda: SequentialAgent(name="line", sub_agents=[agent("second"), agent("first", output_key="first")]),
        {"what": "agent"},
    ),
    "one agent more in a line": (
        "sequential",
        lambda: SequentialAgent(
            name="line", sub_agents=[agent("first", output_key="first"), agent("second"), agent("third")]
        ),
        {"what": "agent", "agent": "third"},
    ),
    "one agent fewer in parallel": (
        "parallel",
        lambda: ParallelAgent(name="both", sub_agents=[agent("left", tools=[add], output_key="left")]),
        {"agent": "right"},
    ),
    "fewer rounds of a loop": (
        "loop",
        lambda: LoopAgent(name="again", max_iterations=1, sub_agents=[agent("looker", tools=[exit_loop])]),
        {"what": "tool", "agent": "looker", "tool": "exit_loop"},
    ),
    "another node of a workflow": (
        "workflow",
        lambda: Workflow(name="flow", edges=[("START", agent("one"), agent("three"))]),
        {"what": "agent", "expected": "two"},
    ),
    "another count after a tool": (
        "counted after a tool",
        lambda: agent("clerk", tools=[add], after_tool_callback=note_call_twice),
        {"what": "state", "expected": {"calls": 2}, "got": {"calls": 4}},
    ),
    "a renamed argument of a tool of another class": (
        "tool of another class",
        lambda: agent("clerk", tools=[Scale("product")]),
        {"what": "arguments", "tool": "weigh", "got": "product is missing, item is unknown"},
    ),
    "true in the place of 1": (
        "callbacks",
        lambda: agent("clerk", tools=[add], before_agent_callback=greet_truly, output_key="said"),
        {"what": "state", "expected": {"visits": 1}, "got": {"visits": True}},
    ),
    "an agent after a loop that a tool ended": (
        "loop that a tool ends",
        lambda: until_enough(agent("third")),
        {"what": "agent", "agent": "third"},
    ),
    "an error that isn't caught any longer": (
        "failed tool",
        lambda: agent("clerk", tools=[broken], before_agent_callback=lambda callback_context: 1 / 0),
        {"what": "error", "got": "ZeroDivisionError: division by zero"},
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_is_named_where_it_shows(name: str) -> None:
    kind, make, expected = CHANGED[name]
    recording = recorded(KINDS[kind])
    outcome = replayed(recording, make())
    assert outcome.result == DIVERGED, outcome
    assert {field: getattr(outcome, field) for field in expected} == expected, outcome
    assert outcome.event in {each["id"] for each in recording["events"]}
    assert str(outcome).startswith(f"event {outcome.event}, {outcome.what} of ")


# --- Each kind, with each change ---------------------------------------------------------------------------------------


def below(root: Any) -> Iterator[Any]:
    """The agents of a tree."""
    yield root
    for each in [*getattr(root, "sub_agents", ()), *(root.graph.nodes if isinstance(root, Workflow) else ())]:
        yield from below(each)


def dressed(made: Any, key: str = "seen", text: str = "Bye.", *, renamed: bool = False) -> Any:
    """An agent in which each agent counts in a key of its own before it begins, and says something when it ends."""
    for each in below(made.root_agent if isinstance(made, App) else made):
        if isinstance(each, LlmAgent):
            own = each.before_agent_callback
            each.before_agent_callback = [partial(count, f"{key}_{each.name}"), *([own] if own else [])]
            if not isinstance(made, Workflow):  # there an agent has one output
                each.after_agent_callback = partial(say, text)
            each.tools = [other(tool) if renamed else tool for tool in each.tools]
    return made


def count(key: str, callback_context: CallbackContext) -> None:
    """Counts."""
    callback_context.state[key] = callback_context.state.get(key, 0) + 1


def say(text: str, callback_context: CallbackContext) -> types.Content:
    """Says it."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def other(tool: Any) -> Any:
    """The same tool with another argument."""
    func = tool.func if isinstance(tool, FunctionTool) else tool
    if type(tool) in (AgentTool, Catalogue, Scale) or func.__module__.startswith("google."):
        return tool

    def changed(else_: str) -> dict[str, Any]:
        return {}

    changed.__name__ = func.__name__
    if type(tool) is FunctionTool:
        return FunctionTool(changed, require_confirmation=func is pay)
    return type(tool)(changed) if isinstance(tool, FunctionTool) else changed


WITHOUT_ARGUMENTS = {
    *(
        "text",
        "agent tool",
        "sequential",
        "loop",
        "workflow",
        "streaming",
        "answered by a callback",
        "declined",
        "input",
    ),
    *(
        "answered before the model",
        "no such tool",
        "error of the model",
        "error of a model of one's own",
        "workflow that failed",
        "agent in a line that failed",
        "toolset",
        "tool of another class",
    ),
}


@pytest.mark.parametrize(
    ("change", "what"),
    [({}, ""), ({"key": "gone"}, "state"), ({"text": "Ciao."}, "text"), ({"renamed": True}, "arguments")],
    ids=["unchanged", "state", "text", "arguments"],
)
@pytest.mark.parametrize("name", KINDS)
def test_each_change_of_each_kind_of_agent_is_named_as_what_it_is(name: str, change: dict[str, Any], what: str) -> None:
    kind = KINDS[name]
    if what == "arguments" and name in WITHOUT_ARGUMENTS:
        what = ""  # no tool of this session's own took any
    if what == "text" and name in ("workflow", "workflow that failed", "answered by a callback"):
        what = ""  # nobody says it
    recording = recorded(replace(kind, make=lambda: dressed(kind.make())))
    outcome = replayed(recording, dressed(kind.make(), **change))
    assert (outcome.result, outcome.what) == ((DIVERGED, what) if what else (SAME, "")), outcome


# --- What can't be decided says why --------------------------------------------------------------------------------


def read(node_input: Any) -> str:
    """A function of a workflow."""
    ran.append("read")
    return "read"


class Own(BaseAgent):
    """An agent of another class."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        ran.append("own")
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text="Mine.")]))


def louder(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse:
    """Changes what the model said."""
    said = (llm_response.content.parts or [])[0].text if llm_response.content else ""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{said}!")]))


async def note(callback_context: CallbackContext) -> None:
    """Reads a file that is only where the session was recorded."""
    menu = await callback_context.load_artifact("menu.txt")
    callback_context.state["menu"] = menu.text if menu else "none"


async def write_menu(tool_context: ToolContext) -> None:
    """Saves a file."""
    await tool_context.save_artifact("menu.txt", types.Part(text="tea"))


UNDECIDED_KINDS = {
    "a function of a workflow": (
        Kind(lambda: Workflow(name="flow", edges=[("START", read, agent("two", "Two."))])),
        "read runs code of its own, which only run_code allows",
    ),
    "an agent of another class": (
        Kind(lambda: Own(name="own")),
        "own runs code of its own, which only run_code allows",
    ),
    "one of them in a line": (
        Kind(lambda: SequentialAgent(name="line", sub_agents=[agent("first", "One."), Own(name="own")])),
        "own runs code of its own, which only run_code allows",
    ),
    "a code executor": (
        Kind(lambda: agent("clerk", "```python\nran.append(1)\n```", "Done.", code_executor=UnsafeLocalCodeExecutor())),
        "the code executor of clerk runs code of its own, which only run_code allows",
    ),
    "a callback that changes what the model said": (
        Kind(lambda: agent("clerk", "Hi", after_model_callback=louder)),
        "the after_model_callback of clerk changes what it gets, and the recording only has the result",
    ),
    "an artifact": (
        Kind(lambda: agent("clerk", call("write_menu"), "Hi", tools=[write_menu], after_agent_callback=note)),
        "the agent reads the artifact menu.txt, which the recording doesn't have",
    ),
}


@pytest.mark.parametrize("name", UNDECIDED_KINDS)
def test_what_a_replay_cannot_know_is_undecided_and_says_why(name: str) -> None:
    kind, why = UNDECIDED_KINDS[name]
    outcome = replayed(recorded(kind), kind.make())
    assert (outcome.result, outcome.why, str(outcome)) == (UNDECIDED, why, f"undecided: {why}")


@pytest.mark.parametrize("name", ["a function of a workflow", "an agent of another class", "one of them in a line"])
def test_code_runs_only_where_that_is_allowed(name: str) -> None:
    kind, _why = UNDECIDED_KINDS[name]
    recording = recorded(kind)
    ran.clear()
    assert asyncio.run(Replay(recording).run(kind.make(), run_code=True)).result == "same"
    assert len(ran) == 1


def test_a_spoken_session_is_undecided() -> None:
    recording = recorded(KINDS["text"])
    recording["events"][1]["outputTranscription"] = {"text": "Hi!", "finished": True}
    assert replayed(recording, KINDS["text"].make()).why == "it was spoken, and sound isn't sent again"


def test_a_tool_whose_result_was_not_recorded_does_not_run() -> None:
    recording = recorded(KINDS["tool"])
    del recording["events"][2]
    outcome = replayed(recording, agent("clerk", tools=[add]))
    assert (outcome.result, outcome.tool, outcome.why) == (UNDECIDED, "add", "the result of this call isn't recorded")


ADKS_OWN = ["exit_loop", "transfer_to_agent", "set_model_response", "finish_task", "adk_request_input"]


@pytest.mark.parametrize("name", ADKS_OWN)
def test_a_function_with_the_name_of_one_of_google_adk_does_not_run(name: str) -> None:
    def own(agent_name: str) -> str:
        """Does something else."""
        ran.append(name)
        return "done"

    own.__name__ = name
    kind = Kind(lambda: agent("clerk", call(name, agent_name="clerk"), "Done.", tools=[own]))
    assert str(replayed(recorded(kind), kind.make())) == "same"


@pytest.mark.parametrize("name", [*ADKS_OWN, CONFIRM, "adk_request_credential", "__import__", "a\nb", "x" * 10_000, ""])
def test_a_call_that_someone_made_up_ends_in_an_outcome(name: str) -> None:
    recording = recorded(KINDS["tool"])
    made_up = recording["events"][1]["content"]["parts"][0]["functionCall"]
    made_up |= {"name": name, "args": {"agent_name": "clerk", "originalFunctionCall": "x", "authConfig": 7}}
    assert replayed(recording, KINDS["tool"].make()).result in (DIVERGED, UNDECIDED)


def test_tools_of_a_toolset_are_not_compared_and_the_outcome_says_so() -> None:
    outcome = replayed(recorded(KINDS["toolset"]), KINDS["toolset"].make())
    assert outcome.unseen == ("the tools of Catalogue of clerk",)


# --- What others wrote, and what a replay leaves behind -----------------------------------------------------------------


def written(**given: Any) -> Event:
    """An event that no agent made."""
    return Event(author="user", invocation_id=f"edit-{len(given)}", actions=EventActions(**given))


def test_edits_between_two_turns_are_made_again() -> None:
    make = partial(agent, "clerk", before_agent_callback=greet)
    kind = Kind(lambda: make("One.", "Two."), ("Hello", written(state_delta={"visits": 40}), "Hello again"))
    recording = recorded(kind)
    assert [each["actions"]["stateDelta"].get("visits") for each in recording["events"]] == [
        None,
        1,
        None,
        40,
        None,
        41,
        None,
    ]
    assert replayed(recording, kind.make()).result == "same"
    del recording["events"][3]
    assert replayed(recording, kind.make()).got == {"visits": 2}


def test_an_edit_while_the_agent_ran_makes_the_turn_undecided() -> None:
    recording = recorded(KINDS["tool"])
    edit = json.loads(written(state_delta={"vip": True}).model_dump_json(by_alias=True))
    recording["events"].insert(2, edit)
    outcome = replayed(recording, KINDS["tool"].make())
    assert outcome.why == "someone else wrote to the session while the agent ran"


def test_a_rewind_is_made_again() -> None:
    kind = KINDS["two turns"]
    recording = recorded(kind)
    first = recording["events"][0]["invocationId"]
    rewind = written(rewind_before_invocation_id=first, state_delta={"cart": None})
    recording["events"].insert(4, json.loads(rewind.model_dump_json(by_alias=True)))
    assert replayed(recording, kind.make()).result == "same"


def test_the_state_before_the_first_event_is_that_of_the_recording() -> None:
    make = partial(agent, "clerk", before_agent_callback=greet)
    recording = asyncio.run(record(make("Hi!"), "Hello", state={"visits": 7, "user:tier": "gold"}))
    assert replayed(recording, make()).result == "same"
    recording["state"] = {}
    assert replayed(recording, make()).expected == {"visits": 8}


def test_what_depends_on_a_key_whose_value_was_not_known_is_undecided() -> None:
    make = partial(agent, "clerk", before_agent_callback=greet)
    recording = asyncio.run(record(make("Hi!"), "Hello", state={"visits": 7}))
    outcome = replayed({**recording, "state": {}, "unknown": ["visits"]}, make())
    assert (outcome.result, outcome.event) == (UNDECIDED, recording["events"][1]["id"])
    assert outcome.why == "the value of visits before this session isn't known"
    named = partial(agent, "clerk", instruction="This is visit {visits}.")
    recording = asyncio.run(record(named("Hi!"), "Hello", state={"visits": 7}))
    outcome = replayed({**recording, "state": {}, "unknown": ["visits"]}, named())
    assert (outcome.result, outcome.why) == (UNDECIDED, "the value of visits before this session isn't known")


def test_a_session_without_a_message_is_undecided() -> None:
    assert replayed({"events": []}, agent("clerk")).why == "nobody has written to the agent in this session"


def test_an_agent_is_as_it_was_after_a_replay() -> None:
    recording = recorded(KINDS["toolset"])
    clerk = KINDS["toolset"].make()
    before = (clerk.model, list(clerk.tools))
    for _ in range(2):
        assert replayed(recording, clerk).result == "same"
    assert (clerk.model, list(clerk.tools)) == before
    assert "run_async" not in vars(clerk.tools[1])


def test_a_test_of_ones_own_fails_with_the_difference() -> None:
    recording = json.dumps(recorded(KINDS["tool"]))
    Replay(recording).check(KINDS["tool"].make())
    with pytest.raises(AssertionError, match=r"arguments of clerk and add: expected .*tea.*, got product is missing"):
        Replay(recording).check(agent("clerk", tools=[add_renamed]))
