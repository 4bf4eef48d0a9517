"""Edits that wait until the agent is idle: kept, applied once by one process, checked again, and told about."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.utils import translation
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.access.roles import actor_of
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound, SourceError
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit, queue
from sessions_app.edits.edit import Entry
from sessions_app.edits.queue import Queued
from sessions_app.jobs import runner
from sessions_app.jobs.lease import Lease, Outcome
from sessions_app.models import AgentAddress, AuditRow, Job
from sessions_app.reads import lists, timeline, views
from sessions_app.sources import database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support import processes
from tests.support.people import an_admin, somebody
from tests.support.stored import assert_state_is_what_events_say, events_of, everything, execute, in_threads, state_of

START: dict[str, Any] = {"step": "search", "draft": {"a": [1]}, "user:tier": "gold", "app:version": 3}
AGENT = Actor.holding("agent", "admin")
LONG_AGO = 60.0


pytestmark = pytest.mark.usefixtures("own")

in_a_file = pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def maria(own: str) -> User:
    """Somebody who queues edits."""
    found: User = an_admin("maria")
    return found


@pytest.fixture
def bo(own: str) -> User:
    """Somebody else."""
    found: User = an_admin("bo")
    return found


@pytest.fixture
def text(form: str, new_store: Callable[[str], str]) -> str:
    """What names the source's database."""
    return new_store(form)


@pytest.fixture
def ref(text: str, open_source: Callable[[str], str]) -> SessionRef:
    """A session with state in every scope, in which nothing runs."""
    source = open_source(text)
    return create_session(source, "booking", "ana", actor=AGENT, state=START, session_id="s1")


def say(ref: SessionRef, author: str, ago: float = 0.0, delta: dict[str, Any] | None = None, **event: Any) -> None:
    """Appends an event of a run, as the agent's process would."""
    part = event.pop("part", {"text": "…"})
    content = {"role": "user" if author == "user" else "model", "parts": [part]}
    actions = {"state_delta": delta} if delta else {}
    said = {"author": author, "invocation_id": "i1", "timestamp": time.time() - ago, "content": content, **event}
    append_event(ref, {**said, "actions": actions}, actor=AGENT)


def run(ref: SessionRef, ended_ago: float | None = None) -> None:
    """An invocation that runs, or that ended some seconds ago."""
    say(ref, "user", ended_ago or 0.0)
    if ended_ago is not None:
        say(ref, "agent", ended_ago)


def let_claims_end() -> None:
    """As if the lease had ended by itself."""
    Job.objects.filter(claimed_until__isnull=False).update(claimed_until=1.0)


def let_go(lease: Lease, outcome: Outcome) -> bool:
    """Ends a claim of another process, after a moment."""
    time.sleep(0.3)
    return lease.end(outcome)


def now(found: Queued) -> Queued:
    """An edit as it is by now."""
    return queue.get(found.id, actor=SYSTEM)


def edits_in(ref: SessionRef) -> list[dict[str, Any]]:
    """The stored events that are edits."""
    return [event for _seq, event in events_of(ref) if "adkweb" in event.get("custom_metadata", {})]


PAY = (Entry("step", "pay", "search"),)


# --- Waiting and applying ---------------------------------------------------------------------------------------------


