"""An agent's side of a database: google-adk's service, before or after adkweb opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.adk.services import Adk


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
