"""Reads for the index what everybody may see. What rules hide is not in it, so that nobody can search for it."""

from typing import Any, Final

from ..access import mask_rules
from ..access.actor import PEOPLE
from ..access.shown import shown, shown_object
from ..domain.json_values import read_stored_or_none
from ..domain.session_ref import SessionRef
from ..domain.state import Scope, State
from ..domain.units import event_in_seconds

VERSION: Final = 8  # of what is kept


def version() -> int:
    """Returns what stands for what is kept now: what another version kept, or was read by other rules, is read anew."""
    return VERSION + 100 * mask_rules.digest()


def event(text: str | None, ref: SessionRef) -> dict[str, Any]:
    """Returns an event of a session, read from its JSON, as everybody sees it."""
    seen: dict[str, Any] = event_in_seconds(shown_object(text, PEOPLE, ref.app_name, "event", read_stored_or_none))
    return seen


def shared(states: dict[tuple[str, str], State]) -> dict[tuple[str, str], State]:
    """Returns the states of users and apps, by app and user, as everybody sees them."""
    return {(app, user): state(each, app, "user" if user else "app") for (app, user), each in states.items()}


def state(stored: State, app_name: str, scope: Scope = "session") -> State:
    """Returns the state of a scope as everybody sees it."""
    return shown(stored, PEOPLE, app_name, scope)
