"""Finds what is new in a source, adopted or not, whichever program wrote it. The cost does not grow with what is
stored.

There are three ways, depending on the database:

- `Rowids`, for SQLite: `PRAGMA data_version` shows that something was written. New events come after the newest one
  seen before, wherever that is now: rowids are reused after a deletion, and VACUUM may change all of them.
- `still_missing`, for PostgreSQL with adkweb's `seq`: a number that is taken is not committed yet, and a later one can
  become visible first. Missing numbers are queried until they appear or their time is up. The index of history/ does
  the same.
- `Transactions`, for any PostgreSQL: each row names the transaction that wrote it. Rows are new if their transaction
  had not ended at the last check. This needs no `seq` and never gives up, but each check reads the newest events again.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from ..access.actor import Actor
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..sources import database, dialect
from ..sources.dialect import POSTGRESQL, Either, is_wanted, wanted
from ..sources.registry import Source
from . import newest
from .deltas import add_changes
from .event_views import EventView, events_of, ordered, views
from .lists import app_names
from .size_limits import LARGE

LOOK_BACK: Final = 1_000  # numbers before the newest that may still be committing
PATIENCE_SECONDS: Final = 60.0  # for a number that was taken; after that its transaction was surely rolled back
PAGE: Final = 200  # events of a SQLite file whose names are read at once
_REMEMBERED: Final = 200  # of the newest events: one of them is there after most deletions
_SEQ: Final = POSTGRESQL.seq
_MOST: Final = 5_000  # new events of an adopted PostgreSQL source listed at once


class EventName(NamedTuple):
    """The name of an event: its session and its id."""

    ref: SessionRef
    id: str


class Hole(NamedTuple):
    """A range of seqs without an event, from `first` to `last`, and the time until which they are waited for."""

    first: Seq
    last: Seq
    until: float


class Tail:
    """Follows a source, and finds the sessions with new events. For one thread."""

    def __init__(self, source: str) -> None:
        database.get(source)
        self._tail = _TAILS.on(source)(source)

    def moved(self) -> set[SessionRef] | None:
        """Returns the sessions with events that were not there last time; None if nothing was written at all."""
        return self._tail.moved()


class _OfRowids:
    def __init__(self, source: str) -> None:
        self._rowids = Rowids(source)
        self._moved: set[SessionRef] = set()  # from a check that failed before its end

    def moved(self) -> set[SessionRef] | None:
        pages = self._rowids.new()
        if pages is None:
            return None
        for page in pages:
            self._moved |= {name.ref for name in page}
        moved, self._moved = self._moved, set()
        return moved


class _OfNumbers:
    def __init__(self, source: str) -> None:
        self._source = source
        self._holes: list[Hole] = []
        self._seq = newest.newest_seq(source)
        start = Seq(max(0, self._seq - LOOK_BACK))
        self._note(start, {seq for seq, _ref in newest.appended(source, start) if seq <= self._seq})

    def moved(self) -> set[SessionRef] | None:
        now = time.monotonic()
        self._holes = [hole for hole in self._holes if hole.until > now]
        also = [Seq(seq) for hole in self._holes for seq in range(hole.first, hole.last + 1)]
        rows = newest.appended(self._source, self._seq, also)
        if not rows:
            return None
        seqs = {seq for seq, _ref in rows}
        start, self._seq = self._seq, max(self._seq, *seqs)
        self._note(start, seqs)
        return {ref for _seq, ref in rows}

    def _note(self, start: Seq, visible: Collection[Seq]) -> None:
        """Notes which numbers are still missing, at most LOOK_BACK of them."""
        after, until = Seq(max(start, self._seq - LOOK_BACK)), time.monotonic() + PATIENCE_SECONDS
        holes, room = still_missing(self._holes, after, visible, until), LOOK_BACK
        self._holes = []
        for hole in reversed(holes):
            if room > 0:
                self._holes.insert(0, hole._replace(first=Seq(max(hole.first, hole.last - room + 1))))
            room -= hole.last - hole.first + 1


_TAILS: Final[Either[Callable[[str], _OfRowids | _OfNumbers]]] = Either(postgresql=_OfNumbers, sqlite=_OfRowids)


# --- Numbers that were passed over ------------------------------------------------------------------------------------


def still_missing(holes: Iterable[Hole], after: Seq, visible: Collection[Seq], until: float) -> list[Hole]:
    """Returns the holes that remain, and the new ones after a seq, now that the events with the `visible` seqs can be
    seen.

    With a hole from 3 to 5, `after` 9, and 4 and 12 visible: 3, 5, and 10 to 11."""
    left: list[Hole] = []
    for hole in holes:
        filled = sorted(seq for seq in visible if hole.first <= seq <= hole.last)
        left += _between([hole.first - 1, *filled, hole.last + 1], hole.until)
    return left + _between([after, *sorted(seq for seq in visible if seq > after)], until)


def _between(seqs: Sequence[int], until: float) -> list[Hole]:
    return [Hole(Seq(a + 1), Seq(b - 1), until) for a, b in pairwise(seqs) if b > a + 1]


# --- New events by name -----------------------------------------------------------------------------------------------


def names(source: str, rest: str, values: Sequence[Any]) -> list[EventName]:
    """Returns the names of events. `rest` is the end of the statement."""
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(f"SELECT app_name, user_id, session_id, id FROM events {rest}", values)
        return [EventName(SessionRef(source, *row[:3]), row[3]) for row in cursor.fetchall()]


class Rowids:
    """Follows a SQLite file: from its start if `whole`, otherwise from now on."""

    def __init__(self, source: str, *, whole: bool = False) -> None:
        self._source = source
        self._version: int | None = None
        self._file = self._identity()
        self._recent: dict[EventName, None] = {}
        if not whole:
            self._version = newest.data_version(source)
            self._remember(names(source, "ORDER BY rowid DESC LIMIT %s", [_REMEMBERED])[::-1])

    def new(self) -> Iterator[list[EventName]] | None:
        """Returns the events that are new since the last time, in append order; None if nothing at all was written."""
        before, self._version = self._version, None  # stays None if this fails: the next connection has another
        version = newest.data_version(self._source)
        if version == before and self._identity() == self._file:
            self._version = version
            return None
        return self._pages(version)

    def _pages(self, version: int) -> Iterator[list[EventName]]:
        rowid = self._newest_rowid()
        while page := names(self._source, "WHERE rowid > %s ORDER BY rowid LIMIT %s", [rowid, PAGE]):
            yield page
            self._remember(page)
            rowid = self._newest_rowid()
        self._file, self._version = self._identity(), version

    def _newest_rowid(self) -> int:
        """Returns the rowid after which the new events are."""
        if not self._recent:
            return 0
        values = [part for name in self._recent for part in (*name.ref[1:], name.id)]
        columns = ("app_name", "user_id", "session_id", "id")
        with database.using(self._source) as db, db.cursor() as cursor:
            cursor.execute(
                f"""{wanted(columns, len(self._recent))}
                SELECT max(e.rowid) FROM wanted CROSS JOIN events AS e WHERE {is_wanted("e", columns)}""",
                values,
            )
            rowid = cursor.fetchone()[0]
        if rowid is not None:
            return int(rowid)
        if self._identity() != self._file:  # another database has replaced it: all of it is new
            self._recent, self._file = {}, self._identity()
            return 0
        return newest.newest_seq(self._source)

    def _remember(self, page: Iterable[EventName]) -> None:
        self._recent = dict.fromkeys([*self._recent, *page][-_REMEMBERED:])

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(connections[self._source].settings_dict["ADKWEB"]["path"])
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino


class Transactions:
    """Follows a PostgreSQL database, adopted or not, even if that changes in the meantime."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._newest = 0
        self._seen: dict[EventName, int] = {}  # and by which transaction it was written
        with _moment(source) as cursor:
            self._snapshot = _snapshot(cursor)
            self._newest = self._greatest(cursor)
            self._list(cursor, self._snapshot)  # notes what exists already, as older transactions may still run

    def new(self) -> Iterator[list[EventName]] | None:
        """Returns the events that are new since the last time, in append order; None if no transaction has ended."""
        with database.using(self._source) as db, db.cursor() as cursor:
            if _snapshot(cursor) == self._snapshot:
                return None
        return self._pages()

    def _pages(self) -> Iterator[list[EventName]]:
        more = True
        while more:
            with _moment(self._source) as cursor:
                snapshot = _snapshot(cursor)
                self._newest = min(self._newest, self._greatest(cursor))
                before = len(self._seen)
                page = self._list(cursor, snapshot)
            yield page
            more = database.is_adopted(self._source) and len(self._seen) - before >= _MOST - LOOK_BACK
        begun, _ended = _bounds(snapshot)
        self._snapshot = snapshot
        self._seen = {name: number for name, number in self._seen.items() if number >= begun}

    def _list(self, cursor: CursorWrapper, snapshot: str) -> list[EventName]:
        """Returns the events of the transactions that had not ended at the last look, without those seen already."""
        begun, ended = _bounds(self._snapshot)[0], _bounds(snapshot)[1]
        written = [begun, ended - begun]
        if database.is_adopted(self._source):
            rows = _rows(cursor, _SEQ, f"({_SEQ}) > %s", [self._newest - LOOK_BACK, *written, _MOST])
            self._newest = max(self._newest, rows[-1][5]) if rows else self._newest
        else:
            # An append writes to its session, too.
            cursor.execute(f"SELECT app_name, user_id, id FROM sessions WHERE {_WRITTEN}", written)
            one = "app_name = %s AND user_id = %s AND session_id = %s"
            sessions = cursor.fetchall()
            rows = [row for session in sessions for row in _rows(cursor, "timestamp", one, [*session, *written, None])]
            rows.sort(key=lambda row: (row[5], row[3]))
        written_by = {
            EventName(SessionRef(self._source, *row[:3]), row[3]): begun + (row[4] - begun) % 2**32 for row in rows
        }
        new = [name for name in written_by if name not in self._seen]
        self._seen |= written_by
        return new

    def _greatest(self, cursor: CursorWrapper) -> int:
        if not database.is_adopted(self._source):
            return 0
        cursor.execute(f"SELECT max({_SEQ}) FROM events")
        return int(cursor.fetchone()[0] or 0)


