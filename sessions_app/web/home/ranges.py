"""The range of time of a page's figures: one of a few that end now (?range=24h), or any other (?from= and ?to=)."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from ...access.actor import Actor
from ...search import health
from ...search.health import EVERYBODY, Of, Range

RANGES: Final = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}  # seconds
USUAL: Final = "24h"
LEAST: Final = 60.0  # seconds
_LAST: Final = 2.0**32  # as for an event's time


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen range. `name` is one of RANGES, or empty for any other."""

    name: str
    during: Range

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the ranges that can be chosen by name."""
        return tuple(RANGES)

    @property
    def query(self) -> str:
        """Returns what selects the sessions that were active in this range."""
        if self.name:
            return f"after:{self.name}"
        since, until = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in self.during)
        return f"after:{since} before:{until}"

    def sessions(self, query: str = "", sort: str = "") -> str:
        """Returns the address of the sessions that were active in this range, and that a query selects."""
        given = {"q": f"{query} {self.query}".strip(), "sort": sort}
        return f"{reverse('search')}?{urlencode({key: value for key, value in given.items() if value})}"


def chosen(request: HttpRequest, now: float, actor: Actor, of: Of = EVERYBODY) -> Chosen:
    """Returns the range of time that a request asks for.

    If it asks for none, it is a day, or as much longer as it takes to show any turn.
    """
    since, until = _seconds(request.GET.get("from")), _seconds(request.GET.get("to"))
    if until - since >= LEAST:
        return Chosen("", Range(since, until))
    name = request.GET.get("range", "")
    if name in RANGES:
        return _named(name, now)
    longer = [_named(each, now) for each in RANGES if RANGES[each] >= RANGES[USUAL]]
    return next((each for each in longer if health.any_turn(each.during, actor=actor, of=of)), longer[0])


def _named(name: str, now: float) -> Chosen:
    return Chosen(name, Range(now - RANGES[name], now))


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or "nan")
    except ValueError:
        return math.nan
    return float(math.floor(seconds)) if 0 <= seconds <= _LAST else math.nan
