"""Undo, restore, rewind, fork and repair. Nothing is changed: each of them adds an event, or a session."""

from typing import Final, cast
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from ..domain.errors import Conflict, Invalid, StaleSession
from ..domain.state import STORED, Scope
from ..edits import edit
from ..edits import fork as forks
from ..edits import repair as repairs
from ..edits import rewind as rewinds
from ..edits import undo as undoing
from ..http.names import Name
from ..reads.users import meant
from . import schemas
from .authorize import actor_of, names_of, ref_of
from .bodies import IF_MATCH, Precondition, answer, body_of, body_schema, expected_revision
from .events import stored_answer
from .history import EVENT
from .history import router as of_history
from .openapi import needs, tagged
from .sessions import SESSION

router = Router()

_APPENDED: Final = {201: schemas.Appended, 200: schemas.Appended}
_WRITES: Final = needs("append") | tagged(200, 201, required=False)


@router.post(
    EVENT + "/undo",
    response=_APPENDED,
    summary="Undo an event's state delta",
    openapi_extra={**body_schema(schemas.Undo), **_WRITES, **IF_MATCH},
)
def undo(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str, source: str | None = None
) -> HttpResponse:
    """Gives each key of an event's delta its value from just before the event, with one new event.

    Answers 409, with the values in `current`, if someone has written a key since; 400 if there is nothing to undo, as
    after an undo."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    body = body_of(request, schemas.Undo)
    plan = undoing.undo(ref, event_id, actor=actor_of(request))
    if before := plan.event.description.actions.get("rewind_before_invocation_id"):
        raise Invalid(
            _("This event is a rewind to before %(id)s. To undo it, rewind to before its own invocation.")
            % {"id": before}
        )
    if not body.overwrite and (contested := {step.key: step.now for step in plan.steps if step.contested}):
        raise Conflict(_("These keys have been changed since then. Nothing was written."), current=contested)
    return _take_back(request, plan, body.reason, {"undoes": event_id})


@router.post(
    SESSION + "/restore",
    response=_APPENDED,
    summary="Restore the state of a moment",
    openapi_extra={**body_schema(schemas.Restore, required=True), **_WRITES, **IF_MATCH},
)
def restore(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Gives some keys, or all of some scopes, their values from just after an event, with one new event. Keys whose
    value cannot be known stay as they are."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    body = body_of(request, schemas.Restore)
    if strange := set(body.scopes) - {*STORED}:
        raise Invalid(_("There's no scope “%(name)s”.") % {"name": min(strange)})
    plan = undoing.restore(ref, body.to, keys=body.keys, scopes=cast(list[Scope], body.scopes), actor=actor_of(request))
    return _take_back(request, plan, body.reason, {"restores": body.to})


@router.post(
    SESSION + "/rewind",
    response=_APPENDED,
    summary="Rewind to before an invocation",
    openapi_extra={**body_schema(schemas.Rewind, required=True), **_WRITES, **IF_MATCH},
)
def rewind(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Rewinds the conversation to before an invocation, as ADK does: the agent no longer sees what came later, and the
    session's own keys have their values from then. Unlike ADK's own rewind, this keeps initial state."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    body, who, revision = body_of(request, schemas.Rewind), actor_of(request), expected_revision(request)
    once = f"{who.name}\n{body.once}" if body.once else ""
    try:
        done = rewinds.rewind(ref, body.before, actor=who, reason=body.reason, revision=revision, once=once)
    except StaleSession as error:
        raise error if revision is None else Precondition() from error
    return stored_answer(request, done, ref)


@router.post(
    EVENT + "/fork",
    response={201: schemas.Created},
    summary="Fork a session at an event",
    openapi_extra={
        **body_schema(schemas.Fork),
        **needs("admin"),
        "responses": {201: {"headers": {"Location": {"schema": {"type": "string"}, "required": True}}}},
    },
)
def fork(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str, source: str | None = None
) -> HttpResponse:
    """Creates a session with the events up to this one and the state of that moment. A long one takes seconds. One that
    was interrupted is resumed by the same request with the same id."""
    ref = ref_of(request, app_name, user_id, session_id, source, "admin")
    body = body_of(request, schemas.Fork)
    user = ref.user_id if body.user_id is None else meant(ref.source, app_name, body.user_id, actor=actor_of(request))
    into = forks.name(ref, user, body.session_id, "")
    made = forks.fork(
        ref, event_id, user_id=into.user_id, session_id=into.session_id, actor=actor_of(request), reason=body.reason
    )
    names = names_of(made, actor_of(request), "id")
    response = answer(names, 201)
    app, user, session = (quote(Name().to_url(names[name])) for name in ("app_name", "user_id", "id"))
    response["Location"] = f"/api/apps/{app}/users/{user}/sessions/{session}"
    return response


@of_history.post(  # one router has all methods of an address
    SESSION + "/drift",
    response=_APPENDED,
    summary="Repair drifted keys",
    openapi_extra={**body_schema(schemas.Repair, required=True), **_WRITES},
)
def repair(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Makes stored state and events agree again for some keys, with one event. Answers 400 for a key that did not drift,
    409 if one is written in the meantime."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    body, who = body_of(request, schemas.Repair), actor_of(request)
    choices = repairs.choose(ref, body.keep, body.put_back, actor=actor_of(request))
    return stored_answer(request, repairs.repair(ref, choices, actor=who, reason=body.reason), ref)


def _take_back(request: HttpRequest, plan: undoing.Plan, reason: str, of: dict[str, str]) -> HttpResponse:
    who, revision = actor_of(request), expected_revision(request)
    try:
        done = edit.edit_state(plan.event.ref, plan.entries, actor=who, reason=reason, revision=revision, of=of)
    except StaleSession as error:
        raise Precondition from error
    return stored_answer(request, done, plan.event.ref)
