"""What goes on in all sources: what runs now, and the newest events; for home, over a websocket or without."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from ...errors import SourceError
from ...reads import lists
from ...reads import newest as reads_newest
from ...reads.event_views import EventView
from ...sources import registry
from ..session.news import fragment

EVENTS: Final = 12


@dataclass(frozen=True, slots=True)
class Activity:
    """Sessions whose agent runs, the longest silent last; the newest events, the newest first."""

    running: list[reads_newest.RunningSession]
    events: list[EventView]
    sources: str  # differs as soon as a source appears, is away or back, or gets its first session
    away: bool  # whether a source did not answer


def activity(away: Collection[str] = ()) -> Activity:
    """Reads what goes on now. Leaves out a source that is away, which home says elsewhere; does not ask those known to be
    `away`, as each would be waited for.
    """
    running, events = [], []
    states: list[tuple[str, bool | None]] = []
    for source in registry.listed():
        if source.alias in away:
            states.append((source.alias, None))
            continue
        try:
            running += reads_newest.running_now(source.alias)
            newest = reads_newest.newest_events(source.alias, EVENTS)
            events += newest
            states.append((source.alias, bool(newest) or lists.has_sessions(source.alias)))
        except SourceError:
            states.append((source.alias, None))
    running.sort(key=lambda session: session.flight.last, reverse=True)
    events.sort(key=lambda event: event.timestamp, reverse=True)
    digest = hashlib.sha256(repr(states).encode()).hexdigest()[:16]
    return Activity(running, events[:EVENTS], digest, any(there is None for _alias, there in states))


def parts(activity: Activity) -> dict[str, str]:
    """Home's two fragments that change by themselves, by name; and what differs once its list of sources would."""
    fragments = {name: fragment(f"lists/feed/_{name}.html", activity=activity) for name in ("running", "feed")}
    return {**fragments, "sources": activity.sources}


@require_GET
def feed(request: HttpRequest) -> HttpResponse:
    """What a websocket would push, for a page that has none."""
    return JsonResponse(parts(activity()), headers={"Cache-Control": "private, no-cache"})
