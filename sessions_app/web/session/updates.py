"""Renders what is new in a session, as fragments of its page, for a websocket or a poll."""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access import masking
from ...access.actor import Actor
from ...artifacts import saved
from ...domain.errors import Invalid
from ...domain.positions import NO_SEQ, Seq
from ...domain.session_ref import SessionRef
from ...reads import statistics, timeline, views
from ...reads.paging import write_cursor
from ...search import outline
from ...sources import database
from ..html.state_panel import of_session, who_wrote
from ..request import actor
from .modes import EVENTS, TRACE, density_of, fill
from .timeline import TurnRows, dollars_of, grouped
from .trace import on_one_scale

BATCH: Final = 100  # events in one push
CATCH_UP: Final = 1000  # a page that has missed more events loads the timeline again


@dataclass(frozen=True, slots=True)
class Filter:
    """The choice of what a timeline shows: a kind of event, or the events of an author. Everything if both are empty.
    `density` is how it shows them."""

    kind: str = ""
    author: str = ""
    density: str = EVENTS
    scaled: bool = False  # all turns of a trace have the same scale


@dataclass(frozen=True, slots=True)
class News:
    """Rows that follow a timeline, the seq of the last event that was read, and the turn that the rows end with."""

    html: str
    seq: Seq
    last: TurnRows | None
    more: bool = False


def following(ref: SessionRef, seq: Seq, chosen: Filter, who: Actor, last: TurnRows | None = None) -> News:
    """Returns the events after a seq as rows: at most BATCH, and whether there are `more`.

    `last` is the turn that the timeline ends with. It is looked up if the caller does not know it.
    """
    # Events that a filter hides are passed, too. Asked for first: what is appended meanwhile is left for the next time.
    newest = timeline.newest_seq(ref, actor=who) if chosen.kind or chosen.author else NO_SEQ
    page = timeline.events_after(ref, seq, kind=chosen.kind, author=chosen.author, limit=BATCH, actor=who)
    events = page.rows
    if not events:
        return News("", max(seq, newest), last)
    if last is None:
        before = timeline.events(
            ref, before=write_cursor(seq + 1), kind=chosen.kind, author=chosen.author, actor=who
        ).rows
        last = grouped(ref, before, who)[-1] if before else None
    turns = grouped(ref, events, who, last)
    more = page.next is not None
    reached = events[-1].seq or NO_SEQ
    filtered = bool(chosen.kind or chosen.author)
    longest = outline.longest_turn(ref, actor=who) if chosen.scaled and chosen.density == TRACE else 0.0
    newest_before = last.newest if last else None
    fill(turns, chosen.density, filtered=filtered, at_end=not more, after=newest_before, longest=longest)
    html = fragment("session/timeline/_lines.html", ref=ref, turns=turns, density=chosen.density)
    return News(html, reached if more else max(newest, reached), turns[-1], more)


def state(view: views.SessionView, who: Actor) -> str:
    """Renders the groups of the state panel."""
    return fragment("html/state/_groups.html", target=of_session(view, who_wrote(view, who), whole=False))


def status(ref: SessionRef, revision: float, who: Actor, of: timeline.SessionStatus) -> str:
    """Renders a session's status, and since when it is so or when the session was last active."""
    has_errors = of.name == "idle" and outline.reached(ref, actor=who).has_errors
    return fragment("session/updates/_status.html", revision=revision, status=of, has_errors=has_errors)


def stats(ref: SessionRef, who: Actor) -> str:
    """Renders the session's numbers."""
    return fragment("session/page/_stats.html", ref=ref, **numbers(ref, who))


def numbers(ref: SessionRef, who: Actor) -> dict[str, Any]:
    """Returns the context of session/page/_stats.html."""
    turns, usage = outline.turns_of(ref, actor=who) or (None, [])
    artifacts = saved.count(ref, newest=True, actor=who)
    return {
        "stats": statistics.stats(ref, actor=who),
        "turns": turns,
        "dollars": dollars_of(usage),
        "artifacts": artifacts,
    }


def fragment(template: str, **context: Any) -> str:
    """Renders a fragment of a page in the active language."""
    target = context.get("target")
    read_only = not database.may_write(target.ref.source) if target else settings.READ_ONLY
    return render_to_string(template, {"read_only": read_only, **context})


@require_GET
def news(request: HttpRequest, **names: str) -> HttpResponse:
    """Returns what the websocket would push, for a page without a websocket. `reset` tells it to load the timeline
    again."""
    ref = SessionRef(**names)
    kind, author = request.GET.get("kind", ""), request.GET.get("author", "")
    chosen = Filter(kind, author, density_of(request), on_one_scale(request))
    mask = str(masking.digest())
    view = views.session(ref, partly=True, actor=actor(request))  # first: one that was deleted is not found
    seq = Seq(number_in(request.GET.get("after", "")))
    answer: dict[str, Any] = {
        "status": status(ref, view.revision, actor(request), timeline.status_of(ref, actor=actor(request))),
        "revision": f"{view.revision}/{mask}",
        "mask": mask,
    }
    if request.GET.get("revision") == answer["revision"]:
        return _answer(answer)
    who = actor(request)
    answer |= {"state": state(view, who), "stats": stats(ref, who)}
    if must_reset(ref, seq, who):
        return _answer({**answer, "reset": True})
    arrived = following(ref, seq, chosen, who)
    return _answer({**answer, "events": arrived.html, "seq": arrived.seq, "more": arrived.more})


def check(ref: SessionRef, chosen: Filter, who: Actor) -> None:
    """Checks that a session can be followed. Raises NotFound, Invalid or SourceError."""
    views.session(ref, partly=True, actor=who)
    timeline.events_after(ref, NO_SEQ, kind=chosen.kind, author=chosen.author, limit=1, actor=who)


def must_reset(ref: SessionRef, seq: Seq, who: Actor) -> bool:
    """Tells whether a page that has read up to a seq must load its timeline again: it has missed too much, the events
    have no numbers, or the database or the session was deleted and made again."""
    if not database.is_numbered(ref.source):
        return True
    return not 0 <= seq <= timeline.newest_seq(ref, actor=who) or timeline.misses_more_than(
        ref, seq, CATCH_UP, actor=who
    )


def number_in(text: str) -> int:
    """Reads a number from a link: "313" is 313. Raises Invalid."""
    try:
        return int(text[:20])
    except ValueError as error:
        raise Invalid(_("The event number in this link isn't valid.")) from error


def _answer(data: dict[str, Any]) -> HttpResponse:
    return JsonResponse(data, headers={"Cache-Control": "private, no-cache"})
