"""Runs jobs in threads, and takes over those whose process died.

register(Kind("import", _run))
start(Job.objects.make("import", where, …))    # leases the job and runs it in a thread
take_over()                                    # at intervals, in every process

A second thread gives signs of life for each running job, so a silent job is one whose process died or was suspended. A
process that wakes up again writes at most until its job next reports progress.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, connections, transaction
from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext as _

from ..access import roles
from ..access.actor import Actor
from ..domain.errors import Error, Invalid, NotAllowed, NotFound
from ..models import Job
from ..sources import errors, registry
from .lease import (
    AWAY,
    FAILED,
    LET_GO,
    LONGEST_SECONDS,
    REFUSED,
    STOPPED,
    WAITING,
    Lease,
    Lost,
    Outcome,
    Progress,
    was_let_go,
)
from .ticker import Ticker

log = logging.getLogger("adkweb.jobs")

SILENT_SECONDS: Final = LONGEST_SECONDS  # adkweb's own database may be away for a while
MOST_CRASHES: Final = 3  # of a job's processes, before it waits for a person
BEAT_SECONDS: Final = 0.5  # between two notes of a job's progress
ALIVE_SECONDS: Final = 10.0  # between two signs of life without progress: a source may keep a job waiting

Beat = Callable[[Progress], None]


def has_source(job: Job) -> bool:
    """Returns whether the source of a job is open in this process."""
    return registry.alias_of(job.where) is not None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work. `run` does it, reports its progress, and may start where an earlier process stopped.

    `can_run` returns whether this process can do it. `ended` is called with the row of a job that has ended. `start` waits
    `patience` seconds for one to end: most are small, and done when their page is shown. When the permissions of its author
    change, it is started again, except in its step of `no_return`: it then ends with those that it had."""

    name: str
    run: Callable[[Job, Beat], Outcome]
    can_run: Callable[[Job], bool] = has_source
    ended: Callable[[Job], None] = lambda job: None
    patience: float = 0.7
    no_return: str = ""


kinds: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Registers a kind of work."""
    kinds[kind.name] = kind
    return kind


def actor_of(job: Job) -> Actor:
    """Returns who wanted a job, with the permissions that they have now: none if their account or token is gone."""
    return roles.actor_now(job.actor, job.account)


def wanted_by(actor: Actor) -> Q:
    """Returns the condition for an actor's jobs: by their account, or by their name if they have none."""
    return Q(account=actor.account) if actor.account else Q(actor=actor.name)


def fields_of(actor: Actor) -> dict[str, Any]:
    """Returns the fields of a new job's row that say who wants it, and in which language.

    Raises ValueError for an actor with limits and no account: it could not be known later what they may do."""
    if not actor.account and not actor.runs_everything:
        raise ValueError(f"{actor.name} has no account")
    return {
        "actor": actor.name,
        "account": actor.account,
        "language": translation.get_language() or "",
    }


def start(job: Job, **fields: Any) -> bool:
    """Claims a job that no one has and runs it in a thread. Returns False if another process has it.

    Sets `fields` of its row. Raises IntegrityError if another job is in its lane."""
    with transaction.atomic():
        lease = Lease.take(job, SILENT_SECONDS, message="", finished=None, crashes=0, done=0, total=0, **fields)
    if lease is not None:
        _start(lease, kinds[job.kind].patience)
    return lease is not None


def take_over() -> int:
    """Resumes the jobs whose processes died, if this process can run them. Returns how many.

    A dead process on this machine is noticed at once, another one after SILENT_SECONDS."""
    if settings.READ_ONLY:
        return 0
    taken = 0
    now = time.time()
    # Few jobs have or had a process, and lease.py knows for each whether it died.
    dead = Q(claimed_until__isnull=False) | Q(claimed_until=None, beat__lt=now - SILENT_SECONDS)
    for job in Job.objects.filter(dead, state=WAITING, kind__in=kinds):
        if not kinds[job.kind].can_run(job) or (claim := Lease.take_over(job, SILENT_SECONDS)) is None:
            continue
        if job.crashes + 1 >= MOST_CRASHES and not was_let_go(job):
            with translation.override(job.language or None):
                _end(claim, Outcome(STOPPED, _("adkweb stopped several times, or couldn't reach its database.")))
            continue
        how = "ended" if was_let_go(job) else "died"
        log.warning("continuing the %s %s, whose process %s", job.kind, job.pk, how)
        _start(claim)
        taken += 1
    return taken


