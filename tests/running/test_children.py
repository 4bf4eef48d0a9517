"""adkweb starts agents in processes of their own, finds them again, and ends them."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from django.test import override_settings

from sessions_app.domain.errors import AgentError, Conflict
from sessions_app.running import children
from tests.running.asking import Asking, gone, responses, stored
from tests.support.at_work import until

pytestmark = pytest.mark.usefixtures("own_of_module")


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    """Sets what agents need, and what they must not get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMINI_KEY", "for agents")
        patch.setenv("ADKWEB_SECRET_KEY", "for adkweb")
        patch.setenv("DJANGO_SETTINGS_MODULE", os.environ["DJANGO_SETTINGS_MODULE"])
        patch.setenv("LC_ALL", "C")
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


@pytest.fixture
def child(agents: Path) -> children.Child:
    """Returns the child of the module's folder."""
    return children.of(agents, sessions=None, artifacts=None)


def pid_of(child: children.Child) -> int:
    """Returns the process of a child, as its agent says."""
    asking = Asking(child.url, child.headers, ("ana", f"pid-{time.monotonic_ns()}"))
    asking.create()
    (answer,) = responses(asking.run("look"), "look")
    return int(answer["pid"])


def soon(holds: Callable[[], bool]) -> bool:
    """Returns whether something holds within two seconds."""
    end = time.monotonic() + 2
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def test_agents_do_not_get_the_urls_of_other_sources(
    own: str, open_source: Callable[[str], str], new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database("postgresql")
    alias = open_source(url)
    monkeypatch.setenv("PRODUCTION", url)
    assert children.environment(alias)["PRODUCTION"] == url
    assert "PRODUCTION" not in children.environment("another")


def test_all_who_ask_at_once_get_the_same_child(agents: Path) -> None:
    got: list[children.Child] = []
    asking = [
        threading.Thread(target=lambda: got.append(children.of(agents, sessions=None, artifacts=None)))
        for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(got) == 8
    assert len({each.url for each in got}) == 1


@pytest.mark.guarantee(
    "Agents", "An agent that adkweb runs is in a process of its own, which gets none of adkweb's secrets."
)
def test_an_agent_gets_the_machines_environment_without_adkwebs(child: children.Child) -> None:
    asking = Asking(child.url, child.headers, ("ana", "environment"))
    asking.create()
    (answer,) = responses(asking.run("look"), "look")
    environment, command = answer["environment"], psutil.Process(answer["pid"]).cmdline()
    assert answer["pid"] != os.getpid()
    assert environment["GEMINI_KEY"] == "for agents"
    assert [name for name in environment if name.startswith(("ADKWEB_", "DJANGO_"))] == []
    token = child.headers["Authorization"].removeprefix("Bearer ")
    assert token not in " ".join([*environment.values(), *command])


def test_what_agents_print_is_kept_but_not_without_end(child: children.Child) -> None:
    asking = Asking(child.url, child.headers, ("ana", "loud"))
    asking.create()
    asking.run("look")
    assert soon(lambda: {"helper is loaded", "looking → 서울"} <= set(child.log))
    asking.run("shout")
    assert soon(lambda: "x" * children.LINE in child.log)
    assert max(map(len, child.log)) == children.LINE
    asking.run("shout " * 4)
    assert soon(lambda: len(child.log) == children.LINES)


def test_a_child_that_died_is_started_again(child: children.Child, agents: Path) -> None:
    pid = pid_of(child)
    psutil.Process(pid).kill()
    until(lambda: not child.is_running)  # its first thread may be gone before the others are
    another = children.of(agents, sessions=None, artifacts=None)
    assert another.url != child.url
    assert pid_of(another) != pid


def test_a_child_leaves_when_nobody_has_used_it_for_a_while(
    monkeypatch: pytest.MonkeyPatch, child: children.Child, agents: Path
) -> None:
    child.stop(is_needed=False)
    assert not child.is_running
    monkeypatch.setattr(children, "IDLE_SECONDS", 0.5)
    child = children.of(agents, sessions=None, artifacts=None)
    asking = Asking(child.url, child.headers, ("ana", "idle"))
    asking.create(seconds=1.5)
    assert responses(asking.run("pause"), "pause")
    assert child.is_running
    assert soon(lambda: not child.is_running)


def test_a_command_waits_for_the_runs_of_others_in_its_child(child: children.Child, agents: Path) -> None:
    child.stop(is_needed=False)
    child = children.of(agents, sessions=None, artifacts=None)
    asking = Asking(child.url, child.headers, ("ana", "others"))
    asking.create(seconds=1.0)
    called = threading.Event()
    answers: list[object] = []
    other = threading.Thread(
        target=lambda: answers.extend(responses(asking.run("pause", lambda event: called.set()), "pause"))
    )
    other.start()
    assert called.wait(10)
    children.await_others()
    other.join(5)
    assert answers
    assert soon(lambda: not child.is_running)


def test_a_child_that_a_tool_blocks_is_stopped_only_if_no_run_needs_it(child: children.Child, agents: Path) -> None:
    asking = Asking(child.url, child.headers, ("ana", "blocked"))
    asking.create()
    asking.begin("block")
    assert children.of(agents, sessions=None, artifacts=None).url == child.url
    with pytest.raises(Conflict):
        child.stop(is_needed=True)
    child.stop(is_needed=False)
    assert not child.is_running


def test_the_interpreter_is_the_one_beside_the_agents(tmp_path: Path) -> None:
    agents = tmp_path / "project" / "agents"
    agents.mkdir(parents=True)
    assert children.interpreter(agents) == sys.executable
    for folder in (agents.parent, agents):
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        assert children.interpreter(agents) == str(python)
    with override_settings(AGENT_PYTHON="/opt/python"):
        assert children.interpreter(agents) == "/opt/python"


def test_an_interpreter_without_what_agents_need_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    python = tmp_path / ".venv" / "bin" / "python"
    with pytest.raises(AgentError) as refused:
        children.of(tmp_path, sessions=None, artifacts=None)
    assert refused.value.message.endswith(f"{python} -m pip install 'google-adk>=2.13'")
    with pytest.raises(AgentError, match=r"'google-adk\[db\]>=2.13' asyncpg$"):
        children.of(tmp_path, sessions="postgresql+asyncpg:///?dsn=x", artifacts=None)
    (tmp_path / "google_adk-2.12.3.dist-info").mkdir()
    (tmp_path / "google_adk-2.12.3.dist-info" / "METADATA").write_text("Name: google-adk\nVersion: 2.12.3\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with pytest.raises(AgentError, match=r"needs google-adk>=2\.13\."):
            children.of(tmp_path, sessions=None, artifacts=None)
    python.unlink()
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(AgentError, match="isn't a Python that can run agents"):
        children.of(tmp_path, sessions=None, artifacts=None)


def test_agents_that_do_not_start_leave_their_last_words(tmp_path: Path) -> None:
    (tmp_path / "services.py").write_text("import sys\nsys.exit('no key for the store')\n")
    with pytest.raises(AgentError, match="no key for the store"):
        children.of(tmp_path, sessions=None, artifacts=None)
    assert children.output(tmp_path, None)[-1] == "no key for the store"
    with pytest.raises(AgentError, match="No such file or directory"):
        children.of(tmp_path / "nowhere", sessions=None, artifacts=None)


def test_all_children_end_with_adkweb(agents: Path, child: children.Child) -> None:
    pid = pid_of(child)
    asking = Asking(child.url, child.headers, ("ana", "last"))
    asking.create()
    asking.begin("pause")
    children.stop_all(4)
    assert gone(pid, 0)
    assert stored(agents, "last")[-1]["error_code"] == "INVOCATION_ABORTED"
