"""Proposals: what waits for a second person, and the outcome. A proposal is a job (jobs/) that nothing runs: another
editor applies or declines it (proposal_job.py).

The `task` of an edit has the event as it is to be appended, and what it is compared with, as the edit itself would be;
absent values are left out: {"event": {…}, "expected": [{"key": "user:tier", "value": "gold"}], "revision": null} Its id is
computed from that of its event, so that an edit that is sent again is proposed once. The `task` of an answer to an agent
has {"answer": {"event_id": "e7", "parts": […], "tools": […]}}, and that of a message {"message": {"parts": […]}}; `parts`
are those of the message. If it edits the session first, it has an edit, too, and its `step` is WRITES."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import broadcast
from ..access import approval, roles, tokens
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import is_hidden, shown, shown_change, shown_words
from ..domain.description import AUTH_CALL
from ..domain.edit_note import EDIT_PREFIX, edit_of, until_of
from ..domain.errors import Conflict, Error, Held, NotFound, StaleSession
from ..domain.event import Event, delta_of
from ..domain.kinds import describe
from ..domain.mask_patterns import DOTS
from ..domain.roles import Permission
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import ABSENT, Change, same
from ..jobs import runner
from ..jobs.lease import WAITING, may_see, session_of
from ..models import Job
from ..models.pages import in_pages
from ..reads import timeline, views
from ..sources import errors, registry

KIND: Final = "proposal"
APPLIED, DECLINED, WITHDRAWN, LAPSED = "applied", "declined", "withdrawn", "lapsed"
WRITES: Final = "writes"
SHOWN: Final = 50
_KEPT_SECONDS: Final = 90 * 86400.0
_DAY: Final = 86400.0
_TAKEN: Final = {
    "answer": gettext_lazy("%(name)s has proposed an answer to this already. It is under Proposals."),
    "message": gettext_lazy("%(name)s has proposed a message to this agent already. It is under Proposals."),
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit that waits for a second person, or what is sent to an agent, and its outcome.

    `kind` is edit, event (one that was written by hand), rewind, answer or message. `answers` are those to calls, by tool:
    an event may answer calls, too. A message has a `text` and names of `files`. `changes` are what is written; for an
    answer or a message, before it is sent.
    `state` is waiting, applied, declined, withdrawn or lapsed; `decided_by` and `why` say who decided so, and their
    reason. `ref` is None while its source is not among adkweb's. `hidden` has the keys with values that the reader may
    not see."""

    id: uuid.UUID
    kind: str
    ref: SessionRef | None
    actor: str
    reason: str
    changes: list[Change]
    answers: list[Change]
    text: str
    files: list[str]
    hidden: list[str]
    of: dict[str, Any]  # as in edit.edit_state
    invocation: str  # before which a rewind goes back
    created: float
    until: float
    state: str
    decided_by: str
    why: str
    finished: float | None
    event_id: str
    own: bool
    decidable: bool
    first: str  # of two people who have to apply it


@dataclass(frozen=True, slots=True)
class Obstacles:
    """A waiting proposal beside its session as it is now: the keys that have other values than its author saw.

    For each, `old` is the value that was seen and `new` the current one. `problem` is why it can't be applied at
    all."""

    changed: list[Change]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An edit as the event to be appended, with what it is compared with: the values that were seen in its keys, or else the
    session's revision."""

    event: Event
    expected: Mapping[str, Any]
    revision: float | None = None

    def check(self, ref: SessionRef, actor: Actor) -> None:
        """Raises Conflict and StaleSession as the edit itself would; NotFound, SourceError."""
        view = views.session(ref, actor=SYSTEM)
        if self.revision is not None and self.revision != view.revision:
            raise StaleSession
        current = {key: view.state.get(key) for key in self.expected}
        if changed := [key for key, value in self.expected.items() if not same(current[key], value)]:
            raise Conflict(current=shown(current, actor, ref.app_name), changed=changed)

    @property
    def task(self) -> dict[str, Any]:
        """Returns it as a proposal keeps it."""
        return {
            "event": self.event,
            "expected": [
                {"key": key} if value is ABSENT else {"key": key, "value": value}
                for key, value in self.expected.items()
            ],
            "revision": None if self.expected else self.revision,
        }


