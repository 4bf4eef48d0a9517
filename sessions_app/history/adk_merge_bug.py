"""Finds out how deltas were applied to the state in a SQLite file: replaced, or merged as google-adk 1.21 to 2.7 did.

The SqliteSessionService of those versions used SQLite's json_patch (RFC 7396). After {"cfg": {"a": 1}} and {"cfg":
{"b": 2}}, `cfg` is then {"a": 1, "b": 2}, and a null removes its key. Every other service replaces `cfg` and stores the
null, and so does adkweb.

No column says which version wrote, and an agent may be upgraded between two events. Where the two readings of a session
differ, its stored state shows which is right. If nothing does, both are folded, and where they differ, the value is
UNKNOWN: after a wrong guess, a repair would overwrite correct state.
"""

import json
import time
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..domain.edit_note import edit_of
from ..domain.event import Event, delta_of, removed_by
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.positions import Position, Seq, seq_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change, State, diff, same, scope_of, split
from ..reads.size_limits import large, measured_sql
from ..sources import database, registry
from ..sources.dialect import SQLITE, if_json

Values = tuple[Any, ...]  # that a key may have

_NEVER: Final = Seq(2**62)
_BEFORE_ALL: Final = Seq(-1)
_MOST: Final = 12  # values that a key may have; beyond that, it is UNKNOWN
_NEWEST: Final = 300  # the sessions of this many events are searched for evidence
_SAMPLES: Final = 40  # other sessions that are searched, from the first event to the newest
_EVENTS: Final = 100  # of each session, the newest
_LENGTH: Final = 100_000  # bytes of an event; a larger one is not read
_SECONDS: Final = 0.3  # the longest a search for evidence may take
FAST: Final = 0.05  # seconds; a search that took longer is not repeated at once
PAUSE: Final = 20  # a slow search is repeated after this many times its duration
# By file: its newest event, when it was searched, for how many seconds, the evidence. It holds as long as that event is
# there: once the newest events are deleted, others get their row numbers.
seen: dict[str, tuple[tuple[Seq, str], float, float, "_Evidence"]] = {}


class Ways(NamedTuple):
    """Says how one event's delta may have been applied."""

    merged: bool
    replaced: bool


class Reading(NamedTuple):
    """Says that events up to a seq merged, and those from a seq on replaced. Between the two, either is possible."""

    merged_until: Seq
    replaced_from: Seq

    def ways(self, seq: Seq) -> Ways:
        """Returns how the event with this seq may have been applied."""
        if seq <= self.merged_until:
            return Ways(True, False)
        return Ways(False, True) if seq >= self.replaced_from else Ways(True, True)


MERGED: Final = Reading(_NEVER, _NEVER)
REPLACED: Final = Reading(_BEFORE_ALL, _BEFORE_ALL)
EITHER: Final = Reading(_BEFORE_ALL, _NEVER)


class _Evidence(NamedTuple):
    """Holds the newest event that surely merged, and the oldest one that surely replaced; None for none."""

    merged: Seq | None = None
    replaced: Seq | None = None

    def with_(self, other: "_Evidence") -> "_Evidence":
        merged = [each for each in (self.merged, other.merged) if each is not None]
        replaced = [each for each in (self.replaced, other.replaced) if each is not None]
        return _Evidence(max(merged, default=None), min(replaced, default=None))

    @property
    def reading(self) -> Reading:
        if self.merged is None:
            return EITHER if self.replaced is None else REPLACED
        if self.replaced is None:
            return Reading(self.merged, _NEVER)  # it may have been upgraded since
        # The agent was upgraded between the two. In the other order, two versions take turns in writing.
        return Reading(self.merged, self.replaced) if self.merged < self.replaced else EITHER


def possible(source: str) -> Reading:
    """Returns what can't be ruled out in this source, without evidence; not EITHER if the setting decides."""
    config = connections.databases[source]["ADKWEB"]
    if not config["real_times"] or settings.SQLITE_STATE == "replaced":
        return REPLACED
    return MERGED if settings.SQLITE_STATE == "merged" else EITHER


def may_merge(source: str) -> bool:
    """Returns whether deltas may have been merged in this source."""
    return possible(source) != REPLACED


def reading(ref: SessionRef) -> Reading:
    """Returns how the events that this session sees were applied, by evidence from its file and from itself.

    Raises SourceError.
    """
    known = possible(ref.source)
    if known != EITHER:
        return known
    with database.using(ref.source) as db:
        return _of_source(db, ref.source).with_(_of_session(db, ref.source, ref[1:])).reading


class Write(NamedTuple):
    """Describes one write of a key.

    `settles` is true if its value is the same in every reading. `before` is the earlier value that it notes, or
    UNKNOWN.
    """

    position: Position
    value: Any
    settles: bool
    before: Any = UNKNOWN


# --- Folding ----------------------------------------------------------------------------------------------------------


