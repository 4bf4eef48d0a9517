"""Reads a request to the page “Sessions”: its query, order and columns. Makes the addresses that ask for something else."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.timezone import get_default_timezone

from ...search.language import parse, with_filter, without
from ...search.tree import Query
from . import columns
from .columns import Column

ZONE: Final = "adkweb_zone"  # the cookie in which querybar.js says the reader's time zone
LINKED: Final = 500  # characters of a query from which links to others are made


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was typed, and how its results are to be shown. `zone` is the reader's time zone."""

    text: str
    sort: str
    columns: tuple[Column, ...]
    now: float
    zone: tzinfo

    @property
    def query(self) -> Query:
        """Returns the query, with what is wrong with it."""
        return parse(self.text, now=self.now, zone=self.zone)

    @property
    def address(self) -> str:
        """Returns the address that asks for this."""
        return self.continued("")

    def continued(self, cursor: str | None) -> str:
        """Returns the address of the rows after a cursor."""
        sort = "" if self.sort == columns.SORT else self.sort
        given = {"q": self.text, "sort": sort, "cols": self.names, "page": cursor or ""}
        query = urlencode({name: value.encode("utf-8", "replace") for name, value in given.items() if value})
        return reverse("search") + (f"?{query}" if query else "")

    @property
    def names(self) -> str:
        """Returns the chosen columns as an address names them."""
        return columns.write(self.columns)

    def with_text(self, text: str) -> "Asked":
        """Returns the same table for another query."""
        return replace(self, text=text)

    def sorted_by(self, column: Column) -> "Asked":
        """Returns what the head of a column asks for: the highest first, and the other way round after that."""
        first, second = (f"-{column.sort}", column.sort) if _from_above(column) else (column.sort, f"-{column.sort}")
        return replace(self, sort=second if self.sort == first else first)

    def with_columns(self, names: Sequence[str]) -> "Asked":
        """Returns the same results with other columns."""
        return replace(self, columns=columns.of_names(names) or columns.read(None))

    def within(self, after: float | None, before: float | None) -> "Asked":
        """Returns the query for the sessions of a range of time; None for no limit."""
        text = self.text
        for name, seconds in (("after", after), ("before", before)):
            text = without(text, name) if seconds is None else with_filter(text, name, self.typed(seconds))
        return self.with_text(text)

    def typed(self, seconds: float) -> str:
        """Returns a time as somebody would type it: 2026-11-22T14:00, in the reader's zone."""
        local = datetime.fromtimestamp(seconds, self.zone)
        return local.strftime("%Y-%m-%dT%H:%M:%S" if local.second else "%Y-%m-%dT%H:%M")


def _from_above(column: Column) -> bool:
    return column.numeric or column.name in ("started", "last")


def read(request: HttpRequest) -> Asked:
    """Reads what a request asks for."""
    sort = request.GET.get("sort", "")
    sorts = {column.sort for column in columns.built_in().values() if column.sort}
    return Asked(
        request.GET.get("q", "").strip(),
        sort if sort.removeprefix("-") in sorts else columns.SORT,
        columns.read(request.GET.get("cols")),
        time.time(),
        zone_of(request),
    )


def zone_of(request: HttpRequest) -> tzinfo:
    """Returns the reader's time zone, as their browser says it; adkweb's own if it does not."""
    name = request.COOKIES.get(ZONE, "")
    return ZoneInfo(name) if name in _zones() else get_default_timezone()


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
