"""Finds out which user an address means before a page looks at it: by the id, or by a handle (reads/users.py)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import ResolverMatch, resolve
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.handles import in_address
from ..domain.errors import Invalid
from ..domain.session_ref import SessionRef
from ..http.paths import Segment, segment_of
from ..http.problems import for_programs
from ..reads.users import meant
from .errors import answer_to
from .request import actor


class UserSegment(Segment):
    """A Django path converter for the id of a user: an address has a handle in place of an id that a rule hides. Which user
    a handle means is found out where it is known who asks (reads/users.py)."""

    def to_url(self, value: str) -> str:
        """Returns the segment of an id."""
        return segment_of(in_address(value))


def page_of(link: str, actor: Actor) -> ResolverMatch:
    """Returns the page that a link leads to, with the names in it, for somebody who follows it. Raises Http404,
    ValueError if it is no link, and what `meant` does.

    Browsers and Django write letters such as `é` as percent escapes."""
    match = resolve(unquote(urlsplit(link).path))
    name_user(match.kwargs, actor)
    return match


def session_of(link: str, actor: Actor) -> SessionRef:
    """Returns the session to whose page a link leads. Raises Invalid, and what `meant` does."""
    with suppress(Http404, ValueError):
        match = page_of(link, actor)
        if match.url_name == "session":
            return SessionRef(**match.kwargs)
    raise Invalid(_("“%(path)s” isn't a session link.") % {"path": link[:200]})


def name_user(names: dict[str, Any], actor: Actor) -> None:
    """Puts the id of the user who is meant into the names of an address. Raises what `meant` does."""
    if "user_id" in names and "source" in names:
        names["user_id"] = meant(names["source"], names["app_name"], names["user_id"], actor=actor)


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
