"""Adopting a database that ADK wrote: additive, repeatable, interruptible, reversible."""

from __future__ import annotations

import itertools
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import connections
from google.adk.sessions.schemas import v0
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotAllowed, SourceError
from sessions_app.domain.positions import stands_for_time
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history import moments as history_moments
from sessions_app.history.edit_log import edits
from sessions_app.reads import lists, statistics, timeline, views
from sessions_app.reads.deltas import writers
from sessions_app.sources import adoption, database, locks, online, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk, key_of
from tests.servers import PostgreSQL
from tests.support import processes

ADK_COLUMNS = {
    "app_states": "app_name, state, update_time",
    "user_states": "app_name, user_id, state, update_time",
    "sessions": "app_name, user_id, id, state, create_time, update_time",
    "events": "id, app_name, user_id, session_id, invocation_id, timestamp, event_data",
}


@pytest.fixture
def place(form: str, new_database: Callable[[str], str]) -> str:
    """An empty database."""
    return new_database(form)


@pytest.fixture
def written(form: str, place: str) -> Iterator[Adk]:
    """The same with what google-adk wrote there: two users, three sessions, state in all scopes."""
    adk = Adk(form, place)
    for name, user in (("s1", "ana"), ("s2", "ana"), ("s1", "지우")):
        session = adk.create(name, {"a": [1.0, None, "é"], "user:u": 1, "app:p": {"x": 2**40}}, user)
        for number in range(4):
            adk.append(session, f"{name} {number}", n=number, user__u=number, app__p=number)
    yield adk
    adk.close()


# --- What adopting keeps ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("Databases and files", "Adopting a database only adds to it.")
def test_adopting_only_adds(place: str, written: Adk, open_source: Callable[[str], str]) -> None:
    rows, schema = _rows(place), _schema(place)
    open_source(place)
    assert _rows(place) == rows
    after = _schema(place)
    assert schema <= after  # every table, column, index and constraint of ADK's is there as it was
    new = [(name, rest) for _kind, name, *rest in after - schema]
    own = {"adkweb_source", "adkweb_deleted", "adkweb_deleted_writes", "adkweb_written"}
    added = {name for name, rest in new if not own & {*rest}}
    columns = ("seq", "initial_state", "initial_place", "written")
    assert all(name in columns or name.startswith(("adkweb_", "events_seq_")) for name in added), added


def test_a_session_to_which_nothing_happened_yet_is_as_it_was_created(
    place: str, written: Adk, open_source: Callable[[str], str]
) -> None:
    written.create("fresh", {"step": "search", "user:u": 2})
    source = open_source(place)
    fresh, older = key_of(source)._replace(session_id="fresh"), key_of(source)
    assert views.session(fresh, actor=SYSTEM).initial_state == {"step": "search"}
    assert views.session(older, actor=SYSTEM).initial_state is None
    written.append(written.get("fresh"), "hello", step="pay")
    event = timeline.events(fresh, actor=SYSTEM).rows[-1]
    assert history_moments.state_at(fresh, event.id, before=True, actor=SYSTEM).state.session == {"step": "search"}


def test_adopting_again_does_nothing(place: str, written: Adk, open_source: Callable[[str], str]) -> None:
    alias = open_source(place)
    before = _schema(place), _all_rows(alias)
    for _ in range(2):
        online.add(alias)
    database.forget(alias)
    open_source(place)
    assert (_schema(place), _all_rows(alias)) == before


def test_events_written_before_keep_their_order_and_new_ones_follow(
    place: str, written: Adk, open_source: Callable[[str], str]
) -> None:
    ref = key_of(open_source(place))
    written.append(written.get(), "after")
    page = timeline.events(ref, actor=SYSTEM).rows
    assert [view.description.text for view in page] == ["s1 0", "s1 1", "s1 2", "s1 3", "after"]
    seqs = [view.seq or 0 for view in page]
    assert seqs == sorted(set(seqs))


