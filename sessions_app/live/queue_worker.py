"""Applies queued edits as soon as their agents are idle, takes back those whose time is over.

It also takes over jobs whose process died. There is one such thread in each process.
"""

import logging
import threading
from typing import Final

from django.db import DatabaseError, connections

from .. import broadcast
from ..access.audit import refusals
from ..batches import batch
from ..broadcast import Move
from ..edits import ending, fork_jobs, proposal_job, queue
from ..jobs import runner
from ..privacy import erasures, exports, retention_job
from ..transfer import imports

KINDS: Final = (
    imports.KIND,
    fork_jobs.KIND,
    exports.KIND,
    erasures.KIND,
    retention_job.KIND,
)  # the jobs to take over; importing their modules registers them
log = logging.getLogger("adkweb.live")

BUSY_SECONDS: Final = 0.5  # between checks while an edit waits
REST_SECONDS: Final = 10.0  # otherwise, for edits that another process queued before it died


class Worker(threading.Thread):
    """The thread that checks queued edits and jobs whenever an edit is queued, and from time to time."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-queued", daemon=True)
        self._moved = threading.Event()
        self._ended = False

    def hear(self, move: Move) -> None:
        """Makes the thread check at once if an edit was queued. This is a listener of broadcast.py."""
        if move.what == "queued":
            self._moved.set()

    def end(self) -> None:
        """Stops the thread after its current work."""
        self._ended = True
        self._moved.set()

    def run(self) -> None:
        """Works until the server stops."""
        broadcast.listen(self.hear)
        while not self._ended:
            self._moved.clear()
            rest = REST_SECONDS
            try:
                refusals.record_ended()
                runner.take_over()
                retention_job.begin_due()
                queue.apply_due()
                ending.apply_due()
                proposal_job.lapse_due()
                batch.lapse_due()
                rest = _rest()
            except DatabaseError as error:  # of adkweb's own database, where the edits are kept
                log.warning("queued edits wait: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("applying queued edits")
            self._moved.wait(rest)
        broadcast.stop_listening(self.hear)
        refusals.record_ended(all_of_them=True)
        connections.close_all()


def _rest() -> float:
    """Returns in how many seconds there may be something to do."""
    if queue.any_waiting():
        return BUSY_SECONDS
    until_next = ending.seconds_to_next()
    return REST_SECONDS if until_next is None else min(REST_SECONDS, max(BUSY_SECONDS, until_next))


_worker: Worker | None = None


def start() -> None:
    """Starts the worker of this process, if it is not running."""
    global _worker
    if _worker is None:
        _worker = Worker()
        _worker.start()


def stop() -> list[Worker]:
    """Stops the worker of this process after its current work. Returns it, so that somebody can wait for it."""
    global _worker
    stopped = [] if _worker is None else [_worker]
    for worker in stopped:
        worker.end()
    _worker = None
    return stopped
