"""The audit is a chain: however it is tampered with, the first row that is wrong is named."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from sessions_app.access.audit import heads
from sessions_app.access.audit.record import BEGINNING, HASHED, digest_of, record
from sessions_app.access.audit.verifying import verify
from sessions_app.domain.errors import Invalid, NotRecorded
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow
from tests.support import processes

ROWS = 6
FIELDS = [*HASHED[1:], "digest", "seal"]
BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.DATA_DIR = tmp_path


def fill(rows: int = ROWS) -> None:
    for number in range(rows):
        record("token-created", "maria", app_name="booking", name=f"agent {number}")


def open_to_changes() -> None:
    """Takes the triggers away, as who owns the table can."""
    sql = {
        "sqlite": [f"DROP TRIGGER IF EXISTS audit_refuses_{act}" for act in ("update", "delete", "insert")],
        "postgresql": ["DROP TRIGGER IF EXISTS audit_refuses ON sessions_app_auditrow"],
    }
    with connection.cursor() as cursor:
        for statement in sql[connection.vendor]:
            cursor.execute(statement)


def change(number: int, field: str) -> None:
    row = AuditRow.objects.get(number=number)
    value = row.at + 1 if field == "at" else "x" + getattr(row, field)[1:] + "y" * (field not in _HASHES)
    AuditRow.objects.filter(number=number).update(**{field: value})


_HASHES = {"previous", "digest", "seal", "act"}


def delete(number: int, _field: str) -> None:
    AuditRow.objects.filter(number=number).delete()


def delete_and_chain_again(number: int, field: str) -> None:
    """Whoever knows how digests are made, and has not the key."""
    delete(number, field)
    previous = AuditRow.objects.get(number=number - 1).digest if number > 1 else BEGINNING
    for new, row in enumerate(AuditRow.objects.filter(number__gt=number).order_by("number"), number):
        old, row.number, row.previous = row.number, new, previous
        previous = row.digest = digest_of(row)
        AuditRow.objects.filter(number=old).delete()
        row.save(force_insert=True)


def insert(number: int, _field: str) -> None:
    row = AuditRow.objects.get(number=number)
    for later in AuditRow.objects.filter(number__gt=number).order_by("-number"):
        AuditRow.objects.filter(number=later.number).update(number=later.number + 1)
    row.number, row.by, row.previous = number + 1, "mallory", row.digest
    row.digest = digest_of(row)
    row.save(force_insert=True)


def append(_number: int, _field: str) -> None:
    insert(ROWS, "")


def exchange(number: int, _field: str) -> None:
    other = number % ROWS + 1
    one, two = AuditRow.objects.get(number=number), AuditRow.objects.get(number=other)
    for row, new in ((one, 99), (two, number), (one, other)):
        AuditRow.objects.filter(digest=row.digest).update(number=new)


def truncate(number: int, _field: str) -> None:
    AuditRow.objects.filter(number__gte=number).delete()


TAMPERING = [change, delete, delete_and_chain_again, insert, append, exchange, truncate]


@BOTH
@given(act=st.sampled_from(TAMPERING), number=st.integers(1, ROWS), field=st.sampled_from(FIELDS))
def test_whoever_changes_deletes_inserts_moves_or_truncates_rows_is_noticed(
    own: str, act: Callable[[int, str], None], number: int, field: str
) -> None:
    open_to_changes()
    AuditRow.objects.all().delete()
    heads.file().unlink(missing_ok=True)
    fill()
    assert verify() == (ROWS, AuditRow.objects.get(number=ROWS).digest, "", 0)
    act(number, field)
    result = verify()
    first = {append: ROWS + 1, insert: number + 1, exchange: min(number, number % ROWS + 1)}.get(act, number)
    assert (result.number, bool(result.fault)) == (first, True)
    assert result.fault.startswith(f"Row {first} ")


@BOTH
@pytest.mark.parametrize(("taken", "more"), [(1, 1), (2, 1), (2, 2), (ROWS, 1), (ROWS, ROWS + 1), (3, ROWS)])
def test_rows_that_are_taken_away_at_the_end_are_noticed_whatever_is_recorded_afterwards(
    own: str, taken: int, more: int, caplog: pytest.LogCaptureFixture
) -> None:
    fill()
    open_to_changes()
    truncate(ROWS - taken + 1, "")
    caplog.clear()
    fill(more)
    # The first row that is missing, or that stands where another one had its head.
    assert verify().number == min(ROWS, ROWS - taken + more + 1)
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"]
    assert said.startswith(f"The audit was altered: row {ROWS} is gone or was replaced.")
    fill(ROWS)  # and later still
    assert (verify().number, verify().fault.startswith(f"Row {ROWS} was replaced")) == (ROWS, True)


@BOTH
def test_the_database_refuses_to_change_or_delete_a_row(own: str) -> None:
    fill(2)
    for sql in (
        "UPDATE sessions_app_auditrow SET \"by\" = 'mallory'",
        "DELETE FROM sessions_app_auditrow WHERE number = 1",
        "INSERT OR REPLACE INTO sessions_app_auditrow SELECT * FROM sessions_app_auditrow"
        if connection.vendor == "sqlite"
        else "TRUNCATE sessions_app_auditrow",
    ):
        with pytest.raises(DatabaseError, match="rows of the audit are only added"), transaction.atomic():
            connection.cursor().execute(sql)
    assert verify()[::2] == (2, "")


@BOTH
def test_processes_that_record_at_once_make_one_chain(own: str, tmp_path: Path) -> None:
    assert processes.run(processes.record_many, own, str(tmp_path), 25, copies=4) == [0] * 4
    assert verify()[::2] == (100, "")
    (head,) = heads.kept()
    assert head.number == 100


@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
def test_as_the_docs_set_it_up_the_role_of_the_application_may_only_read_and_add(own: str) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "audit.md").read_text()
    (setting_up,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE adkweb")
        cursor.execute(setting_up)
        cursor.execute("SET ROLE adkweb")
        fill(2)
        assert verify()[::2] == (2, "")
        for sql in ("UPDATE {} SET act = 'x'", "DELETE FROM {}", "TRUNCATE {}", "DROP TRIGGER audit_refuses ON {}"):
            with pytest.raises(DatabaseError, match=r"permission denied|must be owner"), transaction.atomic():
                cursor.execute(sql.format("sessions_app_auditrow"))
        cursor.execute("RESET ROLE")
        cursor.execute("DROP OWNED BY adkweb")
        cursor.execute("DROP ROLE adkweb")


def test_a_row_that_was_rolled_back_is_in_no_head(own: str) -> None:
    fill(1)
    with transaction.atomic():
        record("token-created", "maria", name="gone")
        transaction.set_rollback(True)
    assert [head.number for head in heads.kept()] == [1]
    fill(1)
    assert verify()[::2] == (2, "")


def test_what_cannot_be_recorded_is_refused_and_what_takes_access_away_is_logged_in_full(
    own: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA max_page_count = {cursor.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(NotRecorded, match="This couldn't be recorded in the audit, so nothing was changed"):
        deque(iter(lambda: record("exported", "maria", why="x" * 900), 0), 0)  # until the disk is full
    whole = AuditRow.objects.count()
    record("sign-out", "maria", why="y" * 900)
    assert "database or disk is full" in caplog.text
    assert '"act":"sign-out"' in caplog.records[-1].getMessage()
    assert verify()[::2] == (whole, "")


@BOTH
def test_hostile_names_are_recorded_as_texts_that_every_database_holds(own: str) -> None:
    ref = SessionRef("agents", "\ud800", "a\0b", "<script>" * 1000)
    record("session-deleted", "\0\ud800‮mallory", ref=ref, title=["\0", 10**30, 1.5], empty="")
    row = AuditRow.objects.get(number=1)
    assert (row.by, row.app_name, row.user_id, len(row.session_id)) == ("\\0\\ud800‮mallory", "\\ud800", "a\\0b", 1000)
    assert verify()[::2] == (1, "")


def test_a_day_has_one_line_of_heads_and_a_clock_that_is_put_back_makes_none(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (86_400.0, 86_401.0, 3 * 86_400.0, 2 * 86_400.0):
        monkeypatch.setattr("time.time", lambda at=at: at)
        fill(1)
    assert [(head.day, head.number) for head in heads.kept()] == [("1970-01-02", 2), ("1970-01-04", 4)]
    assert verify()[::2] == (4, "")


@BOTH
def test_a_published_head_shows_rows_that_are_missing_or_replaced_when_the_heads_are_forged_too(own: str) -> None:
    open_to_changes()
    fill()
    published = heads.read(f"{heads.newest()}\n")
    assert verify(published)[::2] == (ROWS, "")
    fill(1)
    assert verify(published)[::2] == (ROWS + 1, "")
    heads.file().unlink()
    truncate(ROWS, "")
    assert verify().fault == ""
    assert verify(published).fault.startswith(f"Row {ROWS} is missing, and what came after it")
    fill(3)  # by somebody who has the key
    assert verify().fault == ""
    assert verify(published)[2:] == (f"Row {ROWS} was replaced: the head of {published.day} has another digest.", ROWS)


@pytest.mark.parametrize("line", ["", "6b1f", "2026-11-25 000000000000000 " + "0" * 64, "\0\ud800", "1 " + "a" * 64])
def test_a_line_that_is_no_head_is_refused(line: str) -> None:
    with pytest.raises(Invalid, match="isn't a line printed by `adkweb audit-head`"):
        heads.read(line)


def test_heads_that_cannot_be_read_are_named(own: str) -> None:
    fill(1)
    heads.file().write_bytes(heads.file().read_bytes()[:-1] + b"x")
    assert "Line 1 of" in verify().fault


def test_a_row_sealed_with_a_key_from_before_is_whole_if_that_key_is_named(own: str, settings: Settings) -> None:
    fill(1)
    before, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    fill(1)
    assert "has no seal" in verify().fault
    settings.SECRET_KEY_FALLBACKS = [before]
    assert verify()[::2] == (2, "")


def test_heads_are_readable_by_their_owner_only(own: str) -> None:
    fill(1)
    assert heads.file().stat().st_mode & 0o777 == 0o600
