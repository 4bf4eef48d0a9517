"""In the server of agents, ADK's services append on top of what others have written."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.running import launcher
from sessions_app.writes.append import append_event

NAMES = {"app_name": "helper", "user_id": "ana"}


@pytest.fixture(params=["sqlite", "sqlite-database"])
def service(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, new_store: Callable[[str], str]
) -> Iterator[BaseSessionService]:
    """One of ADK's services, as the server of agents changes it; for this test only."""
    for kind, names in {
        SqliteSessionService: ["append_event", "_get_db_connection"],
        DatabaseSessionService: ["append_event", "__init__"],
    }.items():
        for name in names:
            monkeypatch.setattr(kind, name, getattr(kind, name))
    monkeypatch.setattr(aiosqlite, "connect", partial(aiosqlite.connect, timeout=0.05))
    launcher.rebase()
    file = new_store(request.param)
    if request.param == "sqlite":
        yield SqliteSessionService(file)
    else:
        yield DatabaseSessionService(f"sqlite+aiosqlite:///{file}", connect_args={"timeout": 0.05})


def run(service: BaseSessionService, story: Coroutine[Any, Any, None]) -> None:
    """Runs a story, and closes the service."""

    async def told() -> None:
        try:
            await story
        finally:
            await service.close()

    asyncio.run(told())


def event(invocation: str = "i1", **delta: Any) -> Event:
    """An agent's event."""
    return Event(author="helper", invocation_id=invocation, actions=EventActions(state_delta=delta))


def file_of(service: Any) -> str:
    """The file of a service."""
    return str(service._db_path if isinstance(service, SqliteSessionService) else service.db_engine.url.database)


async def begun(service: BaseSessionService) -> tuple[Session, Session]:
    """Two copies of a session with two events."""
    session = await service.create_session(**NAMES, session_id="s1", state={"price": 1})
    for number in range(2):
        await service.append_event(session, event(f"i{number}", number=number))
    another = await service.get_session(**NAMES, session_id="s1")
    assert another
    return session, another


async def stored(service: BaseSessionService) -> Session:
    """The session as it is stored."""
    session = await service.get_session(**NAMES, session_id="s1")
    assert session
    return session


def test_each_of_two_writers_gets_what_the_other_wrote(service: BaseSessionService) -> None:
    async def story() -> None:
        one, two = await begun(service)
        await service.append_event(one, event(price=2))
        late = event(stock=5)
        late.timestamp -= 60  # it was made before, and is written after
        await service.append_event(two, late)
        await service.append_event(one, event(done=True))
        for session in (one, await stored(service)):
            assert [each.actions.state_delta for each in session.events[2:]] == [
                {"price": 2},
                {"stock": 5},
                {"done": True},
            ]
            assert session.state == {"price": 2, "number": 1, "stock": 5, "done": True}

    run(service, story())


def test_a_session_that_was_loaded_in_part_gets_only_what_is_new(service: BaseSessionService) -> None:
    async def story() -> None:
        one, _ = await begun(service)
        part = await service.get_session(**NAMES, session_id="s1", config=GetSessionConfig(num_recent_events=1))
        await service.append_event(one, event(price=2))
        await service.append_event(part, event(stock=5))
        assert [each.actions.state_delta for each in part.events] == [{"number": 1}, {"price": 2}, {"stock": 5}]

    run(service, story())


def test_a_key_that_adkweb_removes_is_removed_from_the_runs_state(
    service: BaseSessionService, open_source: Callable[..., str]
) -> None:
    alias = open_source(file_of(service))

    async def story() -> None:
        session, _ = await begun(service)
        note = {"adkweb": {"removed": ["price"]}}
        removal = {"author": "user", "actions": {"state_delta": {"price": None}}, "custom_metadata": note}
        ref = SessionRef(alias, "helper", "ana", "s1")
        await asyncio.to_thread(append_event, ref, removal, actor=SYSTEM, origin="person")
        await service.append_event(session, event(stock=5))
        assert session.state == {"number": 1, "stock": 5}

    run(service, story())


def test_a_rewind_of_a_stale_session_and_a_session_made_anew_are_refused(service: BaseSessionService) -> None:
    async def story() -> None:
        one, two = await begun(service)
        await service.append_event(one, event(price=2))
        rewind = Event(
            author="user", invocation_id="r", actions=EventActions(rewind_before_invocation_id="i1", state_delta={})
        )
        with pytest.raises(StaleSessionError):
            await service.append_event(two, rewind)
        await service.delete_session(**NAMES, session_id="s1")
        again = await service.create_session(**NAMES, session_id="s1")
        await service.append_event(again, event(price=3))
        with pytest.raises(StaleSessionError):
            await service.append_event(one, event(price=4))
        assert [each.actions.state_delta for each in (await stored(service)).events] == [{"price": 3}]

    run(service, story())


@contextmanager
def locked(service: BaseSessionService, seconds: float) -> Iterator[None]:
    """Another program holds the file for some seconds."""
    holds = threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(Path(file_of(service)), isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            holds.set()
            time.sleep(seconds)
            file.execute("ROLLBACK")

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(5)
    yield
    holder.join()


def test_an_append_outlasts_a_lock_and_is_stored_once(service: BaseSessionService) -> None:
    async def story() -> None:
        session, _ = await begun(service)
        with locked(service, 0.2):  # each try waits a quarter of that
            await service.append_event(session, event(price=2))
        assert [each.id for each in (await stored(service)).events] == [each.id for each in session.events]
        assert len(session.events) == 3

    run(service, story())


def test_an_append_that_has_begun_is_finished_when_its_run_is_ended(service: BaseSessionService) -> None:
    async def story() -> None:
        session, _ = await begun(service)
        with locked(service, 0.2):
            append = asyncio.ensure_future(service.append_event(session, event(price=2)))
            await asyncio.sleep(0.1)
            append.cancel()
            with pytest.raises(asyncio.CancelledError):
                await append
        assert session.state["price"] == 2
        await service.append_event(session, event(price=3))  # the seal
        assert [each.actions.state_delta for each in (await stored(service)).events[2:]] == [{"price": 2}, {"price": 3}]

    run(service, story())
