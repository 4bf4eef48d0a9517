"""Knows for whom a page is being made, as Django knows its language: what shows the id of a user asks here. So do times.

Where nobody asks, as when a socket is told something that is the same for all who watch, it is for PEOPLE.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from ..access.actor import PEOPLE, Actor
from ..access.handles import shown_user
from ..access.roles import actor_of

ZONE: Final = "adkweb_zone"  # the cookie in which querybar.js says the reader's time zone
_for: Final[ContextVar[HttpRequest | Actor]] = ContextVar("for", default=PEOPLE)


class ReaderKnown:
    """Sets for whom pages are made while a request is answered, and their time zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        with read_by(request), timezone.override(zone_of(request)):
            return self.get_response(request)


@contextmanager
def read_by(reader: HttpRequest | Actor) -> Iterator[None]:
    """Says for whom something is made: for an actor, or for whoever signed in by the time that it is asked."""
    token = _for.set(reader)
    try:
        yield
    finally:
        _for.reset(token)


def reader() -> Actor:
    """Returns the actor for whom a page is being made."""
    if isinstance(given := _for.get(), Actor):
        return given
    person = getattr(given, "user", None)
    return actor_of(person) if person is not None and person.is_authenticated else PEOPLE


def zone_of(request: HttpRequest) -> tzinfo:
    """Returns the reader's time zone, as their browser says it; adkweb's own if it does not."""
    name = request.COOKIES.get(ZONE, "")
    return ZoneInfo(name) if name in _zones() else timezone.get_default_timezone()


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def user_for_reader(source: str, app_name: str, user_id: str) -> str:
    """Returns what the reader may see of the id of a user: the id, or its handle."""
    return shown_user(source, app_name, user_id, reader())
