"""Knows for whom a page is being made, as Django knows its language: what shows the id of a user asks here.

Where nobody asks, as when a socket is told something that is the same for all who watch, it is for PEOPLE.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from django.http import HttpRequest, HttpResponse

from ..access.actor import PEOPLE, Actor
from ..access.handles import shown_user
from ..access.roles import actor_of

_for: Final[ContextVar[HttpRequest | Actor]] = ContextVar("for", default=PEOPLE)


class ReaderKnown:
    """Sets for whom pages are made while a request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        with read_by(request):
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


def user_for_reader(source: str, app_name: str, user_id: str) -> str:
    """Returns what the reader may see of the id of a user: the id, or its handle."""
    return shown_user(source, app_name, user_id, reader())
