"""Stores that adkweb makes have a write-ahead log; an agent's own file gets one when its owner says so."""

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import connections

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import views
from sessions_app.sources import adoption, database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support import warm
from tests.support.people import ALICE
from tests.support.stored import events_of, query

Open = Callable[..., str]


@pytest.fixture(params=["sqlite", "sqlite-database"])
def form(request: pytest.FixtureRequest) -> str:
    """SQLite only."""
    return str(request.param)


def mode_of(file: Path | str) -> str:
    with closing(sqlite3.connect(file)) as other:
        (mode,) = other.execute("PRAGMA journal_mode").fetchone()
    return str(mode)


def agents_file(path: Path) -> Path:
    """A store as SqliteSessionService makes it, which adkweb has not seen."""
    path.touch()
    (source,) = registry.add(str(path))
    adoption.create(source.alias, "sqlite")
    database.forget(source.alias)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    return path


def test_a_new_store_has_a_log_and_every_commit_waits_for_the_disk(source: str, form: str) -> None:
    assert query(source, "PRAGMA journal_mode") == [("wal",)]
    assert query(source, "PRAGMA synchronous") == [(2,)]  # FULL, whatever this SQLite was built with


def test_an_agents_file_keeps_its_journal_and_waits_for_the_disk_too(tmp_path: Path, open_source: Open) -> None:
    source = open_source(str(agents_file(tmp_path / "agent.db")))
    assert query(source, "PRAGMA journal_mode") == [("delete",)]
    assert query(source, "PRAGMA synchronous") == [(2,)]


_AGENT = """
import asyncio, sys
from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
async def main(form, path, number):
    service = SqliteSessionService(path) if form == "sqlite" else DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    names = {"app_name": "app", "user_id": "u", "session_id": "s"}
    session = await service.get_session(**names) or await service.create_session(**names)
    print(len(session.events), session.state.get("n"), session.state.get("app:n"))
    delta = {"n": number, "app:n": number}
    await service.append_event(session, Event(author="agent", invocation_id="i", actions=EventActions(state_delta=delta)))
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_googles_services_work_in_a_new_store_beside_adkweb_and_after_a_restart_of_all(
    form: str, new_database: Callable[[str], str], open_source: Open
) -> None:
    place = new_database(form)

    def agent(number: int) -> str:
        done = warm.run([sys.executable, "-c", _AGENT, form, place, str(number)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout.strip())

    ref = SessionRef(open_source(place, form), "app", "u", "s")
    assert agent(1) == "0 None None"
    append_event(ref, {"id": "edit", "actions": {"state_delta": {"n": 2, "app:n": 3}}}, actor=ALICE)
    assert agent(4) == "2 2 3"
    database.forget(ref.source)
    assert agent(5) == "3 4 4"
    assert mode_of(place) == "wal"
    assert open_source(place) == ref.source
    assert views.session(ref, actor=SYSTEM).state.merged() == {"n": 5, "app:n": 5}
    assert len(events_of(ref)) == 4


def test_the_owner_of_a_file_gives_it_a_log_with_what_is_in_it_kept(tmp_path: Path, open_source: Open) -> None:
    file = agents_file(tmp_path / "agent.db")
    call_command("adopt", str(file), verbosity=0)
    assert mode_of(file) == "delete"
    ref = create_session(open_source(str(file)), "app", "u", actor=ALICE)
    append_event(ref, {"id": "before"}, actor=ALICE)
    call_command("adopt", str(file), wal=True, verbosity=0)
    call_command("adopt", str(file), wal=True, verbosity=0)
    assert mode_of(file) == "wal"
    append_event(ref, {"id": "after"}, actor=ALICE)
    assert [event["id"] for _seq, event in events_of(ref)] == ["before", "after"]


def test_a_file_that_is_in_use_keeps_its_journal_and_the_owner_is_told(
    tmp_path: Path, open_source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = agents_file(tmp_path / "agent.db")
    source = open_source(str(file))
    query(source, "PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(file, isolation_level=None)) as agent:
        agent.execute("BEGIN")
        agent.execute("SELECT * FROM sessions").fetchall()
        with pytest.raises(CommandError, match="another program has locked the file"):
            call_command("adopt", str(file), wal=True, verbosity=0)
    assert mode_of(file) == "delete"


def test_postgresql_has_no_such_log_to_ask_for() -> None:
    with pytest.raises(CommandError, match="x is not a SQLite file: --wal is for those"):
        call_command("adopt", "postgresql://nobody@127.0.0.1:1/x", wal=True)
    database.forget("x")


def test_read_only_in_a_folder_that_may_not_be_written_says_what_a_log_needs(
    settings: LazySettings, open_source: Open
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="adkweb-test-", dir="/tmp"))
    try:
        file = folder / "s.db"
        file.touch()
        database.forget(open_source(str(file)))  # the last one takes the log away
        file.chmod(0o444)
        folder.chmod(0o555)
        settings.READ_ONLY = True
        (source,) = registry.add(str(file))
        before = os.geteuid()
        if before == 0:  # whom no permission stops
            os.seteuid(65534)
        try:
            with pytest.raises(SourceError, match=r"uses a write-ahead log.* Copy the file to a writable folder"):
                database.open_source(source)
        finally:
            connections[source.alias].close()
            os.seteuid(before)
            database.forget(source.alias)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
