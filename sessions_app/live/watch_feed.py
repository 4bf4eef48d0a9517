"""Tells people on open pages that sessions began to match the views that they watch: one thread for all of them."""

import logging
import threading
import time
from collections import defaultdict
from typing import Any, Final

from django.db import DatabaseError, connections
from django.urls import reverse

from .. import broadcast
from ..access import sign_in
from ..broadcast import Move
from ..saved import watching
from .client import SIGNED_OUT, Watcher, push

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 5.0  # without being told: another process may have noticed it
INTERVAL_SECONDS: Final = 0.3
_SHOWN: Final = 5  # sessions that are named at once; the rest is counted


class WatchFeed(threading.Thread):
    """The thread that looks for news as long as somebody has a page open."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-live-watching", daemon=True)
        self._watchers: dict[Watcher, Any] = {}  # with the counts that each was given
        self._moved = threading.Event()
        self._last: int | None = None

    def enter(self, watcher: Watcher) -> None:
        """Serves a watcher from now on."""
        self._watchers[watcher] = None  # under the lock: see `enter` below
        self._moved.set()

    def leave(self, watcher: Watcher) -> None:
        """Forgets a watcher."""
        with _lock:
            self._watchers.pop(watcher, None)
        self._moved.set()

    def hear(self, move: Move) -> None:
        """Looks at once if a session began to match. This is a listener of broadcast.py."""
        if move.what == "begun":
            self._moved.set()

    def run(self) -> None:
        """Serves the watchers until nobody watches any more."""
        broadcast.listen(self.hear)
        while not self._has_ended():
            self._moved.clear()
            try:
                self._serve()
            except DatabaseError as error:  # of adkweb's own database
                log.warning("news of watched views wait: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("news of watched views")
            time.sleep(INTERVAL_SECONDS)
            self._moved.wait(LOOK_SECONDS)
        broadcast.stop_listening(self.hear)
        connections.close_all()

    def _has_ended(self) -> bool:
        global current
        with _lock:
            if not self._watchers:
                current = None
                return True
        return False

    def _serve(self) -> None:
        if self._last is None:
            self._last = watching.newest()
        watchers = list(self._watchers)  # who joins in the meantime is served the next time
        names = {watcher.name for watcher in watchers}
        begun = defaultdict[str, list[dict[str, Any]]](list)
        for name, news in watching.news_after(self._last, names):
            begun[name].append(
                {
                    "number": news.number,
                    "view": news.view,
                    "title": news.title,
                    "address": reverse("session", kwargs=news.ref._asdict()),
                }
            )
        self._last = max(self._last, watching.newest())
        counts = watching.counts(names)
        # Checked after reading what is pushed: whoever has lost the right to look since gets none of it.
        allowed = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        for watcher in watchers:
            if watcher.sign_in not in allowed:
                self._watchers.pop(watcher, None)
                watcher.end(SIGNED_OUT, "signed out")
            elif counts[watcher.name] != self._watchers.get(watcher) or begun[watcher.name]:
                self._note(watcher, counts[watcher.name])
                push([watcher], {"counts": counts[watcher.name], "begun": begun[watcher.name][-_SHOWN:]})

    def _note(self, watcher: Watcher, counts: dict[str, int]) -> None:
        with _lock:
            if watcher in self._watchers:  # it may have left in the meantime
                self._watchers[watcher] = counts


_lock = threading.Lock()
current: WatchFeed | None = None


def enter(watcher: Watcher) -> WatchFeed:
    """Adds a watcher and returns the feed. Starts its thread if nobody was watching."""
    global current
    with _lock:
        if current is None:
            current = WatchFeed()
            current.enter(watcher)
            current.start()
        else:
            current.enter(watcher)
        return current
