"""Temporary edits: which there are, until when, and the outcome of each.

An edit names its end as `{"lasts": 3600}` (from the moment it is written) or `{"until": 1764086400.0}`, beside its
origin. Its event notes `until`. The row that waits for the end is a job (jobs/), kept before the event is written:
every written edit has one, wherever the process is killed. ending.py undoes the edits."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record_with
from ..access.shown import shown_change, shown_words
from ..domain.edit_note import edit_of, until_of
from ..domain.errors import Conflict, Error, Invalid, NotFound, SourceError
from ..domain.event import Event, delta_of
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change
from ..jobs import runner
from ..jobs.lease import WAITING, Lease, Outcome, may_see, session_of
from ..models import Job
from ..models.pages import in_pages
from ..reads import timeline
from ..sources import registry

ENDED, LEFT, CANCELLED, FAILED = "ended", "left", "cancelled", "failed"
LONGEST: Final = 366 * 86400.0
SHOWN: Final = 200
_KEPT_SECONDS: Final = 90 * 86400.0


@dataclass(frozen=True, slots=True)
class Expiry:
    """A temporary edit and its outcome.

    `state` is waiting, ended (it was undone), left (the keys in `left` have changed), cancelled (it stays; `message`
    says who decided so) or failed (`message` says why). `ref` is None while its source is not among adkweb's."""

    id: uuid.UUID
    ref: SessionRef | None
    event_id: str
    actor: str
    reason: str
    changes: list[Change]
    created: float
    until: float
    state: str
    message: str
    finished: float | None
    end_id: str
    left: list[str]

    @property
    def left_keys(self) -> str:
        """Returns the keys that were left alone as one text."""
        return ", ".join(self.left)


