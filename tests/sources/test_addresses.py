"""Sources from addresses, as agents and other drivers write them; read-only ones, and passwords, which nobody sees."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotAllowed, SourceError
from sessions_app.reads import lists
from sessions_app.sources import adopt_job, database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER
from tests.servers import NOBODY, PostgreSQL
from tests.sources.agents import agent, opened

pytestmark = pytest.mark.usefixtures("nothing_else_listed")


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
        ("postgresql://ana@%2Fno%2Fsuch%2Ffolder/shop", "there's no server socket in this folder"),
        ("postgresql://?service=no-such-service", "this service isn't defined in ~/.pg_service.conf or PGSERVICEFILE"),
    ],
)
def test_a_mistake_in_an_address_is_not_called_a_lost_connection(url: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as refused:
        opened(url)
    assert "lost" not in refused.value.message


@pytest.mark.guarantee("Writing", "With `--read-only` or a read-only source URL, adkweb doesn't write anything.")
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
    adopt_job.wait(source.alias)
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


@pytest.mark.parametrize(
    "text",
    ["postgresql://", "postgresql://[bad", "postgresql://user:secret@host/", "sqlite://", "sqlite:///no-such.db"],
)
def test_a_url_that_names_nothing_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        registry.add(text)
    assert "secret" not in caught.value.message
