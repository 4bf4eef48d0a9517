"""The trace of a turn: rows of agents, model calls and tools on a time axis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...domain.agents import colour_of
from ...domain.clock import Took, sign_of_all
from ...domain.session_ref import SessionRef
from ...domain.shorten import words
from ...domain.summary import tool_name
from ...domain.trace import AGENT, MODEL, SUMMARY, TOOL, WAIT, Span, Trace
from ...domain.trace import trace as read
from ...reads import timeline
from ...reads.event_views import EventView
from ...search import outline
from ..html.render import page
from ..numbers import duration, point
from ..request import actor
from ..templatetags.tags import shortened

SAME: Final = "same"  # of ?scale=, for all turns; each has its own otherwise
ROWS: Final = 100
DEEPEST: Final = 8  # levels that are indented
LONGEST: Final = 200  # characters of a name
NAME: Final = 34  # characters of it that are shown
WORDS: Final = 8  # of 100, for the words of a tick
THINNEST: Final = 0.4  # of 100, so that every bar can be seen


@dataclass(frozen=True, slots=True)
class Bar:
    """A span on the axis. Numbers are texts, so that no language writes a comma in them."""

    x: str
    width: str
    end: str
    failed: bool
    open: bool
    words: str
    address: str
    event_id: str  # of the first event: where the bar leads
    last_id: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Places the words of a failure below its bar: from the start of the bar, or up to its end if it is late."""

    x: str
    width: str
    is_late: bool


@dataclass(slots=True)
class Row:
    """Spans of the same name, within the same row, that do not overlap: the calls of one model, a tool that runs twice."""

    kind: str
    name: str
    agent: str
    depth: int
    transferred: bool
    spans: list[Span]
    within: list[Row] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    fault: Fault | None = None
    short: str = ""
    colour: int = 0  # of the agent
    model: str = ""  # of an agent that did nothing but one call of it

    @property
    def indent(self) -> int:
        """Returns how far the name is indented."""
        return min(self.depth, DEEPEST)

    @property
    def took(self) -> str:
        """Returns how long it took together, in words; empty if it has not ended."""
        ended = [took for each in self.spans if (took := each.took)]
        if not ended:
            return ""
        return duration(Took(sum(took.seconds for took in ended), sign_of_all(took.sign for took in ended)))

    @property
    def open(self) -> bool:
        """Tells whether a call has no answer."""
        return any(each.end is None for each in self.spans)

    @property
    def tokens(self) -> int:
        """Returns the tokens of all its model calls."""
        return sum(each.tokens for each in self.spans)

    @property
    def failures(self) -> list[Span]:
        """Returns what failed."""
        return [each for each in self.spans if each.failed]

    @property
    def why(self) -> str:
        """Returns the words of the last failure that has any."""
        return next((each.why for each in reversed(self.failures) if each.why), "")

    @property
    def cut(self) -> str:
        """Returns why a model stopped before its end: MAX_TOKENS."""
        return next((each.why for each in reversed(self.spans) if each.why and not each.failed), "")


@dataclass(frozen=True, slots=True)
class Label:
    """A time, or a fold, on the axis."""

    x: str
    words: str
    width: str = ""
    last: bool = False  # so near to the end that its words stand before it


@dataclass(frozen=True, slots=True)
class Drawn:
    """A trace as the template draws it."""

    trace: Trace
    rows: list[Row]
    more: int
    ticks: list[Label]
    folds: list[Label]
    parts: list[tuple[str, str, str]]  # where the time went: kind, name, words
    scaled: bool  # as all turns of the session are

    @property
    def has_axis(self) -> bool:
        """Tells whether there is something to compare: a bar that is alone says how long it took."""
        return self.scaled or len(self.rows) > 1 or bool(self.folds)


def on_one_scale(request: HttpRequest) -> bool:
    """Tells whether the traces of all turns have the same scale: by ?scale=, or as it was chosen last in this browser."""
    return (request.GET.get("scale") or request.COOKIES.get("scale")) == SAME


