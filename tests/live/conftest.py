"""adkweb as a process of its own, on a source of each format; the tests write from outside, as agents do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connections
from pytest_django import DjangoDbBlocker

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow
from sessions_app.sources import adoption, database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, Adk
from tests.browser.serving import Adkweb
from tests.live.pages import FEED, Page, sign_in
from tests.servers import PostgreSQL

_numbers = itertools.count()
WRITER = Actor.holding("another process", "admin")


@dataclass
class Stage:
    """A server, the databases that it follows, by format, and how another process reaches them."""

    server: Adkweb
    places: dict[str, str]
    aliases: dict[str, str]
    me: str = ""
    pages: list[Page] = field(default_factory=list)

    def new_session(self, form: str = "sqlite", events: int = 0, **state: Any) -> SessionRef:
        """A session that no other test knows, of a user that no other test knows."""
        number = next(_numbers)
        ref = create_session(self.aliases[form], APP, f"u{number}", session_id=f"s{number}", state=state, actor=WRITER)
        for event in range(events):
            self.append(ref, f"before {event}")
        return ref

    def append(self, ref: SessionRef, text: str = "hello", **event: Any) -> str:
        """Appends an event as a process beside adkweb does; its id."""
        content = {"role": "model", "parts": [{"text": text}]}
        said = {"author": "booking", "invocation_id": "i1", "content": content, **event}
        return str(append_event(ref, said, actor=WRITER).event["id"])

    def page(self, what: SessionRef | str, who: str = "", server: Adkweb | None = None, **options: Any) -> Page:
        """Somebody's page, closed when the test ends."""
        page = Page(server or self.server, who or self.me, what, **options)
        self.pages.append(page)
        return page

    def feed(self, who: str = "", **options: Any) -> Page:
        """Home."""
        return self.page(FEED, who, after=None, **options)

    def adk(self, form: str) -> Adk:
        """An agent's process, with google-adk's own service."""
        return Adk(form, self.places[form])


def open_stage(server: Adkweb, places: dict[str, str]) -> Stage:
    """The databases as another process opens them; the names of the sources are the same in both."""
    aliases = {}
    for form, place in places.items():
        (source,) = registry.add(place)
        if form == "sqlite-database":
            adoption.create(source.alias, "database")
        database.open_source(source)
        aliases[form] = source.alias
    return Stage(server, places, aliases)


def close_stage(stage: Stage) -> None:
    """Forgets them again."""
    for alias in stage.aliases.values():
        database.forget(alias)


@pytest.fixture(scope="package")
def new_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Adkweb]]:
    """Starts adkweb on sources; several servers share what a person has in one, who they are included."""
    started: list[Adkweb] = []

    def start(*places: str, beside: Adkweb | None = None, **variables: str) -> Adkweb:
        folder = beside.folder if beside else tmp_path_factory.mktemp("adkweb")
        (folder / "data").mkdir(exist_ok=True)
        given = {"ADKWEB_SECRET_KEY": settings.SECRET_KEY, **variables}
        started.append(Adkweb(folder, *places, **given))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="package")
def _stage(
    tmp_path_factory: pytest.TempPathFactory,
    postgresql_server: PostgreSQL,
    new_server: Callable[..., Adkweb],
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("live")
    places = {"sqlite": str(folder / "live-one.db"), "sqlite-database": str(folder / "live-two.db")}
    for place in places.values():
        Path(place).touch()
    places["postgresql"] = postgresql_server.create_database(f"live-{uuid4()}")  # each stage its own
    with django_db_blocker.unblock():
        stage = open_stage(None, places)  # type: ignore[arg-type]
        stage.server = new_server(*places.values())
        stage.me = sign_in(stage.server)
    yield stage
    with django_db_blocker.unblock():
        close_stage(stage)


@pytest.fixture
def stage(_stage: Stage, django_db_blocker: DjangoDbBlocker) -> Iterator[Stage]:
    """The server that all tests share which do it no harm; after each it must still be there, without a fault."""
    with django_db_blocker.unblock():
        before = len(_stage.server.log)
        yield _stage
        close_pages(_stage)
        AuditRow.objects.all().delete()  # what WRITER did was recorded here, beside the server, where other tests look
        assert "Traceback" not in _stage.server.log[before:], _stage.server.log[before:]


def close_pages(stage: Stage) -> None:
    """Everybody goes."""
    for page in stage.pages:
        with suppress(OSError):
            page.close()
    stage.pages.clear()
    for alias in stage.aliases.values():
        connections[alias].close()
