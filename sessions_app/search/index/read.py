"""Reads a session from its source for the index: all of it, or the events that are new."""

import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from ...domain.description import Description
from ...domain.invocations import running
from ...domain.json_values import as_object, read_stored_or_none
from ...domain.key_schema import KeySchema, learn
from ...domain.kinds import describe
from ...domain.pending import Pending, add, entries, rewinds, waiting
from ...domain.session_ref import OWN_NAME, SessionRef
from ...domain.state import State, scope_of
from ...models import SearchSession, read_instant
from ...reads.lists import title_of
from ...reads.size_limits import LARGE, glanced_at, measured_sql, size_of_event
from ...sources import database, dialect
from ...sources.dialect import POSTGRESQL, is_wanted, wanted, written
from .. import masked
from ..folding import Span, Summary, fold
from ..lines import LENGTH as LINE
from ..lines import Fact, clean, facts_of, lines_of, writer_of
from ..titling import LENGTH, fields
from ..values import Value, as_written, comparable, told_apart
from ..word_tables import BREAK
from ..words import tokens

Owner = tuple[str, str]  # of shared state: app and user, or app and ""
_KEYS: Final = 50  # whose schemas take as much memory as a piece


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a session as words, and the range of the events that said them."""

    first: int
    last: int
    words: list[str]


class Write(NamedTuple):
    """A value that an event gave to a key, and who wrote it: an `author`, or the person who `edited`."""

    seq: int
    value: Value
    by: Fact | None


@dataclass(slots=True)
class Reading:
    """A session as it was read: all of it, or what is new since its row was `stored`.

    `fields` are the columns of the row that its summary does not have: title, created, updated, phase, listed.
    """

    ref: SessionRef
    stored: SearchSession | None
    summary: Summary
    fields: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Value] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    spans: dict[tuple[str, int], Span] = field(default_factory=dict)  # by kind and number
    learnt: dict[str, KeySchema] = field(default_factory=dict)  # by key
    writes: dict[str, list[Write]] = field(default_factory=dict)  # by path
    began: dict[str, Value] = field(default_factory=dict)  # what the session began with, if that is known; by path
    pending: list[Pending] | None = None  # what waits now; None if that is as it is stored
    more: bool = False  # it has more events than are read at once

    @property
    def weight(self) -> int:
        """Returns how much memory it takes, in pieces."""
        return len(self.pieces) + len(self.learnt) // _KEYS

    @property
    def is_news(self) -> bool:
        """Tells whether anything differs from what is stored."""
        stored = self.stored
        return (
            stored is None
            or stored.events != self.summary.events
            or any(getattr(stored, name) != value for name, value in self.fields.items() if "title" not in name)
        )


WORDS: Final = 250  # of a piece: PostgreSQL keeps at most 255 places of the same word
OVERLAP: Final = 16  # of a long line's pieces; of a longer phrase, only so many words are looked for
MOST: Final = 2_000  # events that are read of a session before they are stored
MOST_PIECES: Final = 100  # of text, that are read of a session before they are stored: 25,000 words
_EVENTS: Final = 20  # read at once: each may be LARGE
_SMALL: Final = 8_000  # bytes on disk of an event that is read together with those of other sessions
TOGETHER: Final = 20  # sessions
_TOGETHER: Final = 100_000  # bytes of a state that is read together with those of other sessions
_NEWEST: Final = 300  # events that tell whether an invocation is running
_OF: Final = "app_name = %s AND user_id = %s AND session_id = %s"
_NAMES: Final = ("app_name", "user_id", "id")
Names = tuple[str, str, str]
Read = tuple[
    int, str, str | None, float | None
]  # an event: its seq and id, its text if not too large, when it was stored


class Stored(NamedTuple):
    """A row of `sessions`: its names, its state as text, and the times of its creation and of the last write, in seconds.

    A state of more than _TOGETHER bytes is its length after a “#”, because those of many sessions are read at once.
    `began` is the state that the session began with, if that was recorded and asked for.
    """

    app_name: str
    user_id: str
    session_id: str
    state: str | None
    created: float
    updated: float
    began: str | None = None


def rows_of(db: BaseDatabaseWrapper, names: Sequence[Names], *, began: bool = False) -> dict[Names, Stored]:
    """Returns the rows of those of these sessions that exist."""
    if not names:
        return {}
    state = measured_sql("s.state", db, _TOGETHER)
    first = measured_sql("s.initial_state", db, _TOGETHER) if began and database.is_adopted(db.alias) else "NULL"
    with db.cursor() as cursor:
        cursor.execute(
            f"""{wanted(_NAMES, len(names))}
            SELECT s.app_name, s.user_id, s.id, {state}, s.create_time, s.update_time, {first}
            FROM wanted CROSS JOIN sessions AS s WHERE {is_wanted("s", _NAMES)}""",
            [name for each in names for name in each],
        )
        rows = [Stored._make([*row[:4], *map(read_instant, row[4:6]), row[6]]) for row in cursor.fetchall()]
        return {row[:3]: row for row in rows}


def shared_states(db: BaseDatabaseWrapper, users: Collection[Owner]) -> dict[Owner, State]:
    """Returns the state of users and of their apps, by app and user; an app's, by app and ""."""
    if not users:
        return {}
    state, apps = measured_sql("u.state", db), sorted({app for app, _user in users})
    with db.cursor() as cursor:
        cursor.execute(
            f"""{wanted(_NAMES[:2], len(users))}
            SELECT u.app_name, '', {state} FROM app_states AS u WHERE u.app_name IN ({", ".join(["%s"] * len(apps))})
            UNION ALL SELECT u.app_name, u.user_id, {state} FROM wanted CROSS JOIN user_states AS u
            WHERE {is_wanted("u", _NAMES[:2])}""",
            [*(name for user in users for name in user), *apps],
        )
        return {(app, user): as_object(read_stored_or_none(text)) for app, user, text in cursor.fetchall()}


