"""Turns ADK's objects into stored JSON and back, and notes on a session what it has seen."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import Session
from pydantic_core import to_jsonable_python

from ..domain.event import ID_LENGTH, removed_by
from ..domain.state import State

log = logging.getLogger("adkweb.adk")

_OWNER: Final = "adkweb"


# --- What ADK says ----------------------------------------------------------------------------------------------------


def not_found(session_id: str) -> SessionNotFoundError:
    """Makes ADK's error for a session that does not exist."""
    return SessionNotFoundError(f"Session {session_id} not found.")


def already_exists(session_id: str) -> AlreadyExistsError:
    """Makes ADK's error for a session that already exists."""
    return AlreadyExistsError(f"Session with id {session_id} already exists.")


def stale() -> StaleSessionError:
    """Makes ADK's error for a session that someone else has changed since it was loaded."""
    return StaleSessionError(
        "The session has been modified in storage since it was loaded. "
        "Please reload the session before appending more events."
    )


# --- What a session has seen ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """The knowledge of a caller's session about the stored one: when it was created, its revision, its newest event's
    seq.

    `created` tells a session from a later one with the same id. `seq` is None if it was not read.
    """

    created: float
    revision: float
    seq: int | None


def seen_by(session: Session) -> Seen | None:
    """Returns what a session has seen, or None if no service of ours made it, or if it was serialised since."""
    owner, *numbers = (session._storage_update_marker or "").split(" ")
    if owner != _OWNER:
        return None
    created, revision, seq = numbers
    return Seen(float(created), float(revision), int(seq) if seq else None)


def see(session: Session, seen: Seen) -> None:
    """Notes what a session has seen, in the field that ADK's own services use. Copies of the session keep it."""
    session._storage_update_marker = (
        f"{_OWNER} {seen.created!r} {seen.revision!r} {'' if seen.seq is None else seen.seq}"
    )
    session.last_update_time = seen.revision


def receive(session: Session, event: Event) -> None:
    """Gives a session an event that someone else appended.

    Unlike ADK, it also removes the keys that the event removes.
    """
    delta = event.actions.state_delta
    session.state.update(delta)
    for key in removed_by({"actions": {"state_delta": delta}, "custom_metadata": event.custom_metadata}):
        session.state.pop(key, None)
    session.events.append(event)


# --- Names ------------------------------------------------------------------------------------------------------------


def possible(*names: str) -> bool:
    """Returns whether a session can have these names. With others, a database driver would fail."""
    return all(len(name) <= ID_LENGTH and "\0" not in name and _is_text(name) for name in names)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


# --- From and to JSON -------------------------------------------------------------------------------------------------


def session_of(
    app_name: str, user_id: str, session_id: str, state: State, seen: Seen, events: Iterable[Event] = ()
) -> Session:
    """Makes a session as ADK's services return it: changing it changes nothing stored."""
    session = Session(app_name=app_name, user_id=user_id, id=session_id, state=state, events=list(events))
    see(session, seen)
    return session


def event_of(event: Event, event_id: str, invocation_id: str, timestamp: float) -> Event:
    """Completes a stored event. Its ids come from the columns of its row; its exact time is in the event itself."""
    if event.id != event_id:
        event.id = event_id
    if event.invocation_id != invocation_id:
        event.invocation_id = invocation_id
    if "timestamp" not in event.model_fields_set:
        event.timestamp = timestamp
    return event


def json_of(event: Event) -> dict[str, Any]:
    """Turns an event into the JSON that is stored.

    Its state delta is the JSON that ADK stores as state. For a pydantic model, that differs from what ADK puts into the
    event, because nulls are kept. So the event tells what the state became.
    """
    stored = event.model_dump(mode="json", exclude_none=True)
    if event.actions.state_delta:
        stored["actions"]["state_delta"] = json_state(event.actions.state_delta)
    return stored


def json_state(state: Mapping[str, Any]) -> State:
    """Turns state into JSON as ADK does: datetimes, models, sets, decimals. Anything else becomes its repr, with a
    warning.

    Raises InputValidationError for bytes that are not UTF-8. ADK raises UnicodeDecodeError; both are ValueErrors.
    """
    try:
        return _jsonable(state)
    except UnicodeDecodeError as error:
        raise InputValidationError(f"state: {error}") from error
    except Exception:  # whatever a value's own serialiser raises
        log.warning("some values of the state are not JSON and are stored as their repr", exc_info=True)
        return _jsonable(state, serialize_unknown=True)


def _jsonable(state: Mapping[str, Any], **how: Any) -> State:
    stored: State = to_jsonable_python(dict(state), **how)
    return stored
