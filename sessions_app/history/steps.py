"""Goes through the writes of some keys in order, and tells the values of all of them after each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..access.actor import Actor
from ..domain.positions import Position
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, State, scope_of
from . import beginnings, merging
from .chains import chain_of
from .index import consult, writes_between, writes_of
from .written import Written, written_at

_TOGETHER: Final = 100  # keys that are asked for by one statement


@dataclass(frozen=True, slots=True)
class Step:
    """An event that `wrote` some of the keys, and the values of all of them after it, by full key. `event_id` is empty if a
    session was created. `ref` may be another session if a key is shared.
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

    With None, begins with the session, and goes at least to its creation. Where nobody can tell a value, it is UNKNOWN.
    Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    begun = beginnings.begun(ref) if after is None else None
    if begun == beginnings.FOREVER:  # it has no event, and was created by something else than adkweb
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
    """Returns what was written after a position, up to another one: by position, the id of the session's event, or nothing
    for what was written elsewhere, and the values of the keys after it.

    `before` has all keys that are asked for, with their values at the first position. A key that was written more than
    `limit` times is UNKNOWN from its first write on, and again at the end. Raises Behind, SourceError.
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
    initial = beginnings.initial_state(ref, actor) if own else None
    return {name: UNKNOWN if initial is None else initial.get(name, ABSENT) for name in own}


def _folded(
    ref: SessionRef, name: str, positions: Sequence[Position], written: Mapping[Position, Written], before: Any
) -> dict[Position, Any]:
    """Returns the value of a key after each of its writes."""
    shared = scope_of(name)[0] != "session"
    writes = []
    for position in positions:
        own = own_part(written.get(position), ref, name)
        writes.append(own.write(position, name) if own else merging.Write(position, UNKNOWN, True))
    folded = merging.fold(writes, before, _reading(ref, writes), shared=shared)
    return {position: merging.certain(values) for position, values in folded.items()}


def own_part(written: Written | None, ref: SessionRef, name: str) -> Written | None:
    """Returns the part of a write that is known to have written a key; None if nobody can tell what it wrote, or when."""
    scope = scope_of(name)[0]
    own = written.within(ref, scope) if written else None
    return None if own is None or (own.imported and scope != "session") else own.by(name)


def _reading(ref: SessionRef, writes: Sequence[merging.Write]) -> merging.Reading:
    possible = merging.possible(ref.source)
    if possible != merging.EITHER or all(write.settles for write in writes):
        return possible
    return merging.reading(ref)


def value_at(ref: SessionRef, name: str, position: Position, actor: Actor) -> Any:
    """Returns a key's value just after a position."""
    scope, last = scope_of(name)[0], writes_of(ref, name, Position(position + 1), 1)
    if not last or (scope == "session" and last[0] < beginnings.begun(ref)):
        return beginnings.first_value(ref, name, actor)
    own = own_part(written_at(ref.source, last, actor).get(last[0]), ref, name)
    if own is None:
        return UNKNOWN
    if own.settles(name):
        return own.value(name)
    chain = chain_of(ref, name, last[0], last[0], actor=actor)
    begun = beginnings.first_value(ref, name, actor)
    folded = merging.fold(chain, begun, _reading(ref, chain), shared=scope != "session")
    return merging.certain(folded.get(last[0], (UNKNOWN,)))
