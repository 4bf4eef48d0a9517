"""What is told after every event that google-adk's own Runner stores, with real agents and scripted models."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.workflow import Workflow
from google.genai import types
from pydantic import Field

from sessions_app.domain.description import CONFIRMATION_CALL
from sessions_app.domain.invocations import Running, running

# ADK warns that agents like SequentialAgent are going away and that resumable apps are experimental.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

RUNS, WAITS, IDLE = "runs", "waits", "idle"


class Scripted(BaseLlm):
    """Gives the replies of a list, one after the other; a text is said, `tool()` is called."""

    model: str = "scripted-1"
    replies: list[str] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        reply = self.replies.pop(0)
        if reply.startswith("error "):
            yield LlmResponse(error_code="UNAVAILABLE", error_message=reply)
            return
        calls = re.findall(r"(\w+)\((\w*)\)", reply)
        parts = [
            types.Part(function_call=types.FunctionCall(name=name, args={"agent_name": to} if to else {}))
            for name, to in calls
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text=reply)]))


class Recorder(InMemorySessionService):
    """Keeps what is stored as the database would have it, and asks after each event what is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []
        self.seen: list[Running | None] = []

    async def append_event(self, session: Session, event: Event) -> Event:
        stored = await super().append_event(session, event)
        if not event.partial:
            self.events.append(stored.model_dump(mode="json", exclude_none=True))
            self.seen.append(running(self.events, time.time(), 60))
        return stored


class Chat:
    """A conversation with an agent in a session of its own."""

    def __init__(self, root: BaseAgent | Workflow, resumable: bool = False) -> None:
        self.recorder = Recorder()
        asyncio.run(self.recorder.create_session(app_name="app", user_id="u", session_id="s"))
        self._app = App(
            name="app",
            root_agent=root,
            resumability_config=ResumabilityConfig(is_resumable=True) if resumable else None,
        )

    def say(self, text: str = "go") -> list[str]:
        """What is told after each event of the turn that these words begin."""
        return self._turn(types.Part(text=text))

    def answer(self, tool: str, **response: Any) -> list[str]:
        """What is told after each event of the run that this answer to the tool's last call begins."""
        parts = (part for event in self.recorder.events for part in event.get("content", {}).get("parts", []))
        ids = [call["id"] for part in parts if (call := part.get("function_call")) and call["name"] == tool]
        return self._turn(
            types.Part(function_response=types.FunctionResponse(id=ids[-1], name=tool, response=response))
        )

    def rewind(self, invocation_id: str) -> list[str]:
        """What is told after the rewind."""
        runner = self._runner()
        return self._told(runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=invocation_id))

    @property
    def now(self) -> Running | None:
        return self.recorder.seen[-1]

    def _runner(self) -> Runner:
        return Runner(app=self._app, session_service=self.recorder)

    def _turn(self, part: types.Part) -> list[str]:
        async def run() -> None:
            said = types.Content(role="user", parts=[part])
            async for _ in self._runner().run_async(user_id="u", session_id="s", new_message=said):
                pass

        return self._told(run())

    def _told(self, work: Any) -> list[str]:
        before = len(self.recorder.seen)
        with contextlib.suppress(ConnectionError):
            asyncio.run(work)
        return [IDLE if s is None else WAITS if s.waiting else RUNS for s in self.recorder.seen[before:]]


def tool(tool_context: ToolContext) -> dict[str, Any]:
    """Works and writes to the state."""
    tool_context.state["worked"] = True
    return {"ok": 1}


def fails() -> dict[str, Any]:
    """Raises."""
    raise ConnectionError("down")


def pending() -> dict[str, Any]:
    """Begins something that takes days."""
    return {"status": "pending"}


def nothing() -> None:
    """Begins something that takes days and says nothing of it."""


def escalates(tool_context: ToolContext) -> dict[str, Any]:
    """Ends the agent around this one."""
    tool_context.actions.escalate = True
    return {"ok": 1}


async def slow() -> dict[str, Any]:
    """Works longer than the others."""
    await asyncio.sleep(0.2)
    return {"ok": 1}


def count(callback_context: CallbackContext) -> None:
    """Writes to the state and to nothing else."""
    callback_context.state["count"] = callback_context.state.get("count", 0) + 1


def agent(name: str, *replies: str, **fields: Any) -> LlmAgent:
    """An agent whose model gives these replies."""
    tools = [
        tool,
        fails,
        escalates,
        slow,
        LongRunningFunctionTool(pending),
        LongRunningFunctionTool(nothing),
    ]
    return LlmAgent(name=name, model=Scripted(replies=list(replies)), **{"tools": tools, **fields})


