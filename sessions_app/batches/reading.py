"""Shows what a batch does, its progress, and the outcome of its sessions."""

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final, Literal, cast

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_anywhere, shown_change, shown_words_anywhere
from ..domain.errors import Error, NotFound
from ..domain.session_ref import SessionRef
from ..domain.state import UNKNOWN, Change
from ..jobs import lease
from ..models import Job
from ..reads import views
from ..reads.views import SessionView
from ..search.selecting import patience
from . import held, items
from .working import DOING, KIND, READY, asked_for, values_of

ActName = Literal["edit", "delete", "undo"]
Stage = Literal["draft", "trying", "ready", "held", "doing", "stopped", "done", "refused"]
DRAFT: Final = "draft"
SAMPLES: Final = 8
LISTED: Final = 100
RECENT: Final = 50
SMALL: Final = 1_000
_SELECTING: Final = 1.0  # seconds for the first sessions of a query, before the form is shown


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


class Batch:
    """A batch as an actor sees it: what is to be done to how many sessions, and its job's progress.

    `counts` has how many sessions have each outcome of items.py. With `by_query`, they are all that `query` selects.
    `tried` says whether its dry run has ended, and `dry_run` identifies it: someone may try another edit. `behind` has
    the sources that were not indexed completely when its sessions were selected. `shared` is not empty if it reaches
    sessions that the batch need not have: how many `users`, or `apps`, how many `sessions` of theirs, and how many of these
    are `running`. One that is held lapses at `until`; `approved_by` is the second person of one that was.
    `undoes` is the batch that this one undoes, `undone` the one that undoes this.
    """

    def __init__(self, job: Job, actor: Actor, counts: Mapping[str, int] | None = None) -> None:
        task, result = json.loads(job.task), json.loads(job.result or "{}")
        self._job, self._actor = job, actor
        self.id: uuid.UUID = job.pk
        self.act: ActName = task["act"]
        self.actor: str = task["sender"]
        self.created, self.message, self.until = job.created, job.message, job.due
        self.stage = cast(Stage, lease.stage_of(job))
        self.percent = job.percent
        self.by_query, query = "query" in task, task.get("query", "")
        self.query: str = query if _is_sender(task, actor) else shown_words_anywhere(query, actor)
        self.tried, self.dry_run = self.stage == READY or job.step == DOING, dry_run_of(job)
        self.values, self.reason = values_of(task), shown_words_anywhere(task["reason"], actor)
        self.counts = items.counts(job.pk) if counts is None else counts
        self.behind: list[str] = result.get("behind", [])
        self.shared: dict[str, int] = result.get("shared", {})
        self.undoes = uuid.UUID(task["undoes"]) if "undoes" in task else None
        self.undone = uuid.UUID(result["undone"]) if "undone" in result else None
        self.approved_by: str = task.get("approved_by", "")

    @property
    def working(self) -> bool:
        """Returns whether a process works on it."""
        return self.stage in ("trying", "doing")

    @property
    def asks_again_ms(self) -> int:
        """Returns the milliseconds until its page asks again. A small batch is over in a moment; counting the sessions
        of a large one takes the machine from its work, and an agent may take minutes."""
        return 700 if self.total > SMALL or self.counts["held"] else 120

    @property
    def to_do(self) -> int:
        """Returns the number of sessions that are still to be done."""
        return self.counts[items.TO_DO]

    @property
    def total(self) -> int:
        """Returns the number of its sessions."""
        return sum(self.counts.get(outcome, 0) for outcome in (items.TO_DO, *items.OUTCOMES))

    @property
    def same(self) -> int:
        """Returns in how many sessions the keys had the values before. Of an edit that sessions share, it counts users or
        apps: their other sessions got the values without being written to."""
        return self.shared.get("same", 0) if self.shared and self.act == "edit" else self.counts[items.SAME]

    @cached_property
    def may_act(self) -> bool:
        """Returns whether the actor may try, do, stop, undo or discard it."""
        return held.may_act(self._job, self._actor)

    @property
    def decidable(self) -> bool:
        """Returns whether it is held, and the actor may decide on it."""
        return held.may_decide(self._job, self._actor)

    @property
    def own(self) -> bool:
        """Returns whether it is the actor's own."""
        return held.is_own(self._job, self._actor)

    @cached_property
    def changes(self) -> list[Change]:
        """Returns what it writes, whatever the keys' values are. Its sessions may be of any app."""
        return [shown_anywhere(Change(key, UNKNOWN, value), self._actor) for key, value in self.values.items()]

    def looked_at(self) -> list[SessionView]:
        """Returns some of the sessions in which something is to be changed, as they are now; before the dry run has selected
        them, some of those that the query selects. Raises SourceError, and Slow if the query takes long."""
        some = []
        for ref in self._first():
            with suppress(NotFound):  # deleted since
                some.append(views.session(ref, actor=self._actor, partly=True))
        return some

    def _first(self) -> list[SessionRef]:
        if self.by_query and self.stage == DRAFT:
            task = json.loads(self._job.task)
            with patience(_SELECTING):
                selected = asked_for(task["query"], task["zone"], task["now"], self._actor)
                return list(islice(selected, SAMPLES))
        sources = items.sources_of(self.id)
        return [items.ref_of(item, sources) for item in items.of(self.id, items.TO_DO).order_by("number")[:SAMPLES]]

    def samples(self) -> list[Sample]:
        """Returns what would change in some of the sessions. Raises SourceError."""
        some = []
        for view in self.looked_at():
            changes = [
                shown_change(Change(key, view.state.get(key), value), self._actor, view.ref.app_name)
                for key, value in self.values.items()
            ]
            some.append(
                Sample(view.ref, view.title or view.ref.session_id, [each for each in changes if not each.same])
            )
        return some

    def left(self, outcome: str) -> list[Left]:
        """Returns the first sessions with an outcome; with “held”, those whose agents were running."""
        rows = items.of(self.id, items.TO_DO).filter(held=True) if outcome == "held" else items.of(self.id, outcome)
        sources = items.sources_of(self.id)
        some = []
        for item in rows.order_by("number")[:LISTED]:
            with suppress(Error):  # its source is not open
                some.append(Left(items.ref_of(item, sources), item.event_id, item.message))
        return some


