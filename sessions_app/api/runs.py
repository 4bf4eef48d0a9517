"""Agents and their runs: how they run, answering what waits, writing to an agent, and stopping it."""

import base64
import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from ..access.actor import Actor
from ..access.shown import shown_words
from ..domain.errors import Invalid, NotFound, SourceError, StaleSession
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN
from ..edits.edit import Entry
from ..jobs.lease import WAITING
from ..models import Job
from ..reads.lists import app_names
from ..running import answers, files, runs, servers
from ..running.answers import Given
from ..running.first import First
from ..sources import registry
from ..sources.errors import shown
from . import schemas
from .authorize import actor_of, ref_of
from .bodies import IF_MATCH, Precondition, answer, body_of, body_schema, expected_revision
from .openapi import needs
from .sessions import SESSION

router = Router()


@router.get("/agents", response=schemas.Agents, summary="How agents run", openapi_extra=needs("operate"))
def list_agents(request: HttpRequest) -> HttpResponse:
    """Returns how the agents of the apps run that the token may operate. Only a person can say so."""
    who = actor_of(request)
    who.check_permission("operate")
    items: list[dict[str, Any]] = []
    problems: list[str] = []
    for source in registry.listed():
        try:
            names = [name for name in app_names(source.alias, actor=who) if who.may("operate", source.alias, name)]
            items += [_agent(each) for each in servers.facts(source.alias, names, actor=who)]
        except SourceError as error:
            problems.append(shown(error, who))
    return answer({"items": items, "problems": problems})


def _agent(facts: servers.Facts) -> dict[str, Any]:
    names = ("source", "app_name", "how", "why", "host", "folder", "python", "runs", "error")
    fields = {name: getattr(facts, name) for name in names}
    return {**fields, "since": facts.since.timestamp() if facts.since else None}


@router.post(
    SESSION + "/answers",
    response={202: schemas.Run},
    summary="Answer what an event asks",
    openapi_extra=body_schema(schemas.Answers, required=True) | needs("operate"),
)
def answer_event(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Answers all calls of an event that wait, in one message, and returns the run in which the agent continues.

    Answers 400 for an answer that doesn't fit, 409 if someone else answered, the agent runs, or adkweb can't start it.
    Nothing is sent then."""
    ref = ref_of(request, app_name, user_id, session_id, source, "operate")
    body = body_of(request, schemas.Answers)
    given = {call: _given(call, each) for call, each in body.answers.items()}
    who = actor_of(request)
    return _started(answers.answer(ref, body.event_id, given, actor=who, first=_first(body)), ref, who)


def _first(body: schemas.First, instead_of: str = "", revision: float | None = None) -> First:
    wanted = {**body.expected, **dict.fromkeys(body.absent, ABSENT)}
    if strange := wanted.keys() - body.state.keys():
        raise Invalid(_("%(key)s: has an expected value but is neither set nor removed") % {"key": min(strange)})
    entries = [Entry(key, value, wanted.get(key, UNKNOWN)) for key, value in body.state.items()]
    return First(entries, body.reason, instead_of, revision)


def _given(call: str, said: dict[str, Any]) -> Given:
    if "response" in said and said.keys() <= {"response", "interim"} and isinstance(said.get("interim", False), bool):
        return Given(value=said["response"], interim=said.get("interim", False))
    if isinstance(said.get("confirmed"), bool) and said.keys() <= {"confirmed", "payload"}:
        return Given(confirmed=said["confirmed"], value=said.get("payload"))
    raise Invalid(
        _("answers.%(call)s: give confirmed (true or false), with or without a payload, or a response.")
        % {"call": call}
    )


@router.post(
    SESSION + "/runs",
    response={202: schemas.Run},
    summary="Write to the agent",
    openapi_extra=body_schema(schemas.Message, required=True) | needs("operate") | IF_MATCH,
)
def say(request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None) -> HttpResponse:
    """Sends a message to the agent as the session's user, and returns the run in which it replies. Answers 412, and sends
    nothing, if something is to be written first and the session no longer has the revision of `If-Match`."""
    ref = ref_of(request, app_name, user_id, session_id, source, "operate")
    body, who = body_of(request, schemas.Message), actor_of(request)
    attached = [files.part(each.name, _bytes(each.data), each.mime_type) for each in body.files]
    revision = expected_revision(request)
    first = _first(body, body.instead_of, revision)
    try:
        job = runs.say(ref, body.text, attached=attached, actor=who, first=first)
    except StaleSession as error:
        raise error if revision is None else Precondition() from error
    return _started(job, ref, who)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Invalid(_("%(name)s: not base64") % {"name": "files.data"}) from error


@router.get(SESSION + "/runs/{uuid:run_id}", response=schemas.Run, summary="How a run is doing")
def run(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, run_id: UUID, source: str | None = None
) -> HttpResponse:
    """Returns a run of the agent that adkweb started."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    actor_of(request).check_sees(ref)
    return answer(_as_json(_named(ref, run_id), ref, actor_of(request)))


@router.delete(
    SESSION + "/runs/{uuid:run_id}", response={202: schemas.Run}, summary="Stop a run", openapi_extra=needs("operate")
)
def stop(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, run_id: UUID, source: str | None = None
) -> HttpResponse:
    """Asks the agent to stop. Tools of its current step may already have run. The run ends a moment later. Answers 404 if it
    has ended, even if another one runs."""
    ref = ref_of(request, app_name, user_id, session_id, source, "operate")
    asked = _named(ref, run_id)
    if asked.state != WAITING:
        raise NotFound(_("This run has ended."))
    runs.stop(ref, actor=actor_of(request))
    return _started(asked, ref, actor_of(request))


@router.delete(
    SESSION + "/runs", response={202: schemas.Stopping}, summary="Stop what runs", openapi_extra=needs("operate")
)
def stop_any(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Asks the agent in a session to stop, also in a process whose companion reports that it runs. Answers 404 if none is
    known to run. Tools of its current step may already have run."""
    ref, who = ref_of(request, app_name, user_id, session_id, source, "operate"), actor_of(request)
    runs.stop(ref, actor=who)
    return answer({"stopped_by": who.name}, 202)


def _named(ref: SessionRef, run_id: UUID) -> Job:
    job: Job | None = runs.of(ref).filter(pk=run_id).first()
    if job is None:
        raise NotFound(_("adkweb started no such run in this session."))
    return job


def _started(job: Job, ref: SessionRef, who: Actor) -> HttpResponse:
    return answer(_as_json(job, ref, who), 202)


def _as_json(job: Job, ref: SessionRef, who: Actor) -> dict[str, Any]:
    job.refresh_from_db()
    operates = who.may("operate", ref.source, ref.app_name)  # who may not doesn't read what agents print, either
    return {
        "id": str(job.pk),
        "state": job.state,
        "sent": json.loads(job.result or "{}").get("sent"),
        "message": shown_words(job.message, who, ref.app_name) if operates else "",
        "started_by": job.actor,
        "created": job.created,
        "finished": job.finished,
    }