def is_doubtful(value: Any) -> bool:
    """Returns whether merging a delta's value may give something else than replacing: true for null and for objects."""
    return value is None or isinstance(value, dict)


def merged(value: Any, delta: Any) -> Any:
    """Returns a key's value after a delta's value is merged into it, as RFC 7396 says."""
    if delta is None:
        return ABSENT
    if isinstance(delta, dict) and value is UNKNOWN:
        return UNKNOWN
    try:
        return _patched(value, delta)
    except RecursionError:
        return UNKNOWN


def _patched(value: Any, delta: Any) -> Any:
    if not isinstance(delta, dict):
        return delta
    after = dict(value) if isinstance(value, dict) else {}
    for name, each in delta.items():
        if each is None:
            after.pop(name, None)
        else:
            after[name] = _patched(after.get(name), each)
    return after


def after(before: Values, delta: Any, ways: Ways) -> Values:
    """Returns the values that a key may have after a delta's value."""
    if not is_doubtful(delta):
        return (delta,)
    different: list[Any] = []
    for value in [*([delta] if ways.replaced else ()), *(merged(v, delta) for v in before if ways.merged)]:
        if not any(same(value, other) for other in different):
            different.append(value)
    return tuple(different) if len(different) <= _MOST else (*different[:_MOST], UNKNOWN)


def fold(writes: Sequence[Write], start: Any, reading: Reading, *, shared: bool) -> dict[Position, Values]:
    """Returns the values that a key may have after each of these writes, by position.

    `writes` starts with the oldest. Pass `shared` for `user:` and `app:` keys.
    """
    after_each: dict[Position, Values] = {}
    before: Values = (start,)
    for write in writes:
        if write.settles:
            before = (write.value,)
        else:
            ways = reading.ways(seq_of(write.position))
            if shared and not after_each:  # the first row of a scope is stored as it is
                ways = ways._replace(replaced=True)
            before = after(before, write.value, ways)
        after_each[write.position] = before
    for write, following in pairwise(writes):
        if following.before is not UNKNOWN and explains(after_each[write.position], write.value, following.before):
            after_each[write.position] = (following.before,)
    return after_each


def folded(ref: SessionRef, writes: Sequence[Write], start: Any, *, shared: bool) -> dict[Position, Any]:
    """Returns the value that a key had after each of these writes, as `fold`; UNKNOWN where it may have had several.

    If a write doesn't have the same value in every reading, evidence is searched. Raises SourceError.
    """
    known = possible(ref.source) if all(write.settles for write in writes) else reading(ref)
    values = fold(writes, start, known, shared=shared)
    return {position: certain(each) for position, each in values.items()}


def certain(values: Values) -> Any:
    """Returns the only value that a key can have, or UNKNOWN."""
    return values[0] if len(values) == 1 else UNKNOWN


def explains(values: Values, delta: Any, stored: Any) -> bool:
    """Returns whether a stored value can be one of the values that a delta has left."""
    if any(same(value, stored) for value in values):
        return True
    return any(value is UNKNOWN for value in values) and same(merged(stored, delta), stored)


# --- Replay -----------------------------------------------------------------------------------------------------------


class Replay:
    """Folds all events of a session, in order, into its own keys: by what evidence shows of how their deltas were
    applied, and by every possible reading."""

    def __init__(self, ref: SessionRef, initial: State | None) -> None:
        known, either = reading(ref), possible(ref.source)
        self._known = _Fold(known, initial)
        self._either = self._known if known == either else _Fold(either, initial)

    def add(self, seq: Seq, delta: State, removed: Collection[str], *, edited: bool) -> None:
        """Applies what an event wrote to own keys. `edited`: adkweb stored it for a person."""
        for each in {id(fold): fold for fold in (self._known, self._either)}.values():
            each.add(seq, delta, removed, edited=edited)

    def value(self, name: str) -> Any:
        """Returns a key's value so far; UNKNOWN if it can't be known."""
        return self._known.value(name)

    def changes(self, stored: State) -> list[Change]:
        """Returns the keys whose stored value no way of applying the events explains."""
        return [c for c in diff(self._known.state(), stored) if not self._either.explains(c.key, c.new)]


class _Fold:
    """The own keys of a session, as its events make them in one reading."""

    def __init__(self, reading: Reading, initial: State | None) -> None:
        self._reading = reading
        self._initial = None if initial is None else split(initial).session
        self._values: dict[str, Values] = {name: (value,) for name, value in (self._initial or {}).items()}
        self._deltas: dict[str, Any] = {}  # by key, the last delta

    def add(self, seq: Seq, delta: State, removed: Collection[str], *, edited: bool) -> None:
        ways = (REPLACED if edited else self._reading).ways(seq)  # adkweb always replaces
        for name in delta:
            before = self._values.get(name, (UNKNOWN if self._initial is None else ABSENT,))
            self._deltas[name] = delta[name]
            self._values[name] = (ABSENT,) if name in removed else after(before, delta[name], ways)

    def value(self, name: str) -> Any:
        return certain(self._values.get(name, (ABSENT,)))

    def state(self) -> State:
        state = {name: certain(values) for name, values in self._values.items()}
        return {name: value for name, value in state.items() if value is not ABSENT}

    def explains(self, name: str, stored: Any) -> bool:
        return name in self._deltas and explains(self._values[name], self._deltas[name], stored)


