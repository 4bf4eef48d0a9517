"""Where stored state is not what the events make of it: an update that was lost, or a direct write; and its repair.

A session's own keys are replayed from its events. Those of `app:` and `user:` are written from other sessions, too, some
deleted meanwhile or created with initial state: of them only what moments.py knows is told.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.json_values import as_object, read_stored
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, Scope, State, diff, full_key, same, scope_of, split
from ..errors import NotFound
from ..models import read_instant
from ..reads import views
from ..reads.weights import large, measured_sql
from ..sources import database
from ..sources.dialect import SEQ_IN_SESSION
from ..writes.half_made import IMPORTING
from . import key_history, merging, moments, written

Why = Literal["", "places", "importing", "size"]
_LOOKED_AT: Final = 200  # keys that sessions share whose writes are looked at, those that are stored otherwise first
GLANCE: Final = 50  # keys that a page marks
_FOREVER: Final = Seq(2**62)  # that no event reaches
_SHARED: Final[tuple[Scope, ...]] = ("user", "app")


@dataclass(frozen=True, slots=True)
class Written:
    """What wrote a key last, and the key's value before; a session that was created with it has no event: `event_id` ""."""

    ref: SessionRef
    event_id: str
    seq: Seq
    before: Any


@dataclass(frozen=True, slots=True)
class Drift:
    """A key that differs: `change.old` is what initial state and events make of it, `change.new` is what is stored.

    Where it is stored otherwise than its name says, `stray`, no event reaches it: `user:x` in a session's own state.
    """

    change: Change
    last: Written | None  # None: no event wrote it
    stray: bool = False

    @property
    def lost(self) -> bool:
        """Whether what is stored is what stood there before the last event: as if its update had been lost."""
        return self.last is not None and same(self.last.before, self.change.new)


@dataclass(frozen=True, slots=True)
class Report:
    """Which keys differ, and of which keys it cannot be known; of a session's own keys, or of those that it shares.

    `untold` says why nothing can be told: its events have no places (PostgreSQL, not adopted), it is being imported, or it
    is too large to be replayed.
    `either` are keys that can be read in two ways, merged or replaced, and what is stored agrees with neither.
    """

    drifted: list[Drift] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    revision: float = 0.0  # the session's, of the same moment
    events: int = 0  # replayed
    untold: Why = ""
    either: list[str] = field(default_factory=list)


def own(ref: SessionRef, *, actor: Actor) -> Report:
    """The drift of a session's own keys, by replaying all its events.

    Of a session whose initial state was never recorded only the keys that its events write; of one that is being imported,
    or whose events have no places (PostgreSQL, not adopted), nothing. A key that merging its deltas explains, or replacing
    them, has not drifted, where either is possible. The session may be written to meanwhile: state and events are of one
    moment. Memory is that of a page of events. Raises NotFound, SourceError.
    """
    actor.check_sees(ref)
    with database.using(ref.source) as db:
        if not database.is_numbered(ref.source):
            return Report(untold="places")
        head = _head(db, ref)
        if head is None:
            return Report(untold="size")
        if head.stored == IMPORTING:
            return Report(untold="importing")
        reading, possible = merging.reading(ref), merging.possible(ref.source)
        folds = _Fold(reading, head.initial), _Fold(possible, head.initial)
        if reading == possible:
            folds = folds[:1] * 2
        different = {id(each): each for each in folds}.values()
        last: dict[str, Written] = {}
        count = 0
        for seq, event in written.written_by(ref, head.last):
            count += 1
            if event.unread:
                return Report(untold="size")
            own = [name for name in event.delta if scope_of(name)[0] == "session"]
            last |= {name: Written(ref, event.event_id, seq, folds[0].value(name)) for name in own}
            for fold in different:
                fold.add(seq, event, own)
    unknown = [] if head.initial is not None else sorted(head.stored.keys() - last.keys())
    stored = {name: value for name, value in head.stored.items() if head.initial is not None or name in last}
    changes = [c for c in diff(folds[0].state(), stored) if not folds[1].explains(c.key, c.new)]
    either = [change.key for change in changes if change.old is UNKNOWN]
    drifted = [
        Drift(change, last.get(change.key), stray=change.scope != "session")
        for change in changes
        if change.old is not UNKNOWN
    ]
    return Report(drifted, unknown, head.revision, count, either=either)


