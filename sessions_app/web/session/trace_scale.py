"""The time axis of a trace: where a time stands, between 0 and 100, and the round times along it. Pure.

Where nobody worked for long, because somebody was waited for, the axis is folded, so that a second of work can be seen
beside two days of waiting.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Final

from ...domain.spans import MODEL, SUMMARY, TOOL, Trace

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


def scale_of(trace: Trace, end: float) -> Scale:
    """Returns the axis of a trace that is drawn until `end`."""
    end = max(end, trace.end, trace.start + SHORTEST)
    gaps = _idle(trace, end)
    edges = [trace.start, *chain.from_iterable(gaps), end]
    worked = sum(until - begin for begin, until in list(pairwise(edges))[::2])  # not end - start: floats lose the rest
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
    return 100.0