def keep(ref: SessionRef, event: Event, expected: Mapping[str, Any], revision: float | None, *, actor: Actor) -> Held:
    """Stores an edit as a proposal, and returns the error to raise; its `proposal` is the id.

    Raises Conflict and StaleSession as the edit itself would, and Conflict if it was proposed before and decided;
    NotFound, SourceError."""
    prepared = Prepared(event, expected, revision)
    prepared.check(ref, actor)
    where, now = registry.identity(ref.source), time.time()
    rows().filter(finished__lt=now - _KEPT_SECONDS).delete()
    days = approval.days_of([ref[:2]], delta_of(event)) or approval.DAYS
    job, made = Job.objects.get_or_create(
        id=uuid.uuid5(uuid.NAMESPACE_OID, ascii([KIND, where, *ref[1:], event["id"]])),
        defaults={
            "kind": KIND,
            "where": where,
            **dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True)),
            "task": json.dumps(prepared.task),
            "created": now,
            "beat": now,
            "due": now + days * _DAY,
            **runner.fields_of(actor),
        },
    )
    if not made and (job.state != WAITING or delta_of(event_of(job)) != delta_of(event)):
        raise Conflict(_("This proposal has already been decided. Make a new edit."))
    broadcast.tell("queued", ref)
    names = approval.held_in(ref.source, ref.app_name, event)
    if made:
        record("proposed", actor.name, ref=ref, proposal=str(job.pk), keys=names)
    return _needs_editor(job, names)


def _needs_editor(job: Job, names: Sequence[str]) -> Held:
    message = _("%(keys)s: needs a second person. Another editor has to apply it.")
    return Held(message % {"keys": approval.named(names)}, proposal=str(job.pk), keys=names)


def keep_sent(
    ref: SessionRef,
    kind: str,
    sent: Mapping[str, Any],
    *,
    first: Prepared | None = None,
    tools: Sequence[str] = (),
    actor: Actor,
) -> Held:
    """Stores an answer or a message to an agent as a proposal, with the edit that comes first, and returns the error to
    raise, as `keep` does. `sent` is what its `task` has for its `kind`; `tools` are those that need a second person. Raises
    Conflict if an answer to the same event, or a message in the same session, waits already, and what `Prepared.check`
    does."""
    if first:
        first.check(ref, actor)
    keys = approval.held_keys(ref.source, ref.app_name, delta_of(first.event)) if first else []
    now, where = time.time(), registry.identity(ref.source)
    rows().filter(finished__lt=now - _KEPT_SECONDS).delete()
    lane = f"{kind} {where} {digest_of(*ref[1:], sent.get('event_id', ''))}"
    task, step = {kind: sent, **(first.task if first else {})}, WRITES if first else ""
    due = now + (approval.days_of([ref[:2]], keys, tools=tools) or approval.DAYS) * _DAY
    names = dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True))
    try:
        with transaction.atomic():
            job = Job.objects.make(KIND, where, task, lane=lane, step=step, due=due, **names, **runner.fields_of(actor))
            record("proposed", actor.name, ref=ref, proposal=str(job.pk), keys=keys, tools=tools)
    except IntegrityError as error:
        by = rows().filter(lane=lane, state=WAITING).values_list("actor", flat=True).first() or ""
        raise Conflict(_TAKEN[kind] % {"name": by}) from error
    broadcast.tell("queued", ref)
    if first:
        return _needs_editor(job, [*keys, *tools])
    message = _("%(tools)s: an answer needs a second person. Another operator has to apply it.")
    return Held(message % {"tools": approval.named(tools)}, proposal=str(job.pk), tools=tools)


def rows() -> QuerySet[Job]:
    """Returns the rows of all proposals."""
    return Job.objects.filter(kind=KIND)


def job_of(proposal_id: uuid.UUID | str, actor: Actor) -> Job:
    """Returns the row of a proposal. Raises NotFound."""
    try:
        job = rows().filter(pk=proposal_id).first()
    except ValidationError:  # not a UUID
        job = None
    if job is None or not may_see(actor, job):
        raise NotFound(_("This proposal doesn't exist."))
    return job


