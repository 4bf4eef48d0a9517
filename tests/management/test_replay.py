"""`adkweb replay` runs stored sessions again, and its exit code and reports say what it found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.management.conftest import run
from tests.trying.conftest import AGENTS, say, visit
from tests.web.conftest import ROOT

pytestmark = pytest.mark.usefixtures("ready")
NOTE = "Not compared: what tools do, models, and instructions without a fingerprint."


def changed(tmp_path: Path) -> Path:
    """The same agent, whose callback counts under another name."""
    folder = Path(shutil.copytree(AGENTS, tmp_path / "changed"))
    file = folder / "shop" / "agent.py"
    file.write_text(file.read_text().replace('state["visit"] =', 'state["calls"] ='))
    return folder


@pytest.fixture
def url(own: str, new_database: Callable[[str], str], open_source: Callable[[str, str], str]) -> str:
    """A source with two sessions of the shop, of which the second can't be decided."""
    url = new_database("sqlite")
    alias = open_source(url, "sqlite")
    visit(alias, "s1", 1)
    ref = visit(alias, "s2", 2)
    call = {"function_call": {"id": "c1", "name": "order", "args": {"item": "tea"}}}
    say(ref, "user", {"text": "Tea"}, turn="2")
    say(ref, "shop", call, turn="2")
    say(ref, "shop", {"text": "Done."}, turn="2", state_delta={"said": "Done."})
    return url


def test_the_sessions_of_the_demo_are_the_same(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "demo.db", tmp_path / "demo.db")
    words = ("demo.db", "--agents", ROOT / "examples" / "agents", "--run-code", "--json")
    code, out, errors = run(
        tmp_path, "replay", *words, forks_agents=True, PYTHONWARNINGS="default"
    )  # google-adk warns of itself
    results = {each["session_id"]: each["result"] for each in map(json.loads, out.splitlines())}
    assert (code, errors.splitlines()) == (0, ["17 same, 0 diverged, 1 undecided", NOTE])
    assert [name for name, result in results.items() if result != "same"] == ["draft"]


def test_each_session_has_a_line_and_an_undecided_one_may_fail(tmp_path: Path, url: str) -> None:
    code, out, errors = run(tmp_path, "replay", url, "--agents", AGENTS, "--fail-on-divergence", "--fail-on-undecided")
    assert (code, errors.splitlines()) == (3, ["1 same, 0 diverged, 1 undecided", NOTE, "Sessions are undecided."])
    assert out.splitlines() == [
        "undecided  shop/ana/s2  the result of this call isn't recorded",
        "same       shop/ana/s1",
    ]


def test_a_divergence_may_fail_and_is_in_the_report_for_other_programs(tmp_path: Path, url: str) -> None:
    words = ("--agents", changed(tmp_path), "--query=-order", "--fail-on-divergence", "--junit", tmp_path / "r.xml")
    code, out, errors = run(tmp_path, "replay", url, *words, forks_agents=True)
    assert (code, errors.splitlines()) == (1, ["0 same, 1 diverged, 0 undecided", NOTE, "Sessions diverged."])
    assert out.startswith("diverged   shop/ana/s1  state of shop at event ")
    assert out.endswith('expected {"visit": 1}, got {"calls": 1}\n')
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    (case,) = suite
    assert (case.get("name"), case[0].tag) == ("ana/s1", "failure")
    assert 'got {"calls": 1}' in str(case[0].get("message"))


def test_of_two_versions_of_the_agents_only_what_changed_is_shown(tmp_path: Path, url: str) -> None:
    code, out, _errors = run(tmp_path, "replay", url, "--against", AGENTS, changed(tmp_path), forks_agents=True)
    assert code == 0
    lines = out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["undecided → diverged", "same → diverged"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Nothing could be replayed."),
        (("--agents", "nowhere"), "nowhere isn't a folder."),
        (("--agents", AGENTS, "-q", "nobody"), "Nothing could be replayed."),
        (("--agents", AGENTS, "-q", "status:sleeping"), "status"),
    ],
)
def test_if_nothing_can_be_replayed_the_exit_code_is_2(
    tmp_path: Path, url: str, words: tuple[str | Path, ...], said: str
) -> None:
    code, out, errors = run(tmp_path, "replay", url, *words)
    assert code == 2
    assert said in errors or said in out
