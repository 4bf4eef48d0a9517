"""Behind a pooler in transaction mode, everything works as without one."""

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from django.db import connections, transaction
from pytest_django.fixtures import Settings

import sessions_app
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import timeline, whole_session
from sessions_app.sources import adoption, database, registry
from sessions_app.sources.dialect import each_row
from sessions_app.sources.locks import alone, briefly
from sessions_app.transfer.formats.opened import opened
from sessions_app.transfer.items import Fault
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.pooler import pooler

MANY = 8  # more than the statements after which psycopg prepares one, and than the pooler's connections


@pytest.fixture
def pooled(new_store: Callable[[str], str]) -> Iterator[str]:
    """Returns the URL of a pooler before an empty, adopted database."""
    with pooler(new_store("postgresql")) as url:
        yield url


def event(n: int) -> dict[str, object]:
    return {"author": "agent", "invocation_id": "i", "actions": {"state_delta": {"n": n, "user:n": n}}}


def work(source: str, actor: Actor) -> SessionRef:
    """Creates, appends and reads, often enough for statements to be prepared."""
    ref = create_session(source, "app", "ana", actor=actor, session_id="s1")
    for n in range(MANY):
        append_event(ref, event(n), actor=actor)
        assert len(timeline.events(ref, actor=SYSTEM).rows) == n + 1
    return ref


@pytest.mark.guarantee(
    "Writing",
    "Behind a pooler in transaction mode, reading, writing and adopting work just as they do without a pooler.",
)
@pytest.mark.parametrize("setting", [None, False], ids=["by default", "ADKWEB_PREPARED_STATEMENTS=false"])
def test_sessions_are_read_and_written_through_a_pooler(
    pooled: str, open_source: Callable[[str], str], actor: Actor, settings: Settings, setting: bool | None
) -> None:
    settings.PREPARED_STATEMENTS = setting
    work(open_source(pooled), actor)


def test_where_a_pooler_is_denied_an_append_notices_it_and_is_written_all_the_same(
    pooled: str, open_source: Callable[[str], str], actor: Actor, settings: Settings
) -> None:
    settings.PREPARED_STATEMENTS = True
    source = open_source(pooled)
    work(source, actor)
    assert connections.databases[source]["ADKWEB"]["prepares"] is False


def test_in_a_transaction_one_request_fails_and_the_next_works(
    pooled: str, open_source: Callable[[str], str], settings: Settings
) -> None:
    settings.PREPARED_STATEMENTS = True
    source = open_source(pooled)

    def reads() -> int:
        with database.using(source) as db, transaction.atomic(using=source), db.cursor() as cursor:
            for n in range(MANY):
                cursor.execute("SELECT %s::int", [n])
            return n

    reads()  # the server's connection is the same throughout a transaction
    with pytest.raises(SourceError, match="prepared statement"):
        reads()
    for _ in range(MANY):
        assert reads() == MANY - 1


def test_read_only_opens_through_a_pooler_and_reads(
    pooled: str, open_source: Callable[[str], str], actor: Actor, settings: Settings
) -> None:
    ref = work(open_source(pooled), actor)
    database.forget(ref.source)
    settings.READ_ONLY = True
    assert open_source(pooled) == ref.source
    assert len(timeline.events(ref, actor=SYSTEM).rows) == MANY
    _session, pages = whole_session.stream(ref, actor=SYSTEM) or (None, [])
    assert sum(map(len, pages)) == MANY


@pytest.mark.guarantee("Writing", "With `--read-only` or a read-only source URL, adkweb doesn't write anything.")
@pytest.mark.parametrize("through", [True, False], ids=["through a pooler", "directly"])
@pytest.mark.parametrize("within", [True, False], ids=["in a transaction", "outside of one"])
@pytest.mark.parametrize("statement", ["DELETE FROM events", "CREATE TABLE t (a int)", "SELECT nextval('adkweb_seq')"])
def test_read_only_is_kept_by_the_server_itself(
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
    settings: Settings,
    through: bool,
    within: bool,
    statement: str,
) -> None:
    settings.READ_ONLY = True
    url = new_store("postgresql")
    with pooler(url) if through else nullcontext(url) as address:
        source = open_source(address)
        for _ in range(MANY):  # whichever connection comes next
            with (
                pytest.raises(SourceError, match="read-only transaction"),
                database.using(source) as db,
                transaction.atomic(using=source) if within else nullcontext(),
                db.cursor() as cursor,
            ):
                cursor.execute(statement)
        with database.using(source) as db, db.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM events WHERE id <> %s AND id NOT LIKE '%%x'", ["a"])
            assert cursor.fetchone() == (0,)
            assert cursor.rowcount == 1
        for _ in range(MANY):
            with (
                pytest.raises(SourceError, match="read-only transaction"),
                database.using(source),
                transaction.atomic(using=source) if within else nullcontext(),
            ):
                list(each_row(source, f"{statement} RETURNING 1" if "DELETE" in statement else statement, []))
        for write in ("executemany", "copy"):
            with (
                pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
                database.using(source) as db,
                db.cursor() as cursor,
            ):
                getattr(cursor.cursor, write)(statement, [])


