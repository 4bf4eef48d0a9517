"""The roles of people and groups, and the permissions that they give (pure). Each is named only here."""

from typing import Final, Literal, NamedTuple

from .translation import Message
from .translation import gettext_lazy as _

Permission = Literal["read", "operate", "append", "admin"]
PERMISSIONS: Final[tuple[Permission, ...]] = ("read", "operate", "append", "admin")  # each includes those before it
COMPANION: Final = "companion"  # what a companion's token has instead of a permission
OF_TOKENS: Final[dict[str, Message]] = {  # what a program with such a token may do
    "read": _("can see sessions, events and state"),
    "operate": _("can also write to agents, answer and stop them"),
    "append": _("can also create sessions, append events and edit state, which is what an agent needs"),
    "admin": _("can also delete and import sessions"),
    COMPANION: _("only reports what an agent does, and is told to stop it"),
}


class RoleKind(NamedTuple):
    """A permission in the apps that a role is for, or None; with `audits`, also the audit. `words` explain the role."""

    permission: Permission | None
    words: Message
    audits: bool = False


ROLES: Final[dict[str, RoleKind]] = {
    "viewer": RoleKind("read", _("can see sessions, events and state")),
    "operator": RoleKind(
        "operate", _("can also write to agents, answer, stop and continue them, and dismiss calls that wait")
    ),
    "editor": RoleKind("append", _("can also edit state, append events and create sessions")),
    "admin": RoleKind(
        "admin",
        _("can also delete, fork and import; an admin of all sources and apps can also assign roles and create tokens"),
    ),
    "auditor": RoleKind(None, _("can read the audit and nothing else"), audits=True),
}
