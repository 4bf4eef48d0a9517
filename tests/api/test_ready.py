"""`/health` says that adkweb is alive, `/ready` that it can work; strangers learn no more than that."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings

from sessions_app.access import tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import NotAllowed
from sessions_app.sources import adoption, database, health, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.servers import NOBODY, PostgreSQL
from tests.support.own import own_database
from tests.support.people import as_admin, somebody

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _unseen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing has been looked at, and each question is a new look, which is waited for."""
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 10.0)
    health.forget()
    yield
    health.forget()


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str], str]:
    """Names a file as a source that cannot be opened; its alias."""

    def name(content: str) -> str:
        path = tmp_path / f"{content}.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"CREATE TABLE {content} (x)")
        (source,) = registry.add(str(path))
        return source.alias

    return name


@pytest.fixture(autouse=True)
def _forget_sources() -> Iterator[None]:
    before = {source.alias for source in registry.listed()}
    yield
    for source in registry.listed():
        if source.alias not in before:
            database.forget(source.alias)


def settle() -> None:
    """Waits for the looks that are under way: the next test has other databases."""
    for thread in threading.enumerate():
        if thread.name == "adkweb-ready":
            thread.join(10)
            assert not thread.is_alive()


def token(permission: str = "admin", apps: str = "*") -> dict[str, str]:
    _token, text = tokens.create(f"{permission} {next(_numbers)}", permission, apps, by=as_admin("maria"))
    return {"Authorization": f"Bearer {text}"}


def ask(headers: dict[str, str] | None = None, client: Client | None = None) -> tuple[int, dict[str, Any]]:
    """The status, and what is answer beside what every problem has."""
    answer = (client or Client()).get("/ready", headers=headers or {})
    assert answer["Cache-Control"] == "no-store"
    usual = ("type", "title", "status", "detail", "request_id")
    return answer.status_code, {name: value for name, value in answer.json().items() if name not in usual}


# --- Ready ------------------------------------------------------------------------------------------------------------


@on_both_of_adkwebs_own
def test_ready_with_every_kind_of_source(own: str, source: str) -> None:
    assert ask() == (200, {"state": "ready"})
    assert ask(token()) == (
        200,
        {"state": "ready", "own": {"lacks": []}, "sources": [{"source": source, "lacks": []}]},
    )


def test_ready_without_any_source() -> None:
    assert ask(token()) == (200, {"state": "ready", "own": {"lacks": []}, "sources": []})


def test_a_source_that_is_only_shown_lacks_writing_and_is_no_reason_to_be_impaired(
    source: str, settings: Settings
) -> None:
    settings.READ_ONLY = True
    status, answer = ask(token())
    assert (status, answer["state"]) == (200, "ready")
    assert answer["sources"][0]["lacks"] == ["writable"]


def test_a_database_that_is_not_adopted_says_so(
    new_database: Callable[..., str], open_source: Callable[..., str]
) -> None:
    url = new_database("postgresql")
    (source,) = registry.add(url)
    adoption.create(source.alias, "database")
    open_source(url, adopting=False)
    status, answer = ask(token())
    assert (status, answer["state"]) == (200, "ready")
    assert answer["sources"][0]["lacks"] == ["writable"]
    assert "adkweb adopt" in answer["sources"][0]["why"]


def test_a_standby_that_was_to_be_written_impairs_and_a_write_says_so(open_source: Callable[..., str]) -> None:
    with PostgreSQL() as server:
        url = server.create_database("sessions")
        alias = open_source(url)
        ref = create_session(alias, "booking", "ana", actor=SYSTEM)
        database.forget(alias)
        server.stop()
        assert server.directory
        signal = server.directory / "data" / "standby.signal"
        signal.touch()
        shutil.chown(signal, *([NOBODY, NOBODY] if os.geteuid() == 0 else [os.geteuid()]))
        server.start()
        open_source(url, adopting=False)
        status, answer = ask(token())
        assert (status, answer["state"], answer["sources"][0]["lacks"]) == (200, "impaired", ["writable"])
        assert "this server is a read-only standby" in answer["sources"][0]["why"]
        with pytest.raises(NotAllowed, match="is a read-only standby"):
            append_event(ref, {"author": "user", "invocation_id": "i"}, actor=SYSTEM)
        database.forget(alias)


# --- Not ready --------------------------------------------------------------------------------------------------------


