"""Undoes temporary edits whose time is over, each with one event. Any process can do so, but only the one that claims
the edit does.

A key that has changed by now is left alone. The event id is fixed in advance: if a process dies right after writing it,
the next one finds it. Edits that end while adkweb isn't running are undone when it runs again."""

import json
import logging
import time
from typing import Final

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..domain.edit_note import EDIT_PREFIX, edit_of
from ..domain.errors import Behind, Conflict, Error, Invalid, NotFound, SourceError, StaleSession
from ..domain.session_ref import SessionRef
from ..jobs.lease import WAITING, Lease, Outcome, session_of
from ..models import Job
from ..reads import timeline, views
from . import edit, expiry, queue, undo
from .expiry import ENDED, FAILED, LEFT

log = logging.getLogger("adkweb.expiry")

_MOST: Final = 100  # of a round: the others are due in the next one
_WAIT: Final = Outcome(WAITING)


def apply_due() -> int:
    """Undoes the edits whose time is over. Returns how many are now finished.

    An edit keeps waiting while an invocation runs in its session, and while its database is away. One that fails raises
    nothing."""
    if settings.READ_ONLY:
        return 0
    due = expiry.rows().filter(state=WAITING, due__lte=time.time()).order_by("due", "id")
    return sum(_try(job) for job in due[:_MOST])


def seconds_to_next() -> float | None:
    """Returns the seconds until the next edit ends, 0 if its time is over; None if there is none."""
    due = expiry.rows().filter(state=WAITING).order_by("due").values_list("due", flat=True).first()
    return None if due is None else max(0.0, due - time.time())


def _try(job: Job) -> bool:
    ref = session_of(job)
    lease = Lease.take(job) if ref is not None else None
    if lease is None or ref is None:
        return False
    job.refresh_from_db()
    if job.due is None or job.due > time.time():  # extended since it was read
        lease.end(_WAIT)
        return False
    try:
        with translation.override(job.language or None):
            outcome = _outcome(job, ref)
    except Exception:
        # An error in adkweb: the others continue, and this one is tried again when the claim has ended.
        log.exception("the end of the edit %s of %s", job.pk, job.actor)
        return False
    finished = lease.end(outcome) and outcome.state != WAITING
    if finished:
        log.info("the edit %s of %s: %s", job.pk, job.actor, outcome.state)
    return finished


def _outcome(job: Job, ref: SessionRef) -> Outcome:
    """Undoes a claimed edit, if its session is idle, and returns the outcome."""
    try:
        if expiry.taken_back(job, ref) is not None:
            return _over(ENDED, [], written=True)
        return _take_back(job, ref)
    except NotFound:
        return Outcome(FAILED, "The session was deleted, or the edit was never written.")
    except (StaleSession, SourceError, Behind):
        return _WAIT
    except Conflict as conflict:
        return _WAIT if "changed" in conflict.detail else Outcome(FAILED, conflict.message)
    except Error as error:
        return Outcome(FAILED, error.message)


def _take_back(job: Job, ref: SessionRef) -> Outcome:
    event_id = json.loads(job.task)["event_id"]
    event = timeline.event(ref, event_id, actor=SYSTEM)
    view = views.session(ref, actor=SYSTEM)  # whatever an agent writes after this makes the append stale
    if not queue.is_idle(ref):
        return _WAIT
    try:
        plan = undo.undo_by_note(event, view.state, actor=SYSTEM) or undo.undo(ref, event_id, actor=SYSTEM)
    except Invalid:  # the previous values are already there
        return _over(LEFT, [])
    steps = [step for step in plan.steps if not step.contested]
    left = [*(step.key for step in plan.steps if step.contested), *plan.unknown]
    if not steps:
        return _over(LEFT, left)
    why = (_("Expired.") + " " + json.loads(job.task)["reason"]).strip()[: edit.REASON_LENGTH]
    of = {"undoes": event_id, "expired": job.due}
    written, seen = edit.state_event([step.entry for step in steps], Actor(job.actor, ()), why, of=of)
    end_id = expiry.end_id(job)
    written |= {"id": end_id, "invocation_id": EDIT_PREFIX + end_id}
    edit_of(written)["left"] = left
    edit.append_once(ref, written, SYSTEM, seen, view.revision)
    return _over(LEFT if left else ENDED, left, written=True)


def _over(state: str, left: list[str], *, written: bool = False) -> Outcome:
    return Outcome(state, fields={"result": json.dumps({"left": left, "written": written})})
