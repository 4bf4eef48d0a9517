"""Applies, declines and cancels proposals, and lets them lapse. Exactly one process does so, the one that claims the
row.

A proposal is compared like any edit: if a key changed since its author saw it, nothing is written, and the proposal
keeps waiting. The event id is fixed in advance, so a process that takes over after a crash finds the event instead of
writing it twice."""

import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.utils.translation import gettext as _

from .. import broadcast
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record_with
from ..domain import credentials
from ..domain.edit_note import edit_of, until_of
from ..domain.errors import Conflict, Error, NotAllowed, SourceError
from ..domain.event import Event
from ..jobs import runner
from ..jobs.lease import AWAY, IN_DOUBT, WAITING, Lease, Lost, Outcome, ref_of, session_of
from ..models import Job
from . import edit, proposals, queue
from .proposals import APPLIED, DECLINED, LAPSED, WITHDRAWN, Proposal

log = logging.getLogger("adkweb.approval")

_ACTS: Final = {APPLIED: "proposal-applied", DECLINED: "proposal-declined", WITHDRAWN: "proposal-withdrawn"}
Act = Callable[[Lease, Actor], Callable[[bool], None]]


def apply(proposal_id: uuid.UUID | str, *, actor: Actor, now: bool = False, act: Act | None = None) -> Proposal:
    """Applies a proposal: its event is written, with the names of both people. If two people have to apply it, the
    first is noted, and it waits for the second. What sends something is applied by `act`, with its lease and the actor:
    it prepares that, and returns what sends it. That is called once it's noted that the proposal is applied, so that nothing
    is sent twice; with False if someone else has decided on it meanwhile, so that nothing is sent.

    With `now`, applies it even if that ends a running invocation. Raises NotFound; NotAllowed for its author, for
    actors who may not edit the app, and if the author no longer may; Conflict if a key changed, if it is decided, or if
    an invocation runs (`running` in `detail`); StaleSession, SourceError."""
    job = _checked(proposal_id, actor)
    lease = _claimed(job)
    job.refresh_from_db(fields=["result"])
    first = proposals.first_of(job)
    if proposals.needs_two(job) and first in ("", actor.name):
        _note_first(lease, actor)
        return proposals.get(proposal_id, actor=actor)
    both = replace(actor, name=f"{first}, {actor.name}") if first else actor
    try:
        send = act(lease, both) if act else None
        second = both.name if send else _write(lease, both, now=now)
    except (SourceError, *AWAY):  # the event may be there
        lease.end_surely(Outcome(WAITING, fields={"claimed_until": IN_DOUBT}))
        raise
    except BaseException:
        lease.end(Outcome(WAITING))
        raise
    is_applied = _end(lease, APPLIED, second)
    if send:
        send(is_applied)
    if not is_applied:
        raise _decided()
    return proposals.get(proposal_id, actor=actor)


def _note_first(lease: Lease, actor: Actor) -> None:
    first = {"name": actor.name, "person": int(actor.account.removeprefix("person "))}
    outcome = Outcome(WAITING, fields={"result": json.dumps({"first": first})})
    about = {"proposal": str(lease.job.pk), "of": lease.job.actor}
    record_with(lambda: lease.end(outcome), "proposal-seconded", actor.name, ref=session_of(lease.job), **about)


def decline(proposal_id: uuid.UUID | str, *, actor: Actor, why: str = "") -> Proposal:
    """Declines a proposal. Nothing is written, and its author can open it again as an edit. Raises what `apply`
    does."""
    lease = _settled(_checked(proposal_id, actor))
    _end(lease, DECLINED, actor.name, why=why.strip()[: edit.REASON_LENGTH])
    return proposals.get(proposal_id, actor=actor)


def cancel(proposal_id: uuid.UUID | str, *, actor: Actor) -> Proposal:
    """Cancels a proposal of one's own. Raises what `apply` does."""
    actor.check_may_write()
    job = proposals.job_of(proposal_id, actor)
    if not proposals.is_own(job, actor):
        raise NotAllowed(_("Only the proposal's author can cancel it."))
    _end(_settled(job), WITHDRAWN, actor.name)
    return proposals.get(proposal_id, actor=actor)


def lapse_due() -> int:
    """Lets the proposals lapse whose time is over. Returns how many did."""
    if settings.READ_ONLY:
        return 0
    lapsed = 0
    for job in proposals.rows().filter(state=WAITING, due__lte=time.time()).order_by("due")[:100]:
        try:
            _end(_settled(job), LAPSED, "")
            lapsed += 1
        except Error as error:  # being applied just now, or its source is away
            log.info("the proposal %s does not lapse yet: %s", job.pk, error.message)
    return lapsed