def test_a_database_with_events_is_adopted_through_a_pooler(
    new_database: Callable[[str], str], open_source: Callable[[str], str], actor: Actor
) -> None:
    plain = new_database("postgresql")
    (unadopted,) = registry.add(plain)
    adoption.create(unadopted.alias, "database")
    database.forget(unadopted.alias)
    with psycopg.connect(plain) as connection:
        connection.execute(
            """INSERT INTO sessions SELECT 'app', 'ana', 's' || n, '{}', now(), now() FROM generate_series(1, 20) AS n"""
        )
        connection.execute(
            """INSERT INTO events SELECT 'e' || n, 'app', 'ana', 's' || n % 20 + 1, 'i', now(),
            jsonb_build_object('id', 'e' || n, 'author', 'agent', 'invocation_id', 'i', 'timestamp', 1.0)
            FROM generate_series(1, 3000) AS n"""
        )
    with pooler(plain) as url:
        source = open_source(url)
        assert database.is_adopted(source)
        append_event(SessionRef(source, "app", "ana", "s1"), event(1), actor=actor)


def test_a_database_is_imported_through_a_pooler(pooled: str, open_source: Callable[[str], str], actor: Actor) -> None:
    work(open_source(pooled), actor)
    with opened(pooled) as imported:
        assert imported.rows("SELECT count(*) AS n FROM events WHERE app_name = %s", "app") == [{"n": MANY}]
        with pytest.raises(Fault, match="read-only transaction"):
            imported.rows("DELETE FROM events")


@pytest.mark.guarantee(
    "Writing",
    "Behind a pooler in transaction mode, reading, writing and adopting work just as they do without a pooler.",
)
def test_no_setting_is_left_on_the_servers_connections(
    new_store: Callable[[str], str], open_source: Callable[[str], str], actor: Actor
) -> None:
    names = (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "default_transaction_read_only",
    )
    with pooler(new_store("postgresql")) as url, psycopg.connect(url, autocommit=True) as other:

        def settings() -> set[tuple[str, ...]]:
            shown = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
            return {other.execute(shown, prepare=False).fetchone() or () for _ in range(MANY)}

        before = settings()
        source = open_source(url)
        with alone(source, lambda progress: None):
            briefly(source, ["ANALYZE events"])
        work(source, actor)
        assert settings() == before


# What a pooler forgets, or shows to others. Each place that may have one says why.
KEPT_BY_A_CONNECTION = re.compile(
    r"""["';]\s*(?:SET\ (?!LOCAL|TRANSACTION|CONSTRAINTS)|RESET\ |LISTEN\ |CREATE\ TEMP)|pg_(?:try_)?advisory_lock
    |set_config\([^)]*false|\.iterator\(|\.chunked_cursor\(""",
    re.VERBOSE,
)
MAY_BE = {
    ("reads/event_views.py", ".iterator("),  # SQLite's rows
    # A connection of its own, without a pooler.
    ("sources/online_postgresql.py", "set_config('lock_timeout', '0', false"),
    ("sources/online_postgresql.py", "set_config('statement_timeout', '0', false"),
}


def test_the_code_keeps_nothing_in_a_connection() -> None:
    code = Path(sessions_app.__file__).parent
    kept = {
        (str(path.relative_to(code)), match[0].strip())
        for path in code.rglob("*.py")
        if "migrations" not in path.parts
        for match in KEPT_BY_A_CONNECTION.finditer(path.read_text())
    }
    assert kept == MAY_BE


@pytest.mark.parametrize(
    "code",
    [
        'execute("SET statement_timeout = 0")',
        'execute(f"SET lock_timeout TO {n}")',
        'execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")',
        'execute("RESET statement_timeout")',
        "execute(\"SELECT set_config('statement_timeout', '0', false)\")",
        'execute("SELECT pg_advisory_lock(1)")',
        'execute("SELECT pg_try_advisory_lock(1)")',
        'execute("LISTEN news")',
        'execute("CREATE TEMP TABLE t (a int)")',
        "Event.objects.iterator()",
    ],
)
def test_that_test_finds_what_it_looks_for(code: str) -> None:
    assert KEPT_BY_A_CONNECTION.search(code)


@pytest.mark.parametrize(
    "code",
    [
        'execute("SET LOCAL lock_timeout = 5")',
        'execute("UPDATE t SET a = 1")',
        'execute("SET CONSTRAINTS ALL IMMEDIATE")',
    ],
)
def test_and_nothing_else(code: str) -> None:
    assert not KEPT_BY_A_CONNECTION.search(code)
