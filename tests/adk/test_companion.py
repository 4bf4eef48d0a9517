"""The companion in ADK's own server and runner: what runs is known exactly, and no agent notices."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import google.adk
import httpx
import pytest
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from sessions_app.access import tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.adk.fingerprints import NOTE
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AgentVersion, AuditRow, Pause, Report
from sessions_app.reads import newest, timeline
from sessions_app.running import breakpoints, runs
from tests.browser.serving import Adkweb
from tests.servers import HOST, Server
from tests.support.at_work import until
from tests.support.own import own_database
from tests.support.people import as_admin

ROOT = Path(__file__).resolve().parents[2]
# More agents beside tests/running/agents: the root that stops late, one that brings a companion, a model that speaks slowly.
MORE = {
    "sequence": """
from google.adk.agents import LlmAgent, SequentialAgent
from helper.agent import Echo, count, pause
first = LlmAgent(name="first", model=Echo(), tools=[count, pause])
root_agent = SequentialAgent(name="sequence", sub_agents=[first])
""",
    "own": """
import adkweb
from google.adk.agents import LlmAgent
from google.adk.apps import App
from helper.agent import Echo, count
root_agent = LlmAgent(name="own", model=Echo(), tools=[count])
app = App(name="own", root_agent=root_agent, plugins=[adkweb.Companion()])
""",
    "debug": """
import adkweb
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from helper.agent import Echo, add, count, pause
first = LlmAgent(name="first", model=Echo(), tools=[add, count, pause])
root_agent = SequentialAgent(name="debug", sub_agents=[first])
app = App(name="debug", root_agent=root_agent, plugins=[adkweb.Companion(breakpoints=True)])
""",
    "slow": """
import asyncio
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

class Slow(BaseLlm):
    model: str = "slow"

    async def generate_content_async(self, llm_request, stream=False):
        for number in range(300):
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"{number} ")]), partial=True)
            await asyncio.sleep(0.1)