def shared(ref: SessionRef, scopes: Collection[Scope] = _SHARED, *, actor: Actor) -> Report:
    """The `user:` and `app:` keys, or those of one of the two, that differ from what was last written to them, as far as
    is known.

    A session that is deleted by now may have written them since: such a key need not be wrong. Of keys that nothing wrote
    of which anything is left, nothing can be known; of none, where the source was not adopted. Raises Behind, NotFound,
    SourceError.
    """
    now = moments.state_now(ref, actor=actor)
    if not database.is_numbered(ref.source):
        return Report(unknown=sorted(_of_others(now, scopes)))
    now_stored = _of_others(now, scopes)
    asked = now_stored.keys() - now.writers.keys()
    with suppress(NotFound):  # there is no event yet
        told = _of_others(moments.state_at_seq(ref, _FOREVER, actor=actor), scopes)
        asked |= {name for name, value in told.items() if value is UNKNOWN and name not in now_stored}
    drifted, unknown, either = [], [], []
    looked_at = sorted(asked, key=lambda name: (name not in now.otherwise, name))[:_LOOKED_AT]
    for name in sorted(looked_at):
        stored = now_stored.get(name, ABSENT)
        write = next(iter(key_history.history(ref, name, limit=1, actor=actor).rows), None)
        if write and write.change.new is UNKNOWN:
            either.append(name)
        elif write and not same(write.change.new, stored):
            last = Written(write.ref, write.event_id, write.seq, write.change.old)
            drifted.append(Drift(Change(name, write.change.new, stored), last))
        elif name not in now.initial:
            unknown.append(name)
    return Report(drifted, sorted({*unknown, *(asked - {*looked_at} - now.initial)}), either=either)


def glance(now: moments.Moment, *, actor: Actor) -> State:
    """What events say of keys that are stored otherwise, by full key, from the last write of each and no replay: for a page.

    Of the keys that sessions share only those whose last update was lost: another value may have been written by a session
    that nothing is left of. Raises NotFound, SourceError.
    """
    if not now.otherwise or not database.is_numbered(
        now.ref.source
    ):  # by time alone nobody knows what was written last
        return {}
    again = views.session(now.ref, actor=actor).state  # what was written while events were read is no drift
    values: State = {}
    for name in sorted(now.otherwise)[:GLANCE]:
        stored = again.get(name)
        if not same(stored, now.state.get(name)):
            continue
        if scope_of(name)[0] == "session" or _was_lost(now.ref, name, stored, actor):
            values[name] = now.otherwise[name]
    return values


def _was_lost(ref: SessionRef, name: str, stored: Any, actor: Actor) -> bool:
    write = next(iter(key_history.history(ref, name, limit=1, actor=actor).rows), None)
    return write is not None and not same(write.change.new, stored) and same(write.change.old, stored)


def _of_others(moment: moments.Moment, scopes: Collection[Scope]) -> State:
    """What other sessions see, too, by full key."""
    return {full_key(scope, bare): value for scope in scopes for bare, value in moment.state.scope(scope).items()}


def any_shared(names: Iterable[str]) -> bool:
    """Tells whether any of these keys belongs to more than one session: `user:tier`, `app:limit`."""
    return any(scope_of(name)[0] in _SHARED for name in names)


# --- Replay -----------------------------------------------------------------------------------------------------------


class _Fold:
    """A session's own keys as its events make them, in one reading of how deltas were applied."""

    def __init__(self, reading: merging.Reading, initial: State | None) -> None:
        self._reading = reading
        self._initial = None if initial is None else split(initial).session
        self._values: dict[str, merging.Values] = {name: (value,) for name, value in (self._initial or {}).items()}
        self._deltas: dict[str, Any] = {}  # of each key the last, where its reading is in doubt

    def add(self, seq: Seq, event: written.Written, names: Iterable[str]) -> None:
        """Applies what an event wrote to these keys."""
        delta, removed, ways = event.delta, event.removed, self._reading.ways(seq)
        if event.edit:
            ways = merging.REPLACED.ways(seq)  # adkweb's own
        for name in names:
            before = self._values.get(name, (UNKNOWN if self._initial is None else ABSENT,))
            self._deltas[name] = delta[name]
            self._values[name] = (ABSENT,) if name in removed else merging.after(before, delta[name], ways)

    def value(self, name: str) -> Any:
        """A key's value so far."""
        return merging.certain(self._values.get(name, (ABSENT,)))

    def state(self) -> State:
        """All keys, UNKNOWN where nobody can say."""
        state = {name: merging.certain(values) for name, values in self._values.items()}
        return {name: value for name, value in state.items() if value is not ABSENT}

    def explains(self, name: str, stored: Any) -> bool:
        """Whether a stored value can be what the events made of the key."""
        return name in self._deltas and merging.explains(self._values[name], self._deltas[name], stored)


@dataclass(frozen=True, slots=True)
class _Head:
    """A session's row, and the place of its newest event; 0 where there is none."""

    revision: float
    stored: State
    initial: State | None
    last: Seq


def _head(db: BaseDatabaseWrapper, ref: SessionRef) -> _Head | None:
    """None for a state that is too large to be read."""
    seq = SEQ_IN_SESSION[db.vendor]
    initial_state = measured_sql("initial_state", db.vendor) if database.is_adopted(ref.source) else "NULL"
    with db.cursor() as cursor:
        cursor.execute(
            f"""SELECT update_time, {measured_sql("state", db.vendor)}, {initial_state},
                (SELECT {seq} FROM events WHERE app_name = sessions.app_name AND user_id = sessions.user_id
                AND session_id = sessions.id ORDER BY {seq} DESC LIMIT 1)
            FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s""",
            ref[1:],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(_("Session %(id)s not found.") % {"id": ref.session_id})
    if any(map(large, row[1:3])):
        return None
    state, initial = (None if text is None else as_object(read_stored(text)) for text in row[1:3])
    return _Head(read_instant(row[0]), state or {}, initial, row[3] or NO_SEQ)
