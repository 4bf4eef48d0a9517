"""Tells what some keys were along a session: the values that a small line for each of them is drawn from."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ..access.actor import Actor
from ..domain.positions import Position, Seq, position_of, seq_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, scope_of
from . import merging, steps
from .index import LastWrite, consult, last_writes
from .written import written_at

MOST: Final = 100  # values of a key


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a key, from an event on: its seq, and the number of the stretch in which that is. `elsewhere`: another
    session wrote it."""

    stretch: int
    seq: Seq
    value: Any
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class KeyPoints:
    """The values of a key in order, and the one `before` them. `writes` is how often it was written: if more often than
    there are points, only the last write of each of some stretches is among them."""

    before: Any
    points: list[Point]
    writes: int


def points_of(
    ref: SessionRef, names: Sequence[str], first: Seq, ends: Sequence[Seq], *, actor: Actor
) -> dict[str, KeyPoints]:
    """Returns the values of these full keys from an event on, at most MOST for each.

    `ends` are the seqs at which the stretches end into which that time is divided. What is never stored was never written.
    Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    begin, stored = Position(position_of(first) - 1), [name for name in names if scope_of(name)[0] in STORED]
    edges = [begin, *map(position_of, ends)]
    last = consult(ref.source, lambda: last_writes(ref, stored, list(pairwise(edges))), ref)
    before = {name: steps.value_at(ref, name, begin, actor) for name in stored}
    writes = {name: sum(each.writes for each in last[name]) for name in stored}
    few = {name: before[name] for name in stored if writes[name] <= MOST}
    points: dict[str, list[Point]] = {name: [] for name in names}
    for position, (event_id, values) in steps.changes_between(ref, few, begin, edges[-1], MOST, actor=actor).items():
        for name, value in values.items():
            points[name].append(_point(position, edges, value, elsewhere=not event_id))
    points |= _some(ref, {name: last[name] for name in stored if name not in few}, edges, actor)
    return {name: KeyPoints(before.get(name, ABSENT), points[name], writes.get(name, 0)) for name in names}


def _some(
    ref: SessionRef, many: dict[str, list[LastWrite]], edges: Sequence[Position], actor: Actor
) -> dict[str, list[Point]]:
    """Returns the values of keys that were written often. One that depends on the write before it is UNKNOWN."""
    asked: dict[str, list[Position]] = {}
    for name, last in many.items():
        positions = [each.position for each in last if each.position is not None]
        size = -(-len(positions) // MOST)
        asked[name] = positions[::-1][::size][::-1]  # the newest is among them
    written = written_at(ref.source, {each for some in asked.values() for each in some}, actor)
    reading = merging.possible(ref.source)
    if reading == merging.EITHER and not all(
        written[at].settles(name) for name in asked for at in asked[name] if at in written
    ):
        reading = merging.reading(ref)
    points: dict[str, list[Point]] = {}
    for name, some in asked.items():
        points[name] = []
        for position in some:
            own = steps.own_part(written.get(position), ref, name)
            certain = own and (own.settles(name) or seq_of(position) >= reading.replaced_from)
            value = own.value(name) if own and certain else UNKNOWN
            points[name].append(_point(position, edges, value, elsewhere=own is not None and own.ref != ref))
    return points


def _point(position: Position, edges: Sequence[Position], value: Any, *, elsewhere: bool) -> Point:
    stretch = min(len(edges) - 2, max(0, bisect_left(edges, position) - 1))
    return Point(stretch, seq_of(position), value, elsewhere)
