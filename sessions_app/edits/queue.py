"""Queued edits, which wait until no invocation runs in their session, because an append from outside would end it.

A queued edit is a job (jobs/), so it survives a restart. `apply_due` applies it, because it waits for an idle session.
One process at a time has it. Its event id is fixed when it is queued: if that process dies after writing the event, the
next one finds it and doesn't write it again."""

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils import translation
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record_with
from ..access.roles import actor_of
from ..access.shown import is_hidden, shown, shown_change, shown_words
from ..domain.edit_note import EDIT_PREFIX, edit_of, ended_by
from ..domain.errors import Conflict, Error, NotAllowed, NotFound, SourceError, StaleSession
from ..domain.event import ID_LENGTH, Event
from ..domain.invocations import Running
from ..domain.json_values import check_name
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change, same
from ..jobs import runner
from ..jobs.lease import IN_DOUBT, WAITING, Lease, Outcome, may_see, session_of
from ..models import Job
from ..reads import timeline
from ..reads import views as reads_views
from ..reads.event_views import events_of, ordered, views
from ..sources import database, registry
from . import edit as edits
from . import proposals
from .edit import Entry, seen_as_stored

# --- A queued edit, and its job ---------------------------------------------------------------------------------------

APPLIED, CONFLICT, WITHDRAWN, FAILED = "applied", "conflict", "withdrawn", "failed"


@dataclass(frozen=True, slots=True)
class Queued:
    """A queued edit: what is to change, who wants it and why, and the outcome.

    `state` is waiting, applied, conflict, withdrawn or failed. `ref` is None while its source is not among adkweb's.
    `author_id` is None if the person who queued it can no longer sign in. `message` says why it failed, or who
    cancelled it. `changed` has the keys that caused a conflict, `hidden` those with values that the reader may not
    see."""

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
        raise NotFound(_("This edit doesn't exist."))
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


# --- The queue --------------------------------------------------------------------------------------------------------

log = logging.getLogger("adkweb.queued")

_SHOWN: Final = 50  # of one session, or of one person
_EDITS: Final = 20  # that may follow an invocation's last event
_KEPT_SECONDS: Final = 30 * 86400.0  # after the author has been told the outcome of an edit


def held(ref: SessionRef, *, actor: Actor) -> Running | None:
    """Returns the invocation that an edit would end now; None if there is none."""
    return timeline.in_danger(ref, actor=actor)


def queue_edit(
    ref: SessionRef,
    entries: Sequence[Entry],
    *,
    person: AbstractBaseUser,
    reason: str = "",
    once: str = "",
    of: Mapping[str, Any] | None = None,
) -> Queued:
    """Keeps an edit until its session is idle. Nothing is written to the session before `apply_due` applies it.

    An edit that is sent again with the same `once`, a token of the form, is stored once. Raises what `edit_state`
    would."""
    actor = actor_of(person)
    actor.check_sees(ref)
    actor.check_may("append", ref.source, ref.app_name)
    entries = seen_as_stored(ref, entries, actor)
    event, seen = edits.state_event(entries, actor, reason, once=once, of=of, app_name=ref.app_name)
    state = reads_views.session(ref, actor=SYSTEM).state
    names = [check_name(name, _("a name"), ID_LENGTH) for name in ref[1:]]
    job_id = uuid.uuid5(uuid.NAMESPACE_OID, ascii([person.pk, registry.identity(ref.source), *names, event["id"]]))
    job = jobs().filter(pk=job_id).first()
    if job is None:
        current = {name: state.get(name) for name in seen}
        if not all(same(current[name], value) for name, value in seen.items()):
            raise Conflict(current=shown(current, actor, ref.app_name))
        now = time.time()
        jobs().filter(told=True, finished__lt=now - _KEPT_SECONDS).delete()
        if approval.held_keys(ref.source, ref.app_name, seen):
            raise proposals.keep(ref, event, seen, None, actor=actor)
        kept = [entry for entry in entries if entry.key in seen]
        fields = fields_of(ref, event, kept, person=person, actor=actor, of=of, now=now)
        job, _created = Job.objects.get_or_create(id=job_id, defaults=fields)
        broadcast.tell("queued", ref)
    return view_of(job, actor)


