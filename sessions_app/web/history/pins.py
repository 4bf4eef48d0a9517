"""The keys that are pinned to the strip, ?pin=<key>: a small line for each beneath it, on the same axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from django.http import HttpRequest

from ...access.actor import Actor
from ...domain.json_values import KEY_LENGTH
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, Scope, scope_of
from ...history.overview import Bar
from ...history.steps import KeyPoints, Point, points_of
from .history import finite
from .strip_axis import Axis

MOST: Final = 5  # keys
WIDTH: Final = 1_000  # of a number's line, in its own units
HEIGHT: Final = 13
_END: Final = 100.0  # of the axis
_THINNEST: Final = 0.3  # of 100, for a value that lasted no time


@dataclass(frozen=True, slots=True)
class PinnedValue:
    """A value in words: where it begins on the axis, from which seq on, in which event or events, and what it is. `event` is
    0 for the value before the first event."""

    x: str
    seq: int
    value: Any
    event: int = 0
    last_event: int = 0
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """How long a value lasted that is no number."""

    css: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class PinnedLine:
    """A key as it is drawn: the stretches of a line if it is a number, else bands. `drawn` of its `writes` are shown."""

    key: str
    scope: Scope
    values: list[PinnedValue]
    stretches: list[str]
    bands: list[Band]
    drawn: int
    writes: int
    width: int = WIDTH
    height: int = HEIGHT


def pinned(request: HttpRequest) -> list[str]:
    """Returns the keys that an address names: the first MOST of them, each once."""
    names = (name for name in request.GET.getlist("pin") if 0 < len(name) <= KEY_LENGTH)
    return list(dict.fromkeys(names))[:MOST]


def pinned_lines(
    ref: SessionRef, names: Sequence[str], shown: Sequence[Bar], axis: Axis, who: Actor
) -> list[PinnedLine]:
    """Returns the lines of some keys, along the bars of a strip. Raises Behind, SourceError."""
    if not names:
        return []
    points: Mapping[str, KeyPoints] = points_of(ref, names, shown[0].first, [bar.last for bar in shown], actor=who)
    return [_line(name, points[name], shown, axis) for name in names]


def _line(name: str, of_key: KeyPoints, shown: Sequence[Bar], axis: Axis) -> PinnedLine:
    placed = [(0.0, PinnedValue("0", 0, of_key.before)), *(_placed(point, shown, axis) for point in of_key.points)]
    numbers = [finite(each.value) for _x, each in placed]
    values = [each.value for _x, each in placed]
    is_number = any(number is not None for number in numbers) and all(
        number is not None or value is ABSENT or value is UNKNOWN for number, value in zip(numbers, values, strict=True)
    )
    xs = [x for x, _each in placed]
    return PinnedLine(
        name,
        scope_of(name)[0],
        [each for _x, each in placed],
        _stretches(xs, numbers) if is_number else [],
        [] if is_number else _bands(xs, values),
        len(of_key.points),
        of_key.writes,
    )


def _placed(point: Point, shown: Sequence[Bar], axis: Axis) -> tuple[float, PinnedValue]:
    """Returns where a value begins, in the middle of its bar as the cursor stands there, and the value in words."""
    bar = shown[point.stretch]
    x = (axis.lefts[point.stretch] + axis.rights[point.stretch]) / 2
    return x, PinnedValue(
        f"{x:.3f}", point.seq, point.value, bar.number, bar.number + bar.events - 1, elsewhere=point.elsewhere
    )


def _stretches(xs: Sequence[float], numbers: Sequence[float | None]) -> list[str]:
    """Returns a number as steps: the points of each stretch in which it is known."""
    known = [number for number in numbers if number is not None]
    low, high = min(known), max(known)
    span = high / 2 - low / 2  # halved first, so that no difference overflows
    stretches: list[list[str]] = [[]]
    for (x, end), number in zip(pairwise([*xs, _END]), numbers, strict=True):
        if number is None:
            stretches.append([])
            continue
        y = f"{HEIGHT * (1 - ((number / 2 - low / 2) / span if span else 0.5)):.1f}"
        stretches[-1] += [f"{x * WIDTH / 100:.1f},{y}", f"{end * WIDTH / 100:.1f},{y}"]
    return [" ".join(points) for points in stretches if points]


def _bands(xs: Sequence[float], values: Sequence[Any]) -> list[Band]:
    """Returns from where to where each value lasted, but for a key that was not there."""
    return [
        Band(
            "unknown" if value is UNKNOWN else "odd" if number % 2 else "even",
            f"{x:.3f}%",
            f"{max(_THINNEST, end - x):.3f}%",
        )
        for number, ((x, end), value) in enumerate(zip(pairwise([*xs, _END]), values, strict=True))
        if value is not ABSENT
    ]
