"""Sources that cannot be used: files that are missing, damaged or locked, servers that are away or refuse. Each is named."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.history.edit_log import edits
from sessions_app.reads import lists, statistics, timeline, views
from sessions_app.sources import database, online, registry
from sessions_app.writes import commits
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER
from tests.servers import PostgreSQL
from tests.sources.agents import agent, opened

pytestmark = pytest.mark.usefixtures("nothing_else_listed")


def _attempts(work: Callable[[], object], most: int = 5) -> int:
    """How often something has to be tried until it succeeds; every refusal must be a SourceError."""
    for attempt in range(1, most + 1):
        with suppress(SourceError):
            work()
            return attempt
    return most + 1


def _fill(file: Path, events: int) -> None:
    """Gives a database many pages of rows."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executemany(
            """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
            VALUES (?, ?, ?, 's1', 'i', ?, ?)""",
            [(f"e{n}", APP, USER, n, '{"content": {"parts": [{"text": "%s"}]}}' % ("x" * 900)) for n in range(events)],
        )
        connection.commit()


def _read_all(alias: str) -> None:
    """Looks at every session and event."""
    for app in lists.apps(alias, actor=SYSTEM).rows:
        for row in lists.sessions(alias, app.app_name, actor=SYSTEM).rows:
            views.session(row.ref, actor=SYSTEM)
            statistics.stats(row.ref, actor=SYSTEM)
            page = timeline.events(row.ref, actor=SYSTEM)
            while page.next:
                page = timeline.events(row.ref, before=page.next, actor=SYSTEM)


# --- Files that cannot be used ----------------------------------------------------------------------------------------


def test_a_missing_file_is_named_with_the_command_that_makes_one(tmp_path: Path) -> None:
    missing = tmp_path / "none.db"
    with pytest.raises(SourceError, match=rf"No such file or folder: {missing}. To create .*: adkweb create {missing}"):
        registry.add(str(missing))
    assert not missing.exists()


def test_a_folder_without_databases_is_no_error_and_no_source(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    assert registry.add(str(tmp_path)) == []


def test_a_text_file_is_called_one_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Dear diary, today I debugged an agent. " * 100)
    with pytest.raises(SourceError, match=r"notes\.txt: this isn't a SQLite database"):
        opened(str(file))
    assert file.read_text().startswith("Dear diary")


@pytest.mark.parametrize("kept", [50, 100, 4096, 0.3, 0.5, 0.9])
def test_a_half_written_file_is_called_damaged_wherever_it_ends(kept: float, tmp_path: Path) -> None:
    whole = agent(tmp_path)
    _fill(whole, 400)
    data = whole.read_bytes()
    file = tmp_path / "half.db"
    file.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    before = file.read_bytes()
    with pytest.raises(SourceError, match=r"half\.db: (the file is damaged or incomplete|this isn't a SQLite)"):
        _read_all(opened(str(file)).alias)
    assert file.read_bytes() == before


@pytest.mark.django_db(transaction=True)
def test_a_file_damaged_in_its_middle_says_so_and_the_rest_of_adkweb_goes_on(tmp_path: Path) -> None:
    file, healthy = agent(tmp_path, "broken"), agent(tmp_path, "healthy")
    _fill(file, 400)
    data = bytearray(file.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 20 * 4096] = b"\xff" * (20 * 4096)
    file.write_bytes(data)
    registry.add(str(tmp_path))
    with pytest.raises(SourceError, match=r"broken.*the file is damaged or incomplete\. SQLite's “\.recover”"):
        _read_all("broken")
    assert healthy.exists()
    _read_all("healthy")
    page, problems = edits(actor=SYSTEM)
    assert page.rows == []
    assert len(problems) <= 1


def test_a_locked_file_is_not_written_and_says_so_and_is_written_when_free(
    tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "PATIENCE_SECONDS", 0.5)
    file = agent(tmp_path)
    (source,) = registry.add(str(file))
    connections.databases[source.alias]["OPTIONS"]["timeout"] = 0.2
    database.open_source(source)
    ref = SessionRef(source.alias, APP, USER, "s1")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceError, match=r"agent.*another program has locked the file\. Nothing was written"):
            append_event(ref, {"id": "late", "author": "x"}, actor=actor)
        with pytest.raises(SourceError, match="another program has locked the file"):
            timeline.events(ref, actor=SYSTEM)
        other.execute("ROLLBACK")
        other.execute("BEGIN IMMEDIATE")  # a writer that has not written yet: reading goes on
        assert len(timeline.events(ref, actor=SYSTEM).rows) == 1
        with pytest.raises(SourceError, match="Nothing was written"):
            edit.edit_state(ref, [Entry("a", 1, ABSENT)], actor=actor)
        other.execute("ROLLBACK")
    append_event(ref, {"id": "late", "author": "x"}, actor=actor)
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows][1:] == ["late"]


