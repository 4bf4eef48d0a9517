"""The server of agents answers nobody but adkweb, lives no longer than adkweb, and bears others' writes."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.running import children
from sessions_app.running.session_uris import session_uri
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.conftest import FORMATS
from tests.running.asking import Asking, gone, responses, stored
from tests.support.installed import not_brought_by

pytestmark = pytest.mark.usefixtures("own_of_module")

HERE = Path(__file__).parent
LAUNCHER = HERE.parents[1] / "sessions_app" / "running" / "launcher.py"


# --- Who may ask ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("Safety", "A server of agents that adkweb starts answers only adkweb.")
def test_without_the_token_nothing_is_answered(agents: Path) -> None:
    child = children.of(agents, sessions=None, artifacts=None)
    for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer nothing"}, {"Authorization": "ÿ"}):
        with httpx.Client(base_url=child.url, headers={k: v.encode("latin-1") for k, v in headers.items()}) as client:
            for path in ("/health", "/list-apps", "/docs", "/openapi.json", "/nowhere"):
                assert client.get(path).status_code == 401
            assert client.post("/run_sse", json={}).status_code == 401
            assert client.options("/run", headers={"Origin": "http://127.0.0.1"}).status_code == 401
    assert live(child.url, {}) == 401
    assert live(child.url, {"Authorization": "Bearer nothing"}) == 401


def test_with_the_token_adks_guard_of_hosts_and_origins_stays(agents: Path) -> None:
    child = children.of(agents, sessions=None, artifacts=None)
    with httpx.Client(base_url=child.url, headers=child.headers) as client:
        assert client.get("/list-apps").json() == ["helper"]
        assert client.get("/list-apps", headers={"Host": "agents.example"}).status_code == 403
        foreign = {"Origin": "https://agents.example"}
        assert client.post("/apps/helper/users/ana/sessions", json={}, headers=foreign).status_code == 403
    assert live(child.url, child.headers | foreign) != 101
    assert live(child.url, child.headers | {"Host": "agents.example"}) != 101


def live(url: str, headers: dict[str, str]) -> int:
    """Returns the status with which a websocket is opened: 101 if it is."""
    address = f"{url.replace('http', 'ws')}/run_live?app_name=helper&user_id=ana&session_id=s1"
    try:
        with connect(address, additional_headers=headers):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.parametrize(
    ("adk", "sessions"),
    [("google-adk[db]", "sqlite+aiosqlite:///:memory:"), ("google-adk", "sqlite:///{agents}/plain.db")],
)
def test_it_imports_nothing_but_google_adk_and_what_that_brings(agents: Path, adk: str, sessions: str) -> None:
    tops = not_brought_by(adk)
    assert {"django", "orjson"} <= tops
    blocked = tops | {"sessions_app", "adkweb"}
    code = f"""
