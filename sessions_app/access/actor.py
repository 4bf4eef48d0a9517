"""Defines the actor: who asks, and what they may do.

Until roles exist, everybody who is signed in may read and edit everything, unless adkweb was started read-only; a program
may do what its token allows (tokens.py).
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import gettext as _

from ..domain.session_ref import SessionRef
from ..errors import NotAllowed, NotFound

Right = Literal["read", "append", "admin"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "append", "admin")  # each includes those before it


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who asks. The name goes into every edit; the right holds in apps whose names match `apps` (`booking*`)."""

    name: str
    right: Right
    apps: str = "*"

    def may_see(self, app_name: str) -> bool:
        """Tells whether an app exists for this actor."""
        return fnmatchcase(app_name, self.apps)

    @property
    def sees_all(self) -> bool:
        """Tells whether every app exists for this actor. A list need not ask of each then."""
        return self.apps == "*"

    def check_sees(self, ref: SessionRef) -> None:
        """Raises NotFound where the session's app does not exist for this actor, as for a session that does not exist."""
        if not self.may_see(ref.app_name):
            raise NotFound(_("Session %(id)s not found.") % {"id": ref.session_id})

    def check_may(self, right: Right, app_name: str) -> None:
        """Raises NotAllowed where this actor lacks a right in an app."""
        if not self.may_see(app_name):
            raise NotAllowed(_("%(name)s may do nothing in the app “%(app)s”.") % {"name": self.name, "app": app_name})
        self.check_right(right)

    def check_right(self, right: Right) -> None:
        """Raises NotAllowed where this actor lacks a right in whatever app."""
        if right != "read":
            self.check_may_write()
        if RIGHTS.index(self.right) < RIGHTS.index(right):
            raise NotAllowed(
                _("This needs the right “%(right)s”; %(name)s has “%(own)s”.")
                % {"right": right, "name": self.name, "own": self.right}
            )

    def check_may_write(self) -> None:
        """Raises NotAllowed where nobody may change anything."""
        if settings.READ_ONLY:
            raise NotAllowed(_("adkweb was started with --read-only: it shows everything and writes nothing."))


SYSTEM: Final = Actor("adkweb", "admin")  # the machine itself
TERMINAL: Final = Actor("terminal", "admin")  # whoever runs a command on this machine
AGENT: Final = Actor("agent", "admin")  # an agent that reads and writes through DjangoSessionService
PEOPLE: Final = Actor("people", "read")  # whoever is signed in: what sockets send to all of them is read once


def of_person(name: str) -> Actor:
    """Returns the actor that a signed-in person is: people may do everything, in every app."""
    return Actor(name, "admin")


def actor_of(person: AbstractBaseUser) -> Actor:
    """Returns the actor that an account is."""
    return of_person(person.get_username())
