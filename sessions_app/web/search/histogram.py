"""The histogram above the table of sessions, as a picture and as a table. Dragging over it sets a range of time.

The table does not wait for it: the page asks for it by itself.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Slow
from ...search.health import Bar, histogram
from ...search.language import parse
from ...search.selecting import HASTY, patience
from ...search.tree import And, Node, Query, Time
from .. import dates
from ..html.render import page
from ..request import actor
from .params import Asked, read

PITCH: Final = 20  # from bar to bar, in the picture's own units
HEIGHT: Final = 44
_GAP: Final = 5
_LEAST: Final = 2.0  # of the height, for a bar that is not empty
_AROUND: Final = 1.5  # times the chosen range, shown before and after it
_TICKS: Final = 8  # at most
_ROOM: Final = 93.0  # percent of the width: a label that began later would be cut
_FEWEST: Final = 30  # bars; with fewer, each would be as wide as a hand
_DAY: Final = 86_400.0
_ROUND: Final = (  # seconds between two ticks
    *(1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(days * 86_400 for days in (1, 2, 7, 14, 28, 91, 364)),
)
_MONDAY: Final = datetime(2001, 1, 1)  # noqa: DTZ001 - midnight in any zone


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar as it is drawn, with its numbers, and the words for when it is. Sizes are texts, so that no language writes a
    comma in them."""

    x: int
    y: str
    height: str
    failed_y: str
    failed_height: str
    chosen: bool
    label: str
    sessions: int
    failed: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A round time below the bars: in words, and where it is, in percent of the width."""

    label: str
    x: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The histogram: its bars, the times between them, and the range that is chosen, as indices of these times. The highest
    bar has `most` sessions.

    `goes_back` and `goes_on` tell whether it shows everything up to its ends: a range that reaches one has no limit."""

    bars: list[Drawn]
    most: int
    times: list[str]
    labels: list[str]
    ticks: list[Tick]
    first: int
    last: int
    is_chosen: bool
    goes_back: bool
    goes_on: bool
    width: int
    height: int = HEIGHT
    thickness: int = PITCH - _GAP

    @property
    def chosen_x(self) -> int:
        """Returns where the chosen range begins."""
        return self.first * PITCH

    @property
    def chosen_width(self) -> int:
        """Returns how wide the chosen range is."""
        return (self.last - self.first) * PITCH

    @property
    def spoken(self) -> tuple[str, str]:
        """Returns both ends of the chosen range in words."""
        return self.labels[self.first], self.labels[self.last]


@require_GET
def over_time(request: HttpRequest) -> HttpResponse:
    """Shows the histogram of what ?q= selects; nothing if there is nothing, or if it takes long."""
    asked, picture = read(request), None
    with suppress(Slow), patience(HASTY):
        picture = draw(asked, actor(request))
    return page(request, "search/histogram/_histogram.html", {"asked": asked, "picture": picture})


def draw(asked: Asked, who: Actor) -> Picture | None:
    """Draws the sessions that a query selects, over time; None if there are none.

    Around a range that the query chooses it shows some time before and after, too, to drag to."""
    after, before = chosen_range(asked.query.tree)
    bars = _with_room(histogram(_around(asked, after, before), actor=who))
    is_chosen = after is not None or before is not None
    if not bars or not (is_chosen or any(bar.sessions for bar in bars)):
        return None
    edges = [bar.start for bar in bars] + [bars[-1].end]
    first = min(_index(edges, after, 0), len(bars) - 1)
    last = max(_index(edges, before, len(bars)), first + 1)
    step = bars[0].end - bars[0].start
    labels = [dates.edge(min(edge, asked.now), step, asked.now) for edge in edges]
    drawn = [
        _bar(bars, number, dates.bar(*bar[:2], step, asked.now), is_chosen and first <= number < last)
        for number, bar in enumerate(bars)
    ]
    ends = after is None, before is None or _margin(asked, after, before) + before >= asked.now
    times = [f"{edge:.3f}" for edge in edges]
    ticks = list(ticks_of(edges[0], edges[-1], asked.now))
    most = max(bar.sessions for bar in bars)
    return Picture(
        drawn,
        most,
        times,
        labels,
        ticks,
        first,
        last,
        is_chosen,
        *ends,
        PITCH * len(bars),
    )


def ticks_of(first: float, last: float, now: float) -> Iterator[Tick]:
    """Yields the round times of the reader's clock: midnights as dates, and times of day between them."""
    zone = timezone.get_current_timezone()
    wide = (last - first) / _TICKS
    step = next((each for each in _ROUND if each >= wide), math.ceil(wide / _ROUND[-1]) * _ROUND[-1])
    since = datetime.fromtimestamp(first, zone).replace(tzinfo=None) - _MONDAY
    number = math.ceil(since.total_seconds() / step)
    while (at := (_MONDAY + timedelta(seconds=number * step)).replace(tzinfo=zone).timestamp()) < last:
        x = 100 * (at - first) / (last - first)
        is_day = step >= _DAY or number * step % _DAY == 0
        if x <= _ROOM:
            yield Tick(dates.day(at, now) if is_day else dates.hour(at) if step >= 60 else dates.clock(at), f"{x:.2f}")
        number += 1


def chosen_range(tree: Node | None) -> tuple[float | None, float | None]:
    """Returns the times after and before which a whole query asks for."""
    limits: dict[str, float] = {}
    for node in tree.children if isinstance(tree, And) else (tree,):
        if isinstance(node, Time):
            limits.setdefault(node.name, node.seconds)
    after, before = limits.get("after"), limits.get("before")
    return after, None if after is not None and before is not None and before <= after else before


def _around(asked: Asked, after: float | None, before: float | None) -> Query:
    if after is None:
        return asked.within(None, None).query
    margin = _margin(asked, after, before)
    wider = asked.within(after - margin, None if before is None or before + margin >= asked.now else before + margin)
    return parse(wider.text, now=asked.now, zone=asked.zone)


def _with_room(bars: list[Bar]) -> list[Bar]:
    """Adds empty bars on both sides of a few."""
    if not bars or len(bars) >= _FEWEST:
        return bars
    step, missing = bars[0].end - bars[0].start, _FEWEST - len(bars)
    begin = bars[0].start - missing // 2 * step
    edges = [begin + number * step for number in range(_FEWEST + 1)]
    room = [Bar(start, end, 0, 0) for start, end in pairwise(edges)]
    return room[: missing // 2] + bars + room[missing // 2 + len(bars) :]


def _margin(asked: Asked, after: float | None, before: float | None) -> float:
    until = asked.now if before is None else before
    return max(60.0, _AROUND * (until - after)) if after is not None else asked.now


def _index(edges: Sequence[float], seconds: float | None, otherwise: int) -> int:
    """Returns the index of the edge that is nearest to a time."""
    if seconds is None:
        return otherwise
    return min(range(len(edges)), key=lambda number: abs(edges[number] - seconds))


def _bar(bars: Sequence[Bar], number: int, label: str, is_chosen: bool) -> Drawn:
    bar, most = bars[number], max(bar.sessions for bar in bars)
    height = max(_LEAST, HEIGHT * bar.sessions / most) if bar.sessions else 0.0
    failed = max(_LEAST, HEIGHT * bar.failed / most) if bar.failed else 0.0
    return Drawn(
        number * PITCH,
        f"{HEIGHT - height:.1f}",
        f"{height:.1f}",
        f"{HEIGHT - failed:.1f}",
        f"{failed:.1f}",
        is_chosen,
        label,
        bar.sessions,
        bar.failed,
    )
