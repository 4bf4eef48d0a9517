"""Goes through the writes of some keys in order, and returns the values of all of them after each."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ..access.actor import Actor
from ..domain.positions import NO_SEQ, Position, Seq, position_of, seq_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, Scope, State, full_key, scope_of
from ..reads import views
from ..reads.deltas import Writer
from ..reads.event_views import EventView
from . import adk_merge_bug
from .index.query import (
    KeyPositions,
    LastWrite,
    consult,
    highlights,
    last_writes,
    positions_of_keys,
    writes_between,
    writes_of,
)
from .index.tables import is_shortened
from .index.written import FOREVER, Written, first_value, initial_state, start_of, written_at
from .key_history import chain_of
from .overview import ERROR, STATE
from .scope_past import ScopePast

# --- The values of some keys along a session --------------------------------------------------------------------------

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

    `ends` are the seqs at which the stretches of that time end. Keys that are never stored were never written. Raises
    Behind, SourceError.
    """
    actor.check_sees(ref)
    begin, stored = Position(position_of(first) - 1), [name for name in names if scope_of(name)[0] in STORED]
    edges = [begin, *map(position_of, ends)]
    last = consult(ref.source, lambda: last_writes(ref, stored, list(pairwise(edges))), ref)
    before = {name: value_at(ref, name, begin, actor) for name in stored}
    writes = {name: sum(each.writes for each in last[name]) for name in stored}
    few = {name: before[name] for name in stored if writes[name] <= MOST}
    points: dict[str, list[Point]] = {name: [] for name in names}
    for position, (event_id, values) in changes_between(ref, few, begin, edges[-1], MOST, actor=actor).items():
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
    settled = all(written[at].settles(name) for name in asked for at in asked[name] if at in written)
    reading = adk_merge_bug.possible(ref.source) if settled else adk_merge_bug.reading(ref)
    points: dict[str, list[Point]] = {}
    for name, some in asked.items():
        points[name] = []
        for position in some:
            own = own_part(written.get(position), ref, name)
            certain = own and (own.settles(name) or seq_of(position) >= reading.replaced_from)
            value = own.value(name) if own and certain else UNKNOWN
            points[name].append(_point(position, edges, value, elsewhere=own is not None and own.ref != ref))
    return points


def _point(position: Position, edges: Sequence[Position], value: Any, *, elsewhere: bool) -> Point:
    stretch = min(len(edges) - 2, max(0, bisect_left(edges, position) - 1))
    return Point(stretch, seq_of(position), value, elsewhere)


# --- From one event to the next ---------------------------------------------------------------------------------------

_TOGETHER: Final = 100  # keys that are asked for by one statement


