"""Files that are sent to be imported: kept where nobody else can read or guess them, looked through, brought in whole."""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound, NotKept
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import lists, views
from sessions_app.transfer import uploads
from sessions_app.transfer.import_job import Counts
from sessions_app.transfer.uploads import Upload
from tests.support.people import BOB
from tests.transfer.files import event_line, exported, file_of, furnish, session_line

pytestmark = pytest.mark.django_db

ANA = Actor.holding("ana", "admin")
FOLDER = Path(settings.DATA_DIR) / "uploads"


@pytest.fixture
def into(tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """An empty source."""
    (tmp_path / "into.db").touch()
    return open_source(str(tmp_path / "into.db"))


@pytest.fixture
def file(tmp_path: Path, open_source: Callable[[str], str]) -> bytes:
    """The export of a store that is hard to carry."""
    (tmp_path / "full.db").touch()
    full = open_source(str(tmp_path / "full.db"))
    furnish(full)
    return exported(full)


@pytest.fixture(autouse=True)
def _empty_folder() -> Iterator[None]:
    yield
    for path in FOLDER.glob("*"):
        path.unlink()


# --- Kept -------------------------------------------------------------------------------------------------------------


def test_a_file_is_kept_for_its_owner_alone_under_a_name_that_nobody_guesses() -> None:
    one, two = uploads.receive([b"a", b"", b"bc"]), uploads.receive([])
    assert one.path.read_bytes() == b"abc"
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(FOLDER.stat().st_mode) == 0o700
    assert one.id != two.id
    assert len(one.id) == 32


def test_a_file_whose_sender_goes_away_is_not_kept() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ConnectionResetError

    with pytest.raises(NotKept):
        uploads.receive(chunks())
    assert list(FOLDER.glob("*")) == []


def test_a_discarded_file_is_gone_with_what_stands_beside_it() -> None:
    one, two = uploads.receive([b"1"]), uploads.receive([b"2"])
    Path(f"{one.path}-wal").touch()
    uploads.discard(one)
    assert list(FOLDER.iterdir()) == [two.path]


def test_files_are_deleted_after_a_day() -> None:
    old = uploads.receive([b"old"])
    yesterday = time.time() - uploads.KEPT_SECONDS - 1
    os.utime(old.path, (yesterday, yesterday))
    new = uploads.receive([b"new"])
    assert list(FOLDER.iterdir()) == [new.path]


# --- Looked through, brought in ---------------------------------------------------------------------------------------


def test_a_preview_says_what_a_file_holds_and_would_do_and_writes_nothing(into: str, file: bytes) -> None:
    found = uploads.preview(uploads.receive([file]), into, ANA)
    assert (found.format, found.counts) == ("jsonl", Counts(states=3, sessions=4, events=7))
    assert (found.report.new, found.report.events, found.report.states_made) == (4, 7, 3)
    assert found.sessions == [
        SessionRef(into, "Zoo", "ana", "empty"),
        SessionRef(into, "Zoo", "ana", "👍"),
        SessionRef(into, "app", "ana", "s1"),
        SessionRef(into, "app", "Ána", "S2"),
    ]
    assert lists.apps(into, actor=SYSTEM).rows == []


def test_what_is_brought_in_is_what_the_file_holds_and_twice_is_as_once(into: str, file: bytes) -> None:
    upload = uploads.receive([file])
    assert uploads.bring(upload, into, ANA).new == 4
    assert exported(into) == file
    again = uploads.bring(upload, into, ANA)
    assert (again.new, again.same, again.events) == (0, 4, 0)
    assert exported(into) == file


def test_how_much_is_done_only_grows(into: str, file: bytes) -> None:
    upload = uploads.receive([file])
    for work in (uploads.preview, uploads.bring):
        told: list[float] = []
        work(upload, into, ANA, told=told.append)
        assert told == sorted(told)
        assert told[0] < 0.3
        assert 0.9 < told[-1] <= 1


def test_state_that_is_there_changes_only_when_asked_for(into: str, tmp_path: Path, open_source: Callable) -> None:
    line = {"type": "app", "app": "app", "state": {"plan": "pro"}, "updated": 1.0}
    uploads.bring(uploads.receive([file_of({**line, "state": {"plan": "free", "own": 1}})]), into, ANA)
    other = uploads.receive([file_of(line)])
    (differing,) = uploads.preview(other, into, ANA).report.differing
    assert [(change.key, change.old, change.new) for change in differing.changes] == [("app:plan", "free", "pro")]
    uploads.bring(other, into, ANA)
    assert views.app(into, "app", actor=SYSTEM)[1] == {"plan": "free", "own": 1}
    uploads.bring(other, into, ANA, state=True)
    assert views.app(into, "app", actor=SYSTEM)[1] == {"plan": "pro", "own": 1}


# --- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "place", "message"),
    [
        (b"", "", "it is empty"),
        (b"hello", "", "it begins like none of these"),
        (b"\x1f\x8b\x08", "", "compressed by gzip"),
        (b"PK\x03\x04", "", "a zip archive"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "", ""),
        (file_of(session_line(), session_line()), "line 3", ""),
        (file_of(session_line(events=2), event_line()), "line 4", ""),
        (file_of(session_line())[:-20], "line 3", ""),
    ],
    ids=["empty", "text", "gzip", "zip", "broken database", "session twice", "event missing", "cut"],
)
@pytest.mark.parametrize("work", [uploads.preview, uploads.bring])
def test_a_bad_file_is_refused_with_the_place_and_nothing_is_written(
    into: str, work: Callable[..., object], file: bytes, place: str, message: str
) -> None:
    upload = uploads.receive([file_of(session_line("good"))[:0], file])
    with pytest.raises(Invalid) as refused:
        work(upload, into, ANA)
    assert refused.value.detail["place"] == place
    assert message in refused.value.message
    assert lists.apps(into, actor=SYSTEM).rows == []


