"""Idle sessions are deleted by rule, in small pieces, and no other: not those on hold, not those written to meanwhile."""

from __future__ import annotations

import json
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from sessions_app.access import approval, roles
from sessions_app.access.actor import Actor
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.jobs import runner
from sessions_app.models import AuditRow, DueSession, Job, stored_instant
from sessions_app.privacy import holds, retention, retention_job
from sessions_app.privacy.retention import RetentionRule
from sessions_app.sources import database, registry
from sessions_app.transfer import uploads
from sessions_app.writes.append import append_event
from sessions_app.writes.incomplete import IMPORTING
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.at_work import settle
from tests.support.people import ALICE, BOB, CHARLIE, somebody
from tests.support.stored import execute, query
from tests.transfer.files import exported

pytestmark = pytest.mark.usefixtures("own")

FOLDER = Path(settings.DATA_DIR) / "retained"


@pytest.fixture(autouse=True)
def _no_files_are_left() -> Iterator[None]:
    yield
    settle("retention")
    for path in FOLDER.glob("*"):
        path.unlink()


def idle_since(source: str, days: float, *ids: str) -> None:
    """Nobody has written to these sessions for so long."""
    with database.using(source) as db:
        moment = stored_instant(time.time() - days * retention.DAY, db)
    for name in ids:
        execute(source, "UPDATE sessions SET update_time = %s WHERE id = %s", [moment, name])


@pytest.fixture
def five(ref: SessionRef) -> SessionRef:
    """Sessions that are idle for 40 to 10 days, and one that is not."""
    for number in range(2, 6):
        create_session(ref.source, "booking", "ana", session_id=f"s{number}", state={"n": number}, actor=ALICE)
    for number, days in ((1, 40), (2, 31), (3, 29), (4, 10)):
        idle_since(ref.source, days, f"s{number}")
    return ref


def run(source: str, *, days: int = 30, export: bool = False, actor: Actor = ALICE) -> RetentionRule:
    """The rule after it has run."""
    retention.save(source, "booking", days, export=export, actor=actor)
    RetentionRule.objects.update(due=0.0)
    assert retention_job.begin_due() == 1
    settle("retention")
    (rule,) = RetentionRule.objects.administered_by(ALICE)
    return rule


def ids_in(source: str) -> list[str]:
    return sorted(row[0] for row in query(source, "SELECT id FROM sessions"))


def test_what_is_idle_longer_than_the_rule_says_is_deleted_and_nothing_else(five: SessionRef) -> None:
    create_session(five.source, "weather", "ana", session_id="w1", actor=ALICE)
    idle_since(five.source, 400, "w1")
    trial = retention.try_(five.source, "booking", 30, actor=ALICE)
    assert (trial.sessions, trial.held, trial.more) == (2, 0, False)
    rule = run(five.source)
    assert (rule.last_run["deleted"], rule.last_run["state"]) == (2, "done")
    assert ids_in(five.source) == ["s3", "s4", "s5", "w1"]
    assert rule.due > time.time() + 3_000
    assert Job.objects.count() == 0
    assert AuditRow.objects.filter(act="retention-changed", by="alice").count() == 1
    assert query(five.source, "SELECT count(*) FROM user_states") != [(0,)]


