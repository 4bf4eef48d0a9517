"""The strip above the timeline, which shows the whole session and lets a person travel in time."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from ...domain.session_ref import SessionRef
from ...history.overview import Bar, bars
from ..html.render import page
from ..html.targets import actor

PITCH: Final = 6  # from bar to bar, in the picture's own units
HEIGHT: Final = 44
WIDEST: Final = 18  # pixels of a bar in a short session
_LOWEST: Final = 0.2  # of the height, for a bar in which nothing changed


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar as it is drawn."""

    kind: str
    x: int
    y: str  # as texts, so that no language writes a comma in them
    height: str
    gone: bool


@require_GET
def strip(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the bars for a session page."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    shown = bars(ref, actor=actor(request))
    context: dict[str, Any] = {
        "ref": ref,
        "bars": _drawn(shown),
        "width": PITCH * len(shown),
        "height": HEIGHT,
        "widest": WIDEST * len(shown),
        "thickness": PITCH - 2,
        "seqs": [bar.first for bar in shown] + [bar.last for bar in shown[-1:]],
        "last": len(shown) - 1,
    }
    return page(request, "session/overview/_strip.html", context)


def _drawn(shown: list[Bar]) -> list[Drawn]:
    """Draws a bar higher the more it changed. Errors are the highest."""
    most = max((bar.writes / bar.events for bar in shown), default=0) or 1
    drawn = []
    for number, bar in enumerate(shown):
        share = bar.writes / bar.events / most
        level = (
            1.0 if bar.kind == "error" else 0.85 if bar.kind in ("edit", "rewind") else share * 0.7 if share else 0.0
        )
        height = HEIGHT * (_LOWEST + (1 - _LOWEST) * level)
        drawn.append(Drawn(bar.kind, number * PITCH, f"{HEIGHT - height:.1f}", f"{height:.1f}", bar.gone))
    return drawn
