"""One way to answer with HTML."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers


def page(request: HttpRequest, template: str, context: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    """The rendered template.

    ADK's SQLite files may hold half of a surrogate pair, which cannot be sent; it is shown as a question mark.
    """
    text = render_to_string(template, context, request)
    response = HttpResponse(text.encode("utf-8", "replace"), status=status)
    # One address answers a page or a fragment: a browser that goes back must not show the one for the other.
    response.headers["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["HX-Request"])
    return response
