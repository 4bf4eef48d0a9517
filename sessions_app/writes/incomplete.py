"""Marks an incomplete session, which is still being copied or imported, so that no one else writes to it."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from ..domain.errors import Conflict, Invalid
from ..domain.state import State

# The own state of a session while it is being imported; the last batch replaces it with the real state. Until then,
# readers see a shorter session, consistent in itself.
IMPORTING: Final[State] = {"adkweb:importing": True}
MARK: Final = next(iter(IMPORTING))  # its key, which stays even if google-adk writes to the session


def is_incomplete(state: Mapping[str, Any]) -> bool:
    """Returns whether a session with this own state is incomplete: its copy or import is running, or was
    interrupted."""
    return MARK in state


def is_untouched(state: Mapping[str, Any]) -> bool:
    """Returns whether a session with this own state is incomplete, and no one else has written to it since."""
    return state == IMPORTING


def check_complete(state: Mapping[str, Any]) -> None:
    """Raises Conflict if this is the own state of an incomplete session, which no one may write to."""
    if is_incomplete(state):
        raise incomplete()


def check_unmarked(keys: Collection[str]) -> None:
    """Raises Invalid if the mark is among these full keys: no one could write to the session after that."""
    if MARK in keys:
        raise Invalid(_("The key %(key)s is reserved for adkweb. Choose another name.") % {"key": MARK})


def incomplete() -> Conflict:
    """Returns the error for a writer whose session is still being copied or imported."""
    return Conflict(_("This session is being copied or imported. You can edit it once that's done."))
