"""Tells which batches need a second person, by the rules of access/approval.py, and who may be that person.

A batch is held whole: its job is `held`, and nothing of it is done, until another editor of all its apps applies it."""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from ..access import approval, tokens
from ..access.actor import Actor, Right
from ..audit.record import record
from ..models import BatchItem, Job
from ..sources import registry
from . import items

HELD: Final = "held"  # the state of a job
_DAY: Final = 86400.0


def hold(job: Job, *, actor: Actor) -> bool:
    """Holds a batch that is about to be done, if a rule says so and nobody has applied it yet. Tells whether it is held."""
    task = json.loads(job.task)
    if "approved_by" in task or not approval.listed():
        return False
    wheres = _apps_of(job)
    pairs = [(alias, app) for where, app in wheres if (alias := registry.alias_of(where)) is not None]
    size = items.of(job.pk, items.TO_DO).count()
    days = approval.days_of(pairs, keys_of(task), size)
    if days is None:
        return False
    task |= {"apps": wheres, "proposed": time.time()}
    fields = {"state": HELD, "task": json.dumps(task), "due": time.time() + days * _DAY, "claim": "", "message": ""}
    owner = {"actor": actor.name, "account": actor.account}
    if Job.objects.filter(pk=job.pk, state=job.state, claim=job.claim).update(**fields, **owner):
        about = pairs[0] if len(pairs) == 1 else ("", "")
        record("proposed", actor.name, source=about[0], app_name=about[1], batch=str(job.pk), sessions=size)
    return True


def keys_of(task: Mapping[str, Any]) -> list[str]:
    """Returns the keys that a batch writes, by their full names."""
    return list(task.get("keys") or [each["key"] for each in task["values"]])


def is_party(job: Job, actor: Actor) -> bool:
    """Tells whether a batch that was held is about apps all of which the actor may edit."""
    task = json.loads(job.task)
    right: Right = "admin" if task["act"] == "delete" else "append"
    pairs = [(registry.alias_of(where), app) for where, app in task.get("apps", [])]
    return bool(pairs) and all(alias is not None and actor.may(right, alias, app) for alias, app in pairs)


def is_own(job: Job, actor: Actor) -> bool:
    """Tells whether this actor is who wants a batch."""
    return job.account == actor.account if job.account and actor.account else job.actor == actor.name


def may_decide(job: Job, actor: Actor) -> bool:
    """Tells whether an actor is a second person for a held batch: another one, who may edit all its apps."""
    if job.state != HELD or not actor.account.startswith("person ") or is_own(job, actor):
        return False
    return is_party(job, actor) and not tokens.is_made_by(job.account, actor.name)


def count(*, actor: Actor) -> int:
    """Returns how many held batches wait for this actor."""
    return sum(may_decide(job, actor) for job in Job.objects.filter(kind="batch", state=HELD)[:100])


def _apps_of(job: Job) -> list[tuple[str, str]]:
    """Returns what identifies the sources, and the apps, in which a batch has something to do."""
    rows = BatchItem.objects.filter(job_id=job.pk, outcome=items.TO_DO).values_list("where", "names")
    return sorted({(where, json.loads(names)[0]) for where, names in rows.iterator()})
