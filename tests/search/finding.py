"""Feeds the index, and asks it as a page does."""

from __future__ import annotations

import time
from collections import Counter

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.models import SearchOwner, SearchSession, SearchSource
from sessions_app.search import tree
from sessions_app.search.index.feed import Feeder
from sessions_app.search.language import parse
from sessions_app.search.results import Results, Row, search
from tests.search.test_language import SEOUL


def feed(source: str, feeder: Feeder | None = None, *, walk: bool = False) -> Feeder:
    """Feeds until nothing is left. With `walk`, it is time for the next walk through all sessions.

    Whatever was fed, each app counts the sessions that it has in the index."""
    if walk:
        SearchSource.objects.update(due=0)
    feeder = feeder or Feeder(source)
    while feeder.feed():
        pass
    counted = dict(SearchOwner.objects.filter(sessions__gt=0).values_list("pk", "sessions"))
    assert counted == Counter(SearchSession.objects.filter(listed=True).values_list("app_owner", flat=True))
    return feeder


def query_of(text: str) -> tree.Query:
    """Reads a query, in Seoul."""
    return parse(text, now=time.time(), zone=SEOUL)


def asked(text: str, actor: Actor = SYSTEM) -> Results:
    """Returns the first page of what a well-formed query selects."""
    query = query_of(text)
    assert not query.problems
    return search(query, actor=actor)


def rows(text: str = "", actor: Actor = SYSTEM) -> list[Row]:
    """Returns the sessions that a query selects, which are as many as were counted."""
    results = asked(text, actor)
    assert results.count == len(results.rows)
    return results.rows


def ids(text: str = "", actor: Actor = SYSTEM) -> list[str]:
    """Returns the ids of the sessions that a query selects, in alphabetical order."""
    return sorted(row.ref.session_id for row in rows(text, actor))