# A row has the lower half of its transaction's number.
_WRITTEN: Final = "((xmin::text::bigint - %s) & 4294967295) < %s"


def _rows(cursor: CursorWrapper, order: str, where: str, values: list[Any]) -> list[tuple[Any, ...]]:
    cursor.execute(
        f"""SELECT app_name, user_id, session_id, id, xmin::text::bigint, {order} FROM events
        WHERE {where} AND {_WRITTEN} ORDER BY {order}, id LIMIT %s""",
        values,
    )
    return list(cursor.fetchall())


@contextmanager
def _moment(source: str) -> Iterator[CursorWrapper]:
    """Opens a transaction that sees the database at one moment."""
    with database.using(source) as db, transaction.atomic(using=source), db.cursor() as cursor:
        dialect.of(db).freeze(cursor)
        yield cursor


def _snapshot(cursor: CursorWrapper) -> str:
    """Returns which transactions have ended, in PostgreSQL's notation: `begun:ended:running,…`."""
    cursor.execute("SELECT pg_current_snapshot()::text")
    return str(cursor.fetchone()[0])


def _bounds(snapshot: str) -> tuple[int, int]:
    """Returns the oldest transaction that had not ended, and the first that had not started."""
    begun, ended, _running = snapshot.split(":")
    return int(begun), int(ended)


