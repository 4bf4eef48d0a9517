"""What adkweb cannot read is refused when it is opened, with the reason, and not changed."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, TERMINAL
from sessions_app.domain.errors import Invalid, NotAllowed, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import lists, views
from sessions_app.sources import adopt_job, adoption, database, online, registry
from sessions_app.sources.schema import CREATE_SQLITE, REAL_TYPES
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import Adk
from tests.management.conftest import run

Open = Callable[..., str]
VALUES = {"sessions": "state", "user_states": "state", "app_states": "state", "events": "event_data"}
JAVA = {  # PostgreSQL's tables of adk-java, some columns of events left out
    "sessions": "app_name text, user_id text, id text, state jsonb, create_time timestamp, update_time timestamp",
    "user_states": "app_name text, user_id text, state jsonb, update_time timestamp",
    "app_states": "app_name text, state jsonb, update_time timestamp",
    "events": """id text, app_name text, user_id text, session_id text, invocation_id text, author text, actions jsonb,
        timestamp timestamp, content jsonb""",
}
ALTERED = {"bigint": "extract(epoch FROM {})::bigint", "text": "{}::text", "date": "{}::date"}


def encrypted(backend: int) -> str:
    """A value as adk-secure-sessions 1.3 stores it: base64 of the version, the backend (1 Fernet, 2 AES-GCM), the secret."""
    secret = base64.urlsafe_b64encode(b"\x80" + os.urandom(120)) if backend == 1 else os.urandom(120)
    return base64.b64encode(bytes([1, backend]) + secret).decode()


def filled(form: str, place: str, sessions: int = 1) -> None:
    """Google-adk's own database, with sessions of an event each."""
    adk = Adk(form, place)
    for number in range(sessions):
        adk.append(adk.create(f"s{number}", {"user:tier": "gold"}), "hello", step="pay")
    adk.close()


def change(file: str, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def encrypt(file: str, backend: int) -> None:
    """Makes all values of a SQLite file encrypted ones."""
    with closing(sqlite3.connect(file)) as db:
        db.create_function("encrypted", 0, lambda: encrypted(backend))
        for table, column in VALUES.items():
            db.execute(f"UPDATE {table} SET {column} = encrypted()")
        db.commit()


@pytest.mark.parametrize("backend", [1, 2], ids=["fernet", "aes-gcm"])
def test_an_encrypted_database_is_refused_with_what_to_do_and_not_changed(
    new_database: Callable[[str], str], open_source: Open, tmp_path: Path, backend: int
) -> None:
    file = new_database("sqlite-database")
    filled("sqlite-database", file)
    encrypt(file, backend)
    before = Path(file).read_bytes()
    with pytest.raises(SourceError, match=r"are encrypted.*copy\s+them into an unencrypted database"):
        open_source(file)
    code, out, _errors = run(tmp_path, "doctor", file)
    assert code == 1
    assert "are encrypted" in out
    assert "elete" not in out
    assert run(tmp_path, "create", "new.db")[0] == 0
    code, _out, errors = run(tmp_path, "import", file, "--into", "new.db")
    assert (code, "is encrypted" in errors) == (2, True)
    assert Path(file).read_bytes() == before


def test_one_that_was_adopted_before_can_be_released(new_database: Callable[[str], str], tmp_path: Path) -> None:
    file = new_database("sqlite-database")
    filled("sqlite-database", file)
    assert run(tmp_path, "adopt", file)[0] == 0
    encrypt(file, 2)
    assert run(tmp_path, "adopt", file)[0] == 2
    assert run(tmp_path, "release", file)[0] == 0
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'adkweb%'").fetchone() == (0,)


def test_a_few_encrypted_values_among_others_are_named_and_nobody_is_told_to_delete_them(
    new_database: Callable[[str], str], open_source: Open, tmp_path: Path
) -> None:
    file = new_database("sqlite")
    filled("sqlite", file, sessions=4)
    change(file, f"UPDATE events SET event_data = '{encrypted(1)}' WHERE session_id = 's0'")
    change(file, f"UPDATE sessions SET state = '{encrypted(2)}' WHERE id = 's0'")
    with pytest.raises(Invalid, match="encrypted"):
        views.session(SessionRef(open_source(file), "booking", "ana", "s0"), actor=SYSTEM)
    code, out, _errors = run(tmp_path, "doctor", file)
    assert code == 1
    assert "1 of the newest 4 events are encrypted: booking/ana/s0" in out
    assert "Delete" not in out


def test_encrypted_values_on_postgresql_are_refused(new_database: Callable[[str], str], open_source: Open) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    with psycopg.connect(url, autocommit=True) as db:
        for table, column in VALUES.items():
            db.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text".encode())
            db.execute(f"UPDATE {table} SET {column} = %s".encode(), [encrypted(1)])
    with pytest.raises(SourceError, match="are encrypted"):
        open_source(url)
    with psycopg.connect(url) as db:
        added = db.execute(
            "SELECT column_name FROM information_schema.columns WHERE column_name IN ('seq', 'initial_state')"
        )
        assert added.fetchall() == []


@pytest.mark.parametrize("kind", ALTERED)
def test_times_of_an_unknown_type_are_refused_on_postgresql(
    new_database: Callable[[str], str], open_source: Open, kind: str
) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    with psycopg.connect(url, autocommit=True) as db:
        how = ALTERED[kind].format("timestamp")
        db.execute(f"ALTER TABLE events ALTER COLUMN timestamp TYPE {kind} USING {how}".encode())
    with pytest.raises(SourceError, match=rf"events\.timestamp is {kind}, which neither"):
        open_source(url)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE events SET timestamp = CAST(strftime('%s', timestamp) AS integer)", "several formats"),
        ("UPDATE sessions SET update_time = 1795312861668", "several formats"),
        ("UPDATE app_states SET update_time = x'00'", "several formats"),
    ],
)
def test_times_that_google_adk_does_not_write_are_refused_on_sqlite(
    new_database: Callable[[str], str], open_source: Open, statement: str, reason: str
) -> None:
    file = new_database("sqlite-database")
    filled("sqlite-database", file)
    change(file, statement)
    before = Path(file).read_bytes()
    with pytest.raises(SourceError, match=reason):
        open_source(file)
    assert Path(file).read_bytes() == before


