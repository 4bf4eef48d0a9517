"""Work on many sessions as one job, with a result for each of them: replays, and what-ifs of many sessions.

A process that continues after another one died works only on the sessions that have no result yet. Everything is deleted
after KEPT_SECONDS.
"""

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_words_anywhere
from ..domain.errors import AgentError, Error, Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..jobs import lease, runner
from ..jobs.lease import STOPPED, WAITING
from ..models import Job, TriedSession
from ..reads import lists
from ..sources import agents, registry

DRAFT, RUNNING = "draft", "running"
PAGE: Final = 100
RECENT: Final = 50
KEPT_SECONDS: Final = 7 * 86_400.0


class Many:
    """A job over many sessions as an actor sees it: its sessions, how far it is, and what has come of it.

    `counts` has how many sessions have each result, and under "" those that have none yet."""

    results: ClassVar[tuple[str, ...]]

    def __init__(self, job: Job, actor: Actor) -> None:
        self._job, self._actor = job, actor
        self.task: dict[str, Any] = json.loads(job.task)
        self.id: uuid.UUID = job.pk
        self.actor, self.created, self.finished, self.message = job.actor, job.created, job.finished, job.message
        self.source = registry.alias_of(job.where) or ""
        self.apps: list[str] = self.task["apps"]
        self.stage = lease.stage_of(job)
        self.run_code: bool = self.task["run_code"]
        own = actor.is_same(job.actor, job.account)
        self.query: str = self.task["query"] if own else shown_words_anywhere(self.task["query"], actor)
        self.size: int = job.total

    @property
    def working(self) -> bool:
        """Returns whether a process works on it."""
        return self.stage == RUNNING

    @property
    def may_act(self) -> bool:
        """Returns whether the actor may start, stop and repeat it."""
        return all(self._actor.may_write("operate", self.source, app) for app in self.apps)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Returns how many sessions have each result."""
        rows = items(self.id).values_list("result").annotate(n=Count("pk")).order_by()
        return dict.fromkeys(("", *self.results), 0) | dict(rows)

    @property
    def total(self) -> int:
        """Returns the number of its sessions."""
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """Returns how many sessions have a result."""
        return self.total - self.counts[""]

    @property
    def seconds(self) -> float:
        """Returns how long it took."""
        began: float = self.task.get("began", self.created)
        return max(0.0, (self.finished or time.time()) - began)

    def titles(self, refs: Iterable[SessionRef]) -> dict[SessionRef, str]:
        """Returns the titles of sessions, as far as they have any and their source is there."""
        with suppress(Error):
            return lists.titles(list(refs), actor=self._actor)
        return {}


def chosen(refs: Iterable[SessionRef], most: int, *, actor: Actor) -> list[SessionRef]:
    """Returns the sessions of a new job, by app. Raises Invalid, NotAllowed, NotFound; AgentError if adkweb can't start one
    of their agents."""
    some = list(islice(dict.fromkeys(refs), most + 1))
    if not some:
        raise Invalid(_("No session matches."))
    if len(some) > most:
        raise Invalid(_("You can run up to %(n)s sessions at once. Narrow the query.") % {"n": most})
    if len({ref.source for ref in some}) > 1:
        raise Invalid(_("Select sessions of one source."))
    for ref in some:
        actor.check_sees(ref)
    some.sort(key=lambda ref: ref[:2])  # an app's process is kept for all
    check(some[0].source, apps_of(some), actor)
    return some


def apps_of(refs: Iterable[SessionRef]) -> list[str]:
    """Returns the apps of sessions, in alphabetical order."""
    return sorted({ref.app_name for ref in refs})


def check(source: str, apps: Iterable[str], actor: Actor) -> None:
    """Raises NotAllowed and AgentError unless the actor may run the agents of all these apps, and adkweb can."""
    for app in apps:
        actor.check_may("operate", source, app)
        if why := agents.why_not_here(source, app):
            raise AgentError(why)


def made(kind: str, where: str, task: dict[str, Any], names: Sequence[Sequence[str]], actor: Actor) -> Job:
    """Keeps a job that someone has not started yet. Old ones that nobody started are deleted."""
    jobs(kind).filter(state=DRAFT, created__lt=time.time() - 86_400).delete()
    with transaction.atomic():
        job = Job.objects.make(kind, where, task, state=DRAFT, total=len(names), **runner.fields_of(actor))
        TriedSession.objects.bulk_create(
            (
                TriedSession(job_id=job.pk, number=number, where=where, names=json.dumps(each))
                for number, each in enumerate(names)
            ),
            batch_size=200,
        )
    return job


def jobs(kind: str) -> QuerySet[Job]:
    """Returns all jobs of a kind."""
    return Job.objects.filter(kind=kind)


def items(job_id: uuid.UUID) -> QuerySet[TriedSession]:
    """Returns the sessions of a job."""
    return TriedSession.objects.filter(job_id=job_id)


def seen(kind: str, job_id: uuid.UUID, actor: Actor) -> Job:
    """Returns a job. Raises NotFound: also for who is no operator of one of its apps."""
    job = jobs(kind).filter(pk=job_id).first()
    if job is None or not _is_seen(job, actor):
        raise NotFound(
            _("It no longer exists. Replays and what-ifs are deleted after %(n)s days.")
            % {"n": round(KEPT_SECONDS / 86_400)}
        )
    return job


def own(kind: str, job_id: uuid.UUID, actor: Actor, *, to_run: bool = True) -> Job:
    """Returns a job that the actor may start, stop and delete; `to_run` it, adkweb must have its agents, too. Raises
    NotFound, NotAllowed, AgentError."""
    job = seen(kind, job_id, actor)
    source, apps = registry.alias_of(job.where) or "", json.loads(job.task)["apps"]
    if to_run:
        check(source, apps, actor)
    for app in apps:
        actor.check_may("operate", source, app)
    return job


def stop(job: Job, actor: Actor) -> None:
    """Stops a job. Results that are there stay, and it can continue."""
    jobs(job.kind).filter(pk=job.pk, state=WAITING).update(
        state=STOPPED,
        claim="",
        claimed_until=None,
        finished=time.time(),
        message=_("%(name)s stopped it.") % {"name": actor.name},
    )


def recent(kind: str, *, actor: Actor) -> list[Job]:
    """Returns the last jobs of a kind that were started and that the actor may see, the newest first."""
    rows = jobs(kind).exclude(state=DRAFT).order_by("-created")[: 4 * RECENT]
    return [job for job in rows if _is_seen(job, actor)][:RECENT]


def forget_old(kind: str) -> None:
    """Deletes the jobs of a kind that are too old."""
    if not settings.READ_ONLY:
        jobs(kind).filter(created__lt=time.time() - KEPT_SECONDS).delete()


def _is_seen(job: Job, actor: Actor) -> bool:
    source, task = registry.alias_of(job.where), json.loads(job.task)
    return source is not None and all(
        actor.may("operate", source, app) and (actor.may_reveal(source, app) or not task.get("revealed"))
        for app in task["apps"]
    )
