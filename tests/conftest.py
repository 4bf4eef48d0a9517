"""Defines fixtures:

sources on real databases, people, and the session that many tests begin with. Sets hypothesis up.
"""

import functools
import gc
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from django.core.management import call_command
from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connection, connections
from django.test.utils import setup_databases, teardown_databases
from django.utils import translation
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from sessions_app.access import approval, masking, roles, tokens
from sessions_app.access.actor import Actor
from sessions_app.agent_view import conversation
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history.index import build
from sessions_app.sources import adoption, database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests import parts
from tests.groups import Groups, turn_of
from tests.servers import PostgreSQL
from tests.support import warm
from tests.support.booking import APP, START
from tests.support.own import own_database, tables

# Tests write to memory if there is enough: commits need not wait for a disk, and nobody needs the files afterwards.
with suppress(OSError):
    if "TMPDIR" not in os.environ and shutil.disk_usage("/dev/shm").free > 4 << 30:
        os.environ["TMPDIR"] = tempfile.tempdir = "/dev/shm"

# Python's collector looks through new objects after 20,000 instead of 700, and never through what is there to stay.
gc.set_threshold(20_000)


def pytest_collection_finish() -> None:
    """Keeps modules and tests from being looked through again and again."""
    gc.freeze()


# All examples of a test share a source; each example makes its own session.
_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=8, **_COMMON)
settings.register_profile("long", max_examples=300, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    """Gives workers whole groups of tests, in the order in which they were collected instead of the largest first."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests with their part of `make test-long`. Puts the tests of long groups first, if this is a worker."""
    parts.assign(items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn_of(item.nodeid))


def _copy_tables(command: str, **options: Any) -> None:
    """Copies adkweb's own tables into the tests' database, which is in memory, where Django would run all migrations."""
    if connection.vendor != "sqlite":
        call_command(command, **options)
    elif command == "migrate":
        connection.ensure_connection()
        with closing(sqlite3.connect(f"{tables().as_uri()}?mode=ro&immutable=1", uri=True)) as kept:
            kept.backup(connection.connection)


# What Django writes anew after a test that commits, in 20 ms. No test changes it.
_KEPT: Final = ("auth_permission", "django_content_type")


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_modify_db_settings: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Makes the tests' database, and lets pytest-django empty it after a test, the audit with it.

    pytest-django itself makes none if no test of a run is marked with django_db: those of tests/writes, alone."""
    with django_db_blocker.unblock():
        with mock.patch("django.core.management.call_command", _copy_tables):
            made = setup_databases(verbosity=0, interactive=False)
        with connection.cursor() as cursor:
            for act in ("update", "delete", "insert"):
                cursor.execute(f"DROP TRIGGER IF EXISTS audit_refuses_{act}")
        tables_of_models = connection.introspection.django_table_names(only_existing=True, include_views=False)
        emptying = connection.ops.sql_flush(no_style(), [name for name in tables_of_models if name not in _KEPT])
    with mock.patch.multiple(flush, sql_flush=lambda *_, **__: emptying, emit_post_migrate_signal=mock.DEFAULT):
        yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """Makes every test look up who may do what: rows of an earlier test had the same numbers."""
    roles.known.clear()
    approval.known.clear()
    tokens.known.clear()
    masking.forget()


@pytest.fixture(autouse=True)
def _english() -> Iterator[None]:
    """Makes every test begin in English, whatever language an earlier test has set."""
    with translation.override("en"):
        yield


@pytest.fixture(autouse=True)
def _patient() -> Iterator[None]:
    """Makes tests wait for the index, however busy the machine is. A test of impatience sets its own time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "SECONDS", 30.0)
        patch.setattr(conversation, "TIMELINE_SECONDS", 60.0)
        yield


FORMATS = ("sqlite", "sqlite-database", "postgresql")  # SqliteSessionService; DatabaseSessionService on both databases
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    """Starts a PostgreSQL server for this test process."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture(scope="session")
def blank() -> Path:
    """Returns a file with adkweb's own tables, which are empty, to be copied."""
    return tables()


@pytest.fixture(scope="session")
def _blank_on_server(postgresql_server: PostgreSQL, django_db_blocker: DjangoDbBlocker) -> str:
    """Makes adkweb's own tables on PostgreSQL, to be copied. Returns the name of their database."""
    with django_db_blocker.unblock(), own_database(postgresql_server.create_database("own")):
        call_command("migrate", verbosity=0, interactive=False)
    return "own"


