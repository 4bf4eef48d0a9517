"""Sends queries to adkweb's own database, which is SQLite or PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from ..sources import dialect


def rows(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns the rows of a query over adkweb's own database.

    A plus before a column of `s` keeps SQLite from going by its index.
    """
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("+s.", dialect.of(connection).without_index("s.")), values)
        return list(cursor.fetchall())


def is_one_of(column: str, some: Sequence[Any], values: list[Any]) -> str:
    """Returns a condition, and adds its values. That of no values is false; with IN, it would be neither true nor false."""
    values += some
    return f"{column} IN ({', '.join(['%s'] * len(some))})" if some else "FALSE"
