"""Gives our session services ADK's semantics, and decides what happens to a session that someone else has changed.

An append is compared with the revision that the caller's session has seen. If someone else has written since, `raise`
does what ADK does. `rebase` appends nevertheless, and then gives the caller's session everything that it has missed, in
stored order, with its own event among it. No second try is needed, however many programs write.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, Protocol, Self, get_args

from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from ..domain.state import State
from .conversion import Seen, json_of, json_state, not_found, receive, see, seen_by, stale

log = logging.getLogger("adkweb.adk")

OnStale = Literal["raise", "rebase"]
OnRebase = Callable[[Session, Sequence[Event]], Awaitable[None] | None]


class Names(NamedTuple):
    """ADK's three names of a session."""

    app_name: str
    user_id: str
    session_id: str


class Written(NamedTuple):
    """The seq of an appended event, and the session's revision after it."""

    seq: int
    revision: float


class Head(NamedTuple):
    """The head of a stored session: the id of its newest event, and the seq of the event that was asked about."""

    created: float
    revision: float
    newest: str | None
    seq: int | None


class Backend(Protocol):
    """Keeps sessions. Raises ADK's errors. Every session that it returns carries a note of what it has seen."""

    async def create(self, names: Names, state: State) -> Session:
        """Creates a session. Raises AlreadyExistsError."""

    async def load(
        self, names: Names, *, newest: int | None = None, since: float | None = None, after: int | None = None
    ) -> Session | None:
        """Loads a session with its events in append order: the newest few, those since a time, or those after a seq."""

    async def load_all(self, app_name: str, user_id: str | None) -> list[Session]:
        """Loads sessions without events, the least recently updated one first."""

    async def delete(self, names: Names) -> None:
        """Deletes a session. Does nothing if there is no such session."""

    async def user_state(self, app_name: str, user_id: str) -> State:
        """Returns a user's state, with keys without a prefix."""

    async def head(self, names: Names, event_id: str) -> Head | None:
        """Returns the head of a session, with the seq of one of its events, or None if there is no such session."""

    async def append(self, names: Names, event: dict[str, Any], revision: float | None) -> Written | None:
        """Appends an event. With a `revision`, it is appended only if this is still the session's.

        Returns None if the event is already there. Raises SessionNotFoundError and StaleSessionError.
        """

    async def close(self) -> None:
        """Closes threads and connections."""


