"""A source as it grows: the events that were not there at the last look, whoever wrote them, adopted or not.

SQLite has a number that tells whether anything was written. What is new stands behind the newest event seen, wherever that
stands by now: after a deletion rowids are given again, and VACUUM gives all of them anew.

A row of PostgreSQL's names the transaction that wrote it. New is what a transaction wrote that had not ended at the last
look, so a number of `seq` that was taken before and is committed after is not missed, and no `seq` is needed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from ..domain.session_ref import SessionRef
from ..sources import database
from ..sources.dialect import SEQ, SEQ_IN_SESSION
from ..sources.registry import Source
from . import newest as reads_newest
from .deltas import add_changes
from .event_views import EventView, events_of, ordered, views
from .weights import LARGE

PAGE: Final = 200  # events read at once
_REMEMBERED: Final = 200  # of the newest events: one of them is there after most deletions
_LOOK_BACK: Final = 1_000  # numbers of `seq` before the newest that may still be committing
_MOST: Final = 5_000  # new events of an adopted PostgreSQL source listed at once


class Name(NamedTuple):
    """Which event."""

    ref: SessionRef
    id: str


@dataclass(frozen=True, slots=True)
class Only:
    """Which events: of an app, a user, a session; None for any."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    def matches(self, ref: SessionRef) -> bool:
        """Whether this session's."""
        return all(wanted in (None, name) for wanted, name in zip(self._names(), ref[1:], strict=True))

    def where(self) -> tuple[str, list[str]]:
        """As SQL over `events`, with its values."""
        columns = ("app_name", "user_id", "session_id")
        given = {column: name for column, name in zip(columns, self._names(), strict=True) if name is not None}
        return " AND ".join(f"{column} = %s" for column in given) or "TRUE", list(given.values())

    def _names(self) -> tuple[str | None, str | None, str | None]:
        return self.app, self.user, self.session


class Following:
    """A place in a source that moves on; `whole`: from a file's beginning, else from now. For one thread.

    Raises SourceError where the source is away; the next call goes on from the same place.
    """

    def __init__(self, source: Source, only: Only, *, whole: bool = False) -> None:
        self.source = source
        self._only = only
        self._shown: set[Name] = set()  # by `newest`, and perhaps new all the same
        self._position: _SQLite | _PostgreSQL = (
            _SQLite(source, whole) if source.vendor == "sqlite" else _PostgreSQL(source)
        )

    def newest(self, number: int) -> list[EventView]:
        """The newest events, in append order."""
        where, values = self._only.where()
        order = _order(self.source, one_session=len(values) == 3)
        names = _names(self.source, f"WHERE {where} ORDER BY {order} LIMIT %s", [*values, number])[::-1]
        self._shown = set(names)
        return list(self._views(names))

    def more(self) -> Iterator[EventView]:
        """What is new since the last time, in append order."""
        for names in self._position.moved():
            yield from self._views([n for n in names if n not in self._shown and self._only.matches(n.ref)])

    def _views(self, names: list[Name]) -> Iterator[EventView]:
        for start in range(0, len(names), PAGE):
            yield from self._page(names[start : start + PAGE])

    def _page(self, names: list[Name]) -> Iterator[EventView]:
        """Events that are read at once, or half by half where they weigh too much for that."""
        by_session: dict[SessionRef, list[str]] = {}
        for name in names:
            by_session.setdefault(name.ref, []).append(name.id)
        by_name: dict[Name, EventView] = {}
        left, half = LARGE, len(names) // 2
        for ref, ids in by_session.items():
            by_id, more = self._of_session(ref, ids, left)
            if half and (more or left <= 0):
                yield from self._page(names[:half])
                yield from self._page(names[half:])
                return
            by_name |= by_id
            left -= sum(view.weight for view in by_id.values())
        yield from (by_name[name] for name in names if name in by_name)  # others were deleted meanwhile

    def _of_session(self, ref: SessionRef, ids: list[str], most: int) -> tuple[dict[Name, EventView], bool]:
        with database.using(ref.source):
            rows = ordered(events_of(ref).filter(id__in=ids), ref.source, newest=False)
            some, more = views(rows, ref.source, len(ids), most, ref)
            by_id = {view.id: view for view in some}
            page = [by_id[event_id] for event_id in ids if event_id in by_id]
            if page and not more:
                add_changes(ref, page)
        return {Name(ref, view.id): view for view in page}, more


