"""The four charts of a range of time: sessions, failed turns, the time of a turn, tokens; as pictures and as tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ...access.actor import Actor
from ...domain.cost import cost_of
from ...search import health
from ...search.health import EVERYBODY, Figures, InTime, Of, Range, Tool
from ..numbers import count, decimal, dollars, duration, in_short, percentage, share, signed_duration
from ..templatetags.times import minute

# --- The range of time: one of a few that end now (?range=24h), or any other (?from= and ?to=) ------------------------

RANGES: Final = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}  # seconds
USUAL: Final = "24h"
LEAST: Final = 60.0  # seconds
_LAST: Final = 2.0**32  # as for an event's time


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen range. `name` is one of RANGES, or empty for any other."""

    name: str
    during: Range

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the ranges that can be chosen by name."""
        return tuple(RANGES)

    @property
    def query(self) -> str:
        """Returns what selects the sessions that were active in this range."""
        if self.name:
            return f"after:{self.name}"
        since, until = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in self.during)
        return f"after:{since} before:{until}"

    def sessions(self, query: str = "", sort: str = "") -> str:
        """Returns the address of the sessions that were active in this range, and that a query selects."""
        given = {"q": f"{query} {self.query}".strip(), "sort": sort}
        return f"{reverse('search')}?{urlencode({key: value for key, value in given.items() if value})}"


def chosen(request: HttpRequest, now: float, actor: Actor, of: Of = EVERYBODY) -> Chosen:
    """Returns the range of time that a request asks for.

    If it asks for none, it is a day, or as much longer as it takes to show any turn.
    """
    since, until = _seconds(request.GET.get("from")), _seconds(request.GET.get("to"))
    if until - since >= LEAST:
        return Chosen("", Range(since, until))
    name = request.GET.get("range", "")
    if name in RANGES:
        return _named(name, now)
    longer = [_named(each, now) for each in RANGES if RANGES[each] >= RANGES[USUAL]]
    return next((each for each in longer if health.any_turn(each.during, actor=actor, of=of)), longer[0])


def _named(name: str, now: float) -> Chosen:
    return Chosen(name, Range(now - RANGES[name], now))


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or "nan")
    except ValueError:
        return math.nan
    return float(math.floor(seconds)) if 0 <= seconds <= _LAST else math.nan


# --- The charts -------------------------------------------------------------------------------------------------------

WIDTH: Final = 320  # of a picture, in its own units
HEIGHT: Final = 48
ROOM: Final = 4  # above and below the line, as in charts.js


class Bar(NamedTuple):
    """A part of the range of time: when it begins, as <time>, its number if it has one, and that in words."""

    start: SafeString
    value: float | None
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its title, its number in words, what stands beside it, the sessions behind it, and its line.

    `line` has the parts between gaps, and `bars` its numbers. `note` explains what stands beside the number. `worse` says
    that the number should be lower, and is higher than in the range before.
    """

    name: str
    title: str
    number: str
    aside: str
    address: str
    line: list["Part"]
    bars: list["Bar"]
    note: str = ""
    worse: bool = False


def charts(
    shown: InTime, before: Figures, chosen: Chosen, actor: Actor, of: Of = EVERYBODY, query: str = ""
) -> list[Chart]:
    """Returns the four charts of figures, beside those of the range before. `query` selects the sessions that `of` means."""
    whole, bars = shown.whole, shown.bars
    starts = [minute(bar.start) for bar in bars]
    cost, note = _cost(chosen, actor, of)
    failed, slowest = f"{query} error:any".strip(), [bar.percentile(0.95) for bar in bars]
    return [
        Chart(
            *("sessions", _("Sessions with a turn"), count(whole.sessions), _grown(whole.sessions, before.sessions)),
            chosen.sessions(query),
            *_drawn(starts, [bar.sessions for bar in bars], [count(bar.sessions) for bar in bars]),
        ),
        Chart(
            *("failed", _("Failed turns"), _share(whole)),
            " · ".join(filter(None, (_failed(whole), _points(whole, before)))),
            chosen.sessions(failed),
            *_drawn(starts, [bar.failed_share if bar.turns else None for bar in bars], [_share(bar) for bar in bars]),
            worse=is_worse(whole, before),
        ),
        Chart(
            *("took", _("Turn time, p95"), duration(whole.percentile(0.95)) or "–", _slower(whole, before)),
            chosen.sessions(query, "-took"),
            *_drawn(starts, [time and time.seconds for time in slowest], [duration(time) or "–" for time in slowest]),
        ),
        Chart(
            *("tokens", _("Tokens"), in_short(whole.tokens)),
            " · ".join(filter(None, (cost, _grown(whole.tokens, before.tokens)))),
            chosen.sessions(query, "-tokens"),
            *_drawn(starts, [bar.tokens for bar in bars], [count(bar.tokens) for bar in bars]),
            note=note,
        ),
    ]


