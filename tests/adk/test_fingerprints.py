"""An event notes which instruction its agent had, and a replay says that it has changed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.agents import SequentialAgent
from google.adk.apps import App

from sessions_app.adk.fingerprints import NOTE, Fingerprints
from sessions_app.adk.replay import SAME, Outcome, Replay
from tests.adk.replayed import agent, record

pytestmark = pytest.mark.filterwarnings("ignore")


def shop(**given: Any) -> App:
    """Two agents, one after the other, of which the first has an instruction."""
    both = [agent("clerk", "Hi!", **given), agent("cashier", "Bye!", instruction="Be brief.")]
    return App(name="shop", root_agent=SequentialAgent(name="shop", sub_agents=both), plugins=[Fingerprints()])


def recorded(app: App, state: dict[str, Any] | None = None) -> dict[str, Any]:
    return asyncio.run(record(app, "Hello", state=state))


def notes(recording: dict[str, Any]) -> list[Any]:
    return [(event.get("customMetadata") or {}).get(NOTE) for event in recording["events"] if event["author"] != "user"]


def replayed(recording: dict[str, Any], app: App) -> Outcome:
    return asyncio.run(Replay(recording).run(app))


@pytest.mark.guarantee("Agents", "A replay says which agents' instructions differ from those that their events note.")
def test_a_replay_names_the_agent_whose_instruction_has_changed() -> None:
    recording = recorded(shop(instruction="Sell tea."))
    assert replayed(recording, shop(instruction="Sell tea.")) == Outcome(SAME)
    said = ("the instruction of clerk, which differs from the recorded one",)
    assert replayed(recording, shop(instruction="Sell milk.")) == Outcome(SAME, unseen=said)
    assert replayed(recording, shop(instruction=lambda _context: "Sell tea.")) == Outcome(SAME, unseen=said)
    assert replayed(recording, shop(instruction="Sell tea.", static_instruction="Be kind.")).unseen == said


def test_without_a_note_nothing_is_said() -> None:
    app = shop(instruction="Sell tea.")
    app.plugins.clear()
    recording = recorded(app)
    assert notes(recording) == [None, None]
    assert replayed(recording, shop(instruction="Sell milk.")) == Outcome(SAME)


@pytest.mark.guarantee(
    "Safety", "What an event notes about an instruction doesn't depend on the values that are in it."
)
def test_the_note_does_not_depend_on_state() -> None:
    ana, ben = (recorded(shop(instruction="Help {user:pin}."), {"user:pin": pin}) for pin in ("1234", "9876"))
    assert notes(ana) == notes(ben)
    assert len(notes(ana)[0]) == 16
    own = recorded(shop(instruction=lambda context: f"Help {context.state['user:pin']}."), {"user:pin": "1234"})
    assert notes(own) == [None, notes(ana)[1]]  # code may put values into it