def get(proposal_id: uuid.UUID | str, *, actor: Actor) -> Proposal:
    """Returns a proposal, whatever its outcome. Raises NotFound."""
    return view_of(job_of(proposal_id, actor), actor)


def listed(*, actor: Actor, own: bool = False) -> list[Proposal]:
    """Returns the proposals in apps that the actor may see: those that wait, the oldest first, then the others with
    their outcome, the latest first. With `own`, only those of the actor."""
    wanted = rows().filter(runner.wanted_by(actor)) if own else rows()
    seen = []
    waiting = in_pages(wanted.filter(state=WAITING), "created", "id")
    over = in_pages(wanted.exclude(state=WAITING), "-finished", "id")
    for some in (waiting, over):
        visible = (job for job in some if may_see(actor, job))
        seen += [job for _number, job in zip(range(SHOWN), visible, strict=False)]
    return [view_of(job, actor) for job in seen]


def count(*, actor: Actor) -> int:
    """Returns how many proposals wait for this actor, who may apply them."""
    waiting = rows().filter(state=WAITING).defer("task")
    return sum(may_decide(job, actor) for job in waiting[: 2 * SHOWN])


def may_decide(job: Job, actor: Actor) -> bool:
    """Returns whether an actor is a second person for a proposal: someone else who may do in the app what it does.

    A program isn't a person, and the people who created, renewed or hold a token can't decide on its proposals."""
    ref = session_of(job)
    if ref is None or not actor.account.startswith("person ") or not actor.may(needs(job), ref.source, ref.app_name):
        return False
    return not is_own(job, actor) and not tokens.knows(job.account, actor.name) and first_of(job) != actor.name


def first_of(job: Job) -> str:
    """Returns the name of the first of two people who apply what a program proposes; "" if there was none yet, or they
    may no longer do so."""
    first = json.loads(job.result or "{}").get("first", {}) if job.state == WAITING else {}
    ref, person = session_of(job), roles.actor_numbered(first["person"]) if first else None
    may = ref is not None and person is not None and person.may(needs(job), ref.source, ref.app_name)
    return str(first["name"]) if may else ""


def needs(job: Job) -> Permission:
    """Returns the permission that both people need: an editor's, who also answers and writes, if it edits the session."""
    return "operate" if job.lane and job.step != WRITES else "append"


def needs_two(job: Job) -> bool:
    """Returns whether two people have to apply a proposal: a program made it with a token without known holders."""
    return job.account.startswith("token ") and not tokens.has_holder(job.account)


def is_own(job: Job, actor: Actor) -> bool:
    """Returns whether a proposal is of this actor."""
    return actor.is_same(job.actor, job.account)


def obstacles(proposal: Proposal, *, actor: Actor) -> Obstacles:
    """Compares a proposal with its session as it is now."""
    try:
        job = job_of(proposal.id, actor)
        if (ref := session_of(job)) is None:
            return Obstacles([], _("Its database isn't one of adkweb's sources right now."))
        view = views.session(ref, actor=SYSTEM)
        if not writes(job):
            return Obstacles([])
        revision = json.loads(job.task)["revision"]
        is_other = revision not in (None, view.revision)
        pairs = [Change(key, value, view.state.get(key)) for key, value in expected_of(job).items()]
        changed = [shown_change(each, actor, ref.app_name) for each in pairs if not same(each.old, each.new)]
        if (is_other or changed) and _is_written(ref, event_of(job)):
            return Obstacles([])
        return Obstacles(changed, _("Someone has written to this session since then.") if is_other else "")
    except Error as error:  # deleted, or away
        return Obstacles([], errors.shown(error, actor))


def _is_written(ref: SessionRef, event: Event) -> bool:
    """Returns whether an event is stored: a process that died had no time to note that."""
    try:
        return bool(timeline.event(ref, event["id"], actor=SYSTEM))
    except NotFound:
        return False


def sent_by(job: Job) -> tuple[str, dict[str, Any]]:
    """Returns what a proposal is to send: “answer” or “message” with what its task says of it. Both are empty for an edit,
    which sends nothing."""
    task = json.loads(job.task)
    return next(((kind, task[kind]) for kind in ("answer", "message") if kind in task), ("", {}))


