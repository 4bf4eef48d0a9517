"""The same conversation with our services and with google-adk's own, told in a form in which they can be compared."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService, Session
from google.genai import types

from sessions_app.adk.base import StoredSessionService

APP, USER = "booking", "ana"
_TIMES = ("timestamp", "last_update_time", "start_timestamp", "end_timestamp")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@asynccontextmanager
async def services(file: Path, mine: StoredSessionService) -> AsyncIterator[dict[str, BaseSessionService]]:
    """InMemorySessionService, DatabaseSessionService on a new file, and ours."""
    database = DatabaseSessionService(f"sqlite+aiosqlite:///{file}")
    async with database, mine:
        yield {"memory": InMemorySessionService(), "database": database, "ours": mine}


def event(text: str = "", *, id: str = "", **delta: Any) -> Event:
    """A message with a state delta; in its keys `__` stands for the colon of a scope."""
    return Event(
        **({"id": id} if id else {}),
        invocation_id="e-1",
        author="booking",
        timestamp=time.time(),
        content=types.Content(role="model", parts=[types.Part(text=text)]) if text else None,
        actions=EventActions(state_delta={key.replace("__", ":"): value for key, value in delta.items()}),
    )


def texts(session: Session) -> list[str]:
    """What was said, in order."""
    return [part.text or "" for e in session.events if e.content for part in e.content.parts or []]


def told(thing: Any) -> Any:
    """Anything of ADK's as JSON, times left out, and ids that were made up as numbers in order of appearance."""
    return _renamed(_told(thing), {})


def _told(thing: Any) -> Any:
    if isinstance(thing, Exception):
        return type(thing).__name__, str(thing)
    if hasattr(thing, "model_dump"):
        thing = thing.model_dump(mode="json", exclude_none=True)
    if isinstance(thing, dict):
        return {key: _told(value) for key, value in thing.items() if key not in _TIMES}
    return [_told(each) for each in thing] if isinstance(thing, list | tuple) else thing


def _renamed(thing: Any, seen: dict[str, str]) -> Any:
    if isinstance(thing, str):
        return _ID.sub(lambda found: seen.setdefault(found[0], f"id{len(seen)}"), thing)
    if isinstance(thing, dict):
        return {_renamed(key, seen): _renamed(value, seen) for key, value in thing.items()}
    return [_renamed(each, seen) for each in thing] if isinstance(thing, list) else thing