def _checked(proposal_id: uuid.UUID | str, actor: Actor) -> Job:
    """Returns the row of a proposal that the actor may decide on. Raises NotFound, NotAllowed, Conflict,
    SourceError."""
    actor.check_may_write()
    job = proposals.job_of(proposal_id, actor)
    ref = ref_of(job)
    actor.check_may(proposals.needs(job), ref.source, ref.app_name)
    if not proposals.may_decide(job, actor):
        raise NotAllowed(_("This needs a second person: its author can't apply it."))
    if job.state == WAITING and job.due is not None and job.due <= time.time():
        _end(_settled(job), LAPSED, "")
        raise Conflict(_("This proposal has lapsed."))
    return job


def _write(lease: Lease, approver: Actor, *, now: bool) -> str:
    job = lease.job
    ref = ref_of(job)
    if not now and edit.stored(ref, proposals.event_of(job)) is None and queue.held(ref, actor=SYSTEM) is not None:
        raise Conflict(_("The agent is running. Applying this now will end the run."), running=True)
    return write(lease, approver)


def write(lease: Lease, approver: Actor) -> str:
    """Appends the event of a claimed proposal, if it isn't there, and returns who applied it, as it is stored. Raises
    NotAllowed if its author may no longer edit the app, Conflict if someone else has decided on it while this process was
    slow, and what an edit raises."""
    job = lease.job
    try:
        lease.beat()
    except Lost as lost:
        raise _decided() from lost
    ref, author = ref_of(job), runner.actor_of(job)
    event = proposals.event_of(job)
    if (before := edit.stored(ref, event)) is not None:
        return _second(before.data, approver)
    if not author.may("append", ref.source, ref.app_name):
        raise NotAllowed(_("%(name)s proposed this but can no longer edit this app.") % {"name": job.actor})
    revision = json.loads(job.task)["revision"]
    event = _dated(event, approver, job.created)
    written = edit.append_once(ref, event, author, proposals.expected_of(job), revision, origin="approved").event
    return _second(written, approver)


def _second(event: Event, approver: Actor) -> str:
    second = edit_of(event).get("approved_by")
    return second if isinstance(second, str) else approver.name


def _dated(event: Event, approver: Actor, proposed: float) -> Event:
    """Returns the event to be written: with the second person, and the edit's end counted from now."""
    note: dict[str, Any] = {**edit_of(event), "approved_by": approver.name, "proposed": proposed}
    now, until = time.time(), until_of(note)
    if "lasts" in note:
        note["until"] = now + note["lasts"]
    elif until is not None and until <= now:
        raise Conflict(_("This edit's end time is in the past."))
    metadata = {**event["custom_metadata"], "adkweb": note}
    return {**event, "timestamp": now, "custom_metadata": metadata}


def _claimed(job: Job) -> Lease:
    lease = Lease.take_soon(job)
    if lease is None:
        raise _decided()
    return lease


def _decided() -> Conflict:
    return Conflict(_("This proposal has already been decided or is being applied right now."))


def _settled(job: Job) -> Lease:
    """Claims a proposal that was certainly not written. Raises Conflict, SourceError."""
    lease = _claimed(job)
    if job.lane:
        return lease
    before = lease.written(lambda ref: edit.stored(ref, proposals.event_of(job)))
    if before is not None:
        _end(lease, APPLIED, str(edit_of(before.data).get("approved_by", "")))
        raise Conflict(_("This proposal has already been applied."))
    return lease


def _end(lease: Lease, state: str, who: str, **result: str) -> bool:
    """Notes the outcome. Returns False if another process has the proposal by now."""
    ref = session_of(lease.job)
    outcome = Outcome(state, who, {"result": json.dumps(result), **_without_secrets(lease.job)})
    about = {"proposal": str(lease.job.pk), "of": lease.job.actor, **result}
    ended = record_with(lambda: lease.end(outcome), _ACTS[state], who, ref=ref, **about) if who else lease.end(outcome)
    if ended:
        log.info("the proposal %s of %s: %s by %s", lease.job.pk, lease.job.actor, state, who or "adkweb")
        if ref is not None:
            broadcast.tell("queued", ref)
    return bool(ended)


def _without_secrets(job: Job) -> dict[str, str]:
    """Returns the field that forgets the address of a sign-in: its run has it, or no one will use it."""
    task = json.loads(job.task)
    if "answer" in task:
        task["answer"]["parts"] = credentials.hidden(task["answer"]["parts"])
    return {"task": json.dumps(task)}
