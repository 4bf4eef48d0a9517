"""Feeds the home page: one thread for all who look at it, as long as somebody does."""

import logging
import threading
import time
from typing import Final

from django.db import DatabaseError, connections
from django.utils import translation

from ..access import sign_in
from ..access.actor import PEOPLE
from ..sources import registry
from ..web.lists.feed import activity, parts
from .client import FAULT, SIGNED_OUT, Watcher, push, rest_after
from .source_follower import Follower, follow

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 5.0  # by then, a running invocation may have fallen silent, or a source may have appeared
INTERVAL_SECONDS: Final = 0.3


class Lobby(threading.Thread):
    """The thread that renders home's activity again whenever something moves in any source."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-live-feed", daemon=True)
        self._watchers: dict[Watcher, dict[str, str]] = {}  # with the parts that each was given
        self._moved = threading.Event()
        self._entered = threading.Event()
        self._followers: set[Follower] = set()

    def enter(self, watcher: Watcher) -> None:
        """Serves a watcher from now on."""
        self._watchers[watcher] = {}  # under the lock: see `enter` below
        self._moved.set()
        self._entered.set()

    def leave(self, watcher: Watcher) -> None:
        """Forgets a watcher."""
        with _lock:
            self._watchers.pop(watcher, None)
        self._moved.set()

    def wake(self) -> None:
        """Makes the thread look at once."""
        self._moved.set()

    def run(self) -> None:
        """Serves the watchers until nobody watches any more."""
        while not self._has_ended():
            self._moved.clear()
            self._entered.clear()
            began, took = time.monotonic(), 0.0
            try:
                took = 0.0 if self._serve() else time.monotonic() - began
            except DatabaseError as error:  # of adkweb's own database, which knows who may look
                log.warning("the feed waits: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("the feed")
                for watcher in list(self._watchers):
                    self._dismiss(watcher, FAULT, "fault")
            self._entered.wait(max(INTERVAL_SECONDS, rest_after(took)))  # a new watcher is not kept waiting
            self._moved.wait(LOOK_SECONDS)
        for follower in self._followers:
            follower.do(lambda f=follower: f.hearers.discard(self._moved.set))  # type: ignore[misc]
        connections.close_all()

    def _has_ended(self) -> bool:
        global current
        with _lock:
            if not self._watchers:
                current = None
                return True
        return False

    def _serve(self) -> bool:
        """Makes and sends the parts.

        Returns whether a source did not answer, as waiting for it does not count as work.
        """
        self._followers = {
            follow(source.alias, lambda follower: follower.hearers.add(self._moved.set)) for source in registry.listed()
        }
        watchers = list(self._watchers)
        answer = activity(PEOPLE, {follower.source for follower in self._followers if follower.away})
        # Checked after reading what is pushed, as in room.py: whoever has lost the right to look since gets none of it.
        allowed = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        staying = [watcher for watcher in watchers if watcher.sign_in in allowed]
        for watcher in {*watchers} - {*staying}:
            self._dismiss(watcher, SIGNED_OUT, "signed out")
        for language in {watcher.language for watcher in staying}:
            with translation.override(language):
                made = parts(answer)
            told = [w for w in staying if w.language == language and self._watchers.get(w, made) != made]
            for watcher in told:
                self._note(watcher, made)
            push(told, made)
        return answer.away

    def _note(self, watcher: Watcher, made: dict[str, str]) -> None:
        with _lock:
            if watcher in self._watchers and not watcher.closed:  # it may have left in the meantime
                self._watchers[watcher] = made
            else:
                self._watchers.pop(watcher, None)

    def _dismiss(self, watcher: Watcher, code: int, reason: str) -> None:
        self._watchers.pop(watcher, None)
        watcher.end(code, reason)


_lock = threading.Lock()
current: Lobby | None = None


def look() -> None:
    """Updates home soon, if somebody looks at it, because a source has appeared."""
    with _lock:
        if current:
            current.wake()


def enter(watcher: Watcher) -> Lobby:
    """Adds a watcher to the lobby and returns the lobby. Starts its thread if nobody was watching."""
    global current
    with _lock:
        if current is None:
            current = Lobby()
            current.enter(watcher)
            current.start()
        else:
            current.enter(watcher)
        return current