@dataclass(frozen=True, slots=True)
class Step:
    """An event that `wrote` some of the keys, and the values of all of them after it, by full key. `event_id` is empty
    if a session was created. `ref` may be another session if a key is shared.
    """

    position: Position
    ref: SessionRef
    event_id: str
    timestamp: float
    wrote: frozenset[str] = frozenset()
    values: State = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Steps:
    """Some writes in order, and the values before the first of them. Beyond `upto`, there may be `more`.

    `begun` is the position at which the session was created, if it was gone through from there.
    """

    upto: Position
    more: bool = False
    begun: Position | None = None
    start: State = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def steps_of(
    ref: SessionRef, names: Sequence[str], after: Position | None, until: Position, limit: int, *, actor: Actor
) -> Steps:
    """Returns the first writes of these full keys after a position, up to another one; at most `limit`.

    With None, starts with the session, and goes at least to its creation. A value that can't be known is UNKNOWN.
    Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    begun = start_of(ref) if after is None else None
    if begun == FOREVER:  # it has no event, and something other than adkweb created it
        return Steps(until, begun=begun)
    first = Position(begun - 1) if begun is not None else after or Position(0)
    until = max(until, begun or until)
    each = consult(ref.source, lambda: writes_between(ref, names, first, until, limit + 1), ref)
    known = min((some[-1] for some in each.values() if len(some) > limit), default=until)  # beyond, some are not read
    order = sorted({position for some in each.values() for position in some if position <= known})
    more, order = len(order) > limit, order[:limit]
    if not order:
        return Steps(until, begun=begun)
    values = _begun_with(ref, names, actor) if begun is not None else {}
    values |= {name: value_at(ref, name, first, actor) for name in names if name not in values}
    written = written_at(ref.source, order, actor)
    later = {
        name: _folded(ref, name, [at for at in some if at <= order[-1]], written, values[name])
        for name, some in each.items()
    }
    start, steps = dict(values), []
    for position in order:
        now = {name: some[position] for name, some in later.items() if position in some}
        values |= now
        if one := written.get(position):
            steps.append(Step(position, one.ref, one.event_id, one.timestamp, frozenset(now), dict(values)))
    return Steps(order[-1] if more else until, more, begun, start, steps)


def changes_between(
    ref: SessionRef, before: State, after: Position, until: Position, limit: int, *, actor: Actor
) -> dict[Position, tuple[str, State]]:
    """Returns what was written after a position, up to another one: by position, the id of the session's event, or ""
    for what was written elsewhere, and the values of the keys after it.

    `before` has all requested keys, with their values at the first position. A key that was written more than `limit`
    times is UNKNOWN from its first write on, and again at the end. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    names = sorted(before)
    each: dict[str, list[Position]] = {}
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        each |= consult(ref.source, lambda some=some: writes_between(ref, some, after, until, limit + 1), ref)  # type: ignore[misc]
    many = {name: positions[0] for name, positions in each.items() if len(positions) > limit}
    told = {name: positions for name, positions in each.items() if name not in many}
    written = written_at(ref.source, {position for positions in told.values() for position in positions}, actor)
    changes: dict[Position, tuple[str, State]] = {}
    for name, positions in told.items():
        for position, value in _folded(ref, name, positions, written, before[name]).items():
            one = written.get(position)
            event_id = one.event_id if one and one.ref == ref else ""
            changes.setdefault(position, (event_id, {}))[1][name] = value
    for name, first in many.items():
        for position in (first, until):
            changes.setdefault(position, ("", {}))[1][name] = UNKNOWN
    return dict(sorted(changes.items()))


def _begun_with(ref: SessionRef, names: Sequence[str], actor: Actor) -> State:
    """Returns the values of those of these keys that only the session itself writes, as it was created."""
    own = [name for name in names if scope_of(name)[0] == "session"]
    initial = initial_state(ref, actor) if own else None
    return {name: UNKNOWN if initial is None else initial.get(name, ABSENT) for name in own}


def _folded(
    ref: SessionRef, name: str, positions: Sequence[Position], written: Mapping[Position, Written], before: Any
) -> dict[Position, Any]:
    """Returns the value of a key after each of its writes."""
    shared = scope_of(name)[0] != "session"
    writes = []
    for position in positions:
        own = own_part(written.get(position), ref, name)
        writes.append(own.write(position, name) if own else adk_merge_bug.Write(position, UNKNOWN, True))
    return adk_merge_bug.folded(ref, writes, before, shared=shared)


def own_part(written: Written | None, ref: SessionRef, name: str) -> Written | None:
    """Returns the part of a write that is known to have written a key; None if it is unknown what it wrote, or when."""
    scope = scope_of(name)[0]
    own = written.within(ref, scope) if written else None
    return None if own is None or (own.imported and scope != "session") else own.by(name)


