"""A session becomes a test for pytest, which passes with its agent and fails when the agent changes."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from sessions_app import transfer
from sessions_app.access.actor import Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.running import children
from sessions_app.transfer.exporting import Filter
from tests.support import warm
from tests.support.people import ALICE
from tests.trying.conftest import AGENTS, say, visit
from tests.web.conftest import ROOT

pytestmark = pytest.mark.django_db


def made(ref: SessionRef, actor: Actor = ALICE) -> str:
    """The test that is made of a session."""
    return b"".join(transfer.export("test", ref.source, Filter(*ref[1:]), actor=actor)).decode()


def run(tmp_path: Path, text: str, agents: Path, *, cold: bool = False) -> tuple[int, str]:
    """Runs a test with these agents, in a Python that is started anew if `cold`: exit code and output."""
    (tmp_path / "visit_test.py").write_text(text)
    done = warm.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "visit_test.py"],
        cwd=tmp_path,
        env={**children.environment(""), "PYTHONPATH": f"{agents}:{ROOT}"},
        capture_output=True,
        text=True,
        cold=cold,
    )
    return done.returncode, done.stdout


def test_the_test_of_a_session_passes_with_its_agent_and_fails_with_another(shop: str, tmp_path: Path) -> None:
    visit(shop, "s0", 1)
    text = made(visit(shop, "s1", 2))
    code, out = run(tmp_path, text, AGENTS, cold=True)
    assert (code, "1 passed" in out) == (0, True), out
    changed = Path(shutil.copytree(AGENTS, tmp_path / "changed"))
    file = changed / "shop" / "agent.py"
    file.write_text(file.read_text().replace('state["visit"] =', 'state["calls"] ='))
    code, out = run(tmp_path, text, changed)
    assert (code, 'expected {"visit": 2}, got {"calls": 2}' in out) == (1, True), out


def test_an_agent_may_be_in_its_package_itself(shop: str, tmp_path: Path) -> None:
    agents = Path(shutil.copytree(AGENTS, tmp_path / "agents"))
    (agents / "shop" / "agent.py").rename(agents / "shop" / "flow.py")
    (agents / "shop" / "__init__.py").write_text("from .flow import root_agent")
    code, out = run(tmp_path, made(visit(shop, "s1", 1)), agents)
    assert (code, "1 passed" in out) == (0, True), out


HOSTILE = '"""\n"); import os; os.system("true") #\\" {note} \u2028 🙂 \\'


def test_nothing_in_a_session_gets_out_of_the_recording_in_the_test(shop: str) -> None:
    ref = visit(shop, "s1", 1, user=HOSTILE)
    say(ref, "user", {"text": HOSTILE}, turn="2", state_delta={HOSTILE: HOSTILE})
    module = ast.parse(made(ref))
    assert [type(each).__name__ for each in module.body] == [
        "Expr",
        "Import",
        "Import",
        "ImportFrom",
        "Assign",
        "FunctionDef",
    ]
    (literal,) = (each for each in ast.walk(module.body[4]) if isinstance(each, ast.Constant))
    recording = json.loads(str(literal.value))
    assert recording["userId"] == HOSTILE
    assert recording["events"][-1]["content"]["parts"] == [{"text": HOSTILE}]


def test_what_is_hidden_is_dots_in_the_test_which_says_so(shop: str) -> None:
    ref = visit(shop, "s1", 1, pin="4711")
    assert "4711" in made(ref)
    assert "are dots here" not in made(ref)
    mask_rules.create("*", "key", "pin", actor=ALICE)
    text = made(ref)
    assert "4711" not in text
    assert "# Values that adkweb's rules hide are dots here" in text
