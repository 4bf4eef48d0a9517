"""Lists, creates and deletes sessions; shows the apps of a source, an app, and a user."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from ...access.actor import Actor
from ...access.handles import are_hidden
from ...domain.errors import AlreadyExists, Error, Invalid, NotFound
from ...domain.event import ID_LENGTH
from ...domain.json_values import loads
from ...domain.session_ref import SessionRef, own_session
from ...edits import queue
from ...privacy import holds
from ...reads import lists, views
from ...reads.paging import Page
from ...reads.users import meant
from ...search.health import Of
from ...search.index import feed
from ...search.results import Row, indexed
from ...sources import agents, database, registry
from ...writes.sessions import create_session, delete_session
from ..forms import Confirm, Form, Read, Text, act
from ..html.render import page, to_type, typed
from ..html.state_panel import of_app, of_user, with_writers
from ..request import actor, check_may
from ..search.columns import Shape, shape_of
from .figures import figures


@require_GET
def sessions(request: HttpRequest, source: str, app_name: str, user_id: str | None = None) -> HttpResponse:
    """Lists the sessions of an app or a user, the last active first. htmx gets the rows."""
    rows = _shown(lists.sessions(source, app_name, user_id, request.GET.get("before"), actor=actor(request)), request)
    template = "home/sessions/_rows.html" if request.htmx else "home/sessions/list.html"  # type: ignore[attr-defined]
    return page(request, template, {"source": source, "app_name": app_name, "user_id": user_id, "sessions": rows})


@dataclass(frozen=True, slots=True)
class Shown:
    """A session in a table: its row, and what the index has of it, with its status; None if it is new."""

    row: lists.SessionRow
    known: Row | None
    status: Shape | None


def _shown(some: Page[lists.SessionRow], request: HttpRequest) -> Page[Shown]:
    known = indexed([row.ref for row in some.rows], actor(request))
    rows = [Shown(row, of, shape_of(of) if of else None) for row in some.rows for of in (known.get(row.ref),)]
    return Page(rows, some.next)


def _needed(text: str) -> str:
    if not text.strip():
        raise Invalid(_("This field is required."))
    return text


def _state(text: str) -> dict[str, Any]:
    state = loads(text.replace("\r\n", "\n") or "{}")
    if not isinstance(state, dict):
        raise Invalid(_("The initial state must be a JSON object with the state's keys."))
    return state


_OFFERED: Final = 200  # apps of a source
_KEPT: Final = {"autocomplete": False}  # whoever goes back finds what they had typed
_NAME: Final = {"maxlength": ID_LENGTH, "dir": "auto", **_KEPT}


class NewForm(Form):
    """Creates a session with its initial state."""

    source = Text(label=gettext_lazy("Source"), widget=forms.Select, attrs=_KEPT)
    app_name = Read(
        _needed,
        label=gettext_lazy("App"),
        help_text=gettext_lazy("The name of the agent's folder or of its App. A new name creates an app."),
        needed=True,
        attrs=_NAME | {"list": "apps"},
    )
    user_id = Read(_needed, label=gettext_lazy("User"), needed=True, attrs=_NAME)
    session_id = Text(
        label=gettext_lazy("Session id"),
        help_text=gettext_lazy("Leave empty for a new UUID."),
        attrs=_NAME,
    )
    state = Read(
        _state,
        label=gettext_lazy("Initial state"),
        help_text=gettext_lazy(
            "A JSON object. Keys that start with user: or app: are stored in the user's or app's state."
        ),
        widget=forms.Textarea,
        attrs={"rows": 8, "cols": False, "spellcheck": "false", **_KEPT},
    )


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Creates a session with its initial state."""
    who = actor(request)
    who.check_permission("append")
    given = request.GET.dict()
    focus = "user_id" if given.get("app_name") and not given.get("user_id") else ""
    form = NewForm.of(request, initial={"state": "{}"} | given, focus=focus)
    sources = [
        each.alias
        for each in registry.listed()
        if who.has("append", each.alias) and not database.is_read_only(each.alias)
    ]
    form.fields["source"].widget.choices = [(alias, alias) for alias in sources]
    ref, status = act(form, lambda given: _create(**given, who=who))
    if ref:
        messages.success(request, _("Session created."))
        begins = (
            "?density=chat#message" if may_talk(ref.source, ref.app_name, who) else ""
        )  # where its first message is written
        return redirect(reverse("session", kwargs=ref._asdict()) + begins)
    talks = given.get("source") in sources and may_talk(given["source"], given.get("app_name", ""), who)
    context = {"form": form, "apps": _app_names(sources, who), "may_talk": talks}
    return page(request, "home/sessions/new.html", context, status)


