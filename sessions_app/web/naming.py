"""Finds out which user an address means before a page looks at it: by the id, or by a handle (reads/users.py)."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from ..http.problems import for_programs
from ..http.user_paths import name_user
from .errors import answer_to
from .html.targets import actor


class UsersNamed:
    """Gives every page the id of the user whom its address means. An id that is hidden from whoever asks is nobody's."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, names: dict[str, Any]
    ) -> HttpResponse | None:
        """Puts the id into the names that the page gets."""
        if for_programs(request.path) or not request.user.is_authenticated:
            return None
        try:
            name_user(names, actor(request))
        except Exception as error:
            names.clear()  # the page that says so must not tell which handle an id would have
            response = answer_to(request, error)
            if response is None:
                raise
            return response
        return None
