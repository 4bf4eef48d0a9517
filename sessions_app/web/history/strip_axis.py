"""The time axis of the strip: where what happened stands, between 0 and 100. Pure.

Time in which somebody worked is wide in proportion to it. Time between is, too, unless it is long: then it is folded, and
the longest of these gaps are named.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median, median_low
from typing import Final

NAMED: Final = 5  # gaps at most
NAMED_WIDTH: Final = 6.0  # of 100, with its words
SHORTEST_NAMED: Final = 60.0  # seconds
_PAUSES: Final = 0.5  # of the work, so much all gaps that are not named take together
_OUTSTANDING: Final = 4  # a gap is named that is so many times as long as others
_LEAST: Final = 0.4  # of 100, so that what took no time can be seen
_ALL_LEAST: Final = 40.0  # of 100, which that takes for all at most


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened: from when to when, for how many of these seconds somebody worked, and the seconds before it
    in which nobody did."""

    begin: float
    end: float
    worked: float
    gap: float


@dataclass(frozen=True, slots=True)
class Fold:
    """A gap that is named, before a step."""

    step: int
    left: float
    right: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Label:
    """A gap that is named."""

    x: str
    width: str
    seconds: float
    waited: bool

    @property
    def days(self) -> int:
        """Returns how many days it is; 0 for less than one."""
        return round(self.seconds / 86_400) if self.seconds >= 86_400 else 0


@dataclass(frozen=True, slots=True)
class Axis:
    """Where the steps stand, each from its left to its right, and the gaps that are named."""

    steps: Sequence[Step]
    lefts: list[float]
    rights: list[float]
    folds: list[Fold]

    def x(self, at: float) -> float:
        """Returns where a time stands. What is in no step stands where the next one begins."""
        number = self.step_at(at)
        step, left, right = self.steps[number], self.lefts[number], self.rights[number]
        share = (at - step.begin) / (step.end - step.begin) if step.end > step.begin else 1.0
        return left + (right - left) * min(1.0, max(0.0, share))

    def step_at(self, at: float) -> int:
        """Returns the number of the step in which a time is, or else of the next one; of the last one for what comes
        later."""
        return min(bisect_left(self.steps, at, key=_end), len(self.steps) - 1)


def axis_of(steps: Sequence[Step]) -> Axis:
    """Returns the axis of at least one step. They are in order, and do not overlap."""
    work = sum(step.worked for step in steps)
    gaps = [number for number, step in enumerate(steps) if step.gap > 0 and number]
    limit = work * _PAUSES / max(1, len(gaps))
    named = _named(steps, [number for number in gaps if steps[number].gap > limit])
    pauses = [0.0 if n in named or n not in set(gaps) else min(step.gap, limit) for n, step in enumerate(steps)]
    least = min(_LEAST, _ALL_LEAST / len(steps))
    room = 100 - NAMED_WIDTH * len(named) - least * len(steps) - least / 2 * len(gaps)
    scale = room / (work + sum(pauses)) if work else 0.0
    if not work:  # nothing took any time: all are alike
        least = (100 - NAMED_WIDTH * len(named)) / (len(steps) + len(gaps) / 2)
    befores = [
        (NAMED_WIDTH if number in named else pauses[number] * scale) + (least / 2 if step.gap > 0 and number else 0.0)
        for number, step in enumerate(steps)
    ]
    widths = [least + step.worked * scale for step in steps]
    edges = [
        min(each, 100.0) for each in accumulate(each for pair in zip(befores, widths, strict=True) for each in pair)
    ]
    lefts, rights = edges[::2], edges[1::2]
    folds = [Fold(number, rights[number - 1], lefts[number], steps[number].gap) for number in sorted(named)]
    return Axis(steps, lefts, rights, folds)


def axis_of_times(times: Sequence[float], until: float) -> tuple[list[float], list[Fold]]:
    """Returns where some times stand, in order, and `until`. Each lasts until the next, and is as wide as it is long. What
    lasts much longer than others is folded at its end: a fold is before the next time, and says how long all of it is."""
    lasts = [max(0.0, end - begin) for begin, end in pairwise([*times, until])]
    long = _OUTSTANDING * median_low([each for each in lasts if each] or [0.0])
    folded = {number for number, each in enumerate(lasts) if each - long > max(long, SHORTEST_NAMED)}
    widths = [long if number in folded else each for number, each in enumerate(lasts)]
    of_fold = min(NAMED_WIDTH, _ALL_LEAST / max(1, len(folded)))
    least = min(_LEAST, _ALL_LEAST / len(widths))
    room = 100 - of_fold * len(folded) - least * len(widths)
    if not any(widths):  # nothing took any time: all are alike
        widths = [1.0] * len(widths)
    scale = room / sum(widths)
    wide = [least + each * scale + of_fold * (number in folded) for number, each in enumerate(widths)]
    edges = [*accumulate(wide[:-1], initial=0.0), 100.0]
    return edges, [Fold(n + 1, edges[n + 1] - of_fold, edges[n + 1], lasts[n]) for n in sorted(folded)]


def _named(steps: Sequence[Step], long: Sequence[int]) -> set[int]:
    """Returns the numbers of the steps before which a gap is named: the longest, if they are much longer than others."""
    usual = median(steps[number].gap for number in long) if len(long) > NAMED else 0.0
    least = max(SHORTEST_NAMED, usual * _OUTSTANDING)
    longest = sorted(long, key=lambda number: -steps[number].gap)[:NAMED]
    return {number for number in longest if steps[number].gap >= least}


def _end(step: Step) -> float:
    return step.end


def label(fold: Fold, waited: bool = False) -> Label:
    """Returns a gap as it is drawn."""
    return Label(share(fold.left), share(fold.right - fold.left), fold.seconds, waited)


def share(of_100: float) -> str:
    """Returns where something stands, as an attribute of SVG."""
    return f"{of_100:.3f}%"
