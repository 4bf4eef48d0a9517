"""A message or an answer with state that needs a second person: one proposal, written and sent in one step."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.errors import AgentError, Conflict, Held, Invalid, NotAllowed, StaleSession
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits import edit, proposal_job, proposals
from sessions_app.edits.edit import Entry
from sessions_app.edits.proposals import Proposal
from sessions_app.jobs import runner
from sessions_app.models import Answer, AuditRow, Job
from sessions_app.reads import views
from sessions_app.running import answers, files, proposed, runs
from sessions_app.running.first import First, rewound
from sessions_app.writes.sessions import create_session, delete_session
from tests.running.test_answers import YES, asking, ended, paid, rows
from tests.support.people import ALICE, somebody

SILVER = Entry("tier", "silver", "gold")


@pytest.fixture
def source(source: str) -> str:
    """A source whose agents may be started, with a rule for the key `tier`."""
    approval.make(by=ALICE, keys="tier", apps="helper")
    return source


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session with that key."""
    return create_session(source, "helper", "ana", session_id="s1", state={"tier": "gold"}, actor=SYSTEM)


@pytest.fixture
def maria(own: str) -> Actor:
    """An editor."""
    return roles.actor_of(somebody("maria", "editor"))


@pytest.fixture
def ben(own: str) -> Actor:
    """Another one."""
    return roles.actor_of(somebody("ben", "editor"))


def propose(ref: SessionRef, actor: Actor, first: First | None = None, text: str = "look", **more: Any) -> Proposal:
    with pytest.raises(Held) as held:
        runs.say(ref, text, first=first or First([SILVER], "by phone"), actor=actor, **more)
    return proposals.get(held.value.detail["proposal"], actor=actor)


def tier(ref: SessionRef) -> Any:
    return views.session(ref, actor=SYSTEM).state.get("tier")


@pytest.mark.guarantee(
    "Agents",
    "A message or an answer with state that needs a second person waits as a whole. It's written and sent in one step, "
    "or not at all.",
)
def test_a_message_waits_with_its_state_until_an_editor_applies_both(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria, attached=[files.part("a.txt", b"hi")])
    assert (rows(ref), tier(ref), Job.objects.filter(kind="run").count()) == ([], "gold", 0)
    assert [(each.key, each.old, each.new) for each in waiting.changes] == [("tier", "gold", "silver")]
    assert (waiting.kind, waiting.text, waiting.files, waiting.reason) == ("message", "look", ["a.txt"], "by phone")
    for nobody in (maria, roles.actor_of(somebody("olga", "operator"))):
        with pytest.raises(NotAllowed):
            proposed.apply(waiting.id, actor=nobody)
    assert (proposals.count(actor=ben), proposals.count(actor=maria)) == (1, 0)
    assert proposed.apply(waiting.id, actor=ben).decided_by == "ben"
    run = ended(runs.last(ref))
    set_, said, *_called, looked, _done = rows(ref)
    note = edit_of(set_.data)
    assert (note["actor"], note["approved_by"], note["reason"]) == ("maria", "ben", "by phone")
    assert (said.description.text, run.actor, run.message) == ("look", "maria, ben", "")
    assert looked.description.responses[0].value["state"]["tier"] == "silver"
    assert ("message-sent", "maria, ben") in AuditRow.objects.values_list("act", "by")
    with pytest.raises(Conflict, match="already been decided"):
        proposed.apply(waiting.id, actor=ben)


def test_an_answer_waits_with_its_state_and_is_for_an_editor(source: str, maria: Actor, ben: Actor) -> None:
    asks, event, call = asking(source, "s2")
    approval.make(by=ALICE, tools="pay")
    first = First([Entry("tier", "silver", UNKNOWN), Entry("limit", 5, UNKNOWN)], "by phone")
    with pytest.raises(Held, match="tier, pay: needs a second person") as held:
        answers.answer(asks, event, {call: YES}, first=first, actor=maria)
    with pytest.raises(Conflict, match="maria has proposed an answer to this already"):
        answers.answer(asks, event, {call: YES}, actor=ben)
    (waiting,) = proposals.sent_in(asks, actor=ben)
    assert [each.key for each in (*waiting.changes, *waiting.answers)] == ["tier", "limit", "pay"]
    assert (waiting.event_id, Answer.objects.count()) == (event, 0)
    with pytest.raises(NotAllowed):
        proposed.apply(waiting.id, actor=roles.actor_of(somebody("olga", "operator")))
    proposed.apply(held.value.detail["proposal"], actor=ben)
    run = ended(runs.last(asks))
    assert (run.message, run.actor, paid(asks), tier(asks)) == ("", "maria, ben", 1, "silver")


