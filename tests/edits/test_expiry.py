"""Edits that take themselves back: by one event, by one process, and only what they wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef, own_session
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit, ending, expiry
from sessions_app.edits.edit import Entry
from sessions_app.edits.expiry import Expiry
from sessions_app.jobs.lease import Lease
from sessions_app.models import AuditRow, Job
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.booking import START
from tests.support.people import ALICE, BOB, CHARLIE
from tests.support.stored import assert_state_is_what_events_say, events_of, in_threads

AGENT = Actor.holding("agent", "admin")
PAY = [Entry("step", "pay", "search"), Entry("user:new", 1, ABSENT), Entry("draft", ABSENT, {"a": [1]})]

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def ref(
    request: pytest.FixtureRequest, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> SessionRef:
    """A session with state in every scope."""
    source = open_source(new_store(request.param))
    return create_session(source, "booking", "ana", actor=AGENT, state=START, session_id="s1")


def write(ref: SessionRef, *entries: Entry, lasts: float = 3600.0, once: str = "") -> Expiry:
    """An edit of Alice's for an hour."""
    edit.edit_state(ref, entries or PAY, actor=ALICE, reason="a trial", once=once, of={"lasts": lasts})
    return expiry.listed(actor=SYSTEM)[0]


def let_time_pass() -> None:
    """As if the hour were over."""
    Job.objects.filter(kind="expiry").update(due=time.time() - 1)


def state(ref: SessionRef) -> dict[str, Any]:
    return views.session(ref, actor=SYSTEM).state.merged()


def test_an_edit_takes_itself_back_by_an_undo_that_says_who_and_why(ref: SessionRef) -> None:
    before = state(ref)
    waiting = write(ref)
    _seq, written = events_of(ref)[-1]
    assert edit_of(written)["until"] == waiting.until == pytest.approx(time.time() + 3600, abs=60)
    assert (ending.apply_due(), waiting.state) == (0, "waiting")
    let_time_pass()
    assert (ending.apply_due(), ending.apply_due()) == (1, 0)
    _seq, taken_back = events_of(ref)[-1]
    note = edit_of(taken_back)
    assert (note["actor"], note["undoes"], note["reason"]) == ("alice", written["id"], "Expired. a trial")
    assert (note["left"], state(ref)) == ([], before)
    outcome = expiry.get(waiting.id, actor=SYSTEM)
    assert (outcome.state, outcome.end_id) == ("ended", taken_back["id"])
    assert_state_is_what_events_say(ref.source, {ref: START})


def test_a_key_that_somebody_wrote_since_is_left_and_named(ref: SessionRef) -> None:
    waiting = write(ref)
    said = {"author": "agent", "timestamp": time.time() - 60.0, "actions": {"state_delta": {"step": "done"}}}
    append_event(ref, said, actor=AGENT)
    let_time_pass()
    finished = ending.apply_due()
    after = state(ref)
    assert (finished, after["step"], after["draft"], "user:new" in after) == (1, "done", {"a": [1]}, False)
    outcome = expiry.get(waiting.id, actor=SYSTEM)
    assert (outcome.state, outcome.left, edit_of(events_of(ref)[-1][1])["left"]) == ("left", ["step"], ["step"])


def test_where_every_key_changed_nothing_is_written_and_the_list_says_so(ref: SessionRef) -> None:
    waiting = write(ref, PAY[0])
    edit.edit_state(ref, [Entry("step", "done", "pay")], actor=BOSS)
    let_time_pass()
    stored = events_of(ref)
    assert (ending.apply_due(), events_of(ref)) == (1, stored)
    outcome = expiry.get(waiting.id, actor=SYSTEM)
    assert (outcome.state, outcome.left, outcome.end_id) == ("left", ["step"], "")


BOSS = Actor.holding("bo", "admin")


@on_both_of_adkwebs_own
def test_many_processes_take_an_edit_back_once(ref: SessionRef) -> None:
    write(ref)
    let_time_pass()
    assert sum(in_threads([ending.apply_due] * 6)) == 1
    assert len(events_of(ref)) == 2


def test_a_process_that_died_after_writing_is_followed_by_one_that_writes_nothing(ref: SessionRef) -> None:
    waiting = write(ref)
    let_time_pass()
    assert ending.apply_due() == 1
    Job.objects.filter(pk=waiting.id).update(state="waiting", finished=None, claim="x", claimed_until=1.0)
    with pytest.raises(Conflict):
        expiry.extend(waiting.id, {"lasts": 60.0}, actor=BOSS)
    Job.objects.filter(pk=waiting.id).update(state="waiting", finished=None, claim="x", claimed_until=1.0)
    assert ending.apply_due() == 1
    assert (len(events_of(ref)), expiry.get(waiting.id, actor=SYSTEM).state) == (2, "ended")


