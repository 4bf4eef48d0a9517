"""Checks a source for `adkweb doctor`. It only reads the source, and never adopts it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from ...domain.adk_fields import check_fields
from ...domain.errors import Error, Invalid, SourceError
from ...domain.json_values import looks_encrypted
from ...sources import adoption, database, dialect, identity, schema
from ...sources.dialect import Either
from ...sources.finding import in_shell
from ...sources.registry import Source
from ...writes.incomplete import IMPORTING
from ._checks import BAD, NOTE, OK, Finding
from ._drift_checks import drift, shared_drift
from ._rows import query, some

_EVENTS: Final = 1_000  # of the newest, which are parsed
_SKEW_SECONDS: Final = 2.0
_OLDEST_POSTGRESQL: Final = 130_000


def check(source: Source, *, every_session: bool, ready: bool) -> Iterator[Finding]:
    """Runs all checks on a source and yields their findings. `ready` says that adkweb's own database can be used."""
    try:
        with database.connected(source):
            shape = adoption.inspect(source.alias)
        if shape.empty:
            yield Finding(NOTE, "is empty: the agent, or adkweb when it opens it, creates ADK's tables.")
            return
        database.open_source(source)
    except SourceError as error:
        yield Finding(BAD, error.message)
        return
    if copy_of := identity.copy_of(source.alias):
        yield Finding(NOTE, f"is {copy_of}")
    kind: Either[_Look] = Either(postgresql=_server, sqlite=_file)
    for look in (
        kind.on(source.alias),
        _durable,
        _adopted,
        _permissions,
        _rows_of_state,
        _half_imported,
        _orphans,
        _events,
        _clock,
    ):
        yield from _tried(source, look)
    yield from _tried(source, lambda db, of: drift(of, every_session))
    if every_session and database.is_numbered(source.alias):
        yield from _tried(source, lambda db, of: shared_drift(of, ready))


_Look = Callable[[BaseDatabaseWrapper, Source], Iterator[Finding]]


def _tried(source: Source, look: _Look) -> list[Finding]:
    try:
        with database.using(source.alias) as db:
            return list(look(db, source))
    except Error as error:
        return [Finding(BAD, error.message)]


def _writer(db: BaseDatabaseWrapper) -> str:
    writer = "SqliteSessionService" if db.settings_dict["ADKWEB"]["real_times"] else "DatabaseSessionService"
    return "adk-js" if db.settings_dict["ADKWEB"]["milliseconds"] else writer


def _file(db: BaseDatabaseWrapper, _source: Source) -> Iterator[Finding]:
    (version, mode), *_ = query(db, "SELECT sqlite_version(), journal_mode FROM pragma_journal_mode")
    yield Finding(OK, f"opens: SQLite {version}, journal mode {mode}, as {_writer(db)} writes it")


def _server(db: BaseDatabaseWrapper, _source: Source) -> Iterator[Finding]:
    number, version = int(query(db, "SHOW server_version_num")[0][0]), query(db, "SHOW server_version")[0][0]
    if number < _OLDEST_POSTGRESQL:
        yield Finding(NOTE, f"opens: PostgreSQL {version}, which no longer gets fixes: update the server.")
    else:
        yield Finding(OK, f"opens: PostgreSQL {version}, as {_writer(db)} writes it")