class StoredSessionService(BaseSessionService):
    """ADK's session service over a backend."""

    def __init__(self, backend: Backend, on_stale: OnStale, on_rebase: OnRebase | None) -> None:
        if on_stale not in get_args(OnStale):
            raise ValueError(f'on_stale must be "raise" or "rebase", not {on_stale!r}.')
        self._backend, self._on_stale, self._on_rebase = backend, on_stale, on_rebase
        self._turns = _Turns()

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Creates a session, with a new id if none or a blank one is given. Raises AlreadyExistsError."""
        name = (session_id or "").strip() or platform_uuid.new_uuid()
        return await self._backend.create(Names(app_name, user_id, name), json_state(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Returns a session with its events, or None."""
        config = config or GetSessionConfig()
        for name in _spellings(session_id):
            session = await self._backend.load(
                Names(app_name, user_id, name), newest=config.num_recent_events, since=config.after_timestamp or None
            )
            if session is not None:
                return session
        return None

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Lists the sessions of a user, or of every user, without events. The most recently updated one comes last."""
        return ListSessionsResponse(sessions=await self._backend.load_all(app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session and its events; app and user state stay."""
        for name in _spellings(session_id):
            await self._backend.delete(Names(app_name, user_id, name))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns a user's state in an app, with keys without a prefix, or {} if there is none."""
        return await self._backend.user_state(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Stores an event and applies it to the caller's session.

        An append that has started is finished even if the caller is cancelled, because ADK's next append with the same
        session continues from there. Raises SessionNotFoundError, StaleSessionError, InputValidationError, and
        AlreadyExistsError if another event has this id.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await asyncio.shield(asyncio.ensure_future(self._append_in_turn(session, event, json_of(event))))
        return event

    async def close(self) -> None:
        """Closes threads and connections; the service can be used again."""
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _append_in_turn(self, session: Session, event: Event, stored: dict[str, Any]) -> None:
        names = Names(session.app_name, session.user_id, session.id)
        async with self._turns.of(names):
            missed = await self._append(names, session, event, stored)
        if missed:
            await self._tell(session, missed)

    async def _append(self, names: Names, session: Session, event: Event, stored: dict[str, Any]) -> list[Event]:
        """Appends an event and returns the others' events that the session received."""
        seen = seen_by(session) or await self._derive(names, session)
        try:
            written = await self._backend.append(names, stored, seen.revision)
        except StaleSessionError:
            # A rewind restores the session's past. If it was computed from an old copy, it would restore something
            # else.
            if self._on_stale == "raise" or event.actions.rewind_before_invocation_id:
                raise
            seen = await self._known(names, session, seen)
            await self._backend.append(names, stored, None)
            return await self._catch_up(names, session, event, seen)
        if written is None:  # sent again, because the answer to the first try never came
            return await self._catch_up(names, session, event, await self._known(names, session, seen))
        see(session, Seen(seen.created, written.revision, written.seq))
        self._commit_event_to_session(session, event)
        return []

    async def _catch_up(self, names: Names, session: Session, event: Event, seen: Seen) -> list[Event]:
        """Gives a session all events since, including its own, and returns those of others."""
        now = await self._backend.load(names, after=seen.seq)
        if now is None:
            raise not_found(session.id)
        others = [each for each in now.events if each.id != event.id]
        if others and self._on_stale == "raise":
            return []  # the session is stale, and its next append says so
        for each in now.events:
            if each.id == event.id:
                self._commit_event_to_session(session, event)
            else:
                receive(session, each)
        see(session, seen_by(now) or seen)
        return others

    async def _derive(self, names: Names, session: Session) -> Seen:
        """Works out what a session without a note has seen, as ADK does: by its time, then by its newest event."""
        head = await self._head(names, session)
        last = session.events[-1].id if session.events else None
        current = head.revision <= session.last_update_time or head.newest == last
        return Seen(head.created, head.revision if current else session.last_update_time, head.seq)

    async def _known(self, names: Names, session: Session, seen: Seen) -> Seen:
        """Returns what a session has seen, with its seq.

        Raises StaleSessionError if the stored session is another one.
        """
        head = await self._head(names, session)
        seq = head.seq if seen.seq is None else seen.seq
        if head.created != seen.created or seq is None:
            raise stale()
        return Seen(seen.created, seen.revision, seq)

    async def _head(self, names: Names, session: Session) -> Head:
        last = session.events[-1].id if session.events else ""
        head = await self._backend.head(names, last)
        if head is None:
            raise not_found(session.id)
        return head if last else head._replace(seq=0)

    async def _tell(self, session: Session, missed: Sequence[Event]) -> None:
        """Calls the callback. It may append, as this append's turn is over. An error in it does not end the run."""
        log.info("session %s received %s events of others", session.id, len(missed))
        if self._on_rebase is None:
            return
        try:
            told = self._on_rebase(session, missed)
            if inspect.isawaitable(told):
                await told
        except Exception:
            log.exception("on_rebase failed")


def _spellings(session_id: str) -> list[str]:
    """Returns an id as given and stripped: DatabaseSessionService keeps blanks around ids, other services do not."""
    return list(dict.fromkeys([session_id, session_id.strip()]))


class _Turns:
    """Lets the appends to a session take turns in the order in which they came, whatever event loops they run in.

    If two appends ran at the same time with one session object, each would take the other for someone else's.
    """

    def __init__(self) -> None:
        self._last: dict[Names, Future[None]] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def of(self, names: Names) -> AsyncIterator[None]:
        """Waits for this append's turn. The next append's turn comes when this one ends."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # so that no waiting append can cancel it
        with self._lock:
            before, self._last[names] = self._last.get(names), mine
        try:
            if before is not None:
                await asyncio.wrap_future(before)
            yield
        finally:
            if before is None:
                self._end(names, mine)
            else:  # this runs at once, unless this append was cancelled while it waited
                before.add_done_callback(lambda _: self._end(names, mine))

    def _end(self, names: Names, mine: Future[None]) -> None:
        with self._lock:
            if self._last[names] is mine:
                del self._last[names]
        mine.set_result(None)
