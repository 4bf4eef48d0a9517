"""PostgreSQL and Valkey are killed while a page is open and google-adk goes on writing: no event is lost in the browser."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.agent import Agent
from tests.browser.conftest import Visit, Watch, serve
from tests.browser.places import type_json
from tests.browser.serving import Adkweb
from tests.browser.watching import LATE, expect_rows, expect_state, noted, notice, sign_in, watch_session, words
from tests.servers import PostgreSQL, Valkey


def kill(server: PostgreSQL | Valkey, number: signal.Signals) -> None:
    """Without a word to its clients, as a machine goes down."""
    assert server.process
    server.process.send_signal(number)
    server.process.wait()
    server.stop()


@pytest.fixture
def durable() -> Iterator[PostgreSQL]:
    """A PostgreSQL that keeps what it has confirmed when it is killed."""
    with PostgreSQL(fsync=True) as server:
        yield server


@pytest.mark.long  # live/test_processes.py loses it without a browser
def test_postgresql_goes_away_and_comes_back_and_no_event_is_lost(
    durable: PostgreSQL, tmp_path: Path, visitor: Visit, watch: Watch
) -> None:
    watch.allow(503)  # the strip, which follows the events
    url = durable.create_database("pg")
    with Agent(url) as agent:
        agent.do("s", create={})
        for server in serve(tmp_path, url):
            page = visitor(server)
            page.goto(server.link)
            watch_session(page, "pg", "s")
            home = page.context.new_page()
            home.goto("/")
            expect_state(home, "live")
            agent.begin("s", append=100, pause=0.1)
            agent.wait_for("s", 20)
            kill(durable, signal.SIGQUIT)  # its own word for a crash: it recovers from its log
            agent.wait_for_failure()
            expect(notice(page)).to_be_visible()
            expect(notice(page)).to_contain_text("This source can't be used right now")
            agent.wait_for_failure()
            durable.start()
            expect(notice(page)).to_be_hidden(timeout=LATE)
            agent.wait()
            with psycopg.connect(url) as connection:
                truth = [row[0] for row in connection.execute("SELECT id FROM events ORDER BY seq")]
            assert set(agent.stored["s"]) <= set(truth)
            expect_rows(page, truth)
            assert noted(page, "rows") == truth
            expect(page.get_by_role("slider", name="Time travel")).to_be_visible(timeout=LATE)
            expect(home.locator(f"#feed a[href$='#event-{truth[-1]}']")).to_be_visible()
            assert len(noted(page, "sockets")) == 1, "the page lost its connection to adkweb, too"
            page.context.close()


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """What two adkweb processes tell each other through."""
    with Valkey() as server:
        yield server


@pytest.fixture
def pair(tmp_path: Path, valkey: Valkey) -> Iterator[tuple[Adkweb, Adkweb]]:
    """Two adkweb processes on the same data."""
    (tmp_path / "lite.db").touch()
    variables = {"ADKWEB_REDIS_URL": valkey.url}
    with Adkweb(tmp_path, **variables) as first, Adkweb(tmp_path, **variables) as second:
        yield first, second
        for log in (first.log, second.log):
            assert "ERROR adkweb" not in log, log


@pytest.mark.long  # live/test_processes.py loses a Valkey without a browser
def test_valkey_goes_away_and_comes_back_and_no_event_is_lost_in_either_process(
    pair: tuple[Adkweb, Adkweb], valkey: Valkey, tmp_path: Path, visitor: Visit, browser: Browser
) -> None:
    first, second = pair
    me, maria = sign_in(browser, second)
    with Agent(str(tmp_path / "lite.db")) as agent:
        agent.do("s", create={"step": "choose"})
        page = watch_session(visitor(first, storage_state=me), "lite", "s")
        other = watch_session(visitor(second, storage_state=maria), "lite", "s")
        for each in (page, other):
            expect(each.locator("[data-live-people]")).to_have_text("2 watching", timeout=LATE)
        agent.begin("s", append=60, pause=0.1)
        agent.wait_for("s", 15)
        kill(valkey, signal.SIGKILL)
        agent.wait_for("s", 30)
        valkey.start()
        agent.wait()
        truth = agent.stored["s"]
        for each in (page, other):
            expect_rows(each, truth)
            assert noted(each, "rows") == truth
            expect(words(each)).to_have_text("updates live")
        edit(other)
        with sqlite3.connect(tmp_path / "lite.db") as connection:
            truth = [row[0] for row in connection.execute("SELECT id FROM events ORDER BY rowid")]
        connection.close()
        assert len(truth) == 61
        expect_rows(page, truth)
        other.close()
        expect(page.locator("[data-live-people]")).to_have_text(
            "1 watching", timeout=LATE
        )  # they hear each other again


def edit(page: Page) -> None:
    """Changes a key by the form."""
    page.keyboard.press("e")
    page.get_by_label("Key to edit or add").fill("step")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_have_text("choose")
    type_json(page, '"pay"')
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