def resolved(of: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the same with the time at which an edit that is written now ends. Raises Invalid."""
    if not of or not {"lasts", "until"} & of.keys():
        return dict(of or {})
    return {**of, "until": end_of(of)}


def end_of(of: Mapping[str, Any]) -> float:
    """Returns when an edit that is written now ends: `lasts` seconds from now, or at `until`. Raises Invalid."""
    now = time.time()
    if "lasts" in of and "until" in of:
        raise Invalid(_("Specify a duration or an end time, not both."))
    until = float(now + of["lasts"] if "lasts" in of else of["until"])
    if not until > now:
        raise Invalid(_("This edit's end time is in the past."))
    if until > now + LONGEST:
        raise Invalid(_("A temporary edit can last up to a year."))
    return until


@contextmanager
def kept(ref: SessionRef, event: Event, actor: Actor) -> Iterator[None]:
    """Stores the end of an edit that is written in this block, if it has one."""
    if until_of(edit_of(event)) is None:
        yield
        return
    job, made = _keep(ref, event, actor)
    try:
        yield
    except SourceError:  # it is unknown whether it was written
        raise
    except Error:
        if made:
            job.delete()
        raise
    job, _made = _keep(ref, event, actor)  # someone who sent the same edit at the same moment may have been refused
    _wait_for(job, event)
    broadcast.tell("queued", ref)


def rows() -> QuerySet[Job]:
    """Returns the rows of all temporary edits."""
    return Job.objects.filter(kind="expiry")


def listed(*, actor: Actor, own: bool = False) -> list[Expiry]:
    """Returns the temporary edits in apps that the actor may see: those that wait, the next to end first, then the
    others with their outcome, the latest first. With `own`, only those of the actor."""
    wanted = rows().filter(runner.wanted_by(actor)) if own else rows()
    waiting = in_pages(wanted.filter(state=WAITING), "due", "id")
    over = in_pages(wanted.exclude(state=WAITING), "-finished", "id")
    seen = []
    for some in (waiting, over):
        visible = (job for job in some if may_see(actor, job))
        seen += [job for _number, job in zip(range(SHOWN), visible, strict=False)]
    return [view_of(job, actor) for job in seen]


def get(expiry_id: uuid.UUID | str, *, actor: Actor) -> Expiry:
    """Returns a temporary edit. Raises NotFound."""
    return view_of(_job_of(expiry_id, actor), actor)


def extend(expiry_id: uuid.UUID | str, of: Mapping[str, Any], *, actor: Actor) -> Expiry:
    """Changes the end of an edit: `of` is as in `resolved`, counted from now.

    Raises Invalid, NotFound, NotAllowed; Conflict if it has ended, or is being undone right now; SourceError."""
    until = end_of(of)
    lease = _claimed(expiry_id, actor)
    _end(lease, Outcome(WAITING, fields={"due": until, "message": actor.name}), actor, until=int(until))
    return get(expiry_id, actor=actor)


def keep(expiry_id: uuid.UUID | str, *, actor: Actor) -> Expiry:
    """Keeps an edit for good. Raises what `extend` does."""
    lease = _claimed(expiry_id, actor)
    _end(lease, Outcome(CANCELLED, actor.name), actor, stays=True)
    return get(expiry_id, actor=actor)


def end_id(job: Job) -> str:
    """Returns the id of the event that undoes an edit: always the same, so that there is only one."""
    return str(uuid.uuid5(job.pk, "end"))


def taken_back(job: Job, ref: SessionRef) -> Seq | None:
    """Returns the seq of the event that undid an edit (0 if it has none); None if there is no such event yet.

    Raises SourceError."""
    try:
        return timeline.event(ref, end_id(job), actor=SYSTEM).seq or Seq(0)
    except NotFound:
        return None


def view_of(job: Job, actor: Actor) -> Expiry:
    """Returns a row as an actor may see it."""
    task, result = json.loads(job.task), json.loads(job.result or "{}")
    changes = [Change(each["key"], each.get("old", ABSENT), each.get("new", ABSENT)) for each in task["changes"]]
    return Expiry(
        job.pk,
        session_of(job),
        task["event_id"],
        job.actor,
        shown_words(task["reason"], actor, job.app_name),
        [shown_change(change, actor, job.app_name) for change in changes],
        job.created,
        job.due or 0.0,
        job.state,
        _(job.message) if job.state == FAILED and job.message else job.message,
        job.finished,
        end_id(job) if job.state in (ENDED, LEFT) and result.get("written") else "",
        result.get("left", []),
    )


def _end(lease: Lease, outcome: Outcome, actor: Actor, **detail: Any) -> None:
    """Changes the end of an edit, and records who did."""
    ref, about = session_of(lease.job), {"event": json.loads(lease.job.task)["event_id"], "of": lease.job.actor}
    record_with(lambda: lease.end(outcome), "expiry-changed", actor.name, ref=ref, **about, **detail)


def _claimed(expiry_id: uuid.UUID | str, actor: Actor) -> Lease:
    """Claims the row of an edit that has not ended. Raises what `extend` does."""
    job = _job_of(expiry_id, actor)
    alias = registry.alias_of(job.where) or ""
    actor.check_may("append", alias, job.app_name)
    # A second person agreed to this end.
    approval.check(alias, job.app_name, [each["key"] for each in json.loads(job.task)["changes"]], actor=actor)
    lease = Lease.take_soon(job)
    if lease is None:
        raise Conflict(_("This edit is already being undone, or is no longer active."))
    if lease.written(lambda ref: taken_back(job, ref)) is not None:
        lease.end(Outcome(ENDED, fields={"result": json.dumps({"written": True})}))
        raise Conflict(_("This edit has already been undone."))
    return lease


def _job_of(expiry_id: uuid.UUID | str, actor: Actor) -> Job:
    try:
        job = rows().filter(pk=expiry_id).first()
    except ValidationError:  # not a UUID
        job = None
    if job is None or not may_see(actor, job):
        raise NotFound(_("This edit doesn't exist."))
    return job


def _keep(ref: SessionRef, event: Event, actor: Actor) -> tuple[Job, bool]:
    """Returns the row of an edit, and whether it was made now: an edit that is sent again has one."""
    where, now, note = registry.identity(ref.source), time.time(), edit_of(event)
    rows().filter(finished__lt=now - _KEPT_SECONDS).delete()
    return Job.objects.get_or_create(
        id=uuid.uuid5(uuid.NAMESPACE_OID, ascii(["expiry", where, *ref[1:], event["id"]])),
        defaults={
            "kind": "expiry",
            "where": where,
            "app_name": ref.app_name,
            "user_id": ref.user_id,
            "session_id": ref.session_id,
            "task": json.dumps({"event_id": event["id"], "reason": note["reason"], "changes": _changes(event)}),
            "created": now,
            "beat": now,
            "due": until_of(note),
            **runner.fields_of(actor),
        },
    )


def _wait_for(job: Job, event: Event) -> None:
    """Makes the row of an edit that was written just now wait for the end that its event notes.

    A process that died before it wrote the edit may have stored another end. If that time is over, no one found the
    edit, and it counts as failed; a process that is looking for it right now loses the claim."""
    waits = {"state": WAITING, "due": until_of(edit_of(event)), "finished": None, "message": ""}
    free = {"claim": "", "claimed_until": 1.0}  # the next process looks up what the claim wrote
    rows().filter(pk=job.pk, state__in=(WAITING, FAILED)).exclude(**waits).update(**waits, **free)


def _changes(event: Event) -> list[dict[str, Any]]:
    note = edit_of(event)
    sides = {key: {"old": value} for key, value in note["replaced"].items()}
    wrote = {key: {"new": value} for key, value in delta_of(event).items() if key not in note["removed"]}
    return [{"key": key, **sides.get(key, {}), **wrote.get(key, {})} for key in delta_of(event)]
