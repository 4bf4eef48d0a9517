"""Knows the reader for whom a page is made, as Django knows its language: code that shows ids of users or times asks here.

If no reader is set, as when a socket gets something that is the same for all watchers, it is PEOPLE.
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
    """Sets the reader and their time zone while a request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        with read_by(request), timezone.override(zone_of(request)):
            return self.get_response(request)


@contextmanager
def read_by(reader: HttpRequest | Actor) -> Iterator[None]:
    """Sets the reader: an actor, or the person who is signed in when it is asked."""
    token = _for.set(reader)
    try:
        yield
    finally:
        _for.reset(token)


def reader() -> Actor:
    """Returns the actor who reads the page."""
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
