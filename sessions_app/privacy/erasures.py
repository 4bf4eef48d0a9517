"""Plans, starts, lists and stops erasures of users. Each is a job (jobs/); its row keeps the report."""

import time
import uuid
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import IntegrityError
from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import Actor
from ..access.audit.record import record
from ..domain.errors import Conflict, NotFound
from ..domain.session_ref import OWN_NAME, SessionRef
from ..jobs import runner
from ..jobs.lease import DONE, STOPPED, WAITING, Lost, Outcome, is_held
from ..models import Job
from ..sources import database, registry
from ..transfer import exporting
from ..writes.sessions import is_on_hold
from . import remains, user_jobs
from .erasure_job import Report, count_events, erase, refs_of
from .remains import Remains

KEPT_SECONDS: Final = 90 * 86400.0
_COUNTED: Final = 10_000  # sessions that a plan reads


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of an erasure before it is done. With `more`, there are more sessions than were read."""

    sessions: int
    more: bool
    events: int
    held: int
    keys: int
    remains: Remains


class Erasure(NamedTuple):
    """An erasure: its job, and its outcome so far."""

    job: Job
    report: Report


def plan(source: str, app_name: str, user_id: str, *, actor: Actor) -> Plan | None:
    """Returns what an erasure would remove, and what would remain; None if there is no such user. Writes nothing.

    Raises NotAllowed, SourceError; Conflict for a name that isn't a user's."""
    _check(source, app_name, user_id, actor)
    refs = list(islice(refs_of(source, app_name, user_id), _COUNTED + 1))
    state = exporting.user_state(source, app_name, user_id, actor=actor)
    if not refs and state is None:
        return None
    return Plan(
        min(len(refs), _COUNTED),
        len(refs) > _COUNTED,
        count_events(source, app_name, user_id),
        sum(map(is_on_hold, refs[:_COUNTED])),
        len(state.state) if state else 0,
        remains.look(source, app_name, user_id, actor=actor),
    )


def begin(source: str, app_name: str, user_id: str, *, actor: Actor) -> uuid.UUID:
    """Starts to erase a user. Raises NotAllowed, NotFound; Conflict if one is running, or the name isn't a user's."""
    _check(source, app_name, user_id, actor)
    approval.check_size(source, app_name, (ref for ref in refs_of(source, app_name, user_id) if not is_on_hold(ref)))
    old = Job.objects.filter(kind=KIND.name, finished__lt=time.time() - KEPT_SECONDS)
    old.exclude(state=WAITING).delete()
    record("user-erased", actor.name, ref=SessionRef(source, app_name, user_id, ""))
    return user_jobs.begin(KIND, source, app_name, user_id, _("This user is already being erased."), actor=actor)


def go_on(erasure_id: uuid.UUID, source: str, app_name: str, user_id: str, *, actor: Actor) -> None:
    """Continues an erasure that stopped. Does nothing if it is running. Raises NotAllowed, NotFound, Conflict."""
    job = _job(erasure_id, source, app_name, user_id, actor)
    if job.state == DONE or (job.state == WAITING and is_held(job)):
        return
    try:
        runner.start(job, **runner.fields_of(actor))
    except IntegrityError as error:
        raise Conflict(_("This user is already being erased.")) from error


def stop(erasure_id: uuid.UUID, source: str, app_name: str, user_id: str, *, actor: Actor) -> None:
    """Stops an erasure within a second. What is deleted is gone, and it can continue. Raises NotAllowed, NotFound."""
    job = _job(erasure_id, source, app_name, user_id, actor)
    message = _("%(name)s stopped it.") % {"name": actor.name}
    fields: dict[str, Any] = {"state": STOPPED, "claim": "", "claimed_until": None, "message": message}
    Job.objects.filter(pk=job.pk, state=WAITING).update(finished=time.time(), **fields)


def discard(erasure_id: uuid.UUID, source: str, app_name: str, user_id: str, *, actor: Actor) -> None:
    """Deletes the report of an erasure that has ended. Raises NotAllowed, NotFound."""
    job = _job(erasure_id, source, app_name, user_id, actor)
    Job.objects.filter(pk=job.pk).exclude(state=WAITING).delete()


def listed(source: str, app_name: str, user_id: str, *, actor: Actor) -> list[Erasure]:
    """Returns the erasures of a user, the newest first. Raises NotAllowed."""
    jobs = user_jobs.about(KIND, source, app_name, user_id, actor=actor)
    return [Erasure(job, Report.read(job.result)) for job in jobs]


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    source, actor = registry.alias_of(job.where) or "", runner.actor_of(job)
    actor.check_may("admin", source, job.app_name)
    report = Report.read(job.result)

    def note(report: Report) -> None:
        if not Job.objects.filter(pk=job.pk, state=WAITING, claim=job.claim).update(result=report.text()):
            raise Lost

    erase(SessionRef(source, job.app_name, job.user_id, ""), report, actor=actor, beat=beat, note=note)
    return Outcome(DONE, fields={"result": report.text()})


KIND: Final = runner.register(runner.Kind("erase", _run))


# --- Rows -------------------------------------------------------------------------------------------------------------


def _check(source: str, app_name: str, user_id: str, actor: Actor) -> None:
    actor.check_may("admin", source, app_name)
    database.get(source)
    if user_id == OWN_NAME:
        raise Conflict(_("This name is reserved for adkweb's edits to app state. It isn't a user."))


def _job(erasure_id: uuid.UUID, source: str, app_name: str, user_id: str, actor: Actor) -> Job:
    job = user_jobs.about(KIND, source, app_name, user_id, actor=actor).filter(pk=erasure_id).first()
    if job is None:
        raise NotFound(_("This report no longer exists."))
    return job
