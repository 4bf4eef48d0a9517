"""Decides which process works on a job: exactly one, for as long as it gives signs of life.

    lease = Lease.take(job, 60.0)             # None if another process has it
    lease.beat(Progress(1, 10, "copying"))    # raises Lost if the job was cancelled, or taken by another process
    lease.end(Outcome("done"))

A job is `waiting` until it ends, whether a process has it or not. A lease ends automatically when its process dies. In
the row of the job, it is `claim` and `claimed_until`.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.models import Count, F
from django.utils.translation import gettext as _
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..access.actor import Actor
from ..domain.errors import Error, NotOpen
from ..domain.metrics import REGISTRY
from ..domain.session_ref import SessionRef
from ..models import Job
from ..sources import registry
from . import process

WAITING, DONE, REFUSED, STOPPED = "waiting", "done", "refused", "stopped"
LEASE_SECONDS: Final = 30.0  # of an edit, which takes a moment
RETRY_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 60.0  # that a process may be silent before another one takes its job
LET_GO: Final = 0.0  # the claim of a job whose process ended properly
IN_DOUBT: Final = LET_GO  # and of one for which it is unknown what its process wrote
FAILED: Final = 1.0  # and of one that is to be started again, as if its process had died
AWAY: Final = (OperationalError, InterfaceError)  # of adkweb's own database
_PATIENCE_SECONDS: Final = 2.0  # with a process that has a job only to see that its session is busy
_LOOK_SECONDS: Final = 0.02  # between two tries to lease a job

T = TypeVar("T")


class Lost(RuntimeError):
    """The job was cancelled, or another process has taken it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job: `done` of `total`, and in which step."""

    done: int = 0
    total: int = 0
    step: str = ""

    @property
    def percent(self) -> int:
        """Returns the share that is done, from 0 to 100."""
        return 100 * self.done // max(1, self.total)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: its state, a message for people, and fields of its row. With `waiting`, the job is
    released."""

    state: str = WAITING
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of this process to work on a job, in which it may be silent for `seconds`."""

    job: Job
    token: str
    seconds: float

    @classmethod
    def take(cls, job: Job, seconds: float = LEASE_SECONDS, **fields: Any) -> "Lease | None":
        """Leases a job as it was read, and sets `fields` of its row. Returns None if another process has it, or has had
        it since.

        Raises IntegrityError if another job is in its lane."""
        if is_held(job):
            return None
        now = time.time()
        token = uuid.uuid4().hex
        # A process that has leased the job since it was read has changed what is compared here.
        rows = Job.objects.filter(pk=job.pk, state=job.state, claim=job.claim, claimed_until=job.claimed_until)
        columns = {"state": WAITING, "claim": token, "claimed_until": now + seconds, "beat": now, **fields}
        columns["process"] = process.this()
        return cls(job, token, seconds) if rows.update(**columns) else None

    @classmethod
    def take_soon(cls, job: Job) -> "Lease | None":
        """Leases a waiting job, which another process may have and release in a moment.

        Returns None if the job is no longer waiting, or another process keeps it."""
        until = time.time() + _PATIENCE_SECONDS
        while job.state == WAITING:
            if lease := cls.take(job):
                return lease
            if time.time() >= until:
                break
            time.sleep(_LOOK_SECONDS)
            job.refresh_from_db()
        return None

    @classmethod
    def take_over(cls, job: Job, seconds: float) -> "Lease | None":
        """Leases a job whose process died, or released it. Returns None if another process was faster."""
        return cls.take(job, seconds) if was_let_go(job) else cls.take(job, seconds, crashes=F("crashes") + 1)

    def written(self, look: Callable[[SessionRef], T | None]) -> T | None:
        """Returns what the job's last process wrote without noting it: the result of `look`.

        Releases the job if that can't be known now, and raises SourceError, or what `look` does."""
        if self.job.claimed_until is None:
            return None
        try:
            return look(ref_of(self.job))
        except Error:
            self.end(Outcome(fields={"claimed_until": IN_DOUBT}))
            raise

    def beat(self, progress: Progress | None = None) -> None:
        """Notes that the job is alive and, if given, how far it is. Raises Lost, DatabaseError."""
        now = time.time()
        fields = {"done": progress.done, "total": progress.total, "step": progress.step} if progress else {}
        if not self._rows().update(beat=now, claimed_until=now + self.seconds, **fields):
            raise Lost

    def end(self, outcome: Outcome) -> bool:
        """Notes the outcome of the job. Returns False if the lease was lost. Raises DatabaseError."""
        now = time.time()
        # Set before `fields`, which may override it: a job that keeps waiting may say that its outcome is unknown.
        columns: dict[str, Any] = {"claim": "", "claimed_until": None, "beat": now}
        if outcome.state != WAITING:
            columns |= {"state": outcome.state, "message": outcome.message, "finished": now}
        return bool(self._rows().update(**columns | outcome.fields))

    def end_surely(self, outcome: Outcome) -> bool:
        """Ends the job as `end` does, but tries again while adkweb's own database is away, so that the outcome is not
        lost. Raises what AWAY names if it is away until another process may take the job."""
        until = time.monotonic() + self.seconds
        while True:
            try:
                return self.end(outcome)
            except AWAY:
                if time.monotonic() >= until:
                    raise
                connections["default"].close_if_unusable_or_obsolete()
                time.sleep(RETRY_SECONDS)

    def _rows(self) -> Any:
        return Job.objects.filter(pk=self.job.pk, state=WAITING, claim=self.token)


