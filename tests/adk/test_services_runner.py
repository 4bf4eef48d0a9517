"""A real Runner on both of our services: the same conversation ends as in memory, and goes on through edits from outside."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.tools import ToolContext
from google.genai import types

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.adk.base import StoredSessionService
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit as edits
from sessions_app.edits.edit import Entry
from sessions_app.history import edit_log
from sessions_app.reads import timeline, views
from tests.adk.services import Adk, key_of
from tests.adk.sides import APP, USER, told

AGENTS = Path(__file__).resolve().parents[2] / "examples" / "agents"
Ours = Callable[..., StoredSessionService]

NAME = {"app_name": APP, "user_id": USER, "session_id": "s1"}

# ADK and the demo agents warn that what they show is experimental.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture
def booking(monkeypatch: pytest.MonkeyPatch) -> App:
    """The demo's booking agents."""
    monkeypatch.syspath_prepend(str(AGENTS))
    app = importlib.import_module("booking").agent.app
    assert isinstance(app, App)
    return app


async def stored(service: BaseSessionService) -> Session:
    """The session as anybody loads it."""
    found = await service.get_session(**NAME)
    assert found is not None
    return found


# --- The same conversation --------------------------------------------------------------------------------------------

SAID = [
    "Find me a flight from Lisbon to Seoul on 2026-12-01",
    "Book the cheapest one",
    "Pay with the amber card",
    "Pay with the blue card",
    "Show me my boarding pass",
    "Call this trip Winter in Seoul",
    "Watch the fare until it is under 400 EUR",
    "What is that in won?",
    "Cancel the booking",
    "Find a flight from Oslo to Lisbon on 2026-12-11",
]


class Conversation:
    """The demo's agents on a service, with artifacts."""

    def __init__(self, service: BaseSessionService, app: App) -> None:
        self.service, self.artifacts = service, InMemoryArtifactService()
        self.runner = Runner(app=app, session_service=service, artifact_service=self.artifacts)

    async def say(self, text: str, state: dict[str, Any] | None = None) -> list[Event]:
        """One turn."""
        content = types.Content(role="user", parts=[types.Part(text=text)])
        return [
            event
            async for event in self.runner.run_async(
                user_id=USER, session_id="s1", new_message=content, state_delta=state
            )
        ]

    async def rewind(self, turn: int) -> None:
        """Takes back everything from the user's n-th message on."""
        said = [event for event in (await stored(self.service)).events if event.author == "user" and event.content]
        await self.runner.rewind_async(
            user_id=USER, session_id="s1", rewind_before_invocation_id=said[turn - 1].invocation_id
        )


async def whole(service: BaseSessionService, app: App) -> list[Any]:
    """A long conversation: tools, two agents, a loop, errors, artifacts, compaction, two rewinds; and what is left of it."""
    chat = Conversation(service, app)
    await service.create_session(**NAME, state={"user:name": "Ana", "app:season": "winter", "temp:gone": 1, "own": [1]})
    left: list[Any] = []
    for number, text in enumerate(SAID):
        answered = await chat.say(text, {"user:turn": number, "temp:turn": number} if number % 3 == 0 else None)
        left.append([answered, (await stored(service)).state])
    await chat.rewind(5)
    left.append(await stored(service))
    left.append(await chat.say(SAID[4]))
    await chat.rewind(2)
    left.append(await chat.say(SAID[1]))
    left.append(await stored(service))
    left.append(await service.get_user_state(app_name=APP, user_id=USER))
    left.append(await chat.artifacts.list_artifact_keys(**NAME))
    await chat.runner.close()
    return left


