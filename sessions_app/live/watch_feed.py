"""Tells people on open pages that sessions began to match the views that they watch: one thread for all of them."""

from collections import defaultdict
from typing import Any, ClassVar, Final

from django.urls import reverse

from .. import broadcast
from ..access import sign_in
from ..broadcast import Move
from ..search.saved import watching
from .client import SIGNED_OUT, push
from .feed import Feed

_SHOWN: Final = 5  # sessions that are named at once; the rest is counted


class WatchFeed(Feed):
    """The thread that looks for news as long as somebody has a page open."""

    what: ClassVar = "news of watched views"

    def __init__(self) -> None:
        super().__init__("adkweb-live-watching")
        self._last: int | None = None

    def hear(self, move: Move) -> None:
        """Looks at once if a session began to match. This is a listener of broadcast.py."""
        if move.what == "begun":
            self.wake()

    def begin(self) -> None:
        """Listens to what this process notices. Another one may notice something, too."""
        broadcast.listen(self.hear)

    def end(self) -> None:
        """Listens no more."""
        broadcast.stop_listening(self.hear)

    def serve(self) -> bool:
        """Sends the counts that have changed, and what began to match. Waits for nobody."""
        # Asked for first: what arrives while the news are read is told the next time, and not passed over.
        newest = watching.newest()
        last = newest if self._last is None else self._last
        watchers = list(self._watchers)  # who joins in the meantime is served the next time
        names = {watcher.name for watcher in watchers}
        begun = defaultdict[str, list[dict[str, Any]]](list)
        for name, news in watching.news_between(last, newest, names):
            begun[name].append(
                {
                    "number": news.number,
                    "view": news.view,
                    "title": news.title,
                    "address": reverse("session", kwargs=news.ref._asdict()),
                }
            )
        self._last = max(last, newest)
        counts = watching.counts(names)
        # Checked after reading what is pushed: whoever has lost the right to look since gets none of it.
        allowed = sign_in.signed_in({watcher.sign_in for watcher in watchers})
        for watcher in watchers:
            if watcher.sign_in not in allowed:
                self.dismiss(watcher, SIGNED_OUT, "signed out")
            elif counts[watcher.name] != self._watchers.get(watcher) or begun[watcher.name]:
                self.note(watcher, counts[watcher.name])
                push([watcher], {"counts": counts[watcher.name], "begun": begun[watcher.name][-_SHOWN:]})
        return False
