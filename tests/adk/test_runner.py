"""A real Runner with the scripted demo agent on a database that adkweb has adopted, edited between its turns."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types
from pytest_django import DjangoDbBlocker, Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit as edits
from sessions_app.edits import queue
from sessions_app.edits.edit import Entry
from sessions_app.reads import timeline, views
from tests.adk.services import APP, USER, Adk, key_of
from tests.support.own import migrated, own_database
from tests.support.people import an_admin

AGENTS = Path(__file__).resolve().parents[2] / "examples" / "agents"

# ADK and the demo agents warn that what they show is experimental.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture
def booking(monkeypatch: pytest.MonkeyPatch) -> App:
    """The demo's booking agents."""
    monkeypatch.syspath_prepend(str(AGENTS))
    app = importlib.import_module("booking").agent.app
    assert isinstance(app, App)
    return app


@pytest.fixture
def maria(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[User]:
    """Somebody who queues edits, in a database of adkweb's own that threads share."""
    with django_db_blocker.unblock(), own_database(f"sqlite:///{migrated(tmp_path / 'adkweb-own.db')}"):
        yield an_admin("maria")


@pytest.fixture
def chat(adk: Adk, booking: App) -> Callable[[str], list[Event]]:
    """Says something to the agent and waits for all of its events."""
    runner = Runner(app=booking, session_service=adk.service, artifact_service=InMemoryArtifactService())

    async def turn(text: str) -> list[Event]:
        said = types.Content(role="user", parts=[types.Part(text=text)])
        return [event async for event in runner.run_async(user_id=USER, session_id="s1", new_message=said)]

    return lambda text: adk.run(turn(text))


def test_the_agent_sees_an_edit_between_its_turns_and_goes_on(
    adopt: Callable[[], str], adk: Adk, chat: Callable[[str], list[Event]], actor: Actor
) -> None:
    adk.create(state={"user:name": "Ana"})
    ref = key_of(adopt())
    assert "TP431 at 412.50" in _answer(chat("Find me a flight from Lisbon to Seoul on 2026-12-01"))
    # A person picks another flight, a seat for all of this user's trips, and takes out what is not needed.
    state = views.session(ref, actor=SYSTEM).state
    assert state.get("best_flight") == "TP431"
    entries = [
        Entry("best_flight", "KE924", "TP431"),
        Entry("user:seat", "window", ABSENT),
        Entry("searches", ABSENT, state.get("searches")),
    ]
    edits.edit_state(ref, entries, actor=actor, reason="the customer prefers Korean Air")
    events = chat("Book the cheapest one")
    called = next(call for event in events for call in event.get_function_calls())
    assert (called.name, called.args) == ("book", {"flight": "KE924", "seat": "window"})
    assert "KE924 is held" in _answer(events)
    view = views.session(ref, actor=SYSTEM).state
    assert view.get("booking")["flight"] == "KE924"
    assert view.get("searches") is ABSENT
    # The tool now counts its searches from the beginning again, and `app:` state from other sessions goes on.
    chat("Find me a flight from Porto to Seoul on 2026-12-02")
    assert views.session(ref, actor=SYSTEM).state.get("searches") == 1
    assert views.session(ref, actor=SYSTEM).state.get("app:total_searches") == 2


def test_everything_that_a_run_writes_is_shown_in_its_order(
    adopt: Callable[[], str], adk: Adk, chat: Callable[[str], list[Event]]
) -> None:
    adk.create()
    ref = key_of(adopt())
    chat("Find a flight from Oslo to Lisbon on 2026-12-11")
    chat("Book the cheapest one")
    chat("Pay with the blue card")
    stored = adk.get()
    shown = timeline.events(ref, actor=SYSTEM).rows
    assert [view.id for view in shown] == [event.id for event in stored.events]
    assert [view.data for view in shown] == [
        event.model_dump(mode="json", exclude_none=True) for event in stored.events
    ]
    assert views.session(ref, actor=SYSTEM).state.merged() == stored.state


@pytest.mark.guarantee("Agents", "An edit to `app:` or `user:` state doesn't interrupt a running invocation.")
def test_an_edit_of_app_or_user_state_does_not_stop_a_running_invocation(
    adopt: Callable[[], str], adk: Adk, booking: App, actor: Actor
) -> None:
    adk.create()
    source = adopt()

    def edit(number: int) -> None:
        edits.edit_app_state(source, APP, [Entry("app:notice", number, number - 1 or ABSENT)], actor=actor)
        edits.edit_user_state(source, APP, USER, [Entry(f"user:n{number}", number, ABSENT)], actor=actor)

    seen = adk.run(_run_with_edits(adk, booking, edit))
    assert seen > 3
    assert adk.get().state["app:notice"] == seen
    assert {f"user:n{n}": n for n in range(1, seen + 1)}.items() <= adk.get().state.items()


def test_an_edit_of_the_session_itself_stops_a_running_invocation_and_the_next_turn_goes_on(
    adopt: Callable[[], str], adk: Adk, booking: App, chat: Callable[[str], list[Event]], actor: Actor
) -> None:
    adk.create()
    ref = key_of(adopt())

    def edit(number: int) -> None:
        if number == 1:
            edits.edit_state(ref, [Entry("note", "from outside", ABSENT)], actor=actor)

    with pytest.raises(StaleSessionError):
        adk.run(_run_with_edits(adk, booking, edit))
    assert (
        timeline.in_flight(ref, actor=SYSTEM) is None
    )  # told by the edit, at once: what ended the run stored no event
    # What the contract says of ADK's own service; nothing of either side is lost or half there.
    assert views.session(ref, actor=SYSTEM).state.get("note") == "from outside"
    assert "TP431" in _answer(chat("Find me a flight from Lisbon to Seoul on 2026-12-01"))


@pytest.mark.guarantee("Agents", "A queued edit doesn't interrupt a run; it is applied once the run is over.")
def test_an_edit_that_is_queued_after_any_event_of_a_run_leaves_the_run_whole_and_is_there_after_it(
    adopt: Callable[[], str], adk: Adk, booking: App, settings: Settings, maria: User
) -> None:
    settings.SETTLE_SECONDS = 0.0
    adk.create()
    ref = key_of(adopt())
    finished: list[int] = []

    def edit(number: int) -> None:
        queue.queue_edit(ref, [Entry(f"note{number}", number, ABSENT)], person=maria)
        finished.append(queue.apply_due())

    seen = adk.run(_run_with_edits(adk, booking, edit))
    assert finished == [0] * (seen - 1) + [seen]  # with the final response the invocation has ended
    assert {f"note{n}": n for n in range(1, seen + 1)}.items() <= adk.get().state.items()
    assert [outcome.state for outcome in queue.outcomes(maria)] == ["applied"] * seen


async def _run_with_edits(adk: Adk, booking: App, edit: Callable[[int], None]) -> int:
    """Runs one invocation, with an edit from another thread after each of its events."""
    runner = Runner(app=booking, session_service=adk.service, artifact_service=InMemoryArtifactService())
    said = types.Content(role="user", parts=[types.Part(text="Find me a flight from Lisbon to Seoul on 2026-12-01")])
    seen = 0
    async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=said):
        seen += 1
        await asyncio.to_thread(edit, seen)
    return seen


def _answer(events: list[Event]) -> str:
    final = [event for event in events if event.is_final_response() and event.content]
    parts = final[-1].content.parts if final[-1].content else None
    return " ".join(part.text or "" for part in parts or [] if not part.thought)
