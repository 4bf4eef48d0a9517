"""Shows how agents do in one range of time: on home, and on the pages of an app and of a user."""

import time
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

from django.http import HttpRequest

from ...access.actor import Actor
from ...domain.clock import Took
from ...search import health
from ...search.health import EVERYBODY, Of, OfApp, Range
from ...search.results import behind
from ...search.selecting import query_of
from ...search.tree import quoted
from ..request import actor
from . import charts
from .attention import Item, attention
from .charts import Charts, Chosen, is_worse

TOOLS: Final = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a page, and the query for all its sessions.

    `apps` are the figures of each app, by source and app, and `before` those in the range before;
    `behind` names the sources that are not indexed yet, each with how much of it is."""

    range: Chosen
    query: str
    charts: Charts
    attention: list[Item]
    tools: list["ToolOf"]
    apps: dict[tuple[str, str], OfApp]
    before: dict[tuple[str, str], OfApp]
    behind: list[tuple[str, float]]


class ToolOf(NamedTuple):
    """A tool, the time that 95 of 100 calls did not exceed, whether more of them failed than in the range before, also if
    there were none, and the address of the sessions that called it."""

    name: str
    calls: health.Tool
    p95: Took | None
    worse: bool
    address: str


def figures(request: HttpRequest, of: Of = EVERYBODY) -> Figures:
    """Returns the figures of some sessions in the range that a request asks for."""
    now, who = time.time(), actor(request)
    chosen, query = charts.chosen(request, now, who, of), query_of(*astuple(of), actor=who) if of.app_name else ""
    missing = [each for each in behind() if of.source in ("", each[0])]
    earlier = chosen.during if missing else chosen.during.before()  # a part of the figures is compared with itself
    in_time = health.figures(chosen.during, actor=who, of=of, ahead=charts.ahead(chosen.during.end))
    before = health.figures(earlier, actor=who, of=of)
    return Figures(
        chosen,
        query,
        charts.charts(in_time, before.whole, chosen, who, of, query),
        attention(chosen, now, who, of, query),
        _tools(chosen, earlier, who, of, query),
        in_time.apps,
        before.apps,
        missing,
    )


def _tools(chosen: Chosen, earlier: Range, who: Actor, of: Of, query: str) -> list[ToolOf]:
    """Returns the tools that failed most, then those that were called most."""
    tools, before = (health.tools(each, actor=who, of=of) for each in (chosen.during, earlier))
    most = sorted(tools.items(), key=lambda each: (-each[1].failed, -each[1].calls, each[0]))[:TOOLS]
    return [
        ToolOf(
            *(name, tool, tool.percentile(0.95), is_worse(tool, was) if (was := before.get(name)) else tool.failed > 0),
            chosen.sessions(f"{query} tool:{quoted(name)}".strip()),
        )
        for name, tool in most
    ]
