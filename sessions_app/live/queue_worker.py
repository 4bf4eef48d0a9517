"""Applies queued edits as soon as their agents are idle, and takes over jobs whose process died; one thread a process."""

import logging
import threading
from typing import Final

from django.db import DatabaseError, connections

from .. import broadcast
from ..broadcast import Move
from ..edits import fork_jobs, queue
from ..jobs import runner
from ..transfer import imports

KINDS: Final = (imports.KIND, fork_jobs.KIND)  # of jobs that are taken over; their modules make them known
log = logging.getLogger("adkweb.live")

BUSY_SECONDS: Final = 0.5  # between looks while an edit waits
REST_SECONDS: Final = 10.0  # for one that another process queued, and did not live to apply


class Worker(threading.Thread):
    """Looks whenever something moved, and now and then."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-queued", daemon=True)
        self._moved = threading.Event()
        self._ended = False

    def hear(self, move: Move) -> None:
        """A listener of broadcast.py."""
        if move.what == "queued":
            self._moved.set()

    def end(self) -> None:
        """Stops after what it is at."""
        self._ended = True
        self._moved.set()

    def run(self) -> None:
        """Until the server ends."""
        broadcast.listen(self.hear)
        while not self._ended:
            self._moved.clear()
            waiting = False
            try:
                runner.take_over()
                queue.apply_due()
                waiting = queue.any_waiting()
            except DatabaseError as error:  # adkweb's own; the edits are kept there
                log.warning("queued edits wait: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("applying queued edits")
            self._moved.wait(BUSY_SECONDS if waiting else REST_SECONDS)
        broadcast.stop_listening(self.hear)
        connections.close_all()


_worker: Worker | None = None


def start() -> None:
    """Begins, once in a process."""
    global _worker
    if _worker is None:
        _worker = Worker()
        _worker.start()


def stop() -> None:
    """Ends."""
    global _worker
    if _worker is not None:
        _worker.end()
        _worker = None
