"""Puts the ids of users into URLs, and finds out which user an address means: a handle stands for an id that rules hide."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.urls import ResolverMatch, resolve

from ..access.actor import Actor
from ..access.handles import in_address
from ..reads.users import meant
from .paths import Segment, segment_of


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


def name_user(names: dict[str, Any], actor: Actor) -> None:
    """Puts the id of the user who is meant into the names of an address. Raises what `meant` does."""
    if "user_id" in names and "source" in names:
        names["user_id"] = meant(names["source"], names["app_name"], names["user_id"], actor=actor)
