"""Reads many of adkweb's own rows without holding all of them, or a cursor, which a pooler would not keep."""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from django.db.models import Model, Q, QuerySet

_Row = TypeVar("_Row", bound=Model)
SOME: Final = 200  # rows of a page


def in_pages(rows: "QuerySet[_Row]", *order: str) -> Iterator[_Row]:
    """Yields rows, a page after the other, by columns that are never null and of which the last is unique.

    in_pages(Job.objects.filter(kind="expiry"), "-created", "id")    # the newest first; by default, by primary key

    Rows that are written in the meantime may be missing."""
    order = order or ("pk",)
    page = list(rows.order_by(*order)[:SOME])
    while page:
        yield from page
        page = list(rows.filter(_after(page[-1], *order)).order_by(*order)[:SOME]) if len(page) == SOME else []


def _after(row: Any, column: str, *more: str) -> Q:
    name, side = column.removeprefix("-"), "lt" if column.startswith("-") else "gt"
    value = getattr(row, name)
    beyond = Q(**{f"{name}__{side}": value})
    return beyond | Q(**{name: value}) & _after(row, *more) if more else beyond
