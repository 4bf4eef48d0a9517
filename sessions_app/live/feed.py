"""Serves all who watch one thing with one thread, as long as somebody does: what home_feed.py and watch_feed.py share."""

import logging
import threading
import time
from typing import Any, ClassVar, Final, Self

from django.db import DatabaseError, connections

from ..access import masking
from .client import Watcher, rest_after

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 5.0  # without being told that something moved
INTERVAL_SECONDS: Final = 0.3


class Feed(threading.Thread):
    """The thread that serves the watchers. There is at most one of each kind."""

    current: ClassVar[Self | None] = None
    what: ClassVar = ""  # in the log

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._watchers: dict[Watcher, Any] = {}  # with what each was given
        self._mask = 0  # the rules of masking when everybody was served last
        self._moved = threading.Event()
        self._entered = threading.Event()

    @classmethod
    def admit(cls, watcher: Watcher) -> Self:
        """Adds a watcher and returns the feed. Starts its thread if nobody was watching."""
        with lock:
            feed = cls.current
            if feed is None:
                feed = cls.current = cls()  # type: ignore[call-arg]
                feed.enter(watcher)
                feed.start()
            else:
                feed.enter(watcher)
            return feed

    def enter(self, watcher: Watcher) -> None:
        """Serves a watcher from now on."""
        self._watchers[watcher] = None  # under the lock: see `admit`
        self._moved.set()
        self._entered.set()

    def leave(self, watcher: Watcher) -> None:
        """Forgets a watcher."""
        with lock:
            self._watchers.pop(watcher, None)
        self._moved.set()

    def wake(self) -> None:
        """Makes the thread look at once."""
        self._moved.set()

    def run(self) -> None:
        """Serves the watchers until nobody watches any more."""
        self.begin()
        while not self._has_ended():
            self._moved.clear()
            self._entered.clear()
            began, took = time.monotonic(), 0.0
            try:
                self._mask = masking.digest()
                took = 0.0 if self.serve() else time.monotonic() - began
            except DatabaseError as error:  # of adkweb's own database, which knows who may look
                log.warning("%s: waits: %s", self.what, error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception(self.what)
                self.fail()
            # A new watcher is not kept waiting.
            if self._wait(self._entered, max(INTERVAL_SECONDS, rest_after(took))):
                self._wait(self._moved, LOOK_SECONDS)
        self.end()
        connections.close_all()

    def _wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits for an event. Returns False, at once, if other rules of masking hold: everything has to be made anew."""
        until = time.monotonic() + seconds
        while not event.wait(max(0.0, min(masking.SECONDS, until - time.monotonic()))) and time.monotonic() < until:
            if masking.changed_since(self._mask):
                return False
        return True

    def begin(self) -> None:
        """Prepares what serving needs."""

    def serve(self) -> bool:
        """Sends what is new. Returns whether something did not answer, as waiting for it does not count as work."""
        raise NotImplementedError

    def fail(self) -> None:
        """Does what is to be done after an error of adkweb's own."""

    def end(self) -> None:
        """Undoes what `begin` did, and what serving left behind."""

    def note(self, watcher: Watcher, given: Any) -> None:
        """Notes what a watcher was given."""
        with lock:
            if watcher in self._watchers and not watcher.closed:  # it may have left in the meantime
                self._watchers[watcher] = given
            else:
                self._watchers.pop(watcher, None)

    def dismiss(self, watcher: Watcher, code: int, reason: str) -> None:
        """Forgets a watcher and closes its socket."""
        self._watchers.pop(watcher, None)
        watcher.end(code, reason)

    def _has_ended(self) -> bool:
        with lock:
            if not self._watchers:
                if type(self).current is self:
                    type(self).current = None
                return True
        return False


lock: Final = threading.Lock()
