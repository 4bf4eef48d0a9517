"""What every page needs."""

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from .. import queued


def page(request: HttpRequest) -> dict[str, Any]:
    """The nonce that django-htmx's tag and the page's own scripts carry, whether anything may be written, and what became
    of the person's queued edits and of what they did last, both looked up where a template shows them.
    """
    outcomes = cache(lambda: _outcomes(request))
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": settings.READ_ONLY,
        "outcomes": outcomes,
        "toasts": lambda: _toasts(request, outcomes),
    }


def about(queued_id: UUID) -> str:
    """What a message about a queued edit is tagged with, so that its outcome takes the message's place."""
    return f"queued-{queued_id}"


def _toasts(request: HttpRequest, outcomes: Callable[[], list[queued.Queued]]) -> list[Message]:
    """The messages, without those about a queued edit of which is told by now what became of it."""
    found = list(get_messages(request))
    finished = {about(edit.id) for edit in outcomes()} if any(each.extra_tags for each in found) else set()
    return [each for each in found if each.extra_tags not in finished]


def _outcomes(request: HttpRequest) -> list[queued.Queued]:
    person = getattr(request, "user", None)
    return queued.outcomes(person) if person is not None and person.is_authenticated else []
