"""The preview beside the table of sessions: a few events around the one that matched, and the session's state."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Invalid
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...reads.labels import Labels, labels_of
from ...reads.paging import write_cursor
from ..html.render import page
from ..html.targets import Group, actor, of_session, who_wrote
from ..session.news import number_in
from ..session.timeline import grouped

_BEFORE: Final = 4  # events up to the one that matched
_AFTER: Final = 3
_KEYS: Final = 12  # of each scope


@dataclass(frozen=True, slots=True)
class Scope:
    """Some keys of a scope: those that were written last."""

    group: Group
    more: int


@require_GET
def preview(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders a session in short, around the event ?seq= or at its end."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    who = actor(request)
    view = views.session(ref, partly=True, actor=who)
    seq = Seq(number_in(request.GET["seq"])) if "seq" in request.GET else None
    if seq is not None and not 0 <= seq < 2**63:
        raise Invalid(_("The number in this link is not valid."))
    events = _events(ref, seq, who)
    context: dict[str, Any] = {
        "ref": ref,
        "view": view,
        "around": next((event.id for event in events if event.seq == seq), ""),
        "turns": grouped(ref, events, who),
        "scopes": _scopes(view, who),
        "tags": labels_of([ref], actor=who).get(ref, Labels()).tags,
    }
    return page(request, "search/preview/_preview.html", context)


def _events(ref: SessionRef, seq: Seq | None, who: Actor) -> list[EventView]:
    if seq is None:
        return timeline.events(ref, limit=_BEFORE + _AFTER, actor=who).rows
    before = timeline.events(ref, before=write_cursor(seq + 1), limit=_BEFORE, actor=who)
    return before.rows + timeline.events_after(ref, seq, limit=_AFTER, actor=who).rows


def _scopes(view: views.SessionView, who: Actor) -> list[Scope]:
    """Returns the session's own keys first; scopes without keys are left out."""
    groups = of_session(view, *who_wrote(view, who), whole=False).groups
    scopes = []
    for group in sorted(groups, key=lambda each: each.scope != "session"):
        newest = sorted(group.rows, key=lambda row: -row.writer.timestamp if row.writer else 0.0)[:_KEYS]
        rows = [row for row in group.rows if row in newest]
        if rows or group.size:
            shown = Group(group.scope, rows, size=group.size)
            scopes.append(Scope(shown, group.more + len(group.rows) - len(rows)))
    return scopes
