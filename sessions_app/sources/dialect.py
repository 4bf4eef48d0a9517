"""How SQLite and PostgreSQL differ, where the same is asked of both."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from django.db import connections

SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of sources/schema.py has it


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
