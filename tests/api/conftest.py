"""Programs, their tokens, and what they ask about."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from django.db import connections

from sessions_app.access import tokens
from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.support import bulk
from tests.support.people import as_admin
from tests.support.stored import execute

APP = "booking"
_numbers = itertools.count()


@pytest.fixture
def new_token(db: None) -> Callable[..., str]:
    """Makes a token of a permission, for the apps that match a pattern; its text."""

    def make(permission: str = "admin", apps: str = "*", name: str = "") -> str:
        return tokens.create(name or f"{permission} {next(_numbers)}", permission, apps, by=as_admin("maria"))[1]

    return make


@pytest.fixture
def program(new_token: Callable[..., str]) -> Program:
    """A program that may do everything."""
    return Program(new_token(name="program"))


@pytest.fixture
def appender(new_token: Callable[..., str]) -> Program:
    """A program that may read and append."""
    return Program(new_token("append"))


@pytest.fixture
def reader(new_token: Callable[..., str]) -> Program:
    """A program that may read."""
    return Program(new_token("read"))


@pytest.fixture
def guest(db: None) -> Program:
    """A program without a token."""
    return Program()


@pytest.fixture
def store(new_store: Callable[..., str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source."""
    return open_source(new_store("sqlite", "store"))


@pytest.fixture
def other_store(new_store: Callable[..., str], open_source: Callable[[str], str]) -> str:
    """Another empty SQLite source."""
    return open_source(new_store("sqlite", "other"))


STATE = {"step": "choose", "nothing": None, "user:tier": "gold", "app:limit": 10}


@pytest.fixture
def ref(store: str, actor: Actor) -> SessionRef:
    """A session with state in every scope, in a SQLite source."""
    return create_session(store, APP, "ana", session_id="s1", state=STATE, actor=actor)


@pytest.fixture
def each_ref(source: str, actor: Actor) -> SessionRef:
    """The same in a source of each format."""
    return create_session(source, APP, "ana", session_id="s1", state=STATE, actor=actor)


@pytest.fixture
def add(actor: Actor) -> Callable[..., str]:
    """Appends an event as an agent would; its id."""

    def append(ref: SessionRef, text: str = "hello", **event: object) -> str:
        said = {"author": "agent", "invocation_id": "i1", "content": {"role": "model", "parts": [{"text": text}]}}
        return str(append_event(ref, {**said, **event}, actor=actor).event["id"])

    return append


def fill(ref: SessionRef, count: int) -> None:
    """As bulk.fill, in any format."""
    bulk.fill(ref, count)
    connection = connections[ref.source]
    if connection.vendor == "sqlite" and not connection.settings_dict["ADKWEB"]["real_times"]:
        moment = "strftime('%%Y-%%m-%%d %%H:%%M:%%S.000000', timestamp, 'unixepoch')"
        execute(ref.source, f"UPDATE events SET timestamp = {moment} WHERE typeof(timestamp) <> 'text'")
