"""One database enters another, read only and as it is; what is no database of an ADK is refused by what it has."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM
from sessions_app.sources import registry
from sessions_app.transfer import exporting, import_job, recognise
from sessions_app.transfer.formats.databases import recognise_database
from sessions_app.transfer.items import Fault
from tests.adk.services import Adk
from tests.conftest import FORMATS
from tests.support.stored import counts, execute
from tests.transfer.files import exported, furnish
from tests.transfer.places import bring, events, items, opened
from tests.transfer.test_adk_go import NEW, ROWS
from tests.transfer.test_adk_go import write as write_go
from tests.transfer.test_adk_rust import ROWS as RUST_ROWS
from tests.transfer.test_adk_rust import write as write_rust
from tests.transfer.test_adk_v0 import write as write_v0
from tests.transfer.test_adk_v0 import written
from tests.transfer.test_commands import MEGABYTES, measured, run, write_large
from tests.web.conftest import DEMO


@pytest.mark.parametrize("other", FORMATS)
def test_a_store_enters_another_and_is_the_same(
    form: str, other: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    place = new_database(form)
    source = open_source(place, form)
    furnish(source)
    assert items(place, "adk-database") == list(exporting.items(source, exporting.Filter(), actor=SYSTEM))
    target = open_source(new_database(other), other)
    report = bring(place, "adk-database", target)
    assert (report.new, report.events, report.skipped_count, report.differing_count) == (4, 7, 0, 0)
    assert exported(target) == exported(source)
    assert bring(place, "adk-database", target).same == 4


def test_a_database_that_no_adkweb_ever_saw_is_read_and_left_as_it_is(
    form: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    place = new_database(form)
    adk = Adk(form, place)
    session = adk.create(state={"a": 1, "app:plan": "x", "user:lang": None})
    for n in range(3):
        adk.append(session, f"안녕 {n} 👍", n=n)
    adk.close()
    listed, before = registry.listed(), content(place)
    found = items(place, "adk-database")
    assert [event["actions"]["state_delta"] for event in events(found)] == [{"n": 0}, {"n": 1}, {"n": 2}]
    target = open_source(new_database("sqlite"))
    bring(place, "adk-database", target)
    assert [source for source in registry.listed() if source.alias != target] == listed
    assert content(place) == before
    there = open_source(place)
    assert exported(there) == exported(target)


def content(place: str) -> object:
    """A file's bytes, or a server's columns and numbers of rows."""
    if "://" not in place:
        return Path(place).read_bytes()
    with psycopg.connect(place) as server:
        columns = server.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()
        return columns, server.execute("SELECT count(*), max(xmin::text) FROM events").fetchall()


def test_what_is_read_cannot_be_written(new_database: Callable[[str], str], open_source: Callable[..., str]) -> None:
    for form in ("sqlite", "postgresql"):
        place = new_database(form)
        open_source(place, form)
        with opened(place, "adk-database")() as reader, pytest.raises(Fault, match=r"readonly|read-only"):
            reader._database.rows("DELETE FROM events")  # type: ignore[attr-defined]


def test_urls_as_adk_has_them_are_read(new_database: Callable[[str], str], open_source: Callable[..., str]) -> None:
    file, server = new_database("sqlite-database"), new_database("postgresql")
    for place in (file, server):
        furnish(open_source(place, "sqlite-database" if place == file else "postgresql"))
    assert items(f"sqlite+aiosqlite:///{file}", "adk-database") == items(file, "adk-database")
    assert items(server.replace("postgresql://", "postgresql+asyncpg://"), "adk-database") == items(
        server, "adk-database"
    )


def made(path: Path, sql: str) -> str:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(sql)
        file.commit()
    return str(path)


def test_what_is_no_database_of_an_adk_is_refused_by_what_it_has(
    tmp_path: Path, new_database: Callable[[str], str]
) -> None:
    other = made(tmp_path / "other.db", "CREATE TABLE books (id); CREATE TABLE loans (id)")
    (tmp_path / "text.db").write_text("SQLite format 3\0 or so" * 500)
    empty = made(tmp_path / "empty.db", "CREATE TABLE a (b); DROP TABLE a")
    for place, problem in (
        (other, "the tables books, loans"),
        (empty, "this database is empty"),
        (new_database("postgresql"), "this database is empty"),
        (str(tmp_path / "text.db"), "not a database|not a SQLite"),
        (f"sqlite:///{tmp_path}/none.db", "the file can't be opened"),
        ("mysql://user:secret@host/db", "mysql:// isn't supported"),
        ("postgresql://user:secret@127.0.0.1:1/db", "no server is listening there"),
        ("postgresql://user:secret@[/db", "This isn't a valid URL"),
        ("postgresql://user:secret@127.0.0.1:x/db", "port"),
    ):
        with pytest.raises(Fault, match=problem) as raised:
            recognise(place)
        assert "secret" not in raised.value.message
        assert raised.value.detail["place"] == ""


@pytest.mark.parametrize("rows", [0, 4])
def test_adk_go_and_adks_v0_are_told_apart_by_more_than_their_columns(tmp_path: Path, rows: int) -> None:
    assert recognise(write_go(str(tmp_path / "new.db"), (ROWS + NEW)[:rows], True)) == "adk-go"
    old = write_go(str(tmp_path / "old.db"), ROWS[:rows], False)
    assert recognise_database(old) == "adk-go"
    if rows:
        with closing(sqlite3.connect(old)) as file:
            file.execute("UPDATE events SET actions = X'80057D2E'")
            file.commit()
        assert recognise(old) == "adk-v0"


@pytest.mark.parametrize(
    ("sql", "form", "problem"),
    [
        ("DROP TABLE user_states", "adk-database", "has no table “user_states”"),
        ("ALTER TABLE sessions RENAME COLUMN state TO other", "adk-database", "“sessions” has no state"),
        ("SELECT 1", "adk-rust", "not a database of the format adk-rust: the table “sessions” has no created_at"),
        ("SELECT 1", "adk-v0", "not a database of the format adk-v0: the table “events” has no actions, author"),
    ],
)
def test_missing_tables_and_columns_are_named(
    tmp_path: Path,
    new_database: Callable[[str], str],
    open_source: Callable[..., str],
    sql: str,
    form: str,
    problem: str,
) -> None:
    place = new_database("sqlite")
    open_source(place)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(place)) as whole, closing(sqlite3.connect(copy)) as file:
        whole.backup(file)  # what was written last stands in the log beside the file
    made(copy, sql)
    with pytest.raises(Fault, match=problem):
        opened(str(copy), form)().__enter__()


@pytest.mark.parametrize(
    ("sql", "place", "problem"),
    [
        (
            "UPDATE events SET event_data = '{\"a\":' WHERE id = 'e7'",
            "app/ana/s1, event e7",
            "event_data: not valid JSON",
        ),
        ("UPDATE events SET event_data = X'FF' WHERE id = 'e7'", "app/ana/s1, event e7", "event_data: not JSON"),
        ("UPDATE events SET timestamp = 'x' WHERE id = 'e7'", "app/ana/s1, event e7", "timestamp: this is not a time"),
        ("UPDATE sessions SET state = '[]' WHERE id = 's1'", "app/ana/s1", "state: not a JSON object"),
        ("UPDATE sessions SET create_time = 1e99 WHERE id = 's1'", "app/ana/s1", "create_time: this is not a time"),
        ("UPDATE app_states SET state = 'x' WHERE app_name = 'app'", "state of app", "state: not valid JSON"),
        ("UPDATE user_states SET state = '1' WHERE app_name = 'Zoo'", "state of Zoo/ana", "state: not a JSON object"),
        (
            "UPDATE sessions SET state = '{\"adkweb:importing\":true}' WHERE id = 's1'",
            "app/ana/s1",
            "only partly imported",
        ),
    ],
)
def test_a_fault_names_its_place_and_nothing_enters(
    new_database: Callable[[str], str], open_source: Callable[..., str], sql: str, place: str, problem: str
) -> None:
    from_place = new_database("sqlite")
    source = open_source(from_place)
    furnish(source)
    execute(source, sql)
    target = open_source(new_database("sqlite"))
    with pytest.raises(Fault, match=problem) as raised:
        bring(from_place, "adk-database", target)
    assert raised.value.detail["place"] == place
    assert set(counts(target).values()) == {0}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A database of each kind, as bytes."""
    folder = tmp_path_factory.mktemp("kinds")
    write_v0(f"sqlite:///{folder / 'v0'}", written())
    write_go(str(folder / "go"), ROWS + NEW, True)
    write_rust(str(folder / "rust"), RUST_ROWS)
    return Kinds(
        {f"adk-{path.name}": path.read_bytes() for path in folder.iterdir()} | {"adk-database": DEMO.read_bytes()}
    )


