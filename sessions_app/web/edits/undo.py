"""Undoes an event or restores a moment, by the form that edits state, filled in."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...domain.errors import Invalid
from ...domain.session_ref import SessionRef
from ...domain.state import STORED
from ...edits import undo as core
from ...reads import timeline
from ...reads.event_views import EventView
from ...search import outline
from ..html.render import page
from ..request import actor, check_may
from . import edit, rewind


@require_GET
def undo(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Shows the form that undoes an event. A rewind is undone by another rewind, to before it."""
    check_may(request, "append", SessionRef(**names))
    event = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    if event.description.actions.get("rewind_before_invocation_id") and event.invocation_id:
        return redirect(rewind.address(event.ref, event.invocation_id))
    try:
        plan = core.undo(event.ref, event_id, actor=actor(request))
    except Invalid as nothing:
        return _nothing(request, event, _("Undo event %(number)s"), nothing)
    return edit.taking_back(request, plan, "undoes", _("Undo of event %(number)s") % _named(request, event))


@require_GET
def restore(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the form that restores keys (?key=…), scopes (?scope=…) or everything to its value just after an event
    (?to=)."""
    check_may(request, "append", SessionRef(**names))
    event = timeline.event(SessionRef(**names), request.GET.get("to", ""), actor=actor(request))
    scopes = [scope for scope in STORED if scope in request.GET.getlist("scope")]
    if unknown := set(request.GET.getlist("scope")) - {*STORED, ""}:
        raise Invalid(_("There is no scope “%(name)s”.") % {"name": min(unknown)})
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
