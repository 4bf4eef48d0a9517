"""A session whose import has not ended: marked, left out by those who ask, and never written to."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from ..domain.state import State
from ..errors import Conflict

# --- Import -----------------------------------------------------------------------------------------------------------


# The own state of a session that is being imported: its last batch puts the real one in its place. What reads the session
# meanwhile finds a shorter one, whole in itself.
IMPORTING: Final[State] = {"adkweb:importing": True}
MARK: Final = next(iter(IMPORTING))  # its key, which stays where google-adk writes to the session


def is_half(state: Mapping[str, Any]) -> bool:
    """Whether a session with this own state is being copied or imported, or was when that stopped."""
    return MARK in state


def check_whole(state: Mapping[str, Any]) -> None:
    """Raises Conflict for the own state of a session that is being copied or imported: nothing is written to one."""
    if is_half(state):
        raise half_made()


def half_made() -> Conflict:
    """Returns the error for a writer whose session is still being copied or imported."""
    return Conflict(_("This session is being copied or imported; it can be written to when that is done."))
