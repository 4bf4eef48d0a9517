"""Reads a PostgreSQL database that isn't adopted, for the index. Its events have no numbers: their times order them.

The first reading goes through all events, along the index that google-adk makes. After that, adkweb reads only the
sessions that were written since: their rows have the transaction that wrote them. So neither clocks nor order matter,
and nothing is missed. An event that is read twice changes nothing. While no transaction ends, nothing is read.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.positions import Seq, time_of
from ..domain.session_ref import SessionRef
from ..models import Projection, stored_instant
from ..reads.event_views import any_of
from ..sources import database, registry
from .index import read_source
from .index.read_source import Batch
from .index.tables import Row, sessions_at

REST: Final = 20  # the next scan of all sessions waits this many times the duration of the last one
_MANY: Final = 500  # sessions that are read again before progress is noted
_MOST: Final = 20_000  # and events of these sessions
_LATELY: Final = 10_000  # sessions that a Memory knows to be read

Names = list[str]


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a source is read.

    `after` is the last event of a first reading (app, user, session, time, id). In a later reading, it is the last
    session (app, user, id); between two readings it is None. Transactions from `since` on may not be read yet; once
    this reading is done, those from `following` on.
    """

    since: int
    following: int
    after: Names | None = field(default_factory=list)
    first: bool = True
    read: int = 0  # events or sessions, so far


class _Gathered(NamedTuple):
    """Events that were read at once, how far that goes, and whether there is more.

    `look` and `sessions` are what a Memory notes once the events are stored.
    """

    rows: list[Row]
    reached: Reached
    more: bool
    look: "Look | None" = None
    sessions: Mapping[SessionRef, str] = {}


class Look(NamedTuple):
    """When all sessions were scanned last, how long that took, and the state of the server's transactions."""

    ended: float
    took: float
    state: str


class Memory:
    """Remembers what this process has read of a projection, so that it isn't read again."""

    def __init__(self, projection: int) -> None:
        self.projection = projection
        self.look: Look | None = None
        self.sessions: dict[SessionRef, str] = {}  # each with the transaction that wrote it last

    def note(self, batch: _Gathered) -> None:
        """Remembers what was stored."""
        self.look = batch.look or self.look
        if len(self.sessions) > _LATELY:
            self.sessions.clear()
        self.sessions.update(batch.sessions)


memories: defaultdict[str, Memory] = defaultdict(lambda: Memory(0))


class Unadopted:
    """The order.Order of a source whose events have no numbers, but times."""

    version = -3  # not Numbered's: once a source is adopted, everything is read again

    def __init__(self, source: str) -> None:
        if not database.has_order(source):
            raise Invalid(
                _(
                    "The order of events in this database can't be determined: it was never adopted and has no "
                    "time index."
                )
            )
        self._source = source
        self._total = 0
        self._gathered: _Gathered | None = None

    def batch(self, at: Projection, size: int, ref: SessionRef | None) -> Batch:
        """Returns the next batch. Remembers it until it is stored."""
        source, stored = self._source, json.loads(at.marks)
        if memories[source].projection != at.pk:
            memories[source] = Memory(at.pk)
        reached = Reached(**stored) if stored else _begin(source)
        if reached.first and reached.after is not None:
            read = _first(source, reached, reached.after, size)
        else:
            read = _again(source, reached, memories[source], ref)
        self._gathered = read
        self._total = (self._total or _total(source)) if read.more else 0
        noted = {"marks": json.dumps(asdict(read.reached)), "seq": Seq(read.reached.read)}
        return Batch(read.rows, noted, self._total, read.more)

    def kept(self) -> None:
        """Remembers which transactions it has read."""
        if self._gathered:
            memories[self._source].note(self._gathered)

    @staticmethod
    def rows_at(source: str, seqs: Sequence[Seq]) -> tuple[str, Sequence[Any]]:
        """Returns the events of these times."""
        at = [
            (*names, stored_instant(time_of(seq), connections[source]))
            for names, some in sessions_at(registry.identity(source), seqs).items()
            for seq in some
        ]
        # OFFSET 0 makes PostgreSQL use the index for one after the other.
        table = """unnest(%s::text[], %s::text[], %s::text[], %s::timestamp[]) AS at (app, of_user, session, moment)
            CROSS JOIN LATERAL (SELECT * FROM events WHERE app_name = app AND user_id = of_user AND session_id = session
                AND timestamp = moment OFFSET 0) AS events ORDER BY timestamp DESC"""
        return table, [list(column) for column in zip(*at, strict=True)] if at else [[]] * 4

    @staticmethod
    def among(events: QuerySet[Any], source: str, seqs: Sequence[Seq]) -> Any:
        """Returns those that have these times."""
        return events.annotate(at=F("seq")).filter(any_of(sessions_at(registry.identity(source), seqs)))


def _begin(source: str) -> Reached:
    snapshot = _snapshot(source)
    return Reached(snapshot.oldest, snapshot.oldest)


def _total(source: str) -> int:
    """Returns the number of events, as PostgreSQL estimates it."""
    with connections[source].cursor() as cursor:
        cursor.execute("SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'events'::regclass")
        return int(cursor.fetchone()[0])


