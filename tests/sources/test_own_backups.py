"""A backup holds all that adkweb keeps, of one moment, and comes back whole: on SQLite and PostgreSQL, and across."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction
from django.db.models import QuerySet

from sessions_app.access import roles, tokens
from sessions_app.access.actor import TERMINAL
from sessions_app.access.audit.record import record
from sessions_app.access.people import User
from sessions_app.domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from sessions_app.jobs import runner
from sessions_app.models import AuditRow, Job, SessionTag
from sessions_app.search.saved.views import SavedView
from sessions_app.sources import own_backups, versions
from tests.management.conftest import run
from tests.parts import long_but
from tests.servers import PostgreSQL
from tests.support.own import own_database
from tests.support.people import ALICE, as_admin, somebody

BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture(params=["sqlite", "postgresql"])
def other(
    request: pytest.FixtureRequest, tmp_path: Path, new_database: Callable[..., str], _blank_on_server: str
) -> str:
    """Another database, with own tables that are empty."""
    if request.param == "postgresql":
        return new_database("postgresql", _blank_on_server)
    return f"sqlite:///{tmp_path / 'other.db'}"


def use() -> str:
    """Fills the database with something of each kind; the text of a token."""
    ana = somebody("ana", "editor", "book*")
    ana.set_password("a long enough password")
    ana.save()
    group = Group.objects.create(name="support: ü 한 <b>")
    ana.groups.add(group)
    roles.give("viewer", by=TERMINAL, group=group.name)
    SavedView.objects.create(person=ana, name="Mine", folded="mine", query="", sort="", columns="", created=1.5)
    SessionTag.objects.create(where="x", digest="d", names="[]", tag="vip", folded="vip")
    who = runner.fields_of(ALICE)
    Job.objects.create(id=uuid.uuid4(), kind="edit", where="x", task='{"n": NaN}', created=1.25, beat=1e9, **who)
    return tokens.create("agent", "append", "book*", by=as_admin("maria"))[1]


def kept() -> dict[str, list[dict[str, Any]]]:
    """Every row that is kept, by table."""
    return {
        model.__name__: list(QuerySet(model).order_by("pk").values())
        for model in own_backups.tables()
        if model.__name__ not in own_backups.INDEXES
    }


# --- There and back ---------------------------------------------------------------------------------------------------


@BOTH
def test_everything_comes_back_on_either_database_and_goes_on_being_used(own: str, other: str, tmp_path: Path) -> None:
    text = use()
    before = kept()
    own_backups.backup(tmp_path / "backup")
    assert kept() == before
    with own_database(other):
        own_backups.restore(tmp_path / "backup")
        assert kept() == before
        tokens.known.clear()
        actor = tokens.actor_of(text)
        assert actor is not None
        assert actor.may("append", "x", "booking")
        assert get_user_model().objects.get(username="ana").check_password("a long enough password")
        numbers = {person.pk for person in User.objects.all()}
        assert somebody("joe", "viewer").pk not in numbers  # numbers go on after those that were restored
        tokens.create("another", "read", "*", by=as_admin("maria"))


@pytest.mark.parametrize("own", long_but(["sqlite", "postgresql"], "sqlite"), indirect=True)
def test_a_backup_is_of_one_moment_while_others_write(own: str, tmp_path: Path) -> None:
    ended, written = threading.Event(), [0]

    def write() -> None:
        try:
            while not ended.is_set():
                with transaction.atomic():  # two rows that belong together
                    for half in ("a", "b"):
                        tag = f"{written[0]}{half}"
                        SessionTag.objects.create(where="x", digest=tag, names="[]", tag=tag, folded=tag)
                written[0] += 1
        finally:
            connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = written[0]
            own_backups.backup(tmp_path / f"backup{number}")
            with closing(sqlite3.connect(tmp_path / f"backup{number}")) as file:
                (tags,) = file.execute("SELECT count(*) FROM sessions_app_sessiontag").fetchone()
            assert tags % 2 == 0
            assert tags >= before * 2
            time.sleep(0.02)
    finally:
        ended.set()
        writer.join()
    assert written[0] > 5


@BOTH
def test_only_a_used_database_is_refused_and_with_replace_it_is_replaced(own: str, tmp_path: Path) -> None:
    use()
    own_backups.backup(tmp_path / "backup")
    before = kept()
    somebody("mallory", "admin")
    with pytest.raises(Conflict, match="--replace"):
        own_backups.restore(tmp_path / "backup")
    assert get_user_model().objects.filter(username="mallory").exists()
    own_backups.restore(tmp_path / "backup", replace=True)
    assert kept() == before


@BOTH
def test_the_audit_comes_back_and_still_refuses_to_be_altered(own: str, other: str, tmp_path: Path) -> None:
    record("sign-in", "maria")
    record("sign-out", "maria")
    own_backups.backup(tmp_path / "backup")
    before = list(AuditRow.objects.order_by("number").values())
    with own_database(other):
        for _again in range(2):
            own_backups.restore(tmp_path / "backup", replace=True)
            assert list(AuditRow.objects.order_by("number").values()) == before
            with pytest.raises(DatabaseError), transaction.atomic():
                AuditRow.objects.all().delete()


# --- Refused ----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_restore_that_fails_leaves_everything_as_it_was(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    own_backups.backup(tmp_path / "backup")
    somebody("joe", "viewer")
    before = kept()
    content = (tmp_path / "backup").read_bytes()
    (tmp_path / "half").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_text("no database at all")
    with closing(sqlite3.connect(tmp_path / "other")) as file:
        file.execute("CREATE TABLE django_migrations (app, name)")
    for name in ("half", "text", "other", "none"):
        with pytest.raises(Invalid):
            own_backups.restore(tmp_path / name, replace=True)
    if connections["default"].vendor == "postgresql":
        monkeypatch.setattr(own_backups, "tables", lambda tables=own_backups.tables: [*tables(), None])
        with pytest.raises(AttributeError):
            own_backups.restore(tmp_path / "backup", replace=True)
        monkeypatch.undo()
    assert kept() == before


def test_a_backup_of_a_newer_adkweb_is_refused(tmp_path: Path) -> None:
    use()
    own_backups.backup(tmp_path / "newer")
    with closing(sqlite3.connect(tmp_path / "newer")) as file:
        file.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('sessions_app', '9999_later', 1)")
        file.commit()
    with pytest.raises(Invalid, match=r"newer adkweb.*9999_later"):
        own_backups.restore(tmp_path / "newer", replace=True)


def test_a_backup_of_an_older_adkweb_is_completed(tmp_path: Path) -> None:
    with own_database(f"sqlite:///{tmp_path / 'older.db'}"):
        call_command("migrate", "sessions_app", verbosity=0, interactive=False)
        get_user_model().objects.create_user("an old friend")
        assert versions.missing() != []
        own_backups.backup(tmp_path / "older")
    own_backups.restore(tmp_path / "older")
    assert get_user_model().objects.get().username == "an old friend"
    assert versions.missing() == []


def test_a_backup_overwrites_nothing_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        own_backups.backup(tmp_path / "backup")
    finally:
        os.umask(before)
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    with pytest.raises(AlreadyExists):
        own_backups.backup(tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_without_own_tables_there_is_nothing_to_back_up(
    tmp_path: Path, postgresql_server: PostgreSQL, new_database: Callable[..., str]
) -> None:
    for url in (f"sqlite:///{tmp_path / 'none.db'}", new_database("postgresql")):
        with own_database(url), pytest.raises(NotFound):
            own_backups.backup(tmp_path / "backup")
    assert not (tmp_path / "none.db").exists()


# --- The commands -----------------------------------------------------------------------------------------------------


def test_the_commands_say_what_they_did_and_what_is_wrong(tmp_path: Path) -> None:
    assert run(tmp_path, "backup", "b")[0] != 0
    password = {"DJANGO_SUPERUSER_PASSWORD": "a long enough password"}
    assert run(tmp_path, "createsuperuser", "--noinput", "--username", "sue", "--email", "", **password)[0] == 0
    code, _out, said = run(tmp_path, "backup", "b")
    assert (code, "is backed up to b" in said) == (0, True)
    code, _out, said = run(tmp_path, "backup", "b")
    assert (code, "already exists" in said, "Traceback" in said) == (1, True, False)
    code, _out, said = run(tmp_path, "restore", "b")
    assert (code, "--replace" in said) == (1, True)
    assert run(tmp_path, "restore", "b", "--replace")[0] == 0
    with closing(sqlite3.connect(tmp_path / "data" / "adkweb.db")) as file:
        acts = [act for (act,) in file.execute("SELECT act FROM sessions_app_auditrow ORDER BY number")]
    assert acts[-1] == "restored"
    code, _out, said = run(tmp_path, "restore", "nothing")
    assert (code, "There is no file" in said) == (1, True)
