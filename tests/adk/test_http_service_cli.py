"""ADK's own command line on adkweb: `adk web` and `adk api_server`, started as a developer starts them."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import NotFound
from sessions_app.reads import timeline, views
from tests.adk.services import APP, USER, key_of
from tests.adk.serving import Serving
from tests.servers import HOST, Server

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = f"/apps/{APP}/users/{USER}/sessions"

SERVICES_PY = """from adkweb import register

register()
"""
SERVICES_YAML = "services: [{scheme: adkweb, type: session, class: adkweb.HttpSessionService}]\n"

# Looks at its state three times, and waits after the first look until the test has edited it.
AGENT = '''
import pathlib, time
from google.adk.agents import LlmAgent
from google.adk.tools import ToolContext
from .scripted_model import Script, ScriptedModel, call, say

HERE = pathlib.Path(__file__).parent

def look(tool_context: ToolContext) -> dict:
    """Looks."""
    looks = tool_context.state["looks"] = tool_context.state.get("looks", 0) + 1
    if looks == 1:
        (HERE / "looking").touch()
        while not (HERE / "edited").exists():
            time.sleep(0.02)
    return {"looks": looks, "limit": tool_context.state.get("limit")}

script = Script(lambda turn: call("look"))

@script.answered("look")
def again(turn, answer):
    return call("look") if answer["looks"] < 3 else say(f"saw {answer['limit']}; told: {turn.instruction}")

root_agent = LlmAgent(name="booking", model=ScriptedModel(script=script), instruction="limit {limit?}", tools=[look])
'''


class Adk(Server):
    """`adk web` or `adk api_server` on a folder of agents."""

    name = "adk"
    stop_signals = (signal.SIGINT,)

    def __init__(self, command: str, agents: Path, uri: str, token: str) -> None:
        super().__init__()
        self._words = [command, "--session_service_uri", uri, "--no-reload"]
        self._agents, self._token = agents, token

    def _prepare(self, directory: Path) -> None:
        """The folder of agents is there already."""

    def _command(self, directory: Path) -> list[str]:
        env = shutil.which("env")
        assert env
        adk = Path(sys.executable).with_name("adk")
        given = [f"ADKWEB_TOKEN={self._token}", f"PYTHONPATH={ROOT}", "PYTHONWARNINGS=ignore"]
        return [
            *(env, "-u", "DJANGO_SETTINGS_MODULE", "-u", "ADKWEB_DATA_DIR", *given, sys.executable, str(adk)),
            *(*self._words, "--host", HOST, "--port", str(self.port), str(self._agents)),
        ]

    def _answers(self, directory: Path) -> bool:
        try:
            return httpx.get(f"http://{HOST}:{self.port}/list-apps", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture
def form() -> str:
    """adkweb's databases are not the subject here."""
    return "sqlite"


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A folder with one agent, whose model follows a script."""
    folder = tmp_path / "agents"
    (folder / APP).mkdir(parents=True)
    (folder / APP / "__init__.py").write_text("from . import agent\n")
    (folder / APP / "agent.py").write_text(AGENT)
    shutil.copy(ROOT / "examples" / "agents" / "booking" / "scripted_model.py", folder / APP)
    return folder


Start = Callable[[str, str, str], httpx.Client]


@pytest.fixture
def start(agents: Path, serving: Serving, source: str, new_token: Callable[..., str]) -> Iterator[Start]:
    """Starts ADK's server with a file beside the agents that makes adkweb known; who asks it."""
    started: list[Adk] = []

    def make(command: str, file: str, content: str) -> httpx.Client:
        (agents / file).write_text(content)
        uri = f"adkweb://{HOST}:{serving.port}?source={source}&on_stale=rebase"
        started.append(Adk(command, agents, uri, new_token()))
        started[-1].start()
        return httpx.Client(base_url=f"http://{HOST}:{started[-1].port}", timeout=60)

    yield make
    for adk in started:
        adk.close()


