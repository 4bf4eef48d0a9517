"""Keeps a browser's sign-in, and the messages in it."""

from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse

from ..sources.errors import best_effort


class SignIns(SessionMiddleware):
    """Django's middleware. By the time that it stores a sign-in, the view has done its work, which stays done.

    Signing in itself stores the sign-in in the view, where it may fail."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Stores what changed; while adkweb's own database takes no writes, what is lost are messages such as “Saved”."""
        with best_effort("a message to a browser"):
            return super().process_response(request, response)
        return response
