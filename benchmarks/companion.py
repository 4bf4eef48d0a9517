"""Measures what a companion and a replay add to a run: invocations with ten events, whose model and tools take no time.

One process has no companion, one reports to an adkweb, in one that adkweb is away, and one replays what it has recorded.
They take turns. The process that reports also shares the machine's processors with that adkweb.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any

from django.core.management import call_command
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from benchmarks import harness as bench
from benchmarks.harness import APP, USER, sized
from sessions_app.access import tokens
from sessions_app.adk import Companion
from sessions_app.adk.replay import Replay
from tests.support.people import as_admin

ROUNDS, INVOCATIONS, CALLS = sized(12, 2), sized(40, 3), 4


class Model(BaseLlm):
    """Calls a tool CALLS times, and then says that it is done."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Goes by the number of responses since the user's last text."""
        called = 0
        for part in (part for content in llm_request.contents for part in content.parts or []):
            called = 0 if part.text else called + bool(part.function_response)
        part = types.Part(text="Done.")
        if called < CALLS:
            part = types.Part(function_call=types.FunctionCall(name="look", args={}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def look() -> str:
    """Looks."""
    return "nothing"


def invoke(companion: bool, environment: dict[str, str]) -> tuple[list[float], float]:
    """In a worker, runs an agent again and again. Returns the milliseconds of each invocation, and those that the processor
    worked for one: all threads of the process, on a machine that does other things, too."""
    os.environ |= environment
    agent = LlmAgent(name=APP, model=Model(), tools=[look])
    runner = InMemoryRunner(app=App(name=APP, root_agent=agent, plugins=[Companion()] if companion else []))
    taken: list[float] = []

    async def run_all() -> None:
        for number in range(INVOCATIONS):
            taken.append(await _run(runner, f"s{number}"))

    began = time.process_time()
    asyncio.run(run_all())
    return taken, (time.process_time() - began) * 1000 / INVOCATIONS


def replay() -> tuple[list[float], float]:
    """In a worker, replays an invocation again and again. Returns what `invoke` does."""
    agent = LlmAgent(name=APP, model=Model(), tools=[look])
    runner = InMemoryRunner(app=App(name=APP, root_agent=agent))
    taken: list[float] = []

    async def recorded() -> dict[str, Any]:
        await _run(runner, "s0")
        session = await runner.session_service.get_session(app_name=APP, user_id=USER, session_id="s0")
        return session.model_dump(mode="json", by_alias=True) if session else {}

    async def replay_all(recording: dict[str, Any]) -> None:
        for _number in range(INVOCATIONS):
            began = time.perf_counter()
            outcome = await Replay(recording).run(agent)
            taken.append((time.perf_counter() - began) * 1000)
            assert outcome.result == "same", outcome

    recording = asyncio.run(recorded())
    began = time.process_time()
    asyncio.run(replay_all(recording))
    return taken, (time.process_time() - began) * 1000 / INVOCATIONS


async def _run(runner: InMemoryRunner, name: str) -> float:
    """Runs the agent in a new session. Returns the milliseconds that the invocation took."""
    await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=name)
    said = types.Content(role="user", parts=[types.Part(text="Look")])
    began = time.perf_counter()
    events = [each async for each in runner.run_async(user_id=USER, session_id=name, new_message=said)]
    assert len(events) == 2 * CALLS + 1, len(events)  # and the user's
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    with bench.benchmark("What a companion and a replay add to a run") as (folder, _server):
        call_command("migrate", verbosity=0)
        secret = tokens.create("companion", "companion", "*", by=as_admin("maria"))[1]
        place = bench.make(str(folder / "sessions.db"))
        with bench.adkweb(place) as served:
            away = {"ADKWEB_URL": "http://127.0.0.1:9", "ADKWEB_COMPANION_TOKEN": secret}
            cases: dict[str, tuple[Any, ...]] = {
                "alone": (invoke, False, {}),
                "a companion, adkweb is away": (invoke, True, away),
                "a companion that reports": (invoke, True, away | {"ADKWEB_URL": served.address}),
                "replayed": (replay,),
            }
            workers = {what: bench.Worker(folder / what) for what in cases}
            times: dict[str, list[float]] = {what: [] for what in cases}
            worked: dict[str, list[float]] = {what: [] for what in cases}
            for turn in range(ROUNDS + 1):
                for what, case in cases.items():
                    taken, processor = workers[what].call(*case)
                    if turn:
                        times[what] += taken
                        worked[what].append(processor)
            bench.heading("An invocation with ten events", "", *bench.LATE, "processor, ms", "more of it")
            usual = statistics.median(worked["alone"])
            for what, taken in times.items():
                bench.row(what, *bench.late(taken), worked[what], statistics.median(worked[what]) - usual)
            for worker in workers.values():
                worker.__exit__()
