"""A thread that does something every so many seconds, until it is ended."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, connections

log = logging.getLogger("adkweb.threads")

T = TypeVar("T")


class Ticker(threading.Thread):
    """A thread that calls `tick` every `seconds`, the first time after `first`, and at once when it is woken.

    An error is logged, and the thread continues."""

    def __init__(self, name: str, seconds: float, first: float = 0.0) -> None:
        super().__init__(name=f"adkweb-{name}", daemon=True)
        self.seconds = seconds
        self.ended = False
        self._first = first
        self._woken = threading.Event()

    def tick(self) -> float | None:
        """Does the work. Returns the seconds until the next time; None for `seconds`."""
        raise NotImplementedError

    def close(self) -> None:
        """Does what is left to do when the thread has been ended."""

    def wake(self) -> None:
        """Makes the thread tick at once."""
        self._woken.set()

    def end(self) -> None:
        """Ends the thread after its current work."""
        self.ended = True
        self._woken.set()

    def run(self) -> None:
        """Ticks until the thread is ended."""
        rest: float | None = self._first
        while True:
            self._woken.wait(self.seconds if rest is None else rest)
            self._woken.clear()
            if self.ended:
                break
            rest = self._survive(self.tick)
        self._survive(self.close)
        connections.close_all()

    def _survive(self, do: Callable[[], T]) -> T | None:
        try:
            return do()
        except DatabaseError as error:  # of adkweb's own database
            log.warning("%s waits: %s", self.name, error)
            connections["default"].close_if_unusable_or_obsolete()
        except Exception:
            log.exception("%s", self.name)
        return None
