"""Marks a session that is still being copied or imported: it is not shown, and nobody writes to it."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from ..domain.errors import Conflict, Invalid
from ..domain.state import State

# --- Import -----------------------------------------------------------------------------------------------------------


# The own state of a session while it is being imported; the last batch replaces it with the real state. Whoever reads
# the session before that sees a shorter session, consistent in itself.
IMPORTING: Final[State] = {"adkweb:importing": True}
MARK: Final = next(iter(IMPORTING))  # its key, which stays even if google-adk writes to the session


def is_half(state: Mapping[str, Any]) -> bool:
    """Tells whether a session with this own state is unfinished: its copy or import still runs, or was broken off."""
    return MARK in state


def check_whole(state: Mapping[str, Any]) -> None:
    """Raises Conflict if this is the own state of an unfinished session, which nobody may write to."""
    if is_half(state):
        raise half_made()


def check_unmarked(keys: Collection[str]) -> None:
    """Raises Invalid if the mark is among these full keys: nobody could write to the session after that."""
    if MARK in keys:
        raise Invalid(_("The key %(key)s is adkweb's own: choose another name.") % {"key": MARK})


def half_made() -> Conflict:
    """Returns the error for a writer whose session is still being copied or imported."""
    return Conflict(_("This session is being copied or imported; it can be written to when that is done."))