def let_go(seconds: float) -> None:
    """Makes every job of this process stop at its next progress, so that another process continues with it at once.

    Waits at most this many seconds: a job without progress is taken over when its claim expires."""
    _leaving.set()
    until = time.monotonic() + seconds
    for thread in list(_at_work):
        thread.join(max(0.0, until - time.monotonic()))
    _leaving.clear()


def cancel(job: Job) -> None:
    """Deletes a job. A thread that works on it ends at its next sign of life; what it wrote by then stays."""
    job.delete()


# --- At work ----------------------------------------------------------------------------------------------------------


class _LetGo(Lost):
    """The process ends, so another one should continue the job."""


class _Pulse(Ticker):
    """Gives signs of life until its block ends, whatever the job waits for, and notes its progress at intervals.

    If the permissions of the job's author change in the meantime, it is released and started again with the current ones."""

    def __init__(self, lease: Lease, job: Job) -> None:
        super().__init__("pulse", ALIVE_SECONDS, first=ALIVE_SECONDS)
        self._lease, self._due, self._lost = lease, 0.0, False
        self._job, self._grants, self._is_same = job, actor_of(job).grants, True

    def __enter__(self) -> "_Pulse":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.join()

    def __call__(self, progress: Progress) -> None:
        if self._lost:
            raise Lost
        if (now := time.monotonic()) >= self._due:
            self._due = now + BEAT_SECONDS
            self._beat(progress)
        if _leaving.is_set() or not self._is_same:
            raise _LetGo

    def tick(self) -> None:
        try:
            self._beat()
        except Lost:
            self._lost = True
            self.end()
        connections.close_all()  # a database has few, and the next sign of life is far

    def _beat(self, progress: Progress | None = None) -> None:
        try:
            self._lease.beat(progress)
            if not self._job.step or self._job.step != kinds[self._job.kind].no_return:
                self._is_same = actor_of(self._job).grants == self._grants
        except DatabaseError as error:  # adkweb's own database: no reason to stop
            log.warning("the progress of a job cannot be noted: %s", error)
            connections["default"].close_if_unusable_or_obsolete()


def _start(lease: Lease, patience: float = 0.0) -> None:
    thread = threading.Thread(target=_run, args=[lease], name=f"adkweb-{lease.job.kind}", daemon=True)

    def start() -> None:
        _at_work.add(thread)
        thread.start()
        thread.join(patience)

    transaction.on_commit(start)  # not before every connection can see the row


_at_work: Final[set[threading.Thread]] = set()
_leaving: Final = threading.Event()  # this process ends


def _run(lease: Lease) -> None:
    try:
        if outcome := _outcome(lease):
            _end(lease, outcome)
    except Job.DoesNotExist:  # cancelled
        pass
    except Exception:  # an error of adkweb's own database
        log.exception("a job stopped")
    finally:
        connections.close_all()
        _at_work.discard(threading.current_thread())


def _end(lease: Lease, outcome: Outcome) -> None:
    if lease.end_surely(outcome) and outcome.state != WAITING:
        kinds[lease.job.kind].ended(Job.objects.get(pk=lease.job.pk))


def _outcome(lease: Lease) -> Outcome | None:
    """Runs a job, and returns the outcome; None if another process has it, or it was cancelled in the meantime.

    Raises Job.DoesNotExist if it was cancelled before."""
    try:
        job = Job.objects.get(pk=lease.job.pk)
        with translation.override(job.language or None), _Pulse(lease, job) as beat:
            return _work(job, beat)
    except AWAY as error:
        log.warning(
            "the %s %s is started again when adkweb's own database is back: %s", lease.job.kind, lease.job.pk, error
        )
        return Outcome(fields={"claimed_until": FAILED})


def _work(job: Job, beat: Beat) -> Outcome | None:
    try:
        return kinds[job.kind].run(job, beat)
    except _LetGo:
        return Outcome(fields={"claimed_until": LET_GO})
    except Lost:
        return None
    except (Invalid, NotAllowed, NotFound) as error:
        where = error.detail.get("place")
        return Outcome(REFUSED, f"{where}: {error.message}" if where else error.message)
    except Error as error:
        if not errors.tells_where(error):
            return Outcome(STOPPED, error.message)
        log.warning("the %s %s stopped: %s", job.kind, job.pk, error.message)  # others read the message of a job, too
        return Outcome(STOPPED, errors.unusable())
    except AWAY:
        raise
    except Exception:
        log.exception("the %s %s stopped", job.kind, job.pk)
        return Outcome(STOPPED, _("Something went wrong. See the log for details."))
