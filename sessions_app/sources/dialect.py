"""Says what SQLite and PostgreSQL call the same thing: an event's seq, JSON that is valid, rows one by one."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from django.db import connections

# The seq of an event, by vendor. A query over all sessions needs the exact words of the index in schema.py. PostgreSQL
# would take that index for the events of one session, too, and read those of all others: there, the column is named alone.
SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}
SEQ_IN_SESSION: Final = {"postgresql": "seq", "sqlite": "rowid"}


def if_json(column: str, then: str = "", *, otherwise: str = "", also: str = "") -> str:
    """Returns the SQL of a column, or of what is made of it, for rows in which it is JSON that SQLite can read.

    ADK may store NaN, which SQLite's JSON functions refuse: without this, one such event makes the whole query fail.
    """
    condition = f"{also} AND json_valid({column})" if also else f"json_valid({column})"
    return f"CASE WHEN {condition} THEN {then or column}{f' ELSE {otherwise}' if otherwise else ''} END"


def each_row(
    source: str, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> Generator[tuple[Any, ...], None, None]:
    """The rows of a query one by one, so that no more of them are in memory than are wanted."""
    connection = connections[source]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with connection.wrap_database_errors:
                yield from cursor.cursor.stream(statement, parameters)
        else:
            cursor.execute(statement, parameters)
            with connection.wrap_database_errors:
                yield from cursor.cursor
