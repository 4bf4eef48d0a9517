"""Decides which batches need a second person, by the rules of access/approval.py, and who may be that person.

A batch is held whole: its job is `held`, and nothing of it is done, until another editor of all its apps applies it."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access import approval, tokens
from ..access.actor import Actor
from ..access.audit.record import record_with
from ..domain.errors import NotAllowed
from ..domain.roles import Permission
from ..domain.session_ref import SessionRef
from ..models import BatchItem, Job
from ..models.pages import in_pages
from ..sources import registry
from . import items

HELD: Final = "held"  # the state of a job
_DAY: Final = 86400.0


def hold(job: Job, *, actor: Actor) -> bool:
    """Holds a batch that is about to be done, if a rule requires it and no one has applied it yet. Returns whether it
    is held.

    Raises NotAllowed for authors who may not edit all its apps: what someone else applies is done in their name."""
    task = json.loads(job.task)
    if "approved_by" in task or not approval.listed():
        return False
    wheres = _apps_of(items.of(job.pk, items.TO_DO))
    pairs = [(alias, app) for where, app in wheres if (alias := registry.alias_of(where)) is not None]
    size = size_of(job)
    days = approval.days_of(pairs, keys_of(task), size)
    if days is None:
        return False
    if not _may_edit(wheres, task["act"], actor):
        raise _not_theirs()
    task |= {"apps": wheres, "proposed": time.time()}
    fields = {"state": HELD, "task": json.dumps(task), "due": time.time() + days * _DAY, "claim": "", "message": ""}
    owner = {"actor": actor.name, "account": actor.account}
    rows = Job.objects.filter(pk=job.pk, state=job.state, claim=job.claim)
    about = SessionRef(*(pairs[0] if len(pairs) == 1 else ("", "")), "", "")
    more: dict[str, Any] = {"batch": str(job.pk), "sessions": size}
    record_with(lambda: rows.update(**fields, **owner), "proposed", actor.name, ref=about, **more)
    return True


def size_of(job: Job) -> int:
    """Returns the number of sessions to which a batch writes, including those that are done."""
    return int(items.of(job.pk, items.TO_DO).count() + items.of(job.pk, items.CHANGED).count())


def needs_another(task: Mapping[str, Any], ref: SessionRef, size: int) -> bool:
    """Returns whether a batch of this size needs a second person for a session, and none has applied it."""
    return "approved_by" not in task and approval.days_of([ref[:2]], (), size) is not None


def keys_of(task: Mapping[str, Any]) -> list[str]:
    """Returns the keys that a batch writes, by their full names."""
    return list(task.get("keys") or [each["key"] for each in task["values"]])


def is_party(job: Job, actor: Actor) -> bool:
    """Returns whether a batch that was held is about apps all of which the actor may edit."""
    task = json.loads(job.task)
    return _may_edit(task.get("apps", []), task["act"], actor)


def may_act(job: Job, actor: Actor) -> bool:
    """Returns whether a batch is the actor's own, or they may edit all its apps: others only look at it."""
    if is_own(job, actor):
        return True
    act = json.loads(job.task)["act"]
    # A batch may have 100,000 sessions, and its page asks again and again.
    if actor.may_everywhere(permission_for(act)):
        return True
    return actor.has(permission_for(act)) and _may_edit(_apps_of(BatchItem.objects.filter(job_id=job.pk)), act, actor)


def check_may_act(job: Job, actor: Actor) -> None:
    """Raises NotAllowed unless `may_act`, and if no one may change anything."""
    actor.check_may_write()
    if not may_act(job, actor):
        raise _not_theirs()


def is_own(job: Job, actor: Actor) -> bool:
    """Returns whether this actor is a batch's author."""
    return actor.is_same(job.actor, job.account)


def may_decide(job: Job, actor: Actor) -> bool:
    """Returns whether an actor is a second person for a held batch: another one, who may edit all its apps."""
    if job.state != HELD or not actor.account.startswith("person ") or is_own(job, actor):
        return False
    return is_party(job, actor) and not tokens.knows(job.account, actor.name)


def count(*, actor: Actor) -> int:
    """Returns how many held batches wait for this actor."""
    return sum(may_decide(job, actor) for job in Job.objects.filter(kind="batch", state=HELD)[:100])


def permission_for(act: str) -> Permission:
    """Returns the permission that an act needs in each app."""
    return "admin" if act == "delete" else "append"


def _may_edit(wheres: Sequence[Sequence[str]], act: str, actor: Actor) -> bool:
    """Returns whether there are apps at all, and the actor may do an act in all of them."""
    permission = permission_for(act)
    pairs = [(registry.alias_of(where), app) for where, app in wheres]
    return bool(pairs) and all(alias is not None and actor.may(permission, alias, app) for alias, app in pairs)


def _apps_of(rows: QuerySet[BatchItem]) -> list[tuple[str, str]]:
    """Returns what identifies the sources, and the apps, of some sessions of a batch."""
    return sorted({(row.where, json.loads(row.names)[0]) for row in in_pages(rows, "number")})


def _not_theirs() -> NotAllowed:
    return NotAllowed(_("Only someone who can edit all the apps in this batch can do this."))