@dataclass(frozen=True, slots=True)
class Only:
    """Selects the events of an app, a user, a session; None selects all of them."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    def matches(self, ref: SessionRef) -> bool:
        """Returns whether the events of this session are selected."""
        return all(wanted in (None, name) for wanted, name in zip(self._names(), ref[1:], strict=True))

    def where(self) -> tuple[str, list[str]]:
        """Returns a condition over `events` as SQL, with its values."""
        columns = ("app_name", "user_id", "session_id")
        given = {column: name for column, name in zip(columns, self._names(), strict=True) if name is not None}
        return " AND ".join(f"{column} = %s" for column in given) or "TRUE", list(given.values())

    def _names(self) -> tuple[str | None, str | None, str | None]:
        return self.app, self.user, self.session


# --- Event by event, as views -----------------------------------------------------------------------------------------


_FOLLOWED: Final[Either[Callable[[str, bool], Rowids | Transactions]]] = Either(
    postgresql=lambda source, _whole: Transactions(source), sqlite=lambda source, whole: Rowids(source, whole=whole)
)


class Following:
    """Follows the events of a source that the actor may see. For one thread.

    With `whole`, starts at the beginning of the file, otherwise now. Raises SourceError while the source can't be
    reached; the next call continues where this one ended."""

    def __init__(self, source: Source, only: Only, *, actor: Actor, whole: bool = False) -> None:
        self.source = source
        self._only = only
        self._actor = actor
        self._shown: set[EventName] = set()  # returned by `newest`, but possibly new as well
        # `Tail` gives up on missing numbers after a while, which is fine for a page: it then reads its sessions again.
        # Here, nothing is read again, so PostgreSQL is followed by transactions.
        self._tail = _FOLLOWED.on(source.alias)(source.alias, whole)

    def newest(self, number: int) -> list[EventView]:
        """Returns the newest events, in append order."""
        where, values = self._only.where()
        database.get(self.source.alias)
        of = dialect.of(self.source.alias)
        order = of.newest_first if len(values) == 3 else of.newest_of_all_first
        if not self._actor.sees_all_of(self.source.alias):
            seen = app_names(self.source.alias, actor=self._actor)
            where, values = f"{where} AND app_name IN ({', '.join(['%s'] * len(seen)) or 'NULL'})", [*values, *seen]
        shown = names(self.source.alias, f"WHERE {where} ORDER BY {order} LIMIT %s", [*values, number])[::-1]
        self._shown = set(shown)
        return list(self._views(shown))

    def more(self) -> Iterator[EventView]:
        """Yields what is new since the last time, in append order."""
        for page in self._tail.new() or ():
            yield from self._views([n for n in page if n not in self._shown and self._selects(n.ref)])

    def _selects(self, ref: SessionRef) -> bool:
        return self._only.matches(ref) and self._actor.may_see(ref.source, ref.app_name)

    def _views(self, wanted: list[EventName]) -> Iterator[EventView]:
        for start in range(0, len(wanted), PAGE):
            yield from self._page(wanted[start : start + PAGE])

    def _page(self, page: list[EventName]) -> Iterator[EventView]:
        """Yields events that are read at once, or half by half if they weigh too much for that."""
        by_session: dict[SessionRef, list[str]] = {}
        for name in page:
            by_session.setdefault(name.ref, []).append(name.id)
        by_name: dict[EventName, EventView] = {}
        left, half = LARGE, len(page) // 2
        for ref, ids in by_session.items():
            by_id, more = self._of_session(ref, ids, left)
            if half and (more or left <= 0):
                yield from self._page(page[:half])
                yield from self._page(page[half:])
                return
            by_name |= by_id
            left -= sum(view.weight for view in by_id.values())
        yield from (by_name[name] for name in page if name in by_name)  # the others were deleted in the meantime

    def _of_session(self, ref: SessionRef, ids: list[str], most: int) -> tuple[dict[EventName, EventView], bool]:
        with database.using(ref.source):
            rows = ordered(events_of(ref).filter(id__in=ids), ref.source, newest=False)
            some, more = views(rows, ref.source, self._actor, len(ids), most, ref)
            by_id = {view.id: view for view in some}
            page = [by_id[event_id] for event_id in ids if event_id in by_id]
            if page and not more:
                add_changes(ref, page, self._actor)
        return {EventName(ref, view.id): view for view in page}, more
