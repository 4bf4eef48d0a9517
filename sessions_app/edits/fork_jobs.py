"""Long forks are copied in the background, by a job (jobs/): a process that dies leaves it to another one.

How far a fork is stands in its source, whoever copies it: the events that are there. The job says whether somebody is at
it, and why it stopped.
"""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..errors import NotFound
from ..jobs import claims, runner
from ..jobs.claims import DONE, REFUSED, WAITING, Outcome
from ..models import Job
from ..reads import views
from ..sources import registry
from ..writes.half_made import is_half
from . import fork, fork_tree

_SMALL: Final = 1_000  # events that are copied while somebody waits
_KEPT_SECONDS: Final = 86400.0  # why a fork stopped


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fork is: events copied, of all; `done` once it is whole, `stopped` says why it does not go on.

    `working`: a process is at it, or will be.
    """

    copied: int
    total: int
    done: bool
    working: bool = False
    stopped: str = ""

    @property
    def percent(self) -> int:
        """How much is done."""
        return 100 if self.done else claims.Progress(self.copied, self.total).percent


def begin(
    ref: SessionRef, event_id: str, *, user_id: str, session_id: str, actor: Actor, reason: str = ""
) -> SessionRef:
    """Forks as `fork` does, but a long one in the background: `progress` tells how far it is. Raises what `fork` does."""
    into = ref._replace(user_id=user_id, session_id=session_id)
    copying = fork.prepare(ref, event_id, into, actor, reason)
    if copying.total <= _SMALL:
        copying.run(actor)
        return into
    now = time.time()
    _jobs().exclude(state=WAITING).filter(finished__lt=now - _KEPT_SECONDS).delete()
    task = json.dumps({"user": ref.user_id, "session": ref.session_id, "event": event_id, "reason": reason})
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
    runner.start(job, task=task, **runner.fields_of(actor))  # where it is under way, it goes on
    return into


def progress(ref: SessionRef, event_id: str, into: SessionRef, *, actor: Actor) -> Progress:
    """Tells how far a fork is; raises NotFound, SourceError."""
    job = _jobs().filter(pk=_id_of(into)).first()
    try:
        done = not is_half(views.session(into, actor=actor).state.session)
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
    made = fork_tree.origin(into, actor=actor)
    if made is not None and (made.origin, made.event_id) == (ref, task["event"]):
        return Outcome(DONE)  # its process died before it could say so
    try:
        copying = fork.prepare(ref, task["event"], into, actor, task["reason"])
    except NotFound:
        fork.take_away(into, actor)
        raise
    if job.done and not copying.copied:
        raise NotFound(_("Session %(id)s not found.") % {"id": into.session_id})  # somebody deleted it meanwhile
    copying.run(actor, lambda copied, total: beat(claims.Progress(copied, total)))
    return Outcome(DONE)


def _can_run(job: Job) -> bool:
    """Whether the source is open in this process."""
    return registry.alias_of(job.where) is not None


def _forget(job: Job) -> None:
    if job.state == DONE:
        job.delete()


KIND: Final = runner.register(runner.Kind("fork", _run, _can_run, _forget))


# --- Rows -------------------------------------------------------------------------------------------------------------


def _jobs() -> Any:
    return Job.objects.filter(kind=KIND.name)


def _id_of(into: SessionRef) -> uuid.UUID:
    """The id of the job that makes a session: a fork that is sent twice is one job."""
    return uuid.uuid5(fork_tree.NAMESPACE, ascii([registry.identity(into.source), *into[1:]]))
