"""State at any event, every value that a key ever had, and what differs between two moments.

A session's own keys are written by its events only. `user:` and `app:` keys are written by other sessions, too, some of them
deleted by now, and by the initial state of sessions that ADK itself created, which nothing records: what therefore cannot
be known is UNKNOWN, and never guessed. Every answer reads first what is new in the source, and may raise Behind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.edit_note import edit_of
from ..domain.positions import NO_SEQ, Position, Seq, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, Change, Scope, Scoped, State, full_key, same, scope_of, split
from ..errors import NotFound
from ..reads import timeline, views
from ..reads.deltas import Writer
from ..reads.event_views import EventView, events_of, ordered
from ..sources import database
from . import beginnings, merging
from .chains import chain_of
from .index import MOST_PLACES, Places, consult, places, too_many
from .keeping import is_shortened, stored_key
from .written import Written, written_at


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a session's three scopes just after an event, or just before it; `event` is None for now.

    `state` has bare keys, UNKNOWN where nobody can say; `writers` and `initial`, the keys that stand since a session was
    created, full ones; `either`, those that are UNKNOWN because they may have been merged or replaced. `unrecorded` says
    that this session's initial state is not known. `otherwise`, only of now, has what was written last of the keys that are
    stored otherwise, by full key; drift.py says what of that is drift.
    """

    ref: SessionRef
    event: EventView | None
    seq: Seq
    state: Scoped
    writers: dict[str, Writer] = field(default_factory=dict)
    initial: frozenset[str] = frozenset()
    unrecorded: bool = False
    either: frozenset[str] = frozenset()
    otherwise: State = field(default_factory=dict)


# --- State ------------------------------------------------------------------------------------------------------------


def state_at(ref: SessionRef, event_id: str, *, actor: Actor, before: bool = False) -> Moment:
    """The state just after an event, or just before it. Raises NotFound for one that is gone."""
    event = timeline.event(ref, event_id, actor=actor)
    upto = Position(position_of(event.seq) - before) if event.seq is not None else beginnings.FOREVER
    return _state_upto(ref, event, upto, actor)


def made(event: EventView, *, actor: Actor) -> State:
    """What an event made of the stored keys of its delta, by full key: ABSENT where it removed one, UNKNOWN where its value
    may have been merged or not. Raises what state_at does.
    """
    delta, removed = event.description.delta, {*event.description.removed}
    values = {
        name: ABSENT if name in removed else value for name, value in delta.items() if scope_of(name)[0] in STORED
    }
    if merging.possible(event.ref.source) != merging.REPLACED and not edit_of(event.data):
        doubtful = [name for name, value in values.items() if merging.is_doubtful(value)]
        after = state_at(event.ref, event.id, actor=actor).state if doubtful else Scoped()
        values |= {name: after.get(name) for name in doubtful}
    return values


def state_at_place(ref: SessionRef, seq: Seq, *, actor: Actor) -> Moment:
    """The state just after the session's event at a place, or the nearest before it; raises NotFound for none."""
    actor.check_sees(ref)
    actor.check_sees(ref)
    with database.using(ref.source):
        event_id = ordered(events_of(ref).filter(seq__lte=seq), ref.source).values_list("id", flat=True).first()
    if event_id is None:
        raise NotFound(_("There is no event here; it may have been deleted."))
    return state_at(ref, event_id, actor=actor)


def state_now(ref: SessionRef, *, actor: Actor) -> Moment:
    """The state as it is stored, with who wrote it, as far as that is known."""
    actor.check_sees(ref)
    actor.check_sees(ref)
    database.get(ref.source)
    if not database.has_order(ref.source):
        return Moment(ref, None, NO_SEQ, views.session(ref, actor=actor).state, unrecorded=True)
    return _state_upto(ref, None, beginnings.FOREVER, actor)


