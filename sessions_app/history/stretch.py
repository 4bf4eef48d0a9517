"""Tells how the state changed from one event of a session to the next, for a stretch of events read at once.

It says what `moments.state_at` would say after each of them, one by one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..access.actor import Actor
from ..domain.positions import NO_SEQ, Position, Seq, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, Scope, full_key
from ..reads import views
from ..reads.deltas import Writer
from ..reads.event_views import EventView
from .index import KeyPositions, consult, highlights, positions_of_keys, writes_between
from .keeping import is_shortened
from .overview import ERROR, STATE
from .scope_past import ScopePast
from .written import written_at

MOST_WRITES: Final = 1_000  # of a stretch


class Held(NamedTuple):
    """Holds a key's value after an event and before it, who wrote it, None if nobody knows, and whether it stands since
    the session was created. `own` says that this event wrote it."""

    value: Any
    before: Any
    writer: Writer | None
    initial: bool
    own: bool


def changes_along(ref: SessionRef, events: Sequence[EventView], *, actor: Actor) -> list[dict[str, Held]] | None:
    """Returns what was written between each of these consecutive events and the one before it, by full key.

    Of the first event, which is where the stretch begins, it has all keys that are written later in the stretch. Returns
    None for more than MOST_WRITES writes, and for keys that are too long for the index. Raises Behind, SourceError.
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
    """Returns for each key that is written after a position, up to another one, where its value comes from: what it has at
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
