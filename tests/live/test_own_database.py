"""adkweb's own database is locked by another process: whoever needs it is told to come back, and may."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
from pytest_django import DjangoDbBlocker

from sessions_app.access import tokens
from sessions_app.domain.session_ref import SessionRef
from tests.browser.serving import Adkweb
from tests.browser.watching import insert
from tests.live.pages import Own, browser, page_path, sign_in
from tests.support import processes
from tests.support.own import migrated
from tests.support.people import as_admin

DEMO = SessionRef("demo", "booking", "ana", "seoul-trip")


def test_while_adkwebs_own_database_is_locked_pages_are_shown_or_told_to_ask_again(
    new_server: Callable[..., Adkweb], django_db_blocker: DjangoDbBlocker
) -> None:
    server = new_server(DJANGO_SETTINGS_MODULE="tests.live.impatient")
    event = "bulk-00000"
    with django_db_blocker.unblock():
        me = sign_in(server)
        with Own(server):
            token = tokens.create("program", "read", "*", by=as_admin("maria"))[1]
    at = f"?at={event}"
    program = f"/api/apps/booking/users/ana/sessions/seoul-trip/events/{event}/state"
    asked = [
        (page_path(DEMO) + at, {}),
        (page_path(DEMO, "state") + at, {"HX-Request": "true"}),
        (program, {"Authorization": f"Bearer {token}"}),
    ]
    with browser(server, me) as client, closing(sqlite3.connect(server.folder / "data" / "adkweb.db")) as own:

        def get(what: tuple[str, dict[str, str]]) -> httpx.Response:
            return client.get(what[0], headers=what[1])

        own.execute("BEGIN IMMEDIATE")
        assert insert(server.demo, DEMO.session_id, 1) == [event]  # nobody can have read it before
        with ThreadPoolExecutor() as threads:
            answers = list(threads.map(get, asked))
        own.rollback()
        # To read what is new needs a write: who asks for it is told to ask again, and a page is shown without it.
        for answer in answers:
            assert answer.status_code in (200, 202, 503)  # 202: it asks again by itself
            if answer.status_code == 503:
                assert "own database is locked" in answer.text or "being read" in answer.text
        assert answers[2].status_code == 503
        assert answers[2].headers["Content-Type"] == "application/problem+json"
        assert [get(what).status_code for what in asked] == [200] * 3
    assert "Traceback" not in server.log


def test_a_damaged_database_of_adkwebs_own_is_said_to_be_so(
    new_server: Callable[..., Adkweb], django_db_blocker: DjangoDbBlocker
) -> None:
    server = new_server()
    with django_db_blocker.unblock():
        me = sign_in(server)
    with browser(server, me) as client, closing(sqlite3.connect(server.folder / "data" / "adkweb.db")) as own:
        size = own.execute("PRAGMA page_size").fetchone()[0]
        roots = own.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'sessions_app_savedview'").fetchall()
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with (server.folder / "data" / "adkweb.db").open("r+b") as file:
            for (root,) in roots:
                file.seek((root - 1) * size)
                file.write(b"\xff" * size)
        own.execute("CREATE TABLE news (number)")  # the server does not go by the pages that it has read
        answer = client.get("/sessions/")
        assert answer.status_code == 503
        assert "own database is damaged" in answer.text
        assert client.get(page_path(DEMO)).status_code == 200
    assert "Traceback" not in server.log


def test_processes_that_open_a_file_without_a_log_at_once_all_get_it(tmp_path: Path) -> None:
    """As they do with a database that was restored: SQLite waits for every lock, but not while it makes the log."""
    for number in range(120):
        migrated(tmp_path / f"{number}.db")
    assert processes.run(processes.open_own, str(tmp_path), 120, copies=4) == [0] * 4
