"""Replays stored sessions against the code of their agents, in processes of their own.

    for replayed in replaying.replays(refs, actor=TERMINAL):
        replayed.ref, replayed.result, replayed.why

Each app has its own process, which ends when its sessions are done. It gets the values of the sessions, whatever rules hide;
what it answers is shown as its actor may see it.
"""

import json
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
    turn: int = 0  # of the event

    def seen(self, actor: Actor) -> "Replayed":
        """Returns it as an actor may see it."""
        app = self.ref.app_name
        return replace(
            self,
            expected=_shown(self.what, self.expected, app, actor),
            got=_shown(self.what, self.got, app, actor),
            why=shown_words(self.why, actor, app),
        )

    @classmethod
    def undecided(cls, ref: SessionRef, why: str) -> "Replayed":
        """Returns that nothing is known, and why."""
        return cls(ref, UNDECIDED, why=why)


def replays(
    refs: Iterable[SessionRef], *, actor: Actor, folder: Path | None = None, run_code: bool = False
) -> Generator[Replayed]:
    """Yields the outcomes for sessions, in their order. `folder` has their agents; None for those that adkweb knows.

    With `run_code`, functions of workflows and agents of other classes run, and may do anything."""
    with _Processes(folder, run_code) as processes, ThreadPoolExecutor(PROCESSES) as pool:
        waiting: deque[tuple[SessionRef, str | Error, Future[dict[str, Any]]]] = deque()
        try:
            for ref in refs:
                recorded = _recorded(ref)
                waiting.append((ref, recorded, pool.submit(processes.outcome, ref, recorded)))
                while len(waiting) > 2 * PROCESSES:
                    yield _replayed(*waiting.popleft()).seen(actor)
            while waiting:
                yield _replayed(*waiting.popleft()).seen(actor)
        finally:
            pool.shutdown(
                wait=False, cancel_futures=True
            )  # who stops waits only for the sessions that are being replayed


def _recorded(ref: SessionRef) -> str | Error:
    try:
        return json.dumps(recording.of(ref, actor=SYSTEM))
    except Error as error:
        return error


def _replayed(ref: SessionRef, recorded: str | Error, done: "Future[dict[str, Any]]") -> Replayed:
    try:
        answer = done.result()
    except Error as error:
        return Replayed.undecided(ref, error.message)
    turn = _turn(json.loads(recorded)["events"], answer["event"]) if isinstance(recorded, str) else 0
    return Replayed(ref, **answer, turn=turn)


def _turn(events: list[dict[str, Any]], event_id: str) -> int:
    """Returns the number of the turn that an event is in: of messages of the user up to it."""
    turn = 0
    for event in events if event_id else ():
        parts = (event.get("content") or {}).get("parts") or ()
        turn += event.get("author") == "user" and any("text" in part for part in parts)
        if event.get("id") == event_id:
            return turn
    return 0


def _shown(what: str, value: Any, app_name: str, actor: Actor) -> Any:
    if what == "state" and isinstance(value, dict):
        return shown({"actions": {"state_delta": value}}, actor, app_name, "event")["actions"]["state_delta"]
    said = {"function_response": {"response": {"said": value}}}
    (part,) = shown({"content": {"parts": [said]}}, actor, app_name, "event")["content"]["parts"]
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
