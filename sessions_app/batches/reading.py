"""Tells what a batch is about, how far it is, and what came of its sessions."""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_anywhere, shown_change, shown_words_anywhere
from ..domain.errors import Error, NotFound
from ..domain.session_ref import SessionRef
from ..domain.state import UNKNOWN, Change
from ..jobs.lease import STOPPED, WAITING, Progress, is_under_way
from ..models import Job
from ..reads import views
from ..reads.views import SessionView
from . import held, items
from .working import DOING, KIND, READY, values_of

ActName = Literal["edit", "delete", "undo"]
Stage = Literal["draft", "trying", "ready", "held", "doing", "stopped", "done", "refused"]
DRAFT: Final = "draft"
SAMPLES: Final = 8
LISTED: Final = 100
RECENT: Final = 50


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: what is to be done to how many sessions, and how far it is.

    `counts` has how many sessions have each outcome of items.py. With `by_query`, they are all that `query` selects.
    `tried` tells whether its dry run has ended, and `dry_run` names that one: somebody may try another edit.
    `behind` has the sources that were not indexed completely when its sessions were selected. `shared` is not empty if the
    edit reaches sessions that the batch need not have: how many `users`, or `apps`, how many `sessions` of theirs, and how
    many of these are `running`.
    One that is held lapses at `until`; `approved_by` is the second person of one that was.
    `undoes` is the batch that this one undoes, `undone` the one that undoes this.
    """

    id: uuid.UUID
    act: ActName
    actor: str
    created: float
    stage: Stage
    percent: int
    message: str
    by_query: bool
    query: str
    tried: bool
    dry_run: str
    values: Mapping[str, Any]
    reason: str
    counts: Mapping[str, int]
    behind: Sequence[str]
    shared: Mapping[str, int]
    undoes: uuid.UUID | None
    undone: uuid.UUID | None
    until: float | None
    approved_by: str

    @property
    def working(self) -> bool:
        """Tells whether a process is at it."""
        return self.stage in ("trying", "doing")

    @property
    def to_do(self) -> int:
        """Returns in how many sessions something is still to be done."""
        return self.counts[items.TO_DO]

    @property
    def total(self) -> int:
        """Returns the number of its sessions."""
        return sum(self.counts.get(outcome, 0) for outcome in (items.TO_DO, *items.OUTCOMES))


@dataclass(frozen=True, slots=True)
class Sample:
    """A session that a batch is about: its title, and what would change there."""

    ref: SessionRef
    title: str
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class Left:
    """A session with its outcome: why it was left alone, or the event that was written."""

    ref: SessionRef
    event_id: str
    message: str


def get(batch_id: uuid.UUID, *, actor: Actor) -> Batch:
    """Returns a batch as it stands now. Raises NotFound."""
    return _view(job_of(batch_id, actor), actor)


def recent(*, actor: Actor) -> list[Batch]:
    """Returns the last batches that the actor may see, the newest first. Their sessions are not counted by outcome."""
    rows = jobs().exclude(state=DRAFT).order_by("-created")[: 4 * RECENT]
    seen = [job for job in rows if _is_seen(job, actor)][:RECENT]
    return [_view(job, actor, {items.TO_DO: job.total}) for job in seen]


def waiting(*, actor: Actor) -> list[Batch]:
    """Returns the batches that wait for a second person, and that the actor may see; the oldest first."""
    rows = jobs().filter(state=held.HELD).order_by("created")[: 4 * RECENT]
    return [_view(job, actor) for job in rows if _is_seen(job, actor)][:RECENT]


def deciding(batch_id: uuid.UUID, *, actor: Actor) -> tuple[bool, bool]:
    """Tells whether the actor may decide on a held batch, and whether it is their own. Raises NotFound."""
    job = job_of(batch_id, actor)
    return held.may_decide(job, actor), held.is_own(job, actor)


def may_act(batch_id: uuid.UUID, *, actor: Actor) -> bool:
    """Tells whether the actor may try, do, stop, undo or discard a batch. Raises NotFound."""
    return held.may_act(job_of(batch_id, actor), actor)


def looked_at(batch_id: uuid.UUID, *, actor: Actor) -> list[SessionView]:
    """Returns some of the sessions in which something is to be changed, as they are now. Raises NotFound, SourceError."""
    job = job_of(batch_id, actor)
    sources = items.sources_of(job.pk)
    some = []
    for item in items.of(job.pk, items.TO_DO).order_by("number")[:SAMPLES]:
        with suppress(NotFound):  # deleted since
            some.append(views.session(items.ref_of(item, sources), actor=actor, partly=True))
    return some


def samples(batch_id: uuid.UUID, *, actor: Actor) -> list[Sample]:
    """Returns what would change in some of the sessions. Raises NotFound, SourceError."""
    values = values_of(json.loads(job_of(batch_id, actor).task))
    some = []
    for view in looked_at(batch_id, actor=actor):
        app_name = view.ref.app_name
        changes = [
            shown_change(Change(key, view.state.get(key), value), actor, app_name) for key, value in values.items()
        ]
        some.append(Sample(view.ref, view.title or view.ref.session_id, [each for each in changes if not each.same]))
    return some


def changes(batch: Batch, *, actor: Actor) -> list[Change]:
    """Returns what a batch writes, whatever stands in the keys. Its sessions may be of any app."""
    return [shown_anywhere(Change(key, UNKNOWN, value), actor) for key, value in batch.values.items()]


def listed(batch_id: uuid.UUID, outcome: str, *, actor: Actor) -> list[Left]:
    """Returns the first sessions with an outcome; with “held”, those whose agents were at work. Raises NotFound."""
    job = job_of(batch_id, actor)
    rows = items.of(job.pk, items.TO_DO).filter(held=True) if outcome == "held" else items.of(job.pk, outcome)
    sources = items.sources_of(job.pk)
    some = []
    for item in rows.order_by("number")[:LISTED]:
        try:
            ref = items.ref_of(item, sources)
        except Error:  # its source is not open
            continue
        some.append(Left(ref, item.event_id, item.message))
    return some


# --- Rows --------------------------------------------------------------------------------------------------------------


def jobs() -> Any:
    """Returns the jobs of all batches."""
    return Job.objects.filter(kind=KIND.name)


def job_of(batch_id: uuid.UUID, actor: Actor) -> Job:
    """Returns the job of a batch. Raises NotFound."""
    job: Job | None = jobs().filter(pk=batch_id).first()
    if job is None or not _is_seen(job, actor):
        raise NotFound(_("This batch is not here any more."))
    return job


def dry_run_of(job: Job) -> str:
    """Returns what names the dry run of a batch: when it ended."""
    return repr(job.finished)


def _is_sender(task: dict[str, Any], actor: Actor) -> bool:
    return actor.is_same(task["sender"], task.get("account", ""))


def _is_seen(job: Job, actor: Actor) -> bool:
    """Tells whether a batch exists for an actor: its sessions may be of any app."""
    return actor.sees_all or _is_sender(json.loads(job.task), actor) or held.is_party(job, actor)


def _view(job: Job, actor: Actor, counts: Mapping[str, int] | None = None) -> Batch:
    task, result = json.loads(job.task), json.loads(job.result or "{}")
    stage = job.state
    if stage == WAITING:
        stage = job.step if is_under_way(job) else STOPPED
    return Batch(
        job.pk,
        task["act"],
        task["sender"],
        job.created,
        cast(Stage, stage),
        Progress(job.done, job.total).percent,
        job.message,
        "query" in task,
        task.get("query", "") if _is_sender(task, actor) else shown_words_anywhere(task.get("query", ""), actor),
        stage == READY or job.step == DOING,
        dry_run_of(job),
        values_of(task),
        shown_words_anywhere(task["reason"], actor),
        items.counts(job.pk) if counts is None else counts,
        result.get("behind", []),
        result.get("shared", {}),
        uuid.UUID(task["undoes"]) if "undoes" in task else None,
        uuid.UUID(result["undone"]) if "undone" in result else None,
        job.due,
        task.get("approved_by", ""),
    )