def run_of(client: httpx.Client) -> Any:
    """One turn, over ADK's own route; its events."""
    said = {"role": "user", "parts": [{"text": "look"}]}
    asked = {"appName": APP, "userId": USER, "sessionId": "s1", "newMessage": said}
    answer = client.post("/run", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("command", "file", "content"),
    [
        ("web", "services.py", SERVICES_PY),
        pytest.param("web", "services.yaml", SERVICES_YAML, marks=pytest.mark.long),
        pytest.param("api_server", "services.py", SERVICES_PY, marks=pytest.mark.long),
        ("api_server", "services.yaml", SERVICES_YAML),
    ],
    ids=lambda each: each if len(each) < 20 else "",
)
def test_adks_servers_keep_their_sessions_in_adkweb_and_a_run_goes_on_through_an_edit(
    start: Start,
    agents: Path,
    serving: Serving,
    source: str,
    new_token: Callable[..., str],
    command: str,
    file: str,
    content: str,
) -> None:
    with start(command, file, content) as client:
        assert client.get(SESSIONS).json() == []
        made = client.post(SESSIONS, json={"sessionId": "s1", "state": {"user:tier": "gold"}})
        assert made.status_code == 200, made.text
        assert views.session(key_of(source), actor=SYSTEM).state.merged() == {"user:tier": "gold"}
        assert [each["id"] for each in client.get(SESSIONS).json()] == ["s1"]

        edit_when_it_looks(agents / APP, serving, new_token(), source)
        events = run_of(client)
        # The instruction of its next step, and the state of its next look, have the edit.
        assert events[-1]["content"]["parts"][0]["text"].startswith("saw 100; told: limit 100")
        shown = timeline.events(key_of(source), actor=SYSTEM).rows
        assert [view.description.author for view in shown].count("system") == 1
        assert [view.id for view in shown if view.description.author == APP] == [each["id"] for each in events]

        whole = client.get(f"{SESSIONS}/s1").json()
        assert [each["id"] for each in whole["events"]] == [view.id for view in shown]
        assert whole["state"] == {"looks": 3, "limit": 100, "user:tier": "gold"}
        client.delete(f"{SESSIONS}/s1").raise_for_status()
        assert client.get(SESSIONS).json() == []
    with pytest.raises(NotFound):
        views.session(key_of(source), actor=SYSTEM)


def edit_when_it_looks(folder: Path, serving: Serving, secret: str, source: str) -> None:
    """An edit through adkweb's API, in the middle of a run."""

    def edit() -> None:
        deadline = time.monotonic() + 30
        while not (folder / "looking").exists():
            assert time.monotonic() < deadline, "the agent did not look"
            time.sleep(0.02)
        made = httpx.patch(
            f"{serving.url}/api{SESSIONS}/s1/state?source={source}",
            headers={"Authorization": f"Bearer {secret}"},
            json={"set": {"limit": 100}, "absent": ["limit"], "reason": "too dear"},
        )
        assert made.status_code == 201, made.text
        (folder / "edited").touch()

    threading.Thread(target=edit, daemon=True).start()


def test_what_the_docs_show_is_what_is_tried() -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    assert f"```python\n{SERVICES_PY}```" in page
    assert f"```yaml\n{SERVICES_YAML}```" in page
    assert f"```python\n{SERVICES_PY}```" in (ROOT / "README.md").read_text()


def test_the_service_that_the_docs_show_works(
    serving: Serving, source: str, new_token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = re.findall(r"```python\n([^`]*HttpSessionService\([^`]*)```", (ROOT / "docs" / "agents.md").read_text())
    assert '"http://host:8000"' in shown
    monkeypatch.setenv("ADKWEB_TOKEN", new_token("append", APP))
    names: dict[str, Any] = {}
    exec(shown.replace('"http://host:8000"', f"{serving.url!r}, source={source!r}"), names)
    asyncio.run(names["service"].create_session(app_name=APP, user_id=USER, session_id="s1"))
    asyncio.run(names["service"].close())
    assert views.session(key_of(source), actor=SYSTEM).ref == key_of(source)
