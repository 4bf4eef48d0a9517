"""The strip above the timeline, which shows the whole session and lets a person travel in time."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from ...domain.agents import colour_of
from ...domain.positions import Seq, SeqRange
from ...domain.session_ref import SessionRef
from ...history.overview import Bar, bars
from ...search.outline import Picture, Spans, picture
from ..html.render import page
from ..request import actor
from ..session.chosen_range import chosen_range
from ..templatetags.tags import shortened
from .pins import pinned, pinned_lines
from .strip_axis import Axis, Fold, Label, Step, axis_of, label, share

BOTTOM: Final = 22  # of the bars, in pixels; tools and changes of state have lanes of their own below them
_LOWEST: Final = 0.35  # of the height, for a bar that used no tokens
_HIGHEST: Final = 0.85  # for any that is no error; above it, edits have their sign
_CALLS: Final = (26, 7)  # of the lane of tools: where it begins, and its height
_WRITES: Final = (40, 3)  # of the lane of state
_THINNEST: Final = 0.15  # of 100
_NAMES: Final = 200  # characters of an agent's name that are told
_USER: Final = "user"  # the author of what a person says


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar as it is drawn. Numbers are texts, so that no language writes a comma in them."""

    css: str
    kind: str
    x: str
    y: str
    width: str
    height: str
    sign: str = ""  # where the middle is, for an edit or a rewind


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of the strip that a range takes."""

    x: str
    width: str
    end: str


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of the legend."""

    name: str
    short: str
    colour: int


@dataclass(frozen=True, slots=True)
class Told:
    """A turn, or some together, in words; `turns` is None before the first user message."""

    turns: Spans | None
    at: float
    events: int
    last_event: int
    first_event: int
    errors: bool
    agents: list[str]


