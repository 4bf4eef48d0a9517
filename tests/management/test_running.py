"""An agent is talked to from the terminal: `adkweb say`, `inbox`, `answer` and `stop`, each a process of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.management import conftest
from tests.support.at_work import until

SILENT = {"PYTHONWARNINGS": "ignore"}  # google-adk warns as soon as it is imported
AGENTS = Path(__file__).parents[1] / "running" / "agents"


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    return conftest.run(tmp_path, *words, forks_agents=True, **SILENT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of agents with one session."""
    folder = Path(shutil.copytree(AGENTS, tmp_path / "agents"))
    (folder / "helper" / ".adk").mkdir()
    create(folder, "s1", seconds=60)
    return folder


def create(folder: Path, session: str, seconds: int) -> None:
    """A session in which `pause` takes so many seconds."""
    service = SqliteSessionService(str(folder / "helper" / ".adk" / "session.db"))
    asyncio.run(
        service.create_session(app_name="helper", user_id="ana", session_id=session, state={"seconds": seconds})
    )


def test_an_agent_is_written_to_and_answered(tmp_path: Path, folder: Path) -> None:
    code, out, err = run(tmp_path, "say", "helper/ana/s1", "pay", "agents")
    assert (code, err) == (0, "The agent waits for an answer: adkweb inbox\n")
    assert "pay" in out
    (call,) = map(json.loads, run(tmp_path, "inbox", "--json", "agents")[1].splitlines())
    assert (call["tool"], call["answerable"]) == ("pay", True)
    wrong = run(tmp_path, "answer", call["id"], "agents", "--response", "{}", "--payload", "{}")
    assert wrong[0::2] == (1, "--payload doesn't go with --response.\n")
    wrong = run(tmp_path, "answer", call["id"], "agents", "--approve", "--interim")
    assert wrong[0::2] == (1, "Only a long-running tool can have an update before its final result.\n")
    wrong = run(tmp_path, "answer", call["id"], "agents", "--approve", "--state", "[1]")
    assert wrong[0::2] == (1, '--state: not an object like {"user:tier": "gold"}.\n')
    state = ("--state", '{"tier": "gold", "seconds": 61}')
    code, out, err = run(tmp_path, "answer", call["id"], "agents", "--approve", *state, "--expected", '{"seconds": 59}')
    assert (code, out) == (1, "")
    code, out, err = run(tmp_path, "answer", call["id"], "agents", "--approve", *state, "--expected", '{"seconds": 60}')
    assert (code, err) == (0, "")
    assert '"gold"' in run(tmp_path, "export", "agents")[1]
    assert "paid" in out
    assert "Done." in out
    code, _out, err = run(tmp_path, "answer", call["id"], "agents", "--approve")
    assert (code, err) == (1, "terminal has approved this already. Nothing was sent.\n")


def test_what_an_agent_says_when_it_fails_moves_no_cursor(tmp_path: Path, folder: Path) -> None:
    (folder / "helper" / "agent.py").write_text('raise RuntimeError("one\\n\\x1b[2Jtwo")')
    code, out, err = run(tmp_path, "say", "helper/ana/s1", "look", "agents")
    assert (code, out) == (2, "")
    assert "one\n�[2Jtwo" in err


def test_what_needs_a_second_person_is_refused_and_waits_as_a_whole(tmp_path: Path, folder: Path) -> None:
    run(tmp_path, "inbox", "agents")
    own = tmp_path / "data" / "adkweb.db"
    with sqlite3.connect(own) as db:
        db.execute(
            "INSERT INTO sessions_app_approvalrule (sources, apps, keys, tools, days, made_by, made)"
            " VALUES ('*', '*', 'tier', '', 7, 'adam', '2026-01-01')"
        )
    said = run(tmp_path, "say", "helper/ana/s1", "look", "agents", "--state", '{"tier": "gold"}')
    assert said == (1, "", "tier: needs a second person. Another editor has to apply it.\n")
    with sqlite3.connect(own) as db:
        ((lane, state),) = db.execute("SELECT lane, state FROM sessions_app_job WHERE kind = 'proposal'")
    assert (lane.split()[0], state) == ("message", "waiting")
    assert "look" not in run(tmp_path, "export", "agents")[1]


def test_what_cannot_be_sent_says_why(tmp_path: Path, folder: Path) -> None:
    assert run(tmp_path, "say", "helper/ana", "hello", "agents")[0::2] == (
        1,
        "helper/ana: not like APP/USER/SESSION.\n",
    )
    assert run(tmp_path, "say", "helper/ana/s9", "hello", "agents")[0] == 1
    assert run(tmp_path, "answer", "agents", "--approve")[0::2] == (
        2,
        "Give the ids of one request: nothing was sent.\n",
    )
    assert run(tmp_path, "stop", "helper/ana/s1", "agents")[0] == 2
    (folder / "helper" / "agent.py").write_text("raise ImportError('no such model')")
    code, _out, err = run(tmp_path, "say", "helper/ana/s1", "hello", "agents")
    assert code in (2, 3)
    assert "no such model" in err


def test_one_process_stops_the_agent_that_another_runs(tmp_path: Path, folder: Path) -> None:
    said: list[tuple[int, str, str]] = []
    talking = threading.Thread(target=lambda: said.append(run(tmp_path, "say", "helper/ana/s1", "pause", "agents")))
    talking.start()
    until(lambda: run(tmp_path, "stop", "helper/ana/s1", "agents")[0] != 2, "stopped", 45)
    talking.join(20)
    assert (said[0][0], said[0][2]) == (3, "Stopped by terminal.\n")


def test_a_command_ends_no_run_of_another_one_in_the_agent_that_both_share(tmp_path: Path, folder: Path) -> None:
    ended: dict[str, tuple[int, str, str]] = {}

    def say(session: str) -> None:
        ended[session] = run(tmp_path, "say", f"helper/ana/{session}", "pause", "agents")

    create(folder, "s2", seconds=8)
    talking = [threading.Thread(target=say, args=(session,)) for session in ("s1", "s2")]
    for calls, thread in enumerate(talking, 1):
        thread.start()
        until(lambda calls=calls: run(tmp_path, "export", "agents")[1].count('"pause"') >= 2 * calls, "its call", 45)
    assert run(tmp_path, "stop", "helper/ana/s1", "agents")[0] == 0
    for thread in talking:
        thread.join(20)
    assert {session: (code, err) for session, (code, _out, err) in ended.items()} == {
        "s1": (3, "Stopped by terminal.\n"),
        "s2": (0, ""),
    }
