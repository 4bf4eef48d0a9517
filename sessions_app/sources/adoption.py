"""Recognises, creates, adopts and releases ADK's tables.

Adopting only adds, and never changes a row or column of ADK's. It adds: `events.seq` (on PostgreSQL; SQLite has the
rowid); `sessions.initial_state`, with a trigger that fills it for every new session, no matter who creates it;
`sessions.initial_place`, the position at which adkweb created a session; when each new event was stored
(`events.written`; on SQLite a table, `adkweb_written`, with a trigger that fills it); the tables `adkweb_deleted` and
`adkweb_deleted_writes`, in which triggers note which users' sessions were deleted and where these had written shared
keys; and indexes for adkweb's own reads.

`STEPS` lists what is added, in order; online.py adds it one step at a time, while agents write. The database itself
shows whether a step is done (`missing`), so adopting resumes where it was interrupted, and a second run does nothing.
`release` removes all of it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

from django.db import OperationalError, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.translation import gettext as _

from ..domain.errors import SourceError
from . import dialect
from .dialect import Either
from .recognise import check_not_java, keeps_milliseconds
from .schema import (
    AGREED,
    COLUMNS,
    CREATE_DATABASE,
    CREATE_SQLITE,
    FIRST,
    HIDDEN,
    NUMBERED,
    ORDERED,
    PRESENT,
    REAL_TYPES,
    RELEASE,
    STEPS,
    TYPES,
    WANTED,
    WRITTEN,
)

Format = Literal["sqlite", "database"]  # of SqliteSessionService, or of DatabaseSessionService
METADATA: Final = "adk_internal_metadata"
KNOWN_VERSIONS: Final = {"1"}  # of ADK's schema
ADK_TABLES: Final = frozenset({"app_states", "user_states", "sessions", "events"})
_WAL_SECONDS: Final = 10.0  # for other processes that give the same file a write-ahead log
_CREATION_MILLISECONDS: Final = 5_000  # for others that create the same tables
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
    written: bool = False  # records when each event was stored
    newer: str = ""  # the version of ADK's schema, if adkweb does not know it
    agreed: bool = True  # if so, someone let adkweb write to it
    versioned: bool = False  # the database says which version it has
    ordered: bool = True  # a session's events can be read in order without reading those of other sessions


def inspect(alias: str) -> Shape:
    """Returns the shape of a source. Raises SourceError, which says what to do, if its tables aren't ADK's."""
    connection, of = connections[alias], dialect.of(alias)
    tables: dict[str, dict[str, str]] = {}
    with connection.cursor() as cursor:
        # One statement sees the tables either before or after another process adopts them, never halfway.
        cursor.execute(COLUMNS.on(alias))
        for table, column, kind in cursor.fetchall():
            tables.setdefault(table, {})[column] = kind
    if not tables.keys() & ADK_TABLES:
        if of.has_rights:
            _check_visible(alias)
        if tables:
            raise SourceError(
                _("This isn't an ADK database: it has the tables %(tables)s but no “sessions”.")
                % {"tables": ", ".join(sorted(tables)[:5])}
            )
        return Shape(empty=True)
    _check_columns(tables)
    if of.has_rights:
        _check_readable(alias)
    with connection.cursor() as cursor:
        milliseconds = keeps_milliseconds(cursor, tables)
        versioned = _is_versioned(cursor, tables)
        newer, agreed = version_of(cursor) if versioned else ("", True)
        cursor.execute(ORDERED.on(alias))
        (ordered,) = cursor.fetchone()
    present = _present(alias)
    return Shape(
        empty=False,
        real_times=tables["sessions"]["update_time"].upper() == "REAL",
        begun=FIRST.on(alias) in present,
        adopted=NUMBERED.on(alias) in present,
        creations={"sessions.initial_place", "adkweb_deleted_writes_place"} <= present,
        milliseconds=milliseconds,
        newer=newer,
        agreed=agreed,
        versioned=versioned,
        written=WRITTEN.on(alias) in present,
        ordered=bool(ordered),
    )


def _is_versioned(cursor: CursorWrapper, tables: Mapping[str, Mapping[str, str]]) -> bool:
    if not {"key", "value"} <= {*tables.get(METADATA, ())}:
        return False
    return dialect.of(cursor.db).may_read(cursor, METADATA)


def version_of(cursor: CursorWrapper) -> tuple[str, bool]:
    """Returns the version of ADK's schema that a database says it has, "" if adkweb knows it; and whether someone
    agreed to adkweb's writing to it."""
    cursor.execute(f"SELECT value FROM {METADATA} WHERE key = 'schema_version'")
    row = cursor.fetchone()
    if row is None or row[0] in KNOWN_VERSIONS:
        return "", True
    newer = str(row[0])[:20]
    cursor.execute(_HAS_AGREED.on(cursor.db), [AGREED])
    if cursor.fetchone() is None:
        return newer, False
    cursor.execute(f"SELECT 1 FROM {AGREED} WHERE version = %s", [newer])
    return newer, cursor.fetchone() is not None


_HAS_AGREED: Final = Either(
    sqlite="SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = %s",
    postgresql="SELECT 1 FROM (SELECT to_regclass(%s) AS name) AS t WHERE has_table_privilege(name, 'SELECT')",
)


