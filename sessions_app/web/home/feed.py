"""The activity of all sources, for home: what is running now, and the newest events. Sent over a websocket, or polled."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from ...access import masking
from ...access.actor import Actor
from ...domain.errors import SourceError
from ...reads import lists
from ...reads import newest as reads_newest
from ...reads.event_views import EventView
from ...sources import registry
from ..html.targets import actor
from ..session.news import fragment

EVENTS: Final = 12


@dataclass(frozen=True, slots=True)
class Activity:
    """The sessions whose agent is running, the longest silent last, and the newest events, the newest first.

    `mask` stands for the rules that hide values in them (masking.digest)."""

    running: list[reads_newest.RunningSession]
    events: list[EventView]
    sources: str  # changes when a source appears, goes away, comes back, or gets its first session
    away: bool  # whether a source did not answer
    mask: int


def activity(who: Actor, away: Collection[str] = ()) -> Activity:
    """Reads the activity of all sources that answer. Does not ask those known to be `away`: waiting for each would take
    long."""
    mask = masking.digest()
    running, events = [], []
    states: list[tuple[str, bool | None]] = []
    for source in registry.listed():
        if source.alias in away:
            states.append((source.alias, None))
            continue
        try:
            running += reads_newest.running_now(source.alias, actor=who)
            newest = reads_newest.newest_events(source.alias, EVENTS, actor=who)
            events += newest
            states.append((source.alias, bool(newest) or lists.has_sessions(source.alias, actor=who)))
        except SourceError:
            states.append((source.alias, None))
    running.sort(key=lambda session: session.flight.last, reverse=True)
    events.sort(key=lambda event: event.timestamp, reverse=True)
    digest = hashlib.sha256(repr(states).encode()).hexdigest()[:16]
    return Activity(running, events[:EVENTS], digest, any(there is None for _alias, there in states), mask)


def parts(activity: Activity) -> dict[str, str]:
    """Returns home's fragments by name, and digests of the list of sources and of the rules of masking."""
    fragments = {name: fragment(f"home/feed/_{name}.html", activity=activity) for name in ("running", "feed")}
    return {**fragments, "sources": activity.sources, "mask": str(activity.mask)}


@require_GET
def feed(request: HttpRequest) -> HttpResponse:
    """Returns what the websocket would push, for a page without a websocket."""
    return JsonResponse(parts(activity(actor(request))), headers={"Cache-Control": "private, no-cache"})