def writes(job: Job) -> bool:
    """Returns whether a proposal writes an event."""
    return not job.lane or job.step == WRITES


def sent_in(ref: SessionRef, *, actor: Actor) -> list[Proposal]:
    """Returns the answers and messages that wait for a second person in a session."""
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    waiting = Job.objects.of_agents().filter(kind=KIND, where=registry.identity(ref.source), state=WAITING, **names)
    return [view_of(job, actor) for job in waiting]


def event_of(job: Job) -> Event:
    """Returns the event that a proposal is to append, if it `writes` one."""
    event: Event = json.loads(job.task)["event"]
    return event


def expected_of(job: Job) -> dict[str, Any]:
    """Returns the values that the author saw in the keys, by full key; ABSENT for a key that was not there."""
    return {each["key"]: each.get("value", ABSENT) for each in json.loads(job.task)["expected"]}


def view_of(job: Job, actor: Actor) -> Proposal:
    """Returns a row as an actor may see it."""
    result = json.loads(job.result or "{}")
    kind, sent = sent_by(job)
    event_id, invocation, reason, of = sent.get("event_id", ""), "", "", dict[str, Any]()
    changes: list[Change] = []
    parts = shown(sent.get("parts", []), actor, job.app_name, "event")
    responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
    answers = [
        _response(tool, each["name"], each["response"])
        for tool, each in zip(sent.get("tools", ()), responses, strict=True)
    ]
    if writes(job):
        event, expected = event_of(job), expected_of(job)
        event_id, note = event_id or event["id"], edit_of(event)
        reason, of = note["reason"], _origin_of(note)
        new = {key: ABSENT if key in note["removed"] else value for key, value in delta_of(event).items()}
        changes = [
            Change(key, expected.get(key, note["replaced"].get(key, ABSENT)), value) for key, value in new.items()
        ]
        seen = describe(shown(event, actor, job.app_name, "event"))
        answers += [_response(part.name, part.name, part.value) for part in seen.responses]
        invocation = event["actions"].get("rewind_before_invocation_id") or ""
        is_edit = event["invocation_id"] == EDIT_PREFIX + event["id"]
        kind = kind or ("rewind" if invocation else "edit" if is_edit else "event")
    return Proposal(
        job.pk,
        kind,
        session_of(job),
        job.actor,
        shown_words(reason, actor, job.app_name),
        [shown_change(change, actor, job.app_name) for change in changes],
        [shown_change(change, actor, job.app_name) for change in answers],
        "".join(part.get("text", "") for part in parts),
        [shown_words(part["inlineData"]["displayName"], actor, job.app_name) for part in parts if "inlineData" in part],
        [each.key for each in changes if is_hidden(each.key, (each.old, each.new), actor, job.app_name)],
        of,
        invocation,
        job.created,
        job.due or 0.0,
        job.state,
        job.message,
        shown_words(result.get("why", ""), actor, job.app_name),
        job.finished,
        event_id,
        is_own(job, actor),
        job.state == WAITING and may_decide(job, actor),
        first_of(job),
    )


def _response(shown_as: str, name: str, response: Any) -> Change:
    """Returns the answer to a call. What comes back from a sign-in is as good as a password."""
    return Change(shown_as, ABSENT, DOTS if name == AUTH_CALL else response)


def _origin_of(note: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an edit's origin and end, in the form that its form takes."""
    of = {name: note[name] for name in ("undoes", "restores") if name in note}
    if "lasts" in note:
        return {**of, "lasts": note["lasts"]}
    until = until_of(note)
    return {**of, "until": until} if until and until > time.time() else of


def draft_of(proposal_id: uuid.UUID | str, *, actor: Actor) -> Event:
    """Returns the event of a proposal as its author wrote it, without adkweb's note, to be written again.

    Raises NotFound, also for an answer or a message."""
    job = job_of(proposal_id, actor)
    if job.lane:
        raise NotFound(_("This proposal doesn't exist."))
    event = {name: value for name, value in event_of(job).items() if name != "id"}
    metadata = {name: value for name, value in event.get("custom_metadata", {}).items() if name != "adkweb"}
    return shown({**event, "custom_metadata": metadata}, actor, job.app_name, "event")
