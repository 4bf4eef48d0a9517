"""Durations are true with google-adk's own Runner and its own services, whether a model streams or not.

The model and the tool sleep, and measure themselves how long. So these tests hold however busy the machine is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.genai import types

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.trace import Trace, trace
from sessions_app.reads import timeline
from sessions_app.search import health, outline
from sessions_app.search.health import Range
from sessions_app.search.index.feed import Feeder
from sessions_app.sources import database, online
from tests.adk.services import APP, USER, Adk

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
    pytest.mark.django_db,
]
FORMS = pytest.mark.parametrize("form", ["sqlite", "database", "postgresql"])
STREAMING = pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
_FIRST, _LAST, _TOOL = 0.1, 0.15, 0.2  # seconds

measured: dict[str, list[float]] = {"model": [], "tool": []}


class Slow(BaseLlm):
    """Calls the tool, then says the last word. With a stream, in chunks."""

    model: str = "slow-1"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[0]
        part = types.Part(text="done")
        if not last.function_response:
            part = types.Part(function_call=types.FunctionCall(name="look", args={}))
        began, seconds = time.time(), _LAST if last.function_response else _FIRST
        for _chunk in range(3 if stream else 0):
            await asyncio.sleep(seconds / 3)
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="…")]), partial=True)
        if not stream:
            await asyncio.sleep(seconds)
        measured["model"].append(time.time() - began)
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, partial=False) if stream else LlmResponse(content=content)


async def look() -> dict[str, Any]:
    """Looks something up."""
    began = time.time()
    await asyncio.sleep(_TOOL)
    measured["tool"].append(time.time() - began)
    return {"ok": 1}


def agent(name: str = "clerk") -> LlmAgent:
    return LlmAgent(name=name, model=Slow(), tools=[look])


def run(adk: Adk, root: Any, *, streaming: bool) -> None:
    """A turn of an agent in the session s1."""
    for kind in measured.values():
        kind.clear()

    async def turn() -> None:
        runner = Runner(app=App(name=APP, root_agent=root), session_service=adk.service)
        config = RunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE)
        message = types.Content(role="user", parts=[types.Part(text="go")])
        async for _event in runner.run_async(user_id=USER, session_id="s1", new_message=message, run_config=config):
            pass

    adk.run(turn())


def traced(source: str) -> Trace:
    turn = timeline.turn_at(SessionRef(source, APP, USER, "s1"), actor=SYSTEM)
    return trace((each.data, each.description) for each in turn.events)


@pytest.mark.guarantee("History", "Durations are correct, whether or not the model streams its responses.")
@FORMS
@STREAMING
def test_the_model_s_time_is_the_model_s_and_the_tool_s_the_tool_s(
    form: str, streaming: bool, adk: Adk, adopt: Callable[[], str]
) -> None:
    adk.create()
    source = adopt()
    began = time.time()
    run(adk, agent(), streaming=streaming)
    took = time.time() - began
    told = traced(source)
    assert sum(measured["model"]) - 0.01 <= told.model.seconds
    assert sum(measured["tool"]) - 0.01 <= told.tools.seconds
    assert told.model.seconds + told.tools.seconds == pytest.approx(told.took)
    assert told.took <= took
    assert (told.model.sign, told.tools.sign) == ("", "")
    calls = [each for each in told.spans if each.kind == "model"]
    for call, seconds in zip(calls, measured["model"], strict=True):
        assert call.took is not None
        assert call.took.seconds >= seconds - 0.01

    while Feeder(source).feed():
        pass
    numbers = outline.totals_of(SessionRef(source, APP, USER, "s1"), 0, actor=SYSTEM)  # type: ignore[arg-type]
    assert numbers is not None
    assert (numbers.took.seconds, numbers.took.sign) == (pytest.approx(told.took), "")
    during = Range(began - 60, began + 3600)
    (tool,) = health.tools(during, actor=SYSTEM).values()
    p95 = tool.percentile(0.95)
    assert p95 is not None
    assert p95.sign == ""
    assert p95.seconds == pytest.approx(told.tools.seconds, rel=0.06)  # percentiles have two digits
    slowest = health.figures(during, actor=SYSTEM).whole.percentile(0.95)
    assert slowest is not None
    assert (slowest.sign, slowest.seconds) == ("", pytest.approx(told.took, rel=0.06))


@FORMS
def test_agents_side_by_side_have_their_own_times(form: str, adk: Adk, adopt: Callable[[], str]) -> None:
    adk.create()
    source = adopt()
    run(adk, ParallelAgent(name="both", sub_agents=[agent("a"), agent("b")]), streaming=False)
    told = traced(source)
    for name in ("a", "b"):
        tools = [each.took for each in told.spans if (each.kind, each.agent) == ("tool", name)]
        models = [each.took for each in told.spans if (each.kind, each.agent) == ("model", name)]
        assert [took.sign for took in (*tools, *models) if took] == ["", "", ""]
        assert min(took.seconds for took in tools if took) >= _TOOL - 0.01
        assert min(took.seconds for took in models if took) >= _FIRST - 0.01


@pytest.mark.guarantee(
    "History", "If a duration can't be determined exactly, adkweb shows a correct upper or lower bound."
)
@pytest.mark.parametrize("form", ["postgresql"])
@STREAMING
def test_of_a_database_that_is_not_adopted_bounds_are_told_that_hold(
    form: str, streaming: bool, adk: Adk, place: str, open_source: Callable[..., str]
) -> None:
    adk.create()
    run(adk, agent(), streaming=streaming)
    told = traced(open_source(place, adopting=False))
    assert (told.model.sign, told.tools.sign) == ("≥", "≤")
    assert told.tools.seconds >= sum(measured["tool"]) - 0.01
    assert told.spans[-1].took is not None
    assert told.spans[-1].took.sign == "≥"


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_released_and_adopted_again_only_newer_turns_are_exact(
    form: str, adk: Adk, place: str, open_source: Callable[..., str]
) -> None:
    adk.create()
    source = open_source(place)
    run(adk, agent(), streaming=False)
    assert traced(source).model.sign == ""
    online.release(source)
    database.forget(source)
    source = open_source(place)
    assert traced(source).model.sign == "≥"
    run(adk, agent(), streaming=False)
    assert traced(source).model.sign == ""