class Kinds(dict[str, bytes]):
    """Databases, which no report has to show."""

    def __repr__(self) -> str:
        return "kinds"


@pytest.mark.parametrize("form", ["adk-database", "adk-v0", "adk-go", "adk-rust"])
@given(
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=20),
    end=st.floats(0.5, 1),
)
def test_a_damaged_file_gives_items_or_a_fault(
    kinds: dict[str, bytes], tmp_path: Path, form: str, changes: list[tuple[float, int]], end: float
) -> None:
    damaged = bytearray(kinds[form])
    for place, value in changes:
        damaged[int(place * len(damaged))] = value
    file = tmp_path / "damaged.db"
    file.write_bytes(damaged[: int(end * len(damaged))])
    with suppress(Fault):
        recognise(str(file))
        import_job.check(opened(str(file), form))


def test_a_name_that_is_no_text_is_a_fault(kinds: dict[str, bytes], tmp_path: Path) -> None:
    """SQLite repeats it in its message, which Python then cannot read."""
    file = tmp_path / "damaged.db"
    file.write_bytes(kinds["adk-rust"].replace(b"CREATE TABLE", b"CREATE \xa6ABLE"))
    with pytest.raises(Fault):
        recognise(str(file))


@pytest.mark.parametrize("value", [10**12, -1, 1.5, b"\xff", "", b"", "{", "null", "[[]]"])
@pytest.mark.parametrize("form", ["adk-database", "adk-v0", "adk-go", "adk-rust"])
def test_any_value_in_any_column_gives_items_or_a_fault(
    kinds: dict[str, bytes], tmp_path: Path, form: str, value: object
) -> None:
    file, faults = tmp_path / "kind.db", 0
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(kinds[form])
        columns = [
            (table, row[1])
            for table in ("events", "sessions", "app_states", "user_states")
            for row in database.execute(f"PRAGMA table_info({table})")
        ]
    for table, column in columns:
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(kinds[form])
            database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = 1", [value])
            database.commit()
            file.write_bytes(database.serialize())
        try:
            import_job.check(opened(str(file), form))
        except Fault:
            faults += 1
    assert 0 < faults < len(columns)