@pytest.mark.parametrize("value", ["1795312861", "1795312861.5"], ids=["whole", "fraction"])
def test_seconds_in_columns_for_text_are_refused(
    new_database: Callable[[str], str], open_source: Open, value: str
) -> None:
    file = new_database("sqlite-database")
    filled("sqlite-database", file)
    change(
        file,
        f"UPDATE events SET timestamp = {value}",
        f"UPDATE sessions SET create_time = {value}, update_time = {value}",
        f"UPDATE app_states SET update_time = {value}",
        f"UPDATE user_states SET update_time = {value}",
    )
    with pytest.raises(SourceError, match="from an unknown program"):
        open_source(file)


def test_columns_of_another_type_are_refused_on_sqlite(new_database: Callable[[str], str], open_source: Open) -> None:
    file = new_database("sqlite")
    filled("sqlite", file)
    change(
        file, "ALTER TABLE app_states DROP COLUMN update_time", "ALTER TABLE app_states ADD COLUMN update_time BIGINT"
    )
    with pytest.raises(SourceError, match=r"app_states\.update_time is BIGINT"):
        open_source(file)


def test_timestamps_with_a_time_zone_are_google_adks_where_its_events_say_seconds(
    new_database: Callable[[str], str], open_source: Open
) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER TABLE events ALTER COLUMN timestamp TYPE timestamptz")
    assert connections.databases[open_source(url)]["ADKWEB"]["milliseconds"] is False


def test_adk_javas_database_is_called_by_its_name(
    new_database: Callable[[str], str], open_source: Open, tmp_path: Path
) -> None:
    url = new_database("postgresql")
    with psycopg.connect(url, autocommit=True) as db:
        for table, columns in JAVA.items():
            db.execute(f"CREATE TABLE {table} ({columns})".encode())
    with pytest.raises(SourceError, match="This is an adk-java database, which adkweb can neither open nor import"):
        open_source(url)
    assert run(tmp_path, "create", "new.db")[0] == 0
    code, _out, errors = run(tmp_path, "import", url, "--into", "new.db")
    assert (code, "This is an adk-java database, which adkweb can neither open nor import" in errors) == (2, True)


# --- Tables that others have changed ----------------------------------------------------------------------------------


def on_server(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)  # type: ignore[call-overload]


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@")


JSON = (("sessions", "state"), ("events", "event_data"), ("app_states", "state"), ("user_states", "state"))