def test_an_edit_waits_while_an_invocation_runs_and_becomes_one_event_when_it_has_ended(
    ref: SessionRef, maria: User
) -> None:
    run(ref)
    before = everything(ref.source)
    entries = [Entry("step", "pay", "search"), Entry("draft", ABSENT, {"a": [1]}), Entry("user:new", None, ABSENT)]
    waiting = queue.queue_edit(ref, entries, person=maria, reason="  by phone ")
    assert queue.apply_due() == 0
    assert everything(ref.source) == before
    assert (now(waiting).state, queue.any_waiting(), queue.outcomes(maria)) == ("waiting", True, [])
    (shown,) = queue.of_session(ref, actor=SYSTEM)
    assert (shown.ref, shown.actor, shown.reason, shown.entries) == (ref, "maria", "by phone", entries)
    assert [(c.key, c.old, c.new) for c in shown.changes][1] == ("draft", {"a": [1]}, ABSENT)

    say(ref, "agent", ago=LONG_AGO)
    began = time.time()
    assert queue.apply_due() == 1
    (event,) = edits_in(ref)
    assert event["id"] == waiting.event_id
    assert event["invocation_id"] == f"edit-{waiting.event_id}"
    assert (event["author"], event["timestamp"] >= began) == ("system", True)
    assert event["custom_metadata"]["adkweb"] == {
        "actor": "maria",
        "reason": "by phone",
        "replaced": {"step": "search", "draft": {"a": [1]}},
        "removed": ["draft"],
        "queued": waiting.created,
    }
    after = {"step": "pay", "user:tier": "gold", "user:new": None, "app:version": 3}
    assert views.session(ref, actor=SYSTEM).state.merged() == after
    assert_state_is_what_events_say(ref.source, {ref: START})
    (outcome,) = queue.outcomes(maria)
    assert (outcome.state, outcome.seq) == ("applied", events_of(ref)[-1][0])
    assert outcome.finished is not None
    assert outcome.finished >= began
    assert (queue.apply_due(), queue.any_waiting(), len(edits_in(ref))) == (0, False, 1)


def test_where_nothing_ever_ran_an_edit_is_applied_at_once(ref: SessionRef, maria: User) -> None:
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due([ref]) == 1
    assert state_of(ref)["session"]["step"] == "pay"


def test_an_invocation_that_ended_a_moment_ago_may_be_one_of_several(
    ref: SessionRef, maria: User, settings: Settings
) -> None:
    settings.SETTLE_SECONDS = 1000.0
    run(ref, ended_ago=500.0)
    waiting = queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 0
    settings.SETTLE_SECONDS = 400.0
    assert queue.apply_due() == 1
    assert now(waiting).state == "applied"


def test_after_an_edit_that_ended_the_invocation_nothing_is_waited_for(
    ref: SessionRef, maria: User, settings: Settings
) -> None:
    settings.SETTLE_SECONDS = 1000.0
    run(ref)
    waiting = queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 0
    now_or_never = edit.edit_state(ref, [Entry("note", 1, ABSENT)], actor=AGENT).event
    assert now_or_never["custom_metadata"]["adkweb"]["ended"] == "i1"
    assert queue.held(ref, actor=SYSTEM) is None
    assert queue.apply_due() == 1
    assert now(waiting).state == "applied"


def test_only_an_edit_that_meets_a_running_invocation_says_that_it_ended_it(ref: SessionRef, maria: User) -> None:
    run(ref, ended_ago=LONG_AGO)
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 1
    edit.edit_state(ref, [Entry("note", 1, ABSENT)], actor=AGENT)
    assert [each for each in edits_in(ref) if "ended" in each["custom_metadata"]["adkweb"]] == []


def test_edits_of_others_do_not_put_a_queued_edit_off(ref: SessionRef, maria: User) -> None:
    run(ref, ended_ago=LONG_AGO)
    edit.edit_state(ref, [Entry("else", 1, ABSENT)], actor=AGENT)
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 1


def test_a_clock_that_is_years_ahead_holds_nothing_up(ref: SessionRef, maria: User) -> None:
    run(ref, ended_ago=-10 * 365 * 86400.0)
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 1


def test_an_invocation_that_waits_for_a_person_holds_no_session(ref: SessionRef, maria: User) -> None:
    say(ref, "user", LONG_AGO)
    call = {"function_call": {"id": "c1", "name": "ask", "args": {}}}
    say(ref, "agent", LONG_AGO, part=call, long_running_tool_ids=["c1"])
    running = timeline.in_flight(ref, actor=SYSTEM)
    assert running is not None
    assert running.waiting
    assert queue.held(ref, actor=SYSTEM) is None
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 1


