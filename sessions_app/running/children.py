"""Starts, finds and stops the servers of agents: processes of launcher.py.

    child = children.of(folder, sessions=session_uri(alias), artifacts=None)
    …                            # requests to child.url with child.headers

All adkweb processes on a machine with the same own database share one child for each folder and store: an AgentChild says
where it is. Whoever makes that row starts the child. The child leaves ten minutes after its last request, whoever sent it,
and when the adkweb that started it ends, however it ends.
"""

import hmac
import http.client
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from ..access import at_rest
from ..domain.errors import AgentError, Conflict
from ..jobs import process
from ..models import AgentChild
from ..sources import registry
from ..sources.finding import in_shell

IDLE_SECONDS = 600.0  # until an unused child leaves
READY_SECONDS: Final = 15.0  # that a child may take to start
LEAVING_SECONDS: Final = 4.0  # that it may take to leave; it wants three at most
LINES: Final = 200  # of a child's output that are kept
LINE: Final = 2_000  # characters of a line that are kept
_STARTING_SECONDS: Final = READY_SECONDS + 5  # that a row without a child is believed
_LOOK_SECONDS: Final = 0.05  # between two looks whether a child has started, or has left
_ANSWER_SECONDS: Final = 2.0  # that a child may take to say that it is there
_AWAITED_SECONDS: Final = 0.5  # between two looks whether others still need a child
_KEPT_SECONDS: Final = 7 * 86_400.0  # that a row is kept whose machine may be gone
_PURPOSE: Final = "adkweb.agent_child"
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
    """The server that runs the agents of a folder, whichever adkweb process started it."""

    is_remote = False

    def __init__(self, row: AgentChild) -> None:
        """Reads where it is. Raises ValueError if this adkweb didn't write that."""
        secret = json.loads(at_rest.decrypted(row.secret, f"{_PURPOSE} {row.key}"))
        self._port, self._token = int(secret["port"]), str(secret["token"])
        self._key, self._process = row.key, row.process
        self._output = _output_of(row)
        self.url = f"http://127.0.0.1:{self._port}"
        self.headers: Mapping[str, str] = {"Authorization": f"Bearer {self._token}"}
        self.since = datetime.fromtimestamp(row.since, UTC)

    @property
    def log(self) -> list[str]:
        """Returns the last lines of what it and its agents have printed. Anything may be in them."""
        return _lines(self._output)

    @property
    def is_running(self) -> bool:
        """Returns whether its process is there; on a system without /proc, whether something listens where it did."""
        if self._process:
            return not process.has_died(self._process)
        if self._is_own:
            return True
        with suppress(OSError), closing(self.connect(_ANSWER_SECONDS)):
            return True
        return False

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Returns an open connection to its server. Raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)
        connection.connect()
        return connection

    @property
    def _is_own(self) -> bool:
        own = _own.get(self._key)
        return own is not None and own[0].poll() is None

    def answers(self) -> bool:
        """Returns whether it takes requests, which counts as its use. One that a tool blocks will take them later. Another
        program that has its port by now doesn't count, and learns nothing."""
        proof = self._proof() if self.is_running else False
        return bool(self._process or self._is_own) if proof is None else proof

    def is_blocked(self) -> bool:
        """Returns whether a tool blocks it. If not, it has begun with all that was sent to it before."""
        return self.is_running and self._proof() is None

    def stop(self, *, is_needed: bool) -> None:
        """Ends it, if it is running. The next use starts it anew, with the code as it is then. Raises Conflict while it
        answers someone, or a tool blocks it and it is needed."""
        status = self.ask_to_leave() if self.is_running else 0
        if status == http.HTTPStatus.CONFLICT or (status is None and is_needed):
            raise Conflict(_("An agent of this folder is running. Wait until it is done, or stop it."))
        if status is None:
            process.kill(self._process)
        until = time.monotonic() + LEAVING_SECONDS
        while self.is_running and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def ask_to_leave(self) -> int | None:
        """Has it leave if it answers no one. Returns with which status it answers that: 0 if it doesn't, None if it doesn't
        for now."""
        if (proof := self._proof()) is not True:  # nothing else gets its token
            return None if proof is None else 0
        answer = self._answer("POST", "/adkweb/leave", self.headers)
        return answer and answer[0]

    def _proof(self) -> bool | None:
        """Returns whether what listens on its port has its token; None if it doesn't answer for now."""
        number = secrets.token_hex(16)
        asks, answers = (
            hmac.new(self._token.encode(), f"{word} {number}".encode(), "sha256").hexdigest()
            for word in ("asks", "answers")
        )
        answer = self._answer("GET", "/adkweb/proof", {"Authorization": f"Proof {number} {asks}"})
        return answer and hmac.compare_digest(answer[1], answers.encode())

    def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes] | None:
        """Returns the status and the beginning of its answer, 0 if there is none, and None if there is none for now."""
        try:
            with closing(self.connect(_ANSWER_SECONDS)) as connection:
                connection.request(method, path, headers=dict(headers))
                answer = connection.getresponse()
                return answer.status, answer.read(100)
        except TimeoutError:
            return None
        except (OSError, http.client.HTTPException):
            return 0, b""