root_agent = LlmAgent(name="slow", model=Slow())
""",
}


class Web(Server):
    """`adk web` with a companion that reports to an adkweb, on a folder of agents, whose sessions are in a file."""

    name = "adk"
    stop_signals = (signal.SIGINT,)

    def __init__(self, adkweb: Adkweb, agents: Path, file: Path, **environment: str) -> None:
        super().__init__()
        self.adkweb = adkweb
        self.file = file
        self._agents, self._environment = agents, environment

    def _prepare(self, directory: Path) -> None:
        """The folder of agents is there already."""

    def _command(self, directory: Path) -> list[str]:
        env = shutil.which("env")
        assert env
        given = [f"{name}={value}" for name, value in {"PYTHONPATH": str(ROOT), **self._environment}.items()]
        return [
            *(env, "-u", "DJANGO_SETTINGS_MODULE", "-u", "ADKWEB_DATA_DIR", *given),
            *(sys.executable, str(Path(sys.executable).with_name("adk")), "web", "--no-reload"),
            *("--extra_plugins", "adkweb.Companion", "--session_service_uri", f"sqlite:///{self.file}"),
            *("--host", HOST, "--port", str(self.port), str(self._agents)),
        ]

    def _answers(self, directory: Path) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/list-apps", timeout=5).status_code == 200
        return False

    @property
    def url(self) -> str:
        """Returns its address."""
        return f"http://{HOST}:{self.port}"

    @contextmanager
    def running(self, ref: SessionRef, text: str, seconds: int = 30) -> Iterator[None]:
        """Writes to an agent in a new session, and hangs up at the end of the block."""
        where = f"{self.url}/apps/{ref.app_name}/users/{ref.user_id}/sessions/{ref.session_id}"
        httpx.post(where, json={"seconds": seconds}).raise_for_status()
        message = {"role": "user", "parts": [{"text": text}]}
        names = {"appName": ref.app_name, "userId": ref.user_id, "sessionId": ref.session_id}
        body = json.dumps({**names, "newMessage": message, "streaming": True})
        head = (
            f"POST /run_sse HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        with socket.create_connection((HOST, self.port)) as connection:
            connection.sendall(f"{head}\r\n\r\n{body}".encode())
            yield


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Web]:
    """ADK's server for the tests of this module, whose companion reports to an adkweb in a process of its own. This process
    has the same database."""
    folder = tmp_path_factory.mktemp("companion")
    shutil.copytree(ROOT / "tests" / "running" / "agents", folder / "agents")
    for name, code in MORE.items():
        (folder / "agents" / name).mkdir()
        (folder / "agents" / name / "__init__.py").write_text("from . import agent\n__version__ = '1.2'\n")
        (folder / "agents" / name / "agent.py").write_text(code)
    asyncio.run(SqliteSessionService(str(folder / "sessions.db")).create_session(app_name="helper", user_id="ana"))
    adkweb = Adkweb(folder)
    adkweb.start()
    with django_db_blocker.unblock(), own_database(f"sqlite:///{folder / 'data' / 'adkweb.db'}"):
        secret = tokens.create("agents", "companion", "*", by=as_admin("maria"))[1]
        given = {"ADKWEB_URL": adkweb.address, "ADKWEB_COMPANION_TOKEN": secret}
        server = Web(adkweb, folder / "agents", folder / "sessions.db", **given)
        server.start()
        yield server
        server.close()
    adkweb.close()


@pytest.fixture
def new_session(
    web: Web, open_source: Callable[[str], str], request: pytest.FixtureRequest
) -> Callable[[str], SessionRef]:
    """Names a new session of an agent."""
    source = open_source(str(web.file))
    return lambda app: SessionRef(source, app, "ana", request.node.name[:100])


def at_work(ref: SessionRef) -> Any:
    return timeline.status_of(ref, actor=SYSTEM).at_work


def ends_with(ref: SessionRef, code: str) -> bool:
    return timeline.events(ref, actor=SYSTEM).rows[-1].data.get("error_code") == code


@pytest.mark.guarantee(
    "Live pages",
    "Where a companion reports, adkweb knows at once what an agent does, and when it has ended, however it ends.",
)
def test_what_runs_is_known_until_the_one_who_asked_hangs_up(
    web: Web, new_session: Callable[[str], SessionRef]
) -> None:
    ref = new_session("helper")
    with web.running(ref, "count pause"):
        until(lambda: at_work(ref) and at_work(ref).name == "pause")
        status = timeline.status_of(ref, actor=SYSTEM)
        assert (status.name, at_work(ref).step, at_work(ref).is_own) == ("running", "tool", False)
        assert status.running
        assert (status.running.calls, status.running.since) == (("pause",), at_work(ref).since)
        assert [each.ref for each in newest.happening(ref.source, actor=SYSTEM).running] == [ref]
    until(lambda: at_work(ref) is None)
    assert timeline.status_of(ref, actor=SYSTEM).running is None


@pytest.mark.parametrize(
    ("app", "text", "step", "name", "seconds"),
    [
        ("helper", "pause", "tool", "pause", 2.5),
        ("slow", "tell me", "model", "slow", 2.5),
        ("sequence", "pause", "tool", "pause", 8.0),
    ],
)
def test_a_run_that_someone_else_started_is_stopped(
    web: Web,
    new_session: Callable[[str], SessionRef],
    app: str,
    text: str,
    step: str,
    name: str,
    seconds: float,
) -> None:
    # adk-python#2425: closing a page stopped nothing, and nothing else could.
    ref = new_session(app)
    with web.running(ref, text, seconds=3 if app == "sequence" else 30):
        until(lambda: at_work(ref) and (at_work(ref).step, at_work(ref).name) == (step, name))
        runs.stop(ref, actor=SYSTEM)
        assert at_work(ref).stopped_by == "adkweb"
        until(lambda: at_work(ref) is None, seconds)
    assert ends_with(ref, "INVOCATION_ABORTED")
    assert AuditRow.objects.filter(act="run-stopped", session_id=ref.session_id).exists()
    with pytest.raises(NotFound):
        runs.stop(ref, actor=SYSTEM)


def test_the_command_stops_it_too(web: Web, new_session: Callable[[str], SessionRef]) -> None:
    ref = new_session("helper")
    with web.running(ref, "pause"):
        until(lambda: at_work(ref) and at_work(ref).name == "pause")
        web.adkweb.run("stop", "/".join(ref[1:]), str(web.file))
    assert ends_with(ref, "INVOCATION_ABORTED")


def test_an_app_may_bring_a_companion_of_its_own(web: Web, new_session: Callable[[str], SessionRef]) -> None:
    ref = new_session("own")
    with web.running(ref, "count"):
        until(lambda: Report.objects.filter(names__contains=ref.session_id, ended=True).exists())
    last = timeline.events(ref, actor=SYSTEM).rows[-1].data
    assert last["content"]["parts"][0]["text"] == "Done."
    assert len(last["custom_metadata"][NOTE]) == 16
    assert Report.objects.filter(names__contains=ref.session_id).count() == 1
    said = AgentVersion.objects.get(app_name="own")
    assert (said.adk, said.version) == (google.adk.__version__, "1.2")


def test_a_process_that_was_killed_runs_nothing_any_more(web: Web, new_session: Callable[[str], SessionRef]) -> None:
    ref = new_session("helper")
    with web.running(ref, "pause"):
        until(lambda: at_work(ref) and at_work(ref).name == "pause")
        web.die()
    web.start()
    assert timeline.status_of(ref, actor=SYSTEM).name == "running"
    Report.objects.filter(names__contains=ref.session_id).update(beat=time.time() - Report.SILENT_SECONDS - 1)
    assert timeline.status_of(ref, actor=SYSTEM).name == "stuck"


# --- Breakpoints ------------------------------------------------------------------------------------------------------


def paused(ref: SessionRef) -> breakpoints.Paused:
    """Waits until the agent pauses."""
    return until(lambda: breakpoints.paused(ref, actor=SYSTEM), "a pause")[0]  # type: ignore[no-any-return]


def results(ref: SessionRef, tool: str) -> list[Any]:
    rows = timeline.events(ref, actor=SYSTEM).rows
    return [part.value for row in rows for part in row.description.responses if part.name == tool]


@pytest.fixture
def pausing(new_session: Callable[[str], SessionRef], settings: Any) -> SessionRef:
    """A session of an agent whose companion has breakpoints, and that pauses before each tool."""
    settings.BREAKPOINTS = True
    ref = new_session("debug")
    breakpoints.add(ref, "tool", actor=SYSTEM)
    return ref


def test_an_agent_with_a_companion_pauses_and_its_tool_gets_what_someone_changed(web: Web, pausing: SessionRef) -> None:
    with web.running(pausing, "add count"):
        pause = paused(pausing)
        assert (pause.name, pause.args, at_work(pausing).paused) == ("add", {}, True)
        breakpoints.decide(pausing, pause.id, "step", args={"n": 5}, actor=SYSTEM)
        until(lambda: results(pausing, "add") == [{"result": 5}], seconds=5)
        assert paused(pausing).of.kind == "model"
        breakpoints.decide(pausing, paused(pausing).id, "continue", actor=SYSTEM)
        until(lambda: [each.name for each in breakpoints.paused(pausing, actor=SYSTEM)] == ["count"])
        breakpoints.decide(pausing, paused(pausing).id, "continue", actor=SYSTEM)
        until(lambda: at_work(pausing) is None)
    assert results(pausing, "count") == [{"counted": 1}]
    assert [row.call != "" for row in Pause.objects.filter(names__contains=pausing.session_id)] == [True]


def test_a_breakpoint_that_is_set_while_an_agent_runs_is_met(
    web: Web, new_session: Callable[[str], SessionRef], settings: Any
) -> None:
    settings.BREAKPOINTS = True
    ref = new_session("debug")
    with web.running(ref, "pause count", seconds=2):
        until(lambda: at_work(ref) and at_work(ref).name == "pause")
        breakpoints.add(ref, "tool", name="count", actor=SYSTEM)
        pause = paused(ref)
        assert pause.name == "count"
        breakpoints.decide(ref, pause.id, "continue", actor=SYSTEM)
        until(lambda: at_work(ref) is None)


def test_stop_ends_a_run_that_pauses_at_once_and_without_its_tool(web: Web, pausing: SessionRef) -> None:
    with web.running(pausing, "count"):
        paused(pausing)
        began = time.monotonic()
        runs.stop(pausing, actor=SYSTEM)
        until(lambda: at_work(pausing) is None)
        assert time.monotonic() - began < 2.5
    assert not [each for each in results(pausing, "count") if "counted" in each]
    assert not breakpoints.paused(pausing, actor=SYSTEM)


def test_who_asks_hangs_up_while_the_agent_pauses(web: Web, pausing: SessionRef) -> None:
    with web.running(pausing, "count"):
        paused(pausing)
    until(lambda: not Pause.objects.filter(names__contains=pausing.session_id).exists())


@pytest.mark.guarantee("Safety", "A companion with breakpoints lets its agent go on within seconds if adkweb is away.")
def test_an_agent_that_pauses_goes_on_when_adkweb_is_killed(web: Web, pausing: SessionRef) -> None:
    with web.running(pausing, "count"):
        paused(pausing)
        web.adkweb.die()
        try:
            until(lambda: results(pausing, "count") == [{"counted": 1}], seconds=12)
        finally:
            web.adkweb.start()


# --- An adkweb that is away, or isn't one -----------------------------------------------------------------------------

SCRIPT = """
import asyncio, logging, sys, time
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai import types
from adkweb import Companion
from helper.agent import Echo, count