def test_a_run_of_adkweb_s_own_takes_an_edit_in_unless_another_server_runs_it(ref: SessionRef, maria: User) -> None:
    run(ref)
    names = dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True))
    Job.objects.make("run", registry.identity(ref.source), {}, **names, **runner.fields_of(SYSTEM))
    address = AgentAddress.objects.create(
        where=registry.identity(ref.source), app_name=ref.app_name, url="https://a/", changed=time.time()
    )
    assert queue.held(ref, actor=SYSTEM)
    address.delete()
    assert timeline.in_flight(ref, actor=SYSTEM)
    assert queue.held(ref, actor=SYSTEM) is None
    event = edit.edit_state(ref, PAY, actor=actor_of(maria)).event
    assert "ended" not in event["custom_metadata"]["adkweb"]
    assert timeline.status_of(ref, actor=SYSTEM).name == "running"


def test_an_agent_that_died_is_not_waited_for_longer_than_the_silence_that_is_set(
    ref: SessionRef, maria: User, settings: Settings
) -> None:
    say(ref, "user", ago=LONG_AGO)
    queue.queue_edit(ref, PAY, person=maria)
    assert queue.apply_due() == 0
    settings.SILENCE_SECONDS = LONG_AGO / 2
    assert queue.apply_due() == 1


