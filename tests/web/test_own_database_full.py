"""While adkweb's own database takes no writes, everything can be read, and what was written is not called an error."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import timeline, views
from sessions_app.sources import errors, health
from tests.support.own import migrated, own_database

from .conftest import Browser, names_of
from .html import page_of

pytestmark = pytest.mark.django_db


@contextmanager
def refusing() -> Iterator[None]:
    """SQLite itself refuses every write, as on a disk that is full."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            yield
        finally:
            cursor.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize(("name", "count"), [("home", 0), ("edits", 0), ("search", 0), ("app", 2), ("user", 3)])
def test_lists_are_read_without_a_write(
    maria: Browser, ref: SessionRef, add: Callable[..., str], name: str, count: int
) -> None:
    add(ref, {"text": "hello"})
    with refusing():
        maria.open(name, **names_of(ref, count))


@pytest.mark.guarantee("Writing", "You can read sessions even while adkweb can't write to its own database.")
@pytest.mark.parametrize("name", ["session", "chat"])
def test_a_session_with_new_events_is_read_without_a_write(
    maria: Browser, ref: SessionRef, add: Callable[..., str], name: str
) -> None:
    add(ref, {"text": "hello"})
    with refusing():
        assert "hello" in maria.open(name, **names_of(ref, 4)).text


@pytest.mark.guarantee("Writing", "You can read sessions even while adkweb can't write to its own database.")
def test_a_trace_with_new_events_is_read_without_a_write(
    maria: Browser, ref: SessionRef, add: Callable[..., str]
) -> None:
    add(ref, {"text": "hello"})
    with refusing():
        drawn = maria.open("trace", **names_of(ref, 4)).one("li", "waterfall")["hx-get"]
        assert "model" in maria.open(drawn, htmx=True).text


def test_the_page_for_signing_in_is_shown(guest: Browser, maria: Browser) -> None:
    with refusing():
        guest.open("sign-in")


@pytest.mark.guarantee(
    "Writing",
    "If an edit was written, adkweb always reports this, even while adkweb can't write to its own database.",
)
def test_an_edit_that_was_written_is_answered_as_such(maria: Browser, ref: SessionRef) -> None:
    page = maria.open("session-edit", query={"key": ["step"]}, **ref._asdict())
    form = page.one("form", "editbox").json_fields()
    with refusing():
        response = maria.send("session-edit", {**form, "value-0": '"paid"', "action": "apply"}, **ref._asdict())
    assert response.status_code == 302, response.content.decode()
    assert views.session(ref, actor=SYSTEM).state.session["step"] == "paid"
    # So is taking it back.
    (edit,) = (event for event in timeline.events(ref, actor=SYSTEM).rows if event.description.edit)
    undo = maria.open("undo", **ref._asdict(), event_id=edit.id).one("form", "editbox")
    with refusing():
        response = maria.send(undo["action"], {**undo.json_fields(), "action": "apply"})
    assert response.status_code == 302, response.content.decode()
    assert views.session(ref, actor=SYSTEM).state.session["step"] == "choose"


def test_what_must_be_recorded_is_refused_in_words_with_nothing_done(maria: Browser) -> None:
    with refusing():
        response = maria.send("tokens", {"name": "k", "permission": "read", "apps": "*", "days": ""})
    assert response.status_code == 503
    assert "This couldn't be recorded in the audit, so nothing was changed" in page_of(response).one("main").text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("database or disk is full", "The disk that holds adkweb's own database is full"),
        ("could not extend file: No space left on device", "The disk that holds adkweb's own database is full"),
        (
            "adkweb's own database is gone: /data/adkweb.db",
            "adkweb's own database is gone: /data/adkweb.db. Put the file back",
        ),
        (
            "attempt to write a readonly database",
            "adkweb's own database can't be written to: its file, disk or server is read-only",
        ),
        ("database is locked", "adkweb's own database is locked or isn't answering"),
    ],
)
def test_what_is_wrong_is_said_in_words(error: str, said: str) -> None:
    assert errors.of_own(OperationalError(error)).startswith(said)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """adkweb's own database in a file, as users have it."""
    path = migrated(tmp_path / "own.db")
    with own_database(f"sqlite:///{path}"):
        connections.databases["default"]["ENGINE"] = "adkweb.sqlite3"
        health.forget()
        yield path
    health.forget()


def ready() -> tuple[str, ...]:
    """What adkweb's own database lacks."""
    health.doubt()
    return health.look().own.lacks


def test_ready_tries_a_write(file: Path) -> None:
    assert ready() == ()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
        assert pages
        other.execute("BEGIN EXCLUSIVE")  # somebody lets nobody write
        connections.databases["default"]["OPTIONS"]["timeout"] = 0.1
        assert ready() in (("writable",), ("reachable",))


@pytest.mark.parametrize("connected", [True, False], ids=["with an open connection", "with a new one"])
@pytest.mark.parametrize("replaced", [True, False], ids=["another file in its place", "deleted"])
def test_a_file_that_is_deleted_is_named_and_not_made_anew(file: Path, connected: bool, replaced: bool) -> None:
    User.objects.count()
    file.rename(file.with_suffix(".away"))
    if replaced:
        migrated(file)
    if not connected:
        connection.close()
    with pytest.raises(OperationalError, match="is gone"):
        User.objects.count()
    assert file.exists() == replaced
    assert ready() == ("reachable",)
    file.with_suffix(".away").replace(file)
    assert User.objects.count() == 0
    assert ready() == ()