def test_seq_follows_the_timestamps_of_a_postgresql_table_whatever_the_order_on_disk(
    new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    place = new_database("postgresql")
    adk = Adk("postgresql", place)
    adk.create()
    # Rows on disk in any order, two of them at the same moment.
    moments = [5, 3, 9, 1, 7, 3, 8, 2]
    with psycopg.connect(place) as connection:
        for number, moment in enumerate(moments):
            connection.execute(
                """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
                VALUES (%s, %s, %s, 's1', 'i', to_timestamp(%s) AT TIME ZONE 'UTC', '{}')""",
                [f"event{number}", APP, USER, moment],
            )
        connection.execute("UPDATE events SET invocation_id = 'moved on disk' WHERE id IN ('event3', 'event0')")
    ref = key_of(open_source(place))
    expected = [f"event{number}" for _, number in sorted(zip(moments, itertools.count(), strict=False))]
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == expected
    adk.append(adk.get(), "after")
    adk.close()
    page = timeline.events(ref, actor=SYSTEM).rows
    assert [view.id for view in page[:-1]] == expected
    assert [view.seq for view in page] == list(range(1, 10))


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_journal_mode_of_a_sqlite_file_is_kept(
    mode: str, tmp_path: Path, open_source: Callable[[str], str], actor: Actor
) -> None:
    file = tmp_path / "session.db"
    adk = Adk("sqlite", str(file))
    adk.create()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    ref = key_of(open_source(str(file)))
    append_event(ref, {"author": "x"}, actor=actor)
    adk.append(adk.get(), "Hello")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
    adk.close()


# --- Interruption and concurrency -------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Agents",
    "If adkweb is killed during any SQL statement while adopting a database, it later picks up where it left off.",
)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_killed_after_any_statement_adopting_goes_on_where_it_stopped_and_adk_never_notices(
    step: int,
    form: str,
    place: str,
    written: Adk,
    new_database: Callable[[str], str],
    open_source: Callable[[str], str],
) -> None:
    untouched = _schema(place)
    for statements in itertools.count(1, step):
        rows = _rows(place)
        (code,) = processes.run(processes.adopt_then_die, place, statements)
        assert _rows(place) == rows
        written.append(written.get(), f"after {statements}")
        written.delete(written.create("gone", {"user:gone": statements}))
        if code != processes.KILLED:
            break
    assert (code, statements) > (0, 10 // step)
    alias = open_source(place)
    texts = [view.description.text for view in timeline.events(key_of(alias), actor=SYSTEM).rows]
    assert texts[4:] == [f"after {number}" for number in range(1, statements + 1, step)]
    assert database.keeps_creations(alias)
    undisturbed = new_database(form)
    other = Adk(form, undisturbed)
    other.create()
    other.close()
    open_source(undisturbed)
    assert _schema(place) - untouched == _schema(undisturbed) - untouched
    online.release(alias)
    assert _schema(place) == untouched


@pytest.mark.long
def test_killed_at_fifty_random_moments_adopting_ends_as_undisturbed_and_is_taken_away(
    new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    place, kills, adoptions, pace = new_database("postgresql"), 0, 0, random.Random(11)
    adk = Adk("postgresql", place)
    adk.create()
    statement = """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        SELECT 'old' || n, %s, %s, 'old', 'i', TIMESTAMP '2026-01-01' + (n * 7919 %% 30011) * interval '1 second', '{}'
        FROM generate_series(1, 30000) AS n"""
    with psycopg.connect(place) as connection:  # in a session of their own, as the agent reads all of its own each time
        connection.execute(
            """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
            SELECT app_name, user_id, 'old', state, create_time, update_time FROM sessions"""
        )
        connection.execute(statement, [APP, USER])
    untouched, complete = _schema(place), None
    while kills < 50 or not adoptions:
        code = processes.run_until(processes.adopt, pace.uniform(0.05, 1.5), place)
        kills += code == processes.KILLED
        adk.append(adk.get(), f"after {kills}")
        if code == 0:
            adoptions += 1
            complete = complete or _schema(place)
            assert _schema(place) == complete
            rows = _query(place, "SELECT id, seq FROM events ORDER BY seq")
            assert [row[0] for row in rows] == [
                row[0] for row in _query(place, "SELECT id FROM events ORDER BY timestamp, id")
            ]
            assert len({seq for _id, seq in rows}) == len(rows)
            online.release(open_source(place, adopting=False))
            for source in registry.listed():
                database.forget(source.alias)
            assert _schema(place) == untouched
    adk.close()


@pytest.mark.parametrize("before", ["empty", "written"])
def test_processes_that_open_a_database_at_once_all_succeed(
    before: str, place: str, form: str, request: pytest.FixtureRequest, open_source: Callable[[str], str]
) -> None:
    if before == "written":
        request.getfixturevalue("written")
        rows = _rows(place)
    barrier = processes.CONTEXT.Barrier(4)
    assert processes.run(processes.open_together, place, barrier, copies=4) == [0, 0, 0, 0]
    alias = open_source(place)
    assert database.is_adopted(alias)
    if before == "written":
        assert _rows(place) == rows


@pytest.mark.parametrize("form", ["postgresql"])
def test_tables_that_another_process_makes_just_now_are_in_no_other_schema(
    form: str, place: str, written: Adk, open_source: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(place)
    nothing = adoption.COLUMNS._replace(postgresql="SELECT '', '', '' WHERE FALSE")  # as it was a moment ago
    monkeypatch.setattr(adoption, "COLUMNS", nothing)
    assert adoption.inspect(source).empty


def test_threads_that_open_a_database_at_once_all_succeed(
    place: str, written: Adk, open_source: Callable[[str], str]
) -> None:
    (source,) = registry.add(place)
    barrier, errors = threading.Barrier(4), []

    def open_it() -> None:
        barrier.wait(10)
        try:
            database.open_source(source)
            lists.apps(source.alias, actor=SYSTEM)
        except Exception as error:
            errors.append(error)
        finally:
            connections[source.alias].close()

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert database.is_adopted(open_source(place))


@pytest.mark.guarantee("Agents", "Agents can write to a database while adkweb adopts it.")
def test_where_a_long_transaction_holds_the_table_writers_pass_and_adopting_gives_up(
    new_database: Callable[[str], str], open_source: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 1.0)
    place = new_database("postgresql")
    adk = Adk("postgresql", place)
    adk.create()
    with psycopg.connect(place) as connection:
        connection.execute("SELECT * FROM events")
        with pytest.raises(SourceError, match=r"stopped: .*lock timeout.*Start it again to continue\."):
            open_source(place)
        adk.append(adk.get(), "meanwhile")
    assert len(timeline.events(key_of(open_source(place)), actor=SYSTEM).rows) == 1
    adk.close()


# --- Releasing --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Databases and files", "`adkweb release` leaves a database exactly as it was before it was adopted."
)
def test_release_leaves_everything_exactly_as_before(
    place: str, written: Adk, open_source: Callable[[str], str]
) -> None:
    rows, schema = _rows(place), _schema(place, tables_text=True)
    alias = open_source(place)
    online.release(alias)
    assert _rows(place) == rows
    assert _schema(place, tables_text=True) == schema
    online.release(alias)  # again: nothing to do
    written.append(written.get(), "after")
    online.add(alias)
    assert timeline.events(key_of(alias), actor=SYSTEM).rows[-1].description.text == "after"


def test_release_of_a_database_that_adkweb_created_leaves_adks_tables(
    form: str, place: str, open_source: Callable[[str, str], str], actor: Actor
) -> None:
    alias = open_source(place, form)
    ref = create_session(alias, APP, USER, actor=actor, state={"a": 1}, session_id="s1")
    append_event(ref, {"author": "x", "actions": {"state_delta": {"a": 2}}}, actor=actor)
    online.release(alias)
    assert not any("adkweb" in str(entry) for entry in _schema(place))
    adk = Adk(form, place)
    session = adk.get()
    assert session.state == {"a": 2}
    adk.append(session, "and on")
    adk.close()


# --- Read-only --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_read_only_leaves_every_byte_of_a_file_and_shows_everything(
    mode: str, place: str, written: Adk, open_source: Callable[[str], str], settings: Settings, actor: Actor
) -> None:
    written.close()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    before = Path(place).read_bytes()
    settings.READ_ONLY = True
    _shows_everything(open_source(place), actor)
    assert Path(place).read_bytes() == before
    # In WAL mode every reader shares memory through a file beside it; a log is there, and empty.
    written = [file for file in Path(place).parent.iterdir() if file != Path(place) and file.suffix != ".db-shm"]
    assert [file.stat().st_size for file in written] == ([0] if mode == "wal" else [])


def test_read_only_changes_nothing_in_postgresql_and_shows_everything(
    new_database: Callable[[str], str], open_source: Callable[[str], str], settings: Settings, actor: Actor
) -> None:
    place = new_database("postgresql")
    adk = Adk("postgresql", place)
    for name, user in (("s1", "ana"), ("s2", "ana"), ("s1", "지우")):
        session = adk.create(name, {"a": 1}, user)
        for number in range(4):
            adk.append(session, f"{name} {number}", n=number)
    before = _rows(place), _schema(place)
    settings.READ_ONLY = True
    _shows_everything(open_source(place), actor)
    assert (_rows(place), _schema(place)) == before
    adk.append(adk.get(), "the agent goes on")
    adk.close()


@pytest.mark.parametrize("form", ["postgresql"])
def test_without_seq_events_come_by_timestamp_and_id_and_pages_lose_and_repeat_nothing(
    form: str, place: str, open_source: Callable[[str], str], settings: Settings
) -> None:
    adk = Adk(form, place)
    adk.create()
    adk.close()
    expected = []
    rows = []
    for number in range(250):
        moment, name = number % 7, f"event{(number * 37) % 250:03}"
        expected.append((moment, name))
        rows.append((name, APP, USER, "s1", "i", f"2026-01-01 00:00:0{moment}.000000", "{}"))
    statement = "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data) VALUES "
    _insert(place, statement, rows)
    settings.READ_ONLY = True
    ref = key_of(open_source(place))
    pages = [timeline.events(ref, actor=SYSTEM)]
    while pages[-1].next:
        pages.append(timeline.events(ref, before=pages[-1].next, actor=SYSTEM))
    assert [len(page.rows) for page in pages] == [100, 100, 50]
    seen = [view.id for page in reversed(pages) for view in page.rows]
    assert seen == [name for _, name in sorted(expected)]
    middle = pages[1].rows[50]
    earlier, later = timeline.around(middle, actor=SYSTEM)
    assert [view.id for view in [*reversed(earlier), middle, *later]] == seen
    places = [view.seq or 0 for page in reversed(pages) for view in page.rows]
    assert all(map(stands_for_time, places)), "no number is made up for them"
    assert places == sorted(places)


def _shows_everything(alias: str, actor: Actor) -> None:
    assert not database.is_adopted(alias)
    assert [row.app_name for row in lists.apps(alias, actor=SYSTEM).rows] == [APP]
    assert [row.user_id for row in lists.users(alias, APP, actor=SYSTEM).rows] == ["ana", "지우"]
    assert len(lists.sessions(alias, APP, actor=SYSTEM).rows) == 3
    ref = SessionRef(alias, APP, "지우", "s1")
    view = views.session(ref, actor=SYSTEM)
    assert (view.state.get("n"), view.initial_state) == (3, None)
    assert statistics.stats(ref, actor=SYSTEM).events == 4
    page = timeline.events(ref, actor=SYSTEM).rows
    assert [each.description.text for each in page] == ["s1 0", "s1 1", "s1 2", "s1 3"]
    assert [change.old for change in page[1].changes if change.key == "n"] == [0]
    assert writers(ref, actor=SYSTEM)["n"].event_id == page[3].id
    assert timeline.event(ref, page[0].id, actor=SYSTEM).id == page[0].id
    assert edits(actor=SYSTEM)[0].rows == []
    with pytest.raises(NotAllowed):
        append_event(ref, {"author": "x"}, actor=actor)


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
def test_adks_old_schema_is_refused_with_the_command_that_converts_it(
    form: str, place: str, open_source: Callable[[str], str]
) -> None:
    _create_v0(place)
    before = _schema(place)
    with pytest.raises(SourceError, match=r"adkweb import THIS --into new\.db"):
        open_source(place)
    assert _schema(place) == before


@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
def test_the_events_of_adk_go_are_refused_by_name(form: str, place: str, open_source: Callable[[str], str]) -> None:
    columns = "app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, author TEXT, actions {bytes}"
    _execute(
        place,
        "CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time TEXT, update_time TEXT)",
        f"CREATE TABLE events (id TEXT, {columns}, timestamp TEXT, content TEXT, turn_complete BOOLEAN)".format(
            bytes="BYTEA" if "://" in place else "BLOB"
        ),
        "CREATE TABLE app_states (app_name TEXT, state TEXT, update_time TEXT)",
        "CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time TEXT)",
    )
    before = _schema(place)
    with pytest.raises(SourceError, match="adk-go"):
        open_source(place)
    assert _schema(place) == before


@pytest.mark.guarantee(
    "Databases and files", "adkweb refuses to open databases that aren't ADK's, and leaves them unchanged."
)
@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
def test_a_database_of_another_program_is_refused_and_left_alone(
    form: str, place: str, open_source: Callable[[str], str]
) -> None:
    _execute(place, "CREATE TABLE invoices (id INTEGER)", "CREATE TABLE customers (id INTEGER)")
    before = _schema(place)
    with pytest.raises(SourceError, match=r"isn't an ADK database: it has the tables customers, invoices"):
        open_source(place)
    assert _schema(place) == before


@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
def test_tables_of_the_same_name_in_another_programs_database_are_refused(
    form: str, place: str, open_source: Callable[[str], str]
) -> None:
    _execute(place, "CREATE TABLE sessions (id INTEGER, token TEXT)", "CREATE TABLE events (id INTEGER, title TEXT)")
    before = _schema(place)
    with pytest.raises(SourceError, match=r"isn't an ADK database: the table “sessions” has no app_name"):
        open_source(place)
    assert _schema(place) == before


def test_a_user_who_does_not_own_the_tables_is_told_what_is_needed_and_may_read(
    new_database: Callable[[str], str],
    open_source: Callable[[str], str],
    postgresql_server: PostgreSQL,
    settings: Settings,
) -> None:
    place = new_database("postgresql")
    adk = Adk("postgresql", place)
    adk.append(adk.create(), "Hello")
    adk.close()
    _execute(
        place,
        "CREATE ROLE clerk LOGIN",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk",
    )
    before = _schema(place)
    theirs = place.replace("postgres@", "clerk@")
    with pytest.raises(SourceError, match=r"must be owner of table \w+.*as the tables' owner"):
        open_source(theirs)
    assert _schema(place) == before
    for source in registry.listed():
        database.forget(source.alias)
    settings.READ_ONLY = True
    assert len(timeline.events(key_of(open_source(theirs)), actor=SYSTEM).rows) == 1


# --- Looking at a database from outside -------------------------------------------------------------------------------


def _execute(place: str, *statements: str) -> None:
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)


