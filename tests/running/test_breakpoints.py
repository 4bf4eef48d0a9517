"""An agent pauses at a breakpoint until a person decides: real agents in adkweb's own child."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import BaseCommand
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM
from sessions_app.adk.fingerprints import NOTE
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AgentError, Conflict, Held, Invalid, NotAllowed
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.management.commands import _running
from sessions_app.models import AuditRow, Breakpoint, Pause, Report
from sessions_app.reads import at_work, newest, timeline, views
from sessions_app.running import breakpoints, runs
from sessions_app.sources import registry
from sessions_app.writes.sessions import create_session
from tests.running.test_answers import BOTH, ended
from tests.support.at_work import until
from tests.support.people import ALICE, somebody


@pytest.fixture
def ref(source: str, settings: Any) -> SessionRef:
    """A session of an agent that adkweb runs."""
    settings.BREAKPOINTS = True
    return create_session(source, "helper", "ana", session_id="s1", actor=SYSTEM)


def paused(ref: SessionRef, before: str = "") -> breakpoints.Paused:
    """Waits until the agent pauses, not any longer at `before`."""

    def look() -> list[breakpoints.Paused]:
        return [each for each in breakpoints.paused(ref, actor=ALICE) if each.id != before]

    return until(look, "a pause")[0]  # type: ignore[no-any-return]


def responses(ref: SessionRef, tool: str) -> list[Any]:
    rows = timeline.events(ref, actor=SYSTEM).rows
    return [part.value for row in rows for part in row.description.responses if part.name == tool]


@pytest.mark.guarantee("Agents", "An agent that pauses at a breakpoint goes on when a person says so, not before.")
def test_an_agent_pauses_before_a_tool_and_goes_on(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", name="count", actor=ALICE)
    job = runs.say(ref, "look count", actor=ALICE)
    pause = paused(ref)
    assert (pause.of.kind, pause.name, pause.args) == ("tool", "count", {})
    assert responses(ref, "count") == []
    work = at_work.of(ref, actor=ALICE).at_work
    assert work
    assert (work.paused, work.step, work.name) == (True, "tool", "count")
    assert [each.at_work.paused for each in at_work.everywhere().values() if each.at_work] == [True]
    assert [each.is_paused for each in newest.happening(ref.source, actor=ALICE).running] == [True]
    breakpoints.decide(ref, pause.id, "continue", actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "count") == [{"counted": 1}]
    assert not Pause.objects.exists()


def test_the_terminal_says_that_an_agent_pauses(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    breakpoints.add(ref, "tool", name="count", actor=ALICE)
    job = runs.say(ref, "look count", actor=ALICE)
    pause, sleep = paused(ref), time.sleep

    def decide(seconds: float) -> None:
        if Pause.objects.waiting().exists():
            breakpoints.decide(ref, pause.id, "continue", actor=ALICE)
        sleep(seconds)

    monkeypatch.setattr(_running.time, "sleep", decide)
    printed = StringIO()
    _running.follow(BaseCommand(stdout=StringIO(), stderr=printed), ref, job)
    assert printed.getvalue() == "The agent pauses before count is called: let it continue on the session's page.\n"


@BOTH
@pytest.mark.guarantee(
    "Agents",
    "What someone changed at a breakpoint is shown at the event, with the old and the new value, and who did it.",
)
def test_a_tool_gets_the_changed_arguments_and_the_record_says_who(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", name="add", actor=ALICE)
    job = runs.say(ref, "add", actor=ALICE)
    pause = paused(ref)
    with pytest.raises(Invalid, match="JSON object"):
        breakpoints.decide(ref, pause.id, "continue", args=[1], actor=ALICE)
    breakpoints.decide(ref, pause.id, "continue", args={"n": 5}, actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "add") == [{"result": 5}]
    rows = timeline.events(ref, actor=SYSTEM).rows
    (call,) = [row for row in rows if row.description.calls]
    assert [part.value for part in call.description.calls] == [{}]
    (change,), (_same,) = breakpoints.changed(ref, rows, actor=ALICE).values()
    assert (change.what, change.old, change.new, change.by) == ("args", {}, {"n": 5}, ALICE.name)
    assert [*breakpoints.changed(ref, rows, actor=ALICE)] == [call.id, rows[rows.index(call) + 1].id]
    row = AuditRow.objects.get(act="step-continued")
    assert json.loads(row.detail) == {"tool": "add", "old_args": "{}", "new_args": '{"n":5}'}


def test_a_model_gets_the_changed_instruction_and_message_once(ref: SessionRef) -> None:
    breakpoints.add(ref, "model", name="helper", actor=ALICE)
    job = runs.say(ref, "look", actor=ALICE)
    pause = paused(ref)
    assert (pause.name, pause.message) == ("echo", "look")
    assert pause.instruction
    assert ("count", "Adds one to `counted`.") in pause.tools
    assert pause.lines[-1] == ("user", "look")
    breakpoints.decide(ref, pause.id, "continue", message="count", instruction="Count.", actor=ALICE)
    second = paused(ref, pause.id)  # before the model is asked again
    assert (second.instruction, second.message) == (pause.instruction, "look")
    breakpoints.decide(ref, second.id, "continue", message="count", actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "count") == [{"counted": 1}]
    rows = timeline.events(ref, actor=SYSTEM).rows
    changed = breakpoints.changed(ref, rows, actor=ALICE)
    assert [[each.what for each in changed.get(row.id, ())] for row in rows] == [
        [],
        ["instruction", "message"],
        [],
        ["message"],
    ]
    assert all(row.data["custom_metadata"]["adkweb_run"] == job.pk.hex for row in rows)
    assert [NOTE in row.data["custom_metadata"] for row in rows] == [False, True, False, True]


def test_step_goes_to_the_next_model_or_tool(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", name="look", actor=ALICE)
    job = runs.say(ref, "look count", actor=ALICE)
    pause, seen = paused(ref), []
    for _ in range(4):
        seen.append((pause.of.kind, pause.name))
        breakpoints.decide(ref, pause.id, "step", actor=ALICE)
        if len(seen) < 4:
            pause = paused(ref, pause.id)
    assert seen == [("tool", "look"), ("model", "echo"), ("tool", "count"), ("model", "echo")]
    assert ended(job).state == "done"


def test_an_agent_pauses_when_a_condition_becomes_true(ref: SessionRef) -> None:
    with pytest.raises(Invalid):
        breakpoints.add(ref, "state", condition="app:helper", actor=ALICE)
    breakpoints.add(ref, "state", condition="counted >= 2", of_app=True, actor=ALICE)
    job = runs.say(ref, "count count count", actor=ALICE)
    pause = paused(ref)
    assert len(responses(ref, "count")) == 2
    breakpoints.decide(ref, pause.id, "continue", actor=ALICE)
    assert ended(job).state == "done"
    assert len(responses(ref, "count")) == 3


@pytest.mark.guarantee("Agents", "An agent asks about breakpoints once in a run without any, and meets a new one.")
def test_a_run_without_breakpoints_asks_once_and_meets_a_new_one(
    source: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BREAKPOINTS = True
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 2}, actor=SYSTEM)
    asked, ask = [], breakpoints.ask

    def noted(*given: Any) -> Any:
        asked.append(given)
        return ask(*given)

    monkeypatch.setattr(breakpoints, "ask", noted)
    job = runs.say(ref, "count count count pause count", actor=ALICE)
    until(lambda: len(responses(ref, "count")) == 3)
    assert len(asked) == 1
    breakpoints.add(ref, "tool", name="count", actor=ALICE)
    pause = paused(ref)
    assert (pause.name, len(responses(ref, "count"))) == ("count", 3)
    breakpoints.decide(ref, pause.id, "continue", actor=ALICE)
    assert ended(job).state == "done"


def test_what_is_hidden_stays_hidden_and_is_sent_unless_it_is_changed(ref: SessionRef) -> None:
    for kind, pattern in (("key", "counted"), ("key", "n")):
        mask_rules.create("helper", kind, pattern, actor=ALICE)
    breakpoints.add(ref, "state", condition="counted >= 1", actor=ALICE)  # which nobody may learn like this
    assert ended(runs.say(ref, "count count", actor=ALICE)).state == "done"
    breakpoints.add(ref, "tool", name="add", actor=ALICE)
    job = runs.say(ref, "add:41", actor=ALICE)
    pause = paused(ref)
    assert pause.args == {"n": DOTS}
    with pytest.raises(Invalid):
        breakpoints.decide(ref, pause.id, "continue", args={"n": DOTS, "more": DOTS}, actor=ALICE)
    breakpoints.decide(ref, pause.id, "continue", args={"n": DOTS}, actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "add") == [{"result": 41}]
    job = runs.say(ref, "add:41", actor=ALICE)
    breakpoints.decide(ref, paused(ref).id, "continue", args={"n": 3}, actor=ALICE)
    ended(job)
    (change,), _same = breakpoints.changed(ref, timeline.events(ref, actor=SYSTEM).rows, actor=ALICE).values()
    assert (change.old, change.new) == ({"n": DOTS}, {"n": DOTS})
    for row in AuditRow.objects.filter(act="step-continued"):
        assert not {"41", "3"} & {
            *json.loads(row.detail).get("old_args", ""),
            *json.loads(row.detail).get("new_args", ""),
        }


def test_stop_ends_a_run_that_pauses(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "count", actor=ALICE)
    paused(ref)
    began = time.monotonic()
    runs.stop(ref, actor=ALICE)
    until(lambda: Pause.objects.count() == 0)
    assert ended(job).stopped_by == ALICE.name
    assert time.monotonic() - began < 3
    assert timeline.events(ref, actor=SYSTEM).rows[-1].data["error_code"] == "INVOCATION_ABORTED"
    assert not [each for each in responses(ref, "count") if "counted" in each]


def test_the_first_decision_counts(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "add", actor=ALICE)
    pause = paused(ref)
    ben = roles.actor_of(somebody("ben", "operator"))
    breakpoints.decide(ref, pause.id, "continue", args={"n": 1}, actor=ben)
    with pytest.raises(Conflict, match=r"ben has let the agent go on already|doesn't pause here any longer"):
        breakpoints.decide(ref, pause.id, "continue", args={"n": 2}, actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "add") == [{"result": 1}]
    with pytest.raises(Conflict, match="ben has let the agent go on already"):
        breakpoints.decide(ref, pause.id, "continue", actor=ALICE)


def test_an_agent_goes_on_by_itself(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakpoints, "SECONDS", 1.0)
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "count", actor=ALICE)
    pause = until(lambda: Pause.objects.first())
    assert ended(job).state == "done"
    with pytest.raises(Conflict):
        breakpoints.decide(ref, pause.pk.hex, "continue", args={"n": 1}, actor=ALICE)
    assert responses(ref, "count") == [{"counted": 1}]


@pytest.mark.guarantee(
    "Safety",
    "A paused call of a tool that needs a second person gets other arguments only from two, and is refused at the end.",
)
def test_a_tool_that_needs_a_second_person(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    approval.make(by=ALICE, tools="add")
    ben, carla = (roles.actor_of(somebody(name, "operator")) for name in ("ben", "carla"))
    breakpoints.add(ref, "tool", actor=ben)
    job = runs.say(ref, "add", actor=ben)
    pause = paused(ref)
    assert pause.needs_second
    with pytest.raises(Held):
        breakpoints.decide(ref, pause.id, "continue", args={"n": 7}, actor=ben)
    with pytest.raises(NotAllowed):
        breakpoints.decide(ref, pause.id, "apply", actor=ben)
    (seen,) = breakpoints.paused(ref, actor=carla)
    assert (seen.proposed, seen.of.proposed_by, seen.applies) == ({"n": 7}, "ben", True)
    breakpoints.decide(ref, pause.id, "apply", actor=carla)
    assert ended(job).state == "done"
    assert responses(ref, "add") == [{"result": 7}]
    assert AuditRow.objects.get(act="step-continued").by == "ben, carla"
    job = runs.say(ref, "add", actor=ben)
    pause = paused(ref)
    with pytest.raises(Held):
        breakpoints.decide(ref, pause.id, "continue", result={"result": 8}, actor=ben)
    with pytest.raises(Conflict):
        breakpoints.decide(ref, pause.id, "continue", args={"n": 9}, actor=carla)
    (seen,) = breakpoints.paused(ref, actor=carla)
    assert (seen.proposes, seen.proposed) == ("result", {"result": 8})
    breakpoints.decide(ref, pause.id, "apply", actor=carla)
    assert ended(job).state == "done"
    assert responses(ref, "add")[-1] == {"result": 8}
    monkeypatch.setattr(breakpoints, "SECONDS", 0.1)
    assert ended(runs.say(ref, "add", actor=ben)).state == "done"
    assert "second person" in responses(ref, "add")[-1]["error"]


@pytest.mark.guarantee(
    "Safety",
    "When the time of a pause is over, the agent goes on as before only if no one changed or proposed anything.",
)
def test_a_tool_is_refused_at_the_end_if_a_change_waits_or_a_rule_came_later(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakpoints, "SECONDS", 2.0)
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "add", actor=ALICE)
    pause = paused(ref)
    rule = approval.make(by=ALICE, tools="add")
    with pytest.raises(Held):
        breakpoints.decide(ref, pause.id, "continue", args={"n": 7}, actor=ALICE)
    approval.delete(rule.pk, by=ALICE)  # the change still waits
    assert ended(job).state == "done"
    assert "second person" in responses(ref, "add")[-1]["error"]
    job = runs.say(ref, "add", actor=ALICE)
    paused(ref)
    approval.make(by=ALICE, tools="add")
    assert ended(job).state == "done"
    assert "second person" in responses(ref, "add")[-1]["error"]


def test_a_decision_that_comes_in_the_last_moment_is_passed_on(ref: SessionRef) -> None:
    for number, is_told in (("0" * 32, False), ("1" * 32, True)):
        step = breakpoints.Step("i1", "tool", "helper", "add", "c1", pause=number, request={"args": {}})
        run = runs.running(ref) or runs.make(ref, [], "", actor=ALICE)
        asker = breakpoints.Asker(run=run.pk)
        breakpoints.ask(ref, step, asker)
        breakpoints.decide(ref, number, "continue", args={"n": 5}, actor=ALICE)
        if is_told:  # but the agent's process didn't hear it
            Pause.objects.filter(pk=number).end()
        said = breakpoints.ask(ref, replace(step, over=True), asker)
        assert said == {"decision": {"go": "continue", "args": {"n": 5}}}
    assert not Pause.objects.filter(over=False).exists()
    with pytest.raises(Conflict):
        breakpoints.decide(ref, "0" * 32, "continue", actor=ALICE)


@BOTH
@pytest.mark.guarantee(
    "Agents",
    "A result that someone gave in a tool's place is shown at the call and in the audit, and the tool didn't run.",
)
def test_someone_gives_the_result_and_the_tool_does_not_run(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "count", actor=ALICE)
    pause = paused(ref)
    for wrong in ({"result": [1]}, {"result": {"n": 1}, "args": {"n": 1}}, {"result": {"n": "x" * 100_001}}):
        with pytest.raises(Invalid):
            breakpoints.decide(ref, pause.id, "continue", **wrong, actor=ALICE)
    breakpoints.decide(ref, pause.id, "continue", args={}, result={"counted": 41}, actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "count") == [{"counted": 41}]
    assert "counted" not in views.session(ref, actor=SYSTEM).state.session
    rows = timeline.events(ref, actor=SYSTEM).rows
    (change,), _same = breakpoints.changed(ref, rows, actor=ALICE).values()
    assert (change.what, change.old, change.new, change.by) == ("result", None, {"counted": 41}, ALICE.name)
    row = AuditRow.objects.get(act="step-continued")
    assert json.loads(row.detail) == {"tool": "count", "new_result": '{"counted":41}'}


def test_a_result_is_also_an_answer_to_what_the_tool_asks(ref: SessionRef) -> None:
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "pay", actor=ALICE)  # which needs somebody's confirmation
    breakpoints.decide(ref, paused(ref).id, "continue", result={}, actor=ALICE)
    assert ended(job).state == "done"
    assert responses(ref, "pay") == [{}]
    assert not responses(ref, "adk_request_confirmation")


def test_a_result_passes_the_masks(ref: SessionRef) -> None:
    mask_rules.create("helper", "key", "n", actor=ALICE)
    breakpoints.add(ref, "tool", actor=ALICE)
    job = runs.say(ref, "add", actor=ALICE)
    pause = paused(ref)
    with pytest.raises(Invalid, match="placeholder"):
        breakpoints.decide(ref, pause.id, "continue", result={"n": DOTS}, actor=ALICE)
    breakpoints.decide(ref, pause.id, "continue", result={"n": 41, "m": 1}, actor=ALICE)
    assert ended(job).state == "done"
    (change,), _same = breakpoints.changed(ref, timeline.events(ref, actor=SYSTEM).rows, actor=ALICE).values()
    assert change.new == {"n": DOTS, "m": 1}
    assert "41" not in AuditRow.objects.get(act="step-continued").detail


def test_a_pause_that_comes_after_the_end_of_its_run_is_none(ref: SessionRef) -> None:
    names = {"where": registry.identity(ref.source), "digest": digest_of(*ref[1:]), "invocation": "i1"}
    Report.objects.create(**names, names="", process="", account="", since=1.0, at=1.0, beat=time.time(), ended=True)
    step = breakpoints.Step("i1", "tool", "helper", "count", pause="0" * 32, request={"args": {}})
    assert breakpoints.ask(ref, step, breakpoints.Asker(process="p")) == {}
    assert not Pause.objects.exists()


def test_nobody_pauses_an_agent_without_the_right(ref: SessionRef, settings: Any) -> None:
    vera = roles.actor_of(somebody("vera", "viewer"))
    with pytest.raises(NotAllowed):
        breakpoints.add(ref, "tool", actor=vera)
    breakpoint_ = breakpoints.add(ref, "tool", actor=ALICE)
    with pytest.raises(NotAllowed):
        breakpoints.remove(ref, breakpoint_.pk, actor=vera)
    job = runs.say(ref, "count", actor=ALICE)
    pause = paused(ref)
    for given in ({}, {"args": {}}, {"result": {}}):
        with pytest.raises(NotAllowed):
            breakpoints.decide(ref, pause.id, "continue", **given, actor=vera)
    breakpoints.remove(ref, breakpoint_.pk, actor=ALICE)
    breakpoints.decide(ref, pause.id, "continue", actor=ALICE)
    assert ended(job).state == "done"
    settings.BREAKPOINTS = None
    with pytest.raises(AgentError, match="ADKWEB_BREAKPOINTS"):
        breakpoints.add(ref, "tool", actor=ALICE)
    Breakpoint.objects.update(kind="tool")
    assert ended(runs.say(ref, "count", actor=ALICE)).state == "done"


def test_a_huge_message_is_shown_cut(ref: SessionRef) -> None:
    breakpoints.add(ref, "model", actor=ALICE)
    job = runs.say(ref, "count" + " " * 99_000, actor=ALICE)
    pause = paused(ref)
    assert pause.message is None
    assert len(pause.of.request) < 120_000
    assert pause.lines[-1][1].endswith("…")
    Breakpoint.objects.all().delete()
    breakpoints.decide(ref, pause.id, "continue", message="look", actor=ALICE)  # which isn't there to be changed
    assert ended(job).state == "done"
    assert responses(ref, "count") == [{"counted": 1}]


def test_the_end_of_a_run_does_not_look_through_all_pauses_of_the_past(own: str) -> None:
    ended = Pause.objects.filter(run="0" * 32)
    with CaptureQueriesContext(connection) as queries:
        ended.end()
    with connection.cursor() as cursor:
        for query in (each["sql"] for each in queries if "sessions_app_pause" in each["sql"]):
            cursor.execute(f"EXPLAIN QUERY PLAN {query}")
            assert "open_pauses" in str(cursor.fetchall())