def test_a_file_that_is_locked_when_it_is_first_opened_is_tried_again(tmp_path: Path) -> None:
    file = agent(tmp_path)
    (source,) = registry.add(str(file))
    connections.databases[source.alias]["OPTIONS"]["timeout"] = 0.2
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceError, match="locked"):
            database.open_source(source)
        other.execute("ROLLBACK")
    assert len(lists.apps(source.alias, actor=SYSTEM).rows) == 1


def test_a_file_that_is_gone_is_said_to_be_gone_and_is_back_when_it_is(tmp_path: Path) -> None:
    file = agent(tmp_path)
    (source,) = registry.add(str(file))
    moved = file.rename(tmp_path / "moved.db")
    with pytest.raises(SourceError, match=r"session\.db: the file no longer exists"):
        lists.apps(source.alias, actor=SYSTEM)
    assert not file.exists()
    moved.rename(file)
    assert len(lists.apps(source.alias, actor=SYSTEM).rows) == 1


def test_a_file_that_is_deleted_and_made_anew_is_opened_anew(
    tmp_path: Path, open_source: Callable[[str, str], str], actor: Actor
) -> None:
    path = tmp_path / "made-anew.db"
    path.touch()
    alias = open_source(str(path), "sqlite")
    create_session(alias, "app", "user", session_id="old", actor=actor)
    connections[alias].close()
    path.unlink()
    with pytest.raises(SourceError, match="the file no longer exists"):
        lists.apps(alias, actor=SYSTEM)
    other = tmp_path / "other.db"
    other.touch()
    connections[open_source(str(other), "sqlite-database")].close()
    other.rename(path)  # the other time format, as when an agent's service was exchanged
    assert lists.apps(alias, actor=SYSTEM).rows == []
    ref = create_session(alias, "app", "user", session_id="new", actor=actor)
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT typeof(update_time) FROM sessions")
        assert cursor.fetchall() == [("text",)]
    assert views.session(ref, actor=SYSTEM).ref == ref


def test_a_source_that_is_released_while_it_is_open_is_adopted_again(source: str, actor: Actor) -> None:
    ref = create_session(source, "app", "user", actor=actor)
    online.release(source)
    with suppress(SourceError):  # the first request finds out
        views.session(ref, actor=SYSTEM)
    assert views.session(ref, actor=SYSTEM).ref == ref


# --- Servers that cannot be used --------------------------------------------------------------------------------------


def test_a_database_that_does_not_exist_is_named(postgresql_server: PostgreSQL) -> None:
    with pytest.raises(
        SourceError, match=r"@127\.0\.0\.1:\d+/nowhere: .*nothing with this name.*database \"nowhere\" does not exist"
    ):
        opened(postgresql_server.url("nowhere"))


def test_a_role_that_does_not_exist_is_named(postgresql_server: PostgreSQL) -> None:
    url = postgresql_server.url().replace("postgres@", "nobody@")
    with pytest.raises(SourceError, match=r"nobody@.*role \"nobody\" does not exist"):
        opened(url)


def test_a_port_without_a_server_is_said_to_have_none() -> None:
    with pytest.raises(SourceError, match=r"postgresql://ana@127\.0\.0\.1:1/agents: no server is listening there"):
        opened("postgresql://ana@127.0.0.1:1/agents")


def test_a_host_that_does_not_exist_is_said_not_to() -> None:
    with pytest.raises(SourceError, match=r"ana@nowhere\.invalid/agents: .*host"):
        opened("postgresql://ana@nowhere.invalid/agents")


