"""Answers calls that wait. An answer is claimed in adkweb's own database before it is sent, so that it is sent once.

    answer(ref, "e7", {"c1": Given(confirmed=True)}, actor=actor)

All calls of one event are answered in one message: the agent would otherwise be asked to continue after the first of them.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import check_unmasked, shown_words, typed_value
from ..domain import credentials
from ..domain.answers import fields_seen, read, response
from ..domain.description import CONFIRMATION_CALL
from ..domain.errors import AgentError, Conflict, Error, Invalid
from ..domain.json_values import dumps
from ..domain.pending import CONFIRMATION, LONG_RUNNING, asked
from ..domain.session_ref import SessionRef, digest_of
from ..edits import proposals
from ..jobs.lease import WAITING
from ..models import Answer, Job
from ..reads import timeline
from ..search.index.tables import names_of
from ..sources import agents, registry
from ..sources.errors import shown as shown_error
from . import runs
from .first import NOTHING, First, Write
from .questions import Question, asked_by, check_waits

_ARRIVAL_SECONDS: Final = 60.0  # within which an answer is stored that arrived at all


@dataclass(frozen=True, slots=True)
class Given:
    """The answer to a question, as someone gives it: whether they approve, None if that isn't asked, and the `value`, which
    is the payload of a confirmation, the address with which a sign-in came back, or the answer; or else what a form's
    `fields` hold. An `interim` one says how far a long-running tool is, and leaves it waiting for its result."""

    confirmed: bool | None = None
    value: Any = None
    fields: Mapping[str, str] | None = None
    interim: bool = False


def answer(ref: SessionRef, event_id: str, given: Mapping[str, Given], *, actor: Actor, first: First = NOTHING) -> Job:
    """Starts the run that answers what an event asks; `given` has the answer to each of its calls that wait, by id. State is
    set `first` if nothing else stands in the way.

    Raises Invalid for an answer that doesn't fit, with its call as `field`; Conflict if someone else answered, or the agent
    runs; AgentError if adkweb can't start the agent; Held if a rule asks for a second person, who then finds all of it
    under Proposals; and what `First` raises."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if why := agents.why_not(ref.source, ref.app_name):
        raise AgentError(why)
    questions = {each.of.call_id: each for each in asked_by(ref, event_id, actor=SYSTEM)}
    if not questions:
        raise Conflict(_answered(ref, event_id, given))
    if questions.keys() != given.keys():
        raise Invalid(_("The agent asks %(n)s questions at once. Answer all of them.") % {"n": len(questions)})
    if any((each.of.kind == CONFIRMATION) is (given[call].confirmed is None) for call, each in questions.items()):
        raise Invalid(_("A confirmation is approved or declined. Every other call gets a response."))
    updates = [call for call, each in given.items() if each.interim]
    if any(questions[call].of.kind != LONG_RUNNING for call in updates):
        raise Invalid(_("Only a long-running tool can have an update before its final result."))
    seen = {each.of.call_id: each for each in asked_by(ref, event_id, actor=actor)}
    parts = [_part(each, seen[call], given[call], ref, actor) for call, each in questions.items()]
    held = first.check(ref, actor=actor)
    tools = [each.of.tool for each in questions.values()]
    held_tools = [] if actor is SYSTEM else approval.held_tools(ref.source, ref.app_name, tools)
    answer = {"event_id": event_id, "parts": parts, "tools": tools, "updates": updates}
    if held or held_tools:
        before = first.prepared(ref, actor=actor) if first.writes else None
        raise proposals.keep_sent(ref, "answer", answer, first=before, tools=held_tools, actor=actor)
    job = prepare(ref, answer, first.writer(ref, actor=actor), actor=actor)
    runs.begin(job)
    return job


def obstacle(proposal: proposals.Proposal, *, actor: Actor) -> str:
    """Returns why a proposed answer can't be sent; "" if it can."""
    try:
        if proposal.ref and not asked_by(proposal.ref, proposal.event_id, actor=SYSTEM):
            return _answered(proposal.ref, proposal.event_id, [])
    except Error as error:  # deleted, or away
        return shown_error(error, actor)
    return ""