def test_one_source_of_several_that_cannot_be_read_impairs(
    new_store: Callable[..., str], open_source: Callable[[str], str], broken: Callable[[str], str]
) -> None:
    open_source(new_store("sqlite", "fine"))
    broken("recipes")
    assert ask() == (200, {"state": "impaired"})
    status, answer = ask(token())
    states = {each["source"]: each["lacks"] for each in answer["sources"]}
    assert (status, states) == (200, {"fine": [], "recipes": ["schema"]})


def test_not_ready_if_no_source_can_be_read(broken: Callable[[str], str]) -> None:
    broken("recipes")
    assert ask() == (503, {"state": "not ready"})
    status, answer = ask(token())
    assert (status, answer["sources"][0]["lacks"]) == (503, ["schema"])
    assert "This isn't an ADK database" in answer["sources"][0]["why"]


def test_a_file_that_is_gone_is_not_reachable(new_store: Callable[..., str], open_source: Callable[[str], str]) -> None:
    path = new_store("sqlite", "gone")
    open_source(path)
    Path(path).unlink()
    assert ask(token())[1]["sources"][0]["lacks"] == ["reachable"]


def test_a_server_that_stops_is_noticed_and_again_when_it_is_back(open_source: Callable[..., str]) -> None:
    with PostgreSQL() as server:
        open_source(server.create_database("prod"))
        assert ask()[0] == 200
        server.stop()
        status, answer = ask(token())
        assert (status, answer["sources"][0]["lacks"]) == (503, ["reachable"])
        server.start()
        assert ask(token())[1]["sources"] == [{"source": "prod", "lacks": []}]


@on_both_of_adkwebs_own
def test_not_ready_if_adkwebs_own_database_lacks_migrations(own: str) -> None:
    MigrationRecorder(connections["default"]).migration_qs.filter(app="sessions_app").latest("id").delete()
    assert ask() == (503, {"state": "not ready"})
    own_state = ask(token())[1].get("own", {"lacks": ["schema"]})
    assert own_state["lacks"] == ["schema"]


def test_not_ready_if_adkwebs_own_database_does_not_answer(postgresql_server: PostgreSQL) -> None:
    with own_database(postgresql_server.url("there_is_none")):
        assert ask() == (503, {"state": "not ready"})
        assert ask({"Authorization": "Bearer adkweb_x"}) == (503, {"state": "not ready"})


# --- Who learns what --------------------------------------------------------------------------------------------------


def test_only_who_sees_every_app_of_a_source_learns_of_it_and_only_an_admin_the_reasons(
    broken: Callable[[str], str],
) -> None:
    broken("recipes")
    assert "sources" not in ask({"Authorization": "Bearer adkweb_unknown"})[1]
    assert ask(token("read", "booking"))[1]["sources"] == []
    assert ask(token("read"))[1]["sources"] == [{"source": "recipes", "lacks": ["schema"]}]
    assert "why" in ask(token("admin"))[1]["sources"][0]


def test_a_browser_that_is_signed_in_is_told_what_its_person_may_know(source: str) -> None:
    browser = Client()
    browser.force_login(somebody("ana", "viewer"))
    assert ask(client=browser)[1]["sources"] == [{"source": source, "lacks": []}]


@pytest.mark.parametrize("address", ["/health", "/ready"])
def test_a_probe_from_elsewhere_is_answered_before_there_is_an_account(address: str) -> None:
    elsewhere = Client(REMOTE_ADDR="10.1.2.3")
    assert elsewhere.get(address).status_code == 200
    assert elsewhere.get("/api/apps").status_code == 403
    assert elsewhere.post(address).status_code == 405


def test_the_first_look_is_waited_for(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.0)
    assert ask()[0] == 200
    settle()


# --- Quickly ----------------------------------------------------------------------------------------------------------


def test_a_look_that_takes_long_delays_no_answer_and_what_was_seen_is_told_meanwhile(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask()[0] == 200
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.03)
    using = database.using

    ended = threading.Event()

    def slow(alias: str) -> Any:
        ended.wait(30)
        return using(alias)

    monkeypatch.setattr(database, "using", slow)
    try:
        assert ask()[0] == 200
        monkeypatch.setattr(health, "SILENT_SECONDS", 0.2)
        time.sleep(0.3)
        assert ask()[0] == 503
    finally:
        ended.set()
        settle()
