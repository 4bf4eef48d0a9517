"""Any loop, any thread, any process: where our services run, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.http import HttpRequest, JsonResponse
from django.test import AsyncClient
from django.urls import path
from google.adk.sessions import Session

from sessions_app import broadcast
from sessions_app.adk import DjangoSessionService, table_store
from sessions_app.adk import threads as crew
from sessions_app.adk.base import StoredSessionService
from sessions_app.adk.threads import Crew
from sessions_app.broadcast import Move
from sessions_app.domain.errors import SourceError
from tests.adk.sides import APP, USER, event, texts
from tests.servers import PostgreSQL

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

Ours = Callable[..., StoredSessionService]

NAME = {"app_name": APP, "user_id": USER, "session_id": "s1"}
ROOT = Path(__file__).resolve().parents[2]


def crew_threads() -> list[threading.Thread]:
    """Threads of services that are alive; not those of the server in this process that look for databases that hang and
    hear what agents print."""
    others = ("adkweb-hung", "adkweb-agents")
    return [
        thread for thread in threading.enumerate() if thread.name.startswith("adkweb-") and thread.name not in others
    ]


# --- Loops and threads ------------------------------------------------------------------------------------------------


def test_many_loops_in_many_threads_use_one_service(source: str, ours: Ours) -> None:
    service = ours(source, on_stale="rebase")
    threads, each = 6, 8

    async def one(number: int) -> None:
        mine = await service.create_session(app_name=APP, user_id=USER, session_id=f"own{number}")
        shared = await service.get_session(**NAME)
        assert shared is not None
        for n in range(each):
            keys: dict[str, Any] = {f"app__{number}.{n}": n, f"user__{number}.{n}": n}
            await asyncio.gather(
                service.append_event(mine, event(f"{n}", n=n, **keys)),
                service.append_event(shared, event(f"{number}.{n}")),
            )
        assert texts(mine) == [str(n) for n in range(each)]
        assert [text for text in texts(shared) if text.startswith(f"{number}.")] == [
            f"{number}.{n}" for n in range(each)
        ]

    asyncio.run(service.create_session(**NAME))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda number: asyncio.run(one(number)), range(threads)))

    async def check() -> None:
        stored = await service.get_session(**NAME)
        assert stored is not None
        everything = {f"{number}.{n}": n for number in range(threads) for n in range(each)}
        assert set(texts(stored)) == everything.keys()
        assert len(stored.events) == len(everything)
        assert await service.get_user_state(app_name=APP, user_id=USER) == everything
        assert {key.removeprefix("app:"): n for key, n in stored.state.items() if key.startswith("app:")} == everything
        await service.close()

    asyncio.run(check())
    assert crew_threads() == []


def test_one_session_object_appended_to_by_many_tasks_at_once_never_goes_stale(source: str, ours: Ours) -> None:
    """As parallel tools do it; in the order in which they asked."""

    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            await asyncio.gather(*(service.append_event(session, event(f"{n}", n=n)) for n in range(20)))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == texts(session) == [str(n) for n in range(20)]

    asyncio.run(run())


def test_the_loop_goes_on_while_a_database_makes_an_append_wait_and_a_cancelled_one_is_whole(
    source: str, ours: Ours
) -> None:
    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            with locked(source):
                append = asyncio.create_task(service.append_event(session, event("cancelled", n=1)))
                behind = asyncio.create_task(service.append_event(session, event("cancelled while it waited", n=2)))
                for _ in range(10):
                    await asyncio.sleep(0.01)
                assert not append.done()
                append.cancel()
                behind.cancel()
                await asyncio.gather(append, behind, return_exceptions=True)
                assert append.cancelled()
                assert texts(session) == []
            # What ADK appends when a run was cancelled, with the same session.
            await service.append_event(session, event("aborted", n=3))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == texts(session) == ["cancelled", "cancelled while it waited", "aborted"]

    asyncio.run(run())


@contextmanager
def locked(source: str) -> Iterator[None]:
    """Another program holds the session's row, or SQLite's file, for a moment."""
    from django.db import connections

    database = connections.databases[source]
    if database["ENGINE"].endswith("sqlite3"):
        other = sqlite3.connect(database["ADKWEB"]["path"], isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()
            other.close()
    else:
        where = {
            "host": database["HOST"],
            "port": database["PORT"],
            "user": database["USER"],
            "dbname": database["NAME"],
        }
        with psycopg.connect(**where) as connection:
            connection.execute("SELECT 1 FROM sessions FOR UPDATE")
            yield


def test_a_loop_that_ends_in_the_middle_of_an_append_keeps_nobody_else_waiting(source: str, ours: Ours) -> None:
    service = ours(source, on_stale="rebase")

    async def begin() -> Session:
        return await service.create_session(**NAME)

    async def leave(session: Session) -> None:
        for n in range(3):
            asyncio.ensure_future(service.append_event(session, event(f"{n}")))  # noqa: RUF006
        await asyncio.sleep(0)

    async def go_on(session: Session) -> None:
        await asyncio.wait_for(service.append_event(session, event("and on")), 20)
        assert texts(session)[-1] == "and on"
        await service.close()

    session = asyncio.run(begin())
    asyncio.run(leave(session))
    asyncio.run(go_on(session))


def test_closed_it_holds_no_thread_and_no_connection_and_can_be_used_again(source: str, ours: Ours) -> None:
    async def run() -> None:
        service = ours(source)
        session = await service.create_session(**NAME)
        await asyncio.gather(*(service.get_session(**NAME) for _ in range(10)))
        assert crew_threads()
        await service.close()
        assert crew_threads() == []
        await service.close()
        await service.append_event(session, event("again"))
        await service.close()
        assert crew_threads() == []

    asyncio.run(run())


def test_who_follows_a_session_in_this_process_is_told_of_an_append(source: str) -> None:
    moves: list[Move] = []

    async def run() -> None:
        async with DjangoSessionService(source) as service:
            session = await service.create_session(**NAME)
            moves.clear()
            await service.append_event(session, event("hello"))

    broadcast.listen(moves.append)
    try:
        asyncio.run(run())
    finally:
        broadcast.stop_listening(moves.append)
    assert [(move.what, move.ref[1:]) for move in moves] == [("events", (APP, USER, "s1"))]


def test_idle_threads_leave_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "IDLE_SECONDS", 0.05)
    left: list[str] = []
    some = Crew(3, lambda: left.append(threading.current_thread().name), "adkweb-test")
    futures = [some.submit(lambda n=n: (time.sleep(0.01), n)[1]) for n in range(12)]
    assert [future.result(5) for future in futures] == list(range(12))
    assert len(crew_threads()) <= 3
    deadline = time.monotonic() + 5
    while crew_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == ["adkweb-test"] * 3
    assert some.submit(lambda: "back").result(5) == "back"
    with pytest.raises(ZeroDivisionError):
        some.submit(lambda: 1 / 0).result(5)
    some.close()
    assert crew_threads() == []


def test_work_that_comes_one_after_the_other_is_done_by_one_thread() -> None:
    some = Crew(8, lambda: None, "adkweb-test")
    for _ in range(200):
        some.submit(lambda: None).result(5)
    assert len(crew_threads()) == 1
    some.close()


def test_a_server_that_was_restarted_while_the_agent_rested_is_not_noticed(
    open_source: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_store, "TRUSTED_SECONDS", 0.05)

    async def run(server: PostgreSQL, source: str) -> None:
        async with DjangoSessionService(source) as service:
            session = await service.create_session(**NAME)
            await asyncio.gather(*(service.get_session(**NAME) for _ in range(5)))
            await asyncio.to_thread(server.stop)
            with pytest.raises(SourceError):
                await service.append_event(session, event("nobody hears it"))
            await asyncio.to_thread(server.start)
            await asyncio.sleep(0.1)
            await asyncio.gather(*(service.get_session(**NAME) for _ in range(5)))
            await service.append_event(session, event("as if nothing had been"))
            assert texts(session) == ["as if nothing had been"]

    with PostgreSQL() as server:
        asyncio.run(run(server, open_source(server.create_database("restarted"))))


# --- A request of Django's --------------------------------------------------------------------------------------------


async def talk(request: HttpRequest, source: str) -> JsonResponse:
    """An asynchronous view that runs an agent's turn, as it were."""
    async with DjangoSessionService(source) as service:
        session = await service.get_session(**NAME) or await service.create_session(**NAME)
        await service.append_event(session, event(request.GET["said"]))
        return JsonResponse({"said": texts(session)})