def is_held(job: Job) -> bool:
    """Returns whether a process has a job right now: its claim hasn't expired, and nothing shows that it died."""
    held = job.claimed_until is not None and job.claimed_until >= time.time()
    return held and not (process.has_died(job.process) or _stands_still(job))


def _stands_still(job: Job) -> bool:
    """Returns whether a claim ends later than possible, and was not renewed for as long as a claim lasts.

    The clock was set back since; going by the clock alone, the job of a dead process would wait for an hour."""
    if (job.claimed_until or 0.0) < time.time() + 2 * LONGEST_SECONDS:
        _seen.pop(job.pk, None)
        return False
    same = job.claim, job.claimed_until
    before, since = _seen.get(job.pk, (None, 0.0))
    if before != same:
        _seen[job.pk] = same, time.monotonic()
        return False
    return time.monotonic() - since > LONGEST_SECONDS


_seen: Final[dict[Any, tuple[Any, float]]] = {}  # leases from the future, and since when each is the same


def stage_of(job: Job) -> str:
    """Returns the progress of a job: its state; while it waits, its step, or “stopped” if no process has it or is about
    to continue it."""
    if job.state != WAITING:
        return job.state
    return job.step if is_held(job) or job.claimed_until in (LET_GO, FAILED) else STOPPED


def was_let_go(job: Job) -> bool:
    """Returns whether the process that had a job ended properly."""
    return job.claimed_until == LET_GO


# --- The session that a job is about, and who may know of it ----------------------------------------------------------


def session_of(job: Job) -> SessionRef | None:
    """Returns the session of a job, by its source's current alias; None if its source is not among adkweb's."""
    alias = registry.alias_of(job.where)
    return None if alias is None else SessionRef(alias, job.app_name, job.user_id, job.session_id)


def ref_of(job: Job) -> SessionRef:
    """Returns the session of a job. Raises NotOpen while its source is not among adkweb's."""
    ref = session_of(job)
    if ref is None:
        raise NotOpen(_("Its database isn't one of adkweb's sources right now."))
    return ref


def may_see(actor: Actor, job: Job) -> bool:
    """Returns whether a job exists for an actor. While its source is away, only for actors who see every app."""
    alias = registry.alias_of(job.where)
    return actor.sees_all if alias is None else actor.may_see(alias, job.app_name)


# --- For `/metrics` ---------------------------------------------------------------------------------------------------

EDIT = "edit"  # the kind of queued edits


class Jobs(Collector):
    """Counts jobs by kind and state on request. Without adkweb's own database, it only reports that."""

    def describe(self) -> list[Metric]:
        """Names no figure in advance: asking the database is left to `collect`."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yields the figures."""
        own = GaugeMetricFamily("adkweb_own_database_up", "Whether adkweb's own database answers.")
        jobs = GaugeMetricFamily("adkweb_jobs", "Jobs that are kept, by kind and state.", labels=("kind", "state"))
        queued = GaugeMetricFamily("adkweb_queued_edits", "Edits that wait until their session is idle.")
        try:
            counts = list(Job.objects.values_list("kind", "state").annotate(n=Count("pk")).order_by("kind", "state"))
        except DatabaseError:
            connections["default"].close_if_unusable_or_obsolete()
            own.add_metric((), 0)
            yield own
            return
        for kind, state, n in counts:
            jobs.add_metric((kind, state), n)
        own.add_metric((), 1)
        queued.add_metric((), sum(n for kind, state, n in counts if (kind, state) == (EDIT, WAITING)))
        yield from (own, jobs, queued)


REGISTRY.register(Jobs())
