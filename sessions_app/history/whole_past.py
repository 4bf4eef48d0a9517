"""Returns the change that each event of a session made, from which the state at any event can be rebuilt.

Folding the session's own deltas isn't enough: other sessions write `user:` and `app:` keys in between, ADK may have
merged a delta into the existing value, and the initial values may not be recorded.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Conflict
from ..domain.positions import Position, Seq, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, Scope, State, full_key, same, scope_of
from ..reads.event_views import events_of, ordered
from ..sources import database
from .index.query import consult, positions_of_keys
from .index.tables import is_shortened
from .moments import state_at
from .steps import changes_between

MOST_WRITES: Final = 20_000  # of one key, by other sessions too; a key that was written more often is left out
_SHARED: Final[tuple[Scope, ...]] = ("user", "app")


@dataclass(frozen=True, slots=True)
class WholePast:
    """The state before a session's first event, and what each event changed, by full key.

    A value may be UNKNOWN, and ABSENT after an event that removed its key. `changes` also has what was written
    elsewhere since the event before; `own` names the keys that the event itself wrote last.
    """

    start: State = field(default_factory=dict)
    changes: list[State] = field(default_factory=list)
    own: list[frozenset[str]] = field(default_factory=list)


def whole_past(ref: SessionRef, ids: Sequence[str], keys: Collection[str], *, actor: Actor) -> WholePast | None:
    """Returns the past of a session with these events, in their order; None if their order is unknown.

    `keys` are those that its events write. Raises Conflict if the events have changed by now, and what state_at raises.
    """
    actor.check_sees(ref)
    if not database.has_order(ref.source):
        return None
    if not ids:
        return WholePast()
    seqs = _seqs_of(ref, ids)
    positions = [position_of(seq) for seq in seqs]
    before = state_at(ref, ids[0], actor=actor, before=True).state.merged()
    last = state_at(ref, ids[-1], actor=actor).state.merged()
    own = {key for key in keys if scope_of(key)[0] in STORED}
    begun = before | {key: before.get(key, ABSENT) for key in (*own, *last, *_shared_keys(ref, positions))}
    first = Position(positions[0] - 1)
    written = changes_between(ref, begun, first, positions[-1], MOST_WRITES, actor=actor)
    past = WholePast(before, [{} for _id in ids], [frozenset()] * len(ids))
    for position, (event_id, values) in written.items():
        number = bisect_left(positions, position)
        past.changes[number].update(values)
        past.own[number] = past.own[number] - values.keys() | (values.keys() if event_id else frozenset())
    _end_with(past, last)
    if any(seq == following for seq, following in pairwise(seqs)):
        _tell_ties(past, ref, ids, seqs, actor)
    return past


def _seqs_of(ref: SessionRef, ids: Sequence[str]) -> list[Seq]:
    with database.using(ref.source):
        rows = list(ordered(events_of(ref), ref.source, newest=False).values_list("id", "seq")[: len(ids)])
    if [event_id for event_id, _seq in rows] != list(ids):
        raise Conflict(_("The session changed while it was being read. Try again."))
    return [seq for _id, seq in rows]


def _shared_keys(ref: SessionRef, positions: Sequence[Position]) -> list[str]:
    """Returns the shared keys that were written between the session's events."""
    kept = consult(ref.source, lambda: {scope: positions_of_keys(ref, scope, positions[-1]) for scope in _SHARED}, ref)
    return [
        full_key(scope, bare)
        for scope, keys in kept.items()
        for bare, each in keys.items()
        if each.last is not None and each.last >= positions[0] and not is_shortened(bare)
    ]


def _end_with(past: WholePast, last: State) -> None:
    """Corrects the value after a key's last write with the state after the last event, which knows what is stored."""
    newest = {key: number for number, values in enumerate(past.changes) for key in values}
    for key in past.start.keys() | last.keys() | newest.keys():
        number, value = newest.get(key, len(past.changes) - 1), last.get(key, ABSENT)
        if key in newest or not same(past.start.get(key, ABSENT), value):
            past.changes[number][key] = value


def _tell_ties(past: WholePast, ref: SessionRef, ids: Sequence[str], seqs: Sequence[Seq], actor: Actor) -> None:
    """Takes the state after events of the same moment from `state_at`: their order is unknown."""
    state = {key: value for key, value in past.start.items() if value is not ABSENT}
    given = dict(state)
    for number, values in enumerate(past.changes):
        state |= values
        tied = seqs[number] in (*seqs[max(0, number - 1) : number], *seqs[number + 1 : number + 2])
        after = state_at(ref, ids[number], actor=actor).state.merged() if tied else state
        for key in after.keys() | given.keys() | values.keys():
            value, before = after.get(key, ABSENT), given.get(key, ABSENT)
            if key in values or (value is not before and not same(before, value)):
                values[key] = value
        given |= values
