"""Keeps the index of search/ up to date with every open source, and looks for drift. There is one thread in each
process.

If nothing was written, checking a source takes one small query. Several processes share one index: one of them feeds
it.
"""

import logging
import time
from contextlib import suppress
from typing import Final

from django.db import DatabaseError, connections

from ..checks.live_checks import check_due
from ..domain.errors import SourceError
from ..jobs.ticker import Ticker
from ..search import damage
from ..search.drift_looks import Looker
from ..search.index.feed import Feeder
from ..search.saved.match_watcher import LOOK_SECONDS as LOOK_AT_TIME
from ..search.saved.match_watcher import notice_time, noticing
from ..sources import database

log = logging.getLogger("adkweb.search")

LOOK_SECONDS: Final = 0.4  # between two checks: a new event can be found within a second
REST_SECONDS: Final = 10.0  # a source is fed at least so often: another process may have died, a walk may be due
_FAILED: Final = "failed"
_CHECK_SECONDS: Final = 0.2  # for checking sessions against rules, before the next source's turn
_SECONDS: Final = 0.5  # for one source, before the next one's turn
_DRIFT_SECONDS: Final = 0.02  # share of LOOK_SECONDS for drift checks


# By source that this process indexes: when the index last held all of it.
whole: Final[dict[str, float]] = {}


class SearchFeeder(Ticker):
    """The thread that looks every LOOK_SECONDS."""

    def __init__(self) -> None:
        super().__init__("search", LOOK_SECONDS)
        self._feeders: dict[str, Feeder] = {}
        self._lookers: dict[str, Looker] = {}
        self._noticed: dict[str, float] = {}
        self._seen: dict[str, tuple[str, float]] = {}  # by source: its version, and when it is due again

    def tick(self) -> float | None:
        """Looks at every source."""
        more = False
        for source in database.opened():
            if not self.ended:
                more |= self._look(source.alias)
        return 0.0 if more else None

    def close(self) -> None:
        """Lets other processes feed."""
        for feeder in self._feeders.values():
            with suppress(DatabaseError):
                feeder.end()

    def _look(self, alias: str) -> bool:
        """Feeds a source if there may be something new. Returns whether there is more."""
        now, (seen, due) = time.monotonic(), self._seen.get(alias, ("", 0.0))
        if seen == _FAILED and now < due:
            return False
        self._seen[alias] = _FAILED, now + REST_SECONDS
        try:
            feeder = self._feeders.setdefault(alias, Feeder(alias, noticing))
            version = feeder.version()
            more = False
            if version == seen and now < due:
                self._seen[alias] = seen, due
            else:
                more = feeder.feed(_SECONDS)
                self._seen[alias] = "" if more else version, now + REST_SECONDS
            self._note_whole(feeder, more)
            self._notice(feeder)
            more |= check_due(alias, _CHECK_SECONDS)
            if not more:
                self._lookers.setdefault(alias, Looker(alias)).look(_DRIFT_SECONDS)
            return more
        except SourceError:  # it is away; pages say so
            pass
        except DatabaseError as error:  # of adkweb's own database
            self._wait(alias, error)
        except Exception:
            log.exception("indexing for searching")
        self._feeders.pop(alias, None)
        return False

    def _note_whole(self, feeder: Feeder, more: bool) -> None:
        if not feeder.claimed:
            whole.pop(feeder.source, None)
        elif not more or feeder.source not in whole:
            whole[feeder.source] = time.monotonic()

    def _wait(self, alias: str, error: DatabaseError) -> None:
        """Waits until adkweb's own database can be used again. If only the words in it are damaged, they are
        repaired."""
        try:
            if damage.mend(error):
                del self._seen[alias]
                return
        except DatabaseError as another:
            error = another
        log.warning("the search index waits: %s", error)
        connections["default"].close_if_unusable_or_obsolete()

    def _notice(self, feeder: Feeder) -> None:
        """Checks from time to time what starts to match a watched view by time alone."""
        now = time.monotonic()
        if feeder.claimed and now >= self._noticed.get(feeder.source, 0.0) + LOOK_AT_TIME:
            self._noticed[feeder.source] = now
            notice_time(feeder.claimed)
