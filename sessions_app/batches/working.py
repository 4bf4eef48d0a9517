"""Works through a batch: finds its sessions and tries the act on each, or does it. Runs as a job (jobs/).

If the process dies, another one continues with the sessions that have no outcome yet. An act that was done, but not
noted, is not done twice (acts.py).
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import tzinfo
from functools import partial
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Conflict, Invalid, NotAllowed, NotFound, SourceError
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, scope_of
from ..edits import queue
from ..jobs import runner
from ..jobs.lease import DONE, STOPPED, Outcome, Progress
from ..models import BatchItem, Job
from ..search import sharing
from ..search.index import feed
from ..search.language import parse
from ..search.results import every
from ..sources import database
from . import held, items
from .acts import Act, Delete, Done, Edit, Triable, Tried, Undo, was_done
from .items import CHANGED, GONE, REFUSED, SAME, TO_DO

READY: Final = "ready"
TRYING, DOING = "trying", "doing"  # the steps of a job
MOST: Final = 100_000  # sessions of a batch
STOP_SECONDS: Final = 1.0  # until a stopped batch writes nothing more
INDEX_SECONDS = 10.0  # that a dry run waits for the index of search/
_SOME: Final = 2_000
LOOK_AGAIN: Final = 2.0  # seconds until sessions whose agents were running are tried again


def run(job: Job, beat: runner.Beat) -> Outcome:
    """Tries a batch, or does it, and reports its progress. Raises Lost, Invalid, SourceError."""
    return _try(job, beat) if job.step == TRYING else _do(job, beat)


def can_run(job: Job) -> bool:
    """Returns whether this process has the sources of a batch."""
    return None not in items.sources_of(job.pk).values()


def asked_for(text: str, zone: str, now: float, actor: Actor) -> Iterator[SessionRef]:
    """Returns the sessions that a query selects. Raises Invalid if something is wrong in it: it would select others."""
    query = parse(text, now=now, zone=_zone(zone))
    if query.problems:
        raise Invalid(
            _("The query has a mistake, so it isn't clear which sessions it selects: %(message)s")
            % {"message": query.problems[0].message}
        )
    return every(query, actor)


def _zone(name: str) -> tzinfo:
    return ZoneInfo(name)


# --- Trying -----------------------------------------------------------------------------------------------------------


def _try(job: Job, beat: runner.Beat) -> Outcome:
    task, actor = json.loads(job.task), runner.actor_of(job)
    act = _triable(job, task, actor)
    behind: list[str] = []
    if "query" in task:
        BatchItem.objects.filter(job_id=job.pk).delete()
        behind = _behind(beat)
        selected = asked_for(task["query"], task["zone"], task["now"], actor)
        if items.add(job.pk, ((ref, "") for ref in islice(selected, MOST + 1))) > MOST:
            BatchItem.objects.filter(job_id=job.pk).delete()
            raise Invalid(_("A batch can have up to %(n)s sessions. Narrow the query.") % {"n": MOST})
    else:
        BatchItem.objects.filter(job_id=job.pk).update(outcome=TO_DO, message="")
    total = BatchItem.objects.filter(job_id=job.pk).count()
    sources = items.sources_of(job.pk)
    for number, item in enumerate(items.walk(job.pk)):
        beat(Progress(number, total, TRYING))
        ref = items.ref_of(item, sources)
        tried, message = _tried(act, ref)
        held = tried.outcome == TO_DO and queue.held(ref, actor=actor) is not None
        items.note_tried(item, job.claim, outcome=tried.outcome, expects=tried.expects, held=held, message=message)
    result = {"behind": behind, "shared": shared(job, values_of(task), total)}
    return Outcome(READY, fields={"done": total, "total": total, "result": json.dumps(result)})


def _behind(beat: runner.Beat) -> list[str]:
    """Waits until what is stored now can be found. Returns the sources of which it cannot after INDEX_SECONDS: their
    sessions may be missing in the batch."""
    until = time.monotonic() + INDEX_SECONDS

    def reaches(source: str) -> bool:
        with suppress(SourceError):  # it is away
            return feed.reaches(source, max(0.0, until - time.monotonic()), lambda: beat(Progress(step=TRYING)))
        return False

    return [source.alias for source in database.opened() if not reaches(source.alias)]


def shared(job: Job, keys: Iterable[str], total: int) -> dict[str, int]:
    """Counts whom a change of `user:` and `app:` keys reaches: how many users, or apps, and sessions, whether the batch has
    these sessions or not, and how many of these run or wait now; `same` are the users, or apps, of its sessions whose keys
    have the values already. Returns {} for a change that sessions do not share."""
    scopes = {scope_of(key)[0] for key in keys} & {"user", "app"}
    if not scopes:
        return {}

    def owners_of(outcome: str) -> set[tuple[str, str, str]]:
        users: set[tuple[str, str, str]] = set()
        for first in range(0, total, _SOME):
            some = items.of(job.pk, outcome).filter(number__range=(first, first + _SOME - 1))
            users |= {(where, *json.loads(names)[:2]) for where, names in some.values_list("where", "names")}
        return {(where, app, "") for where, app, _user in users} if "app" in scopes else users

    owners = owners_of(TO_DO)
    sessions = running = 0
    for where in {owner[0] for owner in owners}:
        reached, active = sharing.reached(where, [(app, user) for of, app, user in owners if of == where])
        sessions, running = sessions + reached, running + active
    of_whom = "apps" if "app" in scopes else "users"
    return {of_whom: len(owners), "sessions": sessions, "running": running, "same": len(owners_of(SAME) - owners)}


def _tried(act: Triable, ref: SessionRef) -> tuple[Tried, str]:
    try:
        return act.try_(ref), ""
    except NotFound:
        return Tried(GONE, ""), ""
    except (NotAllowed, Invalid) as error:
        return Tried(REFUSED, ""), error.message


# --- Doing ------------------------------------------------------------------------------------------------------------


def _do(job: Job, beat: runner.Beat) -> Outcome:
    task = json.loads(job.task)
    actor = runner.actor_of(job)
    act, size = _act(job, task, actor), held.size_of(job)
    if task["act"] == "undo":
        _add_late(job, uuid.UUID(task["undoes"]), beat)
    total = BatchItem.objects.filter(job_id=job.pk).count()
    sources = items.sources_of(job.pk)
    apps = items.apps_with_events(job.pk)
    while left := items.of(job.pk, TO_DO).count():
        done = total - left
        for item in items.walk(job.pk):
            beat(Progress(done, total, DOING))
            ref = items.ref_of(item, sources)
            try:
                actor.check_may(held.permission_for(task["act"]), ref.source, ref.app_name)
            except NotAllowed as error:  # no longer: someone else who may can continue
                return Outcome(STOPPED, error.message)
            if held.needs_another(task, ref, size):  # by a rule that was added since it started
                items.note(item, outcome=REFUSED, message=_("A batch of this size needs a second person."))
                done += 1
                continue
            outcome, message = _done(act, ref, item, first=ref.app_name not in apps)
            if outcome is None:  # its agent is at work
                if item.begun or not item.held:  # started by a process that died before it did anything here
                    items.note(item, begun=False, held=True)
                continue
            if outcome.event_id:
                apps.add(ref.app_name)
            items.note(item, outcome=outcome.outcome, event_id=outcome.event_id, message=message)
            done += 1
        if done < total:
            beat(Progress(done, total, DOING))
            time.sleep(LOOK_AGAIN)
    return Outcome(DONE, fields={"done": total, "total": total})


def _done(act: Act, ref: SessionRef, item: BatchItem, *, first: bool) -> tuple[Done | None, str]:
    try:
        return act.do(ref, item.expects, first=first, begin=partial(items.begin, item)), ""
    except NotFound:  # `item` was read before this process started anything
        return Done(CHANGED if item.begun else GONE), ""
    except (NotAllowed, Invalid, Conflict) as error:
        return Done(REFUSED), error.message


def _add_late(job: Job, undone: uuid.UUID, beat: runner.Beat) -> None:
    """Adds to an undo what the batch that it undoes wrote, but had not noted: it was just being stopped, or its process
    died."""
    ended = Job.objects.filter(pk=undone).exclude(state=DONE).values_list("finished", flat=True).first()
    if ended is None:
        return
    time.sleep(min(STOP_SECONDS, max(0.0, ended + STOP_SECONDS - time.time())))
    there = set(BatchItem.objects.filter(job_id=job.pk).values_list("where", "names"))
    sources = items.sources_of(undone)
    late = []
    for item in (*items.of(undone, CHANGED).exclude(event_id="").order_by("number"), *items.of(undone, TO_DO)):
        if (item.where, item.names) not in there:
            beat(Progress(0, len(there), DOING))
            ref = items.ref_of(item, sources)
            if done := was_done(str(undone), ref):
                late.append((ref, done.event_id))
    items.add(job.pk, late, len(there))


def values_of(task: dict[str, Any]) -> dict[str, Any]:
    """Returns the values that an edit sets, ABSENT for a key that it removes."""
    return {each["key"]: each.get("value", ABSENT) for each in task["values"]}


def _act(job: Job, task: dict[str, Any], actor: Actor) -> Act:
    if task["act"] == "undo":
        return Undo(str(job.pk), actor, task["reason"], task.get("approved_by", ""))
    return _triable(job, task, actor)


def _triable(job: Job, task: dict[str, Any], actor: Actor) -> Triable:
    if task["act"] == "delete":
        return Delete(actor)
    return Edit(str(job.pk), actor, values_of(task), task["reason"], task.get("approved_by", ""))


KIND: Final = runner.register(runner.Kind("batch", run, can_run))