logging.basicConfig(format="LOG %(name)s %(message)s", stream=sys.stdout)

async def main():
    agent = LlmAgent(name="helper", model=Echo(), tools=[count])
    runner = InMemoryRunner(app=App(name="helper", root_agent=agent, plugins=[Companion(), Companion()]))
    await runner.session_service.create_session(app_name="helper", user_id="ana", session_id="s1")
    for number in range(4):
        began = time.perf_counter()
        said = types.Content(role="user", parts=[types.Part(text="count")])
        async for event in runner.run_async(user_id="ana", session_id="s1", new_message=said):
            last = event
        print("RUN", last.content.parts[0].text, time.perf_counter() - began < 4)  # less than any time-out
        await asyncio.sleep(0.4)

asyncio.run(main())
"""


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers as no adkweb would: with a failure, garbage, a redirect, and one that doesn't end."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        """Answers the next strange thing."""
        self.asked.append((self.path, str(self.headers["Authorization"])))
        match len(self.asked) % 4:
            case 1:
                self.send_error(500)
            case 2:
                self.wfile.write(b"\0\xff garbage\r\n\r\n")
            case 3:
                self.send_response(307)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
            case _:
                self.send_response(200)
                self.end_headers()
                with suppress(OSError):
                    while True:
                        self.wfile.write(b"[" * 10_000)

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def run_script(url: str, script: str = SCRIPT, **environment: str) -> list[str]:
    """Runs an agent four times in a process of its own, and returns what it prints."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "running" / "agents")))
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "ADKWEB_COMPANION_TOKEN": "t", "ADKWEB_URL": url}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        env=given | environment,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("RUN", "LOG adkweb"))]