def test_state_goes_with_an_answer_that_only_its_tool_holds(source: str, maria: Actor, ben: Actor) -> None:
    asks, event, call = asking(source, "s2")
    approval.make(by=ALICE, tools="pay")
    mask_rules.create("helper", "key", "iban", actor=ALICE)
    with pytest.raises(Invalid, match=DOTS):
        answers.answer(asks, event, {call: YES}, first=First([Entry("note", f"was {DOTS}", UNKNOWN)]), actor=maria)
    with pytest.raises(Held, match="pay: needs a second person") as held:
        answers.answer(asks, event, {call: YES}, first=First([Entry("limit", 5, UNKNOWN)]), actor=maria)
    proposed.apply(held.value.detail["proposal"], actor=ben)
    assert ended(runs.last(asks)).message == ""
    assert (paid(asks), views.session(asks, actor=SYSTEM).state.get("limit")) == (1, 5)


@pytest.mark.parametrize("how", ["changed", "demoted", "away", "declined"])
def test_what_cannot_be_written_any_more_is_not_sent(
    ref: SessionRef, maria: Actor, ben: Actor, settings: Any, how: str
) -> None:
    waiting = propose(ref, maria)
    if how == "changed":
        edit.edit_state(ref, [Entry("tier", "basic", "gold")], actor=SYSTEM)
        assert [each.new for each in proposed.obstacles(waiting, actor=ben).changed] == ["basic"]
    elif how == "demoted":
        somebody("maria", "operator")
    elif how == "away":
        settings.AGENTS = {}
    else:
        proposal_job.decline(waiting.id, actor=ben)
    before = len(rows(ref))
    with pytest.raises((Conflict, NotAllowed, AgentError)):
        proposed.apply(waiting.id, actor=ben)
    assert (len(rows(ref)), Job.objects.filter(kind="run").count()) == (before, 0)
    state = proposals.get(waiting.id, actor=ben).state
    assert state == ("declined" if how == "declined" else "waiting")