def may_talk(source: str, app_name: str, who: Actor) -> bool:
    """Tells whether someone may write to the agent of an app, and adkweb can start it."""
    return who.may_write("operate", source, app_name) and not agents.why_not(source, app_name)


def _app_names(sources: Iterable[str], who: Actor) -> list[str]:
    """Returns the names of apps to offer. A source that doesn't answer has none."""
    names: set[str] = set()
    for source in sources:
        with suppress(Error):
            names.update(lists.app_names(source, actor=who)[:_OFFERED])
    return sorted(names)


def _create(source: str, app_name: str, user_id: str, session_id: str, state: dict[str, Any], who: Actor) -> SessionRef:
    ref = SessionRef(source, app_name, meant(source, app_name, user_id, actor=who), session_id.strip())
    try:
        return create_session(*ref[:3], session_id=session_id or None, state=state, actor=who, origin="person")
    except AlreadyExists as error:
        address = reverse("session", kwargs=ref._asdict())
        words = format_html('{} <a href="{}">{}</a>', error.message, address, _("Open it"))
        raise AlreadyExists(words, field="session_id") from error


class DeleteForm(Form):
    """Deletes a session after its id has been typed."""

    confirm = Confirm(label=gettext_lazy("Enter the session id to confirm"))


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, **names: str) -> HttpResponse:
    """Deletes a session after its id has been typed."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "admin", ref)
    view, wanted = views.session(ref, partly=True, actor=who), to_type(ref.session_id)
    context = {"view": view, "ref": ref, "wanted": wanted, "held": queue.held(ref, actor=who)}
    context["hold"] = holds.of(ref, actor=who)

    def confirmed(confirm: str) -> None:
        if typed(confirm) != typed(wanted):
            raise Invalid(_("That isn't the session's id. Nothing was deleted."), field="confirm")
        delete_session(ref, actor=who)

    form = DeleteForm.of(request)
    _done, status = act(form, lambda given: confirmed(**given))
    if not form.is_valid():
        return page(request, "home/sessions/delete.html", context | {"form": form}, status)
    messages.success(request, _("Session “%(id)s” deleted.") % {"id": ref.session_id})
    # Not the user's own page: a user without sessions and state no longer exists.
    return redirect("user-sessions", source=ref.source, app_name=ref.app_name, user_id=ref.user_id)


# --- Apps and users ---------------------------------------------------------------------------------------------------

SESSIONS: Final = 10  # on the page of an app or a user; all of them are in the list of sessions
USERS: Final = 10  # on the page of an app; there are more on the following ones


@require_GET
def apps(request: HttpRequest, source: str) -> HttpResponse:
    """Lists the apps of a source, by page: home shows only the first ones. htmx gets only the rows."""
    rows = lists.apps(source, request.GET.get("after"), actor=actor(request))
    if not rows.rows and not actor(request).sees_all_of(source):
        raise NotFound(_("There's no source “%(alias)s”.") % {"alias": source})
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
        "may_talk": may_talk(source, app_name, actor(request)),
        "behind": _behind(request, source, app_name),
        "sessions": _shown(lists.sessions(source, app_name, limit=SESSIONS, actor=actor(request)), request),
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
        "may_talk": may_talk(source, app_name, who),
        "keeps_privacy": who.may_write("admin", source, app_name),
        "sessions": _shown(lists.sessions(source, app_name, user_id, limit=SESSIONS, actor=who), request),
        "changes": lists.left_out(own_session(source, app_name, user_id), actor=who),
    }
    return page(request, "home/sessions/user.html", context)