def works(name: str) -> LlmAgent:
    """An agent that calls its tool once and speaks."""
    return agent(name, "tool()", "done")


BOTH = pytest.mark.parametrize("resumable", [False, True], ids=["plain", "resumable"])


@BOTH
def test_a_turn_with_a_tool_runs_until_its_last_word(resumable: bool) -> None:
    chat = Chat(works("a"), resumable)
    told = chat.say()
    assert told[:4] == [RUNS, RUNS, RUNS, IDLE]
    assert set(told[4:]) <= {IDLE}  # a resumable app stores the agent's end besides


def test_a_run_tells_its_invocation_and_since_when() -> None:
    chat = Chat(works("a"))
    chat.say()
    first, second, third = chat.recorder.seen[:3]
    events = chat.recorder.events
    run, start = events[0]["invocation_id"], events[0]["timestamp"]
    assert first == Running(run, start, start, False)
    assert second == Running(run, start, events[1]["timestamp"], False, calls=("tool",))
    assert third == Running(run, start, events[2]["timestamp"], False)


@BOTH
def test_callbacks_that_write_state_only_neither_end_a_turn_nor_begin_it_again(resumable: bool) -> None:
    chat = Chat(agent("a", "tool()", "done", before_agent_callback=count, after_agent_callback=count), resumable)
    told = chat.say()
    assert told[:5] == [RUNS, RUNS, RUNS, RUNS, IDLE]
    assert set(told[5:]) == {IDLE}


def test_a_transfer_goes_on_with_the_other_agent() -> None:
    assert Chat(agent("a", "transfer_to_agent(b)", sub_agents=[works("b")])).say() == [RUNS] * 5 + [IDLE]


# --- Agents of agents -------------------------------------------------------------------------------------------------


def test_between_the_agents_of_a_sequence_nothing_tells_that_another_one_follows() -> None:
    chat = Chat(SequentialAgent(name="seq", sub_agents=[works("a"), works("b")]))
    # The fourth: the first agent has had its last word, the second has not begun. Who shows this, waits a little.
    assert chat.say() == [RUNS, RUNS, RUNS, IDLE, RUNS, RUNS, IDLE]


def _sequence() -> BaseAgent:
    return SequentialAgent(name="seq", sub_agents=[works("a"), works("b")])


def _loop() -> BaseAgent:
    return LoopAgent(name="loop", sub_agents=[agent("a", "one", "two"), agent("b", "one", "two")], max_iterations=2)


def _parallel() -> BaseAgent:
    return ParallelAgent(name="par", sub_agents=[works("a"), works("b")])


def _workflow() -> Workflow:
    first, second = works("a"), works("b")
    return Workflow(name="flow", edges=[("START", first), (first, second)])


@pytest.mark.parametrize("build", [_sequence, _loop, _parallel, _workflow])
def test_in_a_resumable_app_checkpoints_tell_of_every_end_but_the_last_that_it_is_none(
    build: Callable[[], BaseAgent | Workflow],
) -> None:
    told = Chat(build(), resumable=True).say()
    assert (set(told[:-1]), told[-1]) == ({RUNS}, IDLE)


def test_parallel_agents_run_until_the_last_of_them_has_spoken() -> None:
    told = Chat(_parallel()).say()
    assert (len(told), set(told[:-1]), told[-1]) == (7, {RUNS}, IDLE)


@BOTH
def test_parallel_agents_end_when_one_of_them_escalates(resumable: bool) -> None:
    agents = [agent("a", "escalates()", "done"), agent("b", "slow()", "done")]
    told = Chat(ParallelAgent(name="par", sub_agents=agents), resumable).say()
    assert (set(told[:-1]), told[-1]) == ({RUNS}, IDLE)


@BOTH
@pytest.mark.parametrize("mode", ["task", "single_turn"])
def test_an_agent_that_another_calls_runs_within_it(resumable: bool, mode: str) -> None:
    inner = agent("b", "tool()", "finish_task()" if mode == "task" else "done", "done", mode=mode, description="b")
    chat = Chat(agent("a", "b()", "done", sub_agents=[inner]), resumable)
    told = chat.say()
    assert told[-1] == IDLE
    spoken = [place for place, event in enumerate(chat.recorder.events) if event.get("content")]
    ends = [place for place in spoken if told[place] == IDLE]
    # Its own last word can look like the end: the answer to its caller is stored right after it.
    assert len(ends) <= 2
    assert ends[-1] == spoken[-1]


# --- Errors -----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_tool_that_raises_ends_the_turn(resumable: bool) -> None:
    assert Chat(agent("a", "fails()"), resumable).say() == [RUNS, RUNS, IDLE]