@require_GET
def trace(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the trace of the turn with the event ?at=, or of the newest turn, for a timeline that shows traces. Leads to
    such a timeline whoever has the address of what was a page."""
    ref, who, at = SessionRef(**names), actor(request), request.GET.get("at", "")
    if not request.htmx:  # type: ignore[attr-defined]
        asked = {"density": "trace", **({"at": at} if at else {})}
        return redirect(f"{reverse('session', kwargs=ref._asdict())}?{urlencode(asked)}")
    turn = timeline.turn_at(ref, at, actor=who)
    longest = outline.longest_turn(ref, actor=who) if on_one_scale(request) else 0.0
    context = {
        "trace": drawn(turn.events, longest, outline.agents_of(ref, actor=who)) if turn.events else None,
        "cut": timeline.MOST if turn.cut else 0,
    }
    return page(request, "session/trace/_turn.html", context)


def drawn(events: Sequence[EventView], longest: float = 0.0, agents: Sequence[int] = ()) -> Drawn:
    """Returns the trace of a turn's events for `session/trace/_turn.html`: over the whole width, or over the part of it that
    the turn has of so many seconds. `agents` are those of the session, for their colours."""
    of_turn = read((each.data, each.description) for each in events)
    end = of_turn.end
    scale = scale_of(of_turn, end, longest)
    roots, kept, within = _rows(of_turn.spans), [], 0
    for row in _ordered(roots):
        within += _take_in_its_call(row)
        kept.append(row)
        if len(kept) == ROWS:
            break
    short = shortened((row.name for row in kept), NAME)
    for row in kept:
        row.short, row.colour = short[row.name], colour_of(row.agent, agents)
        row.bars = [_bar(each, of_turn, scale, end, events[0].ref) for each in row.spans]
        row.fault = next((_fault(each, scale, end) for each in reversed(row.failures) if each.why), None)
    shown = within + sum(len(row.spans) for row in kept)
    return Drawn(
        of_turn,
        kept,
        len(of_turn.spans) + of_turn.more - shown,
        [_tick(each) for each in scale.ticks if not _is_hidden(each, scale.folds)],
        [_fold(each) for each in scale.folds],
        [
            (kind, name, duration(took))
            for kind, name, took in (
                ("model", _("Model"), of_turn.model),
                ("tool", _("Tools"), of_turn.tools),
                ("wait", _("Waiting"), of_turn.waiting),
            )
            if took.seconds or took.sign
        ],
        longest > 0,
    )


def _rows(spans: list[Span]) -> list[Row]:
    """Gathers spans, each after the one that it is in, into rows."""
    roots: list[Row] = []
    rows: dict[int, Row] = {}
    for span in spans:
        above = rows.get(id(span.parent))
        beside = above.within if above else roots
        row = next((each for each in beside if _fits(each, span)), None)
        if row:
            row.spans.append(span)
        else:
            row = Row(span.kind, _name(span), span.agent, above.depth + 1 if above else 0, span.transferred, [span])
            beside.append(row)
        rows[id(span)] = row
    return roots


def _fits(row: Row, span: Span) -> bool:
    last = row.spans[-1]
    alike = (row.kind, row.name, row.transferred) == (span.kind, _name(span), span.transferred)
    return alike and last.end is not None and last.end <= span.start


def _name(span: Span) -> str:
    if span.kind == SUMMARY:
        return _("summary")
    return words(tool_name(span.name), LONGEST) or (_("model") if span.kind == MODEL else "–")


def _take_in_its_call(row: Row) -> bool:
    """Makes one row of an agent and the call of a model that is all it did, and tells whether it has."""
    inner = row.within[0] if row.kind == AGENT and len(row.spans) == len(row.within) == 1 else None
    if inner is None or inner.kind != MODEL or len(inner.spans) > 1 or inner.spans[0].end is None:
        return False
    row.spans, row.within, row.model = inner.spans, [], inner.name
    return True


def _ordered(rows: list[Row]) -> Iterator[Row]:
    left = rows[::-1]
    while left:
        row = left.pop()
        yield row
        left += row.within[::-1]


def _bar(span: Span, trace: Trace, scale: Scale, end: float, ref: SessionRef) -> Bar:
    is_open = span.end is None and span.kind != AGENT
    left, right = scale.x(span.start), scale.x(end if span.end is None else span.end)
    width = max(right - left, THINNEST)
    left = min(left, 100 - width)
    took = _("no answer") if span.took is None else duration(span.took)
    told = [
        _name(span),
        _("waits") if span.kind == WAIT else "",
        took,
        _("after %(time)s") % {"time": duration(span.start - trace.start)},
        span.why,
    ]
    event_id = span.events[0] if span.events else ""
    address = reverse("event", kwargs={**ref._asdict(), "event_id": event_id}) if event_id else ""
    said = " · ".join(filter(None, told))
    ids = event_id, span.events[-1] if span.events else ""
    return Bar(_number(left), _number(width), _number(left + width), span.failed, is_open, said, address, *ids)


def _fault(span: Span, scale: Scale, end: float) -> Fault:
    left, right = scale.x(span.start), scale.x(end if span.end is None else span.end)
    is_late = left > 100 - right
    return Fault(_number(0 if is_late else left), _number(max(right, THINNEST) if is_late else 100 - left), is_late)


def _is_hidden(tick: Tick, folds: list[Fold]) -> bool:
    """Tells whether the words of a fold stand where those of a tick would."""
    return any(fold.x - WORDS < tick.x < fold.x + fold.width for fold in folds)


def _tick(tick: Tick) -> Label:
    return Label(_number(tick.x), _tick_words(tick.seconds), last=tick.x > 100 - WORDS)


def _fold(fold: Fold) -> Label:
    return Label(_number(fold.x), duration(fold.seconds), _number(fold.width))


def _number(share: float) -> str:
    return f"{share:.3f}%"


def _tick_words(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    if not seconds or seconds >= 1:
        return f"{seconds:g} s".replace(".", point())
    return f"{seconds * 1000:g} ms".replace(".", point())


# --- The scale over it ------------------------------------------------------------------------------------------------

# The time axis of a trace: where a time stands, between 0 and 100, and the round times along it.
#
# Where nobody worked for long, because somebody was waited for, the axis is folded, so that a second of work can be
# seen beside two days of waiting.


FOLDED: Final = 7.0  # of 100, which a fold takes
MOST_FOLDS: Final = 4
MOST_TICKS: Final = 5
SHORTEST: Final = 0.01  # seconds, so that even what took no time has an axis
_DAY: Final = 86_400
_STEPS: Final = (
    *(round(digit * 10**power, 6) for power in (-3, -2, -1, 0) for digit in (1, 2, 5)),
    *(10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 3 * 3_600, 6 * 3_600, 12 * 3_600),
    *(digit * 10**power * _DAY for power in range(5) for digit in (1, 2, 5)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A round time after the beginning, without what is folded."""

    x: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Fold:
    """A stretch of time that the axis leaves out."""

    x: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Where times stand on the axis. `times` and `xs` belong together, both growing; between them, it is even."""

    times: list[float]
    xs: list[float]
    folds: list[Fold]
    ticks: list[Tick]

    def x(self, at: float) -> float:
        """Returns where a time stands: from 0 to 100."""
        number = min(max(bisect_right(self.times, at) - 1, 0), len(self.times) - 2)
        begin, end = self.times[number : number + 2]
        left, right = self.xs[number : number + 2]
        share = (at - begin) / (end - begin) if end > begin else 0
        return min(left + (right - left) * min(max(share, 0), 1), right)


def scale_of(trace: Trace, end: float, longest: float = 0.0) -> Scale:
    """Returns the axis of a trace until `end`, or for as long as a turn of `longest` seconds if that is more."""
    end = max(end, trace.end, trace.start + SHORTEST)
    gaps = _idle(trace, end)
    edges = [trace.start, *chain.from_iterable(gaps), end]
    worked = sum(until - begin for begin, until in list(pairwise(edges))[::2])  # not end - start: floats lose the rest
    if longest > worked:
        end, worked = end + longest - worked, longest
    room = 100 - FOLDED * len(gaps)
    times, xs, folds = [trace.start], [0.0], []
    for begin, until in gaps:
        x = xs[-1] + (begin - times[-1]) / worked * room
        times += [begin, until]
        xs += [x, x + FOLDED]
        folds.append(Fold(x, FOLDED, until - begin))
    xs = list(accumulate((min(each, 100.0) for each in [*xs, 100.0]), max))  # floats may pass the end
    scale = Scale([*times, end], xs, folds, [])
    scale.ticks.extend(_ticks(scale, worked))
    return scale


def _idle(trace: Trace, end: float) -> list[tuple[float, float]]:
    """Returns the longest stretches in which nobody worked, if they are longer than half of the work, in order."""
    busy = sorted(
        (each.start, end if each.end is None else each.end)
        for each in trace.spans
        if each.kind in (MODEL, SUMMARY, TOOL)
    )
    if not busy:
        return []
    gaps, last = [], trace.start
    for begin, until in [*busy, (end, end)]:
        if begin > last:
            gaps.append((last, begin))
        last = max(last, until)
    work = end - trace.start - sum(until - begin for begin, until in gaps)
    long = [gap for gap in gaps if gap[1] - gap[0] > max(work / 2, SHORTEST)] if work > 0 else []
    return sorted(sorted(long, key=lambda gap: gap[0] - gap[1])[:MOST_FOLDS])


def _ticks(scale: Scale, worked: float) -> list[Tick]:
    """Returns two to five round times."""
    step = next((step for step in _STEPS if worked / step < MOST_TICKS), _STEPS[-1])
    return [Tick(_x_of(scale, number * step), number * step) for number in range(int(worked / step) + 1)][:MOST_TICKS]


def _x_of(scale: Scale, after: float) -> float:
    """Returns where a time stands that is given without what is folded."""
    stretches = list(zip(pairwise(scale.times), pairwise(scale.xs), strict=True))[::2]  # every other one is folded
    for (begin, end), (left, right) in stretches:
        if after <= end - begin:
            return min(left + (right - left) * after / (end - begin), right) if end > begin else left
        after -= end - begin
    return scale.xs[-1]