# --- Evidence ---------------------------------------------------------------------------------------------------------


def _of_source(db: BaseDatabaseWrapper, source: str) -> _Evidence:
    """Returns the evidence of the sessions that wrote last, and of a sample of all others."""
    where, now = registry.identity(source), time.monotonic()
    with db.cursor() as cursor:
        known, at, took, evidence = seen.get(where, ((_BEFORE_ALL, ""), 0.0, 0.0, _Evidence()))
        cursor.execute(
            """SELECT (SELECT min(rowid) FROM events), rowid, id, EXISTS (
                SELECT 1 FROM events WHERE rowid = %s AND id = %s) FROM events ORDER BY rowid DESC LIMIT 1""",
            known,
        )
        row = cursor.fetchone()
        if row is None:
            return _Evidence()
        first, newest, newest_id, holds = row
        if holds and ((newest, newest_id) == known or (took > FAST and now - at < PAUSE * took)):
            return evidence
        cursor.execute(
            "SELECT DISTINCT app_name, user_id, session_id FROM events WHERE rowid > %s LIMIT %s",
            [newest - _NEWEST, _SAMPLES],
        )
        names = dict.fromkeys(cursor.fetchall())
        cursor.execute(
            """SELECT app_name, user_id, session_id FROM events WHERE rowid IN
            (SELECT (SELECT min(rowid) FROM events WHERE rowid >= value) FROM json_each(%s))""",
            [json.dumps([first + (newest - first) * step // _SAMPLES for step in range(_SAMPLES)])],
        )
        names |= dict.fromkeys(cursor.fetchall())
    evidence = _Evidence()
    for each in names:
        if time.monotonic() - now > _SECONDS:
            break
        evidence = evidence.with_(_of_session(db, source, each))
    seen[where] = (newest, newest_id), time.monotonic(), time.monotonic() - now, evidence
    return evidence


_READABLE: Final = if_json("event_data", also=f"{SQLITE.size('event_data')} < {_LENGTH}")


def _of_session(db: BaseDatabaseWrapper, source: str, names: Sequence[str]) -> _Evidence:
    """Returns the evidence in a session's own state.

    It looks at each key for which the last delta gives one value if merged and another if replaced.
    """
    initial = measured_sql("initial_state", db) if database.is_adopted(source) else "NULL"
    with db.cursor() as cursor:
        cursor.execute(
            # One statement for state and events: with two, an event that comes between would seem not to be stored.
            f"""SELECT events.rowid,
                {_READABLE},
                {measured_sql("state", db)}, {initial}
            FROM events JOIN sessions USING (app_name, user_id)
            WHERE app_name = %s AND user_id = %s AND session_id = %s AND sessions.id = session_id
            ORDER BY events.rowid DESC LIMIT {_EVENTS}""",
            list(names),
        )
        newest = cursor.fetchone()
        if newest is None or any(map(large, newest[2:])):
            return _Evidence()
        rows = [newest[:2], *((row[0], row[1]) for row in cursor)]
    stored, first = map(_object, newest[2:])
    began = split(first).session if len(rows) < _EVENTS else {}
    return _told(stored, began, ((seq, None if text is None else _object(text)) for seq, text in reversed(rows)))


def _told(stored: State, began: State, events: Iterable[tuple[Seq, Event | None]]) -> _Evidence:
    both: dict[str, tuple[Any, Any]] = {}  # by key, its value if merged and if replaced
    last: dict[str, Seq] = {}
    for seq, event in events:
        if event is None:  # what it wrote is not known
            both, last, began = {}, {}, {}
            continue
        edit, removed = edit_of(event), removed_by(event)
        for name, value in delta_of(event).items():
            if edit:  # adkweb always replaces
                last.pop(name, None)
                both[name] = (ABSENT, ABSENT) if name in removed else (value, value)
            elif scope_of(name)[0] == "session":
                last[name] = seq
                both[name] = merged(both.get(name, (began.get(name, ABSENT),))[0], value), value
    evidence = _Evidence()
    for name, seq in last.items():
        by_merging, by_replacing = both[name]
        value = stored.get(name, ABSENT)
        if same(by_merging, by_replacing):
            continue
        if same(value, by_merging):
            evidence = evidence.with_(_Evidence(merged=seq))
        elif same(value, by_replacing):
            evidence = evidence.with_(_Evidence(replaced=seq))
    return evidence


def _object(text: str | None) -> dict[str, Any]:
    return dict(as_object(read_stored_or_none(text)))