def _insert(place: str, statement: str, rows: list[tuple[str, ...]]) -> None:
    _execute(place, statement + ", ".join(str(row) for row in rows))


def _query(place: str, statement: str) -> list[tuple[Any, ...]]:
    if "://" in place:
        with psycopg.connect(place) as connection:
            return connection.execute(statement.encode()).fetchall()
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute(statement).fetchall()


def _rows(place: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every ADK column of every row."""
    cast = "::text" if "://" in place else ""
    return {
        table: sorted(
            _query(place, f"SELECT {', '.join(f'{name}{cast}' for name in columns.split(', '))} FROM {table}"), key=str
        )
        for table, columns in ADK_COLUMNS.items()
    }


def _all_rows(alias: str) -> dict[str, list[Any]]:
    with connections[alias].cursor() as cursor:
        found = {}
        for table in ADK_COLUMNS:
            cursor.execute(f"SELECT * FROM {table}")
            found[table] = sorted(cursor.fetchall(), key=str)
        return found


def _schema(place: str, *, tables_text: bool = False) -> set[tuple[Any, ...]]:
    """Everything that a database says of its structure, word for word; of SQLite's tables the columns, or the text."""
    if "://" not in place:
        found: set[tuple[Any, ...]] = set()
        for kind, name, table, text in _query(place, "SELECT type, name, tbl_name, sql FROM sqlite_master"):
            columns_only = kind == "table" and not tables_text
            found.add((kind, name, table, "" if columns_only else text))
            if columns_only:
                found |= {("column", each[1], table, *each[2:]) for each in _query(place, f"PRAGMA table_info({name})")}
        return found
    return {
        (kind, *row)
        for kind, statement in {
            "column": """SELECT column_name, table_name, data_type, character_maximum_length, is_nullable,
                column_default, is_identity FROM information_schema.columns WHERE table_schema = 'public'""",
            "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
            "constraint": """SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
                WHERE connamespace = 'public'::regnamespace""",
            "trigger": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
            "function": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
            "relation": "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace",
        }.items()
        for row in _query(place, statement)
    }


def _create_v0(place: str) -> None:
    driver = place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{place}"
    engine = sqlalchemy.create_engine(driver)
    v0.Base.metadata.create_all(engine)
    engine.dispose()
