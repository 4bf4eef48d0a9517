"""What a user may name as a source, and what is said when it cannot be used."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotAllowed, NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.history.edit_log import edits
from sessions_app.reads import lists, statistics, timeline, views
from sessions_app.sources import adopt_job, database, finding, online, registry
from sessions_app.sources.finding import log
from sessions_app.sources.registry import Source
from sessions_app.writes import commits
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk
from tests.servers import NOBODY, PostgreSQL


@pytest.fixture(autouse=True)
def _nothing_else_listed(django_db_blocker: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts and ends every test without sources and folders."""
    monkeypatch.setattr(registry, "RESCAN_SECONDS", 0.0)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        yield
        for source in registry.listed():
            database.forget(source.alias)
        registry.searched_folders.clear()
        registry.identities.clear()


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    """A PostgreSQL that a test may stop."""
    with PostgreSQL() as server:
        yield server


def agent(folder: Path, name: str = "agent") -> Path:
    """An agent's folder with the database that `adk web` writes beside it."""
    file = folder / name / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    adk = Adk("sqlite", str(file))
    adk.append(adk.create(), f"Hello from {name}")
    adk.close()
    return file


def opened(text: str) -> Source:
    """A named source, opened."""
    (source,) = registry.add(text)
    database.open_source(source)
    return source


# --- Folders and files ------------------------------------------------------------------------------------------------


def test_a_folder_is_searched_four_levels_deep_and_no_deeper(tmp_path: Path) -> None:
    agent(tmp_path, "one")
    agent(tmp_path / "a/b/c", "four")
    agent(tmp_path / "a/b/c/d", "five")
    agent(tmp_path / "node_modules", "library")
    agent(tmp_path / ".hidden", "hidden")
    (tmp_path / "two" / ".adk").mkdir(parents=True)
    assert [source.alias for source in registry.add(str(tmp_path))] == ["four", "one"]
    assert [source.alias for source in registry.listed()] == ["four", "one"]


@pytest.mark.parametrize("linked", ["session.db", ".adk"])
def test_a_link_that_leads_out_of_a_folder_is_not_followed(tmp_path: Path, linked: str) -> None:
    outside, searched = tmp_path / "outside", tmp_path / "searched"
    file = agent(outside, "private")
    before = file.read_bytes()
    agent(searched, "own")
    link = searched / "evil" / ".adk" / "session.db" if linked == "session.db" else searched / "evil" / ".adk"
    link.parent.mkdir(parents=True)
    link.symlink_to(file if linked == "session.db" else file.parent)
    assert [source.alias for source in registry.add(str(searched))] == ["own"]
    assert [source.alias for source in registry.listed()] == ["own"]
    assert file.read_bytes() == before


def test_a_link_within_a_folder_and_a_folder_that_is_a_link_are_followed(tmp_path: Path) -> None:
    file = agent(tmp_path / "real", "own")
    link = tmp_path / "real" / "other" / ".adk" / "session.db"
    link.parent.mkdir(parents=True)
    link.symlink_to(file)
    (tmp_path / "named").symlink_to(tmp_path / "real")
    registry.add(str(tmp_path / "named"))
    assert [source.alias for source in registry.listed()] == ["own"]


def test_the_folder_itself_may_be_an_agents(tmp_path: Path) -> None:
    agent(tmp_path, "booking")
    assert [source.alias for source in registry.add(str(tmp_path / "booking"))] == ["booking"]


def test_a_new_agents_database_appears_by_itself(tmp_path: Path) -> None:
    assert registry.add(str(tmp_path)) == []
    assert registry.listed() == []
    assert registry.folders() == [str(tmp_path)]
    agent(tmp_path, "first")
    assert [source.alias for source in registry.listed()] == ["first"]
    agent(tmp_path, "second")
    assert database.get("second").alias == "second"
    assert [row.app_name for row in lists.apps("second", actor=SYSTEM).rows] == [APP]


def columns(file: Path) -> set[str]:
    """Those of the table of sessions; none where there is no table."""
    with closing(sqlite3.connect(file)) as db:
        return {name for (name,) in db.execute("SELECT name FROM pragma_table_info('sessions')")}


def test_what_appears_in_a_folder_is_adopted_before_anybody_asks_for_it(tmp_path: Path) -> None:
    registry.add(str(tmp_path))
    assert database.open_new() == []
    file = tmp_path / "agent" / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    adk = Adk("sqlite", str(file))
    adk.create("before")
    assert [source.alias for source in database.open_new()] == ["agent"]
    adk.append(adk.create("first", {"step": "ask", "user:name": "Ana"}), "hello", step="pay")
    adk.close()
    assert database.open_new() == []
    assert views.session(SessionRef("agent", APP, USER, "first"), actor=SYSTEM).initial_state == {"step": "ask"}


