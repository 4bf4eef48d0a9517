"""Stores of six versions of google-adk, each in its own environment: opened, edited and gone on with, or refused.

The environments are made by the first run, beside the one of the tests. SqliteSessionService is there since 1.21.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN, State
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.history import drift, moments
from sessions_app.reads import views
from sessions_app.sources import database, online
from tests.support.stored import events_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

_DRIVERS = ("aiosqlite", "asyncpg", "greenlet", "sqlalchemy<2.1")
OLD = {"1.14.1": ("deprecated", "psycopg[binary]", "sqlalchemy<2.1")}  # with tables that only `adk migrate` reads
VERSIONS = {**dict.fromkeys(("1.28.1", "1.39.1", "2.0.0", "2.5.0"), _DRIVERS), version("google-adk"): ()}
FORMS = ("sqlite", "sqlite-database", "postgresql")
AGENT = Path(__file__).with_name("any_version.py")
MARIA = Actor.holding("maria", "admin")


def python(adk: str) -> str:
    """The Python of an environment with this google-adk, made the first time; the newest is the one of the tests."""
    if adk == version("google-adk"):
        return sys.executable
    folder = Path(sys.prefix) / "matrix" / adk
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{adk}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            venv.create(folder, with_pip=True, clear=True)
            extra = (OLD | VERSIONS)[adk]
            install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, f"google-adk=={adk}", *extra], check=True)
            (folder / "whole").touch()
    return str(folder / "bin/python")


def run(adk: str, what: str, form: str, place: str) -> dict[str, Any]:
    """What that version's agent does with a store, and what it reads then."""
    done = subprocess.run(
        [python(adk), "-W", "ignore", AGENT, what, form, place],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def schema(form: str, place: str) -> list[Any]:
    """All that stands in a database's catalogue."""
    if form != "postgresql":
        with closing(sqlite3.connect(place)) as file:
            return file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    with psycopg.connect(place) as connection:
        return [
            connection.execute(sql).fetchall()
            for sql in (
                """SELECT table_name, column_name, data_type, column_default FROM information_schema.columns
                WHERE table_schema = 'public' ORDER BY 1, ordinal_position""",
                "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
                "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
                "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
            )
        ]


def same_as_adk(ref: SessionRef, adk: dict[str, Any]) -> None:
    """adkweb reads the state and the events, in order, that google-adk reads; and finds no drift in them."""
    assert equal(views.session(ref, actor=SYSTEM).state.merged(), adk["state"])
    assert [event["id"] for _seq, event in events_of(ref)] == adk["events"]
    assert [*drift.own(ref, actor=SYSTEM).drifted, *drift.shared(ref, actor=SYSTEM).drifted] == []
    told = moments.state_at(ref, adk["events"][-1], actor=SYSTEM).state.merged()
    unknown = {name: adk["state"][name] for name, value in told.items() if value is UNKNOWN}
    assert unknown.keys() <= {"app:season"}, "with which a session began: ADK does not record when"
    assert equal({**told, **unknown}, adk["state"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("adk", VERSIONS)
def test_a_store_is_opened_and_edited_and_its_agent_goes_on(
    adk: str, form: str, new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    place = new_database(form)
    made = run(adk, "make", form, place)
    before = schema(form, place)
    source = open_source(place)
    online.add(source)  # as its owner would say
    database.forget(source)
    source = open_source(place)
    ref = SessionRef(source, "matrix", "ana", "s1")
    same_as_adk(ref, made)

    wanted: State = {"n": 100, "edited": {"by": ["Мария"]}, "user:tier": "platinum", "app:season": {"now": "spring"}}
    entries = [Entry(name, value, made["state"].get(name, ABSENT)) for name, value in wanted.items()]
    edited = edit.edit_state(ref, [*entries, Entry("cfg", ABSENT, made["state"]["cfg"])], actor=MARIA)
    gone_on = run(adk, "go_on", form, place)
    (seen,) = gone_on["seen"]
    assert {name: seen[name] for name in wanted} == wanted
    assert seen["cfg"] == "absent"
    assert edited.event["id"] in gone_on["events"]
    assert gone_on["events"][: len(made["events"])] == made["events"]
    same_as_adk(ref, gone_on)
    at_edit = moments.state_at(ref, edited.event["id"], actor=SYSTEM).state.merged()
    assert {name: at_edit[name] for name in wanted} == wanted
    assert "cfg" not in at_edit

    online.release(source)
    database.forget(source)
    assert schema(form, place) == before


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("adk", OLD)
def test_an_old_store_is_refused_and_left_as_it_was(
    adk: str, form: str, new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    place = new_database(form)
    run(adk, "make", form, place)
    before = schema(form, place), Path(place).read_bytes() if form != "postgresql" else b""
    with pytest.raises(SourceError, match="adkweb import"):
        open_source(place)
    assert (schema(form, place), Path(place).read_bytes() if form != "postgresql" else b"") == before
