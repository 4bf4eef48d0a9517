"""Defines the actor: who asks, and what they may do in which apps.

People get their permissions from roles (roles.py), programs from their token (tokens.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _

from ..domain.errors import Invalid, NotAllowed, NotFound
from ..domain.json_values import check_name
from ..domain.roles import PERMISSIONS, Permission
from ..domain.session_ref import SessionRef

PATTERN_LENGTH: Final = 200
read_only_sources: Final[set[str]] = set()  # by alias, those whose address says so; registry.py keeps it


def checked_pattern(text: str, field: str) -> str:
    """Returns a pattern of names (`booking*`) without blanks around it. Raises Invalid, which names the field."""
    pattern = text.strip()
    try:
        check_name(pattern, _("The pattern"), PATTERN_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field=field) from error
    if not pattern.isprintable():
        raise Invalid(_("Patterns can't contain line breaks or invisible characters."), field=field)
    return pattern


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission in the apps whose names match a pattern (`booking*`), in the sources whose names match another.

    With `reveals`, masked values may be revealed there.
    """

    permission: Permission
    apps: str = "*"
    sources: str = "*"
    reveals: bool = False

    def gives(self, permission: Permission) -> bool:
        """Returns whether this is that permission, or a greater one. One that only a later adkweb knows is none."""
        return self.permission in PERMISSIONS and PERMISSIONS.index(self.permission) >= PERMISSIONS.index(permission)

    def holds(self, source: str, app_name: str) -> bool:
        """Returns whether this is about an app of a source."""
        return fnmatchcase(source, self.sources) and fnmatchcase(app_name, self.apps)

    @property
    def is_whole(self) -> bool:
        """Returns whether this is about every app of every source."""
        return self.sources == "*" and self.apps == "*"


