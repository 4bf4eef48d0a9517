"""Answers what a pane of the session page asks for (static/js/pane.js): the page itself, and no redirect of it."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

PANE: Final = "X-Pane"  # a pane asks with it, and without HX-Request: for the page, not for a part of it
_REDIRECTS: Final = (301, 302, 303, 307, 308)


def wants_sentence(request: HttpRequest) -> bool:
    """Tells whether an error is answered with one sentence: to htmx, and to a pane that sent a form, which stays there."""
    return bool(request.headers.get("HX-Request")) or (PANE in request.headers and request.method == "POST")


class Panes:
    """Tells a pane where it would be redirected to. A browser would follow without asking: out of the session, or to the
    session's page, whose messages it would then have taken."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer; for a redirect, the address as htmx is told it."""
        response = self.get_response(request)
        if PANE in request.headers and response.status_code in _REDIRECTS:
            response.status_code = 204
            response["HX-Redirect"] = response["Location"]
            del response["Location"]
        return response