def is_worse(now: Figures | Tool | None, before: Figures | Tool | None) -> bool:
    """Tells whether a larger share of turns or calls failed than in the range before, if there were any."""
    return now is not None and before is not None and before.some and now.failed_share > before.failed_share


def _drawn(
    starts: Sequence[SafeString], heights: Sequence[float | None], words: Sequence[str]
) -> tuple[list["Part"], list[Bar]]:
    """Returns a chart's line, and its numbers."""
    return line_of(heights), list(map(Bar, starts, heights, words))


class Part(NamedTuple):
    """A part of a line without a gap: the points of a picture of WIDTH by HEIGHT, and of the area below it, which only a
    line without any gap has: between gaps it would be a wall."""

    points: str
    area: str


def line_of(values: Sequence[float | None]) -> list[Part]:
    """Returns the parts of a line through values, which breaks where there is none."""
    most, step = max((value or 0.0 for value in values), default=0.0), WIDTH / max(1, len(values) - 1)
    parts: list[list[tuple[str, str]]] = [[]]
    ground = HEIGHT - ROOM
    for number, value in enumerate(values):
        if value is None:
            parts.append([])
        else:
            y = ground - (ground - ROOM) * (value / most if most else 0)
            parts[-1].append((f"{number * step:.1f}", f"{y:.1f}"))
    lines = [(part, " ".join(f"{x},{y}" for x, y in part)) for part in parts if part]
    return [
        Part(
            line if len(part) > 1 else f"{line} {line}",  # a line of one point is a dot
            f"{part[0][0]},{ground} {line} {part[-1][0]},{ground}" if len(parts) == 1 else "",
        )
        for part, line in lines
    ]


def _share(figures: Figures) -> str:
    return share(figures.failed_share) if figures.turns else "–"


def _failed(figures: Figures) -> str:
    """Returns how many turns failed, of how many: something may also fail outside turns. Empty if there were none."""
    turns = {"n": count(figures.failed), "total": count(figures.turns)}
    return _("%(n)s of %(total)s") % turns if figures.turns else ""


def _grown(now: float, before: float) -> str:
    """Returns by how much a number has grown since the range before; empty if it has not, or if there was nothing."""
    percent = round(100 * (now - before) / before) if before else 0
    return percentage(_signed(percent, 0)) if percent else ""


def _cost(chosen: Chosen, actor: Actor, of: Of) -> tuple[str, str]:
    """Returns roughly what the tokens cost; or at least, and of which models no price is known. Empty without prices."""
    if not settings.PRICES:
        return "", ""
    cost = cost_of(health.usage(chosen.during, actor=actor, of=of), settings.PRICES)
    if not cost.dollars:
        return "", ""
    amount = dollars(cost.dollars)
    if not cost.unpriced:
        return f"≈ {amount}", ""
    models = ", ".join(name or "?" for name in cost.unpriced)
    return f"≥ {amount}", _("No prices set for %(models)s.") % {"models": models}


def _points(now: Figures, before: Figures) -> str:
    """Returns by how many points of percent the share of failed turns has grown; empty if it has not."""
    points = round(100 * (now.failed_share - before.failed_share), 1) if now.turns and before.turns else 0.0
    return _("%(n)s points") % {"n": _signed(points, 1)} if points else ""


def _slower(now: Figures, before: Figures) -> str:
    """Returns the median, and by how much more time 95 of 100 turns took; empty where there is none."""
    median, slow, was = now.percentile(0.5), now.percentile(0.95), before.percentile(0.95)
    more = slow.seconds - was.seconds if slow and was else 0.0
    said = (f"p50 {duration(median)}" if median else "", signed_duration(more) if abs(more) >= 0.05 else "")
    return " · ".join(filter(None, said))


def _signed(number: float, digits: int) -> str:
    return ("+" if number > 0 else "\u2212") + decimal(abs(number), digits)
