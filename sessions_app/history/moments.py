"""Works out the state at any event, and the differences between two moments.

Only a session's own events write its own keys. `user:` and `app:` keys are also written by other sessions, of which
some are deleted by now, and by the initial state of sessions that ADK itself created, which nothing records. What
cannot be known is UNKNOWN, and never guessed. Each answer first reads what is new in the source, and may raise Behind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.edit_note import edit_of
from ..domain.errors import NotFound
from ..domain.positions import NO_SEQ, Position, Seq, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, Change, Scope, Scoped, State, differs, full_key, same, scope_of
from ..reads import timeline, views
from ..reads.deltas import Writer
from ..reads.event_views import EventView, events_of, ordered
from ..sources import database
from . import adk_merge_bug
from .index.query import MOST_POSITIONS, consult, positions_of_keys, too_many
from .index.tables import is_shortened
from .index.written import FOREVER, written_at
from .scope_past import ScopePast


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a session's three scopes just after an event, or just before it; `event` is None for now.

    `state` has bare keys, UNKNOWN if a value can't be known. So has `now`, which is what is stored. The other fields have
    full keys. `writers` has the event that wrote a key. `initial` has the keys that are unchanged since a session was
    created. `either` has those that are UNKNOWN because they may have been merged or replaced. With `unrecorded`, this
    session's initial state is unknown. `otherwise` is set only for now: the last written value of each key that has another
    stored value; drift.py decides which of these are drift.
    """

    ref: SessionRef
    event: EventView | None
    seq: Seq
    state: Scoped
    now: Scoped
    writers: dict[str, Writer] = field(default_factory=dict)
    initial: frozenset[str] = frozenset()
    unrecorded: bool = False
    either: frozenset[str] = frozenset()
    otherwise: State = field(default_factory=dict)


# --- State ------------------------------------------------------------------------------------------------------------


def state_at(ref: SessionRef, event_id: str, *, actor: Actor, before: bool = False) -> Moment:
    """Returns the state just after an event, or just before it. Raises NotFound if the event is gone."""
    event = timeline.event(ref, event_id, actor=actor)
    upto = Position(position_of(event.seq) - before) if event.seq is not None else FOREVER
    return _state_upto(ref, event, upto, actor)


def made(event: EventView, *, actor: Actor) -> State:
    """Returns the values of an event's stored keys after it, by full key.

    A key that it removed is ABSENT. If it is unknown whether the value was merged or replaced, it is UNKNOWN. Raises
    what state_at does.
    """
    delta, removed = event.description.delta, {*event.description.removed}
    values = {
        name: ABSENT if name in removed else value for name, value in delta.items() if scope_of(name)[0] in STORED
    }
    if adk_merge_bug.may_merge(event.ref.source) and not edit_of(event.data):
        doubtful = [name for name, value in values.items() if adk_merge_bug.is_doubtful(value)]
        after = state_at(event.ref, event.id, actor=actor).state if doubtful else Scoped()
        values |= {name: after.get(name) for name in doubtful}
    return values


def state_at_seq(ref: SessionRef, seq: Seq, *, actor: Actor) -> Moment:
    """Returns the state just after the session's event with this seq, or after the nearest one before it.

    Raises NotFound if there is none.
    """
    actor.check_sees(ref)
    with database.using(ref.source):
        event_id = ordered(events_of(ref).filter(seq__lte=seq), ref.source).values_list("id", flat=True).first()
    if event_id is None:
        raise NotFound(_("There's no such event here. It may have been deleted."))
    return state_at(ref, event_id, actor=actor)


def state_now(ref: SessionRef, *, actor: Actor) -> Moment:
    """Returns the state as it is stored, with its writers, as far as they are known."""
    actor.check_sees(ref)
    database.get(ref.source)
    if not database.has_order(ref.source):
        now = views.session(ref, actor=actor).state
        return Moment(ref, None, NO_SEQ, now, now, unrecorded=True)
    return _state_upto(ref, None, FOREVER, actor)