@dataclass(frozen=True, slots=True)
class Actor:
    """Someone who asks. The name goes into every edit.

    `account` says whose permissions these are, so that a job can ask again when it acts: `person 7`, `token 3`; empty for
    the machine itself. An actor with `audits` may read the audit. `is_agent` is for a program that says it is an agent:
    it works with values as they are stored.
    """

    name: str
    grants: tuple[Grant, ...]
    account: str = ""
    audits: bool = False
    is_agent: bool = False

    @classmethod
    def holding(
        cls, name: str, permission: Permission, apps: str = "*", sources: str = "*", account: str = ""
    ) -> "Actor":
        """Returns an actor with one permission: `Actor.holding("maria", "append", "booking*")`."""
        return cls(name, (Grant(permission, apps, sources),), account)

    def is_same(self, name: str, account: str) -> bool:
        """Returns whether this is the actor with this name and account: compares accounts, because a name can be given
        to another person later. A command and the machine itself have none, and are known by name."""
        return account == self.account if account and self.account else name == self.name

    def may(self, permission: Permission, source: str, app_name: str) -> bool:
        """Returns whether this actor has a permission in an app."""
        return any(grant.gives(permission) and grant.holds(source, app_name) for grant in self.grants)

    def may_found(self, source: str, app_name: str) -> bool:
        """Returns whether this actor may make the first session of an app: anyone who may write it can, except a
        program whose token is for a pattern of apps (`booking*`) and that is no admin: it could create as many apps as
        it likes."""
        return not self.account.startswith("token ") or any(
            grant.holds(source, app_name) and (grant.permission == "admin" or grant.apps == app_name)
            for grant in self.grants
        )

    def may_write(self, permission: Permission, source: str, app_name: str) -> bool:
        """Returns whether this actor has a permission in an app, and adkweb may write."""
        return not (settings.READ_ONLY or source in read_only_sources) and self.may(permission, source, app_name)

    def may_see(self, source: str, app_name: str) -> bool:
        """Returns whether an app exists for this actor."""
        return any(grant.holds(source, app_name) for grant in self.grants)

    def may_reveal(self, source: str, app_name: str) -> bool:
        """Returns whether this actor may reveal masked values of an app."""
        return any(grant.reveals and grant.holds(source, app_name) for grant in self.grants)

    @property
    def reveals(self) -> bool:
        """Returns whether this actor may reveal masked values of any app."""
        return any(grant.reveals for grant in self.grants)

    def is_agent_of(self, app_name: str) -> bool:
        """Returns whether this is an agent, and writes the sessions of an app: dots would be its tools' arguments."""
        return self.is_agent and any(g.gives("append") and fnmatchcase(app_name, g.apps) for g in self.grants)

    def seen(self, source: str, app_names: Iterable[str]) -> list[str]:
        """Returns those of a source's apps that exist for this actor, in the given order."""
        return [name for name in app_names if self.may_see(source, name)]

    def sees_all_of(self, source: str) -> bool:
        """Returns whether every app of a source exists for this actor. A list then need not ask for each."""
        return any(grant.apps == "*" and fnmatchcase(source, grant.sources) for grant in self.grants)

    @property
    def sees_all(self) -> bool:
        """Returns whether every app of every source exists for this actor."""
        return any(grant.is_whole for grant in self.grants)

    @property
    def runs_everything(self) -> bool:
        """Returns whether this actor is an admin everywhere: of sources, people, tokens and settings, too."""
        return self.may_everywhere("admin")

    def may_everywhere(self, permission: Permission) -> bool:
        """Returns whether this actor has a permission in every app of every source."""
        return any(grant.is_whole and grant.gives(permission) for grant in self.grants)

    def has(self, permission: Permission, source: str | None = None) -> bool:
        """Returns whether this actor has a permission in any app, or in any app of one source."""
        return any(
            grant.gives(permission) and (source is None or fnmatchcase(source, grant.sources)) for grant in self.grants
        )

    def check_sees(self, ref: SessionRef) -> None:
        """Raises NotFound where the session's app does not exist for this actor, as for a session that does not
        exist."""
        if not self.may_see(ref.source, ref.app_name):
            raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})

    def check_may(self, permission: Permission, source: str, app_name: str) -> None:
        """Raises NotAllowed where this actor lacks a permission in an app, whether there is such an app or not."""
        if not self.may_see(source, app_name):
            raise NotAllowed(
                _("%(name)s has no permissions for the app “%(app)s”.") % {"name": self.name, "app": app_name}
            )
        if permission != "read":
            self.check_may_write(source)
        if not self.may(permission, source, app_name):
            raise NotAllowed(
                _("%(name)s needs the “%(permission)s” permission for the app “%(app)s”.")
                % {"permission": permission, "app": app_name, "name": self.name}
            )

    def check_permission(self, permission: Permission) -> None:
        """Raises NotAllowed where this actor has a permission in no app."""
        if permission != "read":
            self.check_may_write()
        if not self.has(permission):
            raise NotAllowed(
                _("%(name)s needs the “%(permission)s” permission, but doesn't have it for any app.")
                % {"permission": permission, "name": self.name}
            )

    def check_runs_everything(self) -> None:
        """Raises NotAllowed unless this actor is an admin everywhere."""
        if not self.runs_everything:
            raise NotAllowed(_("Only an admin of all sources and apps can do this."))

    def check_may_write(self, source: str = "") -> None:
        """Raises NotAllowed where no one may change anything, in this source or at all."""
        if settings.READ_ONLY:
            raise NotAllowed(_("adkweb was started with --read-only, so nothing can be changed."))
        if source in read_only_sources:
            raise NotAllowed(
                _("“%(source)s” was opened read-only (mode=ro in its address), so it can't be changed.")
                % {"source": source}
            )


SYSTEM: Final = Actor.holding("adkweb", "admin")  # the machine itself
TERMINAL: Final = Actor.holding("terminal", "admin")  # the person who runs a command on this machine
# An agent that reads and writes through DjangoSessionService.
AGENT: Final = Actor("agent", (Grant("admin"),), is_agent=True)
# Everyone who may see a session: its sockets read it once for all of them, after checking that each may see it.
PEOPLE: Final = Actor.holding("people", "read")
