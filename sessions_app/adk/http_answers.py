"""Parses the answers of an adkweb into ADK's objects."""

from email.utils import parsedate_to_datetime
from typing import Final

from google.adk.events import Event
from google.adk.sessions import Session
from pydantic import BaseModel

from ..domain.json_values import equal
from ..domain.state import Scoped, State, split, without_temp
from .base import Names
from .conversion import Seen, event_of, session_of
from .http_client import Answer

_CLOCK_SECONDS: Final = 1.0  # how far the clocks of one adkweb's machines may differ


class StoredEvent(BaseModel):
    """An event with the values of its row."""

    id: str
    invocation_id: str
    timestamp: float
    event: Event


class StateAnswer(BaseModel):
    """State by scope, with keys without a prefix."""

    app: State
    user: State
    session: State


class SessionAnswer(BaseModel):
    """A session with its state and events."""

    created: float
    revision: float
    seq: int | None
    state: StateAnswer
    events: list[StoredEvent]


class ListedSession(BaseModel):
    """A session in a list, with its own state."""

    user_id: str
    id: str
    created: float
    revision: float
    state: State


class PageAnswer(BaseModel):
    """A page of sessions, with the state that they share."""

    items: list[ListedSession]
    app: State
    users: dict[str, State]
    next: str | None


class HeadAnswer(BaseModel):
    """The head of a session."""

    created: float
    revision: float
    newest: str | None
    seq: int | None


class AppendedAnswer(BaseModel):
    """The answer to an append."""

    seq: int | None
    revision: float | None


def is_ours(answer: Answer, stored: SessionAnswer, state: State, seconds: float) -> bool:
    """Returns whether an existing session was created by an earlier try of ours, which started `seconds` ago.

    It was if it has the state that we sent, if no one has written to it since, and if it is not older than our first
    try. Its age is taken from adkweb's own clock, which is in the answer.
    """
    sent = split(without_temp(state)).session
    untouched = stored.seq == 0 and stored.revision == stored.created and equal(stored.state.session, sent)
    date = answer.response.headers.get("Date")
    if answer.tries == 1 or not untouched or date is None:
        return False
    return parsedate_to_datetime(date).timestamp() - stored.created <= seconds + _CLOCK_SECONDS


def session_from(names: Names, stored: SessionAnswer) -> Session:
    """Turns an answer into ADK's session."""
    state = Scoped(app=stored.state.app, user=stored.state.user, session=stored.state.session)
    return session_of(
        *names,
        state.merged(),
        Seen(stored.created, stored.revision, stored.seq),
        [event_of(each.event, each.id, each.invocation_id, each.timestamp) for each in stored.events],
    )
