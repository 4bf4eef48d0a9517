"""`adkweb doctor` finds each thing that can be wrong, says what to do about it, and is content with what is right."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, Change
from sessions_app.history.drift import own
from sessions_app.sources import adoption, database, online, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import Adk, key_of
from tests.artifacts.saving import Saving, cloud
from tests.management.conftest import PROGRAM, run
from tests.servers import PostgreSQL, Valkey
from tests.support.stored import execute
from tests.web.conftest import DEMO

Open = Callable[..., str]
Agent = Callable[[str, str], Adk]


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[PostgreSQL]:
    """A server as durable as one in production, which those of other tests are not."""
    with PostgreSQL(fsync=True) as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A whole, adopted store."""
    return Path(shutil.copy(DEMO, tmp_path / "agent.db"))


def findings(tmp_path: Path, *words: str | Path, **settings: str) -> tuple[int, list[str]]:
    """The exit code, and every line that is no ✓."""
    code, out, errors = run(tmp_path, "doctor", *words, **settings)
    assert errors == ""
    lines = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    assert code == int(any(line.startswith("✗") for line in lines))
    return code, [line for line in lines if not line.startswith("✓")]


def change(file: Path, *statements: str) -> None:
    """As another program would."""
    with closing(sqlite3.connect(file)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


# --- What is well -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ready")
def test_a_healthy_machine_and_stores_of_every_format_are_content_and_untouched(
    tmp_path: Path, form: str, new_database: Callable[[str], str], agent: Agent, open_source: Open
) -> None:
    place = new_database(form)
    adk = agent(form, place)
    session = adk.create("s1", {"a": 1, "user:u": 1, "gone": [1.5, {"x": None}]})
    for number in range(5):
        adk.append(session, f"{number}", n=number, app__p=number, gone=None)
    alias = open_source(place)
    ref = key_of(alias)
    event = {"author": "system", "actions": {"state_delta": {"gone": None}}}
    append_event(
        ref,
        {**event, "custom_metadata": {"adkweb": {"removed": ["gone"]}}},
        actor=Actor.holding("maria", "admin"),
        origin="person",
    )
    assert findings(tmp_path, place, "--drift") == (0, [])


def test_a_new_machine_and_a_store_not_yet_adopted_are_nothing_wrong(
    tmp_path: Path, form: str, new_database: Callable[[str], str], agent: Agent
) -> None:
    place = new_database(form)
    adk = agent(form, place)
    adk.append(adk.create("s1"), "hello", n=1)
    before = None if "://" in place else Path(place).read_bytes()
    code, found = findings(tmp_path, place)
    assert code == 0
    assert "doesn't exist yet" in found[0]
    assert "isn't adopted" in found[1]
    assert before is None or Path(place).read_bytes() == before


def test_sources_of_the_settings_are_looked_at_where_none_is_named(tmp_path: Path, file: Path) -> None:
    code, out, _errors = run(tmp_path, "doctor", ADKWEB_SOURCES=json.dumps([str(file), "missing.db"]))
    assert code == 1
    assert "agent.db\n  ✓ opens: SQLite" in out
    assert "✗ No such file or folder: missing.db" in out


@pytest.mark.usefixtures("ready")
def test_to_look_for_drift_nowhere_is_told_and_fails(tmp_path: Path, file: Path) -> None:
    code, (told,) = findings(tmp_path, "--drift")
    assert code == 1
    assert "no source was named" in told
    assert "adkweb doctor --drift SOURCE" in told
    assert "ADKWEB_SOURCES" in told
    assert findings(tmp_path) == (0, [])
    assert "no source" not in str(findings(tmp_path, "--drift", ADKWEB_SOURCES=json.dumps([str(file)])))


# --- Durability -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ready")
def test_events_without_a_session_are_counted_with_what_deletes_them(tmp_path: Path, file: Path) -> None:
    assert not [line for line in findings(tmp_path, file)[1] if "have no session" in line]
    change(
        file,
        "INSERT INTO events SELECT 'o' || id, app_name, 'ghost', 'gone', invocation_id, timestamp, event_data FROM events",
    )
    _code, told = findings(tmp_path, file)
    (line,) = [line for line in told if "have no session" in line]
    assert re.match(r"! [\d,]+ events have no session: [\d,]+ of \w+", line)
    change(file, line.partition("To delete them: ")[2])
    assert not [line for line in findings(tmp_path, file)[1] if "have no session" in line]


@pytest.mark.usefixtures("ready")
def test_a_server_that_acknowledges_before_it_writes_is_told_with_what_that_can_lose(
    tmp_path: Path, open_source: Open
) -> None:
    with PostgreSQL(fsync=False) as server:
        place = server.create_database("hasty")
        database.forget(open_source(place))
        code, found = findings(tmp_path, place)
    assert code == 0
    assert [line.split(" is off: ")[0] for line in found] == ["! fsync", "! full_page_writes", "! synchronous_commit"]
    assert "can lose events that were acknowledged, and leave the database damaged" in found[0]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("whose", "named"),
    [
        ("ROLE {other}", "! synchronous_commit is off for the role {other}: a crash of the server loses what"),
        ("ROLE {other} IN DATABASE {database}", "! synchronous_commit is off for the role {other}: "),
        ("DATABASE {database}", "! synchronous_commit is off: a crash of the server loses what"),  # adkweb's own, too
        ("ROLE {other} IN DATABASE postgres", ""),
    ],
)
def test_so_is_one_that_does_it_for_an_agents_role_or_in_this_database(
    tmp_path: Path, postgresql_server: PostgreSQL, open_source: Open, whose: str, named: str
) -> None:
    names = {"other": f"agent{uuid.uuid4().hex[:8]}", "database": f"d{uuid.uuid4().hex[:8]}"}
    place = postgresql_server.create_database(names["database"])
    database.forget(open_source(place))
    with psycopg.connect(postgresql_server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE {other}".format(**names))
        connection.execute(f"ALTER {whose} SET synchronous_commit = off".format(**names))
        try:
            code, found = findings(tmp_path, place)
        finally:
            connection.execute(f"ALTER {whose} RESET synchronous_commit".format(**names))
    assert code == 0
    assert len(found) == bool(named)
    assert not named or found[0].startswith(named.format(**names))


# --- adkweb's own -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("settings", "code", "sentence"),
    [
        ({"ADKWEB_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"}, 1, "own database (ADKWEB_DATABASE_URL) cannot"),
        ({"ADKWEB_ALLOWED_HOSTS": "adkweb.example.com"}, 1, "no one could sign in there: adkweb createsuperuser"),
        ({"ADKWEB_ALLOWED_HOSTS": "https://127.0.0.1"}, 1, "“https://127.0.0.1” matches no request"),
        ({"ADKWEB_ALLOWED_HOSTS": "127.0.0.1:8000"}, 1, "“127.0.0.1:8000” matches no request"),
        ({"ADKWEB_ALLOWED_HOSTS": "*"}, 1, "requests for any host name are answered"),
        ({"ADKWEB_TRUSTED_ORIGINS": "localhost"}, 1, "needs its scheme"),
        ({"ADKWEB_TRUSTED_ORIGINS": "https://a.example.com"}, 1, "ADKWEB_ALLOWED_HOSTS lacks a.example.com"),
        ({"ADKWEB_REDIS_URL": "redis://127.0.0.1:1"}, 1, "The Redis of ADKWEB_REDIS_URL does not answer"),
        ({"ADKWEB_REDIS_URL": "nonsense"}, 1, "The Redis of ADKWEB_REDIS_URL does not answer"),
        ({"ADKWEB_DEBUG": "1"}, 0, "ADKWEB_DEBUG is on"),
        ({"ADKWEB_SILENCE_SECONDS": "0"}, 1, "ADKWEB_SILENCE_SECONDS is 0.0"),
        ({"ADKWEB_SILENCE_SECONDS": "5"}, 0, "a model that thinks longer"),
        ({"ADKWEB_SETTLE_SECONDS": "-1"}, 1, "ADKWEB_SETTLE_SECONDS is -1.0"),
        ({"ADKWEB_SETTLE_SECONDS": "900"}, 0, "queued edits wait very long"),
        ({"ADKWEB_POOL_SIZE": "0"}, 1, "ADKWEB_POOL_SIZE is 0"),
        ({"ADKWEB_DATA_DIR": "/dev/null/x", "ADKWEB_SECRET_KEY": "k" * 50}, 1, "data directory /dev/null/x cannot be"),
    ],
    ids=str,
)
def test_a_setting_that_does_not_work_is_named(
    tmp_path: Path, settings: dict[str, str], code: int, sentence: str
) -> None:
    ended, found = findings(tmp_path, **settings)
    assert sentence in "\n".join(found)
    assert ended == code


