"""Sends queries to adkweb's own database, which is SQLite or PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from django.db import connection


def rows(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns the rows of a query over adkweb's own database.

    A plus before a column of `s` keeps SQLite from going by its index. PostgreSQL would know no longer how often values of
    such a column occur, and make bad plans.
    """
    if connection.vendor == "postgresql":
        sql = sql.replace("+s.", "s.")
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def whole(number: str) -> str:
    """Returns SQL for the whole part of a number that is not negative. On SQLite, floor() is a Python function."""
    return f"CAST({number} AS integer)" if connection.vendor == "sqlite" else f"CAST(floor({number}) AS integer)"


def is_one_of(column: str, some: Sequence[Any], values: list[Any]) -> str:
    """Returns a condition, and adds its values. That of no values is false; with IN, it would be neither true nor false."""
    values += some
    return f"{column} IN ({', '.join(['%s'] * len(some))})" if some else "FALSE"