def test_a_long_conversation_ends_as_on_the_service_in_memory(source: str, ours: Ours, booking: App) -> None:
    async def run() -> None:
        async with ours(source) as service:
            mine = await whole(service, booking)
        memory = await whole(InMemorySessionService(), booking)
        for one, other in zip(told(mine), told(memory), strict=True):
            assert one == other
        last: Session = mine[-3]
        assert any(event.actions.compaction for event in last.events)
        assert any(event.actions.rewind_before_invocation_id for event in last.events)
        assert {"last_answer", "user:visits", "app:total_searches", "booking"} <= last.state.keys()
        assert not [key for key in last.state if key.startswith("temp:")]

    asyncio.run(run())


def test_adks_own_service_goes_on_with_the_conversation(
    ours: Ours, create: Callable[[], str], adk: Adk, booking: App
) -> None:
    source = create()

    async def begin() -> None:
        async with ours(source) as service:
            await service.create_session(**NAME)
            await Conversation(service, booking).say(SAID[0])

    async def end() -> None:
        async with ours(source) as service:
            answered = await Conversation(service, booking).say("Pay with the blue card")
            assert "blue" in str(told(answered))

    asyncio.run(begin())
    adk.run(Conversation(adk.service, booking).say(SAID[1]))
    asyncio.run(end())
    state = views.session(key_of(source), actor=SYSTEM).state
    assert state.get("booking")["status"] == "confirmed"
    assert state.get("payment")["card"] == "blue"


# --- Edits while it runs ----------------------------------------------------------------------------------------------


@pytest.fixture
def looker(monkeypatch: pytest.MonkeyPatch) -> App:
    """An agent that looks at the state three times, one look in each step."""
    monkeypatch.syspath_prepend(str(AGENTS))
    scripted: Any = importlib.import_module("booking.scripted_model")

    def look(tool_context: ToolContext) -> dict[str, Any]:
        """What the tool sees."""
        looks = tool_context.state["looks"] = tool_context.state.get("looks", 0) + 1
        return {"looks": looks, "limit": tool_context.state.get("limit")}

    script = scripted.Script(lambda turn: scripted.call("look"))

    @script.answered("look")
    def again(turn: Any, answer: dict[str, Any]) -> Any:
        if answer["looks"] < 3:
            return scripted.call("look")
        return scripted.say(f"The limit is {answer['limit']}; the instruction says: {turn.instruction}")

    agent = LlmAgent(
        name="looker",
        model=scripted.ScriptedModel(script=script),
        instruction="limit {limit?}",
        tools=[look],
        output_key="last",
    )
    return App(name=APP, root_agent=agent)


async def run_with_edits(service: BaseSessionService, app: App, edit: Callable[[int], Awaitable[None]]) -> list[Event]:
    """One invocation, with an edit after each of its events."""
    runner = Runner(app=app, session_service=service, artifact_service=InMemoryArtifactService())
    events: list[Event] = []
    content = types.Content(role="user", parts=[types.Part(text=SAID[0])])
    async for event in runner.run_async(user_id=USER, session_id="s1", new_message=content):
        events.append(event)
        await edit(len(events))
    return events


def editor(source: str, only: int | None = None) -> Callable[[int], Awaitable[None]]:
    """Sets the key `limit` from outside, as the dashboard does, after each event or after one."""

    def edit(number: int) -> None:
        entry = Entry("limit", number * 100, views.session(key_of(source), actor=SYSTEM).state.get("limit"))
        edits.edit_state(key_of(source), [entry], actor=Actor.holding("maria", "admin"))

    async def edit_if(number: int) -> None:
        if only in (None, number):
            await asyncio.to_thread(edit, number)

    return edit_if


def test_an_edit_reaches_the_running_agent_in_its_next_step(source: str, ours: Ours, looker: App) -> None:
    received: list[tuple[int, int]] = []

    async def run() -> None:
        service = ours(
            source,
            on_stale="rebase",
            on_rebase=lambda session, missed: received.append((len(session.events), len(missed))),
        )
        async with service:
            await service.create_session(**NAME)
            events = await run_with_edits(service, looker, editor(source, only=1))
            looks = [part.response for event in events for part in event.get_function_responses()]
            # The first look was being worked on; what the agent appends then brings the edit.
            assert [look and look["limit"] for look in looks] == [None, 100, 100]
            last = (await stored(service)).state["last"]
            assert last.startswith("The limit is 100; the instruction says: limit 100")
            assert len(received) == 1

    asyncio.run(run())
    (edit,) = edit_log.edits(actor=SYSTEM)[0].rows
    assert edit.description.edit["actor"] == "maria"


