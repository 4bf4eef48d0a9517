"""Goes to an event of a session that a person names by its number, its turn, a time, or a key that it changed."""

import json
import re
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Error, Invalid, NotFound
from ...domain.positions import Seq, position_of
from ...domain.session_ref import SessionRef
from ...history import key_history, overview
from ...reads import timeline
from ...reads.paging import write_cursor
from ...search import outline
from ...search.conditions import time_of
from ..html.render import page
from ..html.targets import actor, address_at
from ..search.asked import zone_of
from .news import number_in

_LONGEST: Final = 1_000  # characters that are read
_NEWEST: Final = 2**53 - 1  # as the page says for now
_WRITES: Final = 1_000  # of a key, among which the session's own are looked for


@require_GET
def go(request: HttpRequest, **names: str) -> HttpResponse:
    """Goes to the event that ?to= names. For htmx, tells the page its id, or returns the form with the error."""
    ref, asked = SessionRef(**names), request.GET.get("to", "").strip()
    htmx = request.htmx  # type: ignore[attr-defined]
    try:
        event_id = _event(request, ref, asked[:_LONGEST])
    except Error as error:
        if not htmx:
            raise
        told = {"ref": ref, "asked": asked, "before": request.GET.get("before", ""), "error": error.message}
        return page(request, "session/timeline/_go.html", told, 400)
    if not htmx:
        return redirect(address_at(ref, event_id))
    return HttpResponse(status=204, headers={"HX-Trigger": json.dumps({"adkweb:go": {"at": event_id}})})


def _event(request: HttpRequest, ref: SessionRef, asked: str) -> str:
    """Returns the id of the event that a text names. Raises Invalid, NotFound, Behind, SourceError."""
    who = actor(request)
    if number := _number(asked, "", "#", _("event")):
        return outline.event_numbered(ref, number, actor=who)
    if number := _number(asked, "t", "turn", _("turn")):
        return overview.event_at(ref, outline.first_of_turn(ref, number, actor=who), actor=who)
    before = Seq(min(max(0, number_in(request.GET.get("before") or str(_NEWEST))), _NEWEST))
    near = timeline.events(
        ref, before=write_cursor(before + 1), limit=1, actor=who
    ).rows  # a time of day is that of its day
    try:
        at = time_of(asked, near[-1].timestamp if near else 0.0, zone_of(request))
    except Invalid:
        return _change(ref, asked, before, who)
    return outline.event_since(ref, at, actor=who)


def _number(asked: str, *names: str) -> int | None:
    """Returns the number after one of some names: 15 in “event 15”."""
    of = "|".join(map(re.escape, names))
    match = re.fullmatch(rf"(?:{of})\s*([0-9]{{1,15}})", asked, re.IGNORECASE)
    return int(match[1]) if match else None


def _change(ref: SessionRef, key: str, before: Seq, who: Actor) -> str:
    """Returns the id of the event of this session that last changed a key, before a seq."""
    cursor = write_cursor(position_of(before)) if before < _NEWEST else None
    writes = key_history.history(ref, key, cursor, _WRITES, actor=who).rows if key else []
    if own := next((write for write in writes if write.event_id and write.ref == ref), None):
        return own.event_id
    if cursor and writes:
        raise NotFound(_("No earlier event of this session changed “%(key)s”.") % {"key": key[:100]})
    said = _("“%(asked)s” names no event: write its number, a turn, a time or a key of the state.")
    raise NotFound(said % {"asked": key[:100]})
