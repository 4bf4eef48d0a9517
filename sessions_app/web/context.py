"""What every page needs."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from .. import queued


def page(request: HttpRequest) -> dict[str, Any]:
    """The nonce that django-htmx's tag and the page's own scripts carry, whether anything may be written, and what became
    of the person's queued edits, which is looked up where a template shows it.
    """
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": settings.READ_ONLY,
        "outcomes": lambda: _outcomes(request),
    }


def _outcomes(request: HttpRequest) -> list[queued.Queued]:
    person = getattr(request, "user", None)
    return queued.outcomes(person) if person is not None and person.is_authenticated else []