def value_at(ref: SessionRef, name: str, position: Position, actor: Actor) -> Any:
    """Returns a key's value just after a position."""
    scope, last = scope_of(name)[0], writes_of(ref, name, Position(position + 1), 1)
    if not last or (scope == "session" and last[0] < start_of(ref)):
        return first_value(ref, name, actor)
    own = own_part(written_at(ref.source, last, actor).get(last[0]), ref, name)
    if own is None:
        return UNKNOWN
    if own.settles(name):
        return own.value(name)
    chain = chain_of(ref, name, last[0], last[0], actor=actor)
    begun = first_value(ref, name, actor)
    return adk_merge_bug.folded(ref, chain, begun, shared=scope != "session").get(last[0], UNKNOWN)


MOST_WRITES: Final = 1_000  # of a stretch


class Held(NamedTuple):
    """A key's value after an event and before it, who wrote it (None if unknown), and whether it is unchanged since the
    session was created. `own` says that this event wrote it."""

    value: Any
    before: Any
    writer: Writer | None
    initial: bool
    own: bool


def changes_along(ref: SessionRef, events: Sequence[EventView], *, actor: Actor) -> list[dict[str, Held]] | None:
    """Returns what was written between each of these consecutive events and the one before it, by full key.

    For the first event, where the stretch starts, it has all keys that are written later in the stretch. Returns None
    for more than MOST_WRITES writes, and for keys that are too long for the index. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    at = [position_of(event.seq or NO_SEQ) for event in events]
    now = views.session(ref, actor=actor)
    changes: list[dict[str, Held]] = [{} for _event in events]
    for scope in STORED:
        rows = consult(ref.source, lambda scope=scope: _segments(ref, scope, at[0], at[-1]), ref)  # type: ignore[misc]
        asked = {position for each in rows for key in each.values() for position in key[:2] if position is not None}
        if len(asked) > MOST_WRITES or any(is_shortened(kept) for each in rows for kept in each):
            return None
        written = written_at(ref.source, asked, actor)
        before: dict[str, Any] = {}
        for keys in rows:
            past = ScopePast(ref, scope, now.state.scope(scope), now.initial_state, keys, written, actor)
            values = {bare: past.value(bare) for bare in past.written_names()}
            writers, initial = past.authors({bare: value for bare, value in values.items() if value is not ABSENT})
            for bare, value in values.items():
                name, since = full_key(scope, bare), past.since(bare)
                index = 0 if since is None else bisect_left(at, since)
                own = since == at[index]
                changes[index][name] = Held(
                    *(value, before.get(bare, ABSENT), writers.get(name), name in initial, own and index > 0)
                )
            before |= values
    return changes


def kinds_along(ref: SessionRef, events: Sequence[EventView], *, actor: Actor) -> list[frozenset[str]]:
    """Returns for each of these events whether it changed state (STATE), and whether it is an ERROR."""
    actor.check_sees(ref)
    seqs = [event.seq or NO_SEQ for event in events]
    kinds: dict[Seq, set[str]] = {seq: set() for seq in seqs}
    for each in highlights(ref, (STATE, ERROR), after=Seq(seqs[0] - 1), upto=seqs[-1]):
        kinds.setdefault(each.seq, set()).add(each.kind)
    return [frozenset(kinds[seq]) for seq in seqs]


def _segments(ref: SessionRef, scope: Scope, first: Position, last: Position) -> list[dict[str, KeyPositions]]:
    """Returns for each key that is written after a position, up to another one, the sources of its value: its value at
    the first position, then after its first write, after its second one, and so on; each in a dictionary by key."""
    begin, end = positions_of_keys(ref, scope, first), positions_of_keys(ref, scope, last)
    names = {full_key(scope, kept): kept for kept, key in end.items() if key.last is not None and key.last > first}
    segments: list[dict[str, KeyPositions]] = []
    for name, writes in writes_between(ref, list(names), first, last, MOST_WRITES + 1).items():
        kept = names[name]
        lasts = [begin[kept].last if kept in begin else None, *writes]
        for number, (since, until) in enumerate(zip(lasts, [*writes, end[kept].next], strict=True)):
            if number == len(segments):
                segments.append({})
            segments[number][kept] = KeyPositions(since, until, end[kept].newest)
    return segments
