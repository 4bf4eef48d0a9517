"""Processes of agents that are really started, not forked: one that replays, and one for a what-if."""

from __future__ import annotations

import errno
import json
import socket
import sys

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.transfer import recording
from sessions_app.trying import replaying
from sessions_app.trying.process import Process
from tests.trying.conftest import AGENTS, bread_in, visit
from tests.trying.test_replaying import replayed

pytestmark = pytest.mark.django_db


@pytest.mark.guarantee("Safety", "A replay reaches no network and starts no process, whatever a session holds.")
def test_a_replay_reaches_nothing_whatever_a_session_holds(shop: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        deeds = ("connect", "send", "run", "shell", "fork")
        outcomes = replayed(*(visit(shop, deed, 1, user=deed, do=deed, port=port) for deed in deeds))
        with pytest.raises(BlockingIOError):
            server.accept()
    refused = "PermissionError: A replay reaches no network and starts no process."
    assert [(each.what, each.got) for each in outcomes] == [("error", refused)] * len(deeds)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters system calls")
def test_libraries_that_python_does_not_see_reach_nothing_either(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("SHOP_PORT", str(server.getsockname()[1]))
        monkeypatch.setattr(replaying, "PROCESSES", 1)
        called, sent = replayed(*(visit(shop, deed, 1, user=deed, do=deed) for deed in ("library", "open")))
        connection, _address = server.accept()  # from when the agent was loaded
        with connection:
            assert connection.recv(9) == b""
    assert called.got["said"] == [[-1, -1], -1, errno.EPERM, 127 << 8]
    assert (sent.what, sent.got.partition(":")[0]) == ("error", "OSError")


def test_a_what_if_asks_about_a_call_that_was_not_recorded(shop: str) -> None:
    ref = bread_in(shop)
    recorded = recording.of(ref, actor=SYSTEM)
    process = Process(ref[:2], AGENTS, run_code=False, what_if=True)
    process.send(json.dumps({"at": recorded["events"][0]["id"], "message": "cake"}))
    process.send(json.dumps(recorded))
    lines = [process.read()]
    while "ended" not in lines[-1]:
        if "ask" in lines[-1]:
            process.send(json.dumps({"fail": "no flour"}))
        lines.append(process.read())
    process.end()
    assert [next(iter(each)) for each in lines] == ["begins", "event", "event", "ask", "event", "ended"]
    assert lines[-1]["ended"]["error"] == "ToolFailed: no flour"
