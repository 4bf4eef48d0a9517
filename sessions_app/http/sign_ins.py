"""Keeps a browser's sign-in, and the messages in it."""

from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse

from ..sources.errors import best_effort


class SignIns(SessionMiddleware):
    """Django's middleware. It stores a sign-in after the view has done its work, which stays done.

    Signing in itself stores the sign-in in the view, where it can fail."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Stores what changed; while adkweb's own database takes no writes, messages such as “Saved” are lost."""
        with best_effort("a message to a browser"):
            return super().process_response(request, response)
        return response
