"""The session page: the timeline and the state, now or at an event; its panes; and going to an event by name."""

import json
import re
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access import masking
from ...access.actor import Actor
from ...artifacts import saved
from ...domain.errors import Error, Invalid, NotFound
from ...domain.positions import NO_SEQ, Seq, position_of
from ...domain.session_ref import SessionRef
from ...edits import queue
from ...history import key_history, overview
from ...http.reader import zone_of
from ...privacy import holds
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...reads.filters import FILTERS
from ...reads.paging import write_cursor
from ...search import outline
from ...search.conditions import time_of
from ...search.outline import Reached
from ...sources import agents, database, errors
from .. import answers
from ..history.moment import chosen, panel, renamed
from ..history.pins import MOST, pinned
from ..html.render import page
from ..html.state_panel import NOBODY, address_at, of_session, who_wrote
from ..request import actor
from . import labels
from .chosen_range import ChosenRange, by_numbers, chosen_range, counted, query_of
from .modes import TRACE, density_of, fill, remember
from .timeline import grouped, no_longer_given
from .trace import on_one_scale
from .updates import number_in, numbers

_ROWS: Final = 50  # events of a page of the timeline: twice what most windows show; more are loaded near its ends
_BEFORE, _AFTER = 30, 20  # of a page about one event, which is the last of those before


@require_GET
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the newest events and the merged state. With ?at=<event id>, ?turn=<number> or ?seq=<number>, shows the
    events around it and the state then. With ?from=<event id> and ?to=, shows only the events of that range."""
    if old := renamed(request):
        return old
    ref = SessionRef(**names)
    if ranged := by_numbers(request, ref):
        return ranged
    mask = masking.digest()
    view = views.session(ref, partly=True, actor=actor(request))
    event_id = chosen(request, ref)
    if event_id and ("seq" in request.GET or "turn" in request.GET):
        kept = {name: request.GET.get(name, "") for name in ("kind", "author", "show", "density", "from", "to")}
        return redirect(address_at(ref, event_id, **kept))
    upto = outline.reached(ref, actor=actor(request))
    then = panel(request, ref, event_id, upto) if event_id else {}
    whole = "all" in request.GET and not event_id
    wrote = NOBODY if "behind" in then else who_wrote(view, actor(request), upto)  # the page does not wait twice
    status = timeline.status_of(ref, actor=actor(request))
    context = {
        **then,
        "view": view,
        "ref": ref,
        "mask": mask,
        "revision": view.revision,
        "artifacts": saved.count(ref, actor=actor(request)),
        "all": whole,
        "status": status,
        "has_errors": upto.has_errors,
        "hold": holds.of(ref, actor=actor(request)),
        "no_replay": agents.why_not_here(ref.source, ref.app_name),
        "queued": queue.of_session(ref, actor=actor(request)),
        "numbered": database.is_numbered(ref.source),
        "ordered": database.has_order(ref.source),
        "target": of_session(view, wrote, whole=whole),
        **labels.of_session(ref, actor(request)),
        **answers.context_of(ref, actor(request), again=request.GET.get("again", ""), status=status),
        **_timeline(request, ref, then.get("event"), upto),
    }
    pins = urlencode({"pin": [key.encode("utf-8", "replace") for key in pinned(request)]}, doseq=True)
    context |= {"of_strip": "&".join(filter(None, (context["ranged"], pins))), "most_pins": MOST}
    context["chosen_range"] = counted(context["chosen_range"], ref, actor(request), upto)
    return remember(request, page(request, "session/page/page.html", context, 404 if "gone" in then else 200))


@require_GET
def events(request: HttpRequest, **names: str) -> HttpResponse:
    """Returns the events ?before= or ?after= a cursor, or ?around= an event, for the timeline; without scripts, a page."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return session(request, **names)
    answer = page(request, "session/timeline/_events.html", {"ref": ref, **_timeline(request, ref)})
    return remember(request, answer) if "chosen" in request.GET else answer


