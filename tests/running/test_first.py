"""State is set, or a message is rewound, right before another one goes out; if that can't be, nothing is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.access import roles
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AgentError, Conflict, Invalid, NotAllowed, StaleSession
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry
from sessions_app.jobs import runner
from sessions_app.models import Answer, Job
from sessions_app.reads import timeline, views
from sessions_app.running import answers, children, first, runs
from sessions_app.running.first import First
from sessions_app.writes.sessions import create_session
from tests.running.test_answers import YES, asking, ended, paid, rows
from tests.support.people import ALICE, somebody


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session with two turns, in each of which the agent has counted once."""
    made = create_session(source, "helper", "ana", session_id="s1", state={"tier": "gold"}, actor=SYSTEM)
    for _ in range(2):
        ended(runs.say(made, "count", actor=SYSTEM))
    return made


def asked(ref: SessionRef) -> list[Any]:
    """The messages of the user."""
    return [row for row in rows(ref) if row.description.by_user and row.description.text]


def counted(ref: SessionRef) -> Any:
    return views.session(ref, actor=SYSTEM).state.session["counted"]


@pytest.mark.guarantee(
    "Agents", "A message that is edited and sent again replaces the old branch, which stays to be seen."
)
def test_an_earlier_message_is_replaced_and_its_branch_stays(ref: SessionRef) -> None:
    _first, second = asked(ref)
    plan = first.replaced(ref, second.id, actor=ALICE)
    assert (plan.text, plan.plan.gone.events, [each.key for each in plan.plan.changes]) == ("count", 4, ["counted"])
    job = ended(runs.say(ref, "count count", first=First(instead_of=second.id), actor=ALICE))
    assert (job.state, job.message, counted(ref)) == ("done", "", 3)
    assert [row.description.text for row in asked(ref)] == ["count", "count", "count count"]
    assert first.rewound(ref, job, actor=ALICE) is None  # the message came after it


def test_nothing_is_rewound_if_the_agent_cant_be_started(ref: SessionRef, settings: Any) -> None:
    children.stop_all(4)
    settings.AGENT_PYTHON = "/nowhere/python"
    before = len(rows(ref))
    with pytest.raises(AgentError, match="nowhere"):
        runs.say(ref, "again", first=First(instead_of=asked(ref)[1].id), actor=ALICE)
    assert (len(rows(ref)), Job.objects.filter(state="waiting").count()) == (before, 0)


def test_if_sending_fails_the_rewind_is_there_to_be_undone(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise AgentError("away")
        yield

    monkeypatch.setattr("sessions_app.running.client.Stream.__iter__", away)
    job = ended(runs.say(ref, "again", first=First(instead_of=asked(ref)[1].id), actor=ALICE))
    assert (job.message, json.loads(job.result)["sent"], runs.unsent(job)) == ("away", False, "again")
    written = first.rewound(ref, job, actor=ALICE)
    assert written == rows(ref)[-1]


def test_what_may_not_be_rewound_is_not_sent(ref: SessionRef) -> None:
    one, two = asked(ref)
    before = len(rows(ref))
    revision = views.session(ref, actor=SYSTEM).revision
    with pytest.raises(StaleSession):
        runs.say(ref, "again", first=First(instead_of=two.id, revision=revision - 1), actor=ALICE)
    with pytest.raises(Invalid, match="Only a message of the user"):
        runs.say(ref, "again", first=First(instead_of=rows(ref)[-1].id), actor=ALICE)
    with pytest.raises(NotAllowed):
        runs.say(ref, "again", first=First(instead_of=one.id), actor=roles.actor_of(somebody("olga", "operator")))
    assert (len(rows(ref)), Job.objects.filter(state="waiting").count()) == (before, 0)
    assert timeline.status_of(ref, actor=SYSTEM).name == "idle"


SILVER = Entry("tier", "silver", "gold")


@pytest.mark.guarantee(
    "Agents", "State that is set with a message or an answer is an edit, and is checked as every other one."
)
def test_state_is_set_before_the_message_by_an_edit(ref: SessionRef) -> None:
    job = ended(runs.say(ref, "look", first=First([SILVER], "as agreed"), actor=ALICE))
    set_, *_said, looked, done = rows(ref)[8:]
    assert (job.message, done.description.text) == ("", "Done.")
    assert (set_.description.edit["actor"], set_.description.edit["reason"]) == ("alice", "as agreed")
    assert looked.description.responses[0].value["state"]["tier"] == "silver"


def test_state_is_set_before_an_answer_or_nothing_is_sent(ref: SessionRef) -> None:
    asked, event, call = asking(ref.source, "s2")
    before = len(rows(asked))
    for entry, error in ((SILVER, Conflict), (Entry("temp:x", 5, ABSENT), Invalid)):
        with pytest.raises(error):
            answers.answer(asked, event, {call: YES}, first=First([entry]), actor=ALICE)
        with pytest.raises(error):
            runs.say(asked, "look", first=First([entry]), actor=ALICE)
    assert (len(rows(asked)), Answer.objects.count(), Job.objects.filter(state="waiting").count()) == (before, 0, 0)
    ended(answers.answer(asked, event, {call: YES}, first=First([Entry("tier", "silver", ABSENT)]), actor=ALICE))
    assert (paid(asked), views.session(asked, actor=SYSTEM).state.get("tier")) == (1, "silver")


@pytest.mark.guarantee("Agents", "What is to be written before a message is written, or the message isn't sent.")
def test_if_adkweb_dies_before_it_has_written_nothing_is_sent(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_args: object, **_options: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(First, "write", killed)
        with pytest.raises(SystemExit):
            runs.say(ref, "look", first=First([SILVER]), actor=ALICE)
    before = len(rows(ref))
    Job.objects.filter(state="waiting").update(beat=0)
    assert runner.take_over() == 1
    job = ended(runs.last(ref))
    assert (job.message, len(rows(ref))) == ("adkweb ended before it could send this. Nothing was sent.", before)
    assert runs.unsent(job) == "look"


def test_dots_that_hide_a_value_are_refused_and_nothing_is_sent(ref: SessionRef) -> None:
    mask_rules.create("helper", "key", "tier", actor=ALICE)
    before = len(rows(ref))
    with pytest.raises(Invalid, match=DOTS):
        runs.say(ref, "look", first=First([Entry("note", f"was {DOTS}", ABSENT)]), actor=ALICE)
    with pytest.raises(Conflict):  # a guess is told nothing
        runs.say(ref, "look", first=First([Entry("tier", "silver", "gold")]), actor=ALICE)
    assert (len(rows(ref)), Job.objects.filter(state="waiting").count()) == (before, 0)
    unchanged = First([Entry("tier", DOTS, DOTS)])
    assert ended(runs.say(ref, "look", first=unchanged, actor=ALICE)).message == ""
    assert views.session(ref, actor=SYSTEM).state.get("tier") == "gold"
