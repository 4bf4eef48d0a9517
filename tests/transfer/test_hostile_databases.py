"""Databases that somebody made to be read for ever, or to be read as something else: each ends in seconds, with a reason."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.transfer import import_job, recognise, uploads
from sessions_app.transfer.formats import opened as formats_opened
from sessions_app.transfer.items import Fault, beating
from tests.browser.serving import Adkweb
from tests.servers import HOST
from tests.support import warm
from tests.transfer.places import opened
from tests.transfer.test_commands import run

SECONDS = 60.0
COLUMNS = {
    "sessions": "app_name, user_id, id, state, create_time, update_time",
    "events": "id, app_name, user_id, session_id, invocation_id, timestamp, event_data",
    "app_states": "app_name, state, update_time",
    "user_states": "app_name, user_id, state, update_time",
}
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
FEW = MANY.replace("3000", "300")  # more than are read at once
SESSION = "INSERT INTO sessions SELECT {name}, 'u', 's' || i, '{{}}', 1, 1 FROM n"
LARGE_NAME = "hex(zeroblob(500000)) || i"
EVENT = "INSERT INTO events SELECT 'e' || i, 'a', 'u', 's', 'i', i, '{{}}' FROM n"


def write(file: Path, *statements: str, **tables: str) -> Path:
    """A database with ADK's tables, or others in their place, and the rows of some statements."""
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for name, columns in COLUMNS.items():
            database.execute(tables.get(name, f"CREATE TABLE {name} ({columns})"))
        for statement in statements:
            rows = FEW if LARGE_NAME in statement else MANY
            database.execute(f"{rows} {statement}" if " FROM n" in statement else statement)
    return file


def check(file: Path) -> import_job.Counts:
    """Reads a database to its end, or to a Fault; raises TimeoutError where that takes long."""
    end = time.monotonic() + SECONDS

    def heart(_reader: object = None) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    with beating(heart):
        formats_opened.check_pages(str(file))
        return import_job.check(opened(str(file), recognise(str(file))), heart)


NAMES = {
    "no UTF-8": "cast(x'ff' || i as text)",
    "an overlong UTF-8": "cast(x'c080' as text)",
    "half a surrogate pair": "cast(x'eda080' as text)",
    "cut in the middle of a character": "cast(x'f09f98' as text)",
    "U+0000": "'a' || char(0) || i",
    "a megabyte": LARGE_NAME,
    "bytes": "cast('a' || i as blob)",
    "a number": "i",
    "nothing": "NULL",
    "infinity": "9e999",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "statement",
    [
        SESSION,
        "INSERT INTO sessions SELECT 'a', 'u', {name}, '{{}}', 1, 1 FROM n",
        "INSERT INTO app_states SELECT {name}, '{{\"a\":1}}', 1 FROM n",
        "INSERT INTO user_states SELECT 'a', {name}, '{{\"a\":1}}', 1 FROM n",
    ],
    ids=["app", "session", "state of an app", "state of a user"],
)
def test_names_that_are_none_are_a_fault(tmp_path: Path, statement: str, name: str) -> None:
    file = write(tmp_path / "evil.db", statement.format(name=NAMES[name]))
    with pytest.raises(Fault):
        check(file)


@pytest.mark.parametrize("column", ["id", "invocation_id", "event_data"])
def test_an_event_whose_text_is_not_utf_8_is_a_fault_that_names_its_session(tmp_path: Path, column: str) -> None:
    session = "INSERT INTO sessions VALUES ('a', 'u', 's', '{}', 1, 1)"
    damaged = f"UPDATE events SET {column} = cast(x'7b22ff227d' as text) WHERE timestamp > 2500"
    file = write(tmp_path / "evil.db", session, EVENT.format(), damaged)
    with pytest.raises(Fault, match="not UTF-8") as raised:
        check(file)
    assert raised.value.detail["place"].startswith("a/u/s")


