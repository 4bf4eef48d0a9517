"""Everything in which SQLite and PostgreSQL differ, each difference in one place.

    dialect.of(db).newest_first                           # rowid DESC; seq DESC; timestamp DESC, id DESC
    cursor.execute(f"SELECT {dialect.of(db).text('state')} FROM sessions")
    cursor.execute(COUNTED.on(db), [spans])               # two texts of a whole query, next to its use

A Dialect has a database's names for things, and what it can do. There is a third, for a PostgreSQL database that isn't
adopted: its events have no numbers, and their times take their place. A query that differs as a whole stays in the
module of its subject, written twice, as an Either.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..domain.positions import FIRST_TIME_SEQ, LAST_TIME_SEQ, SEQ_OF_1970
from ..models import by_time

T = TypeVar("T")
Database = str | BaseDatabaseWrapper  # its alias, or a connection to it
# PostgreSQL compresses long texts: one may be this many times as long as its size on disk.
_PACKED: Final = 30
_LONG: Final = 2_000


def of(db: Database) -> "Dialect":
    """Returns the dialect of an open source, or of adkweb's own database."""
    connection = connections[db] if isinstance(db, str) else db
    return UNADOPTED if by_time(connection) else BY_VENDOR[connection.vendor]


class Either(NamedTuple, Generic[T]):
    """Something that is wholly different for each database: the texts of a query, or two functions."""

    postgresql: T
    sqlite: T

    def on(self, db: Database) -> T:
        """Returns the one for this database."""
        chosen: T = getattr(self, (connections[db] if isinstance(db, str) else db).vendor)
        return chosen