def test_a_message_that_replaces_another_waits_with_its_rewind(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    approval.make(by=ALICE, keys="counted")
    ended(runs.say(ref, "count", actor=SYSTEM))
    (said,) = [row for row in rows(ref) if row.description.by_user and row.description.text]
    waiting = propose(ref, maria, First(instead_of=said.id), "count count")
    assert [each.key for each in waiting.changes] == ["counted"]
    assert (waiting.invocation, waiting.text) == (said.invocation_id, "count count")
    proposed.apply(waiting.id, actor=ben)
    assert ended(runs.last(ref)).message == ""
    assert views.session(ref, actor=SYSTEM).state.get("counted") == 2


def test_if_a_proposed_message_cannot_be_sent_its_rewind_is_there_to_be_undone(
    ref: SessionRef, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval.make(by=ALICE, keys="counted")
    ended(runs.say(ref, "count", actor=SYSTEM))
    waiting = propose(ref, maria, First(instead_of=rows(ref)[0].id), "count count")

    def away(*_: object) -> Any:
        raise AgentError("away")
        yield

    monkeypatch.setattr("sessions_app.running.client.Stream.__iter__", away)
    proposed.apply(waiting.id, actor=ben)
    run = ended(runs.last(ref))
    assert (run.message, runs.unsent(run), rewound(ref, run, actor=ben)) == ("away", "count count", rows(ref)[-1])


def test_a_rewind_that_was_proposed_is_not_applied_to_another_session(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    approval.make(by=ALICE, keys="counted")
    ended(runs.say(ref, "count", actor=SYSTEM))
    waiting = propose(ref, maria, First(instead_of=rows(ref)[0].id), "count count")
    edit.edit_state(ref, [Entry("limit", 5, ABSENT)], actor=SYSTEM)
    before = len(rows(ref))
    assert "Someone has written" in proposed.obstacles(waiting, actor=ben).problem
    with pytest.raises(StaleSession):
        proposed.apply(waiting.id, actor=ben)
    assert (len(rows(ref)), Job.objects.filter(kind="run", state="waiting").count()) == (before, 0)


def test_a_message_is_sent_once_if_adkweb_dies_while_it_is_applied(
    ref: SessionRef, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = propose(ref, maria)

    def killed(*_args: object, **_options: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:  # its state is written, and no one knows yet
        patch.setattr("sessions_app.edits.proposal_job.record_with", killed)
        with pytest.raises(SystemExit):
            proposed.apply(waiting.id, actor=ben)
    Job.objects.filter(kind="run").update(beat=0)
    runner.take_over()
    assert ended(runs.last(ref)).message == "adkweb ended before it could send this. Nothing was sent."
    Job.objects.filter(kind="proposal").update(claim="", claimed_until=None)
    assert proposed.obstacles(waiting, actor=ben) == proposals.Obstacles([])
    proposed.apply(waiting.id, actor=ben)
    assert ended(runs.last(ref)).message == ""
    assert [row.description.text for row in rows(ref) if row.description.by_user and row.description.text] == ["look"]
    assert sum(bool(row.description.edit) for row in rows(ref)) == 1


def held_answer(source: str, maria: Actor) -> tuple[SessionRef, str]:
    """A session, and the id of a proposed answer without state."""
    asks, event, call = asking(source, "s2")
    approval.make(by=ALICE, tools="pay")
    with pytest.raises(Held) as held:
        answers.answer(asks, event, {call: YES}, actor=maria)
    return asks, held.value.detail["proposal"]


def test_an_answer_is_not_sent_after_it_was_declined(
    source: str, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks, waiting = held_answer(source, maria)

    def killed(*_args: object, **_options: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:  # its run is made, and no one knows yet that it was applied
        patch.setattr("sessions_app.edits.proposal_job.record_with", killed)
        with pytest.raises(SystemExit):
            proposed.apply(waiting, actor=ben)
    Job.objects.filter(pk=waiting).update(claim="", claimed_until=None)
    proposal_job.decline(waiting, actor=ben)
    Job.objects.filter(kind="run").update(beat=0)
    runner.take_over()
    assert ended(runs.last(asks)).message == "adkweb ended before it could send this. Nothing was sent."
    assert (paid(asks), Answer.objects.get().state) == (0, "refused")


def test_an_answer_is_not_sent_if_someone_else_decides_while_it_is_applied(
    source: str, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks, waiting = held_answer(source, maria)
    prepare, before = answers.prepare, runs.last(asks)

    def slow(*args: Any, **options: Any) -> Job:
        run = prepare(*args, **options)
        Job.objects.filter(pk=waiting).update(claimed_until=1)  # a lease is for half a minute
        proposal_job.decline(waiting, actor=roles.actor_of(somebody("olga", "operator")))
        return run

    monkeypatch.setattr("sessions_app.running.answers.prepare", slow)
    with pytest.raises(Conflict, match="already been decided"):
        proposed.apply(waiting, actor=ben)
    assert (runs.last(asks), Answer.objects.count(), paid(asks)) == (before, 0, 0)


def test_state_is_not_written_if_someone_else_decides_while_the_agent_starts(
    ref: SessionRef, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = propose(ref, maria)

    def slow(*_args: Any, **_options: Any) -> None:
        Job.objects.filter(pk=waiting.id).update(claimed_until=1)  # a lease is for half a minute
        proposal_job.cancel(waiting.id, actor=maria)

    monkeypatch.setattr(runs, "server_of", slow)
    with pytest.raises(Conflict, match="already been decided"):
        proposed.apply(waiting.id, actor=ben)
    assert (tier(ref), rows(ref), runs.last(ref)) == ("gold", [], None)


def test_one_message_waits_in_a_session_and_goes_with_it(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    with pytest.raises(Conflict, match="maria has proposed a message to this agent already"):
        runs.say(ref, "look", first=First([SILVER]), actor=ben)
    with pytest.raises(Conflict) as conflict:
        runs.say(ref, "look", first=First([Entry("tier", "silver", "basic")]), actor=ben)
    assert conflict.value.detail["current"] == {"tier": "gold"}
    assert proposal_job.cancel(waiting.id, actor=maria).state == "withdrawn"
    again = propose(ref, ben)
    Job.objects.filter(pk=again.id).update(due=0)
    assert proposal_job.lapse_due() == 1
    propose(ref, ben)
    delete_session(ref, actor=SYSTEM)
    assert not Job.objects.filter(kind="proposal").exists()


def test_an_answer_is_shown_as_its_event_will_be(ref: SessionRef) -> None:
    mask_rules.create("helper", "tool", "adk_request_confirmation: iban", actor=ALICE)
    response = {"id": "c1", "name": "adk_request_confirmation", "response": {"payload": {"iban": "DE1", "eur": 4}}}
    answer = {"event_id": "e1", "parts": [{"functionResponse": response}], "tools": ["pay"]}
    with pytest.raises(Held):
        raise proposals.keep_sent(ref, "answer", answer, tools=["pay"], actor=SYSTEM)
    ((shown,),) = [each.answers for each in proposals.sent_in(ref, actor=ALICE)]
    assert (shown.key, shown.new) == ("pay", {"payload": {"iban": DOTS, "eur": 4}})
