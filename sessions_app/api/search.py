"""Searching: the sessions that a query selects, and the calls in them that wait for an answer, in every source."""

import time
from contextlib import suppress
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router
from ninja.params.functions import Query

from ..domain.errors import Invalid, SourceError
from ..domain.shorten import words
from ..search import inbox, language, results, tree
from ..search.results import as_json
from ..search.selecting import PATIENT, patience
from . import schemas
from .authorize import actor_of, may_know
from .bodies import answer

router = Router()

MOST: int = 100  # rows of a page
COLUMNS = Query([], description="keys of state to answer with, each in a `columns` of its own: cart.total, user:tier")
ZONE = Query("UTC", description="the time zone of times in `q`, as IANA names it: Asia/Seoul")


@router.get("/sessions", response=schemas.Results, summary="Find sessions, in every source")
def sessions(
    request: HttpRequest,
    q: str = Query("", description="the query (docs/search.md); empty: all sessions"),
    sort: str = Query("-last", description=f"{', '.join(results.SORTS)}; with “-”, the greatest first"),
    columns: list[str] = COLUMNS,
    cursor: str | None = None,
    limit: int = Query(results.PAGE, ge=1, le=MOST),
    zone: str = ZONE,
) -> HttpResponse:
    """Returns a page of the sessions that a query selects, each with the newest line that has its words.

    A query with mistakes is refused with 400. `errors` has each with its place: `start` and `end` count characters of
    `q` from 0. A query that takes longer than a minute is stopped with 503."""
    query = _query(q, zone)
    with patience(PATIENT):
        page = results.search(query, actor=actor_of(request), sort=sort, columns=columns, cursor=cursor, limit=limit)
    return answer(
        {
            "items": [as_json(row, actor_of(request)) for row in page.rows],
            "next": page.next,
            "count": page.count,
            "more": page.more,
            "broad": page.broad,
            "behind": _behind(request, page.behind),
        }
    )


@router.get("/inbox", response=schemas.Inbox, summary="Calls that wait for an answer, in every source")
def waiting(
    request: HttpRequest,
    q: str = Query("", description="a query for their sessions (docs/search.md); empty: all sessions"),
    passed_over: bool = Query(False, description="instead, those after which the user said something else"),
    cursor: str | None = None,
    limit: int = Query(inbox.PAGE, ge=1, le=MOST),
    zone: str = ZONE,
) -> HttpResponse:
    """Returns a page of the calls of agents that a person or another system has to answer, the oldest first. What was
    answered, rewound or stopped isn't there any longer."""
    query, who = _query(q, zone), actor_of(request)
    with patience(PATIENT):
        page = inbox.waiting(query, actor=who, passed_over=passed_over, cursor=cursor, limit=limit)
    return answer(
        {
            "items": [inbox.as_json(each, who) for each in page.rows],
            "next": page.next,
            "behind": _behind(request, results.behind()),
        }
    )


def _query(q: str, zone: str) -> tree.Query:
    """Returns a query. Raises Invalid with the places of its mistakes."""
    query = language.parse(q, now=time.time(), zone=_zone(zone))
    if query.problems:
        raise Invalid(query.problems[0].message, errors=[_told(problem) for problem in query.problems])
    return query


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Invalid(
            _("zone: “%(name)s” isn't a time zone. Use a name such as Asia/Seoul.") % {"name": words(name, 40)}
        ) from error


def _told(problem: tree.Problem) -> dict[str, str | int]:
    return {"place": "q", "start": problem.start, "end": problem.end, "message": problem.message}


def _behind(request: HttpRequest, sources: list[tuple[str, float]]) -> list[dict[str, str | float]]:
    return [{"source": alias, "share": share} for alias, share in sources if _knows(request, alias)]


def _knows(request: HttpRequest, alias: str) -> bool:
    with suppress(SourceError):  # no one can say which apps an unreachable source has
        return may_know(request, alias)
    return False
