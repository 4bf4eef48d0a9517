"""Agents that answer from a script, in a folder of their own, and adkweb's children for them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from sessions_app.running import children
from tests.support.own import migrated, own_database


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of agents for the tests of a module."""
    return Path(shutil.copytree(Path(__file__).parent / "agents", tmp_path_factory.mktemp("running") / "agents"))


@pytest.fixture
def source(
    request: pytest.FixtureRequest,
    own: str,
    agents: Path,
    settings: Any,
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
    forked_agents: None,
) -> str:
    """A source whose agents may be started."""
    alias = open_source(new_store(getattr(request, "param", "sqlite")))
    settings.AGENTS, settings.RUN_AGENTS = {alias: str(agents)}, True
    return alias


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    """Ends all children after the tests of a module."""
    yield
    children.stop_all(4)


@pytest.fixture(scope="module")
def own_of_module(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Makes adkweb's own database for the tests of a module, which find each other's child there."""
    path = migrated(tmp_path_factory.mktemp("own") / "adkweb.db")
    with django_db_blocker.unblock(), own_database(f"sqlite:///{path}"):
        yield
