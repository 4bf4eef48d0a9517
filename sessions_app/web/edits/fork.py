"""Forks a session at an event, shows the progress of a long fork, and shows the tree of a session's forks."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ...access.actor import Actor
from ...access.handles import in_address
from ...domain.session_ref import SessionRef
from ...domain.state import UNKNOWN, State, same, scope_of
from ...edits import fork as forks
from ...edits import fork_jobs, fork_tree
from ...history import moments
from ...http.reader import user_for_reader
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...reads.users import meant, ref_meant
from ...search import outline
from ..forms import Reason, Text, act
from ..html.render import page
from ..request import actor, check_may
from .rows import FormRow, StateForm, new_rows, note_habits

_ID: Final = {"maxlength": 128, "dir": "auto", "spellcheck": "false"}
_STILL: Final = 20  # looks at a fork that makes no progress, before it counts as stopped


@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Copies a session up to an event into a new one, which may begin with other values of its own keys (?key=…). With
    ?session= and ?user=, shows the progress."""
    event = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    check_may(request, "admin", event.ref)
    if request.method == "GET" and "session" in request.GET:
        return _progress(request, event)
    form = ForkForm.of(request, initial={"user_id": user_for_reader(*event.ref[:3])})
    if form.asks_for_rows:
        return _page(request, event, form)
    into, status = act(form, lambda given: _make(event, form.values(), **given, who=actor(request)))
    if into is None:
        return _page(request, event, form, status)
    if fork_jobs.progress(event.ref, event.id, into, actor=actor(request)).done:
        return _done(request, event.ref, into)
    return redirect(_watch(event, into, form.cleaned_data["reason"]))


class ForkForm(StateForm):
    """Names the fork, and gives some of its keys other values."""

    user_id = Text(
        label=gettext_lazy("User"),
        help_text=gettext_lazy("The fork uses this user's existing user: keys, which won't be changed."),
        needed=True,
        attrs=_ID,
    )
    session_id = Text(
        label=gettext_lazy("Session id"),
        help_text=gettext_lazy("Leave empty for a new UUID."),
        attrs=_ID | {"class": "mono"},
    )
    reason = Reason(help_text=gettext_lazy("Saved with the fork's first event."))

    def is_valid(self) -> bool:
        """Tells whether its fields and its rows can be read."""
        return super().is_valid() and self.entries() is not None

    def values(self) -> forks.Values:
        """Returns the values of the keys that are not to be as they were at the event."""
        entries = self.entries() or []
        return {entry.key: entry.value for entry in entries if not same(entry.value, entry.seen)}


def _make(
    event: EventView, values: forks.Values, *, user_id: str, session_id: str, reason: str, once: str, who: Actor
) -> SessionRef:
    """Starts the fork, or gives it its values if it is there already. Returns the session that it is."""
    user_id = meant(event.ref.source, event.ref.app_name, user_id, actor=who)
    into = forks.name(event.ref, user_id, session_id, once)
    if _is_there(event, into, who):
        forks.check_values(values, who, reason)
        forks.write_values(into, values, who, reason)
    else:
        named = {"user_id": user_id, "session_id": into.session_id}
        fork_jobs.begin(event.ref, event.id, **named, actor=who, reason=reason, values=values)
    return into


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
    return page(request, template, {**context, "forks": fork_tree.forks_of(ref, actor=actor(request))})


def _page(request: HttpRequest, event: EventView, form: ForkForm, status: int = 200) -> HttpResponse:
    then = moments.state_at(event.ref, event.id, actor=actor(request)).state.session
    if not form.is_bound:
        form.rows = _rows(request.GET.getlist("key"), then)
    note_habits(form.rows, event.ref, actor(request))
    context: dict[str, Any] = {
        "ref": event.ref,
        "view": views.session(event.ref, actor=actor(request)),
        "event": event,
        "numbers": outline.numbers_of(event.ref, [event.seq], actor=actor(request)),
        "own": len(then),
        "form": form,
    }
    return page(request, "edits/fork/fork.html", context, status)


def _rows(keys: list[str], then: State) -> list[FormRow]:
    """Returns a row for each of the session's own keys that are named, with its value at the event."""
    known = {name: value for name, value in then.items() if value is not UNKNOWN}
    return new_rows([key for key in dict.fromkeys(keys) if scope_of(key)[0] == "session"], known)


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
