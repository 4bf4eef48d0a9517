"""Who asks, what they may do, and which source they mean."""

from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.security import HttpBearer

from ..access import tokens
from ..access.actor import Actor, Right
from ..errors import Conflict, Error, Invalid, NotFound, SourceError
from ..reads import lists
from ..sources import database, registry


class Bearer(HttpBearer):
    """`Authorization: Bearer …`; the actor that the token stands for becomes `request.auth`."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor | None:
        """Who asks; None is answered with 401."""
        return tokens.actor_of(token)


def actor_of(request: HttpRequest) -> Actor:
    """Who asks."""
    actor: Actor = request.auth  # type: ignore[attr-defined]
    return actor


def may_know(request: HttpRequest, source: str) -> bool:
    """Whether a source exists for who asks: one that has an app that they may see. Raises SourceError."""
    actor = actor_of(request)
    return actor.sees_all or bool(lists.app_names(source, actor=actor))


def runs_everything(request: HttpRequest) -> bool:
    """Whether who asks may do everything everywhere, and so may know where the databases are."""
    actor = actor_of(request)
    return actor.sees_all and actor.right == "admin"


def problems_for(request: HttpRequest, problems: list[str]) -> list[str]:
    """What is wrong with sources, in full for those who run everything: it says where they are."""
    if runs_everything(request):
        return problems
    return [_("A source cannot be used at the moment.")] if problems else []


def message_for(request: HttpRequest, error: Error) -> str:
    """What an error says, as `problems_for` does where it is about a source."""
    return problems_for(request, [error.message])[0] if isinstance(error, SourceError) else error.message


def check_order(source: str) -> None:
    """Raises Invalid where events have no place in append order: in a PostgreSQL database that was not adopted."""
    if not database.is_numbered(database.get(source).alias):
        raise Invalid(
            _("after: events have no place here, as adkweb did not adopt this database; use “since” or “before”")
        )


def source_of(request: HttpRequest, app_name: str, source: str | None, right: Right = "read", new: bool = False) -> str:
    """The alias of the source in which an app is meant, once the actor may do there what they ask for.

    Unless it is named, it is the only one, or else the only one that has this app; `new`: the app need not be there yet.
    Raises NotAllowed, NotFound, Conflict where several could be meant, SourceError.
    """
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
