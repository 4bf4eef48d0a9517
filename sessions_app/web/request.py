"""Who asks for a page, and whether they may."""

from django.contrib.auth.models import User
from django.http import HttpRequest

from ..access import roles
from ..access.actor import Actor
from ..domain.roles import Permission
from ..domain.session_ref import SessionRef


def actor(request: HttpRequest) -> Actor:
    """Returns the person who is signed in."""
    return roles.actor_of(request.user)  # type: ignore[arg-type]


def check_may(request: HttpRequest, permission: Permission, ref: SessionRef) -> None:
    """Raises NotFound where the person may not see the app, as if it were not there; NotAllowed without the permission."""
    who = actor(request)
    who.check_sees(ref)
    who.check_may(permission, ref.source, ref.app_name)


def person_of(request: HttpRequest) -> User:
    """Returns the account of the person who is signed in."""
    return request.user  # type: ignore[return-value]