@pytest.mark.parametrize(
    "changed",
    [
        [f"ALTER TABLE {table} ALTER {column} TYPE json" for table, column in JSON],
        ["ALTER TABLE sessions ALTER state TYPE json"],
        ["CREATE DOMAIN name128 AS varchar(128)", "ALTER TABLE app_states ALTER app_name TYPE name128"],
    ],
)
def test_a_column_that_some_statements_cannot_use_is_named_with_what_changes_it(
    changed: list[str], new_database: Callable[[str], str], open_source: Open
) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    on_server(url, *changed)
    with pytest.raises(SourceError, match=r"ALTER TABLE .* TYPE .* USING") as refused:
        open_source(url)
    on_server(url, *re.findall(r"ALTER TABLE [^;]*;", refused.value.message))
    alias = open_source(url)
    ref = create_session(alias, "booking", "ana", actor=SYSTEM, state={"user:n": 1})
    append_event(ref, {"author": "user", "invocation_id": "i", "actions": {"state_delta": {"n": 2}}}, actor=SYSTEM)
    assert views.session(ref, actor=SYSTEM).state.session == {"n": 2}


def test_every_type_that_is_accepted_works(new_database: Callable[[str], str], open_source: Open) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    times = (("sessions", "create_time"), ("sessions", "update_time"), ("app_states", "update_time"))
    on_server(
        url,
        "ALTER TABLE events ALTER id TYPE text, ALTER invocation_id TYPE varchar",
        "ALTER TABLE sessions ALTER id TYPE varchar(500), ALTER user_id TYPE text",
        *(f"ALTER TABLE {table} ALTER {column} TYPE timestamptz(3)" for table, column in times),
    )
    alias = open_source(url)
    ref = create_session(alias, "booking", "ana", actor=SYSTEM, state={"user:n": 1})
    append_event(ref, {"author": "user", "invocation_id": "i", "actions": {"state_delta": {"n": 2}}}, actor=SYSTEM)
    assert views.session(ref, actor=SYSTEM).state.session == {"n": 2}
    assert len(lists.sessions(alias, "booking", actor=SYSTEM).rows) == 2


@pytest.mark.guarantee(
    "Databases and files",
    "If the database user can't see ADK's tables, opening the database creates no tables, and adkweb says "
    "which permission is missing.",
)
@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["REVOKE ALL ON SCHEMA public FROM public"], "GRANT USAGE ON SCHEMA public TO looker; GRANT SELECT ON ALL"),
        (["GRANT SELECT ON sessions, events TO looker"], "GRANT SELECT ON app_states, user_states TO looker;"),
        (
            ["CREATE SCHEMA agent_a", *(f"ALTER TABLE {table} SET SCHEMA agent_a" for table, _column in JSON)],
            "GRANT USAGE ON SCHEMA agent_a TO looker",
        ),
        (
            [
                *("CREATE SCHEMA agent_a", "GRANT USAGE ON SCHEMA agent_a TO looker"),
                *(f"ALTER TABLE {table} SET SCHEMA agent_a" for table, _column in JSON),
            ],
            r"in a schema that this address doesn't name: agent_a\. Add one to the address: \?search_path=agent_a",
        ),
        (
            [*(f"DROP TABLE {table} CASCADE" for table, _column in JSON), "REVOKE ALL ON SCHEMA public FROM public"],
            "can't use any schema.*GRANT USAGE ON SCHEMA public TO looker",
        ),
    ],
)
def test_who_cannot_see_the_tables_is_told_what_is_missing_and_nothing_is_made(
    statements: list[str], said: str, new_database: Callable[[str], str], open_source: Open
) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    on_server(url, "DROP TABLE IF EXISTS adk_internal_metadata", "CREATE ROLE looker LOGIN", *statements)
    try:
        with pytest.raises(SourceError, match=said):
            open_source(as_role(url, "looker"))
        with psycopg.connect(url) as db:
            made = db.execute("SELECT 1 FROM pg_class WHERE relowner = 'looker'::regrole").fetchall()
        assert made == []
    finally:
        on_server(url, "DROP OWNED BY looker", "DROP ROLE looker")


def test_an_empty_schema_that_the_address_names_is_empty_whatever_others_have(
    new_database: Callable[[str], str], open_source: Open
) -> None:
    url = new_database("postgresql")
    filled("postgresql", url)
    on_server(url, "CREATE SCHEMA agent_b")
    assert lists.apps(open_source(f"{url}?search_path=agent_b"), actor=SYSTEM).rows == []