urlpatterns = [path("<source>/", talk)]


def test_it_works_in_asynchronous_requests_at_once(source: str, settings: Any) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE, settings.ALLOWED_HOSTS = __name__, [], ["*"]

    async def run() -> None:
        client = AsyncClient()
        first = await client.get(f"/{source}/", {"said": "one"})
        assert first.json() == {"said": ["one"]}
        second = await client.get(f"/{source}/", {"said": "two"})
        assert second.json() == {"said": ["one", "two"]}

    asyncio.run(run())


# --- A process without Django -----------------------------------------------------------------------------------------


def python(script: str, folder: Path, *, silent: bool = True, **environment: str) -> str:
    """Runs a script in a folder, as an agent's own process would be run; if `silent`, it must say nothing on stderr."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr if silent else "") == (0, ""), done.stderr
    return done.stdout


def test_five_lines_are_enough_in_a_process_without_django(
    tmp_path: Path, form: str, new_database: Callable[[str], str]
) -> None:
    script = f"""
import asyncio
from sessions_app.adk import DjangoSessionService
service = DjangoSessionService({new_database(form)!r})
asyncio.run(service.create_session(app_name="booking", user_id="ana", session_id="s1", state={{"a": 1}}))
print(asyncio.run(service.get_session(app_name="booking", user_id="ana", session_id="s1")).state)
"""
    assert python(script, tmp_path) == "{'a': 1}\n"


def test_the_process_keeps_its_own_logging_time_zone_and_environment(tmp_path: Path) -> None:
    script = """