def _durable(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    """Checks that acknowledged writes are on the disk.

    A SQLite file doesn't show how other programs write to it. adkweb itself waits for the disk.
    """
    if source.dialect.is_file:
        return
    off = [(name, consequence) for name, consequence in _DURABLE.items() if query(db, f"SHOW {name}") == [("off",)]]
    yield from (Finding(NOTE, f"{name} is off: {consequence}") for name, consequence in off)
    lenient = [
        whose
        for whose, value in query(db, _SETTINGS_OF_ROLES)
        if value.lower() in _OFF and "synchronous_commit" not in dict(off)
    ]
    if lenient:
        yield Finding(NOTE, f"synchronous_commit is off for {some(lenient)}: {_DURABLE['synchronous_commit']}")
    if not off and not lenient:
        yield Finding(OK, "acknowledges only what is on the disk")


_DURABLE: Final = {
    "fsync": "a crash of the server's machine can lose events that were acknowledged, and leave the database damaged.",
    "full_page_writes": "a crash of the server's machine can leave the database damaged.",
    "synchronous_commit": "a crash of the server loses what it acknowledged last, an edit or an agent's event.",
}
_OFF: Final = {"off", "false", "no", "0"}
_SETTINGS_OF_ROLES: Final = """SELECT CASE WHEN setrole = 0 THEN 'the database ' || current_database()
        ELSE 'the role ' || pg_get_userbyid(setrole) END, split_part(setting, '=', 2)
    FROM pg_db_role_setting, unnest(setconfig) AS setting
    WHERE split_part(setting, '=', 1) = 'synchronous_commit'
        AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY setrole <> 0, 1"""


def _adopted(_db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    lacking = adoption.missing(source.alias)
    own = {"events.seq", "sessions.initial_state"}
    if not lacking:
        yield Finding(OK, "is adopted completely")
    elif own.issubset(lacking) or (source.dialect.is_file and own & set(lacking)):
        yield Finding(
            NOTE,
            f"isn't adopted: lists are slower and initial state isn't kept. adkweb {in_shell(source.where)}, or "
            f"adkweb adopt {in_shell(source.where)}",
        )
    else:
        yield Finding(
            BAD,
            f"is adopted, but this was removed: {', '.join(lacking)}. adkweb adopt {in_shell(source.where)} adds it again"
            + (", as does adkweb itself while it serves." if set(lacking) <= schema.INDEXES else "."),
        )


def _permissions(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    problem = Either(postgresql=_problem_of_server, sqlite=_problem_of_file).on(db)(db, source)
    if problem:
        yield Finding(NOTE, f"{problem} adkweb shows it with --read-only.")
    else:
        yield Finding(OK, "can be written")


def _problem_of_file(db: BaseDatabaseWrapper, _source: Source) -> str:
    path = Path(db.settings_dict["ADKWEB"]["path"])
    if not os.access(path, os.W_OK):
        return "the file can't be written by this user:"
    if not os.access(path.parent, os.W_OK | os.X_OK):  # for the journal
        return "its folder can't be written by this user, which SQLite needs to write the file:"
    return ""


def _problem_of_server(db: BaseDatabaseWrapper, source: Source) -> str:
    if query(db, "SELECT pg_is_in_recovery()")[0][0]:
        return "the server is a replica, which can't be written:"
    rows = query(
        db,
        """SELECT relname, has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE')
            AND has_table_privilege(oid, 'DELETE'), pg_has_role(relowner, 'USAGE') FROM pg_class
        WHERE oid IN ('sessions'::regclass, 'events'::regclass, 'app_states'::regclass, 'user_states'::regclass)
        ORDER BY 1""",
    )
    refused = [name for name, may_write, _owns in rows if not may_write]
    if refused:
        return f"this user can't write to {', '.join(refused)}: GRANT SELECT, INSERT, UPDATE, DELETE. Without that,"
    if not database.is_adopted(source.alias) and not all(owns for _name, _may, owns in rows):
        return "only the tables' owner can adopt it: adkweb adopt, as that user. Without that,"
    return ""


def _rows_of_state(db: BaseDatabaseWrapper, _source: Source) -> Iterator[Finding]:
    """Checks that shared state has the rows that ADK needs. SqliteSessionService needs none."""
    if db.settings_dict["ADKWEB"]["real_times"]:
        return
    missing: list[str] = []
    number = 0
    for table, names in (("app_states", ("app_name",)), ("user_states", ("app_name", "user_id"))):
        same = " AND ".join(f"{table}.{name} = sessions.{name}" for name in names)
        rows = query(
            db,
            f"""SELECT DISTINCT {", ".join(names)} FROM sessions
            WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})""",
        )
        number += len(rows)
        missing += [f"{'/'.join(row)} in {table}" for row in rows]
    if missing:
        yield Finding(
            BAD,
            f"{number} rows are missing that DatabaseSessionService needs to append: {some(missing)}. To make "
            "one, set any user: or app: key of such a session in adkweb.",
        )
    else:
        yield Finding(OK, "every session has the rows of state that ADK needs")


def _half_imported(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    marked = f"state = {source.dialect.json_value}"
    sessions = query(db, f"SELECT app_name, user_id, id FROM sessions WHERE {marked}", [json.dumps(IMPORTING)])
    if sessions:
        yield Finding(
            BAD,
            f"{len(sessions)} sessions are partly imported: {some('/'.join(row) for row in sessions)}. Repeat the "
            "adkweb import that was interrupted, or delete them.",
        )
    else:
        yield Finding(OK, "no unfinished import")


def _orphans(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    """Looks for events whose session is gone: nothing shows them, and deleting a user leaves them behind."""
    rows = query(db, f"SELECT app_name, count(*) FROM events WHERE {_ORPHAN} GROUP BY app_name ORDER BY app_name")
    if not rows:
        yield Finding(OK, "every event has its session")
        return
    told = some(f"{count:,} of {app}" for app, count in rows)
    yield Finding(
        NOTE,
        f"{sum(count for _app, count in rows):,} events have no session: {told}. A program without foreign keys has "
        f"left them when it deleted sessions, and nothing shows them. To delete them: {_VERB} FROM events WHERE {_ORPHAN}",
    )


_VERB: Final = "DELETE"  # for its message only: doctor changes nothing
_ORPHAN: Final = (
    "NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.app_name = events.app_name AND sessions.user_id = events.user_id "
    "AND sessions.id = events.session_id)"
)


def _events(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    of = dialect.of(db)
    rows = query(
        db,
        f"""SELECT app_name, user_id, session_id, id, invocation_id, {of.text("event_data")} FROM events
        ORDER BY {of.newest_of_all_first} LIMIT {_EVENTS}""",
    )
    unloadable = []
    encrypted = []
    for app, user, session, event_id, invocation_id, data in rows:
        if data is not None and looks_encrypted(data):
            encrypted.append(f"{app}/{user}/{session} {event_id}")
        elif problem := _unloadable(event_id, invocation_id, data):
            unloadable.append(f"{app}/{user}/{session} {event_id} ({problem})")
    if unloadable:
        yield Finding(
            BAD,
            f"{len(unloadable)} of the newest {len(rows):,} events cannot be loaded by google-adk, and with them their "
            f"whole session: {some(unloadable)}. Delete the session, or correct the row with the program that wrote it.",
        )
    if encrypted:
        yield Finding(
            BAD,
            f"{len(encrypted)} of the newest {len(rows):,} events are encrypted: {some(encrypted)}. Only programs with "
            "the key can read their sessions; nothing is wrong with them.",
        )
    if not unloadable and not encrypted:
        yield Finding(OK, f"google-adk can load the newest {len(rows):,} events")


def _unloadable(event_id: str, invocation_id: str, data: Any) -> str:
    if data is None:
        return "event_data is NULL"
    try:
        event = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return "event_data is not JSON"
    if not isinstance(event, dict):
        return "event_data is not an object"
    try:
        check_fields({**event, "id": event_id, "invocation_id": invocation_id})
    except Invalid as error:
        return error.message
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _clock(db: BaseDatabaseWrapper, source: Source) -> Iterator[Finding]:
    if source.dialect.is_file:
        return
    before = time.time()
    there = float(query(db, "SELECT extract(epoch FROM clock_timestamp())")[0][0])
    skew = there - (before + time.time()) / 2
    if abs(skew) > _SKEW_SECONDS:
        yield Finding(
            NOTE,
            f"the server's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's. Whether an "
            "agent is running is derived from times: set both clocks with NTP.",
        )
    else:
        yield Finding(OK, "the server's clock and this machine's agree")