def get(queued_id: uuid.UUID | str, *, actor: Actor) -> Queued:
    """Returns a queued edit, whatever its outcome. Raises NotFound."""
    return view_of(job_of(queued_id, actor), actor)


def of_session(ref: SessionRef, *, actor: Actor) -> list[Queued]:
    """Returns the edits of a session that wait, or whose outcome their author has not seen yet, the newest first."""
    actor.check_sees(ref)
    rows = jobs_of(ref).filter(Q(state=WAITING) | Q(told=False))
    found = rows.order_by("-created", "id").select_related("person")[:_SHOWN]
    return [view_of(job, actor) for job in found]


def outcomes(person: AbstractBaseUser) -> list[Queued]:
    """Returns a person's finished edits whose outcome they have not seen yet, the oldest first."""
    rows = jobs().filter(person_id=person.pk, told=False, finished__isnull=False)
    found = rows.order_by("finished").select_related("person")[:_SHOWN]
    return [view_of(job, actor_of(person)) for job in found]


def any_waiting() -> bool:
    """Returns whether any edit waits, in any session."""
    return jobs().filter(state=WAITING).exists()


def cancel(queued_id: uuid.UUID | str, person: AbstractBaseUser) -> None:
    """Cancels a waiting edit: one's own, or anyone's in an app that one may edit; the author is told who did.

    Raises NotFound, NotAllowed; Conflict if it is being applied or no longer waits; SourceError if it is unknown
    whether it was written, because the database went away in between."""
    actor = actor_of(person)
    actor.check_may_write()
    job = job_of(queued_id, actor)
    _check_may_end(job, person, actor)
    lease = Lease.take_soon(job)
    if lease is None:
        raise Conflict(_("This edit is already being applied, or is no longer waiting."))
    before = lease.written(lambda ref: edits.stored(ref, event_of(view_of(job, SYSTEM))[0]))
    if before is not None:
        finish(lease, _applied(before.seq))
        raise Conflict(_("This edit has already been applied."))
    outcome = Outcome(WITHDRAWN, actor.name, {"told": job.person_id == person.pk})
    keys = [each["key"] for each in json.loads(job.task)["entries"]]
    record_with(
        lambda: finish(lease, outcome), "queued-withdrawn", actor.name, ref=session_of(job), keys=keys, of=job.actor
    )


def dismiss(queued_id: uuid.UUID | str, person: AbstractBaseUser) -> None:
    """Notes that the author has seen the outcome of an edit. If the author can no longer sign in, anyone who may edit
    the app can dismiss it.

    Raises NotFound, NotAllowed."""
    actor = actor_of(person)
    job = job_of(queued_id, actor)
    author = job.person
    if job.finished is None or (author is not None and author.is_active and author.pk != person.pk):
        raise NotFound(_("You don't have an edit with this id."))
    _check_may_end(job, person, actor)
    jobs().filter(pk=job.pk).update(told=True)
    _tell(job)


def _check_may_end(job: Job, person: AbstractBaseUser, actor: Actor) -> None:
    if job.person_id != person.pk:
        actor.check_may("append", registry.alias_of(job.where) or "", job.app_name)


def apply_due(keys: Iterable[SessionRef] | None = None) -> int:
    """Tries the edits that wait in these sessions, or in all, the oldest of a session first. Returns how many are now
    finished.

    An edit keeps waiting while an invocation runs in its session or ended less than SETTLE_SECONDS ago, while another
    process tries it, and while its database is away. An edit that fails raises nothing here."""
    if settings.READ_ONLY:
        return 0
    wanted = None if keys is None else set(keys)
    finished = 0
    blocked = set()  # a later edit of a session waits for the earlier one
    for job in jobs().filter(state=WAITING).order_by("created", "id").select_related("person").defer("task"):
        ref = session_of(job)
        if ref is None or ref in blocked or (wanted is not None and ref not in wanted):
            continue
        if _try(job, ref):
            finished += 1
        else:
            blocked.add(ref)
    return finished


# --- Applying ---------------------------------------------------------------------------------------------------------


