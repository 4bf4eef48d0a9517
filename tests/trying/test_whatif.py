"""A what-if runs the real agent in a process of its own, and leaves the session, its user and its app as they are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM, Actor, Grant
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AgentError, Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork_tree
from sessions_app.jobs.lease import WAITING
from sessions_app.models import AuditRow, Job, Trial
from sessions_app.privacy import holds
from sessions_app.reads import timeline, views
from sessions_app.sources import agents
from sessions_app.trying import whatif
from sessions_app.trying.whatif import Change
from sessions_app.writes.sessions import delete_session
from tests.support.at_work import until_worked
from tests.support.people import ALICE, somebody
from tests.support.stored import everything
from tests.trying.conftest import AGENTS, bread_in, say

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forked_agents")]


@pytest.fixture
def bread(shop: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionRef:
    """A session in which ana had bread baked, in the size small. Its agent is the baker."""
    settings.RUN_AGENTS = True
    monkeypatch.setenv("BAKED", str(tmp_path / "baked"))
    monkeypatch.setattr(agents, "agent_of", lambda _source, app: agents.Agent(AGENTS, AGENTS / app))
    return bread_in(shop)


def event(ref: SessionRef, number: int) -> str:
    """The id of an event."""
    return timeline.events(ref, actor=SYSTEM).rows[number].id


def done(job: Job, *, actor: Actor = SYSTEM) -> whatif.WhatIf:
    """The what-if, when it has ended."""
    until_worked(lambda: not Job.objects.filter(pk=job.pk, state=WAITING).exists())
    job.refresh_from_db()
    return whatif.of(job, actor=actor)


def tried(ref: SessionRef, at: int, *, actor: Actor = SYSTEM, **given: Any) -> whatif.WhatIf:
    """The outcome of a what-if at an event."""
    options = {name: given.pop(name) for name in ("repeats", "unknown", "run_code", "reason") if name in given}
    return done(whatif.start(ref, Change(event(ref, at), **given), actor=actor, **options), actor=actor)


def asked(job: Job) -> dict[str, Any]:
    """The call that waits for a decision."""
    until_worked(lambda: Trial.objects.filter(job=job).exclude(question="").exists())
    return whatif.of(job, actor=SYSTEM).trials[0].question


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.guarantee("Agents", "A what-if writes nothing: not to the session, nor to its user's and its app's state.")
def test_nothing_is_written_and_no_tool_runs(bread: SessionRef, tmp_path: Path) -> None:
    before = everything(bread.source)
    result = tried(bread, 0, state={"size": "large", "user:name": "Zoe", "app:open": True}, repeats=2)
    assert everything(bread.source) == before
    assert not (tmp_path / "baked").exists()
    one, other = result.trials
    assert one.outcome == other.outcome == "{'baked': 'bread'} in large by obeys"
    assert (one.tokens, one.state["user:name"], one.state["app:open"]) == (24, "Zoe", True)
    assert [each.data["author"] for each in one.original] == ["user", "baker", "baker", "baker"]
    assert [each.data["author"] for each in one.made] == ["user", "baker", "baker", "baker"]
    assert one.alignment.first is not None


@pytest.mark.parametrize(
    ("at", "change", "outcome"),
    [
        (2, {"results": {"c1": {"burnt": True}}}, "{'burnt': True} in small by obeys"),
        (0, {"instructions": {"baker": "The size is huge."}}, "{'baked': 'bread'} in huge by obeys"),
        (0, {"models": {"baker": "obeys-2"}}, "{'baked': 'bread'} in small by obeys-2"),
        (0, {"models": {"baker": "unheard-of"}}, "Model unheard-of not found."),
        (0, {"instructions": {"cook": "x"}}, "today there's no agent cook with an instruction"),
        (3, {"state": {"size": "large"}}, "nothing comes after this event: say what the user writes next"),
    ],
)
def test_each_kind_of_change(bread: SessionRef, at: int, change: dict[str, Any], outcome: str) -> None:
    (trial,) = tried(bread, at, **change).trials
    assert trial.outcome.startswith(outcome)


@pytest.mark.parametrize(
    ("answer", "outcome", "baked"),
    [
        ({"result": {"baked": "by hand"}}, "{'baked': 'by hand'} in small by obeys", False),
        ({"fail": "no flour"}, "ToolFailed: no flour", False),
        ({"run": True}, "{'baked': 'cake'} in small by obeys", True),
    ],
)
def test_a_call_that_was_not_recorded_waits_for_a_decision(
    bread: SessionRef, tmp_path: Path, answer: dict[str, Any], outcome: str, baked: bool
) -> None:
    before = everything(bread.source)
    job = whatif.start(bread, Change(event(bread, 0), message="cake"), actor=SYSTEM, repeats=2)
    question = asked(job)
    assert (question["agent"], question["tool"], question["args"]) == ("baker", "bake", {"what": "cake"})
    whatif.decide(job, 0, answer, actor=SYSTEM)
    trials = done(job).trials  # the second one isn't asked again
    assert [each.outcome for each in trials] == [outcome, outcome]
    assert (tmp_path / "baked").exists() is baked
    assert everything(bread.source) == before
    with pytest.raises(Conflict, match="doesn't wait any longer"):
        whatif.decide(job, 0, answer, actor=SYSTEM)


@pytest.mark.parametrize(("unknown", "outcome"), [("fail", "ToolFailed: This tool"), ("run", "{'baked': 'cake'}")])
def test_calls_can_be_decided_before(bread: SessionRef, unknown: str, outcome: str) -> None:
    (trial,) = tried(bread, 0, message="cake", unknown=unknown).trials
    assert trial.outcome.startswith(outcome)


def test_a_tool_that_needs_a_second_person_does_not_run(bread: SessionRef, tmp_path: Path) -> None:
    approval.make(tools="bake", by=SYSTEM)
    job = whatif.start(bread, Change(event(bread, 0), message="cake"), actor=SYSTEM, unknown="run")
    asked(job)
    with pytest.raises(NotAllowed, match="a rule asks a second person"):
        whatif.decide(job, 0, {"run": True}, actor=SYSTEM)
    whatif.stop(job, actor=ALICE)
    assert done(job).why == "Stopped by alice."
    assert not (tmp_path / "baked").exists()


def test_what_is_hidden_stays_hidden_unless_someone_may_reveal_it(bread: SessionRef) -> None:
    mask_rules.create("*", "key", "size", actor=SYSTEM)
    hidden = tried(bread, 0, actor=ALICE)
    assert (hidden.trials[0].outcome, hidden.has_dots) == ("{'baked': 'bread'} in •••• by obeys", True)
    assert hidden.trials[0].state["size"] == "••••"
    with pytest.raises(Invalid, match="••••"):
        whatif.start(bread, Change(event(bread, 0), state={"size": "••••"}), actor=ALICE)
    words = {"message": "b@tok.org", "instructions": {"baker": "c@tok.org"}}
    later = tried(bread, 0, state={"note": "a@tok.org"}, unknown="fail", **words)
    mask_rules.create("*", "form", "email", actor=SYSTEM)
    change = whatif.of(later.job, actor=ALICE).change
    assert "tok.org" not in f"{change} {whatif.of(later.job, actor=ALICE).trials[0].outcome}"
    known = tried(bread, 0, actor=Actor("rita", (Grant("admin", reveals=True),)), reason="INC-7")
    assert known.trials[0].outcome == "{'baked': 'bread'} in small by obeys"
    assert AuditRow.objects.filter(act="tried", detail__contains="INC-7").count() == 1
    viewer = roles.actor_of(somebody("olga", "operator"))
    assert [each.job.pk for each in whatif.listed(bread, actor=viewer)] == [later.job.pk, hidden.job.pk]
    with pytest.raises(NotAllowed, match="reveal"):
        whatif.of(known.job, actor=viewer)
    with pytest.raises(NotAllowed, match="reveal"):
        whatif.start(bread, Change(event(bread, 0)), actor=viewer, reason="curious")


def test_only_operators_try_and_only_what_can_be_run(bread: SessionRef, settings: Any) -> None:
    with pytest.raises(NotAllowed):
        whatif.start(bread, Change(event(bread, 0)), actor=roles.actor_of(somebody("vera", "viewer")))
    for change, message in (
        (Change("nothing"), "no event"),
        (Change(event(bread, 0), message="x" * 200_000), "characters"),
        (Change(event(bread, 0), results={"c1": 3}), "JSON object"),
    ):
        with pytest.raises((NotFound, Invalid), match=message):
            whatif.start(bread, change, actor=SYSTEM)
    with pytest.raises(Invalid, match="1 to 10 times"):
        whatif.start(bread, Change(event(bread, 0)), actor=SYSTEM, repeats=11)
    settings.RUN_AGENTS = False
    with pytest.raises(AgentError, match="doesn't start agents"):
        whatif.start(bread, Change(event(bread, 0)), actor=SYSTEM)
    assert not Job.objects.filter(kind=whatif.KIND).exists()


def test_a_stopped_one_and_one_whose_agent_ends_say_so(bread: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    job = whatif.start(bread, Change(event(bread, 0), message="wait"), actor=SYSTEM)
    until_worked(lambda: Trial.objects.filter(job=job).exclude(begins="").exists())
    began = time.monotonic()
    whatif.stop(job, actor=ALICE)
    assert done(job).why == "Stopped by alice."
    assert time.monotonic() - began < 5
    (trial,) = tried(bread, 0, message="leave").trials
    assert trial.error.startswith("The process of the agent has ended.")


def test_what_ifs_end_with_their_session_and_after_a_week(bread: SessionRef) -> None:
    jobs = Job.objects.filter(kind=whatif.KIND)
    tried(bread, 0)
    whatif.sweep()
    assert jobs.count() == 1
    jobs.update(created=time.time() - 8 * 86400)
    holds.hold(bread, "INC-7", actor=SYSTEM)
    whatif.sweep()
    assert jobs.count() == 1
    holds.release(bread, actor=SYSTEM)
    whatif.sweep()
    assert (jobs.count(), Trial.objects.count()) == (0, 0)
    tried(bread, 0)
    delete_session(bread, actor=SYSTEM)
    assert (jobs.count(), Trial.objects.count()) == (0, 0)


def state_of(ref: SessionRef) -> Any:
    return views.session(ref, actor=SYSTEM).state


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.guarantee(
    "Agents", "Keeping a what-if as a fork leaves its session, its user's and its app's state alone."
)
def test_a_trial_is_kept_as_a_fork_that_writes_no_state_of_the_user_or_the_app(bread: SessionRef) -> None:
    say(bread, "user", {"text": "bread"}, turn="2")
    before = everything(bread.source)
    result = tried(bread, 4, state={"size": "large", "user:name": "Zoe", "app:open": True})
    into = whatif.keep(result.job, 0, actor=SYSTEM)
    assert whatif.keep(result.job, 0, actor=SYSTEM) == into
    rows = timeline.events(into, actor=SYSTEM).rows
    said = [part.value for each in rows for part in each.description.parts if part.kind == "text"]
    assert said[:2] + said[-1:] == ["bread", "{'baked': 'bread'} in small by obeys", result.trials[0].said]
    assert fork_tree.origin(into, actor=SYSTEM).origin == bread
    assert state_of(into).session["size"] == "large"
    assert (state_of(into).user, state_of(into).app) == (state_of(bread).user, state_of(bread).app)
    assert state_of(into).user == {"name": "Ana", "baked": "bread"}
    delete_session(into, actor=SYSTEM)
    assert everything(bread.source) == before


def test_a_first_turn_is_kept_and_what_a_rule_or_dots_forbid_is_not(bread: SessionRef) -> None:
    result = tried(bread, 0, state={"size": "large"})
    rows = timeline.events(whatif.keep(result.job, 0, actor=SYSTEM), actor=SYSTEM).rows
    assert [each.data["author"] for each in rows] == ["user", "system", "baker", "baker", "baker", "system"]
    with pytest.raises(NotAllowed):
        whatif.keep(result.job, 0, actor=roles.actor_of(somebody("eddy", "editor")))
    with pytest.raises(Invalid, match="nothing to keep"):
        whatif.keep(result.job, 1, actor=SYSTEM)
    mask_rules.create("*", "key", "size", actor=SYSTEM)
    dotted = tried(bread, 0, actor=Actor("ada", (Grant("admin"),)))
    with pytest.raises(Invalid, match="••••"):
        whatif.keep(dotted.job, 0, actor=Actor("ada", (Grant("admin"),)))
    approval.make(keys="size", by=SYSTEM)
    with pytest.raises(NotAllowed, match="a rule asks a second person"):
        whatif.keep(result.job, 0, actor=SYSTEM)