def test_a_file_that_an_agent_made_anew_is_adopted_before_anybody_asks_for_it(tmp_path: Path) -> None:
    file = agent(tmp_path)
    named = tmp_path / "named.db"
    named.write_bytes(file.read_bytes())
    registry.add(str(tmp_path))
    registry.add(str(named))
    assert [source.alias for source in database.open_new()] == ["agent", "named"]
    assert database.open_new() == []
    for old in (file, named):
        new = old.with_suffix(".new")
        adk = Adk("sqlite", str(new))
        adk.create()
        adk.close()
        new.replace(old)
        assert "initial_state" not in columns(old)
        assert len(database.open_new()) == 1
        assert "initial_state" in columns(old)


def test_nothing_is_made_in_a_file_that_an_agent_is_about_to_fill(tmp_path: Path) -> None:
    registry.add(str(tmp_path))
    file = tmp_path / "agent" / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    file.touch()
    named = tmp_path / "named.db"
    named.touch()
    registry.add(str(named))
    assert database.open_new() == []
    with pytest.raises(SourceError, match="is empty"):
        database.get("agent")
    assert (file.stat().st_size, named.stat().st_size) == (0, 0)
    with closing(sqlite3.connect(file)) as db:  # SQLite's header is there, a table is not
        db.execute("PRAGMA journal_mode=WAL")
        assert file.stat().st_size
        assert database.open_new() == []
        db.execute(
            "CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL)"
        )
        assert database.open_new() == []
    adk = Adk("sqlite-database", str(file.with_suffix(".whole")))
    adk.create()
    adk.close()
    file.with_suffix(".whole").replace(file)
    assert [source.alias for source in database.open_new()] == ["agent"]
    assert connections.databases["agent"]["ADKWEB"]["real_times"] is False


def test_what_appears_is_not_adopted_when_read_only(tmp_path: Path, settings: Settings) -> None:
    settings.READ_ONLY = True
    registry.add(str(tmp_path))
    file = agent(tmp_path)
    before = file.read_bytes()
    database.open_new()
    assert [row.app_name for row in lists.apps("agent", actor=SYSTEM).rows] == [APP]
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_opened_is_tried_again_once_it_changes_and_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    good = agent(tmp_path / "elsewhere").read_bytes()
    folder = tmp_path / "agents"
    broken = folder / "a" / ".adk" / "session.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no database, but some text" * 100)
    agent(folder, "b")
    registry.add(str(folder))
    assert [source.alias for source in database.open_new()] == ["b"]
    for _ in range(5):
        assert database.open_new() == []
    assert len(caplog.messages) == 1
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.0)
    database.open_new()
    assert len(caplog.messages) == 2
    broken.write_bytes(good)
    monkeypatch.setattr(database, "RETRY_SECONDS", 1e9)
    assert [source.alias for source in database.open_new()] == ["a"]