@BOTH
def test_a_model_that_fails_ends_the_turn(resumable: bool) -> None:
    assert Chat(agent("a", "tool()", "error 503"), resumable).say()[3] == IDLE


@BOTH
def test_what_raises_below_a_sequence_leaves_nothing_but_silence(resumable: bool) -> None:
    chat = Chat(SequentialAgent(name="seq", sub_agents=[agent("a", "fails()")]), resumable)
    assert set(chat.say()) == {RUNS}
    assert running(chat.recorder.events, time.time() + 61, 60) is None


@BOTH
def test_a_long_running_tool_that_raises_does_not_wait(resumable: bool) -> None:
    broken = agent("a", "fails()", tools=[LongRunningFunctionTool(fails)])
    assert Chat(broken, resumable).say() == [RUNS, WAITS, IDLE]


# --- Waiting ----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_long_running_tool_waits_for_its_answer_which_resumes_the_run(resumable: bool) -> None:
    chat = Chat(agent("a", "pending()", "asked", "thanks"), resumable)
    # The second: the call is stored before its tool has begun; the third: the model sums up the pending answer.
    assert chat.say() == [RUNS, WAITS, RUNS, WAITS]
    assert chat.now is not None
    assert chat.now.waits_for == ("pending",)
    told = chat.answer("pending", ok=True)
    assert told[:2] == [RUNS, IDLE]
    assert set(told[2:]) <= {IDLE}
    answered = chat.recorder.seen[4]
    assert answered is not None
    assert answered.invocation_id == chat.recorder.events[0]["invocation_id"]
    assert answered.since == chat.recorder.events[4]["timestamp"]


@BOTH
def test_a_long_running_tool_without_a_first_answer_waits(resumable: bool) -> None:
    chat = Chat(agent("a", "nothing()", "thanks"), resumable)
    assert chat.say() == [RUNS, WAITS]
    assert chat.answer("nothing", ok=True)[:2] == [RUNS, IDLE]


@BOTH
def test_an_ordinary_tool_beside_a_long_running_one_keeps_the_agent_at_work(resumable: bool) -> None:
    chat = Chat(agent("a", "pending() tool()", "asked", "thanks"), resumable)
    assert chat.say() == [RUNS, RUNS, RUNS, WAITS]


@BOTH
def test_what_was_passed_over_is_no_longer_waited_for_and_can_still_be_answered(resumable: bool) -> None:
    chat = Chat(agent("a", "pending()", "asked", "hello", "thanks"), resumable)
    chat.say()
    told = chat.say("something else")
    assert (told[0], set(told[1:])) == (RUNS, {IDLE})
    assert chat.answer("pending", ok=True)[:2] == [RUNS, IDLE]


@BOTH
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_confirmation_waits_for_its_answer_either_way(resumable: bool, confirmed: bool) -> None:
    careful = agent("a", "tool()", "done", tools=[FunctionTool(tool, require_confirmation=True)])
    chat = Chat(careful, resumable)
    assert chat.say() == [RUNS, RUNS, WAITS, WAITS]
    assert chat.now is not None
    assert chat.now.waits_for == ("tool",)
    assert chat.now.last == chat.recorder.events[2]["timestamp"]  # the request, stored before the response but later
    told = chat.answer(CONFIRMATION_CALL, confirmed=confirmed)
    assert told[:3] == [RUNS, RUNS, IDLE]
    assert set(told[3:]) <= {IDLE}


def test_a_part_of_a_sequence_that_waits_pauses_the_sequence() -> None:
    waiting = agent("a", "pending()", "asked", "thanks")
    chat = Chat(SequentialAgent(name="seq", sub_agents=[waiting, works("b")]), resumable=True)
    assert chat.say()[-1] == WAITS
    told = chat.answer("pending", ok=True)
    assert (set(told[:-1]), told[-1]) == ({RUNS}, IDLE)


@BOTH
def test_a_part_of_parallel_agents_waits_when_the_others_have_ended(resumable: bool) -> None:
    waiting = agent("a", "pending()", "asked", "thanks")
    chat = Chat(ParallelAgent(name="par", sub_agents=[waiting, works("b")]), resumable)
    assert chat.say()[-1] == WAITS
    assert chat.answer("pending", ok=True)[-1] == IDLE


@BOTH
def test_a_rewind_ends_the_waiting_of_what_it_takes_back(resumable: bool) -> None:
    chat = Chat(agent("a", "pending()", "asked"), resumable)
    chat.say()
    assert chat.rewind(chat.recorder.events[0]["invocation_id"]) == [IDLE]
