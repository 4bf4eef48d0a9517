"""An agent's database that appears is opened before anybody looks, and an open home hears of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from tests.adk.services import APP, USER, Adk
from tests.browser.serving import Adkweb
from tests.live.pages import FEED, Page, browser, sign_in
from tests.support.at_work import until


@pytest.fixture(autouse=True)
def _unblocked(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """People are signed in beside their server."""
    with django_db_blocker.unblock():
        yield


def initial_states(file: Path) -> list[Any] | None:
    """What is kept of them; None where the database is not adopted."""
    with closing(sqlite3.connect(file)) as db:
        try:
            return [row[0] for row in db.execute("SELECT initial_state FROM sessions ORDER BY create_time")]
        except sqlite3.OperationalError:
            return None


def new_agent(folder: Path, name: str) -> tuple[Path, Adk]:
    """The first run of an agent makes its database; no session yet."""
    file = folder / name / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    adk = Adk("sqlite", str(file))
    adk.run(adk.service.list_sessions(app_name=APP))
    assert initial_states(file) is None
    return file, adk


def test_time_travel_begins_with_a_new_agents_first_session(tmp_path: Path, new_server: Callable[..., Adkweb]) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    server = new_server(str(folder))
    for name in ("first", "second"):  # nobody has looked yet; and once more
        file, adk = new_agent(folder, name)
        until(lambda file=file: initial_states(file) == [], "adopted")  # type: ignore[misc]
        adk.append(adk.create("s1", {"step": "ask"}), "hello", step="pay")
        adk.close()
        assert initial_states(file) == ['{"step": "ask"}']
        with browser(server, sign_in(server)) as me:
            shown = me.get(f"/s/{name}/{APP}/{USER}/s1/").text
        assert "step" in shown
        assert "began before adkweb" not in shown
    assert "Traceback" not in server.log
    assert "ERROR" not in server.log


def test_an_open_home_hears_of_a_source_that_appears_and_of_its_first_session(
    tmp_path: Path, new_server: Callable[..., Adkweb]
) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    server = new_server(str(folder))
    me = sign_in(server)
    page = Page(server, me, FEED, after=None)
    try:
        page.until(lambda page: page.parts.get("sources"), "home")
        seen = [page.parts["sources"]]
        _file, adk = new_agent(folder, "booking")
        page.until(lambda page: page.parts["sources"] not in seen, "a source")
        seen.append(page.parts["sources"])
        adk.create("s1", {"step": "ask"})
        page.until(lambda page: page.parts["sources"] not in seen, "its first session")
        seen.append(page.parts["sources"])
        with browser(server, me) as client:
            assert f'data-sources="{seen[-1]}"' in client.get("/").text
        adk.append(adk.get("s1"), "hello")
        page.until(lambda page: "hello" in page.parts.get("feed", ""), "the event")
        assert page.parts["sources"] == seen[-1]  # nothing to ask for
        adk.close()
    finally:
        page.close()


def test_read_only_opens_what_appears_and_leaves_it_as_it_is(tmp_path: Path, new_server: Callable[..., Adkweb]) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    server = new_server(str(folder), ADKWEB_READ_ONLY="true")
    page = Page(server, sign_in(server), FEED, after=None)
    try:
        page.until(lambda page: page.parts.get("sources"), "home")
        before = page.parts["sources"]
        file, adk = new_agent(folder, "booking")
        adk.append(adk.create("s1", {"step": "ask"}), "hello")
        adk.close()
        as_it_was = file.read_bytes()
        page.until(lambda page: page.parts["sources"] != before, "the source")
        until(lambda: '"event": "opened ' in server.log, "opened")
        assert file.read_bytes() == as_it_was
        assert initial_states(file) is None
    finally:
        page.close()