def agree(alias: str, version: str) -> None:
    """Notes in a database that adkweb may write to it, although it doesn't know its version of ADK's schema. Raises
    DatabaseError."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {AGREED} (version text PRIMARY KEY)")
        if dialect.of(alias).has_rights:
            cursor.execute(f"GRANT SELECT ON {AGREED} TO PUBLIC")
        cursor.execute("INSERT INTO adkweb_agreed (version) VALUES (%s) ON CONFLICT DO NOTHING", [version])


def _check_visible(alias: str) -> None:
    """Raises SourceError if ADK's tables are in a schema that this user, or this address, doesn't see.

    A database in which they can't be seen isn't empty, and nothing may be created there. Tables in the schema of this
    address were just created by another process."""
    with connections[alias].cursor() as cursor:
        cursor.execute(HIDDEN, [*ADK_TABLES])
        schemas = dict(cursor.fetchall())
        cursor.execute(
            """SELECT quote_ident(current_user), current_schema(), source = 'client' FROM pg_settings
            WHERE name = 'search_path'"""
        )
        user, current, is_chosen = cursor.fetchone()
    if is_chosen and current is not None:
        return  # an empty schema in the address is meant
    if closed := [name for name, may_look in schemas.items() if not may_look]:
        raise SourceError(
            _(
                "This database user can't see ADK's tables. Their owner can run: GRANT USAGE ON SCHEMA "
                "%(schema)s TO %(user)s; GRANT SELECT ON ALL TABLES IN SCHEMA %(schema)s TO %(user)s;"
            )
            % {"schema": closed[0], "user": user}
        )
    if schemas:
        raise SourceError(
            _(
                "ADK's tables are in a schema that this address doesn't name: %(schemas)s. Add one to the "
                "address: ?search_path=%(first)s"
            )
            % {"schemas": ", ".join(schemas), "first": quote(min(schemas))}
        )
    if current is None:
        raise SourceError(
            _(
                "This database user can't use any schema, so adkweb can't see what is in the database. Its "
                "owner can run: GRANT USAGE ON SCHEMA public TO %(user)s;"
            )
            % {"user": user}
        )


def _check_readable(alias: str) -> None:
    """Raises SourceError if this user may not read all of ADK's tables."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            """SELECT string_agg(quote_ident(name), ', ' ORDER BY name), quote_ident(current_user)
            FROM unnest(%s::text[]) AS name WHERE NOT has_table_privilege(name, 'SELECT')""",
            [sorted(ADK_TABLES)],
        )
        tables, user = cursor.fetchone()
    if tables:
        raise SourceError(
            _("This database user can't read %(tables)s. Their owner can run: GRANT SELECT ON %(tables)s TO %(user)s;")
            % {"tables": tables, "user": user}
        )


def create(alias: str, form: Format | None = None) -> None:
    """Creates ADK's tables in an empty database, so that google-adk's own service for this format can use it at once.
    By default, that is the format of google-adk's own files in a SQLite file.

    A SQLite file gets a write-ahead log, with which appends are several times as fast. Does nothing if another process
    has made the tables in the meantime."""
    if dialect.of(alias).is_file and inspect(alias).empty:
        with suppress(SourceError):  # a file system without shared memory: the file does without a log
            use_wal(alias)
    form = form or ("sqlite" if dialect.of(alias).is_file else "database")
    script = CREATE_SQLITE if form == "sqlite" else CREATE_DATABASE
    types = REAL_TYPES if form == "sqlite" else TYPES.on(alias)
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
            _("This file can't use a write-ahead log. Its journal mode stays “%(mode)s”.") % {"mode": mode}
        )


def missing(alias: str) -> list[str]:
    """Returns the names in STEPS of what is absent or disabled, in the order in which to add it."""
    present = _present(alias)
    return [name for name in STEPS.on(alias) if name not in present]


def to_release(alias: str) -> list[str]:
    """Returns the statements that remove what adopting added, however far it got."""
    present = _present(alias)
    return [each for name, each in RELEASE.on(alias).items() if name in present or "IF EXISTS" in each]


def _present(alias: str) -> set[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute(PRESENT.on(alias))
        return {row[0] for row in cursor.fetchall()}


@contextmanager
def _alone(alias: str) -> Iterator[CursorWrapper]:
    """Opens a transaction in which no other adkweb process creates the tables: a second one waits, then finds them
    made."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        dialect.of(alias).hurry(cursor, _CREATION_MILLISECONDS)
        dialect.of(alias).lock(cursor, _CREATION_LOCK)
        yield cursor


def _check_columns(columns: Mapping[str, Mapping[str, str]]) -> None:
    events = columns.get("events", {})
    check_not_java(events)
    if "actions" in events and "event_data" not in events:
        raise SourceError(
            _(
                "This database uses ADK's old schema (v0) or the adk-go schema. Import its sessions into a new "
                "one: adkweb create new.db, then adkweb import THIS --into new.db"
            )
        )
    for table, wanted in WANTED.items():
        missing = wanted - set(columns.get(table, ()))
        if missing:
            raise SourceError(
                _("This isn't an ADK database: the table “%(table)s” has no %(columns)s.")
                % {"table": table, "columns": ", ".join(sorted(missing))}
            )
