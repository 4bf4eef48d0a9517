"""Feeds the home page: one thread for all who look at it, as long as somebody does."""

from typing import ClassVar

from django.utils import translation

from ..access import sign_in
from ..access.actor import PEOPLE
from ..sources import registry
from ..web.lists.feed import activity, parts
from .client import FAULT, SIGNED_OUT, push
from .feed import Feed, lock
from .source_follower import Follower, follow


class Lobby(Feed):
    """The thread that renders home's activity again whenever something moves in any source.

    It looks without being told, too: a running invocation may have fallen silent, or a source may have appeared."""

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
        watchers = list(self._watchers)
        answer = activity(PEOPLE, {follower.source for follower in self._followers if follower.away})
        # Checked after reading what is pushed, as in room.py: whoever has lost the right to look since gets none of it.
        allowed = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        staying = [watcher for watcher in watchers if watcher.sign_in in allowed]
        for watcher in {*watchers} - {*staying}:
            self.dismiss(watcher, SIGNED_OUT, "signed out")
        for language in {watcher.language for watcher in staying}:
            with translation.override(language):
                made = parts(answer)
            told = [w for w in staying if w.language == language and self._watchers.get(w, made) != made]
            for watcher in told:
                self.note(watcher, made)
            push(told, made)
        return answer.away


def look() -> None:
    """Updates home soon, if somebody looks at it, because a source has appeared."""
    with lock:
        if Lobby.current:
            Lobby.current.wake()