class _SQLite:
    def __init__(self, source: Source, whole: bool) -> None:
        self._source = source
        self._version: int | None = None
        self._file = self._identity()
        self._recent: dict[Name, None] = {}
        if not whole:
            self._version = reads_newest.data_version(source.alias)
            self._remember(_names(source, "ORDER BY rowid DESC LIMIT %s", [_REMEMBERED])[::-1])

    def moved(self) -> Iterator[list[Name]]:
        before, self._version = self._version, None  # which it stays where this fails: the next connection's is another
        version = reads_newest.data_version(self._source.alias)
        if version != before or self._identity() != self._file:
            yield from self._new()
        self._version = version

    def _new(self) -> Iterator[list[Name]]:
        after = self._position()
        while names := _names(self._source, "WHERE rowid > %s ORDER BY rowid LIMIT %s", [after, PAGE]):
            yield names
            self._remember(names)
            after = self._position()
        self._file = self._identity()

    def _position(self) -> int:
        """Behind which rowid the new events stand."""
        if not self._recent:
            return 0
        names = [part for name in self._recent for part in (*name.ref[1:], name.id)]
        listed = ", ".join(["(%s, %s, %s, %s)"] * len(self._recent))
        with database.using(self._source.alias) as db, db.cursor() as cursor:
            cursor.execute(
                f"SELECT max(rowid) FROM events WHERE (app_name, user_id, session_id, id) IN (VALUES {listed})", names
            )
            rowid = cursor.fetchone()[0]
        if rowid is not None:
            return int(rowid)
        if self._identity() != self._file:  # another database stands here now: all of it is new
            self._recent, self._file = {}, self._identity()
            return 0
        return reads_newest.newest_seq(self._source.alias)

    def _remember(self, names: Iterable[Name]) -> None:
        self._recent = dict.fromkeys([*self._recent, *names][-_REMEMBERED:])

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(connections[self._source.alias].settings_dict["ADKWEB"]["path"])
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino


class _PostgreSQL:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._newest = 0
        self._seen: dict[Name, int] = {}  # and by which transaction it was written
        with _moment(source) as cursor:
            self._snapshot = _snapshot(cursor)
            self._newest = self._greatest(cursor)
            self._list(cursor, self._snapshot)  # what is there already, of transactions that others outlive

    def moved(self) -> Iterator[list[Name]]:
        alias = self._source.alias
        with database.using(alias) as db, db.cursor() as cursor:
            if _snapshot(cursor) == self._snapshot:
                return
        more = True
        while more:
            with _moment(self._source) as cursor:
                snapshot = _snapshot(cursor)
                self._newest = min(self._newest, self._greatest(cursor))
                before = len(self._seen)
                new = self._list(cursor, snapshot)
            yield new
            more = database.is_adopted(alias) and len(self._seen) - before >= _MOST - _LOOK_BACK
        begun, _ended = _bounds(snapshot)
        self._snapshot = snapshot
        self._seen = {name: number for name, number in self._seen.items() if number >= begun}

    def _list(self, cursor: CursorWrapper, snapshot: str) -> list[Name]:
        """The events that transactions wrote which had not ended at the last look, those seen already left out."""
        begun, ended = _bounds(self._snapshot)[0], _bounds(snapshot)[1]
        written = [begun, ended - begun]
        if database.is_adopted(self._source.alias):
            rows = _rows(
                cursor, SEQ["postgresql"], f"({SEQ['postgresql']}) > %s", [self._newest - _LOOK_BACK, *written, _MOST]
            )
            self._newest = max(self._newest, rows[-1][5]) if rows else self._newest
        else:
            # An append writes to its session, too.
            cursor.execute(f"SELECT app_name, user_id, id FROM sessions WHERE {_WRITTEN}", written)
            one = "app_name = %s AND user_id = %s AND session_id = %s"
            moved = cursor.fetchall()
            rows = [row for key in moved for row in _rows(cursor, "timestamp", one, [*key, *written, None])]
            rows.sort(key=lambda row: (row[5], row[3]))
        written_by = {
            Name(SessionRef(self._source.alias, *row[:3]), row[3]): begun + (row[4] - begun) % 2**32 for row in rows
        }
        new = [name for name in written_by if name not in self._seen]
        self._seen |= written_by
        return new

    def _greatest(self, cursor: CursorWrapper) -> int:
        if not database.is_adopted(self._source.alias):
            return 0
        cursor.execute(f"SELECT max({SEQ['postgresql']}) FROM events")
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
def _moment(source: Source) -> Iterator[CursorWrapper]:
    """A transaction that sees one moment."""
    with database.using(source.alias) as db, transaction.atomic(using=source.alias), db.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield cursor


def _snapshot(cursor: CursorWrapper) -> str:
    """Which transactions have ended, as PostgreSQL writes it: `begun:ended:running,…`."""
    cursor.execute("SELECT pg_current_snapshot()::text")
    return str(cursor.fetchone()[0])


def _bounds(snapshot: str) -> tuple[int, int]:
    """The oldest transaction that had not ended, and the first that had not begun."""
    begun, ended, _running = snapshot.split(":")
    return int(begun), int(ended)


def _names(source: Source, rest: str, values: Sequence[Any]) -> list[Name]:
    with database.using(source.alias) as db, db.cursor() as cursor:
        cursor.execute(f"SELECT app_name, user_id, session_id, id FROM events {rest}", values)
        return [Name(SessionRef(source.alias, *row[:3]), row[3]) for row in cursor.fetchall()]


def _order(source: Source, *, one_session: bool) -> str:
    """The newest first, in the words of the index that serves."""
    if source.vendor == "postgresql":
        database.get(source.alias)
        if not database.is_adopted(source.alias):
            return "timestamp DESC, id DESC"
    return f"{(SEQ_IN_SESSION if one_session else SEQ)[source.vendor]} DESC"
