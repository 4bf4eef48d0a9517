"""Finds stored state that doesn't match its events: a lost update, or a direct write.

A session's own keys are replayed from its events. `app:` and `user:` keys are also written by other sessions, of which
some are deleted by now or were created with initial state. For them, only what moments.py knows is used.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_object
from ..domain.errors import NotFound
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, Scope, State, full_key, same, scope_of
from ..models import read_instant
from ..reads import views
from ..reads.size_limits import large, measured_sql
from ..sources import database, dialect
from ..writes.incomplete import is_untouched
from . import adk_merge_bug, key_history, moments
from .index import written

Why = Literal["", "places", "importing", "size"]
_LOOKED_AT: Final = 200  # shared keys that are judged; those with another stored value come first
GLANCE: Final = 50  # keys that a page points out
_FOREVER: Final = Seq(2**62)  # more than the seq of any event
_SHARED: Final[tuple[Scope, ...]] = ("user", "app")


@dataclass(frozen=True, slots=True)
class Written:
    """The last write of a key, and its value before. If a session was created with it, `event_id` is empty."""

    ref: SessionRef
    event_id: str
    seq: Seq
    before: Any


@dataclass(frozen=True, slots=True)
class Drift:
    """A key that differs: `change.old` is its value from the events, and `change.new` the stored one.

    If `stray` is true, the key is stored where no event can write it: `user:x` in a session's own state.
    """

    change: Change
    last: Written | None  # None: no event wrote it
    stray: bool = False

    @property
    def lost(self) -> bool:
        """Returns whether the stored value is the one from before the last event, as if its update had been lost."""
        return self.last is not None and same(self.last.before, self.change.new)


@dataclass(frozen=True, slots=True)
class Report:
    """The keys that differ, and those that can't be judged: a session's own ones, or those that it shares.

    `untold` is why nothing can be known: `places` if its events have no numbers (PostgreSQL, not adopted), `importing`,
    or `size` if it is too large to be replayed. `either` has the keys for which merging gives one value, replacing
    another, and neither is stored.
    """

    drifted: list[Drift] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    revision: float = 0.0  # the session's revision at the same moment
    events: int = 0  # replayed
    untold: Why = ""
    either: list[str] = field(default_factory=list)


def own(ref: SessionRef, *, actor: Actor) -> Report:
    """Returns the drift of a session's own keys, by replaying all its events.

    If its initial state was never recorded, only the keys that its events write are judged. If it is being imported, or
    its events have no numbers (PostgreSQL, not adopted), none is. If a source may have merged deltas or replaced them,
    a key hasn't drifted if either reading explains it. Others may write in the meantime: state and events are of one
    moment. It needs the memory of one page of events. Raises NotFound, SourceError.
    """
    actor.check_sees(ref)
    with database.using(ref.source) as db:
        if not database.is_numbered(ref.source):
            return Report(untold="places")
        head = _head(db, ref, actor)
        if head is None:
            return Report(untold="size")
        if is_untouched(head.stored):
            return Report(untold="importing")
        replay = adk_merge_bug.Replay(ref, head.initial)
        last: dict[str, Written] = {}
        count = 0
        for seq, event in written.written_by(ref, head.last, actor):
            count += 1
            if event.unread:
                return Report(untold="size")
            own = {name: value for name, value in event.delta.items() if scope_of(name)[0] == "session"}
            last |= {name: Written(ref, event.event_id, seq, replay.value(name)) for name in own}
            replay.add(seq, own, event.removed, edited=bool(event.edit))
    unknown = [] if head.initial is not None else sorted(head.stored.keys() - last.keys())
    stored = {name: value for name, value in head.stored.items() if head.initial is not None or name in last}
    changes = replay.changes(stored)
    either = [change.key for change in changes if change.old is UNKNOWN]
    drifted = [
        Drift(change, last.get(change.key), stray=change.scope != "session")
        for change in changes
        if change.old is not UNKNOWN
    ]
    return Report(drifted, unknown, head.revision, count, either=either)


def shared(ref: SessionRef, scopes: Collection[Scope] = _SHARED, *, actor: Actor) -> Report:
    """Returns the drift of the `user:` and `app:` keys, or of one of these scopes, as far as it is known.

    A deleted session may have written such a key since, so one that differs need not be wrong. If everything that wrote
    a key is gone, it cannot be judged; nor can any key of a source that was not adopted. Raises Behind, NotFound,
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
    """Returns the values from events of keys whose stored value differs, by full key. It is quick enough for a page:

    it reads the last write of each key and replays nothing. Shared keys are included only if their last update was
    lost: a session that left no trace may have written another value. Raises NotFound, SourceError.
    """
    # Times alone don't show what was written last.
    if not now.otherwise or not database.is_numbered(now.ref.source):
        return {}
    again = views.session(now.ref, actor=actor).state  # what was written in the meantime isn't drift
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
    """Returns the keys of a moment that other sessions share, by full key."""
    return {full_key(scope, bare): value for scope in scopes for bare, value in moment.state.scope(scope).items()}


def any_shared(names: Iterable[str]) -> bool:
    """Returns whether any of these keys belongs to more than one session: `user:tier`, `app:limit`."""
    return any(scope_of(name)[0] in _SHARED for name in names)


@dataclass(frozen=True, slots=True)
class _Head:
    """Holds a session's row, and the seq of its newest event; 0 if there is none."""

    revision: float
    stored: State
    initial: State | None
    last: Seq


def _head(db: BaseDatabaseWrapper, ref: SessionRef, actor: Actor) -> _Head | None:
    """Returns the head of a session; None if its state is too large to be read."""
    seq = dialect.of(db).seq_in_session
    initial_state = measured_sql("initial_state", db) if database.is_adopted(ref.source) else "NULL"
    with db.cursor() as cursor:
        cursor.execute(
            f"""SELECT update_time, {measured_sql("state", db)}, {initial_state},
                (SELECT {seq} FROM events WHERE app_name = sessions.app_name AND user_id = sessions.user_id
                AND session_id = sessions.id ORDER BY {seq} DESC LIMIT 1)
            FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s""",
            ref[1:],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
    if any(map(large, row[1:3])):
        return None
    state, initial = (None if text is None else shown_object(text, actor, ref.app_name) for text in row[1:3])
    return _Head(read_instant(row[0]), state or {}, initial, row[3] or NO_SEQ)
