"""Opens a database that is to be imported, read-only."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import psycopg
from psycopg.conninfo import make_conninfo

from ...domain.errors import SourceError
from ...sources import database as sources_database
from ...sources import urls
from ...sources.dialect import POSTGRESQL, SQLITE, Dialect
from ..items import MOST, Fault, beat

Row = Mapping[str, Any]
Tables = dict[str, dict[str, str]]  # by name, the types of their columns by name
_SECONDS: Final = 5  # to connect, and to wait for another program's lock on a SQLite file
STEPS: Final = 50_000  # of SQLite's virtual machine between two beats: some milliseconds


# --- Connections ------------------------------------------------------------------------------------------------------


class Database(Protocol):
    """A database that is only read."""

    where: str  # its path or URL, without password
    tables: Tables
    dialect: Dialect
    collation: str  # in which names are ordered by their bytes, whatever the column says
    stops_early: bool  # a page may be shorter than requested
    any_length: bool  # names may be longer than their columns allow

    def rows(self, sql: str, *values: Any, length: int | None = None) -> Sequence[Row]:
        """Returns the rows of a query, in which %s stands for a value. Raises Fault if the database cannot answer it.

        With `length`, SQLite stops at the row that reaches this number of characters.
        """
        ...


class _Sqlite:
    dialect: Dialect = SQLITE
    collation = "BINARY"
    stops_early = True
    any_length = True
    columns = """SELECT tables.name AS "table", columns.name, columns.type
        FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
        WHERE tables.type = 'table' AND tables.name NOT GLOB 'sqlite_*'
        AND tables.sql LIKE 'CREATE TABLE %'"""  # as SQLite writes it; the rows of a virtual table might never end

    def __init__(self, file: urls.File) -> None:
        self.where = str(file.path)
        with _problems(self.where):
            self.connection = sqlite3.connect(replace(file, read_only=True).uri, uri=True, timeout=_SECONDS)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST)  # a damaged file can claim a gigabyte in a page
        self.connection.row_factory = sqlite3.Row
        self.connection.text_factory = _text
        self.connection.set_progress_handler(self._beat, STEPS)
        self._end: BaseException | None = None
        self.tables: Tables = {}

    def rows(self, sql: str, *values: Any, length: int | None = None) -> Sequence[Row]:
        rows, left = [], length
        with _problems(self.where):
            try:
                for row in self.connection.execute(sql.replace("%s", "?"), values):
                    rows.append(dict(row))
                    if left is not None and (left := left - _length(row)) <= 0:
                        break
            except sqlite3.OperationalError:
                if self._end is not None:
                    raise self._end from None
                raise
        return rows

    def _beat(self) -> bool:
        """Tells SQLite whether to stop in the middle of a query."""
        try:
            beat()
        except BaseException as end:  # Ctrl+C, too: SQLite would not pass it on
            self._end = end
        return self._end is not None


def _text(text: bytes) -> str:
    """Decodes stored text. Raises Fault if it is not UTF-8, instead of reading it as some other text."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Fault(f"text that is not UTF-8 (byte {error.start + 1} of it)", place="") from error


def _length(row: Iterable[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))


class _PostgreSQL:
    dialect: Dialect = POSTGRESQL
    collation = '"C"'
    stops_early = False
    any_length = False
    columns = """SELECT relname AS table, attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
        AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname = ANY (current_schemas(false)))
        AND pg_table_is_visible(attrelid)"""

    def __init__(self, server: urls.Server) -> None:
        self.where = server.where
        parameters = {"connect_timeout": str(_SECONDS), **server.parameters}
        with _problems(self.where):
            self.connection = psycopg.connect(
                make_conninfo(**parameters, **({"dbname": server.name} if server.name else {})),
                autocommit=True,
                row_factory=psycopg.rows.dict_row,
                prepare_threshold=None,
            )
            self.connection.read_only = True  # each transaction
        self.tables: Tables = {}

    def rows(self, sql: str, *values: Any, length: int | None = None) -> Sequence[Row]:
        beat()
        with _problems(self.where), self.connection.transaction():
            return self.connection.execute(sql.encode(), values or None).fetchall()


@contextmanager
def opened(address: str) -> Iterator[Database]:
    """Opens a SQLite file, or a sqlite:/// or postgresql:// URL, for reading only. Raises Fault."""
    try:
        named = urls.read(address)
    except SourceError as error:
        raise Fault(error.message, place="") from error
    database: _Sqlite | _PostgreSQL = _Sqlite(named) if isinstance(named, urls.File) else _PostgreSQL(named)
    with closing(database.connection):
        for row in database.rows(database.columns):
            database.tables.setdefault(row["table"], {})[row["name"]] = row["type"].lower()
        yield database


def check_pages(path: str) -> None:
    """Checks a SQLite file page by page; other files are left alone. Raises Fault.

    Someone can craft a file whose pages form a circle, which an import would read forever.
    """
    with open(path, "rb") as file:
        if not file.read(16).startswith(b"SQLite format 3\0"):
            return
    with opened(path) as database:
        database.rows("PRAGMA ignore_check_constraints = ON")  # they come from the file and can be anything
        (first, *_more) = database.rows("PRAGMA quick_check(1)")
    if (problem := str(next(iter(first.values())))).startswith("***"):
        raise Fault(f"the database is damaged: {' '.join(problem.split())}", place="")


@contextmanager
def _problems(where: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, psycopg.Error, UnicodeError) as error:  # the last one comes from a damaged name
        raise Fault(sources_database.problem(where, error).message, place="") from error