@require_GET
def strip(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the bars for a session page."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    known = picture(ref, actor=actor(request)) or Picture([], [])
    chosen = chosen_range(request, ref)
    shown = bars(ref, cuts=[turns.seq for turns in known.turns], actor=actor(request))
    context: dict[str, Any] = {"ref": ref}
    if shown:
        of_bars = [bisect_right(known.turns, bar.first, key=_seq) for bar in shown]
        pairs = list(zip(shown, of_bars, strict=True))
        most = max((_tokens(turns) for turns in known.turns), default=None)
        axis = axis_of(_steps(shown, of_bars, known))
        levels = [_level(bar, known.turns[of_bar - 1] if of_bar else None, most) for bar, of_bar in pairs]
        sides = list(zip(shown, axis.lefts, axis.rights, strict=True))
        context |= _numbers(shown, of_bars, axis)
        context |= {
            "bars": [
                _drawn(bar, level, left, right, known.agents)
                for (bar, left, right), level in zip(sides, levels, strict=True)
            ],
            "calls": _calls(known, axis) if known.turns else {},
            "wrote": _path([edges for bar, *edges in sides if bar.writes], *_WRITES),
            "folds": [_label(fold, shown, of_bars) for fold in axis.folds],
            "agents": _agents(shown, known.agents),
            "signs": {bar.kind for bar in shown},
            "told": _told(shown, of_bars, known.turns),
            "began": shown[0].began,
            "ended": shown[-1].ended,
            "stretch": _stretch(chosen.between, shown, axis) if chosen and chosen.between else None,
            "pins": pinned_lines(ref, pinned(request), shown, axis, actor(request)),
        }
    return page(request, "history/strip/_strip.html", context)


def _seq(turns: Spans) -> Seq:
    return turns.seq


def agent_of(bar: Bar) -> str:
    """Returns who worked in a bar: the author of its first event or, if that is the user's, of the one after it."""
    return (bar.answered if bar.author == _USER else bar.author)[:_NAMES]


def _steps(shown: Sequence[Bar], of_bars: Sequence[int], known: Picture) -> list[Step]:
    """Returns from when to when each bar goes.

    An event took the time since the one before it, unless a person wrote it or a turn begins with it. An error took that
    since the failed call, and the bar before it goes on until then. If no turns are known, all bars are of the same width.
    """
    turns, failed = known.turns, sorted(call.at for call in known.calls if call.failed and call.first == call.last)
    steps: list[Step] = []
    last = shown[0].began
    for number, (bar, of_bar) in enumerate(zip(shown, of_bars, strict=True)):
        waits = not number or bar.author == _USER or bar.kind == "edit" or of_bar != of_bars[number - 1]
        begin = max(last, bar.began) if waits else last
        end = max(begin, bar.ended)
        before = bisect_left(failed, end)
        called = failed[before - 1] if before else 0.0
        if turns and bar.kind == "error" and bar.events == 1 and not waits and called > begin:
            steps[-1] = replace(steps[-1], end=called, worked=steps[-1].worked + called - begin)
            begin = last = called
        worked = end - begin
        if bar.events > 1 and of_bar:
            worked = min(worked, turns[of_bar - 1].took.seconds)  # what a person was waited for is in it
        steps.append(Step(begin, end, worked if turns else 1.0, begin - last))
        last = end
    return steps


def _tokens(turns: Spans) -> float:
    """Returns the tokens of a turn; the mean of those that stand together."""
    return turns.tokens / (turns.last - turns.first + 1)


def _level(bar: Bar, turns: Spans | None, most: float | None) -> float:
    """Returns how high a bar is, of 1: the more tokens its turn used; if no turns are known, the more of the state it
    changed."""
    if bar.kind == "error":
        return 1.0
    if most is None:
        share = bar.writes / bar.events
    else:
        share = (_tokens(turns) / most) ** 0.5 if turns and most else 0.0 if most else 0.6
    return _LOWEST + (_HIGHEST - _LOWEST) * share


def _drawn(bar: Bar, level: float, left: float, right: float, agents: Sequence[int]) -> Drawn:
    width, height = max(_THINNEST, right - left), BOTTOM * level
    name = agent_of(bar)
    said = "said" if bar.author == _USER and bar.events == 1 and not bar.kind else ""
    names = ["bar", f"agent-{colour_of(name, agents)}" if name else "", said or bar.kind, "gone" if bar.gone else ""]
    return Drawn(
        *(
            " ".join(filter(None, names)),
            bar.kind,
            share(left),
            f"{BOTTOM - height:.1f}",
            share(width),
            f"{height:.1f}",
        ),
        sign=share(left + width / 2) if bar.kind in ("edit", "rewind") else "",
    )


def _calls(known: Picture, axis: Axis) -> dict[str, str]:
    """Returns the paths of the calls that worked and of those that failed, by CSS class."""
    calls = {"call": [call for call in known.calls if not call.failed]}
    calls["call failed"] = [call for call in known.calls if call.failed]
    return {css: _path([_edges(call, axis) for call in some], *_CALLS) for css, some in calls.items() if some}


def _path(edges: Sequence[Sequence[float]], top: int, height: int) -> str:
    """Returns boxes of a lane as one path: a browser would style each of a thousand rectangles."""
    widths = [max(_THINNEST, right - left) for left, right in edges]
    sides = zip(edges, widths, strict=True)
    return "".join(f"M{left:.3f} {top}h{width:.3f}v{height}h-{width:.3f}z" for (left, _right), width in sides)


def _edges(call: Spans, axis: Axis) -> tuple[float, float]:
    end = call.at + call.took.seconds
    step = axis.step_at(end)
    if step and end < axis.steps[step].begin:  # its answer was stored later than it says: it belongs to the turn before
        step -= 1
    left, right = (min(axis.x(at), axis.rights[step]) for at in (call.at, end))
    return left, right


def _label(fold: Fold, shown: Sequence[Bar], of_bars: Sequence[int]) -> Label:
    return label(fold, of_bars[fold.step] == of_bars[fold.step - 1] and shown[fold.step].author == _USER)


def _agents(shown: Sequence[Bar], agents: Sequence[int]) -> list[Agent]:
    names = dict.fromkeys(name for bar in shown if bar.kind != "edit" and (name := agent_of(bar)) and name != _USER)
    short = shortened(names)
    return [Agent(name, short[name], colour_of(name, agents)) for name in list(names)[:12]]


def _told(shown: Sequence[Bar], of_bars: Sequence[int], turns: Sequence[Spans]) -> list[Told]:
    """Returns the turns in words, in order; with those before the first user message, if there are any."""
    if not turns:
        return []
    told = []
    for of_bar in sorted(set(of_bars)):
        mine = [bar for bar, each in zip(shown, of_bars, strict=True) if each == of_bar]
        agents = list(
            dict.fromkeys(name for bar in mine if bar.kind != "edit" and (name := agent_of(bar)) != _USER and name)
        )
        last = mine[-1].number + mine[-1].events - 1
        told.append(
            Told(
                turns[of_bar - 1] if of_bar else None,
                mine[0].began,
                last - mine[0].number + 1,
                last,
                mine[0].number,
                any(bar.kind == "error" for bar in mine),
                agents[:3],
            )
        )
    return told


def _numbers(shown: Sequence[Bar], of_bars: Sequence[int], axis: Axis) -> dict[str, Any]:
    """Returns what strip.js reads: where each bar is, the seq and the number of its first event, its turn, its time."""
    lines = sorted(set(of_bars))
    return {
        "edges": [f"{each:.3f}" for pair in zip(axis.lefts, axis.rights, strict=True) for each in pair],
        "seqs": [bar.first for bar in shown] + [shown[-1].last],
        "numbers": [bar.number for bar in shown] + [shown[-1].number + shown[-1].events],
        "times": [f"{bar.began:.3f}" for bar in shown],
        "gaps": [f"{step.gap:.1f}" for step in axis.steps],
        "lines": [lines.index(each) for each in of_bars],
        "last": len(shown) - 1,
    }


def _stretch(between: SeqRange, shown: Sequence[Bar], axis: Axis) -> Stretch:
    """Returns where a range stands, to the event: a bar of several has one after the other."""
    left, right = (_x_of(seq, after, shown, axis) for seq, after in zip(between, (0, 1), strict=True))
    return Stretch(share(left), share(max(_THINNEST, right - left)), share(right))


def _x_of(seq: Seq, after: int, shown: Sequence[Bar], axis: Axis) -> float:
    """Returns where an event begins, or ends if `after` is 1."""
    number = max(0, bisect_right(shown, seq, key=_first) - 1)
    bar, left, right = shown[number], axis.lefts[number], axis.rights[number]
    share = (seq - bar.first + after) / (bar.last - bar.first + 1)
    return left + (right - left) * min(1.0, max(0.0, share))


def _first(bar: Bar) -> Seq:
    return bar.first