@pytest.fixture
def own(
    request: pytest.FixtureRequest, tmp_path: Path, blank: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """Makes adkweb's own database: in a file, or on PostgreSQL if the test asks for that. Yields its URL."""
    with django_db_blocker.unblock():
        if getattr(request, "param", "sqlite") == "postgresql":
            url = request.getfixturevalue("new_database")("postgresql", request.getfixturevalue("_blank_on_server"))
        else:
            url = f"sqlite:///{shutil.copy(blank, tmp_path / 'adkweb-own.db')}"
        with own_database(url):
            yield url


@pytest.fixture
def _on_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes a database on the PostgreSQL of this process, and drops it after the test: a thousand would take 10 GB."""
    made: list[tuple[PostgreSQL, str]] = []

    def make(name: str, template: str = "template1") -> str:
        made.append((request.getfixturevalue("postgresql_server"), name))
        server, _ = made[-1]
        return server.create_database(name, template)

    yield make
    for server, name in made:
        server.drop_database(name)


@pytest.fixture
def new_database(_on_server: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Makes an empty database of a format, or a copy on PostgreSQL. Returns its path or URL."""

    def make(form: str, template: str = "template1") -> str:
        name = f"test{next(_numbers)}"
        if form == "postgresql":
            return _on_server(name, template)
        path = tmp_path / f"{name}.db"
        path.touch()
        return str(path)

    return make


@pytest.fixture(scope="session")
def _adopted(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Callable[..., str]:
    """Makes an empty, adopted database for each format and server. Copying it takes a tenth of the time of adopting."""

    @functools.cache
    def adopted(form: str, server: PostgreSQL | None) -> str:
        if server:
            place = server.create_database("adopted")
        else:
            path = tmp_path_factory.mktemp("adopted") / f"{form}.db"
            path.touch()
            place = str(path)
        with django_db_blocker.unblock():
            (source,) = registry.add(place)
            if form == "sqlite-database":
                adoption.create(source.alias, "database")
            database.open_source(source, adopting=True)
            with connections[source.alias].cursor() as cursor:
                cursor.execute("DELETE FROM adkweb_source")  # its copies are sources of their own
            database.forget(source.alias)
        return place

    return adopted


@pytest.fixture
def new_store(
    request: pytest.FixtureRequest, _on_server: Callable[..., str], tmp_path: Path, _adopted: Callable[..., str]
) -> Callable[..., str]:
    """Makes an empty, adopted database of a format, with a name if one is given. Returns its path or URL."""

    def make(form: str, name: str = "") -> str:
        name = name or f"test{next(_numbers)}"
        if form == "postgresql":
            _adopted(form, request.getfixturevalue("postgresql_server"))
            return _on_server(name, template="adopted")
        return str(shutil.copy(_adopted(form, None), tmp_path / f"{name}.db"))

    return make


@pytest.fixture
def open_source(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Callable[[str], str]]:
    """Opens a database as a source, adopts it if `adopting`, and returns its alias. After the test, it is closed."""
    opened: list[str] = []

    def add(text: str, form: str = "", *, adopting: bool = True) -> str:
        (source,) = registry.add(text)
        opened.append(source.alias)
        if form == "sqlite-database":
            adoption.create(source.alias, "database")
        database.open_source(source, adopting=adopting)
        return source.alias

    with django_db_blocker.unblock():
        yield add
        for alias in opened:
            database.forget(alias)


def formats(*in_time: str) -> list[Any]:
    """Returns the formats as parameters, of which `make test` tries those that are named, and `make test-long` all."""
    return [form if form in in_time else pytest.param(form, marks=pytest.mark.long) for form in FORMATS]


# The third, "sqlite-database", has the SQL of the first and the rows of the last: writes/ and reads/ try it each time.
@pytest.fixture(params=formats("sqlite", "postgresql"))
def form(request: pytest.FixtureRequest) -> str:
    """Returns each of the formats in which ADK keeps sessions."""
    return str(request.param)


@pytest.fixture
def source(form: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """Opens an empty, adopted source of each format."""
    return open_source(new_store(form))


@pytest.fixture
def actor() -> Actor:
    """Returns somebody who may edit."""
    return Actor.holding("maria@example.com", "admin")


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """Creates a session with state in every scope."""
    return create_session(source, APP, "ana", actor=actor, state=START, session_id="s1")


@pytest.fixture
def add(actor: Actor) -> Callable[..., str]:
    """Appends an event as an agent would, with a delta and with fields that adkweb does not know. Returns its id."""

    def append(ref: SessionRef, **delta: Any) -> str:
        named = {name.replace("__", ":"): value for name, value in delta.items()}
        event = {"author": "agent", "invocation_id": "i1", "actions": {"state_delta": named}, "x": {"y": [None, 1e22]}}
        return str(append_event(ref, event, actor=actor).event["id"])

    return append


@pytest.fixture
def forked_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks the processes of agents, which spares each two seconds of importing google-adk. test_children.py has real ones,
    and test_process.py those of replays and what-ifs."""
    warm.ready()  # which takes longer than a server of agents may take to start
    for name in warm.STARTING_AGENTS:
        monkeypatch.setattr(f"{name}.subprocess", warm.FORKING)
