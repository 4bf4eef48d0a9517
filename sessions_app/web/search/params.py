"""Reads a request to the page “Sessions”: its query, order and columns. Makes the addresses that ask for something else."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Slow
from ...http.reader import zone_of
from ...search.completing import Suggestion
from ...search.completing import complete as suggestions_for
from ...search.conditions import FILTERS
from ...search.instead import MANY
from ...search.language import parse, with_filter, without
from ...search.results import count
from ...search.saved.views import SavedView
from ...search.selecting import patience
from ...search.tree import Problem, Query, Text, leaves
from ..html.render import page
from ..request import actor, person_of
from . import columns
from .columns import Column

_COUNTING: Final = 0.1  # seconds
LINKED: Final = 500  # characters of a query from which links to others are made


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it was typed, and how its results are to be shown. `zone` is the reader's time zone.

    `view` is the saved view that it came from. It may have been edited since."""

    text: str
    sort: str
    columns: tuple[Column, ...]
    now: float
    zone: tzinfo
    view: SavedView | None = None

    @property
    def query(self) -> Query:
        """Returns the query, with what is wrong with it."""
        return parse(self.text, now=self.now, zone=self.zone)

    @property
    def address(self) -> str:
        """Returns the address that asks for this."""
        return self.continued("")

    @property
    def over_time(self) -> str:
        """Returns the address of the histogram."""
        return self._at("histogram")

    @property
    def at_all_times(self) -> str:
        """Returns the address that asks for the same without a range of time."""
        return self.within(None, None).address

    def continued(self, cursor: str | None) -> str:
        """Returns the address of the rows after a cursor."""
        return self._at("search", cursor)

    def _at(self, name: str, cursor: str | None = None) -> str:
        sort = "" if self.sort == columns.SORT else self.sort
        given = {"q": self.text, "sort": sort, "cols": self.names}
        kept = {"q"} if self.view else set()  # an empty query of a view is not the view's own
        if self.view and not self.differs:
            given = {}
        given |= {"view": str(self.view.id) if self.view else "", "page": cursor or ""}
        query = urlencode(
            {name: value.encode("utf-8", "replace") for name, value in given.items() if value or name in kept}
        )
        return reverse(name) + (f"?{query}" if query else "")

    @property
    def differs(self) -> bool:
        """Tells whether the view that it came from asks for something else."""
        view = self.view
        return view is not None and (view.query, view.sort, view.columns) != (self.text, self.sort, self.names)

    @property
    def names(self) -> str:
        """Returns the chosen columns as an address names them."""
        return columns.write(self.columns)

    def with_text(self, text: str) -> "Asked":
        """Returns the same table for another query."""
        return replace(self, text=text)

    def sorted_by(self, column: Column) -> "Asked":
        """Returns what the head of a column asks for: the highest first, and the other way round after that."""
        first, second = (f"-{column.sort}", column.sort) if column.from_above else (column.sort, f"-{column.sort}")
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


def read(request: HttpRequest) -> Asked:
    """Reads what a request asks for. `?view=` alone is that view; with a query beside it, it is the view, edited.

    Raises NotFound for a view that is not there."""
    given: Mapping[str, str] = request.GET
    view = SavedView.objects.of(given["view"], person_of(request)) if given.get("view") else None
    if view and not {"q", "sort", "cols"} & given.keys():
        given = {"q": view.query, "sort": view.sort, "cols": view.columns}
    sort = given.get("sort", "")
    sorts = {column.sort for column in columns.built_in().values() if column.sort}
    return Asked(
        given.get("q", "").strip(),
        sort if sort.removeprefix("-") in sorts else columns.SORT,
        columns.read(given.get("cols")),
        time.time(),
        zone_of(request),
        view,
    )


# --- The query bar on top of every page: what it marks in a query, and what it offers to complete it ------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a query's text. `shade` is "bad" for what is wrong, "filter" for a filter, and "" for the rest."""

    text: str
    shade: str = ""


def pieces(text: str, query: Query) -> Iterator[Piece]:
    """Cuts a query's text into pieces: filters, what is wrong, and the rest."""
    nodes = [] if query.tree is None else [each for each in leaves(query.tree) if not isinstance(each, Text)]
    marked = sorted([(each.start, each.end, isinstance(each, Problem)) for each in (*nodes, *query.problems)])
    at = 0
    for start, end, is_wrong in marked:
        if start < at or end <= start:
            continue
        if start > at:
            yield Piece(text[at:start])
        yield Piece(text[start:end], "bad" if is_wrong else "filter")
        at = end
    if at < len(text):
        yield Piece(text[at:])


@require_GET
def complete(request: HttpRequest) -> HttpResponse:
    """Renders what may stand at the ?at= of a query, or of a condition on the state of an app, ?of=. Where nothing is known
    that goes on so, it offers to search for the query."""
    text = request.GET.get("q", "")
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(f"{reverse('search')}?{urlencode({'q': text.encode('utf-8', 'replace')})}")
    suggestions = list(_counted(suggested(request), actor(request)))
    searches = "of" not in request.GET
    searched = text.strip() if searches and all(each.respelt for each in suggestions) else ""
    context = {"suggestions": suggestions, "searched": searched, "searches": searches, "many": MANY}
    return page(request, "search/params/_options.html", context)


def _counted(suggestions: Sequence[Suggestion], who: Actor) -> Iterator[Suggestion]:
    """Says of values of filters how many sessions they find, as long as that takes next to no time."""
    until = time.monotonic() + _COUNTING
    for each in suggestions:
        sessions = 0
        with suppress(Slow), patience(_COUNTING):
            if each.label in FILTERS and not each.respelt and time.monotonic() < until:
                query = parse(f"{each.label}:{each.text}", now=time.time(), zone=UTC)
                sessions = count(query, actor=who, most=MANY) if query.tree and not query.problems else 0
        yield each._replace(sessions=sessions)


def suggested(request: HttpRequest) -> list[Suggestion]:
    """Returns what may stand at the ?at= of a query, or of a condition on the state of an app."""
    text, at = request.GET.get("q", ""), request.GET.get("at", "")
    cursor = min(int(at), len(text)) if at.isdecimal() and len(at) < 10 else len(text)
    return suggestions_for(text, cursor, actor=actor(request), app=request.GET.get("of", ""))