def read(
    db: BaseDatabaseWrapper,
    ref: SessionRef,
    row: Stored,
    stored: SearchSession | None,
    events: Sequence[Read] | None = None,
) -> Reading:
    """Reads what is new in a session since its row of the index was stored; all of it if that is None. At most MOST events,
    and the text of MOST_PIECES.

    `events` are those of a session that is not stored, if they were read before.
    """
    summary = Summary.stored(stored.summary) if stored else Summary()
    reading = Reading(ref, stored, summary)
    pieces = _Pieces(reading)
    if stored is None:
        pieces.add(0, [name[:LINE] for name in (ref.session_id, masked.user(*ref[1:3]))])
    before, log = summary.events, list(summary.pending)
    for seq, event_id, text, at in _events(db, ref, summary) if events is None else events:
        if summary.events - before == MOST or len(reading.pieces) >= MOST_PIECES:
            reading.more = True
            break
        event = masked.event(text, ref) if text is not None else masked.large_event(ref, event_id)
        told = describe(event, at)
        for span in fold(summary, event, told, seq):
            reading.spans[span.kind, span.number] = span
        since = _first_of(db, ref, before_it) if (before_it := rewinds(told)) else None
        add(summary.pending, entries(event, told, seq, summary.tools, since))
        reading.facts |= facts_of(event, told)
        learn(reading.learnt, told)
        _note_writes(reading, told, seq)
        pieces.add(seq, lines_of(event, told))
        summary.read, summary.read_id = seq, event_id  # that of its row: in the event, anything may stand
    pieces.end()
    state = masked.state(state_of(db, row), ref.app_name)
    reading.state = comparable(state)
    if row.began and not is_large(row.began) and any(_is_own(path) for path in reading.writes):
        began = masked.state(as_object(read_stored_or_none(row.began)), ref.app_name)
        reading.began = {path: value for path, value in comparable(began, told_apart).items() if _is_own(path)}
    waits = waiting(summary.pending)
    if summary.pending != log:
        reading.pending = waits
    title = clean(title_of(state), LENGTH) or summary.opening
    reading.fields = {
        **fields(title),
        "created": row.created,
        "updated": row.updated,
        "phase": _phase(db, ref, summary, waits),
        "listed": ref.session_id != OWN_NAME or summary.spoken,
    }
    summary.first = summary.first or row.created
    summary.last = summary.last or row.updated
    return reading


