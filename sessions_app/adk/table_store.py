"""Keeps sessions in ADK's tables, as a `Backend`. Import it only after Django is set up."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import connections
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.sessions import Session

from ..access.actor import AGENT
from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound, SourceError, StaleSession
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import State
from ..reads import stored_sessions, views, whole_session
from ..sources import database, hung, registry, urls
from ..writes.append import append_event
from ..writes.sessions import create_session, delete_session
from .base import Head, Names, Written
from .conversion import Seen, already_exists, event_of, not_found, possible, session_of, stale
from .threads import Crew

T = TypeVar("T")

TRUSTED_SECONDS: Final = 1.0  # for an unused connection: the server may have restarted since


def alias_of(text: str) -> str:
    """Returns the alias of the source that an alias, path or URL names. Creates a missing SQLite file, as ADK does."""
    if any(source.alias == text for source in registry.listed()):
        return text
    named = urls.read(text)
    if isinstance(named, urls.File):
        if named.path.is_dir():
            raise SourceError(f"{text} is a folder; a session service needs one file in it.")
        if not (settings.READ_ONLY or named.read_only):
            named.path.touch()
    (source,) = registry.add(text)
    return source.alias


class Tables:
    """The `Backend` that reads and writes the tables of a source. The threads of its crew do the work."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._thread = threading.local()
        # A quarter of the connections is left for the pages of an adkweb in the same process.
        self._crew = Crew(max(1, settings.POOL_SIZE * 3 // 4), connections.close_all, f"adkweb-{alias}")

    async def create(self, names: Names, state: State) -> Session:
        """Creates a session and loads it with the state of its user and app."""

        def work() -> Session:
            create_session(
                self._alias, names.app_name, names.user_id, actor=AGENT, state=state, session_id=names.session_id
            )
            stored = whole_session.load(self._ref(names), newest=0, actor=AGENT)
            if stored is None:
                raise NotFound
            return _session(stored)

        return await self._do(names, work)

    async def load(
        self, names: Names, *, newest: int | None = None, since: float | None = None, after: int | None = None
    ) -> Session | None:
        """Loads a session."""

        following = None if after is None else Seq(after)

        def work() -> Session | None:
            stored = whole_session.load(self._ref(names), newest=newest, since=since, after=following, actor=AGENT)
            return None if stored is None else _session(stored)

        return await self._do(names, work) if possible(*names) else None

    async def load_all(self, app_name: str, user_id: str | None) -> list[Session]:
        """Loads sessions without events."""

        def work() -> list[Session]:
            return [
                _session(stored)
                for stored in stored_sessions.load_all(
                    stored_sessions.Selection(self._alias, app_name, user_id), actor=AGENT
                )
            ]

        return await self._do(Names(app_name, user_id or "", ""), work) if possible(app_name, user_id or "") else []

    async def delete(self, names: Names) -> None:
        """Deletes a session. Does nothing if there is no such session."""

        def work() -> None:
            with suppress(NotFound):
                delete_session(self._ref(names), actor=AGENT)

        await self._do(names, work)

    async def user_state(self, app_name: str, user_id: str) -> State:
        """Returns a user's state, or {} if there is none."""

        def work() -> State:
            with suppress(NotFound):
                return views.user_state(self._alias, app_name, user_id, actor=AGENT)
            return {}

        return await self._do(Names(app_name, user_id, ""), work) if possible(app_name, user_id) else {}

    async def head(self, names: Names, event_id: str) -> Head | None:
        """Returns the head of a session, with the seq of one of its events."""

        def work() -> Head | None:
            head = whole_session.read_head(self._ref(names), event_id, actor=AGENT)
            return None if head is None else Head(head.created, head.revision, head.newest, head.seq)

        return await self._do(names, work) if possible(*names) else None

    async def append(self, names: Names, event: dict[str, Any], revision: float | None) -> Written | None:
        """Appends an event through the write path."""

        def work() -> Written | None:
            appended = append_event(self._ref(names), event, actor=AGENT, expected=revision)
            if appended.seq is None or appended.revision is None:
                return None
            return Written(appended.seq, appended.revision)

        return await self._do(names, work)

    async def close(self) -> None:
        """Waits until all work is done and closes the connections."""
        await asyncio.to_thread(self._crew.close)
        await asyncio.to_thread(hung.leave)

    def _checked(self, work: Callable[[], T]) -> T:
        """Does the work. A connection that was idle goes back to the pool first, which checks that it still works."""
        if time.monotonic() - getattr(self._thread, "used", 0.0) > TRUSTED_SECONDS:
            connections[self._alias].close()
        if not database.may_write(self._alias):  # this service is there to write
            database.get(self._alias, adopting=True)
        try:
            return work()
        finally:
            self._thread.used = time.monotonic()

    def _ref(self, names: Names) -> SessionRef:
        return SessionRef(self._alias, *names)

    async def _do(self, names: Names, work: Callable[[], T]) -> T:
        """Lets a thread do the work and raises ADK's errors. Errors for which ADK has no class stay adkweb's own."""
        try:
            return await asyncio.wrap_future(self._crew.submit(lambda: self._checked(work)))
        except NotFound as error:
            raise not_found(names.session_id) from error
        except AlreadyExists as error:
            raise already_exists(names.session_id) from error
        except StaleSession as error:
            raise stale() from error
        except Conflict as error:
            raise AlreadyExistsError(error.message) from error
        except Invalid as error:
            raise InputValidationError(error.message) from error


def _session(stored: whole_session.StoredSession) -> Session:
    return session_of(
        *stored.ref[1:],
        stored.state.merged(),
        Seen(stored.created, stored.revision, stored.seq),
        [
            event_of(Event.model_validate_json(each.text), each.id, each.invocation_id, each.timestamp)
            for each in stored.events
        ],
    )