def test_a_session_on_hold_and_one_with_edits_of_shared_state_stay(five: SessionRef) -> None:
    create_session(five.source, "booking", "ana", session_id="adkweb", actor=ALICE)
    idle_since(five.source, 40, "adkweb")
    holds.hold(five, "a lawsuit", actor=ALICE)
    rule = run(five.source)
    assert (rule.last_run["deleted"], rule.last_run["held"]) == (1, 1)
    assert ids_in(five.source) == ["adkweb", "s1", "s3", "s4", "s5"]


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_session_that_somebody_writes_to_meanwhile_stays(five: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    real = retention_job.delete_session

    def slowly(ref: SessionRef, **more: Any) -> None:
        if ref.session_id == "s2":
            append_event(ref, {"author": "agent"}, actor=ALICE)
        real(ref, **more)

    monkeypatch.setattr(retention_job, "delete_session", slowly)
    rule = run(five.source)
    assert (rule.last_run["deleted"], rule.last_run["moved"]) == (1, 1)
    assert "s2" in ids_in(five.source)


def test_sessions_are_in_a_file_before_they_are_deleted_and_come_back_from_it(five: SessionRef) -> None:
    before = exported(five.source)
    assert run(five.source, export=True).last_run["deleted"] == 2
    (path,) = FOLDER.glob("*")
    assert (path.suffix, path.stat().st_mode & 0o077) == (".zip", 0)
    with zipfile.ZipFile(path) as file:
        assert [each["session"][-1] for each in json.loads(file.read("about.json"))["sessions"]] == ["s1", "s2"]
        for name in ("0001.jsonl", "0002.jsonl"):
            uploads.bring(uploads.receive([file.read(name)]), five.source, ALICE)
    assert exported(five.source) == before


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_session_that_cannot_be_exported_stays(five: SessionRef) -> None:
    execute(five.source, "UPDATE sessions SET state = %s WHERE id = 's2'", [json.dumps(IMPORTING)])
    assert run(five.source, export=True).last_run["deleted"] == 1
    assert ids_in(five.source) == ["s2", "s3", "s4", "s5"]


@pytest.mark.parametrize("form", ["sqlite"])
def test_if_the_file_cannot_be_written_nothing_is_deleted_and_the_rule_says_so(five: SessionRef) -> None:
    for path in FOLDER.glob("*"):
        path.unlink()
    if FOLDER.exists():
        FOLDER.rmdir()
    FOLDER.write_text("in the way")
    try:
        rule = run(five.source, export=True)
    finally:
        FOLDER.unlink()
    assert (rule.last_run["state"], "Couldn't store the file" in rule.last_run["message"]) == ("stopped", True)
    assert len(ids_in(five.source)) == 5


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_rule_deletes_nothing_once_who_saved_it_is_no_admin(five: SessionRef) -> None:
    somebody("ria", "admin", "booking*")
    actor = roles.actor_of(somebody("ria", "admin", "booking*"))
    retention.save(five.source, "booking", 30, export=False, actor=actor)
    somebody("ria", "editor", "booking*")
    RetentionRule.objects.update(due=0.0)
    retention_job.begin_due()
    settle("retention")
    (rule,) = RetentionRule.objects.administered_by(ALICE)
    assert rule.last_run["state"] == "refused"
    assert len(ids_in(five.source)) == 5


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_run_is_begun_once_and_a_long_one_goes_on_soon(five: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_job, "MOST", 1)
    rule = run(five.source)
    assert (rule.last_run["deleted"], rule.last_run["more"]) == (1, 1)
    assert rule.due < time.time() + 100
    assert retention_job.begin_due() == 0  # it is not due
    RetentionRule.objects.update(due=0.0)
    assert (retention_job.begin_due(), retention_job.begin_due()) == (1, 0)


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_run_whose_rule_was_changed_meanwhile_deletes_no_more(
    five: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_job, "TOGETHER", 1)
    real = retention_job.delete_session

    def slowly(ref: SessionRef, **more: Any) -> None:
        real(ref, **more)
        retention.save(five.source, "booking", 35, export=False, actor=ALICE)

    monkeypatch.setattr(retention_job, "delete_session", slowly)
    assert run(five.source).last_run["deleted"] == 1
    assert ids_in(five.source) == ["s2", "s3", "s4", "s5"]
    assert Job.objects.count() == 0


def test_pages_of_idle_sessions_have_each_session_once(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2, 8):
        create_session(ref.source, "booking", "ana", session_id=f"s{number}", actor=ALICE)
    idle_since(ref.source, 40, *(f"s{number}" for number in range(1, 5)))
    idle_since(ref.source, 50, *(f"s{number}" for number in range(5, 8)))
    monkeypatch.setattr(retention, "PAGE", 2)
    read = [each.session_id for each, _revision in retention.idle_sessions(ref.source, "booking", time.time() - 86400)]
    assert read == ["s5", "s6", "s7", "s1", "s2", "s3", "s4"]


@pytest.mark.parametrize("form", ["sqlite"])
def test_only_an_admin_of_the_app_sets_and_removes_rules(five: SessionRef) -> None:
    run(five.source, days=36_500)
    (rule,) = RetentionRule.objects.administered_by(ALICE)
    for actor in (BOB, CHARLIE):
        assert RetentionRule.objects.administered_by(actor) == []
        with pytest.raises(NotAllowed):
            retention.save(five.source, "booking", 1, export=False, actor=actor)
        with pytest.raises(NotAllowed):
            retention.try_(five.source, "booking", 1, actor=actor)
        with pytest.raises(NotFound):
            retention.remove(rule.pk, actor=actor)
    retention.remove(rule.pk, actor=ALICE)
    assert RetentionRule.objects.administered_by(ALICE) == []


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "９", "99999999999", "36501"])
def test_days_are_a_number_of_them(text: str) -> None:
    with pytest.raises(Invalid):
        retention.check_days(text)


