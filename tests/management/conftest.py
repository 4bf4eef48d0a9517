"""Commands as processes, and an agent that writes beside them."""

from __future__ import annotations

import os
import pty
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.adk.services import Adk
from tests.support import warm
from tests.support.own import started_before
from tests.web.conftest import ROOT

SECONDS = 30
PROGRAM = "from adkweb.cli import main; main()"


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_"))}
    own = {"ADKWEB_DATA_DIR": str(tmp_path / "data"), "PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}
    return {**kept, **own, "ADKWEB_WAIT_SECONDS": "0", **more}


def run(
    tmp_path: Path, *words: str | Path, program: str = PROGRAM, forks_agents: bool = False, **more: str
) -> tuple[int, str, str]:
    """A command, to its end: exit code, output, complaints. With `forks_agents`, it imports nothing anew for agents."""
    done = warm.run(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=tmp_path,
        env=environment(tmp_path, **more),
        capture_output=True,
        text=True,
        timeout=SECONDS * 2,
        check=False,
        forks_agents=forks_agents,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def in_terminal(tmp_path: Path, *words: str, columns: int) -> list[str]:
    """The output of a command in a terminal that is so wide: lines without their colours."""
    above, below = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        env=environment(tmp_path, TZ="UTC", COLUMNS=str(columns), TERM="xterm"),
        stdout=below,
        stderr=below,
    )
    os.close(below)
    text = b""
    with suppress(OSError):  # the end
        while part := os.read(above, 1 << 16):
            text += part
    os.close(above)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text.decode()).splitlines()


@pytest.fixture
def ready(tmp_path: Path, blank: Path) -> None:
    """adkweb's own database, made."""
    started_before(tmp_path / "data", blank)


class Tailing:
    """`adkweb tail` while it runs, line by line."""

    def __init__(self, tmp_path: Path, *words: str | Path, **more: str) -> None:
        self.process = warm.Popen(
            [sys.executable, "-c", PROGRAM, "tail", *map(str, words)],
            cwd=tmp_path,
            env=environment(tmp_path, **{"TZ": "UTC", **more}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._complaints: queue.Queue[str] = queue.Queue()
        for stream, lines in ((self.process.stdout, self._lines), (self.process.stderr, self._complaints)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream: Iterator[str], lines: queue.Queue[str]) -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))

    def line(self, seconds: float = SECONDS) -> str:
        """The next one."""
        return self._lines.get(timeout=seconds)

    def complaint(self) -> str:
        """The next line of standard error."""
        return self._complaints.get(timeout=SECONDS)

    def silent(self, seconds: float = 1.2) -> bool:
        """Whether nothing more comes, on either stream."""
        time.sleep(seconds)
        return self._lines.empty() and self._complaints.empty()

    def says_next(self, words: str) -> bool:
        """Tells whether the next line ends with these words, and nobody complained. A repeated line would come before."""
        return self.line().endswith(words) and self._complaints.empty()

    def interrupt(self) -> int:
        """Ctrl+C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)


@pytest.fixture
def tail(tmp_path: Path) -> Iterator[Callable[..., Tailing]]:
    """Starts `adkweb tail`."""
    started: list[Tailing] = []

    def start(*words: str | Path, **more: str) -> Tailing:
        started.append(Tailing(tmp_path, *words, **more))
        return started[-1]

    yield start
    for tailing in started:
        tailing.process.kill()
        tailing.process.wait()
        for stream in (tailing.process.stdout, tailing.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def agent() -> Iterator[Callable[[str, str], Adk]]:
    """Starts google-adk's own service on a database."""
    started: list[Adk] = []

    def start(form: str, place: str) -> Adk:
        started.append(Adk(form, place))
        return started[-1]

    yield start
    for adk in started:
        adk.close()