def of(folder: Path, *, sessions: str | None, artifacts: str | None, source: str = "") -> Child:
    """Returns the child of a folder of agents, and starts it if it isn't running.

    `sessions` is where its agents keep their sessions (session_uri), None for each agent's own `.adk/session.db`;
    `artifacts` likewise. `source` is the alias of that, whose URL they may know. Raises AgentError."""
    folder = folder.resolve()
    key, python = _key(folder, sessions), ""
    until = time.monotonic() + 2 * _STARTING_SECONDS
    while time.monotonic() < until:
        row = AgentChild.objects.filter(key=key).first()
        if row and row.secret and (child := _child(row)) and child.answers():
            return child
        if row and not row.secret and _is_starting(row):
            time.sleep(_LOOK_SECONDS)
            continue
        if not python:
            python = interpreter(folder)
            check(python, sessions, source)
        if row:
            _forget(row)
        try:
            with transaction.atomic():
                row = AgentChild.objects.create(key=key, process=process.this(), since=time.time())
        except IntegrityError:  # another thread or process was faster
            continue
        for old in AgentChild.objects.filter(since__lt=time.time() - _KEPT_SECONDS):
            if not old.process.startswith(f"{process.machine()}/") or process.has_died(old.process):
                _forget(old)
        return _started(row, python, folder, {"sessions": sessions, "artifacts": artifacts}, source)
    raise _not_started(folder, [])


def output(folder: Path, sessions: str | None) -> list[str]:
    """Returns the last lines of what the child of a folder and store has printed, or the last one, even if it didn't start.
    Anything may be in them."""
    row = AgentChild.objects.filter(key=_key(folder.resolve(), sessions)).first()
    return _lines(_output_of(row)) if row else []


def known(folder: Path, sessions: str | None, among: Mapping[str, AgentChild] | None = None) -> Child | None:
    """Returns the child that a folder and store have, or had last; `among` all rows, if they have been read (`rows`)."""
    row = (rows() if among is None else among).get(_key(folder.resolve(), sessions))
    return _child(row) if row and row.secret else None


def rows() -> dict[str, AgentChild]:
    """Returns the rows of all children, by their keys."""
    return {row.key: row for row in AgentChild.objects.all()}


def _key(folder: Path, sessions: str | None) -> str:
    """Returns the name of a folder and store on this machine, for all who have the same secret key. It shows none of
    them: the store's URI may have a password."""
    machine = process.machine() or socket.gethostname()
    return salted_hmac(_PURPOSE, json.dumps([machine, str(folder), sessions]), algorithm="sha256").hexdigest()


def _child(row: AgentChild) -> Child | None:
    with suppress(ValueError):
        return Child(row)
    return None


def _is_starting(row: AgentChild) -> bool:
    return abs(time.time() - row.since) < _STARTING_SECONDS and not process.has_died(row.process)


def _forget(row: AgentChild) -> None:
    """Deletes the row of a child that has ended, and its output. A row that was made since has another id."""
    AgentChild.objects.filter(pk=row.pk).delete()
    _remove(_output_of(row))


def _output_of(row: AgentChild) -> Path:
    return Path(settings.DATA_DIR) / "output" / f"{row.key}-{row.pk}"


def _remove(output: Path) -> None:
    with suppress(OSError):
        output.unlink()


def _lines(output: Path) -> list[str]:
    with suppress(OSError):
        return output.read_text("utf-8", "replace").split("\n")[:-1][-LINES:]
    return []


def _not_started(folder: Path, lines: list[str]) -> AgentError:
    return AgentError(
        _("The agents in %(folder)s didn't start. The last lines of their output: %(lines)s")
        % {"folder": folder, "lines": "\n".join(lines) or "–"}
    )


# --- The children that this process starts ----------------------------------------------------------------------------

_own: Final[dict[str, tuple[subprocess.Popen[str], Path]]] = {}  # by the keys of their rows, each with its output
_lock: Final = threading.Lock()


