"""Starts, tries, does, stops and undoes batches."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.audit.record import record, record_with
from ..domain.errors import Conflict, Invalid, NotAllowed
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT
from ..edits.edit import REASON_LENGTH, Entry, state_event
from ..jobs import runner
from ..jobs.lease import DONE, STOPPED, WAITING, is_held
from ..models import Job
from ..models.pages import in_pages
from . import held, items
from .held import HELD
from .reading import DRAFT, ActName, dry_run_of, job_of, jobs
from .working import DOING, KIND, MOST, READY, TRYING, asked_for, shared, values_of

_DRAFTS_SECONDS: Final = 86400.0
_KEPT_SECONDS: Final = 90 * 86400.0


def begin(
    act: ActName, *, actor: Actor, refs: Sequence[SessionRef] = (), query: str = "", zone: str = "UTC"
) -> uuid.UUID:
    """Starts a batch over chosen sessions, or over all that a query selects when it is tried. Nothing is done yet.

    Raises Invalid, NotAllowed.
    """
    actor.check_permission(held.permission_for(act))
    now = time.time()
    if refs:
        for ref in refs:
            actor.check_sees(ref)
    else:
        asked_for(query, zone, now, actor)
    old = jobs().exclude(state=WAITING)
    old.filter(state__in=(DRAFT, READY), beat__lt=now - _DRAFTS_SECONDS).delete()
    old.filter(finished__lt=now - _KEPT_SECONDS).delete()
    task: dict[str, Any] = {"act": act, **_sender(actor), "values": [], "reason": ""}
    if not refs:
        task |= {"query": query, "zone": zone, "now": now}
    job = _create(task, DRAFT, actor)
    items.add(job.pk, ((ref, "") for ref in dict.fromkeys(refs[:MOST])))
    return job.pk


def try_(batch_id: uuid.UUID, values: Mapping[str, Any], *, actor: Actor, reason: str = "") -> None:
    """Tries a batch: finds its sessions, and counts what would change in them. Writes nothing.

    `values` are those of an edit, by full key, ABSENT for a key that is to be removed. Raises Invalid, NotAllowed,
    NotFound; Conflict if the batch is being done or was.
    """
    job = _own(batch_id, actor)
    task = json.loads(job.task)
    if task["act"] == "edit":
        _check_can_be_written(values, actor, reason)
    if job.state == HELD or job.step == DOING or (job.state == WAITING and is_held(job)):
        raise Conflict(_("This batch is already running or has finished."))
    task.pop("approved_by", None)
    task |= {"values": [_kept(key, value) for key, value in values.items()], "reason": reason}
    runner.start(job, step=TRYING, task=json.dumps(task), **runner.fields_of(actor))


def do(batch_id: uuid.UUID, *, actor: Actor, dry_run: str = "", reason: str | None = None) -> None:
    """Does what was tried, or continues where it stopped. Does nothing if it is running or done.

    A batch that needs a second person is held instead, whole (held.py).

    `dry_run` names the dry run that the actor has seen, if they have; a `reason` replaces the one that it was given.

    Sessions with a running agent are done as soon as they are idle. Raises Invalid, NotAllowed, NotFound; Conflict
    if the batch was not tried yet, or was tried again since, or was undone.
    """
    job = _own(batch_id, actor)
    if "undone" in json.loads(job.result or "{}"):
        raise Conflict(_("This batch was undone."))
    if job.state in (DONE, HELD):
        return
    if job.state != READY and job.step != DOING:
        raise Conflict(_("The dry run for this batch hasn't finished."))
    if job.state == WAITING and is_held(job):
        return
    if dry_run and job.state == READY and dry_run != dry_run_of(job):
        raise _tried_again()
    task = json.loads(job.task)
    if reason is not None and job.state == READY and task["act"] == "edit":
        _check_can_be_written(values_of(task), actor, reason)
        job.task = json.dumps(task | {"reason": reason})
    if not held.hold(job, actor=actor):
        # A batch that a second person applied keeps its author, no matter who continues it.
        by = {} if "approved_by" in task else runner.fields_of(actor)
        runner.start(job, step=DOING, task=job.task, **by)


def apply(batch_id: uuid.UUID, *, dry_run: str, actor: Actor) -> None:
    """Does a batch that was held, as its second person. Exactly one process starts it.

    `dry_run` names the dry run that the actor has seen. Raises NotFound; NotAllowed for its author, and for those who
    may not edit all its apps; Conflict if it no longer waits, or was tried again since.
    """
    actor.check_may_write()
    job = _held(batch_id, actor)
    if dry_run != dry_run_of(job):
        raise _tried_again()
    task = json.loads(job.task) | {"approved_by": actor.name}
    with transaction.atomic():
        record("proposal-applied", actor.name, batch=str(job.pk), of=job.actor)
        if not runner.start(job, step=DOING, task=json.dumps(task), due=None):
            raise Conflict(_("This batch is no longer waiting."))


def decline(batch_id: uuid.UUID, *, actor: Actor, why: str = "") -> None:
    """Declines a held batch, or cancels one's own. Continuing it later asks for approval again.

    Raises what `apply` does.
    """
    actor.check_may_write()
    job = _held(batch_id, actor, own=True)
    own = held.is_own(job, actor)
    said = _("%(name)s cancelled it.") if own else _("%(name)s declined it.")
    message = " ".join(filter(None, (said % {"name": actor.name}, why.strip()[:REASON_LENGTH])))
    act = f"proposal-{'withdrawn' if own else 'declined'}"
    if not record_with(lambda: _let_go(job, message), act, actor.name, batch=str(job.pk), of=job.actor):
        raise Conflict(_("This batch is no longer waiting."))


def lapse_due() -> int:
    """Lets the held batches lapse whose time is over. Returns how many did."""
    if settings.READ_ONLY:
        return 0
    due = jobs().filter(state=HELD, due__lte=time.time())
    return sum(_let_go(job, _("It lapsed before anyone applied it.")) for job in due)


def _held(batch_id: uuid.UUID, actor: Actor, *, own: bool = False) -> Job:
    """Returns the job of a held batch that the actor may decide on; with `own`, also of their own."""
    job = job_of(batch_id, actor)
    if job.state != HELD or (job.due is not None and job.due <= time.time()):
        raise Conflict(_("This batch is no longer waiting."))
    if not (held.may_decide(job, actor) or (own and held.is_own(job, actor))):
        raise NotAllowed(_("This needs a second person who can edit all the apps in this batch."))
    return job


def _let_go(job: Job, message: str) -> bool:
    waiting = jobs().filter(pk=job.pk, state=HELD)
    return bool(waiting.update(state=STOPPED, message=message, due=None, finished=time.time()))


def stop(batch_id: uuid.UUID, *, actor: Actor) -> None:
    """Stops a batch within a second. What it has done stays, and it can continue. Raises NotAllowed, NotFound."""
    job = _own(batch_id, actor)
    jobs().filter(pk=job.pk, state=WAITING).update(
        state=STOPPED,
        claim="",
        claimed_until=None,
        finished=time.time(),
        message=_("%(name)s stopped it.") % {"name": actor.name},
    )


def discard(batch_id: uuid.UUID, *, actor: Actor) -> None:
    """Forgets a batch that has done nothing yet. Raises NotAllowed, NotFound, Conflict."""
    job = _own(batch_id, actor)
    if job.step == DOING or job.state == HELD:
        raise Conflict(_("This batch is already running or has finished."))
    runner.cancel(job)


def undo(batch_id: uuid.UUID, *, actor: Actor, reason: str = "") -> uuid.UUID:
    """Undoes the events of a batch, but not where someone has changed one of their keys since.

    A batch whose process died ends with that. Returns the undoing batch. Raises Invalid, NotAllowed, NotFound; Conflict
    if it is still being done.
    """
    job = _own(batch_id, actor)
    if job.state == WAITING and is_held(job):
        raise Conflict(_("This batch is running. Stop it first."))
    if job.state == WAITING:  # or another process would continue with it
        stop(batch_id, actor=actor)
        return undo(batch_id, actor=actor, reason=reason)
    result = json.loads(job.result or "{}")
    if "undone" in result:
        return uuid.UUID(result["undone"])
    changed = items.of(job.pk, items.CHANGED).exclude(event_id="")
    if not changed.exists():
        raise Invalid(_("This batch made no changes that can be undone."))
    keys = held.keys_of(json.loads(job.task))
    task = {"act": "undo", **_sender(actor), "values": [], "keys": keys, "reason": reason, "undoes": str(job.pk)}
    made = _create(task, DRAFT, actor, step=DOING)
    sources = items.sources_of(job.pk)
    total = items.add(made.pk, ((items.ref_of(item, sources), item.event_id) for item in in_pages(changed, "number")))
    jobs().filter(pk=made.pk).update(result=json.dumps({"shared": shared(made, keys, total)}))
    if not jobs().filter(pk=job.pk, result=job.result).update(result=json.dumps({**result, "undone": str(made.pk)})):
        made.delete()  # someone else was faster
        return undo(batch_id, actor=actor, reason=reason)
    if not held.hold(made, actor=actor):
        runner.start(made)
    return made.pk


# --- Rows --------------------------------------------------------------------------------------------------------------


def _own(batch_id: uuid.UUID, actor: Actor) -> Job:
    """Returns the job of a batch that the actor may take further. Raises NotFound, NotAllowed."""
    job = job_of(batch_id, actor)
    held.check_may_act(job, actor)
    return job


def _tried_again() -> Conflict:
    return Conflict(_("Someone ran this batch's dry run again. Review the new result."))


def _check_can_be_written(values: Mapping[str, Any], actor: Actor, reason: str) -> None:
    """Raises Invalid for an edit that can't be written, whatever the keys' values are."""
    state_event(
        [Entry(key, value, None if value is ABSENT else ABSENT) for key, value in values.items()], actor, reason
    )


def _sender(actor: Actor) -> dict[str, str]:
    """Returns the part of a batch's task that names its author; its row names who did the last step, perhaps an
    admin."""
    return {"sender": actor.name, "account": actor.account}


def _create(task: dict[str, Any], state: str, actor: Actor, **fields: Any) -> Job:
    return Job.objects.make(KIND.name, "", task, state=state, **runner.fields_of(actor), **fields)


def _kept(key: str, value: Any) -> dict[str, Any]:
    return {"key": key} if value is ABSENT else {"key": key, "value": value}
