"""The page of what the model got, where the folder of the agent was opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.agent_view import agent_files
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.sources import registry
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]
CODE = """from google.adk.agents import LlmAgent

root_agent = LlmAgent(
    name="agent",
    instruction="You are at {step}, {gone?}.",
)
"""


@pytest.fixture
def agent(folder: Path, new_store: Callable[..., str]) -> Path:
    """The folder of the agent `booking`, which `adk web` gave a database."""
    path = folder / "booking"
    (path / ".adk").mkdir(parents=True)
    os.replace(new_store("sqlite", "made"), path / ".adk" / "session.db")
    return path


@pytest.fixture
def ref(agent: Path, open_source: Callable[[str], str], actor: Actor) -> SessionRef:
    """A session in that database."""
    source = open_source(str(agent / ".adk" / "session.db"))
    return create_session(source, "booking", "ana", session_id="s1", state={"step": "choose"}, actor=actor)


def opened(browser: Browser, ref: SessionRef, **query: str) -> Element:
    return browser.open("context", **ref._asdict(), query=query)


def written(page: Element) -> str:
    return page.one(class_="writtenin").text


def test_the_instruction_is_the_one_in_the_agents_files_filled_in_for_the_moment(
    agent: Path, ref: SessionRef, maria: Browser, add: Add
) -> None:
    (agent / "agent.py").write_text(CODE)
    said = add(ref, {"text": "hello"}, actions={"state_delta": {"step": "pay"}})
    page = opened(maria, ref, at=said)
    assert page.one("textarea").raw == "\nYou are at {step}, {gone?}."
    assert page.one(class_="filled").raw == "You are at choose, ."
    assert page.one(id="instruction").one("summary").text == (
        "Instruction 20 characters, filled in from the state booking/agent.py:5"
    )
    assert written(page).startswith("booking/agent.py:5 currently has this instruction. It may have changed")
    now = opened(maria, ref)
    assert now.one(class_="filled").raw == "You are at pay, ."
    assert written(now) == "booking/agent.py:5 currently has this instruction."
    assert now.one(id="sizes").all("tr")[0].text == "instruction ≈ 4"
    by_key = opened(maria, ref, key="step")
    assert by_key.one("textarea").raw.strip() == "pay"
    assert by_key.all(class_="writtenin") == []


def test_a_dynamic_instruction_is_said_to_be_so_with_file_and_line(
    agent: Path, ref: SessionRef, maria: Browser, add: Add
) -> None:
    (agent / "agent.py").write_text(CODE.replace("{step}, {gone?}", "{{step}} {now}").replace('"You', 'f"You'))
    add(ref, {"text": "hello"})
    page = opened(maria, ref)
    assert written(page).startswith("booking/agent.py:5 builds the instruction")
    assert page.one("textarea").raw == "\n"


@pytest.mark.parametrize(
    "content", [b"", b"def (  # Agent", b"\xff\xfe Agent", b"Agent(name='other')", b"\0Agent" * 1_000]
)
def test_files_that_tell_nothing_are_said_to(
    agent: Path, ref: SessionRef, maria: Browser, add: Add, content: bytes
) -> None:
    (agent / "agent.py").write_bytes(content)
    add(ref, {"text": "hello"})
    assert written(opened(maria, ref)).startswith("Couldn't read an instruction from agent's files.")


def test_an_instruction_that_becomes_too_long_breaks_no_page(
    agent: Path, ref: SessionRef, maria: Browser, add: Add
) -> None:
    (agent / "agent.py").write_text(f'Agent(name="agent", instruction="{"{big}" * 300}")')
    add(ref, {"text": "hello"}, actions={"state_delta": {"big": "x" * 20_000}})
    assert "is longer than 5000000 characters" in opened(maria, ref).one(id="preview").text


def test_no_link_is_followed_and_what_is_no_file_is_left(
    agent: Path, ref: SessionRef, maria: Browser, add: Add, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "agent.py").write_text(CODE)
    (agent / "agent.py").symlink_to(elsewhere / "agent.py")
    (agent / "more").symlink_to(elsewhere)
    os.mkfifo(agent / "pipe.py")
    (agent / "folder.py").mkdir()
    add(ref, {"text": "hello"})
    assert written(opened(maria, ref)).startswith("Couldn't read an instruction from agent's files.")
    (agent / "folder.py" / "agent.py").write_text(CODE)
    assert written(opened(maria, ref)).startswith("booking/folder.py/agent.py:5")


def test_the_instruction_may_stand_in_yaml_and_a_file_that_is_not_read_is_named_with_the_reason(
    agent: Path, ref: SessionRef, maria: Browser, actor: Actor, add: Add, tmp_path: Path
) -> None:
    add(ref, {"text": "hello"})
    root, below = agent / "root_agent.yaml", agent / "agent.yaml"
    root.write_text("name: root\ninstruction: Lead.\nsub_agents:\n- config_path: agent.yaml\n")
    below.write_text("name: agent\ninstruction: |\n  You are at {step}.\n")
    page = opened(maria, ref)
    assert written(page) == "booking/agent.yaml:2 currently has this instruction."
    assert page.one(class_="filled").raw == "You are at choose.\n"
    assert agent_files.readers(ref, actor=actor) == {"step": ["agent"]}
    (tmp_path / "elsewhere.yaml").write_text(below.read_text())
    below.unlink()
    below.symlink_to(tmp_path / "elsewhere.yaml")
    assert written(opened(maria, ref)).startswith("booking/agent.yaml isn't read because it is a link.")
    below.unlink()
    below.write_text("#" * (agent_files.LARGEST + 1))
    assert written(opened(maria, ref)).startswith("booking/agent.yaml isn't read because it is too large.")
    root.write_text(f"name: root\nsub_agents:\n- config_path: {tmp_path}/elsewhere.yaml\n")
    assert written(opened(maria, ref)).startswith("booking/root_agent.yaml:3 refers to a file outside its folder")
    root.write_text("name: !!python/name:os.system x\n")
    assert written(opened(maria, ref)).startswith("booking/root_agent.yaml isn't read because it has tags.")
    assert agent_files.readers(ref, actor=actor) == {}
    (agent / "agent.py").write_text(CODE)
    assert written(opened(maria, ref)) == "booking/agent.py:5 currently has this instruction."


def test_so_much_is_read_and_no_more(
    agent: Path, ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> str | None:
        told = agent_files.instruction(ref, "agent", actor=actor)
        return told and told.file

    (agent / "a.py").write_text("#" * 2_000)
    (agent / "b.py").write_text(CODE)
    assert read() == "booking/b.py"
    for name, value in (("FILES", 1), ("TOGETHER", 2_050), ("LARGEST", 100), ("ENTRIES", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(agent_files, name, value)
            assert read() is None, name


@pytest.mark.parametrize("app", ["..", ".", "/", "a/b", "\0", "x" * 300, "elsewhere"])
def test_the_name_of_an_app_leads_nowhere_else(agent: Path, ref: SessionRef, actor: Actor, app: str) -> None:
    (agent.parent / "agent.py").write_text(CODE)
    (agent / "elsewhere").symlink_to(agent.parent)
    assert agent_files.instruction(ref._replace(app_name=app), "agent", actor=actor) is None


def test_a_file_that_was_named_alone_opens_no_folder(agent: Path, ref: SessionRef, maria: Browser, add: Add) -> None:
    (agent / "agent.py").write_text(CODE)
    add(ref, {"text": "hello"})
    registry.searched_folders.clear()
    assert opened(maria, ref).all(class_="writtenin") == []


def test_an_edit_is_told_to_be_in_the_instruction_that_has_its_key(
    agent: Path, ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    (agent / "agent.py").write_text(CODE)
    edit = edit_state(ref, [Entry("step", "pay", "choose"), Entry("seat", "aisle", ABSENT)], actor=actor).event["id"]
    add(ref, {"text": "On"}, author="user", invocation_id="i2")
    said = add(ref, {"text": "Paid"}, author="agent", invocation_id="i2")
    feed(ref.source)
    step, seat = maria.open("delivery", **ref._asdict(), event_id=edit, htmx=True).all("div", "delivered")
    address = reverse("context", kwargs=ref._asdict())
    assert step.links()["in agent's instruction"] == f"{address}?at={said}"
    assert "instruction" not in seat.text
