"""Starts, finds and stops the servers of agents: a process of launcher.py for each folder and store.

    child = children.of(folder, sessions=session_uri(alias), artifacts=None)
    with child.in_use():
        …                        # requests to child.url with child.headers

A child is stopped ten minutes after its last use, and leaves when adkweb ends, however adkweb ends.
"""

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.errors import AgentError, Conflict
from ..sources.finding import in_shell

IDLE_SECONDS = 600.0  # until an unused child is stopped
READY_SECONDS: Final = 15.0  # that a child may take to start
LEAVING_SECONDS: Final = 4.0  # that it may take to leave; it wants three at most
LINES: Final = 200  # of a child's output that are kept
LINE: Final = 2_000  # characters of a line that are kept
_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
OLDEST: Final = (2, 13)  # google-adk
_VERSIONS: Final = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
print(json.dumps([installed(name) for name in sys.argv[1:]]))
"""


class Child:
    """A server that runs the agents of a folder; started when it is made. Raises AgentError if it doesn't start.

    `lines` gets the last lines of its output."""

    is_remote = False

    def __init__(self, folder: Path, sessions: str | None, artifacts: str | None, lines: deque[str]) -> None:
        python = interpreter(folder)
        check(python, sessions)
        token = secrets.token_urlsafe(32)
        self.headers: Mapping[str, str] = {"Authorization": f"Bearer {token}"}
        self.since = timezone.now()
        self._lines = lines
        self._users = 0
        self._lock = threading.Lock()
        self._idle: threading.Timer | None = None
        try:
            self._process = subprocess.Popen(
                [python, str(_LAUNCHER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=_environment(),
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl+C in the terminal is for adkweb, which then ends its children
            )
        except OSError as error:
            raise _not_started(folder, [str(error)]) from error
        reader = threading.Thread(target=self._read, args=(self._process.stderr,), name="adkweb-agents", daemon=True)
        reader.start()
        late = threading.Timer(READY_SECONDS, self._process.kill)
        late.start()
        try:
            self._port = self._started(
                {"token": token, "agents": str(folder), "sessions": sessions, "artifacts": artifacts}
            )
            self.url = f"http://127.0.0.1:{self._port}"
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
            self.stop(0)
            reader.join(1)
            raise _not_started(folder, self.log[-5:]) from error
        finally:
            late.cancel()

    @property
    def log(self) -> list[str]:
        """Returns the last lines of what it and its agents have printed. Anything may be in them."""
        return list(self._lines)

    @property
    def is_used(self) -> bool:
        """Returns whether somebody needs it right now."""
        return self._users > 0

    @property
    def is_running(self) -> bool:
        """Returns whether its process is there."""
        with self._lock:  # while one thread polls, others would be told that it is
            return self._process.poll() is None

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Returns an open connection to its server. Raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)
        connection.connect()
        return connection

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps it from being stopped as idle."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
            self.used()

    def used(self) -> None:
        """Notes that somebody needs it now."""
        with self._lock:
            if self._idle:
                self._idle.cancel()
            self._idle = threading.Timer(IDLE_SECONDS, self._stop_if_idle)
            self._idle.daemon = True
            self._idle.start()

    def leave(self) -> None:
        """Tells it to end its runs and to leave."""
        with suppress(OSError):
            self._pipe.close()

    def stop(self, seconds: float = LEAVING_SECONDS) -> None:
        """Ends it; by force if it isn't gone after some seconds."""
        if self._idle:
            self._idle.cancel()
        self.leave()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _stop_if_idle(self) -> None:
        if not self.is_used:
            self.stop()

    @property
    def _pipe(self) -> IO[str]:
        pipe = self._process.stdin
        if pipe is None:
            raise OSError
        return pipe

    def _started(self, order: dict[str, str | None]) -> int:
        """Returns the port of its server, as soon as that answers."""
        self._pipe.write(json.dumps(order) + "\n")
        self._pipe.flush()
        with self._process.stdout or open(os.devnull) as answer:
            port = int(json.loads(answer.readline())["port"])
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=READY_SECONDS)) as connection:
            connection.request("GET", "/health", headers=self.headers)
            if (status := connection.getresponse().status) != http.HTTPStatus.OK:
                raise ValueError(status)
        return port

    def _read(self, output: IO[str]) -> None:
        """Keeps the last lines of its output, and the beginning of long ones."""
        begins = True
        with output:
            while piece := output.readline(LINE):
                if begins:
                    self._lines.append(piece.rstrip("\n"))
                begins = piece.endswith("\n")