def test_a_run_whose_process_died_counts_and_forgets_what_it_had_deleted(five: SessionRef) -> None:
    retention.save(five.source, "booking", 30, export=False, actor=ALICE)
    rule, now = RetentionRule.objects.get(), time.time()
    delete_session(five, actor=ALICE)
    where, digest = registry.identity(five.source), digest_of(*five[1:])
    DueSession.objects.create(where=where, digest=digest)
    Job.objects.create(
        id=uuid.uuid4(), kind="retention", where=where, app_name="booking", actor="alice",
        task=json.dumps({"rule": rule.pk, "days": 30, "export": False}), created=now, beat=now,
        claimed_until=now - 1, claim="dead", result=json.dumps({"deleted": 4, "begun": [five[1:], [*five[1:3], "s5"]]}),
    )  # fmt: skip
    assert runner.take_over() == 1
    settle("retention")
    result = RetentionRule.objects.get().last_run
    assert (result["deleted"], result["moved"]) == (6, 0)  # s1 by the process that died, s2 now; s5 stays
    assert not DueSession.objects.filter(where=where, digest=digest).exists()


def test_a_rule_that_would_delete_more_sessions_than_one_person_may_is_refused(five: SessionRef) -> None:
    approval.make(by=ALICE, sessions=1)
    with pytest.raises(NotAllowed, match="Deleting more than 1 sessions"):
        retention.save(five.source, "booking", 30, export=False, actor=ALICE)
    retention.save(five.source, "booking", 35, export=False, actor=ALICE)
    idle_since(five.source, 50, "s2", "s3")
    retention.save(five.source, "booking", 36, export=True, actor=ALICE)  # it deletes no more than before
    with pytest.raises(NotAllowed):
        retention.save(five.source, "booking", 34, export=False, actor=ALICE)
    for name in ("s2", "s3"):
        holds.hold(five._replace(session_id=name), "a lawsuit", actor=ALICE)
    retention.save(five.source, "booking", 34, export=False, actor=ALICE)


def test_a_run_that_an_error_ended_leaves_what_it_began_to_the_next(
    five: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, digest = registry.identity(five.source), digest_of(*five[1:])
    real = retention_job.delete_session

    def cut(ref: SessionRef, **more: Any) -> None:
        real(ref, **more)
        DueSession.objects.create(where=where, digest=digest)
        raise SourceError("the source is away")

    with monkeypatch.context() as patch:
        patch.setattr(retention_job, "delete_session", cut)
        run(five.source)
    assert DueSession.objects.filter(where=where, digest=digest).exists()
    run(five.source)
    assert RetentionRule.objects.get().last_run["deleted"] == 2  # s1, and s2 now
    assert not DueSession.objects.filter(where=where, digest=digest).exists()
