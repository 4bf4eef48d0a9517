"""Finds out who asks, what they may do, and which source they mean."""

from collections.abc import Callable
from dataclasses import replace

from django.http import HttpRequest
from django.utils.translation import gettext as _
from ninja.security import HttpBearer

from ..access import rates, tokens
from ..access.actor import Actor
from ..access.audit import refusals
from ..access.handles import shown_ref
from ..domain.errors import Conflict, Invalid, NotFound, SourceError
from ..domain.roles import Permission
from ..domain.session_ref import SessionRef
from ..http.asking import note
from ..http.limits import count_stranger
from ..http.names import AGENT_HEADER, UNSEEN
from ..reads import lists
from ..reads.users import ref_meant
from ..sources import database, registry

_LookUp = Callable[[str, str], tokens.SignedIn | None]  # by a token's text and the address that it comes from


class Unseen(NotFound):
    """For this actor, there is no such app, whether it exists or not."""


class Bearer(HttpBearer):
    """Reads `Authorization: Bearer …`. The token's actor becomes `request.auth`."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor | None:
        """Returns the token's actor; None for an unknown one, which is answered with 401. Raises TooOften."""
        signed_in = signed_in_with(token, request)
        if signed_in and request.headers.get(AGENT_HEADER) == "1":
            return replace(signed_in.actor, is_agent=True)
        return signed_in and signed_in.actor


def signed_in_with(token: str, request: HttpRequest, look_up: _LookUp = tokens.sign_in) -> tokens.SignedIn | None:
    """Returns whose token a request has, and counts the request. None for an unknown one, which is noted as a failed
    sign-in. Raises TooOften."""
    signed_in = look_up(token, request.META.get("REMOTE_ADDR", ""))
    if signed_in is None:
        refusals.note("sign-in-failed", "", "token")
        count_stranger(request)
        return None
    rates.count("token", signed_in.actor.name, signed_in.most)
    return signed_in


def actor_of(request: HttpRequest) -> Actor:
    """Returns the actor of a request."""
    actor: Actor = request.auth  # type: ignore[attr-defined]
    return actor


def may_know(request: HttpRequest, source: str) -> bool:
    """Returns whether the actor may know of a source, because it has an app that they may see. Raises SourceError."""
    actor = actor_of(request)
    return actor.sees_all_of(source) or bool(lists.app_names(source, actor=actor))


def runs_everything(request: HttpRequest) -> bool:
    """Returns whether the actor may do everything in every app, and so may know where the databases are."""
    return actor_of(request).runs_everything


def check_order(source: str) -> None:
    """Raises Invalid if a source's events have no seq, as in a PostgreSQL database that is not adopted."""
    if not database.is_numbered(database.get(source).alias):
        raise Invalid(
            _("after: events have no numbers because adkweb hasn't adopted this database. Use “since” or “before”.")
        )


def source_of(
    request: HttpRequest, app_name: str, source: str | None, permission: Permission = "read", new: bool = False
) -> str:
    """Returns the alias of the source of an app, after checking the actor's permission.

    If no source is named, it is the only one, or the only one with this app. With `new`, the app need not exist yet.
    Raises Unseen for an app that does not exist for the actor, NotAllowed, NotFound, Conflict if several could be
    meant, SourceError."""
    actor = actor_of(request)
    if source is not None:
        _check_may(request, permission, source, app_name)
        return database.get(source).alias
    every = [each.alias for each in registry.listed() if actor.may_see(each.alias, app_name)]
    if not every:
        _check_may(request, permission, "", app_name)
    if len(every) == 1:
        _check_may(request, permission, every[0], app_name)
        return every[0]
    having, away = [], None
    for alias in every:
        try:
            if lists.has_app(alias, app_name, actor=actor):
                having.append(alias)
        except SourceError as error:
            away = error
    if len(having) == 1:
        _check_may(request, permission, having[0], app_name)
        return having[0]
    if away is not None and not having:
        raise away
    if not having and not (new and every):
        raise NotFound(_("There's no app “%(name)s” in any source.") % {"name": app_name})
    raise Conflict(
        _("Specify the source: “%(app)s” could be in any of %(names)s.")
        % {"app": app_name, "names": ", ".join(having or every)}
    )


def ref_of(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    source: str | None,
    permission: Permission = "read",
) -> SessionRef:
    """Returns the session that an address means, in which a user may be named by a handle. Raises what `source_of`
    does, and NotFound for a user whose id is hidden."""
    named = SessionRef(source_of(request, app_name, source, permission), app_name, user_id, session_id)
    return ref_meant(named, actor=actor_of(request))


def names_of(ref: SessionRef, actor: Actor, session: str = "session_id") -> dict[str, str]:
    """Returns the names of a session as the actor may see them, as JSON."""
    return dict(zip(("source", "app_name", "user_id", session), shown_ref(ref, actor), strict=True))


def _check_may(request: HttpRequest, permission: Permission, source: str, app_name: str) -> None:
    """Raises Unseen if the app does not exist for the actor, which is recorded as a refusal; NotAllowed if a permission is
    lacking."""
    actor = actor_of(request)
    if not actor.may_see(source, app_name):
        note(request)
        message = _("There's no app “%(app)s” that %(name)s can see.") % {"app": app_name, "name": actor.name}
        raise Unseen(message, type=UNSEEN)
    actor.check_may(permission, source, app_name)
