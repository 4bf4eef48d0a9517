"""google-adk's own session services, called from tests that are not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService, Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from sessions_app.domain.session_ref import SessionRef

T = TypeVar("T")

APP, USER = "booking", "ana"


class Adk:
    """One session service of google-adk on one database, as an agent's process has it."""

    def __init__(self, form: str, place: str) -> None:
        self._loop = asyncio.Runner()
        self._closed = False
        self.service: SqliteSessionService | DatabaseSessionService
        if form == "sqlite":
            self.service = SqliteSessionService(place)
        else:
            driver = place.replace("postgresql://", "postgresql+asyncpg://")
            self.service = DatabaseSessionService(driver if "://" in driver else f"sqlite+aiosqlite:///{place}")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for google-adk; its connections belong to this one loop."""
        return self._loop.run(work)

    def create(self, session_id: str = "s1", state: dict[str, Any] | None = None, user: str = USER) -> Session:
        return self.run(
            self.service.create_session(app_name=APP, user_id=user, session_id=session_id, state=state or {})
        )

    def get(self, session_id: str = "s1", user: str = USER) -> Session:
        found = self.run(self.service.get_session(app_name=APP, user_id=user, session_id=session_id))
        assert found is not None
        return found

    def append(self, session: Session, text: str = "", author: str = "booking", **delta: Any) -> Event:
        """Appends a message with a state delta; in its keys `__` stands for the colon of a scope."""
        event = Event(
            invocation_id="e-1",
            author=author,
            content=types.Content(role="model", parts=[types.Part(text=text)]) if text else None,
            actions=EventActions(state_delta={key.replace("__", ":"): value for key, value in delta.items()}),
        )
        return self.run(self.service.append_event(session, event))

    def delete(self, session: Session) -> None:
        """Deletes a session as ADK does."""
        names = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
        self.run(self.service.delete_session(**names))

    def close(self) -> None:
        """Ends the agent's process; again: nothing to do."""
        if not self._closed:
            self._closed = True
            self.run(self.service.close())
            self._loop.close()


def key_of(source: str, session_id: str = "s1", user: str = USER) -> SessionRef:
    """adkweb's name of a session."""
    return SessionRef(source, APP, user, session_id)
