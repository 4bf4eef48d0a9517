"""Shows how agents do in one range of time: on home, and on the pages of an app and of a user."""

import time
from dataclasses import astuple, dataclass

from django.http import HttpRequest

from ...access.actor import Actor
from ...search import health
from ...search.health import EVERYBODY, Of, OfApp
from ...search.results import behind
from ...search.selecting import query_of
from ...search.tree import quoted
from ..request import actor
from . import charts
from .attention import Item, attention
from .charts import Chart, Chosen


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a page. `apps` are those of each app, by source and app; `behind` names the sources that
    are not indexed yet, each with how much of it is."""

    range: Chosen
    charts: list[Chart]
    attention: list[Item]
    tools: list["ToolOf"]
    apps: dict[tuple[str, str], OfApp]
    behind: list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class ToolOf:
    """A tool, with the width of its bar in percent, and the address of the sessions that called it."""

    tool: health.Tool
    width: int
    address: str


def figures(request: HttpRequest, of: Of = EVERYBODY) -> Figures:
    """Returns the figures of some sessions in the range that a request asks for."""
    now, who = time.time(), actor(request)
    chosen, query = charts.chosen(request, now, who, of), query_of(*astuple(of), actor=who) if of.app_name else ""
    in_time = health.figures(chosen.during, actor=who, of=of)
    return Figures(
        chosen,
        charts.charts(in_time, chosen, who, of, query),
        attention(chosen, now, who, of, query),
        _tools(chosen, who, of, query),
        in_time.apps,
        [each for each in behind() if of.source in ("", each[0])],
    )


def _tools(chosen: Chosen, who: Actor, of: Of, query: str) -> list[ToolOf]:
    """Returns the slowest tools."""
    tools = health.slowest_tools(chosen.during, actor=who, of=of)
    slowest = tools[0].p95.seconds or 1 if tools else 1
    return [
        ToolOf(
            tool, round(100 * tool.p95.seconds / slowest), chosen.sessions(f"{query} tool:{quoted(tool.name)}".strip())
        )
        for tool in tools
    ]