def test_wrong_and_missing_passwords_are_told_apart_and_never_shown(server: PostgreSQL) -> None:
    url = server.create_database("locked")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE ana LOGIN SUPERUSER PASSWORD 'right s3cret'")
        assert server.directory
        rules = server.directory / "data" / "pg_hba.conf"
        rules.write_text("host all ana 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        connection.execute("SELECT pg_reload_conf()")
    wrong = url.replace("postgres@", "ana:wrong-s3cret@")
    with pytest.raises(SourceError, match="the server rejected this user name and password") as refused:
        opened(wrong)
    assert "s3cret" not in refused.value.message
    database.forget("locked")
    with pytest.raises(SourceError, match="the server requires a password"):
        opened(url.replace("postgres@", "ana@"))
    database.forget("locked")
    source = opened(url.replace("postgres@", "ana:right%20s3cret@"))
    assert lists.apps(source.alias, actor=SYSTEM).rows == []
    assert "s3cret" not in source.where


@pytest.mark.django_db(transaction=True)
def test_a_server_that_goes_away_is_named_and_after_its_return_nothing_is_lost(
    server: PostgreSQL, tmp_path: Path, actor: Actor
) -> None:
    source = opened(server.create_database("agents"))
    healthy = opened(str(agent(tmp_path, "healthy")))
    ref = create_session(source.alias, APP, USER, actor=actor, session_id="s1", state={"n": 0})
    append_event(ref, {"id": "before", "author": "x"}, actor=actor)
    named = rf"postgresql://postgres@127\.0\.0\.1:{server.port}/agents: "
    server.stop()
    with pytest.raises(SourceError, match=named):
        timeline.events(ref, actor=SYSTEM)
    with pytest.raises(SourceError, match=named):
        append_event(ref, {"id": "never", "author": "x"}, actor=actor)
    # By now it is known that nobody answers, and nobody waits for it again.
    start = time.monotonic()
    with pytest.raises(SourceError, match=named + "no server is listening there"):
        edit.edit_state(ref, [Entry("n", 9, 0)], actor=actor)
    page, problems = edits(actor=SYSTEM)
    assert (page.rows, len(problems)) == ([], 1)
    assert len(lists.apps(healthy.alias, actor=SYSTEM).rows) == 1  # the other source does not notice
    assert time.monotonic() - start < 1
    server.start()
    append_event(ref, {"id": "after", "author": "x"}, actor=actor)
    edit.edit_state(ref, [Entry("n", 1, 0)], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.get("n") == 1
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows][:2] == ["before", "after"]
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 3
    assert len(edits(actor=SYSTEM)[0].rows) == 1


def test_a_server_that_restarts_costs_one_answer_at_most(server: PostgreSQL, actor: Actor) -> None:
    source = opened(server.create_database("agents"))
    ref = create_session(source.alias, APP, USER, actor=actor, session_id="s1")
    for number in range(3):
        server.stop()
        server.start()
        assert _attempts(lambda: append_event(ref, {"id": f"e{number}", "author": "x"}, actor=actor)) <= 2  # noqa: B023
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == ["e0", "e1", "e2"]


def test_a_server_that_is_away_at_first_is_used_as_soon_as_it_answers(server: PostgreSQL) -> None:
    url = server.create_database("agents")
    server.stop()
    (source,) = registry.add(url)
    with pytest.raises(SourceError, match=r"no server is listening there\. adkweb retries on every request"):
        lists.apps(source.alias, actor=SYSTEM)
    server.start()
    assert lists.apps(source.alias, actor=SYSTEM).rows == []


def test_a_connection_that_the_server_ends_costs_one_answer_at_most(server: PostgreSQL, actor: Actor) -> None:
    source = opened(server.create_database("agents"))
    ref = create_session(source.alias, APP, USER, actor=actor, session_id="s1")
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'agents'")
    assert _attempts(lambda: append_event(ref, {"id": "one", "author": "x"}, actor=actor)) <= 2
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == ["one"]


@pytest.mark.guarantee("Databases and files", "An unresponsive source doesn't delay other sources.")
def test_a_server_that_does_not_answer_holds_up_no_other_source(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # accepts, and says nothing
        url = f"postgresql://ana@127.0.0.1:{silent.getsockname()[1]}/agents?connect_timeout=2"
        (slow,) = registry.add(url)
        (file,) = registry.add(str(agent(tmp_path)))
        waiting = threading.Thread(target=lambda: _attempts(lambda: database.open_source(slow), most=1))
        waiting.start()
        assert len(lists.apps(file.alias, actor=SYSTEM).rows) == 1
        assert waiting.is_alive()
        waiting.join(10)
        with pytest.raises(SourceError, match="the server didn't answer in time"):
            database.open_source(slow)