import sys, runpy
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("blocked: " + name, name=name)
sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {str(LAUNCHER.parent)!r})
runpy.run_path({str(LAUNCHER)!r}, run_name="__main__")
"""
    order = {"token": "t", "agents": str(agents), "sessions": sessions.format(agents=agents)}
    order |= {"artifacts": None, "idle": 600}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=agents, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        asking = Asking(
            f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}", {"Authorization": "Bearer t"}
        )
        asking.create()
        assert responses(asking.run("count"), "count") == [{"counted": 1}]
        server.stdin.close()


# --- How long it lives ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orphaned(agents: Path) -> dict[str, float]:
    """Kills the parents of three servers, one without work. Returns how long each server stayed, by its tool."""
    took: dict[str, float] = {}

    def live_and_die(tool: str) -> None:
        with subprocess.Popen(
            [sys.executable, HERE / "parent.py", agents, "t"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as parent:
            assert parent.stdout
            server = json.loads(parent.stdout.readline())
            asking = Asking(f"http://127.0.0.1:{server['port']}", {"Authorization": "Bearer t"}, ("ana", tool))
            asking.create()
            if tool != "nothing":
                asking.begin(tool)
            parent.kill()
            began = time.monotonic()
            assert gone(server["pid"], 10)
            took[tool] = time.monotonic() - began

    threads = [threading.Thread(target=live_and_die, args=[tool]) for tool in ("pause", "block", "nothing")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


@pytest.mark.guarantee("Agents", "If adkweb is killed, the agents that it runs are ended, and their sessions say so.")
def test_an_orphan_ends_its_runs_and_leaves(orphaned: dict[str, float], agents: Path) -> None:
    assert orphaned["pause"] < 3
    *_, seal = stored(agents, "pause")
    assert seal["error_code"] == "INVOCATION_ABORTED"
    (part,) = seal["content"]["parts"]
    assert part["function_response"]["name"] == "pause"


def test_an_orphan_leaves_even_if_a_tool_blocks_it(orphaned: dict[str, float], agents: Path) -> None:
    assert orphaned["block"] < 3
    assert "error_code" not in stored(agents, "block")[-1]


def test_an_orphan_without_work_leaves_at_once(orphaned: dict[str, float]) -> None:
    assert orphaned["nothing"] < 1.0  # 0.2 on an idle machine


# --- Others who write -------------------------------------------------------------------------------------------------


def edit(ref: SessionRef, **delta: Any) -> str:
    """Edits a session in adkweb's process. Returns the id of the event."""
    event = {"author": "user", "invocation_id": "edit", "actions": {"state_delta": delta}}
    return str(append_event(ref, event, actor=SYSTEM).event["id"])


@pytest.mark.guarantee(
    "Agents", "Edits never interrupt an agent that adkweb runs, and the agent's next tool sees them."
)
@pytest.mark.usefixtures("forked_agents")
@pytest.mark.parametrize("form", FORMATS)
def test_edits_during_a_run_are_kept_and_seen_by_the_next_tool(
    form: str, new_store: Callable[[str], str], open_source: Callable[..., str], agents: Path
) -> None:
    alias = open_source(new_store(form))
    child = children.of(agents, sessions=session_uri(alias), artifacts=None)
    see_an_edit(alias, Asking(child.url, child.headers, ("ana", "seen")))
    bear_many_edits(alias, Asking(child.url, child.headers, ("ana", "many")))
    child.stop(is_needed=False)


def see_an_edit(alias: str, asking: Asking) -> None:
    """Edits while a tool sleeps."""
    ref = create_session(alias, "helper", "ana", actor=SYSTEM, state={"seconds": 0.7, "price": 1}, session_id="seen")
    edited: list[str] = []

    def during(event: dict[str, Any]) -> None:
        if not edited:
            edited.append(edit(ref, price=2, **{"user:level": "gold"}))

    streamed = asking.run("pause look", heard=during)
    assert [each for each in streamed if "error" in each or each.get("errorCode")] == []
    (seen,) = responses(streamed, "look")
    assert (seen["state"]["price"], seen["state"]["user:level"], seen["state"]["app:paused"]) == (2, "gold", True)
    events = asking.stored()["events"]
    assert edited[0] in [each["id"] for each in events]
    assert len({each["id"] for each in events}) == len(events) == 7
    assert [each["timestamp"] for each in events] == sorted(each["timestamp"] for each in events)


def bear_many_edits(alias: str, asking: Asking) -> None:
    """Edits without a pause during twelve tools: nothing is lost, and nothing is stored twice."""
    ref = create_session(alias, "helper", "ana", actor=SYSTEM, session_id="many")
    edited: list[str] = []
    streamed: list[dict[str, Any]] = []
    run = threading.Thread(target=lambda: asking.run("count " * 12, heard=streamed.append))
    run.start()
    while run.is_alive():
        edited.append(edit(ref, price=len(edited), **{f"edit{len(edited)}": True}))
        time.sleep(0.004)
    assert [each["counted"] for each in responses(streamed, "count")] == list(range(1, 13))
    session = asking.stored()
    ids, state = [each["id"] for each in session["events"]], session["state"]
    assert len(edited) > 12
    assert set(edited) < set(ids)
    assert len(ids) == len(set(ids)) == len(edited) + 26
    assert (state["counted"], state["price"]) == (12, len(edited) - 1)
    assert [number for number in range(len(edited)) if f"edit{number}" not in state] == []
