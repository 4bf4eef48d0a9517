"""People at their browsers, and what they look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoDbBlocker, Settings

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.people import an_admin
from tests.web.html import Element, page_of, read

ROOT: Final = Path(__file__).resolve().parents[2]
DEMO: Final = ROOT / "examples" / "demo.db"
NAME: Final = "maria"


def names_of(ref: SessionRef, count: int) -> dict[str, Any]:
    """The names that an address takes: 2 for an app's, 3 for a user's, 4 for a session's."""
    return dict(list(ref._asdict().items())[:count])


class Browser(Client):
    """Django's test client, which refuses a page that no browser should be given: each answer is looked through."""

    def request(self, **request: Any) -> Any:
        """The answer, checked."""
        response = super().request(**request)
        if 300 <= response.status_code < 400 or not (response.streaming or response.content):
            return response
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy, policy
        assert "unsafe" not in policy, policy
        assert "*" not in policy, policy
        assert response["X-Frame-Options"] == "DENY"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "private" in response["Cache-Control"], response.headers
        if not response.streaming and response["Content-Type"].startswith("text/html"):
            _page, problems = read(response.content.decode())
            assert problems == []
        return response

    def open(self, name: str, /, *, status: int = 200, htmx: bool = False, **names: Any) -> Element:
        """A page of adkweb's by its name in urls.py or its address; `query` is what follows the question mark.

        "chat" and "trace" are the session in that density."""
        query = names.pop("query", None)
        if name in ("chat", "trace") and not htmx:
            name, query = "session", {"density": name, **(query or {})}
        address = name if name.startswith("/") else reverse(name, kwargs=names)
        response = self.get(address, query, headers={"HX-Request": "true"} if htmx else {})
        assert response.status_code == status, response.content.decode()
        return page_of(response)

    def send(self, name: str, data: Mapping[str, Any], /, *, htmx: bool = False, **names: Any) -> Any:
        """The answer to a form that is sent."""
        address = name if name.startswith("/") else reverse(name, kwargs=names)
        return self.post(address, data, headers={"HX-Request": "true"} if htmx else {})


@pytest.fixture
def person(db: None) -> User:
    """Somebody who has an account, without a password."""
    found: User = an_admin(NAME)
    return found


@pytest.fixture
def guest(db: None) -> Browser:
    """Somebody who did not sign in."""
    return Browser()


@pytest.fixture
def maria(person: User) -> Browser:
    """Somebody who signed in."""
    signed_in = Browser()
    signed_in.force_login(person)
    return signed_in


@pytest.fixture
def demo(tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """The recorded demo."""
    return open_source(str(shutil.copy(DEMO, tmp_path / "demo.db")))


@pytest.fixture
def store(new_store: Callable[..., str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source."""
    return open_source(new_store("sqlite", "store"))


@pytest.fixture
def ref(store: str, actor: Actor) -> SessionRef:
    """A session with state in every scope."""
    state = {"step": "choose", "count": 3, "nothing": None, "user:tier": "gold", "app:limit": 10}
    return create_session(store, "booking", "ana", session_id="s1", state=state, actor=actor)


@pytest.fixture
def add(actor: Actor) -> Callable[..., str]:
    """Appends an event as an agent would; its id."""

    def append(ref: SessionRef, *parts: dict[str, Any], **event: Any) -> str:
        if parts:
            event["content"] = {"role": "model", "parts": list(parts)}
        event = {"author": "agent", "invocation_id": "i1", **event}
        return str(append_event(ref, event, actor=actor, origin="person").event["id"])

    return append


@pytest.fixture
def named(django_db_blocker: DjangoDbBlocker) -> Iterator[Callable[[Path], object]]:
    """Names a file or folder to adkweb, which opens what it finds there when it is looked at."""
    before = {source.alias for source in registry.listed()}
    folders = list(registry.searched_folders)
    with django_db_blocker.unblock():
        yield lambda path: registry.add(str(path))
        registry.searched_folders[:] = folders
        for source in registry.listed():
            if source.alias not in before:
                database.forget(source.alias)


@pytest.fixture
def folder(tmp_path: Path, named: Callable[[Path], object]) -> Path:
    """A folder that adkweb searches for databases; it has none yet."""
    path = tmp_path / "agents"
    path.mkdir()
    named(path)
    return path


@pytest.fixture
def read_only(settings: Settings) -> None:
    """adkweb as `--read-only` starts it."""
    settings.READ_ONLY = True
