"""What every page needs."""

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from ..edits import queue
from ..sources import adopting, database


def page(request: HttpRequest) -> dict[str, Any]:
    """The nonce that django-htmx's tag and the page's own scripts carry, whether anything may be written here, whether the
    page's source is not adopted, and what became of the person's queued edits and of what they did last, both looked up
    where a template shows them.
    """
    match = request.resolver_match
    unadopted = _unadopted(match.kwargs.get("source", "") if match and match.url_name != "adoption" else "")
    outcomes = cache(lambda: _outcomes(request))
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": settings.READ_ONLY or bool(unadopted),
        "unadopted": unadopted,
        "outcomes": outcomes,
        "toasts": lambda: _toasts(request, outcomes),
    }


def _unadopted(source: str) -> dict[str, Any] | None:
    """A source that is open and whose events have no numbers, as nobody adopted it; None for any other."""
    if not database.is_open(source) or database.is_numbered(source):
        return None
    return {
        "source": source,
        "adoption": adopting.of(source),
        "read_only": settings.READ_ONLY,
        "ordered": database.has_order(source),
    }


def about(queued_id: UUID) -> str:
    """What a message about a queued edit is tagged with, so that its outcome takes the message's place."""
    return f"queued-{queued_id}"


def _toasts(request: HttpRequest, outcomes: Callable[[], list[queue.Queued]]) -> list[Message]:
    """The messages, without those about a queued edit of which is told by now what became of it."""
    found = list(get_messages(request))
    finished = {about(edit.id) for edit in outcomes()} if any(each.extra_tags for each in found) else set()
    return [each for each in found if each.extra_tags not in finished]


def _outcomes(request: HttpRequest) -> list[queue.Queued]:
    person = getattr(request, "user", None)
    return queue.outcomes(person) if person is not None and person.is_authenticated else []
