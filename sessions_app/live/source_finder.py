"""Opens databases as soon as their agents make them, and keeps their indexes; one thread in each process.

Nobody need look for that: of a session that is created before adkweb opens its database, initial state is not kept.
"""

import logging
import threading
import time
from typing import Final

from django.db import connections

from ..sources import adopting, database
from . import home_feed

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = 2.0
INDEX_SECONDS: Final = 60.0
SHARE: Final = 20  # of the time, one part at most goes into making indexes


class Searcher(threading.Thread):
    """Looks every LOOK_SECONDS; where nothing is new, that is to list folders and to ask which file each source is.

    Every INDEX_SECONDS it makes indexes again that another program dropped.
    """

    def __init__(self) -> None:
        super().__init__(name="adkweb-sources", daemon=True)
        self._ended = threading.Event()

    def end(self) -> None:
        """Stops after what it is at."""
        self._ended.set()

    def run(self) -> None:
        """Until the server ends."""
        due = 0.0
        while not self._ended.is_set():
            try:
                if opened := database.open_new():
                    log.info("opened %s", ", ".join(source.where for source in opened))
                    home_feed.look()
                if (began := time.monotonic()) >= due:
                    adopting.go_on()
                    due = time.monotonic() + max(INDEX_SECONDS, SHARE * (time.monotonic() - began))
            except Exception:
                log.exception("searching for sources")
            connections.close_all()
            self._ended.wait(LOOK_SECONDS)
