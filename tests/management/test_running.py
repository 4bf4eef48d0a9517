"""An agent is talked to from the terminal: `adkweb say`, `inbox`, `answer` and `stop`, each a process of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.management import conftest

SILENT = {"PYTHONWARNINGS": "ignore"}  # google-adk warns as soon as it is imported
AGENTS = Path(__file__).parents[1] / "running" / "agents"


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    return conftest.run(tmp_path, *words, **SILENT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of agents with one session."""
    folder = Path(shutil.copytree(AGENTS, tmp_path / "agents"))
    (folder / "helper" / ".adk").mkdir()
    service = SqliteSessionService(str(folder / "helper" / ".adk" / "session.db"))
    asyncio.run(service.create_session(app_name="helper", user_id="ana", session_id="s1", state={"seconds": 60}))
    return folder


def test_an_agent_is_written_to_and_answered(tmp_path: Path, folder: Path) -> None:
    code, out, err = run(tmp_path, "say", "helper/ana/s1", "pay", "agents")
    assert (code, err) == (0, "The agent waits for an answer: adkweb inbox\n")
    assert "pay" in out
    (call,) = map(json.loads, run(tmp_path, "inbox", "--json", "agents")[1].splitlines())
    assert (call["tool"], call["answerable"]) == ("pay", True)
    wrong = run(tmp_path, "answer", call["id"], "agents", "--approve", "--state", "[1]")
    assert wrong[0::2] == (1, '--state: not an object like {"user:tier": "gold"}.\n')
    code, out, err = run(tmp_path, "answer", call["id"], "agents", "--approve", "--state", '{"tier": "gold"}')
    assert (code, err) == (0, "")
    assert '"gold"' in run(tmp_path, "export", "agents")[1]
    assert "paid" in out
    assert "Done." in out
    code, _out, err = run(tmp_path, "answer", call["id"], "agents", "--approve")
    assert (code, err) == (1, "terminal has answered this already. Nothing was sent.\n")


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
    until = time.monotonic() + 45
    while (stopped := run(tmp_path, "stop", "helper/ana/s1", "agents"))[0] == 2:
        assert time.monotonic() < until, stopped
        time.sleep(0.2)
    talking.join(20)
    assert stopped[0] == 0
    assert (said[0][0], said[0][2]) == (3, "Stopped by terminal.\n")
