"""Serves everyone who watches one thing with one thread, while anyone does: home, or the watched views."""

import logging
import threading
import time
from collections import defaultdict
from typing import Any, ClassVar, Final, Self

from django.db import DatabaseError, connections
from django.urls import reverse
from django.utils import translation

from .. import broadcast
from ..access import masking, roles, sign_in
from ..access.actor import PEOPLE, Actor, Grant
from ..broadcast import Move
from ..http.reader import read_by
from ..search.saved import watching
from ..sources import registry
from ..web.home.home import Activity, activity, parts
from .client import FAULT, SIGNED_OUT, Watcher, push, rest_after
from .source_follower import Follower, follow

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 5.0  # without a message that something changed
INTERVAL_SECONDS: Final = 0.3


class Feed(threading.Thread):
    """The thread that serves the watchers. There is at most one of each kind."""

    current: ClassVar[Self | None] = None
    what: ClassVar = ""  # in the log

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._watchers: dict[Watcher, Any] = {}  # with what each was given
        self._mask = 0  # the masking rules when everyone was served last
        self._moved = threading.Event()
        self._entered = threading.Event()

    @classmethod
    def admit(cls, watcher: Watcher) -> Self:
        """Adds a watcher and returns the feed. Starts its thread if no one was watching."""
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
        """Serves the watchers until no one is left."""
        self.begin()
        while not self._has_ended():
            self._moved.clear()
            self._entered.clear()
            began, took = time.monotonic(), 0.0
            try:
                self._mask = masking.digest()
                took = 0.0 if self.serve() else time.monotonic() - began
            except DatabaseError as error:  # of adkweb's own database, which knows who may watch
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
        """Waits for an event. Returns False, at once, if the masking rules have changed: everything has to be made
        again."""
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
        """Handles an error of adkweb's own."""

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


# --- Home -------------------------------------------------------------------------------------------------------------


class Lobby(Feed):
    """The thread that renders home's activity again whenever something changes in any source.

    It also checks on its own: a running invocation may have fallen silent, or a source may have appeared."""

    what: ClassVar = "the feed"

    def __init__(self) -> None:
        super().__init__("adkweb-live-feed")
        self._followers: set[Follower] = set()

    def end(self) -> None:
        """Follows no source any more."""
        for follower in self._followers:
            follower.do(lambda f=follower: f.hearers.discard(self._moved.set))  # type: ignore[misc]

    def fail(self) -> None:
        """Closes all sockets: pages say that something went wrong, and come back."""
        for watcher in list(self._watchers):
            self.dismiss(watcher, FAULT, "fault")

    def serve(self) -> bool:
        """Makes and sends the parts. Returns whether a source did not answer."""
        self._followers = {
            follow(source.alias, lambda follower: follower.hearers.add(self._moved.set)) for source in registry.listed()
        }
        away = {follower.source for follower in self._followers if follower.away}
        watchers = list(self._watchers)
        made: dict[tuple[Grant, ...], Activity] = {}
        for grants in self._grants(watchers).values():
            if grants not in made:
                made[grants] = activity(Actor(PEOPLE.name, grants), away)
        # Asked again after reading what is pushed, as in room.py: people who have lost a permission since get none of it.
        now = self._grants(watchers)
        groups: dict[tuple[tuple[Grant, ...], str], list[Watcher]] = defaultdict(list)
        for watcher in watchers:
            if watcher not in now:
                self.dismiss(watcher, SIGNED_OUT, "signed out")
            elif now[watcher] in made:
                groups[now[watcher], watcher.language].append(watcher)
            else:
                self.wake()
        for (grants, language), group in groups.items():
            with read_by(Actor(PEOPLE.name, grants)):
                self._send(made[grants], language, group)
        return any(answer.away for answer in made.values())

    def _grants(self, watchers: list[Watcher]) -> dict[Watcher, tuple[Grant, ...]]:
        """Returns what each person who is still signed in may see. For those who see everything it is read once, unless
        some see ids that are hidden from others."""
        people = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        actors = {watcher: roles.actor_of(people[watcher.sign_in]) for watcher in watchers if watcher.sign_in in people}
        ids = masking.mask_of_all().hides_ids
        return {
            watcher: PEOPLE.grants if actor.sees_all and not (ids and actor.reveals) else actor.grants
            for watcher, actor in actors.items()
        }

    def _send(self, answer: Activity, language: str, watchers: list[Watcher]) -> None:
        with translation.override(language):
            made = parts(answer)
        told = [watcher for watcher in watchers if self._watchers.get(watcher, made) != made]
        for watcher in told:
            if (given := self._watchers.get(watcher)) and given["mask"] != made["mask"]:
                watcher.forget()  # the pending messages were made with other masking rules
            self.note(watcher, made)
        push(told, made)


def look() -> None:
    """Updates home soon, if someone looks at it, because a source has appeared."""
    with lock:
        if Lobby.current:
            Lobby.current.wake()


_SHOWN: Final = 5  # sessions that are named at once; the rest is counted


# --- Sessions that start to match watched views -----------------------------------------------------------------------


class WatchFeed(Feed):
    """The thread that looks for news while anyone has a page open."""

    what: ClassVar = "news of watched views"

    def __init__(self) -> None:
        super().__init__("adkweb-live-watching")
        self._last: int | None = None

    def hear(self, move: Move) -> None:
        """Looks at once if a session started to match. This is a listener of broadcast.py."""
        if move.what == "begun":
            self.wake()

    def begin(self) -> None:
        """Listens to this process. Another process may notice something, too."""
        broadcast.listen(self.hear)

    def end(self) -> None:
        """Stops listening."""
        broadcast.stop_listening(self.hear)

    def serve(self) -> bool:
        """Sends the counts that have changed, and what started to match. Waits for no one."""
        # Read first, so that what arrives while the news is read is sent the next time, not lost.
        newest = watching.newest()
        last = newest if self._last is None else self._last
        watchers = list(self._watchers)  # watchers who join in the meantime are served the next time
        names = {watcher.name for watcher in watchers}
        begun = defaultdict[str, list[dict[str, Any]]](list)
        for news in watching.news_between(last, newest, names):
            begun[news.watch.person.get_username()].append(
                {
                    "number": news.pk,
                    "view": news.watch.view.name,
                    "title": news.title,
                    "address": reverse("session", kwargs=news.ref._asdict()),
                }
            )
        self._last = max(last, newest)
        counts = watching.counts(names)
        # Checked after reading what is pushed: people who have lost the permission to watch since get none of it.
        allowed = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        for watcher in watchers:
            if watcher.sign_in not in allowed:
                self.dismiss(watcher, SIGNED_OUT, "signed out")
            elif counts[watcher.name] != self._watchers.get(watcher) or begun[watcher.name]:
                self.note(watcher, counts[watcher.name])
                push([watcher], {"counts": counts[watcher.name], "begun": begun[watcher.name][-_SHOWN:]})
        return False
