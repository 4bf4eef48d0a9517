"""A queued edit as it is shown, and its row: a job (jobs/) that names the person who is to be told what came of it.

`task` says what is to be done; absent values are left out:
{"entries": [{"key": "step", "value": "pay", "seen": "search"}], "of": {}, "reason": "by phone", "event_id": "…"}
`result` is {"seq": 313} for an edit that was applied, {"changed": ["step"]} for a conflict."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import is_hidden, shown_change, shown_words
from ..domain.edit_note import edit_of
from ..domain.errors import NotFound
from ..domain.event import Event
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change
from ..jobs import claims, runner
from ..jobs.sessions import may_see, session_of
from ..models import Job
from ..sources import registry
from .edit import Entry

WAITING: Final = claims.WAITING
APPLIED, CONFLICT, WITHDRAWN, FAILED = "applied", "conflict", "withdrawn", "failed"


@dataclass(frozen=True, slots=True)
class Queued:
    """A queued edit: what is to change, who wants it and why, and what became of it.

    `state` is waiting, applied, conflict, withdrawn or failed. `ref` is None while its source is not among adkweb's.
    `author_id` is None if the person who queued it cannot sign in any more. `message` says why it failed, or who
    withdrew it. `changed` has the keys that caused a conflict, `hidden` those with values that the reader may not see."""

    id: uuid.UUID
    ref: SessionRef | None
    entries: list[Entry]
    of: dict[str, Any]  # as in edits.edit_state
    author_id: int | None
    actor: str
    reason: str
    created: float
    state: str
    message: str
    finished: float | None
    event_id: str
    seq: Seq | None
    changed: list[str]
    hidden: list[str]

    @property
    def changed_keys(self) -> str:
        """Returns the keys that caused a conflict as one text."""
        return ", ".join(self.changed)

    @property
    def changes(self) -> list[Change]:
        """Returns the changes, each from the value that the person saw to the one they want."""
        return [Change(entry.key, entry.seen, entry.value) for entry in self.entries]


def jobs() -> QuerySet[Job]:
    """Returns the rows of all queued edits."""
    return Job.objects.filter(kind="edit")


def jobs_of(ref: SessionRef) -> QuerySet[Job]:
    """Returns the rows of the queued edits of a session."""
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    return jobs().filter(where=registry.identity(ref.source), **names)


def job_of(queued_id: uuid.UUID | str, actor: Actor) -> Job:
    """Returns the row of a queued edit. Raises NotFound."""
    try:
        job = jobs().filter(pk=queued_id).first()
    except ValidationError:  # not a UUID
        job = None
    if job is None or not may_see(actor, job):
        raise NotFound(_("There is no such edit."))
    return job


def fields_of(
    ref: SessionRef,
    event: Event,
    entries: Sequence[Entry],
    *,
    person: AbstractBaseUser,
    actor: Actor,
    of: Mapping[str, Any] | None,
    now: float,
) -> dict[str, Any]:
    """Returns the fields of a new row, except its id, for an edit and its event."""
    task = {
        "entries": [_kept(entry) for entry in entries],
        "of": dict(of or {}),
        "reason": edit_of(event)["reason"],
        "event_id": event["id"],
    }
    return {
        "kind": "edit",
        "where": registry.identity(ref.source),
        "app_name": ref.app_name,
        "user_id": ref.user_id,
        "session_id": ref.session_id,
        "task": json.dumps(task),
        "person_id": person.pk,
        "created": now,
        "beat": now,
        **runner.fields_of(actor),
    }


def view_of(job: Job, actor: Actor) -> Queued:
    """Returns a queued edit, read from its row, as an actor may see it."""
    task, result = json.loads(job.task), json.loads(job.result or "{}")
    changes = [Change(kept["key"], kept.get("seen", ABSENT), kept.get("value", ABSENT)) for kept in task["entries"]]
    entries = [Entry(c.key, c.new, c.old) for c in (shown_change(each, actor, job.app_name) for each in changes)]
    return Queued(
        job.id,
        session_of(job),
        entries,
        task["of"],
        None if job.person is None or not job.person.is_active else job.person.pk,
        job.actor,
        shown_words(task["reason"], actor, job.app_name),
        job.created,
        job.state,
        _(job.message) if job.state == FAILED and job.message else job.message,
        job.finished,
        task["event_id"],
        result.get("seq"),
        result.get("changed", []),
        [c.key for c in changes if is_hidden(c.key, (c.old, c.new), actor, job.app_name)],
    )


def _kept(entry: Entry) -> dict[str, Any]:
    values = {"value": entry.value, "seen": entry.seen}
    return {"key": entry.key, **{name: value for name, value in values.items() if value is not ABSENT}}
