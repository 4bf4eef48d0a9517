"""Reads for the index what everybody may see. What rules hide is not in it, so that nobody can search for it."""

from typing import Any, Final

from ..access import masking
from ..access.actor import PEOPLE
from ..access.handles import shown_user
from ..access.shown import shown, shown_object, shown_words
from ..domain.json_values import read_stored_or_none
from ..domain.session_ref import SessionRef
from ..domain.state import Scope, State
from ..domain.units import event_in_seconds
from ..reads.large_events import beginning_of

VERSION: Final = 18  # of what is kept


def version() -> int:
    """Returns what stands for what is kept now: what another version kept, or was read by other rules, is read anew."""
    return VERSION + 100 * masking.digest()


def event(text: str | None, ref: SessionRef) -> dict[str, Any]:
    """Returns an event of a session, read from its JSON, as everybody sees it."""
    seen: dict[str, Any] = event_in_seconds(shown_object(text, PEOPLE, ref.app_name, "event", read_stored_or_none))
    return seen


def large_event(ref: SessionRef, event_id: str) -> dict[str, Any]:
    """Returns what is read of an event that is too large to be read whole; {} if nothing can be. Expects the source to be
    open."""
    beginning = beginning_of(ref, event_id, PEOPLE)
    seen: dict[str, Any] = event_in_seconds(beginning.event) if beginning else {}
    return seen


def shared(states: dict[tuple[str, str], State]) -> dict[tuple[str, str], State]:
    """Returns the states of users and apps, by app and user, as everybody sees them."""
    return {(app, user): state(each, app, "user" if user else "app") for (app, user), each in states.items()}


def user(app_name: str, user_id: str) -> str:
    """Returns what everybody sees of the id of a user of an app: the id, or its handle."""
    return shown_user("", app_name, user_id, PEOPLE)


def words(text: str, app_name: str) -> str:
    """Returns what everybody sees of words that a person typed: a title, a tag."""
    return shown_words(text, PEOPLE, app_name)


def state(stored: State, app_name: str, scope: Scope = "session") -> State:
    """Returns the state of a scope as everybody sees it."""
    return shown(stored, PEOPLE, app_name, scope)