TABLES = {
    "names that are the same in capitals": (
        {"sessions": "CREATE TABLE sessions (app_name, user_id, id COLLATE NOCASE, state, create_time, update_time)"},
        "INSERT INTO sessions SELECT 'a', 'u', CASE i % 2 WHEN 0 THEN 's' ELSE 'S' END || (i / 2), '{}', 1, 1 FROM n",
    ),
    "names that stand there twice": ({}, "INSERT INTO sessions SELECT 'a', 'u', 's', '{}', 1, 1 FROM n"),
    "events without a rowid": (
        {"events": f"CREATE TABLE events ({COLUMNS['events']}, PRIMARY KEY (id)) WITHOUT ROWID"},
        "INSERT INTO sessions VALUES ('a', 'u', 's', '{}', 1, 1)",
        EVENT.format(),
    ),
    "events with a rowid of their own": (
        {"events": f"CREATE TABLE events ({COLUMNS['events']}, rowid)"},
        "INSERT INTO sessions VALUES ('a', 'u', 's', '{}', 1, 1)",
        "INSERT INTO events SELECT 'e' || i, 'a', 'u', 's', 'i', i, '{}', cast(x'ff' as text) FROM n",
    ),
    "sessions that are an endless view": (
        {
            "sessions": """CREATE VIEW sessions AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            SELECT 'a' AS app_name, 'u' AS user_id, i AS id, '{}' AS state, 1 AS create_time, 1 AS update_time FROM n"""
        },
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_no_adk_makes_are_a_fault(tmp_path: Path, case: str) -> None:
    tables, *statements = TABLES[case]
    file = write(tmp_path / "evil.db", *statements, **tables)
    with pytest.raises(Fault):
        check(file)


def test_names_in_utf_16_are_read_and_half_a_pair_is_a_fault(tmp_path: Path) -> None:
    for name, faulty in (("계획", False), ("\ud800", True)):
        file = tmp_path / "wide.db"
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA encoding = 'UTF-16le'")
            for table, columns in COLUMNS.items():
                database.execute(f"CREATE TABLE {table} ({columns})")
            text = name.encode("utf-16-le", "surrogatepass").hex()
            database.execute(f"INSERT INTO sessions VALUES (cast(x'{text}' as text), 'u', 's', '{{}}', 1, 1)")
            database.commit()
        if not faulty:
            assert check(file).sessions == 1
        else:
            with suppress(Fault):  # SQLite may make U+FFFD of it
                check(file)


def test_large_values_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """256 events of a megabyte each would be read at once, as 256 small ones stand before them."""
    session = "INSERT INTO sessions VALUES ('a', 'u', 's', '{}', 1, 1)"
    large = "UPDATE events SET event_data = json_object('a', hex(zeroblob(500000))) WHERE timestamp > 2900"
    file = write(tmp_path / "large.db", session, EVENT.format(), large)
    with formats_opened.opened(str(file)) as database:
        rows = database.rows("SELECT event_data FROM events WHERE timestamp > 2900", length=1_000_000)
    assert len(rows) <= 2
    assert check(file).events == 3000


class Enough(Exception):
    """Somebody does not want it any more."""


@pytest.mark.django_db
def test_what_ends_an_import_ends_it_in_the_middle_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_source: Callable[[str], str]
) -> None:
    monkeypatch.setattr(formats_opened, "STEPS", 10)
    (tmp_path / "into.db").touch()
    into = open_source(str(tmp_path / "into.db"))
    upload = uploads.receive([write(tmp_path / "one.db", SESSION.format(name="'a'")).read_bytes()])

    def told(_share: float) -> None:
        raise Enough

    with pytest.raises(Enough):  # while its pages are looked at, before there is any item
        uploads.preview(upload, into, SYSTEM, told=told)
    uploads.discard(upload)


def test_a_query_without_an_end_is_left(tmp_path: Path) -> None:
    file = write(tmp_path / "one.db")
    end = time.monotonic() + 0.3

    def heart() -> None:
        if time.monotonic() > end:
            raise Enough

    with beating(heart), formats_opened.opened(str(file)) as database, pytest.raises(Enough):
        database.rows("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")


def test_the_terminal_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = write(tmp_path / "evil.db", SESSION.format(name="cast(x'ff' as text)"))
    into = tmp_path / "into.db"
    into.touch()
    code, _out, errors = run(tmp_path, "import", file, "--into", into)
    assert code == 2
    assert "not UTF-8" in errors


def test_an_import_over_rest_ends_with_whoever_asked_and_with_the_server(tmp_path: Path) -> None:
    many = "INSERT INTO sessions SELECT 'a' || m.i, 'u', 's' || n.i, '{}', 1, 1 FROM n, n m WHERE m.i < 100"
    file = write(tmp_path / "long", many)
    (tmp_path / "data").mkdir()
    server = Adkweb(tmp_path)
    server.demo = tmp_path / "store.db"
    server.run("create", str(server.demo))
    with server:
        words = server.command("token", "create", "t", "--right", "admin")
        token = warm.run(words, capture_output=True, text=True, check=True).stdout.strip()
        process = server.process
        assert process is not None

        def seconds() -> float:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / 100

        def send() -> HTTPConnection:
            before, until = seconds(), time.monotonic() + 60
            connection = HTTPConnection(HOST, server.port, timeout=60)
            headers = {"Authorization": f"Bearer {token}"}
            connection.request("POST", "/api/import?preview=true", file.read_bytes(), headers)
            while seconds() - before < 0.5:  # until it works
                assert time.monotonic() < until
                time.sleep(0.02)
            return connection

        connection = send()
        connection.close()
        left = last = seconds()
        time.sleep(1)
        while (now := seconds()) - last >= 0.25:
            assert now - left < 2, "it goes on for nobody"
            last = now
            time.sleep(1)
        connection = send()
        process.send_signal(signal.SIGTERM)
        process.wait(40)
        connection.close()
