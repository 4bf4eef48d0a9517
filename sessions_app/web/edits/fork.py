"""Forks a session at an event, shows the progress of a long fork, and shows the tree of a session's forks."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ...access.actor import Actor
from ...access.handles import in_address
from ...domain.errors import AlreadyExists, Error
from ...domain.event import new_id
from ...domain.session_ref import SessionRef
from ...domain.state import UNKNOWN, State, same, scope_of
from ...edits import fork as forks
from ...edits import fork_jobs, fork_tree
from ...history import moments
from ...http.problems import status_of
from ...http.reader import user_for_reader
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...reads.users import meant, ref_meant
from ...search import outline
from ...writes.incomplete import is_half
from ..html.render import page
from ..request import actor, check_may
from . import state_form

_STILL: Final = 20  # looks at a fork that makes no progress, before it counts as stopped


@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Copies a session up to an event into a new one, which may begin with other values of its own keys (?key=…). With
    ?session= and ?user=, shows the progress."""
    event = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    check_may(request, "admin", event.ref)
    if request.method == "GET":
        if "session" in request.GET:
            return _progress(request, event)
        return _page(request, event)
    rows = state_form.posted_rows(request.POST)
    entries = state_form.entries(rows) if not {"drop", "as-string"} & request.POST.keys() else None
    if entries is None:
        return _page(request, event, rows=rows, status=400 if any(row.error for row in rows) else 200)
    return _make(
        request, event, rows, {entry.key: entry.value for entry in entries if not same(entry.value, entry.seen)}
    )


def _make(request: HttpRequest, event: EventView, rows: list[state_form.FormRow], values: forks.Values) -> HttpResponse:
    user_id, session_id = request.POST.get("user_id", ""), request.POST.get("session_id", "")
    reason, who = request.POST.get("reason", ""), actor(request)
    try:
        user_id = meant(event.ref.source, event.ref.app_name, user_id, actor=who)
        into = forks.name(event.ref, user_id, session_id, request.POST.get("once", ""))
        if _is_there(event, into, who):
            forks.check_values(values, who, reason)
            forks.write_values(into, values, who, reason)
        else:
            named = {"user_id": user_id, "session_id": into.session_id}
            fork_jobs.begin(event.ref, event.id, **named, actor=who, reason=reason, values=values)
    except AlreadyExists as error:
        return _page(request, event, {"session_id": error.message}, 409, rows)
    except Error as error:
        return _page(request, event, {error.detail.get("field", "form"): error.message}, status_of(error), rows)
    if fork_jobs.progress(event.ref, event.id, into, actor=who).done:
        return _done(request, event.ref, into)
    return redirect(_watch(event, into, reason))


@require_GET
def tree(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the tree of forks. The session page asks by htmx for one line, which is empty without forks."""
    ref = SessionRef(**names)
    template = "edits/fork/_forks.html" if request.htmx else "edits/fork/forks.html"  # type: ignore[attr-defined]
    view = None if request.htmx else views.session(ref, partly=True, actor=actor(request))  # type: ignore[attr-defined]
    context = {
        "ref": ref,
        "view": view,
        "nodes": fork_tree.listed(fork_tree.tree(ref, actor=actor(request))),
        "of": fork_tree.origin(ref, actor=actor(request)),
    }
    half = view is not None and is_half(view.state.session)
    return page(request, template, {**context, "half": half, "forks": fork_tree.forks_of(ref, actor=actor(request))})


def _page(
    request: HttpRequest,
    event: EventView,
    errors: dict[str, str] | None = None,
    status: int = 200,
    rows: list[state_form.FormRow] | None = None,
) -> HttpResponse:
    then = moments.state_at(event.ref, event.id, actor=actor(request)).state
    if rows is None:
        rows = _rows(request.GET.getlist("key"), then.session)
    state_form.note_habits(rows, event.ref, actor(request))
    context: dict[str, Any] = {
        "ref": event.ref,
        "view": views.session(event.ref, actor=actor(request)),
        "event": event,
        "numbers": outline.numbers_of(event.ref, [event.seq], actor=actor(request)),
        "own": len(then.session),
        "user_id": request.POST.get("user_id", user_for_reader(*event.ref[:3])),
        "session_id": request.POST.get("session_id", ""),
        "reason": request.POST.get("reason", ""),
        "once": request.POST.get("once") or new_id(),
        "errors": errors or {},
        "rows": rows,
        "changed": any(row.changed for row in rows),
    }
    return page(request, "edits/fork/fork.html", context, status)


def _rows(keys: list[str], then: State) -> list[state_form.FormRow]:
    """Returns a row for each of the session's own keys that are named, with its value at the event."""
    known = {name: value for name, value in then.items() if value is not UNKNOWN}
    own = [key for key in dict.fromkeys(keys) if scope_of(key)[0] == "session"]
    if len(own) > state_form.MOST:
        raise state_form.too_many()
    return [state_form.new_row(key, known) for key in own]


def _progress(request: HttpRequest, event: EventView) -> HttpResponse:
    who = actor(request)
    named = event.ref._replace(user_id=request.GET.get("user", ""), session_id=request.GET["session"])
    into = ref_meant(named, actor=who)
    progress = fork_jobs.progress(event.ref, event.id, into, actor=who)
    if progress.done:
        return _done(request, event.ref, into)
    still = _number(request.GET.get("still")) + 1 if _number(request.GET.get("was")) == progress.copied else 0
    context = {
        "ref": event.ref,
        "event": event,
        "numbers": outline.numbers_of(event.ref, [event.seq], actor=actor(request)),
        "into": into,
        "progress": progress,
        "stopped": bool(progress.stopped) or (still >= _STILL and not progress.working),
        "reason": request.GET.get("reason", ""),
        "where": _watch(event, into, request.GET.get("reason", ""), was=progress.copied, still=still),
    }
    template = "edits/fork/_forking.html" if request.htmx else "edits/fork/forking.html"  # type: ignore[attr-defined]
    return page(request, template, context)


def _done(request: HttpRequest, origin: SessionRef, into: SessionRef) -> HttpResponse:
    messages.success(request, _("Fork created from %(id)s.") % {"id": origin.session_id})
    where = reverse("session", kwargs=into._asdict())
    return HttpResponseClientRedirect(where) if request.htmx else redirect(where)  # type: ignore[attr-defined]


def _watch(event: EventView, into: SessionRef, reason: str, **more: int) -> str:
    address = reverse("fork", kwargs={**event.ref._asdict(), "event_id": event.id})
    # Needed to resume a fork that stopped: the note at its end has the reason.
    query: dict[str, str | int] = {"user": in_address(into.user_id), "session": into.session_id, **more}
    if reason:
        query["reason"] = reason
    return f"{address}?{urlencode(query)}"


def _is_there(event: EventView, into: SessionRef, who: Actor) -> bool:
    """Tells whether this fork exists already, because the form was sent twice."""
    origin = fork_tree.origin(into, actor=who)
    return origin is not None and (origin.origin, origin.event_id) == (event.ref, event.id)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0
