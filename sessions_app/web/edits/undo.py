"""Undoes an event, at once or by the form that edits state, filled in. Restores a moment by that form."""

from contextlib import suppress

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect, HttpResponseClientRefresh

from ...access import approval
from ...access.actor import Actor
from ...domain.errors import Conflict, Invalid, StaleSession
from ...domain.session_ref import OWN_NAME, SessionRef
from ...domain.state import STORED
from ...edits import queue
from ...edits import rewind as rewind_core
from ...edits import undo as core
from ...edits.edit import edit_state
from ...reads import timeline
from ...reads.event_views import EventView
from ...search import outline
from ...writes.append import Appended
from ..forms import Check, Form, Text
from ..html.render import page
from ..request import actor, check_may
from . import edit, rewind


class UndoForm(Form):
    """The button that undoes at once. `redo`: what it undoes is an undo, and that is said."""

    once = Text()
    redo = Check()


@require_http_methods(["GET", "POST"])
def undo(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Undoes an event that a button names at once, if nothing is left to decide. Otherwise shows the form that undoes it. A
    rewind is undone by another rewind, to before it."""
    check_may(request, "append", SessionRef(**names))
    event = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    if event.description.actions.get("rewind_before_invocation_id") and event.invocation_id:
        if request.method == "POST" and (taken := _rewind_at_once(request, event)):
            return _tell(request, event, taken, redo=False)
        return _lead(request, rewind.address(event.ref, event.invocation_id))
    try:
        plan = core.undo(event.ref, event_id, actor=actor(request))
    except Invalid as nothing:
        return (
            _ask(request) if request.method == "POST" else _nothing(request, event, _("Undo event %(number)s"), nothing)
        )
    reason = _("Undo of event %(number)s") % _named(request, event)
    if request.method == "GET":
        return edit.taking_back(request, plan, "undoes", reason)
    given = UndoForm.of(request).read()
    appended = _at_once(plan, actor(request), reason, given["once"])
    return _tell(request, event, appended, redo=given["redo"]) if appended else _ask(request)


def _tell(request: HttpRequest, event: EventView, appended: Appended, *, redo: bool) -> HttpResponse:
    if appended.seq is None:
        messages.info(request, _("This edit has already been written."))
    else:
        said = _("Redone.") if redo else _("Undone.")
        edit.tell_saved(request, event.ref, appended.event["id"], appended.seq, said, redo=not redo)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=event.ref._asdict()))
    if event.ref.session_id == OWN_NAME:
        return HttpResponseClientRefresh()  # the page of an app or a user, to which no state is pushed
    return page(request, "edits/queued/_outcomes.html")


def _at_once(plan: core.Plan, who: Actor, reason: str, once: str) -> Appended | None:
    """Writes an undo. Returns None if a person is to look at it first: a key was written since, or its earlier value is not
    known; somebody else has to agree; or an agent runs, which the edit would end."""
    ref = plan.event.ref
    if plan.unknown or any(step.contested for step in plan.steps) or queue.held(ref, actor=who):
        return None
    if approval.held_keys(*ref[:2], [step.key for step in plan.steps]):
        return None
    try:
        return edit_state(ref, plan.entries, actor=who, reason=reason, once=once, of={"undoes": plan.event.id})
    except Conflict:
        return None


def _rewind_at_once(request: HttpRequest, event: EventView) -> Appended | None:
    """Writes the undo of a rewind. Returns None if a person is to look at it first: the agent would lose what was said
    since; somebody else has to agree; or an agent runs."""
    ref, who = event.ref, actor(request)
    plan = rewind_core.plan(ref, event.invocation_id, actor=who)
    if plan.gone.events or queue.held(ref, actor=who) or approval.held_keys(*ref[:2], [c.key for c in plan.changes]):
        return None
    reason = _("Undo of event %(number)s") % _named(request, event)
    once = UndoForm.of(request).read()["once"]
    with suppress(Conflict, StaleSession):
        return rewind_core.rewind(ref, event.invocation_id, actor=who, reason=reason, revision=plan.revision, once=once)
    return None


def _ask(request: HttpRequest) -> HttpResponse:
    """Leads to the page of this undo, which says what is to be decided."""
    return _lead(request, request.path)


def _lead(request: HttpRequest, address: str) -> HttpResponse:
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


@require_GET
def restore(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the form that restores keys (?key=…), scopes (?scope=…) or everything to its value just after an event
    (?to=)."""
    check_may(request, "append", SessionRef(**names))
    event = timeline.event(SessionRef(**names), request.GET.get("to", ""), actor=actor(request))
    scopes = [scope for scope in STORED if scope in request.GET.getlist("scope")]
    if unknown := set(request.GET.getlist("scope")) - {*STORED, ""}:
        raise Invalid(_("There's no scope “%(name)s”.") % {"name": min(unknown)})
    try:
        plan = core.restore(
            event.ref, event.id, keys=request.GET.getlist("key"), scopes=scopes or STORED, actor=actor(request)
        )
    except Invalid as nothing:
        return _nothing(request, event, _("Restore the state at event %(number)s"), nothing)
    return edit.taking_back(request, plan, "restores", _("Back to event %(number)s") % _named(request, event))


def _nothing(request: HttpRequest, event: EventView, title: str, error: Invalid) -> HttpResponse:
    writer = error.detail.get("writer")
    context = {
        "ref": event.ref,
        "event": event,
        "title": title % {"number": _named(request, event)["number"].removeprefix("#")},
        "message": error.message,
        "writer": writer,
        "numbers": outline.numbers_of(writer.ref, [writer.seq], actor=actor(request)) if writer else {},
    }
    return page(request, "edits/undo/nothing.html", context, 400)


def _named(request: HttpRequest, event: EventView) -> dict[str, str]:
    """Returns the event's number in its session, for a text; its id if nobody knows the number."""
    numbers = outline.numbers_of(event.ref, [event.seq], actor=actor(request))
    return {"number": next((f"#{number}" for number in numbers.values()), event.id)}
