"""Applies queued edits as soon as their agents are idle, and undoes temporary edits whose time is over.

It also takes over jobs whose process died. There is one such thread in each process.
"""

from typing import Final

from .. import broadcast
from ..access.audit import refusals
from ..batches import batch
from ..broadcast import Move
from ..edits import ending, fork_jobs, proposal_job, queue
from ..jobs import runner
from ..jobs.ticker import Ticker
from ..privacy import erasures, exports, retention_job
from ..transfer import imports
from ..trying import replays, whatifs

KINDS: Final = (
    imports.KIND,
    fork_jobs.KIND,
    exports.KIND,
    erasures.KIND,
    retention_job.KIND,
    replays.KIND,
    whatifs.KIND,
)  # the jobs to take over; importing their modules registers them

BUSY_SECONDS: Final = 0.5  # between checks while an edit waits
REST_SECONDS: Final = 10.0  # otherwise, for edits that another process queued before it died


class Worker(Ticker):
    """The thread that checks queued edits and jobs whenever an edit is queued, and from time to time."""

    def __init__(self) -> None:
        super().__init__("queued", REST_SECONDS)

    def hear(self, move: Move) -> None:
        """Makes the thread check at once if an edit was queued. This is a listener of broadcast.py."""
        if move.what == "queued":
            self.wake()

    def run(self) -> None:
        """Works until the server stops."""
        broadcast.listen(self.hear)
        super().run()

    def tick(self) -> float:
        """Does what is due."""
        refusals.record_ended()
        runner.take_over()
        retention_job.begin_due()
        queue.apply_due()
        ending.apply_due()
        proposal_job.lapse_due()
        batch.lapse_due()
        replays.forget_old()
        whatifs.forget_old()
        return _rest()

    def close(self) -> None:
        """Stops listening, and records what was counted."""
        broadcast.stop_listening(self.hear)
        refusals.record_ended(all_of_them=True)


def _rest() -> float:
    """Returns the seconds until there may be something to do."""
    if queue.any_waiting():
        return BUSY_SECONDS
    until_next = ending.seconds_to_next()
    return REST_SECONDS if until_next is None else min(REST_SECONDS, max(BUSY_SECONDS, until_next))
