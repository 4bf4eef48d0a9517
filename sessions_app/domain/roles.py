"""The roles of people and groups, and the rights that they give (pure). Each is named only here."""

from typing import Final, Literal, NamedTuple

from .translation import Message
from .translation import gettext_lazy as _

Right = Literal["read", "append", "admin"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "append", "admin")  # each includes those before it
OF_TOKENS: Final[dict[Right, Message]] = {  # what a program with such a token may do
    "read": _("sees sessions, events and state"),
    "append": _("also creates sessions, appends events, edits state: what an agent needs"),
    "admin": _("also deletes sessions, and imports"),
}


class RoleKind(NamedTuple):
    """A right in the apps that a role is for, or None; with `audits`, also the audit. `words` explain the role."""

    right: Right | None
    words: Message
    audits: bool = False


ROLES: Final[dict[str, RoleKind]] = {
    "viewer": RoleKind("read", _("sees sessions, events and state")),
    "editor": RoleKind("append", _("also edits state, appends events, creates sessions")),
    "admin": RoleKind(
        "admin", _("also deletes, forks and imports; for all sources and apps, gives roles and makes tokens")
    ),
    "auditor": RoleKind(None, _("reads the audit and nothing else"), audits=True),
}