@pytest.mark.usefixtures("ready")
def test_the_folders_of_artifacts_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "kept" / "apps").mkdir(parents=True)
    (tmp_path / "none").mkdir()
    named = {"a": str(tmp_path / "kept"), "b": str(tmp_path / "none"), "*": str(tmp_path / "ghost")}
    code, told = findings(tmp_path, ADKWEB_ARTIFACTS=json.dumps(named))
    assert code == 1
    about = [line for line in told if "ADKWEB_ARTIFACTS" in line]
    assert [line[0] for line in about] == ["✗", "!"]
    assert "ghost, which isn't a folder" in about[0]
    assert "none, which has no folder `apps`" in about[1]


@pytest.mark.usefixtures("ready")
def test_a_bucket_of_artifacts_is_asked(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(bucket: str, **variables: str) -> str:
        return " ".join(findings(tmp_path, ADKWEB_ARTIFACTS=bucket, **variables)[1])

    with cloud(settings, monkeypatch) as bucket:
        here = {"STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
        assert "gs://kept, which is empty" in told(bucket, **here)
        Saving(bucket).save(SessionRef("lite", "booking", "ana", "s1"), "plan.txt", "text")
        assert "gs://" not in told(bucket, **here)
        assert "✗ ADKWEB_ARTIFACTS names gs://other, and there is no such bucket" in told("gs://other", **here)
    assert "gs://kept, which does not answer" in told(bucket, **here)


@pytest.mark.usefixtures("ready")
def test_a_bucket_without_credentials_or_the_library_is_named_with_what_to_do(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    settings = {"ADKWEB_ARTIFACTS": "gs://kept", "GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    assert "gcloud auth application-default login" in " ".join(findings(tmp_path, **settings)[1])
    missing = "import sys; sys.modules['google.cloud.storage'] = sys.modules['google.cloud'] = None\n"
    code, out, _errors = run(tmp_path, "doctor", program=missing + PROGRAM, **settings)
    assert (code, 'missing: pip install "adkweb[gcs]"' in out) == (1, True)


@pytest.mark.usefixtures("ready")
def test_a_redis_that_answers_and_an_account_are_well(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        "createsuperuser",
        "--noinput",
        "--username",
        "a",
        "--email",
        "a@example.com",
        DJANGO_SUPERUSER_PASSWORD="correct horse",
    )
    assert made[0] == 0
    with Valkey() as server:
        settings = {"ADKWEB_REDIS_URL": server.url, "ADKWEB_ALLOWED_HOSTS": "adkweb.example.com"}
        assert findings(tmp_path, **settings) == (0, [])


@pytest.mark.usefixtures("ready")
def test_a_folder_that_others_can_read_and_tables_that_wait_are_told(tmp_path: Path) -> None:
    (tmp_path / "data" / "an agent's own.db").touch()  # so that the folder is not adkweb's alone to close
    (tmp_path / "data").chmod(0o755)
    change(tmp_path / "data" / "adkweb.db", "DELETE FROM django_migrations WHERE app = 'sessions_app'")
    code, found = findings(tmp_path)
    assert code == 0
    assert re.search(r"lacks \d+ migrations: `adkweb migrate`, and every start of adkweb, applies them", found[0])
    assert f"{tmp_path / 'data'} is open to others of this machine (mode 755)" in found[1]
    assert len(found) == 2


# --- A store that is broken -------------------------------------------------------------------------------------------

EVENT = "UPDATE events SET event_data = {} WHERE rowid = (SELECT max(rowid) FROM events)"
BROKEN = [
    ("DROP INDEX adkweb_events_seq", "this was removed: adkweb_events_seq. adkweb adopt agent.db adds it again"),
    ("DROP TRIGGER adkweb_keep_initial_state", "removed: adkweb_keep_initial_state"),
    ("DROP TABLE app_states", "the table “app_states” has no app_name"),
    ("ALTER TABLE events RENAME COLUMN event_data TO actions", "ADK's old schema (v0)"),
    (EVENT.format("'no json'"), "1 of the newest 245 events cannot be loaded by google-adk, and with them"),
    (EVENT.format("'[]'"), "(event_data is not an object)"),
    (
        EVENT.format("json_set(event_data, '$.actions.surprise', 1)"),
        "(actions.surprise: ADK doesn't recognise this field",
    ),
    (
        """UPDATE sessions SET state = '{"adkweb:importing": true}' WHERE id = 'seoul-trip'""",
        "1 sessions are partly imported: booking/ana/seoul-trip",
    ),
    (
        "UPDATE sessions SET state = json_set(state, '$.searches', 99) WHERE id = 'seoul-trip'",
        "booking/ana/seoul-trip (searches: 99, by its events 3)",
    ),
]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(("statement", "sentence"), BROKEN, ids=[sentence[:30] for _statement, sentence in BROKEN])
def test_a_fault_of_a_store_is_told(tmp_path: Path, file: Path, statement: str, sentence: str) -> None:
    change(file, statement)
    before = file.read_bytes()
    code, found = findings(tmp_path, file)
    assert code == 1
    assert len(found) == 1, found
    assert sentence in found[0]
    assert file.read_bytes() == before


@pytest.mark.usefixtures("ready")
def test_what_no_store_is_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but some text" * 100)
    (tmp_path / "empty.db").touch()
    (tmp_path / "folder").mkdir()
    change(tmp_path / "other.db", "CREATE TABLE things (x)")
    code, found = findings(tmp_path, "text.db", "empty.db", "other.db", "folder", "postgresql://nobody@127.0.0.1:1/x")
    assert code == 1
    assert [line[0] for line in found] == ["✗", "!", "✗", "!", "✗"]
    for line, sentence in zip(
        found,
        ("this isn't a SQLite database", "is empty", "This isn't an ADK database", "no .adk", "no server"),
        strict=True,
    ):
        assert sentence in line


@pytest.mark.usefixtures("ready")
def test_a_row_of_state_that_adk_needs_is_missed(
    tmp_path: Path, new_database: Callable[[str], str], agent: Agent, open_source: Open
) -> None:
    for form in ("sqlite-database", "postgresql"):
        place = new_database(form)
        adk = agent(form, place)
        session = adk.create("s1")
        alias = open_source(place)
        execute(alias, "DELETE FROM user_states")
        with pytest.raises(ValueError, match="User state missing"):
            adk.append(session, "refused")
        code, (line,) = findings(tmp_path, place)
        assert code == 1
        assert "1 rows are missing that DatabaseSessionService needs to append: booking/ana in user_states" in line
        event = {"author": "system", "actions": {"state_delta": {"user:x": 1}}}
        append_event(key_of(alias), event, actor=Actor.holding("maria", "admin"))  # as it is told
        assert findings(tmp_path, place) == (0, [])


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server_store(new_database: Callable[[str], str], agent: Agent, open_source: Open) -> str:
    """A whole, adopted store on PostgreSQL."""
    place = new_database("postgresql")
    adk = agent("postgresql", place)
    adk.append(adk.create("s1"), "hello", n=1)
    open_source(place)
    return place


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("statement", "lacking"),
    [
        ("DROP INDEX adkweb_events_tail", "adkweb_events_tail"),
        ("ALTER TABLE sessions DISABLE TRIGGER adkweb_keep_initial_state", "adkweb_keep_initial_state"),
        ("DROP FUNCTION adkweb_keep_initial_state CASCADE", "adkweb_keep_initial_state"),
        (
            "ALTER TABLE events DROP COLUMN seq",
            "events.seq, adkweb_events_seq, adkweb_events_tail, events.seq NOT NULL",
        ),
        ("ALTER TABLE sessions DROP COLUMN initial_state", "sessions.initial_state"),
    ],
)
def test_what_was_taken_away_is_named_and_adopt_adds_it_again(
    tmp_path: Path, server_store: str, statement: str, lacking: str
) -> None:
    with psycopg.connect(server_store) as db:
        db.execute(statement)
    code, found = findings(tmp_path, server_store)
    assert code == 1
    assert f"removed: {lacking}. adkweb adopt" in found[0]
    assert run(tmp_path, "adopt", server_store)[0] == 0
    assert findings(tmp_path, server_store) == (0, [])


@pytest.mark.usefixtures("ready")
def test_a_user_who_may_only_read_is_told_which_rights_are_missing(tmp_path: Path, server_store: str) -> None:
    with psycopg.connect(server_store) as db:
        db.execute("DROP ROLE IF EXISTS reader")
        db.execute("CREATE ROLE reader LOGIN")
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        db.execute("GRANT ALL ON app_states TO reader")
    as_reader = re.sub(r"//[^@]*@", "//reader@", server_store)
    try:
        code, (line,) = findings(tmp_path, as_reader)
        assert code == 0
        assert "this user can't write to events, sessions, user_states: GRANT" in line
    finally:
        with psycopg.connect(server_store) as db:
            db.execute("DROP OWNED BY reader")
            db.execute("DROP ROLE reader")


@pytest.mark.usefixtures("ready")
def test_a_clock_that_is_wrong_is_told(tmp_path: Path, server_store: str) -> None:
    wrong = f"import time; right = time.time; time.time = lambda: right() + 60; {PROGRAM}"
    code, out, _errors = run(tmp_path, "doctor", server_store, program=wrong)
    assert code == 0
    assert "! the server's clock is 60 s behind this machine's" in out
    assert run(tmp_path, "adopt", server_store)[0] == 0


# --- Drift ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session whose state many events made, in a source of each format."""
    ref = create_session(
        source, "app", "ana", actor=Actor.holding("a", "admin"), session_id="s1", state={"first": 1, "user:u": 1}
    )
    for number in range(100):
        event = {"author": "a", "actions": {"state_delta": {"n": number, "gone": None, "app:p": number, "temp:t": 1}}}
        append_event(
            ref,
            {**event, "custom_metadata": {"adkweb": {"removed": ["gone"]}}},
            actor=Actor.holding("a", "admin"),
            origin="person",
        )
    return ref


def test_a_state_that_events_make_has_no_drift(ref: SessionRef) -> None:
    assert own(ref, actor=SYSTEM).drifted == []


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ({"first": 1, "n": 98}, [Change("n", 99, 98)]),
        ({"first": 1, "n": 99, "other": None}, [Change("other", ABSENT, None)]),
        ({"n": 99}, [Change("first", 1, ABSENT)]),
        ({"first": True, "n": 99, "gone": None}, [Change("first", 1, True), Change("gone", ABSENT, None)]),
    ],
)
def test_every_key_that_differs_is_told(ref: SessionRef, state: dict[str, object], changes: list[Change]) -> None:
    execute(ref.source, "UPDATE sessions SET state = %s", [json.dumps(state)])
    assert [each.change for each in own(ref, actor=SYSTEM).drifted] == changes


def test_without_initial_state_only_what_events_wrote_is_compared(ref: SessionRef) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL, state = %s", ['{"n": 1, "before": 2}'])
    assert [each.change for each in own(ref, actor=SYSTEM).drifted] == [Change("n", 99, 1)]


@pytest.mark.usefixtures("ready")
def test_all_sessions_are_folded_only_when_asked_for(
    tmp_path: Path, new_database: Callable[[str], str], open_source: Open
) -> None:
    place = new_database("sqlite")
    alias = open_source(place)
    for number in range(102):
        create_session(
            alias, "app", "ana", actor=Actor.holding("a", "admin"), session_id=f"s{number:03}", state={"x": 1}
        )
    execute(alias, "UPDATE sessions SET state = '{}' WHERE id = 's000'")
    assert findings(tmp_path, place) == (0, [])
    code, (line,) = findings(tmp_path, place, "--drift")
    assert code == 1
    assert (
        "1 of 102 sessions have a state that their events do not make: app/ana/s000 (x: absent, by its events 1): "
        f"/s/{alias}/app/ana/s000/drift/. An update was lost"
    ) in line


@pytest.mark.usefixtures("ready")
def test_drift_of_what_sessions_share_is_suspected_once_a_user_and_once_an_app(
    tmp_path: Path, new_database: Callable[[str], str], open_source: Open, form: str
) -> None:
    place = new_database(form)
    alias = open_source(place)
    for user in ("ana", "omar"):
        for name in ("s1", "s2"):
            ref = create_session(alias, "app", user, actor=Actor.holding("a", "admin"), session_id=name)
            event = {"author": "a", "actions": {"state_delta": {"user:u": 1, "app:p": 1, "n": 1}}}
            append_event(ref, event, actor=Actor.holding("a", "admin"))
    assert findings(tmp_path, place, "--drift") == (0, [])
    execute(alias, "UPDATE app_states SET state = %s", ['{"p": 2}'])
    execute(alias, "UPDATE user_states SET state = %s WHERE user_id = 'omar'", ['{"u": 2}'])
    assert findings(tmp_path, place) == (0, [])
    code, (line,) = findings(tmp_path, place, "--drift")
    assert code == 0
    assert line.startswith("! user: or app: keys of 2 users and apps don't have the value that was last written")
    assert line.count("app (app:p: 2, by its events 1): /s/") == 1
    assert line.count("app/omar (user:u: 2, by its events 1): /s/") == 1
    assert "only a suspicion" in line


@pytest.mark.usefixtures("ready")
def test_a_name_that_is_hostile_moves_no_cursor(tmp_path: Path, file: Path) -> None:
    change(
        file,
        """UPDATE sessions SET id = char(27) || '[2J' || char(8238), state = '{"adkweb:importing": true}'
        WHERE id = 'seoul-trip'""",
        "UPDATE events SET session_id = char(27) || '[2J' || char(8238) WHERE session_id = 'seoul-trip'",
    )
    code, (line,) = findings(tmp_path, file)
    assert code == 1
    assert line.isprintable()


def test_released_and_adopted_in_part_ends_as_never_adopted(server_store: str) -> None:
    (source,) = registry.add(server_store)
    execute(source.alias, "DROP INDEX adkweb_events_seq")
    online.release(source.alias)
    assert "adkweb" not in json.dumps([name for name in adoption.missing(source.alias) if "." in name])
    assert len(adoption.missing(source.alias)) == 20
    online.add(source.alias)
    assert adoption.missing(source.alias) == []


def test_it_verifies_the_audit_and_names_the_first_row_that_was_altered(tmp_path: Path, ready: None) -> None:
    for name in ("one", "two", "three"):
        assert run(tmp_path, "token", "create", name, "--right", "read")[0] == 0
    own = tmp_path / "data" / "adkweb.db"
    code, out, _errors = run(tmp_path, "doctor", "--audit")
    assert (code, "All 3 rows of the audit are whole. Its head: 3 " in out) == (0, True)
    with closing(sqlite3.connect(own)) as connection:
        connection.execute("DROP TRIGGER audit_refuses_update")
        connection.execute("UPDATE sessions_app_auditrow SET detail = '{}' WHERE number = 2")
        connection.commit()
    assert findings(tmp_path, "--audit") == (
        1,
        ["✗ Row 2 was altered: its content does not have its digest. The rows before it are whole."],
    )


def test_a_head_that_was_printed_once_shows_what_is_missing_at_the_end(tmp_path: Path, ready: None) -> None:
    assert run(tmp_path, "audit-head") == (1, "", "Nothing recorded yet.\n")
    for name in ("one", "two"):
        assert run(tmp_path, "token", "create", name, "--right", "read")[0] == 0
    code, head, errors = run(tmp_path, "audit-head")
    assert (code, errors) == (0, "")
    assert (tmp_path / "data" / "audit-heads").read_text() == head
    assert run(tmp_path, "doctor", "--audit", "--head", head)[0] == 0
    (waits,) = findings(tmp_path, "--audit", ADKWEB_AUDIT_SYSLOG="udp://127.0.0.1:9")[1]
    assert waits.startswith("! 2 rows wait to be sent to the syslog, the oldest of ")
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as connection:
        connection.execute("DROP TRIGGER audit_refuses_delete")
        connection.execute("DELETE FROM sessions_app_auditrow WHERE number = 2")
        connection.commit()
    (tmp_path / "data" / "audit-heads").unlink()
    assert run(tmp_path, "doctor", "--audit")[0] == 0
    code, (line,) = findings(tmp_path, "--head", head)
    assert line.startswith("✗ Row 2 is missing, and what came after it: the head that was published on ")
    assert run(tmp_path, "doctor", "--head", "gold")[2].startswith("“gold” isn't a line printed by")


def test_what_is_stored_about_runs_is_counted_and_an_answer_that_may_be_lost_is_named(
    tmp_path: Path, ready: None
) -> None:
    counted = "Stored about runs of agents: "
    assert f"{counted}nothing\n" in run(tmp_path, "doctor")[1]
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as own, own:
        for number, state in enumerate(("sent", "sent", "open", "unknown")):
            own.execute(
                """INSERT INTO sessions_app_answer ("where", digest, names, asked, run, state, response, by, at)
                VALUES ('w', 'd', '["booking", "ana", "s1"]', ?, ?, ?, '{}', 'maria', 0)""",
                [f"{number}", f"{number:032}", state],
            )
    code, out, _errors = run(tmp_path, "doctor")
    assert f"{counted}answers: 4, being sent: 1\n" in out
    assert "! It is unknown whether these sessions' agents got an answer: booking/ana/s1. If a call still waits" in out
    assert code == 0


def test_what_is_kept_of_a_source_that_is_not_named_is_told(tmp_path: Path, ready: None) -> None:
    for name in ("here.db", "gone.db"):
        (tmp_path / name).touch()
        assert run(tmp_path, "adopt", name)[0] == 0
    with sqlite3.connect(tmp_path / "data" / "adkweb.db") as own:
        of = (
            "SELECT key, 'd', '[]', 'a court asks', 'ana', 0 FROM sessions_app_knownsource WHERE label LIKE '%/gone.db'"
        )
        own.execute(f'INSERT INTO sessions_app_sessionhold ("where", digest, names, reason, by, at) {of}')
    own.close()
    told = f"about a source that was not named here, opened last as {tmp_path / 'gone.db'}: 1 session hold. Name it"
    assert told in run(tmp_path, "doctor", "here.db")[1]
    assert "belongs to a named one" in run(tmp_path, "doctor", "here.db", "gone.db")[1]
