"""What every page needs."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from .. import adopting, queued, sources


def page(request: HttpRequest) -> dict[str, Any]:
    """The nonce that django-htmx's tag and the page's own scripts carry, whether anything may be written here, whether the
    page's source is not adopted, and what became of the person's queued edits, which is looked up where a template shows it.
    """
    match = request.resolver_match
    source = match.kwargs.get("source", "") if match and match.url_name != "adoption" else ""
    unadopted = _unadopted(source)
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": settings.READ_ONLY or bool(unadopted),
        "unadopted": unadopted,
        "outcomes": lambda: _outcomes(request),
    }


def _unadopted(source: str) -> dict[str, Any] | None:
    """A source that is open and that nobody adopted; None for any other."""
    if not sources.is_open(source) or sources.is_adopted(source):
        return None
    return {"source": source, "adoption": adopting.of(source), "read_only": settings.READ_ONLY}


def _outcomes(request: HttpRequest) -> list[queued.Queued]:
    person = getattr(request, "user", None)
    return queued.outcomes(person) if person is not None and person.is_authenticated else []
