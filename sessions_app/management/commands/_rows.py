"""Queries a source for `adkweb doctor`, and names the first few rows that have a problem."""

from collections.abc import Iterable
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

NAMED: Final = 3  # problems that are named one by one


def query(db: BaseDatabaseWrapper, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Returns the rows of a query."""
    with db.cursor() as cursor:
        cursor.execute(sql, list(values))
        return list(cursor.fetchall())


def some(items: Iterable[str]) -> str:
    """Returns the first few items, and how many more there are: `a; b; c and 2 more`."""
    names = list(items)
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more