def get(batch_id: uuid.UUID, *, actor: Actor) -> Batch:
    """Returns a batch as it is now. Raises NotFound."""
    return Batch(job_of(batch_id, actor), actor)


def recent(*, actor: Actor) -> list[Batch]:
    """Returns the last batches that the actor may see, the newest first. Their sessions are not counted by outcome."""
    rows = jobs().exclude(state=DRAFT).order_by("-created")[: 4 * RECENT]
    seen = [job for job in rows if _is_seen(job, actor)][:RECENT]
    return [Batch(job, actor, {items.TO_DO: job.total}) for job in seen]


def waiting(*, actor: Actor) -> list[Batch]:
    """Returns the batches that wait for a second person, and that the actor may see; the oldest first."""
    rows = jobs().filter(state=held.HELD).order_by("created")[: 4 * RECENT]
    seen = [job for job in rows if _is_seen(job, actor)][:RECENT]
    return [Batch(job, actor) for job in seen]


# --- Rows --------------------------------------------------------------------------------------------------------------


def jobs() -> Any:
    """Returns the jobs of all batches."""
    return Job.objects.filter(kind=KIND.name)


def job_of(batch_id: uuid.UUID, actor: Actor) -> Job:
    """Returns the job of a batch. Raises NotFound."""
    job: Job | None = jobs().filter(pk=batch_id).first()
    if job is None or not _is_seen(job, actor):
        raise NotFound(_("This batch no longer exists."))
    return job


def dry_run_of(job: Job) -> str:
    """Returns the identity of a batch's dry run: when it ended."""
    return repr(job.finished)


def _is_sender(task: dict[str, Any], actor: Actor) -> bool:
    return actor.is_same(task["sender"], task.get("account", ""))


def _is_seen(job: Job, actor: Actor) -> bool:
    """Returns whether a batch exists for an actor: its sessions may be of any app."""
    return actor.sees_all or _is_sender(json.loads(job.task), actor) or held.is_party(job, actor)