def _state_upto(ref: SessionRef, event: EventView | None, upto: Position, actor: Actor) -> Moment:
    now = views.session(ref, actor=actor)  # before the projection: a key that is written meanwhile is then known to be
    wanted = consult(ref.source, lambda: {scope: places(ref, scope, upto) for scope in STORED}, ref)
    asked = {place for each in wanted.values() for found in each.values() for place in found[:2] if place is not None}
    if len(asked) > MOST_PLACES:
        raise too_many(MOST_PLACES // 2)
    written = written_at(ref.source, asked)
    state, initial, either = Scoped(), frozenset[str](), set[str]()
    writers: dict[str, Writer] = {}
    otherwise: State = {}
    for scope in STORED:
        told = _Scope(ref, scope, now.state.scope(scope), now.initial_state, wanted[scope], written)
        for bare in told.names():
            value = told.value(bare) if event else now.state.scope(scope).get(bare, ABSENT)
            if event and told.is_tied(bare, upto, event.id):
                value = UNKNOWN
            if value is not ABSENT:
                state.scope(scope)[bare] = value
            if value is UNKNOWN and told.may_be_merged(bare):
                either.add(full_key(scope, bare))
        wrote, began = told.authors(state.scope(scope))
        writers |= wrote
        initial |= began
        otherwise |= {} if event else told.otherwise()
    seq = event.seq or NO_SEQ if event else timeline.newest_seq(ref, actor=actor)
    return Moment(ref, event, seq, state, writers, initial, now.initial_state is None, frozenset(either), otherwise)


def authors(ref: SessionRef, scope: Scope, state: State, *, actor: Actor) -> tuple[dict[str, Writer], frozenset[str]]:
    """Who wrote the `user:` or `app:` keys that stand now, bare in `state`, and which stand since a session was created; by
    full key. Of `key` only what the scope is of matters; there may be no such session. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    found = consult(ref.source, lambda: places(ref, scope, beginnings.FOREVER))
    written = written_at(ref.source, {each.last for each in found.values() if each.last is not None})
    return _Scope(ref, scope, state, None, found, written).authors(state)


def written(ref: SessionRef, event: EventView, names: Collection[str], *, actor: Actor) -> State:
    """Returns what the events up to one make of these bare keys of the session, whatever is stored now; UNKNOWN for those
    that none of them wrote. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    if not names:
        return {}
    now = views.session(ref, actor=actor)
    upto = position_of(event.seq) if event.seq is not None else beginnings.FOREVER
    found = consult(ref.source, lambda: places(ref, "session", upto), ref)
    asked = {each.last for bare, each in found.items() if each.last is not None}
    told = _Scope(ref, "session", now.state.session, now.initial_state, found, written_at(ref.source, asked))
    return {name: told.written(name) for name in names}


def gone(ref: SessionRef, state: Mapping[str, Any], scopes: Collection[Scope] = STORED, *, actor: Actor) -> list[str]:
    """The full keys of these scopes that an event wrote once, and that are not in `state`; `key` as in `authors`. Raises
    Behind, Invalid for a source without places, SourceError.
    """
    actor.check_sees(ref)
    kept = consult(ref.source, lambda: {scope: places(ref, scope, beginnings.FOREVER) for scope in scopes})
    found = {
        scope: {name: each for name, each in some.items() if is_shortened(name) or full_key(scope, name) not in state}
        for scope, some in kept.items()
    }
    written = written_at(ref.source, {each.newest for some in found.values() for each in some.values()})
    names = set()
    for scope, some in found.items():
        told = _Scope(ref, scope, {}, None, some, written)
        names |= {full_key(scope, bare) for bare in told.names() if told.last(bare)}
    return sorted(names - state.keys())


class _Scope:
    """One scope as the writes of its keys tell it."""

    def __init__(
        self,
        ref: SessionRef,
        scope: Scope,
        now: State,
        initial: State | None,
        found: Mapping[str, Places],
        written: Mapping[Position, Written],
    ) -> None:
        self._ref, self._scope, self._now = ref, scope, now
        self._written = {place: own for place, each in written.items() if (own := each.within(ref, scope))}
        self._initial = None if initial is None else split(initial).session
        self._places = {self._bare(kept, each): each for kept, each in found.items()}
        self._possible = merging.possible(ref.source)

    def names(self) -> list[str]:
        """Every bare key that is stored, or was ever written."""
        initial = self._initial if self._scope == "session" else None
        return sorted({*self._places, *self._now, *(initial or ())})

    def begun_with(self, bare: str) -> Any:
        """The value of a session's key when it was created, ABSENT where that is not recorded."""
        return ABSENT if self._scope != "session" or self._initial is None else self._initial.get(bare, ABSENT)

    def last(self, bare: str) -> Written | None:
        """The last write of a key so far."""
        found = self._places.get(bare)
        return self._at(found.last, bare) if found else None

    def written(self, bare: str) -> Any:
        """Returns what the last write of a key so far made of it; UNKNOWN for none."""
        last = self.last(bare)
        return UNKNOWN if last is None else merging.certain(self._values(bare, last, self._reading))

    def _at(self, place: Position | None, bare: str) -> Written | None:
        written = self._written.get(place) if place is not None else None
        return written.by(full_key(self._scope, bare)) if written else None

    def is_tied(self, bare: str, place: Position, event_id: str) -> bool:
        """Whether another event than this one wrote a key at its place, before it or after it."""
        found, last = self._places.get(bare), self.last(bare)
        return bool(last and last.writer and found and found.last == place and last.writer.event_id != event_id)

    def authors(self, state: State) -> tuple[dict[str, Writer], frozenset[str]]:
        """Who wrote these values, and which keys stand since a session was created; by full key."""
        writers, initial = {}, set()
        for bare, value in state.items():
            name, last = full_key(self._scope, bare), self.last(bare)
            if last is None and same(value, self.begun_with(bare)):
                initial.add(name)
            elif last is not None and self._left(bare, last, value):
                if last.writer is None:
                    initial.add(name)
                else:
                    writers[name] = last.writer
        return writers, frozenset(initial)

    def otherwise(self) -> State:
        """By full key, the value that was written last, where another is stored now; nothing where nobody can say."""
        found = {}
        for bare in self.names():
            name, last = full_key(self._scope, bare), self.last(bare)
            if scope_of(name)[0] != self._scope:
                continue  # `user:x` in a session's own state, which no event reaches
            stored = self._now.get(bare, ABSENT)
            if last is not None and (self._left(bare, last, stored) or (last.imported and self._scope != "session")):
                continue
            if last is not None:
                value = self.written(bare)
            else:
                value = (
                    self._initial.get(bare, ABSENT) if self._initial is not None and not self._wrote(bare) else UNKNOWN
                )
            # ADK for Java and Kotlin take a key away that an event sets to null.
            if value is not UNKNOWN and not same(value, stored) and not (value is None and stored is ABSENT):
                found[name] = value
        return found

    def _wrote(self, bare: str) -> bool:
        """Whether anything is known to have written it, be it gone by now; of a key that is shared nobody could say."""
        return self._scope != "session" or bare in self._places

    def value(self, bare: str) -> Any:
        """A key's value so far: ABSENT for none, UNKNOWN where nobody can say."""
        found, name = self._places.get(bare), full_key(self._scope, bare)
        if found and found.last is not None and not self._earlier(found.last):
            last = self._at(found.last, bare)
            if last is None or (last.imported and self._scope != "session"):
                return UNKNOWN  # written by an event that was deleted, or nobody knows when
            now = self._now.get(bare, ABSENT)
            if found.next is not None:
                return last.value(name) if last.settles(name) else self._merged(bare, last, self._at(found.next, bare))
            return now if self._left(bare, last, now) else UNKNOWN
        value = self._before_any(bare, name, found)
        # Where nothing wrote it later and another value is stored, something wrote it that no event tells.
        later = found is not None and found.next is not None
        return value if later or same(value, self._now.get(bare, ABSENT)) else UNKNOWN

    def may_be_merged(self, bare: str) -> bool:
        """Whether a key's last write so far leaves another value where it was merged than where it replaced."""
        last = self.last(bare)
        return self._possible == merging.EITHER and last is not None and not last.settles(full_key(self._scope, bare))

    def _left(self, bare: str, last: Written, value: Any) -> bool:
        """Whether the last write of a key so far can have left this value, in any reading that is not ruled out."""
        if value is UNKNOWN:
            return False
        written = last.value(full_key(self._scope, bare))
        if self._possible != merging.MERGED and same(written, value):
            return True
        return merging.explains(self._values(bare, last, self._possible), written, value)

    def _merged(self, bare: str, last: Written, following: Written | None) -> Any:
        """A key's value after its last write so far, of which the next one may tell what stood there."""
        noted = following.before(full_key(self._scope, bare)) if following else UNKNOWN
        if noted is not UNKNOWN and self._left(bare, last, noted):
            return noted
        return merging.certain(self._values(bare, last, self._reading))

    def _values(self, bare: str, last: Written, reading: merging.Reading) -> merging.Values:
        """What a key may hold after its last write so far."""
        name = full_key(self._scope, bare)
        if reading == merging.REPLACED or last.settles(name):
            return (last.value(name),)
        if bare not in self._chains:
            self._chains[bare] = chain_of(self._ref, name, self._places[bare].last or Position(0))
        folded = merging.fold(self._chains[bare], self._start(bare), reading, shared=self._scope != "session")
        return folded.get(self._places[bare].last or Position(0), (UNKNOWN,))

    @cached_property
    def _chains(self) -> dict[str, list[merging.Write]]:
        return {}

    @cached_property
    def _reading(self) -> merging.Reading:
        return merging.reading(self._ref) if self._possible == merging.EITHER else self._possible

    def _start(self, bare: str) -> Any:
        """A key's value before the first write of it."""
        if self._scope == "session":
            return UNKNOWN if self._initial is None else self._initial.get(bare, ABSENT)
        return ABSENT if self._all_recorded else UNKNOWN

    def _before_any(self, bare: str, name: str, found: Places | None) -> Any:
        """The value before the first write of a key."""
        if self._scope == "session" and self._initial is not None:
            return self._initial.get(bare, ABSENT)
        if found is None:
            return self._now.get(bare, ABSENT) if self._scope == "session" else UNKNOWN
        following = self._at(found.next, bare)
        before = following.before(name) if following else UNKNOWN
        return ABSENT if before is UNKNOWN and self._all_recorded else before

    @cached_property
    def _begun(self) -> Position:
        return beginnings.begun(self._ref)

    @cached_property
    def _all_recorded(self) -> bool:
        return self._scope != "session" and beginnings.all_recorded(self._ref, self._scope)

    def _earlier(self, place: Position) -> bool:
        """Whether a session's write is of another session, which had the same id and was deleted."""
        return self._scope == "session" and place not in self._written and place < self._begun

    def _bare(self, kept: str, found: Places) -> str:
        """A bare key from what the projection keeps of it."""
        if not is_shortened(kept):
            return kept
        for place in found[:2]:
            written = self._written.get(place) if place is not None else None
            for name in written.delta if written else ():
                scope, bare = scope_of(name)
                if scope == self._scope and stored_key(bare) == kept:
                    return bare
        return kept


# --- Comparing --------------------------------------------------------------------------------------------------------


def compare(a: Moment, b: Moment) -> list[Change]:
    """What differs from one moment to another, by full key; what is UNKNOWN on either side is among it."""
    old, new = a.state.merged(), b.state.merged()
    found = []
    for name in sorted(old.keys() | new.keys()):
        change = Change(name, old.get(name, ABSENT), new.get(name, ABSENT))
        if UNKNOWN in (change.old, change.new) or not same(change.old, change.new):
            found.append(change)
    return found
