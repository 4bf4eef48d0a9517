"""The four charts of a range of time: sessions, failed turns, the time of a turn, tokens; as pictures and as tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from ...access.actor import Actor
from ...domain.cost import cost_of
from ...search import health
from ...search.health import EVERYBODY, Figures, InTime, Of, Range, Tool
from .. import dates
from ..numbers import count, decimal, dollars, duration, in_short, percentage, share, signed_duration

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

PITCH: Final = 4  # from bar to bar, in a picture's own units
HEIGHT: Final = 48
_THICKNESS: Final = 3
_LEAST: Final = 2.0  # of the height, for a bar that is not empty
_DAYS: Final = 2 * 86_400  # seconds; of longer ranges, the dates are enough
_ENOUGH: Final = 20  # turns, for a change from the range before to be more than chance


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its title, its number in words, what stands beside it, the sessions behind it, and its bars.

    `bars` is the outline of all bars, `rest` that of what is above some of them, and `most` is what the highest one stands
    for. `values` are their numbers in words. `note` explains what stands beside the number. `worse` says that the number
    should be lower, and is higher than in the range before.
    """

    name: str
    title: str
    number: str
    aside: str
    address: str
    values: list[str]
    most: str
    bars: str
    rest: str = ""
    note: str = ""
    worse: bool = False


@dataclass(frozen=True, slots=True)
class Charts:
    """The four charts of a range: between which times their bars are, when each is in words, and words for some of these
    times, from the first to the last one."""

    each: list[Chart]
    times: list[str]
    periods: list[str]
    ticks: list[str]

    @property
    def width(self) -> int:
        """Returns how wide a picture is."""
        return PITCH * len(self.periods)

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """Returns the numbers of all charts bar by bar, and when each bar is."""
        return [
            (period, list(row))
            for period, *row in zip(self.periods, *(chart.values for chart in self.each), strict=True)
        ]


def ahead(seconds: float) -> float:
    """Returns by how much the reader's clock is ahead of UTC at a time."""
    offset = datetime.fromtimestamp(seconds, timezone.get_current_timezone()).utcoffset()
    return offset.total_seconds() if offset else 0.0


def charts(shown: InTime, before: Figures, chosen: Chosen, actor: Actor, of: Of = EVERYBODY, query: str = "") -> Charts:
    """Returns the four charts of figures, beside those of the range before. `query` selects the sessions that `of` means."""
    now, bars = chosen.during.end, shown.bars
    step = max(bar.end - bar.start for bar in bars)  # the first and the last one may be a part of one
    return Charts(
        _four(shown, before, chosen, actor, of, query),
        [f"{bar.start:.3f}" for bar in bars] + [f"{now:.3f}"],
        [dates.bar(bar.start, bar.end, step, now) for bar in bars],
        _ticks([bars[0].start, bars[len(bars) // 2].start, now], step, chosen),
    )


def _ticks(times: Sequence[float], step: float, chosen: Chosen) -> list[str]:
    first, now = times[0], times[-1]
    if now - first > _DAYS:
        words = [dates.day(each, now) for each in times]
    elif step >= 60:
        words = [dates.minute(first, now), *(dates.after(first, each, now) for each in times[1:])]
    else:
        words = [dates.second(each, now) for each in times]
    return [*words[:-1], pgettext("a time", "now")] if chosen.name else words


def _four(shown: InTime, before: Figures, chosen: Chosen, actor: Actor, of: Of, query: str) -> list[Chart]:
    whole, bars = shown.whole, shown.bars
    cost, note = _cost(chosen, actor, of)
    failed, slowest = f"{query} error:any".strip(), [bar.percentile(0.95) for bar in bars]
    longest = max(filter(None, slowest), key=lambda time: time.seconds, default=None)
    sessions, turns, tokens = ([getattr(bar, name) for bar in bars] for name in ("sessions", "turns", "tokens"))
    enough = min(whole.turns, before.turns) >= _ENOUGH

    def change(words: str) -> str:
        return _compared(words, chosen) if words and enough else ""

    return [
        Chart(
            *("sessions", _("Sessions with a turn"), count(whole.sessions)),
            change(_grown(whole.sessions, before.sessions)),
            chosen.sessions(query),
            *([count(each) for each in sessions], count(max(sessions)), outline(sessions)),
        ),
        Chart(
            *("failed", _("Failed turns"), _share(whole)),
            _joined(_failed(whole), change(_points(whole, before))),
            chosen.sessions(failed),
            *([_joined(_failed(bar), _share(bar)) for bar in bars], _turns(max(turns))),
            outline([bar.failed for bar in bars], max(turns)),
            outline(turns),
            worse=is_worse(whole, before),
        ),
        Chart(
            *("took", _("Turn time, p95"), duration(whole.percentile(0.95)) or "–"),
            _joined(_median(whole), _turns(whole.turns), change(_slower(whole, before))),
            chosen.sessions(query, "-took"),
            *([duration(time) or "–" for time in slowest], duration(longest)),
            outline([time.seconds if time else 0.0 for time in slowest]),
        ),
        Chart(
            *("tokens", _("Tokens"), in_short(whole.tokens)),
            _joined(cost, change(_grown(whole.tokens, before.tokens))),
            chosen.sessions(query, "-tokens"),
            *([count(each) for each in tokens], in_short(max(tokens)), outline(tokens)),
            note=note,
        ),
    ]


def is_worse(now: Figures | Tool | None, before: Figures | Tool | None) -> bool:
    """Tells whether a larger share of turns or calls failed than in the range before, if there were any."""
    return now is not None and before is not None and before.some and now.failed_share > before.failed_share


def outline(values: Sequence[float], most: float = 0) -> str:
    """Returns the outline of bars, as the path of a picture that is HEIGHT high. A bar of this height stands for `most`, by
    default the largest value. Where a value is 0, there is no bar."""
    most = most or max(values, default=0.0)
    return "".join(
        f"M{PITCH * number} {HEIGHT}v-{max(_LEAST, HEIGHT * value / most):.1f}h{_THICKNESS}V{HEIGHT}z"
        for number, value in enumerate(values)
        if value
    )


def _joined(*words: str) -> str:
    return " · ".join(filter(None, words))


def _turns(number: int) -> str:
    return ngettext("%(n)s turn", "%(n)s turns", number) % {"n": count(number)} if number else ""


def _compared(change: str, chosen: Chosen) -> str:
    """Returns a change with what it is compared with."""
    if not chosen.name:
        return _("%(change)s vs previous range") % {"change": change}
    return _("%(change)s vs previous %(range)s") % {"change": change, "range": chosen.name}


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


def _median(figures: Figures) -> str:
    median = figures.percentile(0.5)
    return f"p50 {duration(median)}" if median else ""


def _slower(now: Figures, before: Figures) -> str:
    """Returns by how much more time 95 of 100 turns took; empty if it is the same, or not known."""
    slow, was = now.percentile(0.95), before.percentile(0.95)
    more = slow.seconds - was.seconds if slow and was else 0.0
    return signed_duration(more) if abs(more) >= 0.05 else ""


def _signed(number: float, digits: int) -> str:
    return ("+" if number > 0 else "\u2212") + decimal(abs(number), digits)
