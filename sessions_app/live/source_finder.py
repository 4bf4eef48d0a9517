"""Opens databases as soon as their agents create them, and restores their indexes. There is one thread in each process.

It doesn't wait for a viewer, because the initial state of a session is lost if the session is created before adkweb
opens its database.
"""

import logging
import time
from typing import Final

from django.db import connections

from ..jobs.ticker import Ticker
from ..sources import adopt_job, database
from . import feed

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 2.0
INDEX_SECONDS: Final = 60.0
SHARE: Final = 20  # at most this fraction of the time goes into building indexes


class Searcher(Ticker):
    """The thread that looks every LOOK_SECONDS. If nothing is new, it only lists folders and checks each source's file.

    Every INDEX_SECONDS, it rebuilds the indexes that another program dropped.
    """

    def __init__(self) -> None:
        super().__init__("sources", LOOK_SECONDS)
        self._due = 0.0

    def tick(self) -> None:
        """Looks for sources, and from time to time for indexes."""
        try:
            if opened := database.open_new():
                log.info("opened %s", ", ".join(source.where for source in opened))
                feed.look()
            if (began := time.monotonic()) >= self._due:
                adopt_job.go_on()
                self._due = time.monotonic() + max(INDEX_SECONDS, SHARE * (time.monotonic() - began))
        finally:
            connections.close_all()