def test_an_edit_that_is_sent_again_because_its_process_died_before_writing_it_ends_at_its_own_time(
    ref: SessionRef,
) -> None:
    event, _seen = edit.state_event(PAY, ALICE, "a trial", once="form", of={"lasts": 3600.0})
    with suppress(SourceError), expiry.kept(ref, event, ALICE):
        raise SourceError("the process died")
    let_time_pass()
    assert (ending.apply_due(), expiry.listed(actor=SYSTEM)[0].state) == (1, "failed")
    waiting = write(ref, lasts=7200.0, once="form")
    assert (waiting.state, waiting.message, waiting.until) == ("waiting", "", pytest.approx(time.time() + 7200, abs=60))
    let_time_pass()
    assert (ending.apply_due(), expiry.get(waiting.id, actor=SYSTEM).state) == (1, "ended")


def test_an_edit_can_last_longer_or_stay(ref: SessionRef) -> None:
    waiting = write(ref)
    let_time_pass()
    longer = expiry.extend(waiting.id, {"lasts": 7200.0}, actor=BOSS)
    assert (longer.state, longer.message, ending.apply_due()) == ("waiting", "bo", 0)
    assert longer.until == pytest.approx(time.time() + 7200, abs=60)
    kept = expiry.keep(waiting.id, actor=BOSS)
    let_time_pass()
    assert (kept.state, kept.message, ending.apply_due(), state(ref)["step"]) == ("cancelled", "bo", 0, "pay")
    for act in (
        lambda: expiry.keep(waiting.id, actor=BOSS),
        lambda: expiry.extend(waiting.id, {"lasts": 9.0}, actor=BOSS),
    ):
        with pytest.raises(Conflict):
            act()
    rows = AuditRow.objects.filter(act="expiry-changed").order_by("number")
    assert [(row.by, row.session_id, json.loads(row.detail)) for row in rows] == [
        ("bo", ref.session_id, {"event": waiting.event_id, "of": "alice", "until": int(longer.until)}),
        ("bo", ref.session_id, {"event": waiting.event_id, "of": "alice", "stays": True}),
    ]


def test_who_may_not_see_or_write_can_change_no_end(ref: SessionRef) -> None:
    waiting = write(ref)
    assert expiry.listed(actor=CHARLIE) == []
    assert (len(expiry.listed(actor=BOB)), expiry.listed(actor=BOB, own=True)) == (1, [])
    with pytest.raises(NotFound):
        expiry.keep(waiting.id, actor=CHARLIE)
    with pytest.raises(NotAllowed):
        expiry.keep(waiting.id, actor=BOB)


def test_an_edit_that_is_refused_leaves_no_end_and_one_sent_again_has_one(ref: SessionRef) -> None:
    with pytest.raises(Conflict):
        write(ref, Entry("step", "pay", "another"))
    assert not Job.objects.filter(kind="expiry").exists()
    assert write(ref, once="form").id == write(ref, once="form").id
    assert (len(expiry.listed(actor=SYSTEM)), len(events_of(ref))) == (1, 1)


@pytest.mark.parametrize(
    "of", [{"lasts": 0.0}, {"until": 5.0}, {"lasts": 1e9}, {"until": float("nan")}, {"lasts": 5.0, "until": 2e9}]
)
def test_an_end_that_cannot_be_is_refused_before_anything_is_written(ref: SessionRef, of: dict[str, float]) -> None:
    with pytest.raises(Invalid):
        edit.edit_state(ref, PAY, actor=ALICE, of=of)
    assert (events_of(ref), Job.objects.filter(kind="expiry").exists()) == ([], False)


def test_the_end_waits_while_an_invocation_runs_or_a_claim_holds(ref: SessionRef) -> None:
    waiting = write(ref)
    let_time_pass()
    said = {"author": "user", "invocation_id": "i1", "content": {"role": "user", "parts": [{"text": "…"}]}}
    append_event(ref, {**said, "timestamp": time.time()}, actor=AGENT)
    assert ending.apply_due() == 0
    assert Lease.take(Job.objects.get(pk=waiting.id), 30.0) is not None
    with pytest.raises(Conflict):
        expiry.keep(waiting.id, actor=BOSS)


def test_a_deleted_session_ends_with_the_reason(ref: SessionRef) -> None:
    waiting = write(ref)
    delete_session(ref, actor=SYSTEM)
    let_time_pass()
    assert ending.apply_due() == 1
    assert expiry.get(waiting.id, actor=SYSTEM).state == "failed"


def test_shared_state_is_taken_back_too(ref: SessionRef) -> None:
    edit.edit_user_state(*ref[:3], [Entry("user:tier", "vip", "gold")], actor=ALICE, of={"lasts": 60.0})
    let_time_pass()
    assert ending.apply_due() == 1
    assert state(own_session(*ref[:3]))["user:tier"] == "gold"
