"""Finds out who asks, what they may do, and which source they mean."""

from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.security import HttpBearer

from ..access import tokens
from ..access.actor import Actor, Right
from ..errors import Conflict, Error, Invalid, NotFound, SourceError
from ..reads import lists
from ..sources import database, registry


class Bearer(HttpBearer):
    """Reads `Authorization: Bearer …`. The token's actor becomes `request.auth`."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor | None:
        """Returns the token's actor; None for an unknown one, which is answered with 401."""
        return tokens.actor_of(token)


def actor_of(request: HttpRequest) -> Actor:
    """Returns the actor of a request."""
    actor: Actor = request.auth  # type: ignore[attr-defined]
    return actor


def may_know(request: HttpRequest, source: str) -> bool:
    """Tells whether the actor may know of a source, because it has an app that they may see. Raises SourceError."""
    actor = actor_of(request)
    return actor.sees_all or bool(lists.app_names(source, actor=actor))


def runs_everything(request: HttpRequest) -> bool:
    """Tells whether the actor may do everything in every app, and so may know where the databases are."""
    actor = actor_of(request)
    return actor.sees_all and actor.right == "admin"


def problems_for(request: HttpRequest, problems: list[str]) -> list[str]:
    """Returns what is wrong with sources. Only an actor who runs everything gets the messages, which say where they
    are."""
    if runs_everything(request):
        return problems
    return [_("A source cannot be used at the moment.")] if problems else []


def message_for(request: HttpRequest, error: Error) -> str:
    """Returns the message of an error. One about a source is only shown as far as `problems_for` allows."""
    return problems_for(request, [error.message])[0] if isinstance(error, SourceError) else error.message


def check_order(source: str) -> None:
    """Raises Invalid if a source's events have no seq, as in a PostgreSQL database that is not adopted."""
    if not database.is_numbered(database.get(source).alias):
        raise Invalid(
            _("after: events have no place here, as adkweb did not adopt this database; use “since” or “before”")
        )


def source_of(request: HttpRequest, app_name: str, source: str | None, right: Right = "read", new: bool = False) -> str:
    """Returns the alias of the source in which an app is meant, once it is certain that the actor has the right.

    An unnamed source is the only one there is, or the only one with this app. With `new`, the app need not exist yet.
    Raises NotAllowed, NotFound, Conflict if several could be meant, SourceError."""
    actor_of(request).check_may(right, app_name)
    if source is not None:
        return database.get(source).alias
    every = [each.alias for each in registry.listed()]
    if len(every) == 1:
        return every[0]
    having, away = [], None
    for alias in every:
        try:
            if lists.has_app(alias, app_name, actor=actor_of(request)):
                having.append(alias)
        except SourceError as error:
            away = error
    if len(having) == 1:
        return having[0]
    if away is not None and not having:
        raise away
    if not having and not (new and every):
        raise NotFound(_("There is no app “%(name)s” in any source.") % {"name": app_name})
    raise Conflict(
        _("Name the source: “%(app)s” could be in several (%(names)s).")
        % {"app": app_name, "names": ", ".join(having or every)}
    )
