"""An agent's instruction, read from ADK's Agent Config files, which are never loaded as google-adk loads them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sessions_app.agent_view.agent_code import Unread, Written
from sessions_app.agent_view.agent_yaml import Configs
from sessions_app.agent_view.instructions import LONGEST

ROOT = """name: planner
model: gemini-3-flash
instruction: |
  Plan the trip of {user:name}.
sub_agents:
  - config_path: booking.yaml
  - config_path: more/refunds.yaml
tools:
  - name: google_search
"""
BOOKING = (
    "agent_class: LlmAgent\nname: booking\nmodel: gemini-3-flash\ndescription: Books.\ninstruction: 'Book: {step}'\n"
)
REFUNDS = 'name: refunds\nmodel: gemini-3-flash\ninstruction: "Refund\\n it, {step?}"\n'
FILES = {"root_agent.yaml": ROOT, "booking.yaml": BOOKING, "more/refunds.yaml": REFUNDS}


def configs(root: str, **unread: Unread) -> Configs:
    return Configs({**FILES, "root_agent.yaml": root}, {name.replace("_", "."): why for name, why in unread.items()})


def why(root: str) -> list[str]:
    """Why files are not read that lead from this root."""
    return [each.why for each in configs(root).faults]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # google-adk's own
def test_the_instructions_are_those_that_google_adk_loads(tmp_path: Path) -> None:
    from google.adk.agents.config_agent_utils import from_config
    from google.adk.agents.llm_agent import LlmAgent

    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    root = from_config(str(tmp_path / "root_agent.yaml"))
    assert isinstance(root, LlmAgent)
    loaded = {each.name: each.instruction for each in (root, *root.sub_agents) if isinstance(each, LlmAgent)}
    read = Configs(FILES, {})
    assert {name: written.text for name, written in read.agents} == loaded
    assert read.agents[1] == ("booking", Written("text", "booking.yaml", 5, "Book: {step}"))
    assert read.faults == []


def test_an_agent_may_be_written_out_below_another_one_or_be_of_a_class_without_instruction() -> None:
    below = "name: all\nagent_class: SequentialAgent\nsub_agents:\n - name: a\n   instruction: hi\n - booking.yaml\n"
    assert [name for name, _ in configs(below).agents] == ["a", "booking"]
    ((_, none),) = configs("name: a\n").agents
    ((_, number),) = configs("name: a\ninstruction: 5\n").agents
    ((_, code),) = configs("name: a\ninstruction:\n  name: my.code\n").agents
    ((_, long),) = configs(f"name: a\ninstruction: {'x' * (LONGEST + 1)}\n").agents
    assert [each.kind for each in (none, number, code, long)] == ["none", "dynamic", "dynamic", "long"]


def test_without_a_root_no_file_is_an_agents() -> None:
    read = Configs({"booking.yaml": BOOKING}, {})
    assert (read.agents, read.faults) == ([], [])


@pytest.mark.parametrize(
    "path",
    ["../booking.yaml", "/etc/passwd", "more/../../x.yaml", "..", "//etc/x.yaml", "more/../../agent/booking.yaml"],
)
def test_a_path_that_leads_out_of_the_folder_is_not_followed_and_named(path: str) -> None:
    assert configs(f"name: a\nsub_agents:\n- config_path: {path}\n").faults == [
        Written("unread", "root_agent.yaml", 3, why="outside")
    ]


def test_a_file_that_is_not_read_is_named_with_the_reason() -> None:
    assert configs(ROOT.replace("booking", "gone")).faults == [Written("unread", "gone.yaml", 1, why="missing")]
    linked = configs(ROOT.replace("booking.yaml", "link"), link="link")
    assert linked.faults == [Written("unread", "link", 1, why="link")]
    assert [name for name, _ in linked.agents] == ["planner", "refunds"], "others are read"


LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nname: n\n"


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        (LAUGHS, "alias"),
        ("name: a\nx: &x\n  y: *x\n", "alias"),
        ("base: &b {name: a}\n<<: *b\n", "alias"),
        ("name: !!python/object/apply:os.system ['true']\n", "tag"),
        ("!mine\nname: a\n", "tag"),
        ("name: !include /etc/passwd\n", "tag"),
        ("[" * 100_000, "deep broken"),
        ("name: a\nx: " + "{a: " * 100_000, "deep broken"),
        ("- " * 50_000, "deep"),
        ("name: a\nx: [" + "1," * 100_000 + "]", "deep"),
        ("name: a\n---\nname: b\n", "broken"),
        ("name: [a\n", "broken"),
        ("name: a\x00\n", "broken"),
        ("- name: a\n", "broken"),
        ("", "broken"),
        ("just words", "broken"),
        ("%YAML 9.9\n---\nname: a", "broken"),
    ],
)
def test_a_hostile_file_is_refused_with_the_reason_and_takes_no_time(root: str, reason: str) -> None:
    began = time.thread_time()
    (told,) = why(root)
    assert told in reason.split()
    assert time.thread_time() - began < 5


def test_files_that_name_each_other_end() -> None:
    round_ = "name: a\nsub_agents: [root_agent.yaml, ./root_agent.yaml, {config_path: root_agent.yaml}]\n"
    assert [name for name, _ in configs(round_).agents] == ["a"]
    many = "name: a\nsub_agents:\n" + "".join(f"- config_path: x{n}.yaml\n" for n in range(1_000))
    assert len(why(many)) < 300


def test_names_are_texts_whatever_they_are() -> None:
    odd = '? [a, b]\n: c\n1: d\nname: "a \\u202e"\ninstruction: "x"\nname: twice\n'
    assert [name for name, _ in configs(odd).agents] == ["twice"]
