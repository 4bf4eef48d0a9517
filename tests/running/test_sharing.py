"""All adkweb processes on a machine, with the same own database, share one child for each folder of agents."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings as django_settings
from django.db import connections

from sessions_app.access import at_rest
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import process
from sessions_app.models import AgentChild, Job
from sessions_app.running import children, runs, servers
from sessions_app.running.session_uris import session_uri
from sessions_app.writes.sessions import create_session
from tests.running.test_answers import ended, rows
from tests.support import warm
from tests.support.at_work import until

ROOT = Path(__file__).parents[2]
ON = [("sqlite",) * 2, pytest.param("postgresql", "postgresql", marks=pytest.mark.long)]
BOTH = pytest.mark.parametrize(("own", "source"), ON, indirect=True)


class Neighbour:
    """Another adkweb process on this test's databases."""

    def __init__(self, own: str, address: str, agents: Path, idle: float) -> None:
        environment = {
            **os.environ,
            "ADKWEB_DATABASE_URL": own,
            "ADKWEB_DATA_DIR": str(django_settings.DATA_DIR),
            "ADKWEB_SECRET_KEY": django_settings.SECRET_KEY,
            "DJANGO_SETTINGS_MODULE": "adkweb.settings",
        }
        command = [sys.executable, "-m", "tests.running.neighbour"]
        self.process = warm.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.tell(source=address, agents=str(agents), idle=idle)
        assert self.heard() == "ready"

    def tell(self, **order: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def asks(self, folder: Path, when: float = 0.0) -> list[Any]:
        """Has it ask for a child. Returns its address, since when it is up, and what it has printed."""
        self.tell(folder=str(folder), at=when)
        told: list[Any] = self.heard()
        return told

    def children(self) -> list[psutil.Process]:
        """The servers of agents that it has started, and that haven't ended or that it hasn't waited for."""
        return psutil.Process(self.process.pid).children()

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(10)


@pytest.fixture
def neighbour(own: str, source: str, agents: Path) -> Iterator[Callable[..., Neighbour]]:
    """Starts another adkweb process."""
    known: dict[str, Any] = connections.databases[source]
    address = known["ADKWEB"].get("path") or "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**known)
    started: list[Neighbour] = []

    def start(idle: float = 600) -> Neighbour:
        started.append(Neighbour(own, address, agents, idle))
        return started[-1]

    yield start
    for each in started:
        each.end()
        if each.process.stdout:
            each.process.stdout.close()


def here(source: str, agents: Path) -> children.Child:
    return children.of(agents, sessions=session_uri(source), artifacts=None)


def paused(source: str, name: str, seconds: float) -> tuple[SessionRef, Job]:
    """A run of this process, whose agent has called a tool that takes some seconds."""
    ref = create_session(source, "helper", "ana", session_id=name, state={"seconds": seconds}, actor=SYSTEM)
    job = runs.say(ref, "pause", actor=SYSTEM)
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    return ref, job


@pytest.mark.guarantee("Agents", "All adkweb processes on a machine share one process for the agents of a folder.")
@BOTH
@pytest.mark.parametrize("trials", [2, pytest.param(20, marks=pytest.mark.long)])
def test_of_two_processes_that_ask_at_the_same_moment_one_starts_the_child(
    source: str,
    neighbour: Callable[..., Neighbour],
    tmp_path: Path,
    trials: int,
) -> None:
    pair = neighbour(), neighbour()
    for number in range(trials):
        folder = tmp_path / f"agents-{number}"
        (folder / "helper").mkdir(parents=True)
        (folder / "helper" / "agent.py").touch()
        for each in pair:
            each.tell(folder=str(folder), at=time.time() + 0.5)
        (url, *_more), (other, *_rest) = [each.heard() for each in pair]
        assert url == other
        assert sum(len(each.children()) for each in pair) == 1
        child = here(source, folder)
        assert child.url == url
        child.stop(is_needed=False)


@BOTH
def test_every_process_shows_the_same_and_can_stop_the_child(
    source: str,
    neighbour: Callable[..., Neighbour],
    agents: Path,
) -> None:
    owner = neighbour()
    owner.asks(agents)
    ref, job = paused(source, "s1", 30)
    url, since, _said = owner.asks(agents)
    assert here(source, agents).url == url
    (facts,) = servers.facts(source, ["helper"], actor=SYSTEM)
    assert (str(facts.since), facts.runs) == (since, 1)
    said = until(
        lambda: (lines := servers.output(source, "helper", actor=SYSTEM)) == owner.asks(agents)[2] and lines, "the same"
    )
    assert "helper is loaded" in said
    with pytest.raises(Conflict, match="An agent of this folder is running"):
        servers.stop(source, "helper", actor=SYSTEM)
    runs.stop(ref, actor=SYSTEM)
    assert ended(job).message == "Stopped by adkweb."
    servers.stop(source, "helper", actor=SYSTEM)
    assert servers.facts(source, ["helper"], actor=SYSTEM)[0].since is None
    until(lambda: not owner.children(), "that its owner has waited for it", seconds=2)
    assert set(said) <= set(servers.output(source, "helper", actor=SYSTEM))
    assert owner.asks(agents)[0] != url


@BOTH
def test_a_child_stays_as_long_as_another_process_uses_it(
    source: str,
    neighbour: Callable[..., Neighbour],
    agents: Path,
) -> None:
    owner = neighbour(idle=0.5)
    owner.asks(agents)
    ref, job = paused(source, "s1", 2)
    assert ended(job).state == "done"
    assert [each.pid for each in owner.children()] != []
    until(lambda: not owner.children(), "that it leaves", seconds=3)
    assert ended(runs.say(ref, "look", actor=SYSTEM)).state == "done"
    assert owner.children() == []


@pytest.mark.guarantee(
    "Agents", "If the adkweb process that started an agent is killed, another one says so and starts it again."
)
@BOTH
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_when_the_owner_is_gone_its_neighbours_run_ends_and_the_next_one_starts_a_child(
    source: str,
    neighbour: Callable[..., Neighbour],
    agents: Path,
    kill: bool,
) -> None:
    owner = neighbour()
    url, *_more = owner.asks(agents)
    ref, job = paused(source, "s1", 30)
    owner.end(kill=kill)
    gone = time.monotonic()
    job = ended(job)
    assert (job.state, job.message) == ("stopped", "The agent's process ended while the agent was running.")
    assert rows(ref)[-1].data["error_code"] == "INVOCATION_ABORTED"
    assert ended(runs.say(ref, "look", actor=SYSTEM)).state == "done"
    assert time.monotonic() - gone < 10
    assert here(source, agents).url != url


def test_who_died_while_it_started_a_child_keeps_nobody_waiting(source: str, agents: Path) -> None:
    child = here(source, agents)
    with subprocess.Popen(["sleep", "60"]) as dead:
        died = process.name_of(dead.pid)
        dead.kill()
    for name, since in ((died, time.time()), (process.this(), time.time() - 60)):
        AgentChild.objects.update(secret="", process=name, since=since)
        began = time.monotonic()
        child, before = here(source, agents), child
        assert child.url != before.url
        assert time.monotonic() - began < 10


def test_a_child_that_runs_for_weeks_is_not_forgotten(source: str, agents: Path, tmp_path: Path) -> None:
    child = here(source, agents)
    AgentChild.objects.update(since=time.time() - 8 * 86_400)
    AgentChild.objects.create(key="of a machine that is gone", process="boot/pid:[1]/2/3", since=0.0)
    children.of(tmp_path, sessions=session_uri(source), artifacts=None)
    assert (here(source, agents).url, AgentChild.objects.count()) == (child.url, 2)


def test_output_that_is_being_written_or_was_cut_by_a_full_disk_can_be_read(source: str, agents: Path) -> None:
    here(source, agents)
    (output,) = (Path(django_settings.DATA_DIR) / "output").glob(f"{AgentChild.objects.get().key}-*")
    output.write_bytes("one\nseoul: 서".encode()[:-1])
    assert servers.output(source, "helper", actor=SYSTEM) == ["one"]
    output.write_bytes("one\nseoul: 서".encode()[:-1] + b"\n")
    assert servers.output(source, "helper", actor=SYSTEM)[0] == "one"


def test_a_row_that_adkweb_did_not_write_is_no_child(source: str, agents: Path) -> None:
    child = here(source, agents)
    row = AgentChild.objects.get()
    token = child.headers["Authorization"].removeprefix("Bearer ")
    assert token not in json.dumps([row.key, row.process, row.secret])
    for secret in ("forged", row.secret[:-4] + "AAAA"):
        AgentChild.objects.update(secret=secret)
        assert servers.facts(source, ["helper"], actor=SYSTEM)[0].since is None
        assert here(source, agents).url != child.url
    other = agents.with_name("other")
    other.mkdir(exist_ok=True)
    children.of(other, sessions=session_uri(source), artifacts=None)
    moved = AgentChild.objects.exclude(key=row.key).get()
    AgentChild.objects.filter(key=row.key).update(secret=moved.secret, process=moved.process)
    assert children.known(agents, session_uri(source)) is None


@pytest.mark.guarantee("Safety", "What is sent to an agent never reaches another program that has its port by now.")
@pytest.mark.parametrize("silent", [False, True], ids=["answers", "silent"])
@pytest.mark.parametrize("known", [True, False], ids=["proc", "no-proc"])
def test_a_stranger_who_has_the_port_of_a_child_gets_nothing(
    source: str, agents: Path, monkeypatch: pytest.MonkeyPatch, silent: bool, known: bool
) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as stranger, ExitStack() as opened:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    over, _address = stranger.accept()
                    opened.enter_context(over)
                    heard.append(over.recv(10_000))
                    if not silent:
                        over.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                        over.close()

        threading.Thread(target=listen, daemon=True).start()
        child = here(source, agents)
        child.stop(is_needed=False)
        row = AgentChild.objects.get()
        token = child.headers["Authorization"].removeprefix("Bearer ")
        secret = json.dumps({"port": stranger.getsockname()[1], "token": token})
        row.secret = at_rest.encrypted(secret, f"adkweb.agent_child {row.key}")
        if not known:
            row.process = ""
        elif not silent:
            row.process = process.this()  # which lives: it is as if a child were leaving
        row.save()
        old = children.known(agents, session_uri(source))
        assert old
        assert not old.ask_to_leave()
        assert here(source, agents).url not in (old.url, child.url)
        stranger.shutdown(socket.SHUT_RDWR)
    assert token.encode() not in b"".join(heard)
    assert heard