@pytest.mark.parametrize("odd", [0, 60, 119])
def test_one_time_in_milliseconds_refuses_no_file_wherever_it_is(
    odd: int, new_database: Callable[[str], str], open_source: Open
) -> None:
    file = new_database("sqlite")
    with closing(sqlite3.connect(file)) as db:
        for statement in CREATE_SQLITE:
            db.execute(statement.format(**REAL_TYPES))
        at = 1_790_000_000.0
        db.execute("INSERT INTO sessions VALUES ('booking', 'ana', 's1', '{}', ?, ?)", [at, at])
        for n in range(120):
            moment = (at + n) * 1000 if n == odd else at + n
            event = {"id": f"e{n}", "author": "user", "invocation_id": "i", "timestamp": moment}
            db.execute(
                "INSERT INTO events VALUES (?, 'booking', 'ana', 's1', 'i', ?, ?)", [f"e{n}", moment, json.dumps(event)]
            )
            db.execute("UPDATE sessions SET update_time = ?", [moment])
        db.commit()
    alias = open_source(file)
    ref = SessionRef(alias, "booking", "ana", "s1")
    assert views.session(ref, actor=SYSTEM).ref == ref
    append_event(ref, {"author": "user", "invocation_id": "j", "actions": {"state_delta": {"n": 2}}}, actor=SYSTEM)
    assert views.session(ref, actor=SYSTEM).state.session == {"n": 2}


@pytest.mark.guarantee(
    "Databases and files",
    "adkweb shows the contents of tables with an unknown version of ADK's schema, but writes to them only "
    "after someone has approved this.",
)
@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
def test_an_unknown_version_of_the_schema_is_shown_and_written_only_after_a_yes(
    form: str, new_database: Callable[[str], str], open_source: Open, tmp_path: Path
) -> None:
    address = new_database(form)
    filled(form, address)
    newer = "UPDATE adk_internal_metadata SET value = '2' WHERE key = 'schema_version'"
    if form == "postgresql":
        on_server(address, newer)
    else:
        change(address, newer)
    alias = open_source(address)  # as DjangoSessionService opens it
    ref = SessionRef(alias, "booking", "ana", "s0")
    assert views.session(ref, actor=SYSTEM).ref == ref
    with pytest.raises(NotAllowed, match=r"version 2 of ADK's schema.* adkweb adopt --yes"):
        append_event(ref, {"author": "user", "invocation_id": "i"}, actor=SYSTEM)
    adopt_job.go_on()
    assert not database.is_begun(alias)
    database.forget(alias)
    code, _out, errors = run(tmp_path, "adopt", address)
    assert (code, "adkweb adopt --yes" in errors) == (2, True)
    assert run(tmp_path, "adopt", "--yes", address)[0] == 0
    append_event(ref._replace(source=open_source(address)), {"author": "user", "invocation_id": "i"}, actor=SYSTEM)


@pytest.mark.guarantee(
    "Databases and files",
    "adkweb shows the contents of tables with an unknown version of ADK's schema, but writes to them only "
    "after someone has approved this.",
)
@pytest.mark.django_db
@pytest.mark.parametrize("form", ["sqlite-database", "postgresql"])
@pytest.mark.parametrize("again", [False, True])
def test_a_source_that_was_adopted_and_becomes_an_unknown_version_waits_for_a_yes_too(
    form: str, again: bool, new_database: Callable[[str], str], open_source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_database(form)
    filled(form, address)
    alias = open_source(address)
    ref = SessionRef(alias, "booking", "ana", "s0")
    append_event(ref, {"author": "user", "invocation_id": "i"}, actor=SYSTEM)
    (on_server if form == "postgresql" else change)(
        address, "UPDATE adk_internal_metadata SET value = '2' WHERE key = 'schema_version'"
    )
    if again:
        database.forget(alias)
        ref = ref._replace(source=open_source(address))
    else:
        monkeypatch.setattr(database, "VERSION_SECONDS", 0.0)
        database.versions_due.clear()
    with pytest.raises(NotAllowed, match=r"version 2 of ADK's schema.* adkweb adopt --yes"):
        append_event(ref, {"author": "user", "invocation_id": "i"}, actor=SYSTEM)
    assert views.session(ref, actor=SYSTEM).ref == ref
    with pytest.raises(Invalid, match="First, confirm that adkweb may write to this schema version"):
        adopt_job.start(ref.source, TERMINAL)
    adopt_job.start(ref.source, TERMINAL, agreed=True)
    append_event(ref, {"author": "user", "invocation_id": "i"}, actor=SYSTEM)
    online.release(ref.source)
    assert not adoption.inspect(ref.source).agreed  # releasing leaves nothing


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql+pymysql://ana:pw@host/agents", "HttpSessionService.*adkweb import"),
        ("redis://host:6379/0", "HttpSessionService"),
        ("agentengine://123", "adkweb create new.db, then adkweb import"),
        ("adkweb://host:8000", "This is an address for agents"),
    ],
)
def test_who_keeps_sessions_elsewhere_is_told_what_can_be_done(url: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        registry.add(url)
