"""Names the differences between SQLite and PostgreSQL: an event's seq, valid JSON, reading rows one by one."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from django.db import connections

# The seq of an event, by vendor. A query over all sessions must use the exact expression of the index in schema.py. For
# the events of one session, PostgreSQL would use that index, too, and read the events of all others: such queries name
# the column alone.
SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}
SEQ_IN_SESSION: Final = {"postgresql": "seq", "sqlite": "rowid"}


def if_json(column: str, then: str = "", *, otherwise: str = "", also: str = "") -> str:
    """Returns SQL that yields a column, or `then`, only for rows in which the column holds JSON that SQLite can read.

    ADK may store NaN, which SQLite's JSON functions refuse: without this, one such event makes the whole query fail."""
    condition = f"{also} AND json_valid({column})" if also else f"json_valid({column})"
    return f"CASE WHEN {condition} THEN {then or column}{f' ELSE {otherwise}' if otherwise else ''} END"


def wanted(columns: Sequence[str], rows: int) -> str:
    """Returns the beginning of a query that looks rows up by some of their columns: `WITH wanted (…) AS (VALUES …)`.

    The query goes on with `FROM wanted CROSS JOIN … WHERE` and `is_wanted`. For `(…) IN (VALUES …)`, SQLite goes through the
    whole table.
    """
    each = f"({', '.join(['%s'] * len(columns))})"
    return f"WITH wanted ({', '.join(columns)}) AS (VALUES {', '.join([each] * rows)})"


def is_wanted(table: str, columns: Sequence[str]) -> str:
    """Returns the condition that a row of a table is wanted."""
    return " AND ".join(f"{table}.{column} = wanted.{column}" for column in columns)


def each_row(
    source: str, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> Generator[tuple[Any, ...], None, None]:
    """Yields the rows of a query one by one, without loading them all into memory."""
    connection = connections[source]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with connection.wrap_database_errors:
                yield from cursor.cursor.stream(statement, parameters)
        else:
            cursor.execute(statement, parameters)
            with connection.wrap_database_errors:
                yield from cursor.cursor
