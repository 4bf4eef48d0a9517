"""Copies long forks in the background, by a job (jobs/): if a process dies, another one takes over.

The events in the source show a fork's progress. The job says whether a process is working on it, and why it stopped."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import NotFound
from ..domain.session_ref import SessionRef
from ..jobs import lease, runner
from ..jobs.lease import DONE, REFUSED, WAITING, Outcome
from ..models import Job
from ..reads import views
from ..sources import registry
from . import fork, fork_tree
from .fork import Values

_SMALL: Final = 1_000  # events that are copied while the person waits
_KEPT_SECONDS: Final = 86400.0  # for which the reason why a fork stopped is kept


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a fork: how many of its events are copied. `done` once it is whole; `stopped` says why it does
    not go on.

    `working`: a process is copying it, or will."""

    copied: int
    total: int
    done: bool
    working: bool = False
    stopped: str = ""

    @property
    def percent(self) -> int:
        """Returns the share that is done, from 0 to 100."""
        return 100 if self.done else lease.Progress(self.copied, self.total).percent


def begin(
    ref: SessionRef,
    event_id: str,
    *,
    user_id: str,
    session_id: str,
    actor: Actor,
    reason: str = "",
    values: Values | None = None,
) -> SessionRef:
    """Forks as `fork` does, but copies a long one in the background: `progress` returns how far it is. `values` are
    those with which it starts (fork.py). Raises what `fork` does."""
    values = values or {}
    into = ref._replace(user_id=user_id, session_id=session_id)
    copying = fork.prepare(ref, event_id, into, actor, reason)
    fork.check_values(values, actor, reason)
    if copying.total <= _SMALL:
        copying.run(actor)
        fork.write_values(into, values, actor, reason)
        return into
    now = time.time()
    _jobs().exclude(state=WAITING).filter(finished__lt=now - _KEPT_SECONDS).delete()
    asked = {"user": ref.user_id, "session": ref.session_id, "event": event_id, "reason": reason}
    before = _jobs().filter(pk=_id_of(into)).first()  # a stopped one continues with the values it was to write
    again = json.loads(before.task).get("values", []) if before and not values else fork.values_as_json(values)
    task = json.dumps({**asked, "values": again})
    job, _made = Job.objects.get_or_create(
        id=_id_of(into),
        defaults={
            "kind": KIND.name,
            "where": registry.identity(into.source),
            **{name: getattr(into, name) for name in ("app_name", "user_id", "session_id")},
            "task": task,
            "created": now,
            "beat": now,
            **runner.fields_of(actor),
        },
    )
    runner.start(job, task=task, **runner.fields_of(actor))  # if it is running, it just continues
    return into


def progress(ref: SessionRef, event_id: str, into: SessionRef, *, actor: Actor) -> Progress:
    """Returns how far a fork is. Raises NotFound, SourceError."""
    job = _jobs().filter(pk=_id_of(into)).first()
    try:
        done = not views.session(into, actor=actor).is_incomplete
    except NotFound:
        if job is None or job.state == REFUSED:
            raise
        done = False  # nothing is copied yet
    working = job is not None and job.state == WAITING
    return Progress(*fork.count(ref, event_id, into, actor), done, working, "" if done or job is None else job.message)


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    task, actor = json.loads(job.task), runner.actor_of(job)
    into = SessionRef(registry.alias_of(job.where) or "", job.app_name, job.user_id, job.session_id)
    ref = into._replace(user_id=task["user"], session_id=task["session"])
    values = fork.values_from_json(task.get("values", []))
    made = fork_tree.origin(into, actor=actor)
    if made is not None and (made.origin, made.event_id) == (ref, task["event"]):
        fork.write_values(into, values, actor, task["reason"])
        return Outcome(DONE)  # the process that copied it died before it could note that
    try:
        copying = fork.prepare(ref, task["event"], into, actor, task["reason"])
    except NotFound:
        fork.take_away(into, actor)
        raise
    if job.done and not copying.copied:
        raise NotFound(
            _("There's no session “%(id)s”.") % {"id": into.session_id}
        )  # someone deleted it in the meantime
    copying.run(actor, lambda copied, total: beat(lease.Progress(copied, total)))
    fork.write_values(into, values, actor, task["reason"])
    return Outcome(DONE)


def _forget(job: Job) -> None:
    if job.state == DONE:
        job.delete()


KIND: Final = runner.register(runner.Kind("fork", _run, ended=_forget))


# --- Rows -------------------------------------------------------------------------------------------------------------


def _jobs() -> Any:
    return Job.objects.filter(kind=KIND.name)


def _id_of(into: SessionRef) -> uuid.UUID:
    """Returns the id of the job that makes a session. A fork that is sent twice is one job."""
    return uuid.uuid5(fork_tree.NAMESPACE, ascii([registry.identity(into.source), *into[1:]]))
