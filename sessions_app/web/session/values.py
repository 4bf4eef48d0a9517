"""Sends whole values of state: one as JSON text, or a scope as a file."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...domain.errors import Invalid, NotFound
from ...domain.json_values import dumps
from ...domain.session_ref import SessionRef
from ...domain.state import STORED, Scope
from ...http.streaming import streamed
from ...reads import texts, views
from ..html.render import data
from ..html.targets import Target, actor, of_app, of_session, of_user


@require_GET
def session(request: HttpRequest, **names: str) -> HttpResponseBase:
    """Returns a value that a session sees, or downloads a whole scope with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(**names))
    return _value(request, of_session(views.session(SessionRef(**names), actor=actor(request))))


@require_GET
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponseBase:
    """Returns a value of `app:` state, or downloads all of it with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(source, app_name, "", ""), "app")
    return _value(request, of_app(source, app_name, actor(request)))


@require_GET
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponseBase:
    """Returns a value of `user:` state, or downloads all of it with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(source, app_name, user_id, ""), "user")
    return _value(request, of_user(source, app_name, user_id, actor(request)))


def _stored(request: HttpRequest, ref: SessionRef, only: Scope | None = None) -> HttpResponseBase:
    """Streams a scope's state as it is stored, even if it is too large to be parsed."""
    scope = next((each for each in STORED if each == request.GET["scope"] and only in (None, each)), None)
    if scope is None:
        raise NotFound(_("There is no such state here."))
    pieces = (piece.encode("utf-8", "replace") for piece in texts.state_text(ref, scope, actor=actor(request)))
    name = f'attachment; filename="{scope}-state.json"'
    return streamed(pieces, "application/json", {"Content-Disposition": name})


def _value(request: HttpRequest, target: Target) -> HttpResponse:
    key = request.GET.get("key", "")
    if key not in target.state:
        raise Invalid(_("There is no key “%(key)s” in this state.") % {"key": key})
    return data(dumps(target.state[key], indent=2), "text/plain; charset=utf-8")
