"""The session routes of `adk api_server` 2.13: its clients only need a different base URL and a token.

The routes have ADK's own addresses, and each source has them once more below `/sources/<alias>`."""

import platform
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final
from urllib.parse import quote

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, URLPattern, path, re_path, resolve
from django.views.decorators.csrf import csrf_exempt
from ninja.errors import AuthenticationError

from ...domain.errors import AlreadyExists, Conflict, Error, Invalid, NotFound, SourceError, TooOften
from ...domain.roles import Permission
from ...domain.session_ref import SessionRef
from ...domain.state import TEMP
from ...http.problems import problem, status_of
from ...http.streaming import streamed
from ...reads import lists, stored_sessions, whole_session
from ...reads.users import meant, ref_meant
from ...sources import database, registry
from ...sources.errors import shown
from ...writes.append import append_event
from ...writes.sessions import create_session, delete_session
from .. import routes
from ..authorize import Bearer, Unseen, actor_of, source_of
from ..bodies import headers_of, text_of
from . import sending
from .bodies import Refused, new_session_of, state_of, update_of, validated

ADK: Final = "2.13.0"  # the version whose routes these are
_JSON: Final = "application/json"
_GONE: Final = "Session not found"
_SMALL: Final = 3  # pieces of a session whose events fill less than two pages
_FEW: Final = 100  # sessions of a list

_BEARER: Final = Bearer()

View = Callable[..., HttpResponseBase]


def addresses() -> list[URLPattern]:
    """Returns every route, with and without a source's name before it."""
    patterns: list[URLPattern] = []
    for prefix in ("", "sources/<plain:source>/"):
        user = prefix + "apps/<plain:app_name>/users/<plain:user_id>/sessions"
        patterns += [
            path(prefix + "health", _address(False, GET=_health), name="adk-health"),
            path(prefix + "version", _address(GET=_version), name="adk-version"),
            path(prefix + "list-apps", _address(GET=_list_apps), name="adk-list-apps"),
            path(user, _address(GET=_list, POST=_create), name="adk-sessions"),
            path(
                user + "/<plain:session_id>",
                _address(GET=_get, POST=_create_as, PATCH=_update, DELETE=_delete),
                name="adk-session",
            ),
        ]
    others = r"^(?:apps|sources|list-apps|health|version|ready|metrics)(?:/(?s:.*))?\Z"
    return [*patterns, re_path(others, _elsewhere, name="adk-elsewhere")]


def _address(guarded: bool = True, /, **methods: View) -> View:
    """Returns a view that calls a function by the request's method. Reports errors as ADK does, or as a problem if ADK
    has no such error."""

    @csrf_exempt
    @login_not_required
    def view(request: HttpRequest, **names: str) -> HttpResponseBase:
        if guarded:
            try:
                request.auth = _BEARER(request)  # type: ignore[attr-defined]
            except TooOften as error:
                return routes.failed(request, error)
            if request.auth is None:  # type: ignore[attr-defined]
                return routes.unknown(request, AuthenticationError())
        method = methods.get(request.method or "")
        if method is None:
            refusal = _detail(405, "Method Not Allowed")
            refusal["Allow"] = ", ".join(methods)
            return refusal
        try:
            return method(request, **names)
        except Refused as refused:
            return _detail(refused.status, refused.detail)
        except RequestDataTooBig as error:
            return routes.too_big(request, error)
        except (Invalid, NotFound, Conflict) as error:
            return _detail(status_of(error), error.message)
        except Error as error:
            return problem(status_of(error), shown(error, actor_of(request)))

    return view


@csrf_exempt
@login_not_required
def _elsewhere(request: HttpRequest) -> HttpResponse:
    """Answers any other address: redirects one with a trailing slash to a known one, else 404."""
    shorter = request.path.rstrip("/")
    try:
        known = resolve(shorter).func is not _elsewhere
    except Resolver404:
        known = False
    if not known or shorter == request.path:
        return _detail(404, "Not Found")
    query = request.META.get("QUERY_STRING", "")
    location = quote(shorter) + "?" * bool(query) + query  # a path: the host name of the request may be anyone's
    return HttpResponse(status=307, headers={"Location": location})


def _health(request: HttpRequest, source: str | None = None) -> HttpResponse:
    return _answer({"status": "ok"})


def _version(request: HttpRequest, source: str | None = None) -> HttpResponse:
    return _answer({"version": ADK, "language": "python", "language_version": platform.python_version()})


def _list_apps(request: HttpRequest, source: str | None = None) -> HttpResponse:
    """Lists the apps that have sessions. adkweb knows nothing about their agents."""
    detailed = validated(bool, request.GET.get("detailed", False), "query", "detailed")
    names: set[str] = set()
    away: list[SourceError] = []
    every = [database.get(source)] if source is not None else registry.listed()
    for each in every:
        try:
            names |= set(lists.app_names(each.alias, actor=actor_of(request)))
        except SourceError as error:
            away.append(error)
    if away and len(away) == len(every):
        raise away[0]
    if not detailed:
        return _answer(sorted(names))
    unknown = {"description": "", "language": "python", "isComputerUse": False, "agents": None}
    return _answer({"apps": [{"name": name, "rootAgentName": name, **unknown} for name in sorted(names)]})


