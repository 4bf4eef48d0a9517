"""An agent's side of a database: google-adk's service, before or after adkweb opens it; and our own two."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from sessions_app.adk import DjangoSessionService, HttpSessionService
from sessions_app.adk.base import StoredSessionService
from tests.adk.services import Adk
from tests.adk.serving import Serving, token
from tests.conftest import FORMATS

# Of HttpSessionService's, it is adkweb that knows the formats. `make test` tries each service and each database once.
OURS = [*(("django", form) for form in FORMATS), ("http", "sqlite"), ("http", "postgresql")]
IN_TIME = [("django", "sqlite"), ("http", "postgresql")]


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Whoever asks for `ours` is run on both of our services."""
    if "ours" in metafunc.fixturenames:
        given = [pytest.param(*each, marks=[] if each in IN_TIME else pytest.mark.long) for each in OURS]
        both = pytest.mark.parametrize(("ours", "form"), given, indirect=True, ids=["-".join(each) for each in OURS])
        metafunc.definition.add_marker(both)


@pytest.fixture(scope="session")
def serving(django_db_setup: None, django_db_blocker: Any) -> Iterator[Serving]:
    """adkweb, which answers over HTTP for the sources of this process."""
    # A run without any test of adkweb's own tables has none yet; its processes share the file in which they are.
    with django_db_blocker.unblock(), (Path(os.environ["ADKWEB_DATA_DIR"]) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        call_command("migrate", verbosity=0)
    server = Serving().start()
    yield server
    server.stop()


@pytest.fixture
def new_token(serving: Serving, django_db_blocker: Any) -> Iterator[Callable[..., str]]:
    """Makes tokens of a permission, for apps."""
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        yield lambda *how: stack.enter_context(token(*how))


@pytest.fixture
def over_http(serving: Serving, new_token: Callable[..., str]) -> Callable[..., HttpSessionService]:
    """Makes services that ask that adkweb for a source."""
    secret = new_token()
    return lambda source, **how: HttpSessionService(serving.url, token=secret, source=source, **how)


@pytest.fixture
def ours(request: pytest.FixtureRequest) -> Callable[..., StoredSessionService]:
    """Makes one of our services on a source."""
    return request.getfixturevalue("over_http") if request.param == "http" else DjangoSessionService


@pytest.fixture
def place(form: str, new_database: Callable[[str], str]) -> str:
    """A database that neither adkweb nor ADK has written to."""
    return new_database(form)


@pytest.fixture
def connect(form: str, place: str) -> Iterator[Callable[[], Adk]]:
    """Starts services on that database, each as if in a process of its own."""
    started: list[Adk] = []

    def start() -> Adk:
        started.append(Adk(form, place))
        return started[-1]

    yield start
    for adk in started:
        adk.close()


@pytest.fixture
def adk(connect: Callable[[], Adk]) -> Adk:
    """One such service."""
    return connect()


@pytest.fixture
def adopt(form: str, place: str, open_source: Callable[[str, str], str]) -> Callable[[], str]:
    """Opens the database in adkweb, whatever is there by now."""
    return lambda: open_source(place, "")


@pytest.fixture
def create(form: str, place: str, open_source: Callable[[str, str], str]) -> Callable[[], str]:
    """Creates ADK's tables with adkweb, in the form of the service under test."""
    return lambda: open_source(place, form)
