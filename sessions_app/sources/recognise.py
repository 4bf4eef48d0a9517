"""Recognises the program that wrote ADK's tables, by the types of columns and some values, and refuses what adkweb
can't read.

google-adk writes times as text or seconds, adk-js as milliseconds; both use tables of the same names. A database that
is refused here is not changed."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.db.backends.utils import CursorWrapper
from django.utils.translation import gettext as _

from ..domain.errors import SourceError
from ..domain.json_values import looks_encrypted
from ..domain.units import are_milliseconds
from . import dialect
from .dialect import Either

Tables = Mapping[str, Mapping[str, str]]  # by table, the types of its columns by name

_TIMES: Final = {
    "sessions": ("create_time", "update_time"),
    "events": ("timestamp",),
    "app_states": ("update_time",),
    "user_states": ("update_time",),
}
_VALUES: Final = {"sessions": "state", "app_states": "state", "user_states": "state", "events": "event_data"}
_NAMES: Final = {
    "sessions": ("app_name", "user_id", "id"),
    "events": ("app_name", "user_id", "session_id", "id", "invocation_id"),
    "app_states": ("app_name",),
    "user_states": ("app_name", "user_id"),
}
_TEXTS: Final = {"character varying", "text"}
_TIMES_READ: Final = 50  # of the first rows of each table, and of the last
_VALUES_READ: Final = 8
_LENGTH: Final = 200  # characters of a value


def keeps_milliseconds(cursor: CursorWrapper, tables: Tables) -> bool:
    """Returns whether times have to be written as adk-js writes them. Raises SourceError for tables that adkweb cannot
    read or write."""
    _check_readable(cursor)
    return Either(postgresql=_of_postgresql, sqlite=_of_sqlite).on(cursor.db)(cursor, tables)


def check_not_java(events: Mapping[str, str]) -> None:
    """Raises SourceError if these are the columns of adk-java, which resemble those of google-adk's old schema."""
    if "event_data" not in events and events.get("actions") == "jsonb":
        raise SourceError(
            _("This is an adk-java database, which adkweb can neither open nor import. Nothing was changed.")
        )


def _check_readable(cursor: CursorWrapper) -> None:
    of = dialect.of(cursor.db)
    values: list[str] = []
    for table, column in _VALUES.items():
        cursor.execute(
            f"SELECT substr({of.text(column)}, 1, {_LENGTH}) FROM {table} WHERE {column} IS NOT NULL "
            f"{of.lately} LIMIT {_VALUES_READ}"
        )
        values += [str(row[0]) for row in cursor.fetchall()]
    if 2 * sum(map(looks_encrypted, values)) > len(values):
        raise SourceError(
            _(
                "The sessions here are encrypted by adk-secure-sessions, and adkweb doesn't have the key. "
                "Nothing was changed. To see them in adkweb, use a program that has the key to copy them into "
                "an unencrypted database, then open that one."
            )
        )


def _check_types(tables: Tables) -> None:
    """Raises SourceError for columns of a type with which some of adkweb's statements fail."""
    for table, column in _VALUES.items():
        if (kind := tables[table][column]) not in ("json", "jsonb"):
            raise _unknown(table, column, kind)
    wrong = {(table, column): "jsonb" for table, column in _VALUES.items() if tables[table][column] == "json"}
    for table, columns in _NAMES.items():
        wrong |= {(table, column): "text" for column in columns if tables[table][column] not in _TEXTS}
    if wrong:
        first, *_rest = wrong
        raise SourceError(
            _(
                "The column %(table)s.%(column)s has the type %(kind)s, but google-adk creates it as %(right)s, "
                "so adkweb can't use the database. Nothing was changed. The owner can change the column (agents "
                "will have to wait while this runs): %(statements)s"
            )
            % {
                "table": first[0],
                "column": first[1],
                "kind": tables[first[0]][first[1]],
                "right": wrong[first],
                "statements": " ".join(
                    f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind} USING {column}::{kind};"
                    for (table, column), kind in wrong.items()
                ),
            }
        )


def _of_postgresql(cursor: CursorWrapper, tables: Tables) -> bool:
    _check_types(tables)
    for table, columns in _TIMES.items():
        for column in columns:
            if not (kind := tables[table][column]).startswith("timestamp with"):
                raise _unknown(table, column, kind)
    if tables["events"]["timestamp"] != "timestamp with time zone":
        return False
    cursor.execute(
        f"""SELECT event_data ->> 'timestamp' FROM events
        WHERE jsonb_typeof(event_data::jsonb -> 'timestamp') = 'number' LIMIT {2 * _TIMES_READ}"""
    )
    said = [are_milliseconds(float(row[0])) for row in cursor.fetchall()]
    return any(said) or not said  # google-adk, too, may have been given such columns


def _of_sqlite(cursor: CursorWrapper, tables: Tables) -> bool:
    declared = {(t, c): tables[t][c].upper() for t, columns in _TIMES.items() for c in columns}
    for (table, column), kind in declared.items():
        if not kind.startswith(("REAL", "DATETIME", "TIMESTAMP")):
            raise _unknown(table, column, kind)
    counts = Counter(each for table, column in declared for each in _kinds(cursor, table, column))
    kinds, numbers = set(counts), "REAL" in declared.values()
    # An agent's own Event(timestamp=time.time() * 1000) is a single odd time among many, which is recognised by its
    # size. It may also be in the session's `update_time`, where it stays.
    if numbers and kinds == {"seconds", "milliseconds"} and counts["milliseconds"] < counts["seconds"]:
        kinds = {"seconds"}
    if len(kinds) > 1 or (numbers and (set(declared.values()) != {"REAL"} or kinds - {"seconds"})):
        raise SourceError(
            _(
                "The times in this database are in several formats (%(kinds)s), as happens when google-adk and "
                "adk-js write to the same file, so their order can't be determined. Nothing was changed. Import "
                "its sessions into a new database: adkweb create new.db, then adkweb import THIS --into new.db"
            )
            % {"kinds": ", ".join(sorted(kinds | ({"seconds"} if numbers else set())))}
        )
    if not numbers and kinds - {"text", "milliseconds"}:
        raise _unknown("sessions", "update_time", f"{declared['sessions', 'update_time']}, {kinds.pop()}")
    return kinds == {"milliseconds"} or (not kinds and tables["events"]["event_data"].lower() == "json")


def _kinds(cursor: CursorWrapper, table: str, column: str) -> list[str]:
    """Returns how some rows store a time: "text", "seconds", "milliseconds", or the name of another SQLite type."""
    cursor.execute(
        f"""SELECT * FROM (SELECT rowid, typeof({column}), CASE WHEN typeof({column}) <> 'text' THEN {column} + 0 END
            FROM {table} ORDER BY rowid LIMIT {_TIMES_READ})
        UNION SELECT * FROM (SELECT rowid, typeof({column}), CASE WHEN typeof({column}) <> 'text' THEN {column} + 0 END
            FROM {table} ORDER BY rowid DESC LIMIT {_TIMES_READ})"""
    )
    return [_kind(stored_as, value) for _row, stored_as, value in cursor.fetchall()]


def _kind(stored_as: str, value: Any) -> str:
    if stored_as not in ("integer", "real"):
        return stored_as
    return "milliseconds" if are_milliseconds(value) else "seconds"


def _unknown(table: str, column: str, kind: str) -> SourceError:
    return SourceError(
        _(
            "This database is from an unknown program: %(table)s.%(column)s is %(kind)s, which neither "
            "google-adk nor adk-js uses. Nothing was changed."
        )
        % {"table": table, "column": column, "kind": kind}
    )
