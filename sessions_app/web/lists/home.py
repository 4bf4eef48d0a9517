"""Home: how the agents do, what needs attention, what runs now, and every source with its apps."""

import time
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...errors import SourceError
from ...reads import lists
from ...search import health
from ...search.health import Figures
from ...search.results import behind
from ...sources import adopting, database, registry
from ..html.render import page
from ..html.targets import actor
from . import charts
from .attention import attention
from .feed import activity
from .last_edits import last_edits


@dataclass(slots=True)
class Shown:
    """A source with its apps, or with its problem."""

    source: registry.Source
    apps: list["AppOf"] = field(default_factory=list)
    problem: str = ""
    adopted: bool = True
    adoption: adopting.Adoption | None = None


@dataclass(frozen=True, slots=True)
class AppOf:
    """An app with its figures in the range of time, and its turns as a line."""

    row: lists.AppRow
    figures: Figures | None
    line: str
    area: str

    @property
    def p95(self) -> float | None:
        """Returns the time that 95 % of its turns did not exceed."""
        return self.figures.percentile(0.95) if self.figures else None


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Shows the charts of ?range=, what needs attention, and lists the sources and their apps."""
    now = time.time()
    name = charts.range_of(request, now, actor(request))
    figures = health.by_app(charts.during(name, now), actor=actor(request))
    shown = []
    for source in registry.listed():
        item = Shown(source)
        try:
            item.apps = [_app(row, figures) for row in lists.apps(source.alias, actor=actor(request))]
            item.adopted, item.adoption = database.is_adopted(source.alias), adopting.of(source.alias)
        except SourceError as error:
            item.problem = error.message
        shown.append(item)
    context = {
        "activity": activity(actor(request)),
        "shown": shown,
        "charts": charts.charts(name, now, actor(request)),
        "range": name,
        "ranges": charts.RANGES,
        "attention": attention(name, now, actor(request)),
        "tools": _tools(name, now, actor(request)),
        "behind": behind(),
        "edits": last_edits(actor(request)),
        "folders": registry.folders(),
        "refused": registry.refused(),
    }
    return page(request, "lists/home/home.html", context)


def _app(row: lists.AppRow, figures: dict[tuple[str, str], tuple[Figures, list[Figures]]]) -> AppOf:
    whole, bars = figures.get((row.source, row.app_name), (None, []))
    line, area = charts.line_of([bar.turns for bar in bars]) if bars else ("", "")
    return AppOf(row, whole, line, area)


def _tools(name: str, now: float, who: Actor) -> list[tuple[health.Tool, int]]:
    """Returns the slowest tools, each with the width of its bar in percent."""
    tools = health.slowest_tools(charts.during(name, now), actor=who)
    return [(tool, round(100 * tool.p95 / (tools[0].p95 or 1))) for tool in tools]