def test_an_invocation_that_begins_between_the_look_and_the_append_is_not_ended(
    ref: SessionRef, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    look = timeline.in_danger

    def look_just_before(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        run(ref)
        return found

    monkeypatch.setattr(timeline, "in_danger", look_just_before)
    assert queue.apply_due() == 0
    monkeypatch.undo()
    assert (edits_in(ref), now(waiting).state) == ([], "waiting")
    say(ref, "agent", ago=LONG_AGO)
    assert queue.apply_due() == 1


def test_edits_of_one_session_are_applied_in_their_order_and_of_others_whenever(ref: SessionRef, maria: User) -> None:
    other = create_session(*ref[:3], session_id="other", actor=AGENT)
    run(ref)
    for number in range(3):
        queue.queue_edit(ref, [Entry(f"k{number}", number, ABSENT)], person=maria)
    queue.queue_edit(other, [Entry("k", 1, ABSENT)], person=maria)
    assert queue.apply_due([SessionRef(*ref[:3], "none")]) == 0
    assert queue.apply_due() == 1
    assert state_of(other)["session"] == {"k": 1}
    say(ref, "agent", ago=LONG_AGO)
    assert queue.apply_due([ref]) == 3
    assert [list(event["actions"]["state_delta"]) for event in edits_in(ref)] == [["k0"], ["k1"], ["k2"]]


def test_what_comes_first_in_a_session_is_applied_first_even_while_another_process_has_it(
    ref: SessionRef, maria: User
) -> None:
    first = queue.queue_edit(ref, [Entry("a", 1, ABSENT)], person=maria)
    queue.queue_edit(ref, [Entry("b", 1, ABSENT)], person=maria)
    Job.objects.filter(pk=first.id).update(claimed_until=time.time() + 100)
    assert queue.apply_due() == 0
    assert edits_in(ref) == []


# --- Refused at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], r"Nothing would change\."),
        ([Entry("step", "search", "search")], r"Nothing would change\."),
        ([Entry("temp:x", 1, ABSENT)], "temp: keys"),
        ([Entry("a", math.nan, ABSENT)], "NaN"),
        ([Entry("a", "\ud800", ABSENT)], "surrogate"),
        ([Entry("a\0", 1, ABSENT)], r"U\+0000"),
    ],
)
def test_what_could_never_be_applied_is_refused_when_it_is_queued(
    ref: SessionRef, maria: User, entries: list[Entry], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        queue.queue_edit(ref, entries, person=maria)
    with pytest.raises(Invalid, match="longer than"):
        queue.queue_edit(ref, PAY, person=maria, reason="x" * 1001)
    assert not queue.any_waiting()


def test_an_edit_of_a_session_that_is_not_there_is_refused(ref: SessionRef, maria: User) -> None:
    for missing in (SessionRef(*ref[:3], "none"), SessionRef("nowhere", *ref[1:])):
        with pytest.raises(NotFound):
            queue.queue_edit(missing, PAY, person=maria)
    assert not queue.any_waiting()


def test_a_key_that_has_changed_already_is_a_conflict_when_it_is_queued(ref: SessionRef, maria: User) -> None:
    with pytest.raises(Conflict) as refused:
        queue.queue_edit(ref, [Entry("step", 1, "old"), Entry("new", 1, ABSENT)], person=maria)
    assert refused.value.detail["current"] == {"step": "search", "new": ABSENT}
    assert not queue.any_waiting()


def test_a_read_only_adkweb_queues_applies_and_withdraws_nothing(
    ref: SessionRef, maria: User, settings: Settings
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed):
        queue.queue_edit(ref, [Entry("x", 1, ABSENT)], person=maria)
    with pytest.raises(NotAllowed):
        queue.cancel(waiting.id, maria)
    assert queue.apply_due() == 0
    assert (now(waiting).state, len(queue.of_session(ref, actor=SYSTEM))) == ("waiting", 1)


def test_a_form_that_is_sent_twice_is_queued_once(ref: SessionRef, maria: User, bo: User) -> None:
    first = queue.queue_edit(ref, PAY, person=maria, once="form1")
    assert queue.queue_edit(ref, PAY, person=maria, once="form1").id == first.id
    other = create_session(*ref[:3], session_id="other", state={"step": "search"}, actor=AGENT)
    others = [
        queue.queue_edit(ref, [Entry("step", "else", "search")], person=maria, once="form1"),
        queue.queue_edit(ref, PAY, person=bo, once="form1"),
        queue.queue_edit(ref, PAY, person=maria, once="form2"),
        queue.queue_edit(other, PAY, person=maria, once="form1"),
    ]
    assert len({first.id, *(each.id for each in others)}) == 5
    queue.apply_due()
    again = queue.queue_edit(ref, PAY, person=maria, once="form1")
    assert (again.id, again.state) == (first.id, "applied")


def test_a_form_that_is_sent_many_times_at_once_is_queued_once(ref: SessionRef, maria: User) -> None:
    found = in_threads([lambda: queue.queue_edit(ref, PAY, person=maria, once="form1").id] * 8)
    assert len(set(found)) == 1
    assert Job.objects.count() == 1


def test_an_edit_that_was_applied_now_by_the_same_form_is_not_written_again(ref: SessionRef, maria: User) -> None:
    run(ref)
    waiting = queue.queue_edit(ref, PAY, person=maria, once="form1")
    edit.edit_state(ref, PAY, actor=Actor.holding("maria", "admin"), once="form1")
    run(ref)
    assert queue.apply_due() == 1
    assert (now(waiting).state, len(edits_in(ref))) == ("applied", 1)


# --- What became of it ------------------------------------------------------------------------------------------------


def test_a_key_that_changed_meanwhile_is_a_conflict_and_nothing_is_written(ref: SessionRef, maria: User) -> None:
    run(ref)
    entries = [Entry("new", 1, ABSENT), Entry("step", "pay", "search"), Entry("app:version", 4, 3)]
    waiting = queue.queue_edit(ref, entries, person=maria)
    say(ref, "agent", ago=LONG_AGO, delta={"step": "seats", "app:version": 5})
    before = everything(ref.source)
    assert queue.apply_due() == 1
    assert everything(ref.source) == before
    (outcome,) = queue.outcomes(maria)
    assert (outcome.id, outcome.state, outcome.changed) == (waiting.id, "conflict", ["step", "app:version"])
    assert outcome.entries == entries
    assert queue.apply_due() == 0


def test_the_second_of_two_edits_of_a_key_is_a_conflict_unless_it_knew_of_the_first(
    ref: SessionRef, maria: User, bo: User
) -> None:
    run(ref)
    for value, person in (("pay", maria), ("seats", bo)):
        queue.queue_edit(ref, [Entry("step", value, "search")], person=person)
    say(ref, "agent", ago=LONG_AGO)
    assert queue.apply_due() == 2
    assert state_of(ref)["session"]["step"] == "pay"
    assert [queue.outcomes(person)[0].state for person in (maria, bo)] == ["applied", "conflict"]


def test_an_edit_of_a_session_that_was_deleted_fails_and_says_so(ref: SessionRef, maria: User) -> None:
    run(ref)
    waiting = queue.queue_edit(ref, PAY, person=maria)
    delete_session(ref, actor=AGENT)
    assert queue.apply_due() == 1
    assert (now(waiting).state, now(waiting).message) == ("failed", "The session was deleted.")


def test_a_reason_to_fail_is_kept_as_it_is_and_read_in_ones_own_language(ref: SessionRef, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    delete_session(ref, actor=AGENT)
    with translation.override("ko"):
        assert queue.apply_due() == 1
    assert now(waiting).message == "The session was deleted."


@pytest.mark.parametrize("gone", ["inactive", "deleted"])
def test_an_edit_of_somebody_who_has_no_account_any_more_is_not_applied(
    ref: SessionRef, maria: User, bo: User, gone: str
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    if gone == "deleted":
        maria.delete()
    else:
        User.objects.filter(pk=maria.pk).update(is_active=False)
    before = everything(ref.source)
    assert queue.apply_due() == 1
    assert everything(ref.source) == before
    assert (now(waiting).state, now(waiting).message) == (
        "failed",
        "The person who queued this no longer has an account.",
    )
    assert [found.id for found in queue.of_session(ref, actor=SYSTEM)] == [waiting.id]
    queue.dismiss(waiting.id, bo)
    assert queue.of_session(ref, actor=SYSTEM) == []


def test_an_author_who_was_renamed_stands_in_the_event_as_who_queued_it(ref: SessionRef, maria: User) -> None:
    queue.queue_edit(ref, PAY, person=maria)
    User.objects.filter(pk=maria.pk).update(username="mary")
    assert queue.apply_due() == 1
    assert edits_in(ref)[0]["custom_metadata"]["adkweb"]["actor"] == "maria"


def test_only_its_author_dismisses_an_outcome_and_a_waiting_edit_has_none(
    ref: SessionRef, maria: User, bo: User
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    with pytest.raises(NotFound):
        queue.dismiss(waiting.id, maria)
    queue.apply_due()
    with pytest.raises(NotFound):
        queue.dismiss(waiting.id, bo)
    assert (queue.outcomes(bo), len(queue.outcomes(maria))) == ([], 1)
    queue.dismiss(waiting.id, maria)
    assert (queue.outcomes(maria), queue.of_session(ref, actor=SYSTEM)) == ([], [])


def test_what_everybody_knows_is_not_kept_for_ever(ref: SessionRef, maria: User) -> None:
    for name in ("a", "b", "c"):
        queue.queue_edit(ref, [Entry(name, 1, ABSENT)], person=maria)
    queue.apply_due()
    old, told, _untold = queue.outcomes(maria)
    for outcome in (old, told):
        queue.dismiss(outcome.id, maria)
    Job.objects.exclude(pk=told.id).update(finished=1.0)
    queue.queue_edit(ref, PAY, person=maria)
    assert Job.objects.count() == 3
    with pytest.raises(NotFound):
        queue.get(old.id, actor=SYSTEM)


# --- Withdrawn --------------------------------------------------------------------------------------------------------


def test_a_waiting_edit_can_be_withdrawn_by_whoever_may_edit_and_its_author_is_told_who_did(
    ref: SessionRef, maria: User, bo: User
) -> None:
    mine = queue.queue_edit(ref, [Entry("a", 1, ABSENT)], person=maria)
    theirs = queue.queue_edit(ref, [Entry("b", 1, ABSENT)], person=maria)
    queue.cancel(mine.id, maria)
    queue.cancel(theirs.id, bo)
    assert queue.apply_due() == 0
    assert edits_in(ref) == []
    (outcome,) = queue.outcomes(maria)
    assert (outcome.id, outcome.state, outcome.message) == (theirs.id, "withdrawn", "bo")
    for found in (mine, theirs):
        with pytest.raises(Conflict, match="is no longer waiting"):
            queue.cancel(found.id, maria)
    again = queue.queue_edit(ref, [Entry("a", 1, ABSENT)], person=maria)
    assert again.state == "waiting"
    rows = AuditRow.objects.filter(act="queued-withdrawn").order_by("number")
    assert [(row.by, row.session_id, json.loads(row.detail)) for row in rows] == [
        ("maria", "s1", {"keys": ["a"], "of": "maria"}),
        ("bo", "s1", {"keys": ["b"], "of": "maria"}),
    ]


def test_who_may_only_look_queues_withdraws_and_dismisses_nothing_whatever_their_page_says(
    ref: SessionRef, maria: User
) -> None:
    vera = somebody("vera", "viewer", ref.app_name)
    waiting = queue.queue_edit(ref, PAY, person=maria)
    for act in (lambda: queue.queue_edit(ref, PAY, person=vera), lambda: queue.cancel(waiting.id, vera)):
        with pytest.raises(NotAllowed):
            act()
    assert (now(waiting).state, Job.objects.count()) == ("waiting", 1)
    queue.cancel(waiting.id, somebody("ed", "editor", ref.app_name))
    User.objects.filter(pk=maria.pk).update(is_active=False)
    with pytest.raises(NotAllowed):
        queue.dismiss(waiting.id, vera)
    queue.dismiss(waiting.id, somebody("ed", "editor", ref.app_name))
    # Whoever may not edit any more still takes back what is their own.
    ed = somebody("ed", "editor", ref.app_name)
    mine = queue.queue_edit(ref, PAY, person=ed)
    queue.cancel(mine.id, somebody("ed", "viewer", ref.app_name))
    assert now(mine).state == "withdrawn"


def test_what_is_being_applied_cannot_be_withdrawn(ref: SessionRef, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    Job.objects.update(claimed_until=time.time() + 100)
    with pytest.raises(Conflict, match="is already being applied"):
        queue.cancel(waiting.id, maria)
    assert now(waiting).state == "waiting"


def test_withdrawing_waits_for_a_process_that_only_sees_that_the_session_is_busy(ref: SessionRef, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    lease = Lease.take(Job.objects.get(), 100)
    assert lease
    assert in_threads([lambda: queue.cancel(waiting.id, maria), lambda: let_go(lease, Outcome())]) == [None, True]
    assert now(waiting).state == "withdrawn"


def test_withdrawing_waits_no_longer_for_an_edit_that_was_applied_meanwhile(ref: SessionRef, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    lease = Lease.take(Job.objects.get(), 100)
    assert lease
    began = time.monotonic()
    applied = Outcome("applied", fields={"result": '{"seq": 1}'})
    refusal, ended = in_threads([lambda: queue.cancel(waiting.id, maria), lambda: let_go(lease, applied)])
    assert (isinstance(refusal, Conflict), ended, now(waiting).state) == (True, True, "applied")
    assert 0.2 < time.monotonic() - began < 1.5


def test_of_withdrawing_and_applying_at_once_one_happens(ref: SessionRef, maria: User) -> None:
    for number in range(12):
        waiting = queue.queue_edit(ref, [Entry(f"k{number}", 1, ABSENT)], person=maria)
        withdrawn, applied = in_threads([lambda w=waiting: queue.cancel(w.id, maria), queue.apply_due])
        outcome = now(waiting).state
        written = f"k{number}" in state_of(ref)["session"]
        if outcome == "applied":
            assert (isinstance(withdrawn, Conflict), applied, written) == (True, 1, True)
        else:
            assert (outcome, withdrawn, applied, written) == ("withdrawn", None, 0, False)


# --- Crashes, other processes, other databases ------------------------------------------------------------------------


@on_both_of_adkwebs_own
def test_of_many_threads_one_applies_each_edit(ref: SessionRef, maria: User) -> None:
    waiting = [queue.queue_edit(ref, [Entry(f"k{n}", n, ABSENT)], person=maria) for n in range(5)]
    finished = in_threads([queue.apply_due] * 8)
    while more := queue.apply_due():  # whoever met another's claim left the rest to the next time
        finished.append(more)
    assert sum(finished) == 5, finished
    assert [event["id"] for event in edits_in(ref)] == [found.event_id for found in waiting]
    assert_state_is_what_events_say(ref.source, {ref: START})


@on_both_of_adkwebs_own
def test_of_many_processes_one_applies_an_edit(ref: SessionRef, text: str, own: str, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    barrier = processes.CONTEXT.Barrier(4)
    assert processes.run(processes.apply_together, own, text, barrier, copies=4) == [0] * 4
    assert (now(waiting).state, len(edits_in(ref))) == ("applied", 1)


@pytest.mark.guarantee("Agents", "A queued edit is applied only once, even if processes are killed.")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["seen to be dead", "on another machine"])
def test_a_process_that_is_killed_between_writing_and_noting_so_leaves_an_edit_that_is_applied_once(
    ref: SessionRef, text: str, own: str, maria: User, bo: User, elsewhere: bool
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    assert processes.run(processes.apply_then_die, own, text) == [processes.KILLED]
    assert (now(waiting).state, len(edits_in(ref))) == ("waiting", 1)
    run(ref)  # and the agent goes on
    if elsewhere:
        Job.objects.update(process="")
        assert queue.apply_due() == 0  # the claim lasts
        let_claims_end()
    with pytest.raises(Conflict, match="has already been applied"):
        queue.cancel(waiting.id, bo)
    assert (now(waiting).state, now(waiting).seq) == ("applied", events_of(ref)[0][0])
    assert (queue.apply_due(), len(edits_in(ref))) == (0, 1)


def test_an_edit_that_a_process_left_half_applied_is_found_by_the_next(
    ref: SessionRef, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    monkeypatch.setattr(queue, "finish", lambda *_: False)  # dies before it
    assert queue.apply_due() == 0
    monkeypatch.undo()
    say(ref, "agent", delta={"step": "seats"})  # which would be a conflict for an edit that was not written
    let_claims_end()
    assert queue.apply_due() == 1
    assert (now(waiting).state, now(waiting).seq, len(edits_in(ref))) == ("applied", events_of(ref)[0][0], 1)


def test_a_process_that_slept_longer_than_its_claim_writes_nothing_twice(
    ref: SessionRef, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    append = edit.append_once

    def sleep_first(*arguments: Any) -> Any:
        monkeypatch.setattr(edit, "append_once", append)
        let_claims_end()
        assert queue.apply_due() == 1
        return append(*arguments)

    monkeypatch.setattr(edit, "append_once", sleep_first)
    assert queue.apply_due() == 0
    assert (now(waiting).state, len(edits_in(ref)), len(queue.outcomes(maria))) == ("applied", 1, 1)


def test_an_edit_of_a_database_that_goes_away_waits_until_it_is_back(
    ref: SessionRef, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)

    def away(*_: Any, **__: Any) -> Any:
        raise SourceError("away")

    monkeypatch.setattr(views, "session", away)
    assert queue.apply_due() == 0
    monkeypatch.undo()
    queue.cancel(waiting.id, maria)  # certainly not written
    waiting = queue.queue_edit(ref, PAY, person=maria)
    monkeypatch.setattr(edit, "append_once", away)
    assert queue.apply_due() == 0
    monkeypatch.setattr(edit, "stored", away)
    with pytest.raises(SourceError):  # perhaps written
        queue.cancel(waiting.id, maria)
    assert queue.apply_due() == 0
    with pytest.raises(SourceError):
        queue.cancel(waiting.id, maria)
    monkeypatch.undo()
    assert queue.apply_due() == 1
    assert (now(waiting).state, len(edits_in(ref))) == ("applied", 1)


@in_a_file
def test_an_edit_of_a_file_that_is_moved_away_waits_until_it_is_back(ref: SessionRef, text: str, maria: User) -> None:
    waiting = queue.queue_edit(ref, PAY, person=maria)
    file, away = Path(text), Path(text + ".away")
    execute(ref.source, "PRAGMA wal_checkpoint(TRUNCATE)")
    connections[ref.source].close()
    file.rename(away)
    assert queue.apply_due() == 0
    away.rename(file)
    assert queue.apply_due() == 1
    assert now(waiting).state == "applied"


@in_a_file
def test_another_database_under_the_same_name_gets_nothing(
    form: str, tmp_path: Path, open_source: Callable[..., str], maria: User
) -> None:
    def opened(folder: str) -> SessionRef:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "same.db").touch()
        alias = open_source(str(tmp_path / folder / "same.db"), form)
        ref = SessionRef(alias, "booking", "ana", "s1")
        if not lists.sessions(alias, "booking", actor=SYSTEM).rows:
            create_session(*ref[:3], session_id="s1", state=START, actor=AGENT)
        return ref

    first = opened("one")
    waiting = queue.queue_edit(first, PAY, person=maria)
    database.forget(first.source)  # a restart
    second = opened("two")
    assert second == first
    assert (queue.apply_due(), queue.of_session(second, actor=SYSTEM), now(waiting).ref) == (0, [], None)
    third = opened("one")
    assert third.source != first.source
    assert [found.ref for found in queue.of_session(third, actor=SYSTEM)] == [third]
    assert queue.apply_due() == 1
    assert (state_of(third)["session"]["step"], state_of(second)["session"]["step"]) == ("pay", "search")


def test_a_fault_with_one_edit_does_not_hold_up_the_others(
    ref: SessionRef, maria: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = create_session(*ref[:3], session_id="other", actor=AGENT)
    bad = queue.queue_edit(ref, PAY, person=maria)
    good = queue.queue_edit(other, [Entry("k", 1, ABSENT)], person=maria)
    event = queue.event_of

    def break_one(queued: Queued) -> Any:
        if queued.id == bad.id:
            raise RuntimeError("a bug")
        return event(queued)

    monkeypatch.setattr(queue, "event_of", break_one)
    assert queue.apply_due() == 1
    monkeypatch.undo()
    assert (now(bad).state, now(good).state) == ("waiting", "applied")
    assert "a bug" in caplog.text
    let_claims_end()
    assert queue.apply_due() == 1


# --- Anything may stand in it -----------------------------------------------------------------------------------------


@on_both_of_adkwebs_own
@pytest.mark.parametrize(
    "name",
    ["x" * 10_000, "שלום", "👩‍👩‍👧", "'; DROP TABLE queued; --", "<b>&amp;", "user:  ", "app:%s", "a\u202eb\n\tc"],
)
def test_any_key_and_value_comes_through_the_queue_as_it_was(ref: SessionRef, maria: User, name: str) -> None:
    value = {"n": [1.5, 10**30, True, None, "é\u2028🧳", {name: "</script>"}], "long": "x" * 1_000_000}
    queue.queue_edit(ref, [Entry(name, value, ABSENT)], person=maria, reason="🧳 <i>שלום</i>")
    (shown,) = queue.of_session(ref, actor=SYSTEM)
    assert equal([shown.entries[0].key, shown.entries[0].value], [name, value])
    assert queue.apply_due() == 1
    assert equal(views.session(ref, actor=SYSTEM).state.get(name), value)
    assert edits_in(ref)[0]["custom_metadata"]["adkweb"]["reason"] == "🧳 <i>שלום</i>"


@in_a_file  # PostgreSQL holds no such value
@on_both_of_adkwebs_own
def test_what_adk_stored_although_it_is_not_json_can_be_replaced(ref: SessionRef, maria: User) -> None:
    execute(ref.source, "UPDATE sessions SET state = %s", ['{"n": NaN, "half": "\\ud83d", "zero": "\\u0000"}'])
    state = views.session(ref, actor=SYSTEM).state
    entries = [Entry(name, 1, state.get(name)) for name in ("n", "half", "zero")]
    queue.queue_edit(ref, entries, person=maria)
    assert queue.apply_due() == 1
    assert state_of(ref)["session"] == {"n": 1, "half": 1, "zero": 1}
