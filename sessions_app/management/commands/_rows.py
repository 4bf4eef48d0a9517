"""Asks a source for rows, and names some of what is wrong with them."""

from collections.abc import Iterable
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

NAMED: Final = 3  # of whatever is wrong, by name


def query(db: BaseDatabaseWrapper, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Returns the rows of a query."""
    with db.cursor() as cursor:
        cursor.execute(sql, list(values))
        return list(cursor.fetchall())


def some(items: Iterable[str]) -> str:
    """Names the first of what is wrong, and how many more there are."""
    names = list(items)
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more
