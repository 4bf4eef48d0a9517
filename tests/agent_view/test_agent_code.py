"""An agent's instruction, read from Python files that are never run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from sessions_app.agent_view.agent_code import Code, Written
from sessions_app.agent_view.instructions import LONGEST


def read(code: str = "", **files: str) -> Written | None:
    """What is read of agent.py and other files for the agent `a`, in a folder `booking`."""
    named = {f"{name.replace('__', '/')}.py": text for name, text in files.items()}
    return Code("booking", {"agent.py": code, **named}).instruction("a")


def text(code: str = "", **files: str) -> str | None:
    written = read(code, **files)
    return written.text if written and written.kind == "text" else None


def test_the_instruction_is_a_text_with_file_and_line() -> None:
    code = "import google\n\nroot = Agent(\n    name='a',\n    instruction='Help ' 'with {step}.',\n)"
    assert read(code) == Written("text", "agent.py", 5, "Help with {step}.")


@pytest.mark.parametrize(
    "code",
    [
        "LlmAgent(name='a', instruction='hi')",
        "agents.LlmAgent(instruction='''hi''', name='a')",
        "from google.adk.agents import LlmAgent as Made\ndef make():\n    return Made(name='a', instruction='hi')",
        "A = 'a'\nHI: str = 'h' + 'i'\nx = Agent(name=A, instruction=HI)",
        "Agent(name='other', instruction='no', sub_agents=[Agent(name='a', instruction=f'hi')])",
    ],
)
def test_an_agent_is_made_in_many_ways(code: str) -> None:
    assert text(code) == "hi"


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("from .prompts import HI\nAgent(name='a', instruction=HI)", {"prompts": "HI = 'hi'"}),
        ("from . import prompts as p\nAgent(name='a', instruction=p.HI)", {"prompts": "HI = 'hi'"}),
        ("from booking.prompts import HI as H\nAgent(name='a', instruction=H)", {"prompts": "HI = 'hi'"}),
        ("from .texts.all import HI\nAgent(name='a', instruction=HI)", {"texts__all": "HI = 'hi'"}),
    ],
)
def test_a_text_may_stand_in_another_file_of_the_folder(code: str, files: dict[str, str]) -> None:
    assert text(code, **files) == "hi"
    assert text(sub__agent=code.replace("from .", "from .."), **files) == "hi"


@pytest.mark.parametrize(
    "value",
    [
        "make",
        "make()",
        "f'Hi {name}'",
        "'Hi %s' % name",
        "TWICE",
        "GROWN",
        "CHANGED",
        "LOOP",
        "prompts.HI",
        "lambda context: 'hi'",
        "b'hi'",
    ],
)
def test_what_is_made_when_the_agent_runs_is_dynamic_and_not_guessed(value: str) -> None:
    top = "TWICE = 'a'\nTWICE = 'b'\nGROWN = 'a'\nGROWN += 'b'\nCHANGED = 'c'\nLOOP = LOOP + LOOP\n"
    code = f"{top}def make():\n    global CHANGED\nAgent(name='a',\n instruction={value})"
    assert read(code) == Written("dynamic", "agent.py", 10)


def test_an_agent_may_have_no_instruction_or_one_that_nobody_can_read() -> None:
    assert read("Agent(name='a')") == Written("none", "agent.py", 1)
    assert read("Agent(name='a', **more)") == Written("dynamic", "agent.py", 1)
    assert read(f"Agent(name='a', instruction='{'x' * (LONGEST + 1)}')") == Written("long", "agent.py", 1)
    for code in (
        "Agent(name='b', instruction='x')",
        "Loop(name='a', instruction='x')",
        "Agent('a')",
        "",
        "Agent(name=1)",
    ):
        assert read(code) is None


def test_agents_of_the_same_name_are_counted() -> None:
    first = "Agent(name='a', instruction='one')\nAgent(name='a', instruction='two')"
    assert read(first, other="Agent(name='a')") == Written("text", "agent.py", 1, "one", 2)


def test_nothing_is_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    assert text(f"open({str(proof)!r}, 'w').close()\nAgent(name='a', instruction='hi')") == "hi"
    assert not proof.exists()


DOUBLED: Final = "X0 = 'x' * 1\nX1 = 'xxxxxxxx'\n" + "".join(f"X{n} = X{n - 1} + X{n - 1}\n" for n in range(2, 60))


@pytest.mark.parametrize(
    "code",
    [
        "def (",
        "\0",
        "(" * 100_000,
        "-" * 100_000 + "1",
        "x" + ".x" * 100_000,
        "'a'" + "+'a'" * 100_000,
        "[" * 5_000 + "]" * 5_000,
        "if x:\n" * 200,
        DOUBLED + "Agent(name='a', instruction=X59)",
        "Agent(name='a', instruction=" + "'a'" + " + 'a'" * 600 + ")",
        "A = B\nB = A\nAgent(name=A, instruction=B)",
        "from . import agent as x\nfrom .agent import A\nAgent(name=A, instruction=x.A)",
        "from ........ import x\nAgent(name=x)",
        "Agent(name='b' + 'c')\n" * 40_000,
    ],
    ids=range(14),
)
def test_hostile_files_give_nothing_and_take_no_time(code: str) -> None:
    began = time.thread_time()
    written = read(f"# Agent\n{code}")
    assert written is None or written.kind == "dynamic"
    assert time.thread_time() - began < 5


def test_a_broken_file_hides_no_other_and_odd_characters_can_be_shown() -> None:
    assert text("def (  # Agent", other=r"Agent(name='a', instruction='hi \ud800 \{x')") == r"hi ? \{x"
