"""The process of an agent, which replays its sessions or continues one: replayer.py."""

import json
import os
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from django.utils.translation import gettext as _

from ..domain.errors import AgentError
from ..running import children

SECONDS: Final = 60.0  # that an answer may take
_REPLAYER: Final = Path(__file__).with_name("replayer.py")
_LAST: Final = 2_000  # characters of what a process has printed last


class Process:
    """A process of replayer.py."""

    def __init__(self, key: tuple[str, str], folder: Path, *, run_code: bool, what_if: bool = False) -> None:
        """Starts it for the agent of a source and an app. Raises AgentError if the agent can't be loaded."""
        self.key = key
        python = children.interpreter(folder)
        children.check(python, None, key[0])
        self._printed: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._popen = subprocess.Popen(
            [python, str(_REPLAYER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            cwd=folder,
            env=children.environment(key[0]),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        order = {"folder": str(folder), "app": key[1], "run_code": run_code, "what_if": what_if}
        if error := self.answer(json.dumps(order)).get("error"):
            self.end()
            raise AgentError(_("The agent can't be loaded: %(error)s") % {"error": error})

    @property
    def is_running(self) -> bool:
        """Returns whether it answers."""
        return self._popen.poll() is None

    def answer(self, line: str) -> dict[str, Any]:
        """Returns the answer to a line. Raises what `read` does."""
        self.send(line)
        return self.read()

    def send(self, line: str) -> None:
        """Sends a line. If the process has ended, `read` says so."""
        with suppress(OSError, ValueError):
            print(line, file=self._popen.stdin, flush=True)

    def read(self, seconds: float = 0.0) -> dict[str, Any]:
        """Returns the next line. Raises AgentError if it ends without one, or takes longer than so many seconds, or SECONDS:
        then it is ended."""
        seconds = seconds or SECONDS
        late = threading.Timer(seconds, self._popen.kill)
        late.start()
        started = time.monotonic()
        try:
            return dict(json.loads(self._popen.stdout.readline() if self._popen.stdout else ""))
        except (OSError, ValueError) as error:
            last = self._last()
            self.end()
            if time.monotonic() - started >= seconds:
                raise AgentError(_("The agent took longer than %(n)s seconds.") % {"n": int(seconds)}) from error
            raise AgentError(
                _("The process of the agent has ended. The last lines of its output: %(lines)s")
                % {"lines": last or "–"}
            ) from error
        finally:
            late.cancel()

    def kill(self) -> None:
        """Ends it from another thread: who reads from it gets AgentError."""
        self._popen.kill()

    def _last(self) -> str:
        with suppress(OSError, ValueError):
            self._printed.seek(0, os.SEEK_END)
            self._printed.seek(max(0, self._printed.tell() - _LAST))
            return self._printed.read().strip()
        return ""

    def end(self) -> None:
        """Ends it."""
        self.kill()
        self._popen.wait()
        for each in (self._popen.stdin, self._popen.stdout, self._printed):
            with suppress(OSError):
                if each:
                    each.close()
