"""What goes on in all sources: what runs now, and the newest events; for home, over a websocket or without."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from .. import reads, sources
from ..errors import SourceError
from ..event_rows import EventView
from .news import fragment

EVENTS: Final = 12


@dataclass(frozen=True, slots=True)
class Activity:
    """Sessions whose agent runs, the longest silent last; the newest events, the newest first."""

    running: list[reads.RunningSession]
    events: list[EventView]


def activity() -> Activity:
    """What goes on now; a source that is away is left out, home says so elsewhere."""
    running, events = [], []
    for source in sources.listed():
        try:
            running += reads.running_now(source.alias)
            events += reads.newest_events(source.alias, EVENTS)
        except SourceError:
            continue
    running.sort(key=lambda session: session.flight.last, reverse=True)
    events.sort(key=lambda event: event.timestamp, reverse=True)
    return Activity(running, events[:EVENTS])


def parts(found: Activity) -> dict[str, str]:
    """Home's two fragments that change by themselves, by name."""
    return {name: fragment(f"home/_{name}.html", activity=found) for name in ("running", "feed")}


@require_GET
def feed(request: HttpRequest) -> HttpResponse:
    """What a websocket would push, for a page that has none."""
    return JsonResponse(parts(activity()), headers={"Cache-Control": "private, no-cache"})