def _not_started(folder: Path, lines: list[str]) -> AgentError:
    return AgentError(
        _("The agents in %(folder)s didn't start. The last lines of their output: %(lines)s")
        % {"folder": folder, "lines": "\n".join(lines) or "–"}
    )


# --- The children of this process -------------------------------------------------------------------------------------


class _Slot:
    """Where the child of a folder and store is, once there is one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: deque[str] = deque(maxlen=LINES)  # which stay when the child has ended
        self.child: Child | None = None


_slots: dict[tuple[Path, str | None], _Slot] = {}
_lock = threading.Lock()


def of(folder: Path, *, sessions: str | None, artifacts: str | None) -> Child:
    """Returns the child of a folder of agents, and starts it if it isn't running.

    `sessions` is where its agents keep their sessions (session_uri), None for each agent's own `.adk/session.db`;
    `artifacts` likewise. Raises AgentError."""
    folder = folder.resolve()
    with _lock:
        slot = _slots.setdefault((folder, sessions), _Slot())
    with slot.lock:
        if slot.child is None or not slot.child.is_running:
            if slot.child:
                slot.child.stop()
            slot.child = None
            slot.lines.clear()
            slot.child = Child(folder, sessions, artifacts, slot.lines)
        slot.child.used()
        return slot.child


def known(folder: Path, sessions: str | None) -> tuple[Child | None, list[str]]:
    """Returns the child of a folder and store if it is running, and the last lines of what it, or the one before, printed.
    Anything may be in them."""
    with _lock:
        slot = _slots.get((folder.resolve(), sessions))
    if slot is None:
        return None, []
    return slot.child if slot.child and slot.child.is_running else None, list(slot.lines)


def stop(folder: Path, sessions: str | None) -> None:
    """Ends the child of a folder and store, if it is running. The next use starts it anew, with the code as it is then.
    Raises Conflict while somebody uses it."""
    child, _lines = known(folder, sessions)
    if child is None:
        return
    if child.is_used:
        raise Conflict(_("An agent of this folder is running. Wait until it is done, or stop it."))
    child.stop()


def stop_all(seconds: float) -> None:
    """Ends all children, those by force that aren't gone after some seconds."""
    with _lock:
        children = [slot.child for slot in _slots.values() if slot.child]
        _slots.clear()
    for child in children:
        child.leave()
    deadline = time.monotonic() + seconds
    for child in children:
        child.stop(max(0.0, deadline - time.monotonic()))


# --- The interpreter of the agents ------------------------------------------------------------------------------------


def interpreter(folder: Path) -> str:
    """Returns the Python that runs the agents of a folder: ADKWEB_AGENT_PYTHON, their `.venv`, or adkweb's own."""
    if settings.AGENT_PYTHON:
        return str(settings.AGENT_PYTHON)
    beside = (above / ".venv" / "bin" / "python" for above in (folder, folder.parent))
    return next((str(python) for python in beside if python.exists()), sys.executable)


def check(python: str, sessions: str | None) -> None:
    """Raises AgentError if an interpreter can't run agents that keep their sessions at a URI."""
    scheme = (sessions or "").partition("://")[0]
    drivers = ["sqlalchemy", scheme.partition("+")[2]] if "+" in scheme else []
    try:
        asked = subprocess.run(
            [python, "-c", _VERSIONS, "google-adk", *drivers],
            capture_output=True,
            check=True,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=READY_SECONDS,
        )
        adk, *versions = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise AgentError(
            _("%(python)s isn't a Python that can run agents. ADKWEB_AGENT_PYTHON can name another one.")
            % {"python": python}
        ) from error
    needed = []
    if tuple(map(int, re.findall(r"\d+", adk)[:2])) < OLDEST:
        needed.append("google-adk>=2.13")
    if "" in versions:
        needed = ["google-adk[db]>=2.13", *drivers[1:]]
    if needed:
        raise AgentError(
            _("To run these agents, %(python)s needs %(packages)s. Install with: %(command)s")
            % {
                "python": python,
                "packages": ", ".join(needed),
                "command": " ".join([in_shell(python), "-m pip install", *map(in_shell, needed)]),
            }
        )


def _environment() -> dict[str, str]:
    """Returns the machine's environment, where an agent's keys are, without adkweb's own secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_"))}
