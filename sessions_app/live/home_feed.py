"""Feeds the home page: one thread for all who look at it, as long as somebody does."""

from collections import defaultdict
from typing import ClassVar

from django.utils import translation

from ..access import masking, roles, sign_in
from ..access.actor import PEOPLE, Actor, Grant
from ..http.reader import read_by
from ..sources import registry
from ..web.home.feed import Activity, activity, parts
from .client import FAULT, SIGNED_OUT, Watcher, push
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
        away = {follower.source for follower in self._followers if follower.away}
        watchers = list(self._watchers)
        made: dict[tuple[Grant, ...], Activity] = {}
        for grants in self._grants(watchers).values():
            if grants not in made:
                made[grants] = activity(Actor(PEOPLE.name, grants), away)
        # Asked again after reading what is pushed, as in room.py: whoever has lost a right since gets none of it.
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
        """Returns what each may see who is still signed in. Who sees everything is read for once, unless some see ids that
        are hidden from others."""
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
                watcher.forget()  # what waits to be sent was made by other rules of masking
            self.note(watcher, made)
        push(told, made)


def look() -> None:
    """Updates home soon, if somebody looks at it, because a source has appeared."""
    with lock:
        if Lobby.current:
            Lobby.current.wake()