@pytest.mark.guarantee("Agents", 'With `on_stale="rebase"`, edits by other people never interrupt a run.')
def test_edits_after_every_event_end_no_run(source: str, ours: Ours, booking: App) -> None:
    async def run() -> None:
        async with ours(source, on_stale="rebase") as service:
            await service.create_session(**NAME)
            events = await run_with_edits(service, booking, editor(source))
            assert len(events) > 3
            final = await stored(service)
            assert final.state["limit"] == len(events) * 100
            assert "TP431" in final.state["last_answer"]
            assert [event.id for event in final.events if event.author not in ("user", "system")] == [
                e.id for e in events
            ]
            assert len([event for event in final.events if event.author == "system"]) == len(events)
            assert "TP431 is held" in str(told(await Conversation(service, booking).say(SAID[1])))

    asyncio.run(run())


def test_with_raise_an_edit_ends_the_run_as_with_adks_own(source: str, ours: Ours, booking: App) -> None:
    async def run() -> None:
        async with ours(source) as service:
            await service.create_session(**NAME)
            with pytest.raises(StaleSessionError, match="has been modified in storage since it was loaded"):
                await run_with_edits(service, booking, editor(source, only=1))
            assert (await stored(service)).state["limit"] == 100
            assert "TP431" in str(told(await Conversation(service, booking).say(SAID[0])))

    asyncio.run(run())


def test_two_invocations_of_one_session_at_once_both_end(source: str, ours: Ours, booking: App) -> None:
    async def run() -> None:
        async with ours(source, on_stale="rebase") as service:
            await service.create_session(**NAME)
            chat = Conversation(service, booking)
            both = await asyncio.gather(chat.say(SAID[0]), chat.say(SAID[9]))
            final = await stored(service)
            assert {event.id for answered in both for event in answered} <= {event.id for event in final.events}
            assert len({event.id for event in final.events}) == len(final.events)

    asyncio.run(run())


def test_no_key_of_the_state_is_lost_between_the_two(source: str, ours: Ours, booking: App) -> None:
    """Edits set keys of their own while the agent sets its keys."""
    count = 0

    async def edit(number: int) -> None:
        nonlocal count
        count = number
        entry = Entry(f"note{number}", number, ABSENT)
        await asyncio.to_thread(edits.edit_state, key_of(source), [entry], actor=Actor.holding("maria", "admin"))

    async def run() -> None:
        async with ours(source, on_stale="rebase") as service:
            await service.create_session(**NAME)
            await run_with_edits(service, booking, edit)
            state = (await stored(service)).state
            assert {f"note{n}": n for n in range(1, count + 1)}.items() <= state.items()
            assert {"best_flight", "searches", "last_answer"} <= state.keys()

    asyncio.run(run())


def test_an_edit_does_not_end_a_run_that_goes_on_after_it(source: str, ours: Ours, looker: App) -> None:
    """What is told of the run: after each event, and after the edit that follows the second one."""
    seen: list[bool] = []
    edit = editor(source, only=2)

    def look() -> None:
        seen.append(timeline.in_flight(key_of(source), actor=SYSTEM) is not None)

    async def look_and_edit(number: int) -> None:
        await asyncio.to_thread(look)
        await edit(number)
        if number == 2:
            await asyncio.to_thread(look)

    async def run() -> None:
        async with ours(source, on_stale="rebase") as service:
            await service.create_session(**NAME)
            await run_with_edits(service, looker, look_and_edit)

    asyncio.run(run())
    assert seen == [True, True, False, True, True, True, True, False]
