"""The state of a session, a user or an app, and edits of it, each of which is one event."""

from collections.abc import Sequence
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from ..access.actor import Actor
from ..domain.errors import Invalid, NotFound, StaleSession
from ..domain.session_ref import SessionRef, own_session
from ..domain.state import ABSENT, UNKNOWN, Scope
from ..edits import edit
from ..edits.edit import Entry
from ..reads import timeline, views
from ..reads.users import meant
from ..writes.append import Appended
from . import schemas
from .authorize import actor_of, ref_of, source_of
from .bodies import IF_MATCH, Precondition, answer, body_of, body_schema, expected_revision
from .events import stored_answer
from .expiring import TimedEdit, end_of
from .openapi import needs, tagged
from .sessions import SESSION, USER

router = Router()

APP: Final = "/apps/{plain:app_name}"
_ANSWERS: Final = {201: schemas.Appended, 200: schemas.Appended}
_EDIT: Final = body_schema(TimedEdit, required=True) | needs("append") | tagged(200, 201, required=False)


@router.get(
    SESSION + "/state", response=schemas.State, summary="State of a session, by scope", openapi_extra=tagged(200)
)
def of_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Returns the state of a session, of its user and of its app. Keys have no prefix."""
    view = views.session(ref_of(request, app_name, user_id, session_id, source), actor=actor_of(request))
    state = view.state
    return answer({"app": state.app, "user": state.user, "session": state.session}, revision=view.revision)


@router.get(USER + "/state", response=schemas.Json, summary="State of a user")
def of_user(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponse:
    """Returns the state that all sessions of this user in this app share. Keys have no prefix."""
    alias, who = source_of(request, app_name, source), actor_of(request)
    return answer(views.user_state(alias, app_name, meant(alias, app_name, user_id, actor=who), actor=who))


@router.get(APP + "/state", response=schemas.Json, summary="State of an app")
def of_app(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Returns the state that all users of this app share. Keys have no prefix."""
    return answer(views.app(source_of(request, app_name, source), app_name, actor=actor_of(request))[1])


@router.patch(
    SESSION + "/state",
    response=_ANSWERS,
    summary="Edit state in a session",
    openapi_extra={**_EDIT, **IF_MATCH},
)
def edit_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Sets and removes keys of any scope with one event in this session, which records the `reason` and the `actor`."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    return _edit(request, ref)


@router.patch(
    USER + "/state",
    response=_ANSWERS,
    summary="Edit state of a user",
    openapi_extra=_EDIT,
)
def edit_user(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponse:
    """Sets and removes keys that start with `user:`, with an event in adkweb's own session of this user."""
    alias = source_of(request, app_name, source, "append")
    user = meant(alias, app_name, user_id, actor=actor_of(request))
    return _edit(request, own_session(alias, app_name, user), "user")


@router.patch(
    APP + "/state",
    response=_ANSWERS,
    summary="Edit state of an app",
    openapi_extra=_EDIT,
)
def edit_app(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Sets and removes keys that start with `app:`, with an event in adkweb's own session of this app."""
    return _edit(request, own_session(source_of(request, app_name, source, "append"), app_name), "app")


def _edit(request: HttpRequest, ref: SessionRef, only: Scope | None = None) -> HttpResponse:
    """Applies an edit. Only the keys in `expected` and `absent` are compared; if another key is written in the
    meantime, its value is overwritten."""
    body, who = body_of(request, TimedEdit, unchecked="remove"), actor_of(request)
    revision = None if only else expected_revision(request)
    entries = _entries(body)
    once = f"{who.name}\n{body.once}" if body.once else ""
    if once and (stored := _stored(ref, once, entries, who)):
        return stored_answer(request, stored, ref)
    try:
        written = edit.overwrite_state(
            ref, entries, only=only, actor=who, reason=body.reason, once=once, revision=revision, of=end_of(body)
        )
    except StaleSession as error:
        raise Precondition from error
    return stored_answer(request, written, ref) if written else answer({"seq": None, "revision": None, "event": None})


def _entries(body: schemas.Edit) -> list[Entry]:
    """Returns the new values of the keys, with those that they must still have; UNKNOWN for any. Raises Invalid."""
    wanted = {**body.expected, **dict.fromkeys(body.absent, ABSENT)}
    changes = {**body.set, **dict.fromkeys(body.remove, ABSENT)}
    for names in (body.set.keys() & set(body.remove), body.expected.keys() & set(body.absent)):
        if names:
            raise Invalid(_("%(key)s: appears twice in this edit") % {"key": min(names)})
    if not changes:
        raise Invalid(_("Nothing would change: neither `set` nor `remove` names a key."))
    if strange := wanted.keys() - changes.keys():
        raise Invalid(_("%(key)s: has an expected value but is neither set nor removed") % {"key": min(strange)})
    return [Entry(name, value, wanted.get(name, UNKNOWN)) for name, value in changes.items()]


def _stored(ref: SessionRef, once: str, entries: Sequence[Entry], actor: Actor) -> Appended | None:
    """Returns this edit if this program has already stored it, even if others have written since; else None."""
    try:
        return Appended(timeline.event(ref, edit.edit_id(once, entries), actor=actor).data)
    except NotFound:
        return None
