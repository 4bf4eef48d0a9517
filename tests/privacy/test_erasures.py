"""A user is erased, and nobody else: their sessions, state, files and what adkweb keeps; the report says what remains."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from sessions_app.access import approval
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.history.index import build
from sessions_app.jobs import runner
from sessions_app.jobs.lease import DONE
from sessions_app.models import (
    AuditRow,
    DueSession,
    Job,
    SearchOwner,
    SearchSession,
    SessionHold,
    SessionTag,
    SessionTitle,
    StateOwner,
)
from sessions_app.privacy import erasure_job, erasures, holds, own_rows
from sessions_app.privacy.erasure_job import Report, count_events
from sessions_app.privacy.erasures import Erasure
from sessions_app.search import labels
from sessions_app.search.saved import views
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.search.saved.webhooks import Webhook
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.artifacts.saving import PNG, Saving, beside
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.people import ALICE, BOB, CHARLIE, an_admin
from tests.support.stored import everything, query

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[None]:
    monkeypatch.setattr(erasure_job, "BUSY_SECONDS", 0.5)
    settings.SETTLE_SECONDS = 0.0
    yield
    settle("erase")


def erase(ref: SessionRef) -> Erasure:
    erasures.begin(*ref[:3], actor=ALICE)
    settle("erase")
    return erasures.listed(*ref[:3], actor=ALICE)[0]


def names_in(source: str) -> set[tuple[str, str]]:
    """The apps and users of all sessions and user states."""
    text = "SELECT app_name, user_id FROM sessions UNION SELECT app_name, user_id FROM user_states"
    return {tuple(row) for row in query(source, text)}


def test_the_user_is_gone_from_the_source_and_from_adkweb_and_the_others_are_not(
    ref: SessionRef, add: Callable[..., str]
) -> None:
    for user, app in (("ANA", "booking"), ("ben", "booking"), ("ana", "weather")):
        other = create_session(ref.source, app, user, session_id="s1", state={"user:x": 1}, actor=ALICE)
        labels.tag([other], "vip", actor=ALICE)
    add(ref, user__card="4111", app__last="ana")
    second = create_session(ref.source, "booking", "ana", session_id="s2", actor=ALICE)
    labels.rename(ref, "Seoul", actor=ALICE)
    labels.tag([ref, second], "vip", actor=ALICE)
    for text in ("user:ana", 'user:"ana" error:any', "user:anastasia", "ana"):
        SavedView.objects.create(name=text, folded=text, query=text, sort="", columns="", created=0.0)
    feed(ref.source)
    made = erase(ref)
    assert (made.job.state, made.report.sessions, made.report.events, made.report.state) == ("done", 2, 1, True)
    assert names_in(ref.source) == {("booking", "ANA"), ("booking", "ben"), ("weather", "ana")}
    assert '"ana"' not in str([query(ref.source, f"SELECT user_id FROM {t} WHERE app_name = 'booking'") for t in NOTES])
    assert SessionTitle.objects.count() == 0
    assert {tuple(json.loads(names)[:2]) for names in SessionTag.objects.values_list("names", flat=True)} == {
        ("booking", "ANA"),
        ("booking", "ben"),
        ("weather", "ana"),
    }
    assert not SearchOwner.objects.filter(digest=digest_of("booking", "ana")).exists()
    assert not SearchSession.objects.filter(digest=digest_of(*ref[1:])).exists()
    assert not StateOwner.objects.filter(app_name="booking", user_id="ana").exists()
    assert set(SavedView.objects.values_list("name", flat=True)) == {"user:anastasia", "ana"}
    assert made.report.remains.keys == ["app:last"]
    assert AuditRow.objects.filter(act="user-erased", user_id="ana", by="alice").count() == 1
    feed(ref.source)  # what is read later does not bring them back
    build.catch_up(ref.source)
    assert not SearchOwner.objects.filter(digest=digest_of("booking", "ana")).exists()
    assert not StateOwner.objects.filter(app_name="booking", user_id="ana").exists()


NOTES = ("adkweb_deleted", "adkweb_deleted_writes")


def test_messages_to_webhooks_about_the_user_are_deleted_but_of_sessions_that_are_kept(ref: SessionRef) -> None:
    maria = an_admin("maria")
    view = views.save(maria, name="all", query="", sort="", columns="", shared=False)
    view.watch(maria, "UTC")
    hook = Webhook.objects.create(
        watch=ViewWatch.objects.get(), url="https://a.example/", salt="", link="", created=0.0
    )
    hook.test()
    for user, session in (("ana", "s1"), ("ana", "held"), ("ben", "s1")):
        about = {"source": ref.source, "app_name": "booking", "user_id": user, "id": session, "title": user}
        hook.delivery("began", "booking", about).save()
    assert own_rows.forget_user(ref.source, "booking", "ana", {"held"})["deliveries"] == 1
    assert sorted(each.title for each in hook.deliveries) == ["", "ana", "ben"]


def test_a_plan_counts_and_changes_nothing(ref: SessionRef, add: Callable[..., str]) -> None:
    add(ref, step="pay")
    holds.hold(ref, "a lawsuit", actor=ALICE)
    before = everything(ref.source)
    plan = erasures.plan(*ref[:3], actor=ALICE)
    assert plan
    assert (plan.sessions, plan.events, plan.held, plan.keys) == (1, 1, 1, 1)
    assert everything(ref.source) == before
    assert erasures.plan(ref.source, "booking", "ghost", actor=ALICE) is None
    for actor in (BOB, CHARLIE):
        with pytest.raises(NotAllowed):
            erasures.plan(*ref[:3], actor=actor)
        with pytest.raises(NotAllowed):
            erasures.begin(*ref[:3], actor=actor)
    with pytest.raises(Conflict):
        erasures.begin(ref.source, "booking", "adkweb", actor=ALICE)


def test_a_session_on_hold_is_deleted_by_no_way_and_the_state_stays_with_it(
    ref: SessionRef, add: Callable[..., str]
) -> None:
    create_session(ref.source, "booking", "ana", session_id="s2", actor=ALICE)
    holds.hold(ref, "a lawsuit", actor=ALICE)
    with pytest.raises(Conflict):
        delete_session(ref, actor=ALICE)
    made = erase(ref)
    assert (made.report.sessions, made.report.kept, made.report.state) == (1, [["s1", "hold"]], False)
    assert query(ref.source, "SELECT id FROM sessions WHERE user_id = 'ana'") == [("s1",)]
    assert query(ref.source, "SELECT count(*) FROM user_states WHERE user_id = 'ana'") == [(1,)]
    holds.release(ref, actor=ALICE)
    made = erase(ref)
    assert (made.report.sessions, made.report.kept, made.report.state) == (1, [], True)
    assert SessionHold.objects.count() == 0


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_session_whose_agent_is_at_work_stays_and_the_report_says_so(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure_job, "BUSY_SECONDS", 0.0)
    append_event(ref, {"author": "user", "invocation_id": "i1", "content": {"parts": [{"text": "Hi"}]}}, actor=ALICE)
    made = erase(ref)
    assert (made.job.state, made.report.kept) == ("done", [["s1", "busy"]])


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_session_that_an_agent_begins_meanwhile_is_erased_too(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = erasure_job.delete_session

    def slowly(of: SessionRef, **more: Any) -> None:
        real(of, **more)
        if of.session_id == "s1":
            agent = threading.Thread(
                target=create_session, args=(ref.source, "booking", "ana"), kwargs={"session_id": "a0", "actor": ALICE}
            )
            agent.start()
            agent.join()

    monkeypatch.setattr(erasure_job, "delete_session", slowly)
    assert erase(ref).report.sessions == 2
    assert names_in(ref.source) == set()


def test_an_erasure_whose_process_died_goes_on_and_counts_nothing_twice(
    ref: SessionRef, add: Callable[..., str]
) -> None:
    add(ref, step="pay")
    create_session(ref.source, "booking", "ana", session_id="s2", actor=ALICE)
    now = time.time()
    job = Job.objects.create(
        id=uuid.uuid4(), kind="erase", where=registry.identity(ref.source), app_name="booking", user_id="ana",
        task="{}", created=now, beat=now, claimed_until=now - 1, claim="dead", **runner.fields_of(SYSTEM),
        result=Report(sessions=5, events=50, begun=[*ref, 1]).text(),
    )  # fmt: skip
    where, digest = registry.identity(ref.source), digest_of(*ref[1:])
    DueSession.objects.create(where=where, digest=digest)
    delete_session(ref, actor=ALICE)  # the process died just after
    assert runner.take_over() == 1
    settle("erase")
    job.refresh_from_db()
    report = Report.read(job.result)
    assert (job.state, report.sessions, report.events) == (DONE, 7, 51)
    assert not DueSession.objects.filter(where=where, digest=digest).exists()


def test_files_of_the_user_are_removed_and_no_link_is_followed(
    tmp_path: Path, new_store: Callable[..., str], open_source: Callable[[str], str]
) -> None:
    source, folder = beside(new_store("sqlite"), tmp_path, open_source)
    saving = Saving(folder)
    ana, ben = (create_session(source, "booking", user, session_id="s1", actor=ALICE) for user in ("ana", "ben"))
    for ref in (ana, ben):
        for name in ("plan.png", "user:photo.png"):
            saving.save(ref, name, PNG, "image/png")
    saving.save(ana._replace(session_id="gone"), "old.png", PNG, "image/png")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("x")
    inside = next(folder.rglob("ana/sessions/s1/artifacts"))
    (inside / "link").symlink_to(outside)
    made = erase(ana)
    assert made.report.artifacts >= 3
    assert [path for path in folder.rglob("*.png") if "ana" in path.parts] == []
    assert len([path for path in folder.rglob("*.png") if "ben" in path.parts]) >= 2
    assert (outside / "keep").exists()


def test_a_session_of_others_that_names_the_user_is_reported(ref: SessionRef) -> None:
    other = create_session(ref.source, "booking", "ben", session_id="s9", actor=ALICE)
    append_event(other, {"author": "agent", "content": {"parts": [{"text": "Ask ana about it"}]}}, actor=ALICE)
    feed(ref.source)
    made = erase(ref)
    assert (made.report.remains.sessions, made.report.remains.some) == (1, [["booking", "ben", "s9"]])
    assert made.report.remains.sessions_complete


@pytest.mark.parametrize(
    ("query", "named"),
    [("user:ana", True), ('user:"Ana"', True), ("-user:ana or error:any", True), ("user:an", False), ("user:<", False)],
)
def test_a_view_names_a_user_if_it_has_a_condition_on_exactly_them(query: str, named: bool) -> None:
    assert own_rows.names_user(query, "ana") == named


def test_only_an_admin_holds_and_releases(ref: SessionRef) -> None:
    for actor, error in ((BOB, NotAllowed), (CHARLIE, NotFound)):
        for act in (lambda: holds.hold(ref, "why", actor=actor), lambda: holds.release(ref, actor=actor)):  # noqa: B023
            with pytest.raises(error):
                act()
    assert holds.of(ref, actor=ALICE) is None


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_counting_a_users_events_reads_no_other_users(ref: SessionRef) -> None:
    for names in ((ref.source, "booking", "ana"), ref):
        with CaptureQueriesContext(connections[ref.source]) as captured:
            assert count_events(*names) == 0
        plan = str(query(ref.source, f"EXPLAIN QUERY PLAN {captured[-1]['sql']}"))
        assert "SEARCH" in plan
        assert "SCAN" not in plan


def test_an_erasure_of_more_sessions_than_one_person_may_delete_is_refused(ref: SessionRef) -> None:
    approval.make(by=ALICE, sessions=2, apps="book*")
    for name in ("s2", "s3"):
        create_session(ref.source, "booking", "ana", session_id=name, actor=ALICE)
    with pytest.raises(NotAllowed, match="Deleting more than 2 sessions"):
        erasures.begin(*ref[:3], actor=ALICE)
    delete_session(ref, actor=ALICE)
    assert erase(ref).report.sessions == 2