def _state_upto(ref: SessionRef, event: EventView | None, upto: Position, actor: Actor) -> Moment:
    now = views.session(
        ref, actor=actor
    )  # read before the index, so that the index knows what is written in the meantime
    wanted = consult(ref.source, lambda: {scope: positions_of_keys(ref, scope, upto) for scope in STORED}, ref)
    asked = {
        position for each in wanted.values() for key in each.values() for position in key[:2] if position is not None
    }
    if len(asked) > MOST_POSITIONS:
        raise too_many(MOST_POSITIONS // 2)
    written = written_at(ref.source, asked, actor)
    state, initial, either = Scoped(), frozenset[str](), set[str]()
    writers: dict[str, Writer] = {}
    otherwise: State = {}
    for scope in STORED:
        told = ScopePast(ref, scope, now.state.scope(scope), now.initial_state, wanted[scope], written, actor)
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
    unrecorded = now.initial_state is None
    return Moment(ref, event, seq, state, now.state, writers, initial, unrecorded, frozenset(either), otherwise)


def authors(ref: SessionRef, scope: Scope, state: State, *, actor: Actor) -> tuple[dict[str, Writer], frozenset[str]]:
    """Returns who wrote the keys of a shared scope, and which of them are unchanged since a session was created.

    `state` has the current bare keys; the answer has full keys. Only the owner in `ref` matters: the session need not
    exist. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    keys = consult(ref.source, lambda: positions_of_keys(ref, scope, FOREVER))
    written = written_at(ref.source, {each.last for each in keys.values() if each.last is not None}, actor)
    return ScopePast(ref, scope, state, None, keys, written, actor).authors(state)


def written(ref: SessionRef, event: EventView, names: Collection[str], *, actor: Actor) -> State:
    """Returns the values of these bare keys of the session from the events up to one, whatever is stored now.

    A key that none of them wrote is UNKNOWN. Raises Behind, SourceError.
    """
    actor.check_sees(ref)
    if not names:
        return {}
    now = views.session(ref, actor=actor)
    upto = position_of(event.seq) if event.seq is not None else FOREVER
    keys = consult(ref.source, lambda: positions_of_keys(ref, "session", upto), ref)
    asked = {each.last for bare, each in keys.items() if each.last is not None}
    written = written_at(ref.source, asked, actor)
    told = ScopePast(ref, "session", now.state.session, now.initial_state, keys, written, actor)
    return {name: told.written(name) for name in names}


def gone(ref: SessionRef, state: Mapping[str, Any], scopes: Collection[Scope] = STORED, *, actor: Actor) -> list[str]:
    """Returns the full keys of these scopes that an event wrote once, and that are not in `state`.

    Of `ref`, only the owner of each scope matters. Raises Behind, SourceError, and Invalid if events have no order.
    """
    actor.check_sees(ref)
    kept = consult(ref.source, lambda: {scope: positions_of_keys(ref, scope, FOREVER) for scope in scopes})
    wanted = {
        scope: {name: each for name, each in some.items() if is_shortened(name) or full_key(scope, name) not in state}
        for scope, some in kept.items()
    }
    written = written_at(ref.source, {each.newest for some in wanted.values() for each in some.values()}, actor)
    names = set()
    for scope, some in wanted.items():
        told = ScopePast(ref, scope, {}, None, some, written, actor)
        names |= {full_key(scope, bare) for bare in told.names() if told.last(bare)}
    return sorted(names - state.keys())


# --- Comparing --------------------------------------------------------------------------------------------------------


def differing(then: Moment) -> set[str]:
    """Returns the full keys that are known to have another value now, or none."""
    old, new = then.state.merged(), then.now.merged()
    return {name for name in old.keys() | new.keys() if differs(old.get(name, ABSENT), new.get(name, ABSENT))}


def compare(a: Moment, b: Moment) -> list[Change]:
    """Returns what differs between two moments, by full key, including every key that is UNKNOWN at one of them."""
    old, new = a.state.merged(), b.state.merged()
    changes = []
    for name in sorted(old.keys() | new.keys()):
        change = Change(name, old.get(name, ABSENT), new.get(name, ABSENT))
        if UNKNOWN in (change.old, change.new) or not same(change.old, change.new):
            changes.append(change)
    return changes