def test_what_postgresql_cannot_hold_enters_sqlite_only(
    new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    place = new_database("sqlite")
    source = open_source(place)
    furnish(source)
    execute(source, "UPDATE sessions SET state = '{\"n\": NaN}' WHERE id = 's1'")
    bring(place, "adk-database", open_source(new_database("sqlite-database"), "sqlite-database"))
    with pytest.raises(Fault, match="state: PostgreSQL cannot hold NaN") as raised:
        bring(place, "adk-database", open_source(new_database("postgresql"), "postgresql"))
    assert raised.value.detail["place"] == "app/ana/s1"


def test_the_command_brings_a_database_and_previews_what_it_would_overwrite(tmp_path: Path) -> None:
    assert run(tmp_path, "create", "store.db")[0] == 0
    before = DEMO.read_bytes()
    code, told, errors = run(tmp_path, "import", DEMO, "--into", "store.db")
    assert (code, errors, DEMO.read_bytes() == before) == (0, "", True)
    assert "18 │ new sessions imported" in told.decode()
    go = write_go(str(tmp_path / "go.db"), ROWS + NEW, True)
    assert run(tmp_path, "import", go, "--into", "store.db")[0] == 0
    made(tmp_path / "go.db", 'UPDATE app_states SET state = \'{"planName":"free"}\'')
    made(tmp_path / "go.db", "DELETE FROM events WHERE id = 'e4'")
    code, told, errors = run(tmp_path, "import", go, "--into", "store.db", "--preview")
    assert code == 1
    assert 'kept; --state sets it: booking app:planName: absent → "free"' in told.decode()
    assert "skipped booking/ana/s1: it is there with other events: 4, the file has 3" in told.decode()


def test_the_command_refuses_a_damaged_database_whole(tmp_path: Path) -> None:
    assert run(tmp_path, "create", "store.db")[0] == 0
    whole = write_go(str(tmp_path / "go.db"), ROWS, True)
    broken = shutil.copy(whole, tmp_path / "broken.db")
    made(tmp_path / "broken.db", "UPDATE events SET content = '{' WHERE id = 'e3'")
    truncated = tmp_path / "truncated.db"
    truncated.write_bytes(DEMO.read_bytes()[:40_000])
    for bad, problem in (
        (broken, "booking/ana/s1, event e3: content: not valid JSON"),
        (truncated, "damaged"),
        ("mysql://host/db", "mysql:// isn't supported"),
    ):
        code, told, errors = run(tmp_path, "import", whole, bad, "--into", "store.db")
        assert (code, told) == (2, b"")
        assert problem in errors
        assert "Traceback" not in errors
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        assert store.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_memory_does_not_grow_with_a_session(tmp_path: Path, form: str, new_database: Callable[[str], str]) -> None:
    place, into = new_database(form), new_database("sqlite")
    write_large(tmp_path / "large.jsonl", 20_000)
    assert run(tmp_path, "import", tmp_path / "large.jsonl", "--into", place)[0] == 0
    assert measured(tmp_path, "import", place, "--into", into) < MEGABYTES
    with opened(into, "adk-database")() as reader:
        assert reader.total == import_job.check(opened(place, "adk-database")).events == 20_000