class Dialect(Protocol):
    """The names that one database has for things, and what it can do. Texts are SQL."""

    # --- Events in order. A query over all sessions must use the exact expression of the index in schema.py. For the events
    # of one session, PostgreSQL would use that index, too, and read the events of all others: there, it is the column alone.

    seq: str
    seq_in_session: str
    number: str  # the same within a session, and NULL if it is only a time
    order: Sequence[str]  # the columns by which a session's events are ordered
    newest_first: str  # the order of a session's events, as its index has it
    newest_of_all_first: str  # the order of the events of all sessions
    stored_at: str  # when an event was stored; see `written`

    # --- What it can do

    is_file: bool  # a file, not a server that is asked over a connection
    has_rights: bool  # it has users: they may not do everything, and tables have owners
    has_numbers: bool  # every event has a number
    waits_for_owner: bool  # it is adopted when its owner says so, not as it is opened
    holds_any_text: bool  # also U+0000, and half of a surrogate pair
    merges_states: bool  # SQLite's own merge functions would round numbers and drop nulls
    reads_lazily: bool  # rows come one by one: a caller that stops reads no more
    reading_delays_commits: bool  # so no read may take long
    commits_out_of_order: bool  # so an event may become visible after one with a greater number
    reuses_numbers: bool  # once the newest events are deleted
    has_one_writer: bool  # the others wait

    # --- Words of SQL

    greatest: str
    least: str
    for_update: str  # after a SELECT: locks its rows
    for_update_of_unlocked: str  # the same, and leaves out rows that someone else has locked
    json_value: str  # a parameter that is compared with stored JSON
    version: str  # a query for a value that changes whenever someone else writes to the database
    lately: str  # the order of the rows of any table, those that were stored last first; "" if it has none

    def text(self, column: str) -> str:
        """Returns stored JSON as text."""

    def size(self, column: str) -> str:
        """Returns the bytes that stored JSON takes: on PostgreSQL's disk, which it knows without reading it; on SQLite,
        those of its text."""

    def measured(self, column: str, most: int) -> str:
        """Returns JSON as text; where that has more than `most` bytes, their number after a “#”. A text that has to be
        computed is computed only once."""

    def readable(self, column: str, most: int | None = None) -> str:
        """Returns stored JSON that the database can look into, and that takes no more than `most` bytes; NULL for any
        other."""

    def part(self, column: str, path: Sequence[str | int]) -> tuple[str, Any]:
        """Returns the text at a path of stored JSON, and the parameter that says the path."""

    def row_version(self, table: str) -> str:
        """Returns a value that changes whenever someone writes to a row with a state."""

    def by_bytes(self, column: str) -> str:
        """Returns a text that is ordered by its bytes, whatever language the database was created for."""

    def position(self, column: str) -> str:
        """Returns where a text has another one, which is a parameter; 0 if it does not."""

    def hexadecimal(self, column: str) -> str:
        """Returns the bytes of a text in small hexadecimal digits."""

    def whole(self, number: str) -> str:
        """Returns the whole part of a number that is not negative."""

    def two_digits(self, number: str) -> str:
        """Returns a number as text, with two digits and an exponent."""

    def without_index(self, column: str) -> str:
        """Returns a column whose index a query should not use. PostgreSQL doesn't need this, and would lose its
        statistics of the values."""

    def after(self, columns: Sequence[str], values: Sequence[str]) -> tuple[str, str, Sequence[Any]]:
        """Returns names as columns to be passed back; and the condition for rows after those names, with its values."""

    # --- What goes through the driver

    def table(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Returns the parameters by which a query gets rows: for json_each, or for unnest."""

    def insert(self, cursor: Any, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Runs a statement that inserts rows: for each of them, or once with what `table` returns."""

    def rows(self, db: BaseDatabaseWrapper, statement: str, parameters: Any) -> Generator[tuple[Any, ...], None, None]:
        """Yields the rows of a query; see `each_row`."""

    def unpacked(self, size: int | None) -> int:
        """Returns how many characters a text may have, judging by `size`."""

    def freeze(self, cursor: Any) -> None:
        """Makes the rest of a transaction see one moment, whatever is written in the meantime."""

    def hurry(self, cursor: Any, milliseconds: int) -> None:
        """Limits how long the rest of a transaction waits for a lock. SQLite waits as its connection was told."""

    def lock(self, cursor: Any, key: int) -> None:
        """Waits until no other transaction has this lock. In a SQLite file, no other one writes."""

    def may_read(self, cursor: Any, table: str) -> bool:
        """Returns whether this user may read a table."""


class _SQLite(Dialect):
    seq = "rowid"
    seq_in_session = "rowid"
    number = "rowid"
    order = ("rowid",)
    newest_first = "rowid DESC"
    newest_of_all_first = "rowid DESC"
    stored_at = "(SELECT w.at FROM adkweb_written AS w WHERE w.seq = events.rowid AND w.stamp = events.timestamp)"

    is_file = True
    has_rights = False
    has_numbers = True
    waits_for_owner = False
    holds_any_text = True
    merges_states = False
    reads_lazily = True
    reading_delays_commits = True
    commits_out_of_order = False
    reuses_numbers = True
    has_one_writer = True

    greatest = "max"
    least = "min"
    for_update = ""
    for_update_of_unlocked = ""
    json_value = "%s"
    version = "PRAGMA data_version"
    lately = "ORDER BY rowid DESC"

    def text(self, column: str) -> str:
        return column

    def size(self, column: str) -> str:  # SQLite takes four times as long to count the characters
        return f"length(CAST({column} AS BLOB))"

    def measured(self, column: str, most: int) -> str:
        if "(" not in column:
            return f"CASE WHEN {self.size(column)} <= {most} THEN {column} ELSE '#' || {self.size(column)} END"
        return _measured(column, self.size("t"), most)

    def readable(self, column: str, most: int | None = None) -> str:
        # The size first: SQLite would read the whole of a long text.
        return if_json(column, also="" if most is None else f"{self.size(column)} <= {most}")

    def part(self, column: str, path: Sequence[str | int]) -> tuple[str, Any]:
        keys = "".join(f"[{each}]" if isinstance(each, int) else f'."{each}"' for each in path)
        return f"json_extract({column}, %s)", f"${keys}"

    def row_version(self, table: str) -> str:
        # An update leaves no trace but the row itself. MD5 is Django's function, and gets hexadecimal text, which can
        # always be encoded.
        return f"md5(hex({table}.state))"

    def by_bytes(self, column: str) -> str:
        return column

    def position(self, column: str) -> str:
        return f"instr({column}, %s)"

    def hexadecimal(self, column: str) -> str:
        return f"lower(hex({column}))"

    def whole(self, number: str) -> str:  # floor() is a Python function
        return f"CAST({number} AS integer)"

    def two_digits(self, number: str) -> str:
        return f"printf('%%.1e', {number})"

    def without_index(self, column: str) -> str:
        return f"+{column}"

    def after(self, columns: Sequence[str], values: Sequence[str]) -> tuple[str, str, Sequence[Any]]:
        # Names need not be text: as text, they could come before themselves.
        beyond = ", ".join(["CAST(%s AS TEXT)"] * len(columns))
        passed = ", ".join(f"hex({column})" for column in columns)
        return passed, f"({', '.join(columns)}) > ({beyond})", [bytes.fromhex(each) for each in values]

    def table(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        return [json.dumps(rows)]

    def insert(self, cursor: Any, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        cursor.executemany(statement, rows)

    def rows(self, db: BaseDatabaseWrapper, statement: str, parameters: Any) -> Generator[tuple[Any, ...], None, None]:
        with db.cursor() as cursor:
            cursor.execute(statement, parameters)
            with db.wrap_database_errors:
                yield from cursor.cursor

    def unpacked(self, size: int | None) -> int:
        return size or 0

    def freeze(self, cursor: Any) -> None:
        """SQLite does so automatically."""

    def hurry(self, cursor: Any, milliseconds: int) -> None:
        pass

    def lock(self, cursor: Any, key: int) -> None:
        pass

    def may_read(self, cursor: Any, table: str) -> bool:
        return True


class _PostgreSQL(Dialect):
    seq = "seq + 0"
    seq_in_session = "seq"
    number = "seq"
    order: Sequence[str] = ("seq",)
    newest_first = "seq DESC"
    newest_of_all_first = "seq + 0 DESC"
    stored_at = "extract(epoch FROM events.written)::float8"

    is_file = False
    has_rights = True
    has_numbers = True
    waits_for_owner = True
    holds_any_text = False
    merges_states = True
    reads_lazily = False
    reading_delays_commits = False
    commits_out_of_order = True
    reuses_numbers = False
    has_one_writer = False

    greatest = "greatest"
    least = "least"
    for_update = "FOR UPDATE"
    for_update_of_unlocked = "FOR UPDATE SKIP LOCKED"
    json_value = "%s::jsonb"
    version = "SELECT pg_current_snapshot()::text"
    lately = ""

    def text(self, column: str) -> str:
        return f"{column}::text"

    def size(self, column: str) -> str:
        return f"pg_column_size({column})"

    def measured(self, column: str, most: int) -> str:
        return _measured(f"({column})::text", "octet_length(t)", most)

    def readable(self, column: str, most: int | None = None) -> str:  # it never stores JSON that is not valid
        return column if most is None else f"CASE WHEN {self.size(column)} <= {most} THEN {column} END"

    def part(self, column: str, path: Sequence[str | int]) -> tuple[str, Any]:
        return f"{column} #>> %s", [str(each) for each in path]

    def row_version(self, table: str) -> str:
        return f"{table}.xmin::text"

    def by_bytes(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def position(self, column: str) -> str:
        return f"strpos({column}, %s)"

    def hexadecimal(self, column: str) -> str:
        return f"encode(convert_to({column}, 'UTF8'), 'hex')"

    def whole(self, number: str) -> str:
        return f"CAST(floor({number}) AS integer)"

    def two_digits(self, number: str) -> str:
        return f"to_char({number}, '9.9EEEE')"

    def without_index(self, column: str) -> str:
        return column

    def after(self, columns: Sequence[str], values: Sequence[str]) -> tuple[str, str, Sequence[Any]]:
        names = ", ".join(columns)
        return names, f"({names}) > ({', '.join(['%s'] * len(columns))})", values

    def table(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        return [list(column) for column in zip(*rows, strict=True)]

    def insert(self, cursor: Any, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        cursor.execute(statement, self.table(rows))

    def rows(self, db: BaseDatabaseWrapper, statement: str, parameters: Any) -> Generator[tuple[Any, ...], None, None]:
        with db.cursor() as cursor, db.wrap_database_errors:
            yield from cursor.cursor.stream(statement, parameters)

    def unpacked(self, size: int | None) -> int:
        return (size or 0) * (_PACKED if (size or 0) > _LONG else 1)

    def freeze(self, cursor: Any) -> None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def hurry(self, cursor: Any, milliseconds: int) -> None:
        cursor.execute(f"SET LOCAL lock_timeout = {milliseconds}")

    def lock(self, cursor: Any, key: int) -> None:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])

    def may_read(self, cursor: Any, table: str) -> bool:
        cursor.execute("SELECT has_table_privilege(%s, 'SELECT')", [table])
        return bool(cursor.fetchone()[0])


# The seq of an event by its time, as positions.seq_at makes it of what the column has.
MOMENT: Final = f"""least(greatest(extract(epoch FROM timestamp) * 1000000 + {SEQ_OF_1970}, {FIRST_TIME_SEQ}),
    {LAST_TIME_SEQ})::bigint"""


class _Unadopted(_PostgreSQL):
    seq = MOMENT
    seq_in_session = MOMENT
    number = "NULL::bigint"
    order = ("timestamp", "id")
    newest_first = "timestamp DESC, id DESC"
    newest_of_all_first = "timestamp DESC, id DESC"
    has_numbers = False


SQLITE: Final = _SQLite()
POSTGRESQL: Final = _PostgreSQL()
UNADOPTED: Final = _Unadopted()
BY_VENDOR: Final[Mapping[str, Dialect]] = {"sqlite": SQLITE, "postgresql": POSTGRESQL}


# --- What both say alike ----------------------------------------------------------------------------------------------


def if_json(column: str, then: str = "", *, otherwise: str = "", also: str = "") -> str:
    """Returns SQL that yields a column, or `then`, only for rows in which the column holds JSON that SQLite can read.

    ADK may store NaN, which SQLite's JSON functions refuse: without this, one such event makes the whole query fail."""
    condition = f"{also} AND json_valid({column})" if also else f"json_valid({column})"
    return f"CASE WHEN {condition} THEN {then or column}{f' ELSE {otherwise}' if otherwise else ''} END"


def wanted(columns: Sequence[str], rows: int) -> str:
    """Returns the start of a query that looks rows up by some of their columns: `WITH wanted (…) AS (VALUES …)`.

    The query continues with `FROM wanted CROSS JOIN … WHERE` and `is_wanted`. For `(…) IN (VALUES …)`, SQLite goes
    through the whole table.
    """
    each = f"({', '.join(['%s'] * len(columns))})"
    return f"WITH wanted ({', '.join(columns)}) AS (VALUES {', '.join([each] * rows)})"


def is_wanted(table: str, columns: Sequence[str]) -> str:
    """Returns the condition that a row of a table is wanted."""
    return " AND ".join(f"{table}.{column} = wanted.{column}" for column in columns)


def written(db: BaseDatabaseWrapper) -> str:
    """Returns the SQL for when a row of `events` was stored, in seconds by the database's clock; NULL if no one
    knows."""
    return of(db).stored_at if db.settings_dict.get("ADKWEB", {}).get("written") else "NULL"


def each_row(
    source: str, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> Generator[tuple[Any, ...], None, None]:
    """Yields the rows of a query one by one, without loading them all into memory."""
    yield from of(source).rows(connections[source], statement, parameters)


def _measured(text: str, size: str, most: int) -> str:
    measured = f"CASE WHEN {size} <= {most} THEN t ELSE '#' || {size} END"
    return f"(WITH measured (t) AS MATERIALIZED (SELECT {text}) SELECT {measured} FROM measured) "
