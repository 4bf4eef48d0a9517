"""Waits with a deadline: until something is true, and until the jobs of this process have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sessions_app.jobs import runner

PATIENCE: Final = 60.0  # seconds until what should come counts as lost: other tests may have the machine


def until(condition: Callable[[], Any], what: str = "", seconds: float = PATIENCE) -> Any:
    """Waits until a condition is true, and returns what it gives; fails at the deadline.

    It rests between two looks four times as long as a look takes, as others have something to do, too."""
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not (value := condition()):
        looked = time.monotonic()
        assert looked < deadline, f"{seconds} s, and not yet: {what or condition}"
        time.sleep(max(0.01, 4 * (looked - began)))
        began = time.monotonic()
    return value


def until_worked(condition: Callable[[], Any]) -> Any:
    """Waits until work in the background has made a condition true. A job that a locked table of the tests' database has
    stopped starts again, as the server's worker has it."""

    def look() -> Any:
        runner.take_over()
        return condition()

    return until(look)


def settle(kind: str, seconds: float = 60) -> None:
    """Waits until no job of a kind is under way: "batch", "rule", "fork", "import". A test ends no earlier, and leaves
    no thread to the next one."""
    for thread in threading.enumerate():
        if thread.name == f"adkweb-{kind}":
            thread.join(seconds)
            assert not thread.is_alive(), f"{thread.name} still works after {seconds} s"
