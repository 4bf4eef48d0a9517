"""Reads which page, and which session, a link leads to."""

from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from django.http import Http404
from django.urls import ResolverMatch, resolve
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Invalid
from ..domain.session_ref import SessionRef
from ..reads.users import meant


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