def _started(row: AgentChild, python: str, folder: Path, order: dict[str, str | None], source: str) -> Child:
    """Returns the child of a row that this process has just made, as soon as it answers. Raises AgentError."""
    output, token = _output_of(row), secrets.token_urlsafe(32)
    try:
        output.parent.mkdir(mode=0o700, exist_ok=True)
        output.touch(mode=0o600)
        popen = subprocess.Popen(
            [python, str(_LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment(source),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl+C in the terminal is for adkweb, which then ends its children
        )
    except OSError as error:
        _forget(row)
        raise _not_started(folder, [str(error)]) from error
    with _lock:
        before, _own[row.key] = _own.get(row.key), (popen, output)
    if before:
        _end(before[0], LEAVING_SECONDS)
    reader = threading.Thread(target=_keep, args=(popen, output), name="adkweb-agents", daemon=True)
    reader.start()
    late = threading.Timer(READY_SECONDS, popen.kill)
    late.start()
    try:
        port = _port(popen, {**order, "agents": str(folder), "token": token, "idle": IDLE_SECONDS})
        row.process = process.name_of(popen.pid)
        row.secret = at_rest.encrypted(json.dumps({"port": port, "token": token}), f"{_PURPOSE} {row.key}")
        child = Child(row)
        if not child.answers():
            raise ValueError
        row.save(force_update=True)
        return child
    except DatabaseError:  # no one would know of it
        _end(popen, 0)
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        _end(popen, 0)
        reader.join(1)
        AgentChild.objects.filter(pk=row.pk).update(since=0)  # so that no one waits for it
        raise _not_started(folder, _lines(output)[-5:]) from error
    finally:
        late.cancel()


def _port(popen: subprocess.Popen[str], order: Mapping[str, object]) -> int:
    """Gives a child its order, and returns the port on which it answers."""
    with popen.stdout or open(os.devnull) as answer:
        if popen.stdin:
            popen.stdin.write(json.dumps(order) + "\n")
            popen.stdin.flush()
        return int(json.loads(answer.readline())["port"])


def _keep(popen: subprocess.Popen[str], output: Path) -> None:
    """Keeps the last lines of what a child prints, and the beginning of long ones, in a file, until the child has ended."""
    last: deque[str] = deque(maxlen=LINES)
    written, begins = 0, True
    with popen.stderr or open(os.devnull) as printed, output.open("w", encoding="utf-8") as file:
        while piece := printed.readline(LINE):
            if begins:
                last.append(piece.rstrip("\n") + "\n")
                with suppress(OSError):  # a full disk is no reason to keep agents from printing
                    if written == 2 * LINES:
                        file.seek(0)
                        file.truncate()
                        written = LINES - 1
                        file.writelines([*last][:-1])
                    file.write(last[-1])
                    file.flush()
                    written += 1
            begins = piece.endswith("\n")
    popen.wait()  # else a process that has left stays in the system's list


def stop_all(seconds: float) -> None:
    """Ends all children that this process has started, those by force that aren't gone after some seconds."""
    with _lock:
        own = list(_own.values())
        _own.clear()
    for popen, _output in own:
        _leave(popen)
    deadline = time.monotonic() + seconds
    for popen, output in own:
        _end(popen, max(0.0, deadline - time.monotonic()))
        _remove(output)


def await_others() -> None:
    """Returns when no other process has a run in a child that this process has started: the run would end with the child."""
    with _lock:
        keys = list(_own)
    for row in AgentChild.objects.filter(key__in=keys):
        while (child := _child(row)) and child.is_running and child.ask_to_leave() == http.HTTPStatus.CONFLICT:
            time.sleep(_AWAITED_SECONDS)


def _leave(popen: subprocess.Popen[str]) -> None:
    """Tells a child to end its runs and to leave."""
    with suppress(OSError):
        if popen.stdin:
            popen.stdin.close()


def _end(popen: subprocess.Popen[str], seconds: float) -> None:
    """Ends a child; by force if it isn't gone after some seconds."""
    _leave(popen)
    try:
        popen.wait(seconds)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()


# --- The interpreter of the agents ------------------------------------------------------------------------------------


def interpreter(folder: Path) -> str:
    """Returns the Python that runs the agents of a folder: ADKWEB_AGENT_PYTHON, their `.venv`, or adkweb's own."""
    if settings.AGENT_PYTHON:
        return str(settings.AGENT_PYTHON)
    beside = (above / ".venv" / "bin" / "python" for above in (folder, folder.parent))
    return next((str(python) for python in beside if python.exists()), sys.executable)


def check(python: str, sessions: str | None, source: str) -> None:
    """Raises AgentError if an interpreter can't run agents that keep their sessions at a URI."""
    scheme = (sessions or "").partition("://")[0]
    drivers = ["sqlalchemy", scheme.partition("+")[2]] if "+" in scheme else []
    try:
        asked = subprocess.run(
            [python, "-c", _VERSIONS, "google-adk", *drivers],
            capture_output=True,
            check=True,
            env=environment(source),
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


def environment(source: str) -> dict[str, str]:
    """Returns the machine's environment, where an agent's keys are, without adkweb's own secrets, and without the URLs of
    other sources than the agent's."""
    urls = registry.urls_beside(source)
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ADKWEB_", "DJANGO_")) and value not in urls
    }