import logging, os, time
logging.basicConfig(level=logging.DEBUG, filename="log")
before = logging.root.handlers[:], logging.root.level, time.localtime().tm_gmtoff, dict(os.environ)
from sessions_app.adk import DjangoSessionService
DjangoSessionService("new.db")
DjangoSessionService("new.db")
assert before == (logging.root.handlers, logging.root.level, time.localtime().tm_gmtoff, dict(os.environ)), before
print(before[2])
"""
    nowhere = tmp_path / "a file"
    nowhere.touch()
    assert python(script, tmp_path, TZ="Asia/Seoul", ADKWEB_DATA_DIR=str(nowhere / "data")) == "32400\n"


def test_a_process_of_another_django_project_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("INSTALLED_APPS = []\n")
    script = """
from sessions_app.adk import DjangoSessionService
try:
    DjangoSessionService("new.db")
except RuntimeError as error:
    print(error)
"""
    assert "INSTALLED_APPS" in python(
        script, tmp_path, DJANGO_SETTINGS_MODULE="theirs", PYTHONPATH=f"{ROOT}:{tmp_path}"
    )


PAGE = (ROOT / "docs" / "agents.md").read_text()
SCRIPTS = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "asyncio.run(main())" in each]


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_the_programs_that_the_docs_show_run(tmp_path: Path, number: int) -> None:
    (tmp_path / "agents").symlink_to(ROOT / "examples" / "agents")
    booking = "import sys; sys.path.insert(0, 'agents')\n"
    said = python(booking + SCRIPTS[number], tmp_path, silent=False)  # ADK has advice about the demo
    assert "TP431" in said
