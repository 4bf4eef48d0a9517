"""The context processor of every page."""

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from ..edits import queue
from ..edits.queued_edit import Queued
from ..saved import watching
from ..saved.watching import Watched
from ..sources import adopting, database
from . import demo


def page(request: HttpRequest) -> dict[str, Any]:
    """Returns the CSP nonce, whether the page is read-only, and its source if that is not adopted.

    The messages (`toasts`) and the outcomes of queued edits are read only if a template shows them."""
    match = request.resolver_match
    unadopted = _unadopted(match.kwargs.get("source", "") if match and match.url_name != "adoption" else "")
    outcomes = cache(lambda: _outcomes(request))
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": settings.READ_ONLY or bool(unadopted),
        "unadopted": unadopted,
        "demo": cache(lambda: demo.of(request)),
        "outcomes": outcomes,
        "watched": cache(lambda: _watched(request)),
        "toasts": lambda: _toasts(request, outcomes),
    }


def _unadopted(source: str) -> dict[str, Any] | None:
    """Describes a source that is open but not adopted, so that its events have no numbers. None for any other source."""
    if not database.is_open(source) or database.is_numbered(source):
        return None
    return {
        "source": source,
        "adoption": adopting.of(source),
        "read_only": settings.READ_ONLY,
        "ordered": database.has_order(source),
    }


def about(queued_id: UUID) -> str:
    """Returns a message tag for a queued edit. By it, the edit's outcome replaces the message."""
    return f"queued-{queued_id}"


def _toasts(request: HttpRequest, outcomes: Callable[[], list[Queued]]) -> list[Message]:
    """Returns the messages, except those about a queued edit whose outcome is shown."""
    shown = list(get_messages(request))
    finished = {about(edit.id) for edit in outcomes()} if any(each.extra_tags for each in shown) else set()
    return [each for each in shown if each.extra_tags not in finished]


def _watched(request: HttpRequest) -> list[Watched]:
    person = getattr(request, "user", None)
    return watching.watched(person) if person is not None and person.is_authenticated else []


def _outcomes(request: HttpRequest) -> list[Queued]:
    person = getattr(request, "user", None)
    return queue.outcomes(person) if person is not None and person.is_authenticated else []