def test_a_file_with_one_app_that_is_not_ones_own_is_refused_whole(into: str, file: bytes) -> None:
    upload = uploads.receive([file])
    for actor in (Actor.holding("zoo's", "admin", "Zoo"), BOB, Actor.holding("agent", "append")):
        for work in (uploads.preview, uploads.bring):
            with pytest.raises(NotAllowed):
                work(upload, into, actor)
    assert lists.apps(into, actor=SYSTEM).rows == []


def test_read_only_refuses_an_import(into: str, file: bytes, settings: pytest.FixtureRequest) -> None:
    settings.READ_ONLY = True  # type: ignore[attr-defined]
    with pytest.raises(NotAllowed):
        uploads.preview(uploads.receive([file]), into, ANA)


@pytest.mark.parametrize("upload", [Upload("0" * 32)])
def test_a_file_that_is_gone_says_so(into: str, upload: Upload) -> None:
    with pytest.raises(NotFound, match="pload it again"):
        uploads.preview(upload, into, ANA)


def test_a_source_that_is_not_there_is_not_found(file: bytes) -> None:
    with pytest.raises(NotFound, match="no source"):
        uploads.preview(uploads.receive([file]), "nowhere", ANA)


# --- Hostile databases ------------------------------------------------------------------------------------------------

TABLES = """
    CREATE TABLE sessions (app_name, user_id, id, state, create_time, update_time);
    CREATE TABLE app_states (app_name, state, update_time);
    CREATE TABLE user_states (app_name, user_id, state, update_time);
    INSERT INTO sessions VALUES ('shop', 'ana', 's', '{}', 1700000000.0, 1700000000.0);
"""
COLUMNS = "id, app_name, user_id, session_id, invocation_id, timestamp, event_data"
ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, 'shop', 'ana', 's', 'i', 1, '{}' FROM n"
)


def database(tmp_path: Path, sql: str) -> bytes:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES + sql)
    return path.read_bytes()


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE VIEW events ({COLUMNS}) AS {ENDLESS}",
        f"CREATE VIEW endless (rowid, {COLUMNS}) AS SELECT 1, * FROM ({ENDLESS});"
        f"CREATE VIRTUAL TABLE events USING fts5({COLUMNS}, content='endless')",
    ],
    ids=["view", "virtual"],
)
def test_a_database_whose_rows_never_end_is_not_read(sql: str, tmp_path: Path, into: str) -> None:
    upload = uploads.receive([database(tmp_path, sql)])
    with pytest.raises(Invalid, match="a database, but not of an ADK"):
        uploads.preview(upload, into, ANA)


def test_a_database_whose_pages_lead_in_a_circle_is_not_read(tmp_path: Path, into: str) -> None:
    data = bytearray(database(tmp_path, f"CREATE TABLE events ({COLUMNS})"))
    with closing(sqlite3.connect(tmp_path / "made.db")) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
    places = range(size - 5 * 400, size, 5)  # of 400 children, each the root itself
    inner = struct.pack(">BHHHBI", 5, 0, 400, places[0], 0, root) + b"".join(struct.pack(">H", at) for at in places)
    cells = b"".join(struct.pack(">IB", root, number % 128) for number in range(400))
    data[(root - 1) * size : root * size] = inner.ljust(size - len(cells), b"\0") + cells
    upload = uploads.receive([bytes(data)])
    with pytest.raises(Invalid, match="the database is damaged"):
        uploads.preview(upload, into, ANA)


def test_what_is_wrong_with_a_database_does_not_say_where_it_is_kept(into: str) -> None:
    upload = uploads.receive([b"SQLite format 3\0", b"nothing"])
    with pytest.raises(Invalid) as caught:
        uploads.preview(upload, into, ANA)
    assert caught.value.message.startswith("the file: ")
    assert upload.id not in caught.value.message
