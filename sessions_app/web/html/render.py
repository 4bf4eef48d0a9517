"""Makes responses with HTML, and with any other data."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers


def page(request: HttpRequest, template: str, context: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    """Renders a template.

    ADK's SQLite files may hold half of a surrogate pair, which cannot be sent. It is shown as a question mark.
    """
    response = data(render_to_string(template, context, request), "text/html; charset=utf-8", status)
    # The same address can answer with a page or a fragment. A browser that goes back must not mix them up.
    patch_vary_headers(response, ["HX-Request"])
    return response


def data(content: bytes | str, mime_type: str, status: int = 200) -> HttpResponse:
    """Returns data as it is. Only the browser may cache it, and it asks again each time."""
    raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return HttpResponse(raw, mime_type, status, headers={"Cache-Control": "private, no-cache"})