@pytest.mark.guarantee("Safety", "The companion never slows an agent down, and never makes one fail.")
@pytest.mark.parametrize("script", [SCRIPT, SCRIPT.replace("Companion()", "Companion(breakpoints=True)")])
def test_whatever_adkweb_answers_the_agent_runs_as_always(script: str) -> None:
    Hostile.asked.clear()
    with http.server.ThreadingHTTPServer((HOST, 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = run_script(f"http://{HOST}:{server.server_port}", script)
        server.shutdown()
    assert [line for line in said if line.startswith("RUN")] == ["RUN Done. True"] * 4
    assert len([line for line in said if line.startswith("LOG")]) == 1
    assert len(Hostile.asked) >= 4
    asked = {path.partition("?")[0] for path, _ in Hostile.asked}
    assert asked - ({"/api/companion/step"} if script != SCRIPT else set()) == {"/api/companion"}
    assert {token for _, token in Hostile.asked} == {"Bearer t"}


@pytest.mark.parametrize("url", [f"http://{HOST}:9", "http://ben:s3cret@adkweb.example"])
def test_without_an_adkweb_it_says_so_once(url: str) -> None:
    said = run_script(url)
    assert [line for line in said if line.startswith("RUN")] == ["RUN Done. True"] * 4
    (log,) = [line for line in said if line.startswith("LOG")]
    assert "s3cret" not in log


class Late(Hostile):
    """An adkweb that takes a second to hear a report."""

    heard: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        """Hears a report, slowly."""
        time.sleep(1)
        self.heard += json.loads(self.rfile.read(int(self.headers["Content-Length"])))["invocations"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


def test_the_end_of_a_run_is_reported_if_it_comes_during_another_report() -> None:
    with http.server.ThreadingHTTPServer((HOST, 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run_script(
            f"http://{HOST}:{server.server_port}", SCRIPT.replace('"count"', '"count…"').replace("range(4)", "range(2)")
        )
        server.shutdown()
    first = [each["ended"] for each in Late.heard if each["invocation"] == Late.heard[0]["invocation"]]
    assert first[0] is None
    assert first[-1]
