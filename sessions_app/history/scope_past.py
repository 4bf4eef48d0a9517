"""Works out the keys of one scope at a moment from their writes; UNKNOWN if a value can't be known."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ..access.actor import Actor
from ..domain.positions import Position
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Scope, State, full_key, same, scope_of, split
from ..reads.deltas import Writer
from . import adk_merge_bug
from .index.query import KeyPositions
from .index.tables import is_shortened, stored_key
from .index.written import Written, all_recorded, start_of
from .key_history import chain_of


class ScopePast:
    """Knows the past of one scope, up to a moment, from the writes of its keys.

    `now` is what is stored, `initial` what the session started with, `keys` where each key was written, and `written`
    what is there.
    """

    def __init__(
        self,
        ref: SessionRef,
        scope: Scope,
        now: State,
        initial: State | None,
        keys: Mapping[str, KeyPositions],
        written: Mapping[Position, Written],
        actor: Actor,
    ) -> None:
        self._ref, self._scope, self._now, self._actor = ref, scope, now, actor
        self._written = {position: own for position, each in written.items() if (own := each.within(ref, scope))}
        self._initial = None if initial is None else split(initial).session
        self._positions = {self._bare(kept, each): each for kept, each in keys.items()}
        self._possible = adk_merge_bug.possible(ref.source)

    def names(self) -> list[str]:
        """Returns every bare key that is stored, or was ever written."""
        initial = self._initial if self._scope == "session" else None
        return sorted({*self._positions, *self._now, *(initial or ())})

    def written_names(self) -> list[str]:
        """Returns every bare key that was ever written."""
        return sorted(self._positions)

    def since(self, bare: str) -> Position | None:
        """Returns the position of the last write of a key so far."""
        return self._positions[bare].last

    def value(self, bare: str) -> Any:
        """Returns a key's value at the moment: ABSENT for none, UNKNOWN if it can't be known."""
        key, name = self._positions.get(bare), full_key(self._scope, bare)
        if key and key.last is not None and not self._earlier(key.last):
            last = self._at(key.last, bare)
            if last is None or (last.imported and self._scope != "session"):
                return UNKNOWN  # its event was deleted, or was imported: it is unknown when it wrote
            now = self._now.get(bare, ABSENT)
            if key.next is not None:
                return last.value(name) if last.settles(name) else self._merged(bare, last, self._at(key.next, bare))
            return now if self._left(bare, last, now) else UNKNOWN
        value = self._before_any(bare, name, key)
        # If no event wrote it later and another value is stored, something other than an event wrote it.
        later = key is not None and key.next is not None
        return value if later or same(value, self._now.get(bare, ABSENT)) else UNKNOWN

    def written(self, bare: str) -> Any:
        """Returns the value that the last write of a key so far left; UNKNOWN if there is none."""
        last = self.last(bare)
        return UNKNOWN if last is None else adk_merge_bug.certain(self._values(bare, last, self._reading))

    def last(self, bare: str) -> Written | None:
        """Returns the last write of a key so far."""
        key = self._positions.get(bare)
        return self._at(key.last, bare) if key else None

    def is_tied(self, bare: str, position: Position, event_id: str) -> bool:
        """Returns whether another event wrote a key at the same position, so that it is unknown which came first."""
        key, last = self._positions.get(bare), self.last(bare)
        return bool(last and last.writer and key and key.last == position and last.writer.event_id != event_id)

    def may_be_merged(self, bare: str) -> bool:
        """Returns whether a key's last write so far leaves one value if it was merged, and another if it replaced."""
        last = self.last(bare)
        return (
            self._possible == adk_merge_bug.EITHER
            and last is not None
            and not last.settles(full_key(self._scope, bare))
        )

    def authors(self, state: State) -> tuple[dict[str, Writer], frozenset[str]]:
        """Returns who wrote these values, and which keys are unchanged since a session was created; by full key."""
        writers, initial = {}, set()
        for bare, value in state.items():
            name, last = full_key(self._scope, bare), self.last(bare)
            if last is None and same(value, self._begun_with(bare)):
                initial.add(name)
            elif last is not None and self._left(bare, last, value):
                if last.writer is None:
                    initial.add(name)
                else:
                    writers[name] = last.writer
        return writers, frozenset(initial)

    def otherwise(self) -> State:
        """Returns the value that was written last, by full key, of each key for which another one is stored.

        A key for which that can't be known is left out.
        """
        values = {}
        for bare in self.names():
            name, last = full_key(self._scope, bare), self.last(bare)
            if scope_of(name)[0] != self._scope:
                continue  # `user:x` in a session's own state: no event can write it
            stored = self._now.get(bare, ABSENT)
            if last is not None and (self._left(bare, last, stored) or (last.imported and self._scope != "session")):
                continue
            if last is not None:
                value = self.written(bare)
            else:
                value = (
                    self._initial.get(bare, ABSENT) if self._initial is not None and not self._wrote(bare) else UNKNOWN
                )
            # ADK for Java and Kotlin remove a key that an event sets to null.
            if value is not UNKNOWN and not same(value, stored) and not (value is None and stored is ABSENT):
                values[name] = value
        return values

    # --- What a write left ---------------------------------------------------------------------------------------------

    def _at(self, position: Position | None, bare: str) -> Written | None:
        written = self._written.get(position) if position is not None else None
        return written.by(full_key(self._scope, bare)) if written else None

    def _left(self, bare: str, last: Written, value: Any) -> bool:
        """Returns whether the last write of a key so far can have left this value, in a reading that is not ruled
        out."""
        if value is UNKNOWN:
            return False
        written = last.value(full_key(self._scope, bare))
        if self._possible != adk_merge_bug.MERGED and same(written, value):
            return True
        return adk_merge_bug.explains(self._values(bare, last, self._possible), written, value)

    def _merged(self, bare: str, last: Written, following: Written | None) -> Any:
        """Returns a key's value after its last write so far. The next write may have noted it."""
        noted = following.before(full_key(self._scope, bare)) if following else UNKNOWN
        if noted is not UNKNOWN and self._left(bare, last, noted):
            return noted
        return adk_merge_bug.certain(self._values(bare, last, self._reading))

    def _values(self, bare: str, last: Written, reading: adk_merge_bug.Reading) -> adk_merge_bug.Values:
        """Returns the values that a key may have after its last write so far."""
        name = full_key(self._scope, bare)
        if reading == adk_merge_bug.REPLACED or last.settles(name):
            return (last.value(name),)
        if bare not in self._chains:
            last_at = self._positions[bare].last or Position(0)
            self._chains[bare] = chain_of(self._ref, name, last_at, actor=self._actor)
        folded = adk_merge_bug.fold(self._chains[bare], self._start(bare), reading, shared=self._scope != "session")
        return folded.get(self._positions[bare].last or Position(0), (UNKNOWN,))

    @cached_property
    def _chains(self) -> dict[str, list[adk_merge_bug.Write]]:
        return {}

    @cached_property
    def _reading(self) -> adk_merge_bug.Reading:
        return adk_merge_bug.reading(self._ref)

    # --- What stood there before any write -----------------------------------------------------------------------------

    def _begun_with(self, bare: str) -> Any:
        """Returns the value of a session's key when it was created; ABSENT if that is not recorded."""
        return ABSENT if self._scope != "session" or self._initial is None else self._initial.get(bare, ABSENT)

    def _before_any(self, bare: str, name: str, key: KeyPositions | None) -> Any:
        """Returns the value before the first write of a key."""
        if self._scope == "session" and self._initial is not None:
            return self._initial.get(bare, ABSENT)
        if key is None:
            return self._now.get(bare, ABSENT) if self._scope == "session" else UNKNOWN
        following = self._at(key.next, bare)
        before = following.before(name) if following else UNKNOWN
        return ABSENT if before is UNKNOWN and self._all_recorded else before

    def _start(self, bare: str) -> Any:
        """Returns a key's value before any write of it; UNKNOWN if that is not recorded."""
        if self._scope == "session":
            return UNKNOWN if self._initial is None else self._initial.get(bare, ABSENT)
        return ABSENT if self._all_recorded else UNKNOWN

    def _wrote(self, bare: str) -> bool:
        """Returns whether anything may have written a key, even if it is gone. For a shared key, that can't be ruled
        out."""
        return self._scope != "session" or bare in self._positions

    @cached_property
    def _all_recorded(self) -> bool:
        return self._scope != "session" and all_recorded(self._ref, self._scope)

    def _earlier(self, position: Position) -> bool:
        """Returns whether a session's write belongs to an earlier session that had the same id and was deleted."""
        return self._scope == "session" and position not in self._written and position < self._begun

    @cached_property
    def _begun(self) -> Position:
        return start_of(self._ref)

    # --- How the index keeps keys --------------------------------------------------------------------------------------

    def _bare(self, kept: str, key: KeyPositions) -> str:
        """Returns the bare key from the form in which the index stores it."""
        if not is_shortened(kept):
            return kept
        for position in key[:2]:
            written = self._written.get(position) if position is not None else None
            for name in written.delta if written else ():
                scope, bare = scope_of(name)
                if scope == self._scope and stored_key(bare) == kept:
                    return bare
        return kept