def test_a_folder_that_takes_long_is_searched_more_rarely_and_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[float] = []
    find = finding.find

    def slow(folder: Path) -> Iterator[Path]:
        searches.append(time.monotonic())
        time.sleep(0.4)
        yield from find(folder)

    registry.add(str(tmp_path))
    monkeypatch.setattr(finding, "find", slow)
    monkeypatch.setattr(registry, "RESCAN_SECONDS", 0.2)  # so the pause is 0.2 × 0.4 / 0.04 = 2 s
    threads = [threading.Thread(target=registry.listed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began = time.monotonic()
    while len(searches) < 2:
        assert time.monotonic() - began < 10
        registry.listed()
        time.sleep(0.01)
    assert 2.2 < searches[1] - searches[0] < 4


def test_aliases_stay_the_same_from_start_to_start_whatever_the_order(tmp_path: Path) -> None:
    files = [agent(tmp_path / folder, "agent") for folder in ("x", "y", "z")]
    seen = []
    for order in (files, files[::-1]):
        for file in order:
            registry.add(str(file))
        seen.append({source.where: source.alias for source in registry.listed()})
        for source in registry.listed():
            database.forget(source.alias)
        registry.identities.clear()
    assert len(set(seen[0].values())) == 3
    marked = [{where: alias for where, alias in names.items() if alias != "agent"} for names in seen]
    assert all(re.fullmatch("agent-[0-9a-f]{4}", alias) for names in marked for alias in names.values())
    # Those that carry a mark in both starts have the same one.
    both = marked[0].keys() & marked[1].keys()
    assert both
    assert all(marked[0][where] == marked[1][where] for where in both)


def test_naming_a_source_twice_is_naming_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = agent(tmp_path)
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to(file)
    for text in (str(file), "agent/.adk/session.db", f"sqlite:///{file}", str(tmp_path)):
        assert [source.alias for source in registry.add(text)] == ["agent"]
    assert len(registry.listed()) == 1


def test_a_file_called_default_does_not_take_the_place_of_adkwebs_own_database(tmp_path: Path) -> None:
    file = tmp_path / "default.db"
    file.touch()
    source = opened(str(file))
    assert source.alias.startswith("default-")
    assert connections["default"].settings_dict["NAME"] != str(file)


def test_an_unknown_source_is_not_found() -> None:
    with pytest.raises(NotFound, match="There's no source “nowhere”"):
        database.get("nowhere")


def test_an_empty_file_becomes_a_database_of_adks_but_not_when_read_only(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "new.db"
    file.touch()
    settings.READ_ONLY = True
    with pytest.raises(SourceError, match=r"new\.db is empty: no agent has written to it yet"):
        opened(str(file))
    assert file.stat().st_size == 0
    database.forget("new")
    settings.READ_ONLY = False
    assert lists.apps(opened(str(file)).alias, actor=SYSTEM).rows == []


# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg2"])
def test_every_form_of_a_postgresql_url_is_understood(
    scheme: str, new_database: Callable[[str], str], postgresql_server: PostgreSQL
) -> None:
    url = new_database("postgresql").replace("postgresql", scheme, 1)
    assert lists.apps(opened(url).alias, actor=SYSTEM).rows == []


@pytest.mark.parametrize("form", ["sqlite:///{}", "sqlite+aiosqlite:///{}"])
def test_every_form_of_a_sqlite_url_is_understood(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = agent(tmp_path, "with space and ü")
    assert [row.app_name for row in lists.apps(opened(form.format(file)).alias, actor=SYSTEM).rows] == [APP]
    database.forget("with space and ü")
    monkeypatch.chdir(tmp_path)
    relative = str(file.relative_to(tmp_path)).replace(" ", "%20")
    assert [row.app_name for row in lists.apps(opened(form.format(relative)).alias, actor=SYSTEM).rows] == [APP]


def test_special_characters_in_a_url_reach_the_server(postgresql_server: PostgreSQL) -> None:
    url = postgresql_server.create_database("Größe 1/2 %")
    assert lists.apps(opened(url).alias, actor=SYSTEM).rows == []


def test_urls_of_other_drivers_open_the_same_database(postgresql_server: PostgreSQL) -> None:
    url = postgresql_server.create_database("drivers")
    _scheme, _slashes, address = url.partition("://")
    port, name = address.rpartition(":")[2].split("/")
    opened(url)
    for form in (
        f"jdbc:postgresql://127.0.0.1:{port}/{name}?user=postgres",
        f"postgresql:///{name}?host=127.0.0.1&port={port}&user=postgres",
        f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/{name}",
        f"postgresql+asyncpg://{address}?ssl=disable&prepared_statement_cache_size=0",
        f"postgresql://{address}?schema=public&pgbouncer=true",
    ):
        for source in registry.listed():
            database.forget(source.alias)
        assert lists.apps(opened(form).alias, actor=SYSTEM).rows == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ana@%2Fno%2Fsuch%2Ffolder/shop", "no server has a socket in this folder"),
        ("postgresql://?service=no-such-service", "this service is neither in ~/.pg_service.conf nor in PGSERVICEFILE"),
    ],
)
def test_a_mistake_in_an_address_is_not_called_a_lost_connection(url: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as refused:
        opened(url)
    assert "lost" not in refused.value.message


@pytest.mark.guarantee(
    "Writing", "With `--read-only`, or an address that asks for reading only, adkweb writes nothing."
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("form", ["sqlite:///{}?mode=ro", "file:{}?mode=ro", "sqlite+aiosqlite:///{}?immutable=1"])
def test_a_file_that_is_named_for_reading_only_is_not_written_to(form: str, tmp_path: Path, actor: Actor) -> None:
    file = agent(tmp_path)
    before = file.read_bytes()
    source = opened(form.format(file))
    ((row,), *_pages) = [lists.sessions(source.alias, APP, actor=SYSTEM).rows]
    assert not database.may_write(source.alias)
    for write in (
        lambda: append_event(row.ref, {"author": "user", "invocation_id": "i"}, actor=actor),
        lambda: create_session(source.alias, APP, USER, actor=actor),
        lambda: actor.check_may("append", source.alias, APP),
        lambda: adopt_job.start(source.alias, actor),
    ):
        with pytest.raises(NotAllowed, match="was opened read-only"):
            write()
    with suppress(NotAllowed):
        database.open_source(source, adopting=True)
    assert file.read_bytes() == before
    assert actor.may_write("append", "another", APP)
    database.forget(source.alias)
    assert database.may_write(opened(str(file)).alias)


@contextmanager
def nobody() -> Iterator[None]:
    """Does something as a user who may only read."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder that only its owner may write to, with a file with a write-ahead log that nobody has open."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    file = folder / "prod.db"
    shutil.copy(agent(folder / "made"), file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    file.chmod(0o644)
    folder.chmod(0o555)
    yield file
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("form", ["sqlite:///{}?mode=ro", "--read-only"])
def test_a_file_with_a_log_that_rests_on_a_read_only_volume_is_shown(
    form: str, volume: Path, settings: Settings
) -> None:
    settings.READ_ONLY = form == "--read-only"
    with nobody():
        source = opened(str(volume) if settings.READ_ONLY else form.format(volume))
        assert [row.app_name for row in lists.apps(source.alias, actor=SYSTEM).rows] == [APP]
        connections[source.alias].close()
    # On the machine that the volume comes from, an agent goes on writing; its log appears, and is read.
    with closing(sqlite3.connect(volume)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO sessions SELECT 'later', user_id, id, state, create_time, update_time FROM sessions")
        db.commit()
        for name in ("-wal", "-shm"):
            Path(f"{volume}{name}").chmod(0o644)
        with nobody():
            assert [row.app_name for row in lists.apps(source.alias, actor=SYSTEM).rows] == [APP, "later"]
            connections[source.alias].close()
    with nobody():  # and it rests again, with another content
        assert [row.app_name for row in lists.apps(source.alias, actor=SYSTEM).rows] == [APP, "later"]
        connections[source.alias].close()


@pytest.mark.django_db(transaction=True)
def test_a_file_that_somebody_holds_locked_is_shown_and_adopted_when_it_can_be(
    tmp_path: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "BUSY_SECONDS", 0.1)
    file = agent(tmp_path)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        source = opened(str(file))
        (row,) = lists.sessions(source.alias, APP, actor=SYSTEM).rows
        assert not database.is_adopted(source.alias)
        with pytest.raises(SourceError, match="another program has locked the file"):
            append_event(row.ref, {"author": "user", "invocation_id": "i"}, actor=actor)
        other.execute("ROLLBACK")
    append_event(row.ref, {"author": "user", "invocation_id": "i"}, actor=actor)
    assert database.may_write(source.alias)


def test_a_file_that_was_locked_when_it_was_opened_is_adopted_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "BUSY_SECONDS", 0.1)
    file = agent(tmp_path)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        source = opened(str(file))
        other.execute("ROLLBACK")
    adopt_job.go_on()
    adopt_job.wait(source.alias, lambda progress: None)
    assert database.is_adopted(source.alias)


def test_of_two_names_of_a_file_the_one_for_reading_only_counts(tmp_path: Path) -> None:
    file = agent(tmp_path)
    assert database.may_write(opened(str(file)).alias)
    (source,) = registry.add(f"sqlite:///{file}?mode=ro")
    assert lists.apps(source.alias, actor=SYSTEM).rows
    assert not database.may_write(source.alias)
    registry.add(str(file))
    assert not database.may_write(source.alias)
    connections[source.alias].ensure_connection()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connections[source.alias].connection.execute("DELETE FROM sessions")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:s3cret@127.0.0.1:1/agents",
        "postgresql+asyncpg://ana:s3cret@127.0.0.1:1/agents?connect_timeout=1",
        "postgresql://ana:s3c%40ret@127.0.0.1:1/agents",
        "postgresql://127.0.0.1:1/agents?user=ana&password=s3cret",
        "postgresql://ana:s3cret@127.0.0.1:port/agents",
        "mysql://ana:s3cret@127.0.0.1/agents",
    ],
)
def test_a_password_is_never_shown(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError) as refused:
        opened(url)
    shown = [refused.value.message, repr(refused.value), caplog.text, *map(repr, registry.listed())]
    assert not any("s3c" in text for text in shown)


@pytest.mark.parametrize("url", ["mysql://ana@host/agents", "http://host/", "redis://host"])
def test_another_kind_of_url_is_refused_by_name(url: str) -> None:
    scheme = url.partition(":")[0]
    with pytest.raises(SourceError, match=f"{scheme}:// isn't supported: a source is a folder, a SQLite file or"):
        registry.add(url)


def test_a_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(SourceError, match=r"postgresql://ana@host:abc/agents: the port isn't a number"):
        registry.add("postgresql://ana@host:abc/agents")


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
    with pytest.raises(SourceError, match="the server refused this user and password") as refused:
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
    with pytest.raises(SourceError, match=r"no server is listening there\. adkweb retries with every request"):
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


@pytest.mark.guarantee("Databases and files", "A source that does not answer does not hold up the others.")
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
        with pytest.raises(SourceError, match="the server isn't answering in time"):
            database.open_source(slow)


# --- Making and reading -----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "text",
    ["postgresql://", "postgresql://[bad", "postgresql://user:secret@host/", "sqlite://", "sqlite:///no-such.db"],
)
def test_a_url_that_names_nothing_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        registry.add(text)
    assert "secret" not in caught.value.message