# --- The first reading ------------------------------------------------------------------------------------------------

_OF: Final = "app_name, user_id, session_id"
_ORDER: Final = f"ORDER BY {_OF}, timestamp DESC, id DESC LIMIT %s"  # as the index has it


def _first(source: str, at: Reached, after: Names, size: int) -> _Gathered:
    rows: list[Row] = []
    last: tuple[Any, ...] = ()
    if after:
        rest = f"WHERE ({_OF}) = (%s, %s, %s) AND (timestamp, id) < (%s, %s) {_ORDER}"
        rows, _more, last = read_source.without_numbers(source, rest, after, size)
    if not rows:
        rest = f"WHERE ({_OF}) > (%s, %s, %s) {_ORDER}" if after else _ORDER
        rows, _more, last = read_source.without_numbers(source, rest, after[:3], size)
    if rows:
        return _Gathered(rows, replace(at, after=[*last], read=at.read + len(rows)), True)
    return _Gathered([], Reached(at.following, at.following, None, first=False, read=at.read), True)


# --- What was written since -------------------------------------------------------------------------------------------

# Selects the rows of transactions from one on. Rows that were already read may be among them. The numbers have 32 bits
# and wrap around, so that a very old row may look new: it is read again.
_NEW: Final = "age({0}.xmin) BETWEEN 0 AND age(%s::text::xid)"


def _again(source: str, at: Reached, memory: Memory, ref: SessionRef | None) -> _Gathered:
    snapshot, look = _snapshot(source), memory.look
    if not at.since <= snapshot.oldest < at.since + 2**31:  # another server, or nothing was read for very long
        return _Gathered([], Reached(snapshot.oldest, snapshot.oldest), True)
    read: dict[SessionRef, str] = {}
    if look and at.after is None:
        if look.state == snapshot.state:
            return _Gathered([], at, False)
        if time.monotonic() - look.ended < REST * look.took:
            return _Gathered(_of_session(source, ref, at.since, memory, read) if ref else [], at, False, sessions=read)
    began = time.monotonic()
    changed = _changed(source, at.since, at.after or [])
    look = Look(time.monotonic(), time.monotonic() - began, "" if at.after else snapshot.state)
    following = at.following if at.after else snapshot.oldest
    rows: list[Row] = []
    for number, each in enumerate(changed, 1):
        rows += _of_session(source, each, at.since, memory, read)
        if number == _MANY or len(rows) > _MOST:
            reached = replace(at, following=following, after=[*each[1:]], read=at.read + number)
            return _Gathered(rows, reached, True, sessions=read)
    reached = replace(at, since=following, following=following, after=None, read=at.read + len(changed))
    return _Gathered(rows, reached, False, look, read)


def _changed(source: str, since: int, after: Names) -> list[SessionRef]:
    """Returns the next sessions that were created or written by the transactions from `since` on."""
    beyond = "AND (app_name, user_id, id) > (%s, %s, %s)" if after else ""
    with connections[source].cursor() as cursor:
        # OFFSET: by the primary key, the table would be read in another order than on the disk.
        cursor.execute(
            f"""SELECT * FROM (SELECT app_name, user_id, id FROM sessions WHERE {_NEW.format("sessions")} {beyond} OFFSET 0)
            AS changed ORDER BY app_name, user_id, id LIMIT {_MANY}""",
            [_short(since), *after],
        )
        return [SessionRef(source, *names) for names in cursor.fetchall()]


def _of_session(source: str, ref: SessionRef, since: int, memory: Memory, read: dict[SessionRef, str]) -> list[Row]:
    """Reads what was written to a session in transactions from one on, unless that was read before."""
    where = "app_name = %s AND user_id = %s AND {} = %s"
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"SELECT xmin::text FROM sessions WHERE {where.format('id')} AND {_NEW.format('sessions')}",
            [*ref[1:], _short(since)],
        )
        row = cursor.fetchone()
    if row is None or memory.sessions.get(ref) == row[0]:
        return []
    written: list[Row] = []
    last: tuple[Any, ...] = ()
    more = True
    while more:
        beyond = "AND (timestamp, id) < (%s, %s)" if last else ""
        rows, more, last = read_source.without_numbers(
            source,
            f"""WHERE {where.format("session_id")} AND {_NEW.format("events")} {beyond}
            ORDER BY timestamp DESC, id DESC LIMIT %s""",
            [*ref[1:], _short(since), *last[3:]],
            _MANY,
        )
        written += rows
    read[ref] = row[0]
    return written


class _Snapshot(NamedTuple):
    """The state of a server's transactions, and the oldest transaction that still runs."""

    state: str
    oldest: int


def _snapshot(source: str) -> _Snapshot:
    with connections[source].cursor() as cursor:
        cursor.execute(
            "SELECT s::text, pg_snapshot_xmin(s)::text::bigint FROM (SELECT pg_current_snapshot() AS s) AS snapshot"
        )
        return _Snapshot(*cursor.fetchone())


def _short(transaction: int) -> str:
    """Returns the number of a transaction as a row stores it, with 32 bits."""
    return str(transaction % 2**32)