@require_GET
def stats(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the session's numbers, which take longer than the page should."""
    ref = SessionRef(**names)
    return page(
        request,
        "session/page/_stats.html",
        {"ref": ref, **numbers(ref, actor(request))},
    )


def _timeline(
    request: HttpRequest, ref: SessionRef, about: EventView | None = None, upto: Reached | None = None
) -> dict[str, Any]:
    """Returns a page of the timeline.

    `later` is the cursor to go on if the page does not reach the newest event. Events that arrive meanwhile go into a
    separate list below (`tail`), unless the page has that list already."""
    chosen = chosen_range(request, ref)
    filters = _filters(request, chosen)
    before, after = request.GET.get("before"), request.GET.get("after")
    if about is None and (around := request.GET.get("around")):
        about = timeline.event(ref, around, actor=actor(request))
    newest = not (before or after or about or any(filters.values()))
    # Asked for first: what is appended meanwhile comes twice to a page that follows, rather than never.
    seq = NO_SEQ if newest else timeline.newest_seq(ref, actor=actor(request))
    later = None
    if about and about.seq is not None:
        batch = timeline.events(ref, before=write_cursor(about.seq + 1), limit=_BEFORE, **filters, actor=actor(request))
        following, later = _after(ref, about.seq, _AFTER, filters, actor(request))
        rows, earlier = batch.rows + following, batch.next
    elif after:
        rows, later = _after(ref, after, _ROWS, filters, actor(request))
        earlier = rows[0].cursor if rows and not request.htmx else None  # type: ignore[attr-defined]
    else:
        batch = timeline.events(ref, before=before, limit=_ROWS, **filters, actor=actor(request))
        rows, earlier = batch.rows, batch.next
        if newest and rows:
            seq = rows[-1].seq or NO_SEQ
        if before and rows and rows[-1].seq is not None and not request.htmx:  # type: ignore[attr-defined]
            later = rows[-1].cursor
    density = density_of(request)
    turns = grouped(ref, rows, actor(request), None, no_longer_given(ref, rows, actor(request)), upto)
    scaled = on_one_scale(request)
    longest = outline.longest_turn(ref, actor=actor(request)) if scaled and density == TRACE else 0.0
    at_end = newest or bool((about or after) and not later)
    fill(turns, density, filtered=any(filters.values()), at_end=at_end, longest=longest)
    return {
        **_narrowed(request, chosen, density),
        "density": density,
        "scaled": scaled,
        "around": about.id if about else "",
        "seq": seq,
        "turns": turns,
        "earlier": earlier,
        "later": later,
        "tail": bool(later) and not (after and request.htmx),  # type: ignore[attr-defined]
        "filters": list(FILTERS),
    }


def _after(
    ref: SessionRef, after: Seq | str, limit: int, filters: dict[str, Any], who: Actor
) -> tuple[list[EventView], str | None]:
    """Returns the events after a seq or a cursor, and the cursor that leads on."""
    page = timeline.events_after(ref, after, limit=limit, **filters, actor=who)
    return page.rows, page.next


def _filters(request: HttpRequest, chosen: ChosenRange | None) -> dict[str, Any]:
    between = chosen.between if chosen else None
    return {"kind": request.GET.get("kind", ""), "author": request.GET.get("author", ""), "between": between}


def _narrowed(request: HttpRequest, chosen: ChosenRange | None, density: str) -> dict[str, Any]:
    """Returns which events are shown, for templates: the filters, the range, and both as they stand in links."""
    ends = ("from", "to") if chosen and chosen.between else ()
    return {
        "kind": request.GET.get("kind", ""),
        "author": request.GET.get("author", ""),
        "chosen_range": chosen,
        "ranged": query_of(request, *ends) if ends else "",
        "kept": query_of(request, "kind", "author", *ends),
        "narrowed": query_of(request, "kind", "author", *ends, density=density),
    }


# --- Panes, and going to an event -------------------------------------------------------------------------------------

PANE: Final = "X-Pane"  # a pane asks with it, and without HX-Request: for the page, not for a part of it
_REDIRECTS: Final = (301, 302, 303, 307, 308)


def wants_sentence(request: HttpRequest) -> bool:
    """Tells whether an error is answered with one sentence: to htmx, and to a pane that sent a form, which stays there."""
    return bool(request.headers.get("HX-Request")) or (PANE in request.headers and request.method == "POST")


class Panes(MiddlewareMixin):
    """Tells a pane where it would be redirected to. A browser would follow without asking: out of the session, or to the
    session's page, whose messages it would then have taken."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Returns the answer; for a redirect, the address as htmx is told it."""
        if PANE in request.headers and response.status_code in _REDIRECTS:
            response.status_code = 204
            response["HX-Redirect"] = response["Location"]
            del response["Location"]
        return response


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
        context = {
            "ref": ref,
            "asked": asked,
            "before": request.GET.get("before", ""),
            "error": errors.shown(error, actor(request)),
        }
        return page(request, "session/timeline/_go.html", context, 400)
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
        raise NotFound(_("No earlier event in this session changed “%(key)s”.") % {"key": key[:100]})
    said = _("“%(asked)s” isn't an event. Enter an event number, a turn, a time or a state key.")
    raise NotFound(said % {"asked": key[:100]})
