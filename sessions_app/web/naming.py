"""Finds out which user an address means before a page looks at it: by the id, or by a handle (reads/users.py)."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from ..access.handles import in_address
from ..http.paths import Segment, segment_of
from ..http.problems import for_programs
from .errors import answer_to
from .links import name_user
from .request import actor


class UserSegment(Segment):
    """A Django path converter for the id of a user: an address has a handle in place of an id that a rule hides. Which user
    a handle means is found out where it is known who asks (reads/users.py)."""

    def to_url(self, value: str) -> str:
        """Returns the segment of an id."""
        return segment_of(in_address(value))


class UsersNamed(MiddlewareMixin):
    """Gives every page the id of the user whom its address means. An id that is hidden from whoever asks is nobody's."""

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
