"""Recognises, creates, adopts and releases ADK's tables.

Adopting only adds, and never changes a row or column of ADK's. It adds: `events.seq` (on PostgreSQL; SQLite has the
rowid); `sessions.initial_state`, with a trigger that fills it for every new session, whoever creates it;
`sessions.initial_place`, the position at which adkweb created a session; the tables `adkweb_deleted` and
`adkweb_deleted_writes`, in which triggers note whose sessions were deleted and where these had written shared keys; and
indexes for adkweb's own reads.

`STEPS` lists what is added, in order; online.py adds it one step at a time, while agents write. Whether a step is done
can be seen in the database itself (`missing`), so adopting resumes where it was interrupted, and a second run does
nothing. `release` takes all of it away."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal

from django.db import OperationalError, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.translation import gettext as _

from ..errors import SourceError
from .recognise import check_not_java, keeps_milliseconds
from .schema import (
    COLUMNS,
    CREATE_DATABASE,
    CREATE_SQLITE,
    FIRST,
    NUMBERED,
    ORDERED,
    OUTDATED,
    PRESENT,
    RELEASE,
    STEPS,
    TYPES,
    WANTED,
)

Format = Literal["sqlite", "database"]  # of SqliteSessionService, or of DatabaseSessionService
ADK_TABLES: Final = frozenset({"app_states", "user_states", "sessions", "events"})
_WAL_SECONDS: Final = 10.0  # for other processes that give the same file a write-ahead log
_CREATION_LOCK: Final = 0x61646B77  # the key of a PostgreSQL advisory lock: "adkw"


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a database: whether it is `empty`, how it stores times, and what adopting has added to it.

    `real_times`: times are REAL seconds, not naive UTC datetimes. `begun`: its owner has agreed to adopting, finished
    or not. `adopted`: every event has its number. `creations`: it records where sessions were created and deleted,
    which adopting adds last."""

    empty: bool
    real_times: bool = False
    begun: bool = False
    adopted: bool = False
    creations: bool = False
    milliseconds: bool = False  # times are written as adk-js writes them
    ordered: bool = True  # a session's events can be read in order without reading those of other sessions


def inspect(alias: str) -> Shape:
    """Returns the shape of a source. Raises SourceError, which says what to do, if its tables are not ADK's."""
    connection = connections[alias]
    tables: dict[str, dict[str, str]] = {}
    with connection.cursor() as cursor:
        # One statement sees the tables either before or after another process adopts them, never halfway.
        cursor.execute(COLUMNS[connection.vendor])
        for table, column, kind in cursor.fetchall():
            tables.setdefault(table, {})[column] = kind
    if not tables.keys() & ADK_TABLES:
        if tables:
            raise SourceError(
                _("This is a database, but not one of ADK's: it has the tables %(tables)s and no “sessions”.")
                % {"tables": ", ".join(sorted(tables)[:5])}
            )
        return Shape(empty=True)
    _check_columns(tables)
    with connection.cursor() as cursor:
        milliseconds = keeps_milliseconds(cursor, tables)
        cursor.execute(ORDERED[connection.vendor])
        (ordered,) = cursor.fetchone()
    present = _present(alias)
    return Shape(
        empty=False,
        real_times=tables["sessions"]["update_time"].upper() == "REAL",
        begun=FIRST[connection.vendor] in present,
        adopted=NUMBERED[connection.vendor] in present,
        creations={"sessions.initial_place", "adkweb_deleted_writes_place"} <= present,
        milliseconds=milliseconds,
        ordered=bool(ordered),
    )


def create(alias: str, form: Format) -> None:
    """Creates ADK's tables in an empty database, so that google-adk's own service for this format can use it at once.

    A SQLite file gets a write-ahead log, with which appends are several times as fast. Does nothing if another process
    has made the tables meanwhile."""
    if connections[alias].vendor == "sqlite" and inspect(alias).empty:
        with suppress(SourceError):  # a file system without shared memory: the file does without a log
            use_wal(alias)
    script = CREATE_SQLITE if form == "sqlite" else CREATE_DATABASE
    types = TYPES["real" if form == "sqlite" else connections[alias].vendor]
    with _alone(alias) as cursor:
        if inspect(alias).empty:
            for statement in script:
                cursor.execute(statement.format(**types))


def use_wal(alias: str) -> None:
    """Gives a SQLite file a write-ahead log, which it keeps. Raises SourceError if it cannot have one."""
    until = time.monotonic() + _WAL_SECONDS
    with connections[alias].cursor() as cursor:
        while True:
            try:
                cursor.execute("PRAGMA journal_mode = WAL")
                break
            except OperationalError as error:
                # SQLite does not wait here: of several processes that switch at once, one is told that it is locked.
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.02)
        (mode,) = cursor.fetchone()
    if mode != "wal":
        raise SourceError(
            _("This file cannot have a write-ahead log: its journal mode stays “%(mode)s”.") % {"mode": mode}
        )


def missing(alias: str) -> list[str]:
    """Returns the names in STEPS of what is absent or disabled, in the order in which it is to be added."""
    present = _present(alias)
    return [name for name in STEPS[connections[alias].vendor] if name not in present]


def outdated(alias: str) -> list[str]:
    """Returns the statements that drop the indexes of an older adkweb, for those that exist."""
    concurrently = "CONCURRENTLY " if connections[alias].vendor == "postgresql" else ""
    return [f"DROP INDEX {concurrently}{name}" for name in OUTDATED if name in _present(alias)]


def to_release(alias: str) -> list[str]:
    """Returns the statements that take away what adopting added, however far it got."""
    vendor, present = connections[alias].vendor, _present(alias)
    return [statement for name, statement in RELEASE[vendor].items() if vendor == "postgresql" or name in present]


def _present(alias: str) -> set[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute(PRESENT[cursor.db.vendor])
        return {row[0] for row in cursor.fetchall()}


@contextmanager
def _alone(alias: str) -> Iterator[CursorWrapper]:
    """Opens a transaction in which no other adkweb process creates the tables: a second one waits, then finds them
    made."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            cursor.execute("SET LOCAL lock_timeout = '5s'")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATION_LOCK])
        yield cursor


def _check_columns(columns: Mapping[str, Mapping[str, str]]) -> None:
    events = columns.get("events", {})
    check_not_java(events)
    if "actions" in events and "event_data" not in events:
        raise SourceError(
            _(
                "This database has the columns of ADK's old schema (v0) or of adk-go. Bring its sessions into a new one: "
                "adkweb create new.db, then adkweb import THIS --into new.db"
            )
        )
    for table, wanted in WANTED.items():
        missing = wanted - set(columns.get(table, ()))
        if missing:
            raise SourceError(
                _("This database is not one of ADK's: the table “%(table)s” has no %(columns)s.")
                % {"table": table, "columns": ", ".join(sorted(missing))}
            )
