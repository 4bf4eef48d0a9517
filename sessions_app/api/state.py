"""The state of a session, a user or an app, and edits of it, each of which is one event."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from ..access.actor import Actor
from ..domain.session_ref import SessionRef, own_session
from ..domain.state import ABSENT, State, same
from ..edits import edit
from ..edits.edit import Entry
from ..errors import Conflict, Invalid, NotFound, StaleSession
from ..reads import timeline, views
from ..writes.append import Appended
from . import schemas
from .authorize import actor_of, source_of
from .bodies import IF_MATCH, Precondition, answer, body_of, body_schema, expected_revision
from .events import told
from .openapi import needs, tagged
from .sessions import SESSION, USER

router = Router()

APP: Final = "/apps/{plain:app_name}"
_ANSWERS: Final = {201: schemas.Appended, 200: schemas.Appended}
_EDIT: Final = body_schema(schemas.Edit, required=True) | needs("append") | tagged(200, 201, required=False)
_TRIES: Final = 100  # each one fails because somebody else's succeeded

Apply = Callable[[Sequence[Entry], str], Appended]


@router.get(
    SESSION + "/state", response=schemas.State, summary="State of a session, by scope", openapi_extra=tagged(200)
)
def of_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Returns the state of a session, of its user and of its app. Keys have no prefix."""
    view = views.session(
        SessionRef(source_of(request, app_name, source), app_name, user_id, session_id), actor=actor_of(request)
    )
    state = view.state
    return answer({"app": state.app, "user": state.user, "session": state.session}, revision=view.revision)


@router.get(USER + "/state", response=schemas.Json, summary="State of a user")
def of_user(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponse:
    """Returns the state that all sessions of this user in this app share. Keys have no prefix."""
    return answer(views.user_state(source_of(request, app_name, source), app_name, user_id, actor=actor_of(request)))


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
    """Sets and removes keys of any scope by one event in this session, which notes the `reason` and the `actor`."""
    ref = SessionRef(source_of(request, app_name, source, "append"), app_name, user_id, session_id)
    body, who, revision = body_of(request, schemas.Edit), actor_of(request), expected_revision(request)

    def read() -> State:
        view = views.session(ref, actor=actor_of(request))
        if revision not in (None, view.revision):
            raise Precondition
        return view.state.merged()

    def apply(entries: Sequence[Entry], once: str) -> Appended:
        return edit.edit_state(ref, entries, actor=who, reason=body.reason, once=once, revision=revision)

    return _edit(request, body, ref, read, apply)


@router.patch(
    USER + "/state",
    response=_ANSWERS,
    summary="Edit state of a user",
    openapi_extra=_EDIT,
)
def edit_user(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponse:
    """Sets and removes keys that begin with `user:`, by an event in adkweb's own session of this user."""
    alias = source_of(request, app_name, source, "append")
    body, who = body_of(request, schemas.Edit), actor_of(request)

    def read() -> State:
        return _prefixed("user:", views.user_state(alias, app_name, user_id, actor=actor_of(request)))

    def apply(entries: Sequence[Entry], once: str) -> Appended:
        return edit.edit_user_state(alias, app_name, user_id, entries, actor=who, reason=body.reason, once=once)

    return _edit(request, body, own_session(alias, app_name, user_id), read, apply)


@router.patch(
    APP + "/state",
    response=_ANSWERS,
    summary="Edit state of an app",
    openapi_extra=_EDIT,
)
def edit_app(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Sets and removes keys that begin with `app:`, by an event in adkweb's own session of this app."""
    alias = source_of(request, app_name, source, "append")
    body, who = body_of(request, schemas.Edit), actor_of(request)

    def read() -> State:
        return _prefixed("app:", views.app(alias, app_name, actor=actor_of(request))[1])

    def apply(entries: Sequence[Entry], once: str) -> Appended:
        return edit.edit_app_state(alias, app_name, entries, actor=who, reason=body.reason, once=once)

    return _edit(request, body, own_session(alias, app_name), read, apply)


def _edit(
    request: HttpRequest, body: schemas.Edit, ref: SessionRef, read: Callable[[], State], apply: Apply
) -> HttpResponse:
    """Applies an edit. Only the keys in `expected` and `absent` are compared; of the others, a value that is written
    meanwhile is overwritten."""
    changes, wanted = _checked(body)
    once = f"{actor_of(request).name}\n{body.once}" if body.once else ""
    if once and (stored := _stored(ref, once, changes, actor_of(request))):
        return told(request, stored, ref)
    state = read()
    for _attempt in range(_TRIES):
        entries = [Entry(name, value, wanted.get(name, state.get(name, ABSENT))) for name, value in changes.items()]
        if not any(not same(entry.value, entry.seen) for entry in entries) and not _differing(wanted, state):
            return answer({"seq": None, "revision": None, "event": None})
        try:
            return told(request, apply(entries, once), ref)
        except StaleSession as error:
            raise Precondition from error
        except Conflict as conflict:
            current = conflict.detail.get("current")
            if current is None or _differing(wanted, current):
                raise
            state = current
    raise Conflict


def _checked(body: schemas.Edit) -> tuple[State, State]:
    """Returns the new values of the keys, and those that they must still have. Both may be ABSENT. Raises Invalid."""
    wanted = {**body.expected, **dict.fromkeys(body.absent, ABSENT)}
    changes = {**body.set, **dict.fromkeys(body.remove, ABSENT)}
    for names in (body.set.keys() & set(body.remove), body.expected.keys() & set(body.absent)):
        if names:
            raise Invalid(_("%(key)s: appears twice in this edit") % {"key": min(names)})
    if not changes:
        raise Invalid(_("Nothing would change: neither `set` nor `remove` names a key."))
    if strange := wanted.keys() - changes.keys():
        raise Invalid(_("%(key)s: is expected to be something, and neither set nor removed") % {"key": min(strange)})
    return changes, wanted


def _stored(ref: SessionRef, once: str, changes: State, actor: Actor) -> Appended | None:
    """Returns this edit if this program has stored it already, whatever was written since; else None."""
    entries = [Entry(name, value, ABSENT) for name, value in changes.items()]
    try:
        return Appended(timeline.event(ref, edit.edit_id(once, entries), actor=actor).data)
    except NotFound:
        return None


def _differing(wanted: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    return any(not same(value, state.get(name, ABSENT)) for name, value in wanted.items())


def _prefixed(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in state.items()}
