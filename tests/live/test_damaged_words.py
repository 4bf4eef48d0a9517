"""The index of words is damaged on the disk while adkweb runs: pages work, and words are found again by themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from sessions_app.access import tokens
from tests.browser.serving import Adkweb
from tests.live.pages import Own, browser, sign_in
from tests.parts import long_but
from tests.support.at_work import until
from tests.support.people import as_admin

SEARCH = "/sessions/?q=seoul"


def damage(server: Adkweb) -> None:
    with closing(sqlite3.connect(server.folder / "data" / "adkweb.db", isolation_level=None)) as own:
        assert own.execute("DELETE FROM sessions_app_searchtext_data WHERE id > 10").rowcount


@pytest.mark.parametrize("program", long_but([False, True], False), ids=["page", "program"])
def test_damaged_words_are_read_anew_while_pages_work(
    new_server: Callable[..., Adkweb], django_db_blocker: DjangoDbBlocker, program: bool
) -> None:
    server = new_server()
    with django_db_blocker.unblock():
        me = sign_in(server)
        with Own(server):
            token = tokens.create("program", "read", "*", by=as_admin("maria"))[1]
    with browser(server, me) as client:

        def search() -> httpx.Response:
            return client.get(SEARCH)

        until(lambda: "seoul-trip" in search().text, "indexed")
        damage(server)
        assert [client.get(path).status_code for path in ("/", "/sessions/", "/edits/")] == [200] * 3
        if program:
            answer = client.get("/api/sessions?q=seoul", headers={"Authorization": f"Bearer {token}"})
            assert answer.headers["Content-Type"] == "application/problem+json"
        else:
            answer = search()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "The search index was damaged and is being rebuilt" in answer.text
        until(lambda: "seoul-trip" in search().text, "indexed anew")
    assert "Traceback" not in server.log