def prepare(ref: SessionRef, answer: Mapping[str, Any], write: Write | None, *, actor: Actor) -> Job:
    """Claims the calls that are answered, makes the run that sends the answer, which `runs.begin` starts, and has `write`
    write what comes first. `answer` is as a proposal has it. Raises as `answer`; there is no run then, and no claim."""
    event_id, parts = answer["event_id"], answer["parts"]
    calls = [(event_id, part["functionResponse"]["id"]) for part in parts]
    if write:
        runs.server_of(ref, actor=actor)  # nothing is written for an agent that can't be started
    ids = [call for _event, call in calls]
    try:
        after = runs.newest(ref, actor=actor)
        with transaction.atomic():
            updates = list(answer.get("updates", ()))
            job = runs.make(ref, parts, after, actor=actor, calls=calls, updates=updates, first=write is not None)
            record("call-answered", actor.name, ref=ref, tools=sorted(set(answer["tools"])), run=job.pk.hex)
            _claim(ref, event_id, parts, job)
    except Conflict as error:
        if of_calls(ref, calls).filter(state="open").exists():  # the agent runs because someone has just answered
            raise Conflict(_answered(ref, event_id, ids)) from error
        raise
    try:
        check_waits(ref, calls, actor=SYSTEM)  # someone may have answered between the first look and the claim
    except Error as error:
        runs.take_back(job)
        if isinstance(error, Conflict):
            raise Conflict(_answered(ref, event_id, ids)) from error
        raise  # such as a database that is away: nothing may be sent later, either
    try:
        if write:
            write(job.pk.hex)
    except Exception:
        runs.take_back(job)
        raise
    return job


def _part(question: Question, seen: Question, given: Given, ref: SessionRef, actor: Actor) -> dict[str, Any]:
    """Returns the function response that answers a question. `seen` is the question as the actor sees it."""
    stored, shown = asked(question.call), asked(seen.call)
    value = given.value
    checked = False
    try:
        if given.fields is not None:
            texts = {name: text.replace("\r\n", "\n") for name, text in given.fields.items()}  # as no browser posts it
            first = {each.name: each.initial for each in fields_seen(stored.schema, shown.schema) or ()}
            check_unmasked({name: text for name, text in texts.items() if text != first.get(name)}, actor, ref.app_name)
            checked = True
            value = read(stored.schema, texts, shown.schema)
        elif value is not None:
            value = typed_value(value, shown.payload, stored.payload, actor, ref.app_name)
        checked = True
        name, content = response(question.of.kind, question.call, value, confirmed=bool(given.confirmed))
    except Invalid as error:
        message = shown_words(error.message, actor, ref.app_name)
        if checked and stored.schema != shown.schema:  # the message may name what is hidden
            message = _("%(field)s isn't what the agent asks for.") % {"field": _("The answer")}
        raise Invalid(message, field=error.detail.get("field", ""), call=question.of.call_id) from error
    return {"functionResponse": {"id": question.of.call_id, "name": name, "response": content}}


def _claim(ref: SessionRef, event_id: str, parts: list[dict[str, Any]], job: Job) -> None:
    common = {"where": job.where, "digest": digest_of(*ref[1:]), "names": names_of(ref), "run": job.pk}
    said = [part["functionResponse"] for part in parts]
    earlier = of_calls(ref, [(event_id, each["id"]) for each in said])
    left = earlier.filter(state="open").values_list("run", flat=True)
    for ended in Job.objects.filter(pk__in=left).exclude(state=WAITING):  # its process died before it closed them
        runs.close_claims(ended)
    # ADK stores an answer as soon as it has it. One that isn't there long after its run ended never arrived.
    lost = Job.objects.filter(
        pk__in=earlier.filter(state="unknown").values_list("run", flat=True),
        finished__lt=time.time() - _ARRIVAL_SECONDS,
    )
    earlier.filter(state="unknown", run__in=lost.values_list("pk", flat=True)).update(state="refused")
    try:
        with transaction.atomic():
            for each in said:
                # The job has the address of a sign-in until it's sent.
                kept = dumps({"functionResponse": credentials.hidden(each)})
                Answer.objects.create(
                    **common, asked=digest_of(event_id, each["id"]), response=kept, by=job.actor, at=time.time()
                )
    except IntegrityError as error:
        raise Conflict(_answered(ref, event_id, [each["id"] for each in said])) from error


def _answered(ref: SessionRef, event_id: str, calls: Any) -> str:
    """Returns the sentence for a question that someone else answered, or that doesn't wait any longer. Without `calls`, it's
    about all that the event asked."""
    calls = calls or [part.id for part in timeline.event(ref, event_id, actor=SYSTEM).description.calls]
    last = of_calls(ref, [(event_id, call) for call in calls]).order_by("-at").first()
    if last is None or last.state in ("refused", "update"):
        return _("This doesn't wait for an answer any longer. Nothing was sent.")
    if last.state == "unknown":
        return _(
            "%(name)s answered this, but it's unknown whether the agent got the answer. Try again in a minute."
        ) % {"name": last.by}
    said = json.loads(last.response)["functionResponse"]
    if said["name"] != CONFIRMATION_CALL:
        return _("%(name)s has answered this already. Nothing was sent.") % {"name": last.by}
    if said["response"]["confirmed"]:
        return _("%(name)s has approved this already. Nothing was sent.") % {"name": last.by}
    return _("%(name)s has declined this already. Nothing was sent.") % {"name": last.by}


def of_calls(ref: SessionRef, calls: list[tuple[str, str]]) -> Any:
    """Returns the answers that people gave to some calls of a session, each given by its event and its id."""
    keys = [digest_of(*call) for call in calls]
    return Answer.objects.filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:]), asked__in=keys)
