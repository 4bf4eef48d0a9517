"""A registry without other sources, and a server that a test may stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.sources import database, registry
from tests.servers import PostgreSQL


@pytest.fixture
def nothing_else_listed(django_db_blocker: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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