def _note_writes(reading: Reading, told: Description, seq: int) -> None:
    """Adds what an event wrote, but for what its writer wrote there just before."""
    by = writer_of(told)
    for path, value in as_written(told.delta, told.removed).items():
        writes = reading.writes.setdefault(path, [])
        if not writes or writes[-1][1:] != (value, by):
            writes.append(Write(seq, value, by))


def _is_own(path: str) -> bool:
    """Tells whether a path is one of the session's own state."""
    return scope_of(path)[0] == "session"


def is_large(text: str | None) -> bool:
    """Tells whether the length of a state stands in place of it."""
    return text is not None and text.startswith("#")


def state_of(db: BaseDatabaseWrapper, row: Stored) -> State:
    """Returns the state of a session, however large it is; {} if it is too large to be read."""
    text = row.state
    if is_large(text):
        own = "app_name = %s AND user_id = %s AND id = %s"
        with db.cursor() as cursor:
            cursor.execute(f"SELECT {measured_sql('state', db)} FROM sessions WHERE {own}", row[:3])
            text = next(iter(cursor.fetchone() or [None]))
    return as_object(read_stored_or_none(text))


def has_more(db: BaseDatabaseWrapper, ref: SessionRef, stored: SearchSession) -> bool:
    """Tells whether a session has events after those that are stored. If events have no numbers, nobody can tell."""
    if not dialect.of(db).has_numbers:
        return True
    with db.cursor() as cursor:
        cursor.execute(
            f"SELECT 1 FROM events WHERE {_OF} AND {dialect.of(db).seq_in_session} > %s LIMIT 1",
            [*ref[1:], Summary.stored(stored.summary).read],
        )
        return cursor.fetchone() is not None


def goes_on(db: BaseDatabaseWrapper, ref: SessionRef, row: Stored, stored: SearchSession) -> bool:
    """Tells whether what is stored of a session is its beginning: it was not deleted and made again meanwhile.

    If events have no numbers, one may also have come before those that are stored, with an earlier time."""
    summary = Summary.stored(stored.summary)
    if stored.created != row.created:
        return False
    if not summary.read:
        return True
    of = dialect.of(db)
    last = f"FROM events WHERE {_OF} AND id = %s AND {of.seq_in_session} = %s"
    values: list[Any] = [*ref[1:], summary.read_id, summary.read]
    with db.cursor() as cursor:
        if of.has_numbers:
            cursor.execute(f"SELECT 1 {last}", values)
            return cursor.fetchone() is not None
        cursor.execute(
            f"SELECT count(*) FROM events WHERE {_OF} AND (timestamp, id) <= (SELECT timestamp, id {last})",
            [*ref[1:], *values],
        )
        return bool(cursor.fetchone() == (summary.events,))


def beginnings(db: BaseDatabaseWrapper, names: Sequence[Names]) -> dict[Names, list[Read]]:
    """Returns the events of those sessions that have only a few small ones. One query reads TOGETHER sessions.

    On SQLite, where a query costs nothing, it returns nothing.
    """
    if dialect.of(db).is_file or not dialect.of(db).has_numbers:
        return {}
    rows: dict[Names, list[Read]] = {each: [] for each in names}
    for start in range(0, len(names), TOGETHER):
        some = names[start : start + TOGETHER]
        with db.cursor() as cursor:
            cursor.execute(_BEGINNINGS.format(written(db)), [list(each) for each in zip(*some, strict=True)])
            for app, user, session, *event in cursor.fetchall():
                rows[app, user, session].append((event[0], event[1], event[2], event[3]))
    return {
        each: events
        for each, events in rows.items()
        if len(events) < _EVENTS and all(text is not None for _seq, _id, text, _at in events)
    }


_BEGINNINGS: Final = f"""SELECT wanted.*, e.seq, e.id, e.text, e.at FROM unnest(%s::text[], %s::text[], %s::text[])
        AS wanted (app, user_id, session), LATERAL (SELECT seq, id,
            CASE WHEN {POSTGRESQL.size("event_data")} <= {_SMALL} THEN event_data::text END AS text, {{}} AS at FROM events
        WHERE app_name = wanted.app AND events.user_id = wanted.user_id AND session_id = wanted.session
        ORDER BY seq LIMIT {_EVENTS}) AS e ORDER BY 1, 2, 3, 4"""


