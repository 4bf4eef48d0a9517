"""`adkweb reindex` builds anew what history and state at an event are found by; `release` forgets it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from sessions_app.access.actor import Actor
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.management.conftest import run

WRITES = 3 * 2 + 1


@pytest.fixture
def place(form: str, new_database: Callable[[str], str], open_source: Callable[[str, str], str]) -> str:
    """A source of each format with a few events."""
    place = new_database(form)
    alias = open_source(place, form)
    ref = create_session(
        alias, "app", "ana", actor=Actor.holding("a", "admin"), session_id="s1", state={"x": 1, "user:u": 1}
    )
    for number in range(3):
        event = {"author": "a", "actions": {"state_delta": {"n": number, "app:p": number, "temp:t": 1}}}
        append_event(ref, event, actor=Actor.holding("a", "admin"))
    return place


def kept(tmp_path: Path) -> list[tuple[str, str, str]]:
    """What adkweb's own database has of whichever source: scope, key, session."""
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as own:
        return own.execute(
            """SELECT scope, key, session_id FROM sessions_app_statechange JOIN sessions_app_stateowner
            ON sessions_app_stateowner.id = owner_id WHERE scope IN ('app', 'user', 'session') ORDER BY 1, 2, place"""
        ).fetchall()


def listed(tmp_path: Path) -> int:
    """Returns how many sessions can be found."""
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as own:
        return int(own.execute("SELECT count(*) FROM sessions_app_searchsession").fetchone()[0])


@pytest.mark.usefixtures("ready")
def test_everything_is_read_anew_and_says_how_much(tmp_path: Path, place: str) -> None:
    for _ in range(2):
        code, out, errors = run(tmp_path, "reindex", place)
        assert (code, errors) == (0, "")
        writes_of_keys, done = out.splitlines()
        assert writes_of_keys == f"{WRITES} writes of keys; sessions: 1"
        assert done.startswith("reindexed ")
        assert kept(tmp_path) == [("app", "p", "")] * 3 + [("session", "n", "s1")] * 3 + [("user", "u", "")]


@pytest.mark.usefixtures("ready")
def test_what_was_damaged_is_whole_again(tmp_path: Path, place: str) -> None:
    run(tmp_path, "reindex", place)
    whole = kept(tmp_path)
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as own:
        own.execute("DELETE FROM sessions_app_statechange WHERE key = 'n'")
        own.commit()
    assert kept(tmp_path) != whole
    assert run(tmp_path, "reindex", place)[0] == 0
    assert kept(tmp_path) == whole


@pytest.mark.usefixtures("ready")
def test_release_forgets_what_was_read(tmp_path: Path, place: str) -> None:
    run(tmp_path, "reindex", place)
    assert listed(tmp_path) == 1
    assert run(tmp_path, "release", place)[0] == 0
    assert (kept(tmp_path), listed(tmp_path)) == ([], 0)
    assert run(tmp_path, "adopt", place)[0] == 0
    assert run(tmp_path, "reindex", place)[0] == 0
    assert len(kept(tmp_path)) == WRITES - 1  # `user:u` stood in the initial state, which is known no more


def test_release_makes_no_database_of_adkwebs_own(tmp_path: Path, place: str) -> None:
    assert run(tmp_path, "release", place)[0] == 0
    assert not (tmp_path / "data" / "adkweb.db").exists()


def test_release_says_where_adkwebs_own_database_cannot_be_used(tmp_path: Path, place: str) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "adkweb.db").write_text("this is no database" * 100)
    code, out, errors = run(tmp_path, "release", place)
    assert code == 0
    assert out.startswith("released ")
    assert "adkweb reindex" in errors


@pytest.mark.parametrize(
    ("words", "settings", "sentence"),
    [
        (["ghost.db"], {}, "No such file or folder"),
        ([], {}, "required: SOURCE"),
        (["agent.db"], {"ADKWEB_READ_ONLY": "true"}, "ADKWEB_READ_ONLY is set"),
        (["agent.db"], {"ADKWEB_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"}, "adkweb's own database"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: list[str], settings: dict[str, str], sentence: str) -> None:
    (tmp_path / "agent.db").touch()
    code, out, errors = run(tmp_path, "reindex", *words, **settings)
    assert (code, out) == (2, "")
    assert sentence in errors


@pytest.mark.usefixtures("ready")
def test_events_and_state_stay_as_they_are(
    tmp_path: Path, new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    place = new_database("postgresql")
    alias = open_source(place)
    ref = create_session(alias, "app", "ana", actor=Actor.holding("a", "admin"), session_id="s1")
    append_event(ref, {"author": "a", "actions": {"state_delta": {"n": 1}}}, actor=Actor.holding("a", "admin"))
    with psycopg.connect(place) as db:
        before = [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("sessions", "events", "app_states")]
        assert run(tmp_path, "reindex", place)[0] == 0
        assert [
            db.execute(f"SELECT * FROM {table}").fetchall() for table in ("sessions", "events", "app_states")
        ] == before