def _try(job: Job, ref: SessionRef) -> bool:
    """Tries an edit, and returns whether this process has finished it."""
    # Another process may have it, or it may no longer be waiting.
    lease = Lease.take(job) if job.state == WAITING else None
    if lease is None:
        return False
    try:
        # The message is kept in English, and translated when someone reads it.
        with translation.override("en"):
            outcome = _outcome(job, ref)
    except Exception:
        # An error in adkweb: the other edits continue, and this one is tried again when the claim has ended.
        log.exception("the queued edit %s of %s", job.pk, "/".join(ref))
        return False
    return finish(lease, outcome) and outcome.state != WAITING


def _outcome(job: Job, ref: SessionRef) -> Outcome:
    """Applies a claimed edit if its session is idle, and returns the outcome."""
    claimed_until = job.claimed_until
    try:
        event, seen = event_of(view_of(job, SYSTEM))
        if (before := edits.stored(ref, event)) is not None:
            return _applied(before.seq)
        claimed_until = None
        author = _author(job.person)
        # Read first, so that whatever an agent writes after this makes the append stale.
        revision = reads_views.session(ref, actor=SYSTEM).revision
        if not is_idle(ref):
            return _let_go(None)
        claimed_until = IN_DOUBT
        appended = edits.append_once(ref, event, author, seen, revision)
        written = edits.stored(ref, event) if appended.seq is None else None
        return _applied(written.seq if written else appended.seq)
    except StaleSession:
        return _let_go(None)
    except SourceError:
        return _let_go(claimed_until)
    except Conflict as conflict:
        if "changed" not in conflict.detail:
            return Outcome(FAILED, conflict.message)
        return Outcome(CONFLICT, fields={"result": json.dumps({"changed": conflict.detail["changed"]})})
    except NotFound:
        return Outcome(FAILED, _("The session was deleted."))
    except Error as error:
        return Outcome(FAILED, error.message)


def _applied(seq: Seq | None) -> Outcome:
    return Outcome(APPLIED, fields={"result": json.dumps({"seq": seq})})


def _let_go(claimed_until: float | None) -> Outcome:
    """Returns the outcome of an edit that keeps waiting. `claimed_until` is kept if its event may have been written."""
    return Outcome(WAITING, fields={"claimed_until": claimed_until})


def is_idle(ref: SessionRef) -> bool:
    """Returns whether no agent holds the session: no invocation runs, and none ended on its own a moment ago.

    Nothing follows an invocation that an edit ended, so there is no need to wait after it."""
    if held(ref, actor=SYSTEM) is not None:
        return False
    with database.using(ref.source):
        for view in views(ordered(events_of(ref), ref.source), ref.source, SYSTEM, _EDITS, ref=ref)[0]:
            edit = edit_of(view.data)
            if ended_by(edit):
                return True
            if not edit:
                return bool(abs(time.time() - view.timestamp) >= settings.SETTLE_SECONDS)
    return True


def _author(person: User | None) -> Actor:
    if person is None or not person.is_active:
        raise NotAllowed(_("The person who queued this no longer has an account."))
    actor_of(person).check_may_write()
    return actor_of(person)


def event_of(queued: Queued) -> tuple[Event, dict[str, Any]]:
    """Returns the event for the edit, under the id that was fixed for it, and the values that the person saw."""
    app_name = queued.ref.app_name if queued.ref else ""
    event, seen = edits.state_event(
        queued.entries, Actor(queued.actor, ()), queued.reason, of=queued.of, app_name=app_name
    )
    event |= {"id": queued.event_id, "invocation_id": EDIT_PREFIX + queued.event_id}
    edit_of(event)["queued"] = queued.created
    return event, seen


def finish(lease: Lease, outcome: Outcome) -> bool:
    """Notes the outcome of a claimed edit. Returns False if another process has taken it over."""
    if not lease.end(outcome):
        return False
    if outcome.state != WAITING:
        log.info("the queued edit %s of %s: %s", lease.job.pk, lease.job.actor, outcome.state)
        _tell(lease.job)
    return True


def _tell(job: Job) -> None:
    if (ref := session_of(job)) is not None:
        broadcast.tell("queued", ref)