def _events(db: BaseDatabaseWrapper, ref: SessionRef, so_far: Summary) -> Iterator[Read]:
    """Yields the events that are not read yet, in order. No read takes long."""
    of = dialect.of(db)
    data, seq = f"CASE WHEN {size_of_event(db)} <= {LARGE} THEN {of.text('event_data')} END", of.seq_in_session
    statement = f"""SELECT {seq}, id, {data}, {written(db)} FROM events WHERE {_OF} AND {seq} > %s
        ORDER BY {seq} LIMIT {_EVENTS}"""
    last: list[Any] = [so_far.read]
    if not of.has_numbers:
        statement = f"""SELECT {seq}, id, {data}, NULL, timestamp::text FROM events
            WHERE {_OF} AND (timestamp, id) > (%s, %s) ORDER BY timestamp, id LIMIT {_EVENTS}"""
        last = _time_of(db, ref, so_far.read_id) if so_far.read else ["-infinity", ""]
    while True:
        with db.cursor() as cursor:
            cursor.execute(statement, [*ref[1:], *last])
            rows = cursor.fetchall()
        for row in rows:
            yield row[:4]
        if len(rows) < _EVENTS:
            return
        last = [rows[-1][0]] if of.has_numbers else [rows[-1][4], rows[-1][1]]


def _time_of(db: BaseDatabaseWrapper, ref: SessionRef, event_id: str) -> list[str]:
    """Returns the time and the id of an event. If it is gone by now, nothing comes after it."""
    with db.cursor() as cursor:
        cursor.execute(f"SELECT timestamp::text FROM events WHERE {_OF} AND id = %s", [*ref[1:], event_id])
        row = cursor.fetchone()
        return [row[0] if row else "infinity", event_id]


def _first_of(db: BaseDatabaseWrapper, ref: SessionRef, invocation_id: str) -> int | None:
    """Returns the seq of the first event of an invocation; None if the session has none of it."""
    with db.cursor() as cursor:
        seq = dialect.of(db).seq_in_session
        cursor.execute(f"SELECT min({seq}) FROM events WHERE {_OF} AND invocation_id = %s", [*ref[1:], invocation_id])
        first: int | None = cursor.fetchone()[0]
        return first


def _phase(db: BaseDatabaseWrapper, ref: SessionRef, summary: Summary, waits: Sequence[Pending]) -> str:
    """Returns whether a session's agent is at work or silent (“open”), waits for an answer (“waiting”), was “stopped”, or is
    done or has failed (“idle”)."""
    if summary.open and _is_at_work(db, ref):
        return "open"
    if not all(each.passed_over for each in waits):
        return "waiting"
    return "stopped" if summary.stopped and not summary.failed else "idle"


def _is_at_work(db: BaseDatabaseWrapper, ref: SessionRef) -> bool:
    with db.cursor() as cursor:
        cursor.execute(
            f"SELECT {glanced_at(db)} FROM events WHERE {_OF} ORDER BY {dialect.of(db).newest_first} LIMIT {_NEWEST}",
            ref[1:],
        )
        rows = cursor.fetchall()
    flight = running([masked.event(text, ref) for (text,) in reversed(rows)], time.time(), math.inf)
    return flight is not None and not flight.waiting


class _Pieces:
    """Cuts what is said into pieces of WORDS words, each with the range of its events."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._words: list[str] = []
        self._first = self._last = 0

    def add(self, seq: int, lines: Sequence[str]) -> None:
        for line in lines:
            words = tokens(line)
            for start in range(0, max(1, len(words) - OVERLAP), WORDS - OVERLAP):
                self._add(seq, words[start : start + WORDS])

    def _add(self, seq: int, words: list[str]) -> None:
        if not words:
            return
        if self._words and len(self._words) + len(words) > WORDS:
            self.end()
        self._first = self._first if self._words else seq
        self._last = seq
        self._words += [*words, BREAK]

    def end(self) -> None:
        if self._words:
            self._reading.pieces.append(Piece(self._first, self._last, self._words))
            self._reading.summary.segments += 1
            self._words = []
