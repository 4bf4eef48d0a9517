"""Lists, creates and deletes sessions; shows the apps of a source, an app, and a user."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from ...access.handles import are_hidden
from ...domain.errors import AlreadyExists, Error, Invalid, NotFound
from ...domain.json_values import loads
from ...domain.session_ref import SessionRef, own_session
from ...edits import queue
from ...http.problems import status_of
from ...privacy import holds
from ...reads import lists, views
from ...reads.users import meant
from ...search.health import Of
from ...search.index import feed
from ...sources import database, registry
from ...writes.sessions import create_session, delete_session
from ..html.render import page, to_type, typed
from ..html.state_panel import of_app, of_user, with_writers
from ..request import actor, check_may
from .figures import figures


@require_GET
def sessions(request: HttpRequest, source: str, app_name: str, user_id: str | None = None) -> HttpResponse:
    """Lists the sessions of an app or a user, the last active first. htmx gets the rows."""
    rows = lists.sessions(source, app_name, user_id, request.GET.get("before"), actor=actor(request))
    template = "home/sessions/_rows.html" if request.htmx else "home/sessions/list.html"  # type: ignore[attr-defined]
    return page(request, template, {"source": source, "app_name": app_name, "user_id": user_id, "sessions": rows})


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Creates a session with its initial state."""
    actor(request).check_right("append")
    given = request.POST if request.method == "POST" else request.GET
    context: dict[str, Any] = {
        "sources": [
            each.alias
            for each in registry.listed()
            if actor(request).has("append", each.alias) and not database.is_read_only(each.alias)
        ],
        **{name: given.get(name, "") for name in ("source", "app_name", "user_id", "session_id")},
        "state": given.get("state", "{}"),
    }
    if request.method == "GET":
        return page(request, "home/sessions/new.html", context)
    try:
        ref = _create(request, context)
    except AlreadyExists as error:
        taken = SessionRef(
            context["source"], context["app_name"], _user_of(request, context), context["session_id"].strip()
        )
        context |= {"errors": {"session_id": error.message}, "taken": taken}
        return page(request, "home/sessions/new.html", context, 409)
    except Error as error:
        context["errors"] = {error.detail.get("field", "form"): error.message}
        return page(request, "home/sessions/new.html", context, status_of(error))
    messages.success(request, _("The session was created."))
    return redirect(reverse("session", kwargs=ref._asdict()))


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, **names: str) -> HttpResponse:
    """Deletes a session after its id has been typed."""
    ref = SessionRef(**names)
    check_may(request, "admin", ref)
    view = views.session(ref, partly=True, actor=actor(request))
    wanted = to_type(ref.session_id)
    context = {"view": view, "ref": ref, "wanted": wanted, "held": queue.held(ref, actor=actor(request))}
    context["hold"] = holds.of(ref, actor=actor(request))
    if request.method == "GET":
        return page(request, "home/sessions/delete.html", context)
    if typed(request.POST.get("confirm", "")) != typed(wanted):
        context["error"] = _("This is not the session's id; nothing was deleted.")
        return page(request, "home/sessions/delete.html", context, 400)
    delete_session(ref, actor=actor(request))
    messages.success(request, _("The session %(id)s was deleted.") % {"id": ref.session_id})
    # Not the user's own page: a user without sessions and state no longer exists.
    return redirect("user-sessions", source=ref.source, app_name=ref.app_name, user_id=ref.user_id)


def _user_of(request: HttpRequest, given: dict[str, Any]) -> str:
    return meant(given["source"], given["app_name"], given["user_id"], actor=actor(request))


def _create(request: HttpRequest, given: dict[str, Any]) -> SessionRef:
    for name in ("app_name", "user_id"):
        if not given[name].strip():
            raise Invalid(_("This is needed."), field=name)
    try:
        state = loads(given["state"].replace("\r\n", "\n") or "{}")
    except Invalid as error:
        raise Invalid(error.message, field="state") from error
    if not isinstance(state, dict):
        raise Invalid(_("Initial state is an object: its keys are the state's keys."), field="state")
    return create_session(
        given["source"],
        given["app_name"],
        _user_of(request, given),
        session_id=given["session_id"] or None,
        state=state,
        actor=actor(request),
        origin="person",
    )


# --- Apps and users ---------------------------------------------------------------------------------------------------

USERS: Final = 10  # on the page of an app; there are more on the following ones


@require_GET
def apps(request: HttpRequest, source: str) -> HttpResponse:
    """Lists the apps of a source, by page: home shows only the first ones. htmx gets only the rows."""
    rows = lists.apps(source, request.GET.get("after"), actor=actor(request))
    if not rows.rows and not actor(request).sees_all_of(source):
        raise NotFound(_("There is no source “%(alias)s” here.") % {"alias": source})
    template = "home/sessions/_app_rows.html" if request.htmx else "home/sessions/apps.html"  # type: ignore[attr-defined]
    return page(request, template, {"source": source, "apps": rows})


@require_GET
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows the app's state beside the newest sessions and the first users."""
    row, _state = views.app(source, app_name, partly=True, actor=actor(request))
    whole = "all" in request.GET
    context = {
        "figures": figures(request, Of(source, app_name)),
        "source": source,
        "app": row,
        "target": with_writers(of_app(source, app_name, actor(request), partly=True), actor(request), whole=whole),
        "all": whole,
        "users": lists.users(source, app_name, limit=USERS, actor=actor(request)),
        "behind": _behind(request, source, app_name),
        "sessions": lists.sessions(source, app_name, actor=actor(request)),
        "changes": lists.left_out(own_session(source, app_name), actor=actor(request)),
    }
    return page(request, "home/sessions/app.html", context)


@require_GET
def users(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Lists the users of an app, by page. htmx gets only the rows."""
    rows = lists.users(source, app_name, request.GET.get("after"), actor=actor(request))
    template = "home/sessions/_user_rows.html" if request.htmx else "home/sessions/users.html"  # type: ignore[attr-defined]
    context = {"source": source, "app_name": app_name, "users": rows, "behind": _behind(request, source, app_name)}
    return page(request, template, context)


def _behind(request: HttpRequest, source: str, app_name: str) -> bool:
    """Tells whether users may be missing: where ids are hidden, those are listed whom the index has."""
    return are_hidden(source, app_name, actor(request)) and feed.share(source) < 1


@require_GET
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows the user's state beside their newest sessions."""
    whole, who = "all" in request.GET, actor(request)
    context = {
        "figures": figures(request, Of(source, app_name, user_id)),
        "source": source,
        "app_name": app_name,
        "user_id": user_id,
        "target": with_writers(of_user(source, app_name, user_id, who, partly=True), who, whole=whole),
        "all": whole,
        "keeps_privacy": who.may_write("admin", source, app_name),
        "sessions": lists.sessions(source, app_name, user_id, actor=who),
        "changes": lists.left_out(own_session(source, app_name, user_id), actor=who),
    }
    return page(request, "home/sessions/user.html", context)
