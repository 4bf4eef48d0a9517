"""Replays stored sessions against the code of their agents, in processes of their own.

    for replayed in replaying.replays(refs, actor=TERMINAL):
        replayed.ref, replayed.result, replayed.why

Each app has its own process, which ends when its sessions are done. It gets the values of the sessions, whatever rules hide;
what it answers is shown as its actor may see it.
"""

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.shown import shown, shown_words
from ..domain.errors import AgentError, Error
from ..domain.session_ref import SessionRef
from ..sources import agents
from ..transfer import recording
from .process import Process

SAME, DIVERGED, UNDECIDED = "same", "diverged", "undecided"
PROCESSES: Final = 2  # at once, for one app


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome for a session: adk/replay.py, Outcome."""

    ref: SessionRef
    result: str
    event: str = ""
    what: str = ""
    agent: str = ""
    tool: str = ""
    expected: Any = None
    got: Any = None
    why: str = ""
    unseen: list[str] = field(default_factory=list)

    @classmethod
    def undecided(cls, ref: SessionRef, why: str) -> "Replayed":
        """Returns that nothing is known, and why."""
        return cls(ref, UNDECIDED, why=why)


def replays(
    refs: Iterable[SessionRef], *, actor: Actor, folder: Path | None = None, run_code: bool = False
) -> Iterator[Replayed]:
    """Yields the outcomes for sessions, in their order. `folder` has their agents; None for those that adkweb knows.

    With `run_code`, functions of workflows and agents of other classes run, and may do anything."""
    with _Processes(folder, run_code) as processes, ThreadPoolExecutor(PROCESSES) as pool:
        waiting: deque[tuple[SessionRef, Future[dict[str, Any]]]] = deque()
        for ref in refs:
            waiting.append((ref, pool.submit(processes.outcome, ref, _recorded(ref))))
            while len(waiting) > 2 * PROCESSES:
                yield _seen(*waiting.popleft(), actor)
        while waiting:
            yield _seen(*waiting.popleft(), actor)


def _recorded(ref: SessionRef) -> str | Error:
    try:
        return json.dumps(recording.of(ref, actor=SYSTEM))
    except Error as error:
        return error


def _seen(ref: SessionRef, done: "Future[dict[str, Any]]", actor: Actor) -> Replayed:
    """Returns an outcome as its actor may see it."""
    try:
        answer = done.result()
    except Error as error:
        return Replayed.undecided(ref, shown_words(error.message, actor, ref.app_name))
    expected, got = (_shown(answer["what"], answer[name], ref, actor) for name in ("expected", "got"))
    why = shown_words(answer["why"], actor, ref.app_name)
    return Replayed(ref, **{**answer, "expected": expected, "got": got, "why": why})


def _shown(what: str, value: Any, ref: SessionRef, actor: Actor) -> Any:
    if what == "state" and isinstance(value, dict):
        return shown({"actions": {"state_delta": value}}, actor, ref.app_name, "event")["actions"]["state_delta"]
    said = {"function_response": {"response": {"said": value}}}
    (part,) = shown({"content": {"parts": [said]}}, actor, ref.app_name, "event")["content"]["parts"]
    return part["function_response"]["response"]["said"]


# --- The processes of the agents --------------------------------------------------------------------------------------


class _Processes:
    """Starts a process for each app and thread, and ends them all."""

    def __init__(self, folder: Path | None, run_code: bool) -> None:
        self._folder, self._run_code = folder, run_code
        self._own = threading.local()
        self._all: list[Process] = []
        self._broken: dict[tuple[str, str], AgentError] = {}  # of apps whose agent can't be loaded

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:
            each.end()

    def outcome(self, ref: SessionRef, recorded: str | Error) -> dict[str, Any]:
        """Returns what the agent's process answers to a recording. Raises Error."""
        if isinstance(recorded, Error):
            raise recorded
        key = ref[:2]
        if key in self._broken:
            raise self._broken[key]
        process: Process | None = getattr(self._own, "process", None)
        if process is None or process.key != key or not process.is_running:
            if process:
                process.end()
            try:
                process = self._own.process = Process(key, self._agent(ref), run_code=self._run_code)
            except AgentError as error:
                self._broken[key], self._own.process = error, None
                raise
            self._all.append(process)
        return process.answer(recorded)

    def _agent(self, ref: SessionRef) -> Path:
        """Returns the folder of agents that has the agent of a session. Raises AgentError."""
        agent = agents.agent_of(ref.source, ref.app_name) if self._folder is None else None
        if agent:
            return agent.folder
        for each in (self._folder, self._folder.parent) if self._folder else ():
            if agents.is_name(ref.app_name) and agents.is_folder(each / ref.app_name):
                return each
        raise AgentError(_("There's no folder of the agent “%(app)s”. Name it with --agents.") % {"app": ref.app_name})