def _list(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponseBase:
    """Lists a user's sessions. Leaves out those in which adkweb edits `user:` and `app:` state, unless `?hidden=true`
    asks for them."""
    hidden = validated(bool, request.GET.get("hidden", False), "query", "hidden")
    alias = _source(request, app_name, source, "read")
    sessions = (
        stored_sessions.each_session(
            stored_sessions.Selection(
                alias, app_name, meant(alias, app_name, user_id, actor=actor_of(request)), hidden
            ),
            actor=actor_of(request),
            most=whole_session.STATE,
        )
        if alias is not None
        else []
    )
    return _sent(sending.sessions(sessions, actor_of(request)), small=_FEW)


def _create(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponseBase:
    alias = source_of(request, app_name, source, "append", new=True)
    body = new_session_of(request)
    return _created(request, alias, app_name, user_id, body.session_id, body.state, body.stored_events())


def _create_as(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponseBase:
    alias = source_of(request, app_name, source, "append", new=True)
    return _created(request, alias, app_name, user_id, session_id, state_of(request), [])


def _created(
    request: HttpRequest,
    alias: str,
    app_name: str,
    user_id: str,
    session_id: str | None,
    state: dict[str, Any] | None,
    events: Iterable[dict[str, Any]],
) -> HttpResponseBase:
    actor = actor_of(request)
    user_id = meant(alias, app_name, user_id, actor=actor)
    try:
        ref = create_session(alias, app_name, user_id, actor=actor, state=state, session_id=session_id)
    except AlreadyExists as error:
        raise Refused(409, f"Session already exists: {session_id}") from error
    for event in events:
        append_event(ref, event, actor=actor)
    return _session(request, ref)


def _get(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponseBase:
    return _session(request, _key(request, app_name, user_id, session_id, source, "read"))


def _update(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponseBase:
    """Changes state by one event with the author “user”. `temp:` keys appear in this answer and nowhere else."""
    delta = update_of(request).state_delta
    ref = _key(request, app_name, user_id, session_id, source, "append")
    event = {"invocation_id": f"p-{uuid.uuid4()}", "author": "user", "actions": {"state_delta": delta}}
    try:
        append_event(ref, event, actor=actor_of(request))
    except NotFound as error:
        raise Refused(404, _GONE) from error
    return _session(request, ref, {name: value for name, value in delta.items() if name.startswith(TEMP)})


def _delete(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Deletes a session. It isn't an error if there is none."""
    alias = _source(request, app_name, source, "admin")
    if alias is not None:
        ref = _resolved(request, SessionRef(alias, app_name, user_id, session_id))
        with suppress(NotFound):
            delete_session(ref, actor=actor_of(request))
    return _answer(None)


def _source(request: HttpRequest, app_name: str, source: str | None, permission: Permission) -> str | None:
    """Returns the alias of the source that is meant; None if no source has the app. Raises Unseen."""
    try:
        return source_of(request, app_name, source, permission)
    except Unseen:
        raise  # no one is told that a session of such an app was deleted
    except NotFound:
        if source is not None:
            raise
        return None


def _key(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None, permission: Permission
) -> SessionRef:
    alias = _source(request, app_name, source, permission)
    if alias is None:
        raise Refused(404, _GONE)
    return _resolved(request, SessionRef(alias, app_name, user_id, session_id))


def _resolved(request: HttpRequest, ref: SessionRef) -> SessionRef:
    """Returns the session with this id or, if there is none, with the id without surrounding blanks: a new session's id
    is stripped. Raises NotFound for a user whose id is hidden."""
    ref = ref_meant(ref, actor=actor_of(request))
    stripped = ref.session_id.strip()
    if stripped == ref.session_id or whole_session.read_head(ref, actor=actor_of(request)):
        return ref
    return ref._replace(session_id=stripped)


def _session(request: HttpRequest, ref: SessionRef, temp: dict[str, Any] | None = None) -> HttpResponseBase:
    opened = whole_session.stream(ref, actor=actor_of(request))
    if opened is None:
        raise Refused(404, _GONE)
    session, pages = opened
    return _sent(sending.session(session, pages, actor_of(request), temp), session.revision)


def _sent(pieces: Iterator[bytes], revision: float | None = None, small: int = _SMALL) -> HttpResponseBase:
    first = list(islice(pieces, small + 1))
    if len(first) > small:
        return streamed(chain(first, pieces), _JSON, headers_of(revision))
    return _answer(b"".join(first), revision=revision)


def _detail(status: int, detail: Any) -> HttpResponse:
    return _answer({"detail": detail}, status)


def _answer(value: Any, status: int = 200, revision: float | None = None) -> HttpResponse:
    text = value if isinstance(value, bytes) else text_of(value).encode("utf-8", "replace")
    return HttpResponse(text, _JSON, status, headers=headers_of(revision))
