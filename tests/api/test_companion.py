"""The channel of companions: who may report what, and who is told what to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest

from sessions_app.access import tokens
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import NotAllowed
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import queue
from sessions_app.models import Report, SearchSession
from sessions_app.privacy import own_rows
from sessions_app.reads import at_work, timeline
from sessions_app.running import breakpoints, companions, runs
from sessions_app.search import results, sharing
from sessions_app.search.index.feed import Feeder
from sessions_app.search.language import parse
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.api.program import Program
from tests.support.people import as_admin

A, B = "a" * 32, "b" * 32  # two processes


@pytest.fixture
def ref(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> SessionRef:
    """A session whose agent has begun to run."""
    ref = create_session(open_source(new_store("sqlite")), "helper", "ana", session_id="s1", actor=SYSTEM)
    said(ref, "i1", "e1")
    return ref


def said(ref: SessionRef, invocation: str, event_id: str, **more: Any) -> None:
    """Stores what a user has said."""
    content = {"role": "user", "parts": [{"text": "Hello"}]}
    event = {"id": event_id, "author": "user", "invocation_id": invocation, "content": content, **more}
    append_event(ref, event, actor=SYSTEM)


def program(apps: str = "*", name: str = "one") -> Program:
    return Program(tokens.create(name, "companion", apps, by=as_admin("maria"))[1])


def report(of: Program, process: str = A, ahead: float = 0.0, **changes: Any) -> int:
    """Reports on the invocation of `ref`, by a clock that is so many seconds ahead, and returns what is answered."""
    now = time.time() + ahead
    invocation = {
        "invocation": "i1",
        "app_name": "helper",
        "user_id": "ana",
        "session_id": "s1",
        "since": now - 9,
        "ended": None,
        "step": "tool",
        "name": "pay",
        "step_since": now - 5,
        "adk": "2.13.0",
    }
    body = {"process": process, "at": now, "invocations": [invocation | changes]}
    status: int = of.post("/api/companion", body).status
    return status


def known(ref: SessionRef) -> at_work.AtWork | None:
    return at_work.of(ref, actor=SYSTEM).at_work


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_what_is_reported_is_known_and_over_as_soon_as_it_is_reported_to_have_ended(ref: SessionRef) -> None:
    one = program()
    assert known(ref) is None
    assert report(one) == 200
    assert known(ref) == at_work.AtWork(
        Report.objects.get().since, "i1", "tool", "pay", Report.objects.get().step_since
    )
    assert queue.held(ref, actor=SYSTEM)
    assert report(one, ended=time.time()) == 200
    assert (known(ref), queue.held(ref, actor=SYSTEM)) == (None, None)
    assert timeline.status_of(ref, actor=SYSTEM).name == "stuck"
    assert report(one) == 200  # it goes on, after an answer
    assert known(ref)


@pytest.mark.parametrize("ahead", [3_600.0, -3_600.0])
def test_a_process_with_a_wrong_clock_says_what_runs_and_only_its_own_run_is_over(
    ref: SessionRef, ahead: float, settings: Any
) -> None:
    settings.SILENCE_SECONDS = 10_000
    ref = create_session(*ref[:3], session_id="s2", actor=SYSTEM)
    said(ref, "i2", "e2", timestamp=time.time() + ahead)
    one = program()
    own: dict[str, Any] = {"ahead": ahead, "session_id": "s2", "invocation": "i2"}
    report(one, **own)
    work = known(ref)
    assert work
    assert (round(time.time() - work.since), round(time.time() - work.step_since)) == (9, 5)

    def statuses() -> list[str]:
        while Feeder(ref.source).feed():
            pass
        (row,) = results.indexed([ref], SYSTEM).values()
        return [timeline.status_of(ref, actor=SYSTEM).name, row.status]

    report(one, **own, ended=time.time() + ahead)
    assert statuses() == ["stuck"] * 2
    said(ref, "i3", "e3", timestamp=time.time())
    assert statuses() == ["running"] * 2


def test_an_agent_that_no_one_reports_is_still_judged_by_its_events(ref: SessionRef) -> None:
    report(program(), ended=time.time() - 60)
    assert timeline.status_of(ref, actor=SYSTEM).name == "running"


@pytest.mark.guarantee("Safety", "The end of a run is believed only from the process that announced its start.")
def test_no_other_process_and_no_other_token_can_say_that_it_has_ended(ref: SessionRef) -> None:
    one = program()
    report(one)
    assert report(one, process=B, ended=time.time()) == 200
    assert report(program(name="other"), ended=time.time()) == 200
    assert known(ref)
    Report.objects.update(beat=time.time() - Report.SILENT_SECONDS - 1)
    assert known(ref) is None
    report(one, process=B)  # the process has died, and another one goes on
    assert known(ref)
    assert Report.objects.get().process == B


def test_a_companion_reports_only_about_the_apps_of_its_token_and_sessions_that_are_there(ref: SessionRef) -> None:
    assert report(program("booking*")) == 200
    assert report(program(name="two"), session_id="nowhere") == 200
    assert not Report.objects.exists()


def test_of_several_sources_with_the_session_it_is_that_with_the_invocation(
    ref: SessionRef, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    other = create_session(open_source(new_store("sqlite")), *ref[1:3], session_id="s1", actor=SYSTEM)
    said(other, "i2", "e2")
    report(program())
    assert (known(ref) is not None, known(other)) == (True, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"invocation": ""},
        {"user_id": "x" * 129},
        {"name": "x" * 101},
        {"step": "evil"},
        {"since": -1},
        {"since": 1e300},
        {"ended": "now"},
        {"session_id": "\0"},
        {"adk": "2" * 41},
    ],
    ids=str,
)
def test_what_is_no_report_is_refused(ref: SessionRef, changes: dict[str, Any]) -> None:
    one = program()
    assert report(one, **changes) in (200, 400)
    assert report(one, process="x" * 32) == 400
    many = {"process": A, "at": 1, "invocations": [{}] * 26}
    assert one.post("/api/companion", many).status == 400
    assert not Report.objects.exists()


@pytest.mark.guarantee("Safety", "A companion's token only reports, and no other token does.")
def test_many_reports_about_a_session_do_not_slow_its_pages_down(ref: SessionRef) -> None:
    about = {"app_name": "helper", "user_id": "ana", "session_id": "s1", "step": "", "name": "", "step_since": 0.0}
    about |= {"adk": "", "version": ""}
    each = [{"invocation": f"i{number}", "since": 0.0, "ended": number % 2 or None} for number in range(120)]
    said: Any = [SimpleNamespace(**about, **one) for one in each]
    for start in range(0, 120, 20):
        companions.hear(A, time.time(), said[start : start + 20], account="token 1", apps="*")
    assert Report.objects.count() == Report.MOST
    assert Report.objects.filter(invocation="i119").exists()


def test_what_is_said_twice_at_once_may_be_said_again(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    one, look = program(), companions.newest.revisions

    def slow(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        assert report(one) == 200
        return look(*args, **options)

    monkeypatch.setattr(companions.newest, "revisions", slow)
    assert report(one) == 409
    assert report(one) == 200


@pytest.mark.parametrize("process", ["", "x%00", "A" * 32, "a" * 33])
def test_who_waits_without_a_process_is_refused(ref: SessionRef, process: str) -> None:
    assert program().get(f"/api/companion?process={process}").status == 400


def test_a_companion_is_told_only_to_stop_what_it_announced(ref: SessionRef) -> None:
    one, other = program(), program(name="other")
    report(one)
    address = f"/api/companion?process={A}"
    runs.stop(ref, actor=SYSTEM)
    assert one.get(address).json() == {"stop": ["i1"]}
    assert one.get(address).json() == {"stop": ["i1"]}  # until it has ended
    assert not set(runs_told(other, address)) | set(runs_told(one, f"/api/companion?process={B}"))
    with pytest.raises(NotAllowed):
        runs.stop(ref, actor=Actor.holding("ben", "read"))


def test_a_program_stops_what_someone_else_started(ref: SessionRef) -> None:
    one, desk = program(), Program(tokens.create("desk", "operate", "*", by=as_admin("maria"))[1])
    address = "/api/apps/helper/users/ana/sessions/s1/runs"
    assert desk.delete(address).status == 404
    report(one)
    stopped = desk.delete(address)
    assert (stopped.status, stopped.json()) == (202, {"stopped_by": "token desk"})
    assert runs_told(one, f"/api/companion?process={A}") == ["i1"]


def runs_told(of: Program, address: str) -> list[str]:
    answer = of.get(address)
    return answer.json()["stop"] if answer.status == 200 else []


@pytest.fixture(autouse=True)
def _no_command_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.live.commands.WAIT_SECONDS", 0.0)


def test_what_is_reported_passes_the_masks(ref: SessionRef) -> None:
    report(program(), name="mail ana@example.com", version="1.2 of ana@example.com")
    mask_rules.create("*", "form", "email", actor=SYSTEM)
    work = at_work.of(ref, actor=Actor.holding("ben", "read")).at_work
    version = companions.version_of(ref.source, "helper", actor=Actor.holding("ben", "operate"))
    assert work
    assert version
    assert "ana@example.com" not in work.name + version.version


def test_reports_go_with_the_session_and_with_the_user(ref: SessionRef) -> None:
    one = program()
    report(one)
    assert own_rows.forget_user(ref.source, "helper", "ana", ())["reports"] == 1
    report(one)
    delete_session(ref, actor=SYSTEM)
    assert not Report.objects.exists()


def test_what_is_old_is_forgotten(ref: SessionRef, settings: Any) -> None:
    one = program()
    report(one, ended=time.time())
    Report.objects.update(beat=time.time() - settings.SILENCE_SECONDS - 1)
    one.post("/api/companion", {"process": A, "at": 1, "invocations": []})
    assert not Report.objects.exists()


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_lists_know_it_too(ref: SessionRef) -> None:
    while Feeder(ref.source).feed():
        pass

    def statuses() -> list[str]:
        """Returns the statuses of the list, of the filter that finds it, and of the count."""
        running, stuck = (parse(f"status:{each}", now=time.time(), zone=UTC) for each in ("running", "stuck"))
        (row,) = results.indexed([ref], SYSTEM).values()
        there = ["running"] * results.count(running, actor=SYSTEM) + ["stuck"] * results.count(stuck, actor=SYSTEM)
        counted = results.by_status(parse("", now=time.time(), zone=UTC), actor=SYSTEM)
        return [row.status, *there, *counted]

    one = program()
    assert statuses() == ["running"] * 3
    report(one, ended=time.time())
    assert statuses() == ["stuck"] * 3
    assert sharing.sharing(ref, "app", actor=SYSTEM).active == 0
    report(one)
    SearchSession.objects.update(phase="idle")
    assert statuses() == ["running"] * 3
    assert sharing.sharing(ref, "app", actor=SYSTEM).active == 1


# --- Breakpoints ------------------------------------------------------------------------------------------------------


def step(of: Program, process: str = A, **changes: Any) -> Any:
    """Asks whether the agent pauses before it calls a tool, and returns the answer."""
    now = time.time()
    invocation = {"invocation": "i1", "app_name": "helper", "user_id": "ana", "session_id": "s1", "since": now}
    calls = {"ended": None, "step": "tool", "name": "pay", "step_since": now}
    asked = {"kind": "tool", "agent": "helper", "name": "pay", "call": "c1", **changes}
    return of.post(
        "/api/companion/step", {"process": process, "at": now, "invocation": invocation | calls, "step": asked}
    )


def test_a_decision_goes_only_to_the_process_that_pauses(ref: SessionRef, settings: Any) -> None:
    settings.BREAKPOINTS = True
    one, other, number = program(), program(name="other"), "1" * 32
    assert step(one).json() == {"met": [], "pauses": False, "none": 0}
    assert step(program("booking*", "booking")).json() == {"none": 0}  # this app isn't its
    breakpoints.add(ref, "tool", name="pay", actor=SYSTEM)
    assert step(one, name="look").json()["pauses"] is False
    assert step(one).json()["pauses"] is True
    assert step(other).json() == {}  # the run is another process's
    assert step(one, pause=number, request={"args": {}}).json() == {"seconds": 600.0, "refusal": ""}
    assert step(other, pause=number, request={"args": {}}).json() == {}
    assert step(one, pause=number).status == 409
    (pause,) = breakpoints.paused(ref, actor=SYSTEM)
    address = f"/api/companion?process={A}"
    assert one.get(address).status == 204
    breakpoints.decide(ref, pause.id, "step", args={"eur": 5}, actor=SYSTEM)
    assert other.get(f"{address}&heard={number}").status == 204
    assert one.get(address).json() == {"stop": [], "decisions": {number: {"go": "step", "args": {"eur": 5}}}}
    assert one.get(f"{address}&heard={number}").status == 204
    settings.BREAKPOINTS = False
    assert step(one, steps=True).json() == {"none": 0}


def test_a_companion_hears_when_there_is_a_new_breakpoint(ref: SessionRef, settings: Any) -> None:
    settings.BREAKPOINTS = True
    one, address = program(), f"/api/companion?process={A}"
    report(one)
    assert one.get(f"{address}&newest=").json() == {"stop": [], "newest": 0}
    assert one.get(f"{address}&newest=0").status == 204
    row = breakpoints.add(SessionRef(*ref[:2], "zoe", "s9"), "tool", actor=SYSTEM)
    assert one.get(address).status == 204  # one of before doesn't ask
    assert one.get(f"{address}&newest=0").json() == {"stop": [], "newest": row.pk}
    assert step(one).json() == {"met": [], "pauses": False, "none": row.pk}
    breakpoints.add(ref, "tool", name="other", actor=SYSTEM)
    assert step(one).json() == {"met": [], "pauses": False}  # it asks before each step from now on


def test_a_condition_gets_only_the_keys_that_it_names(ref: SessionRef, settings: Any) -> None:
    settings.BREAKPOINTS = True
    row = breakpoints.add(ref, "state", condition="cart.total > 100", actor=SYSTEM)
    one = program()
    assert step(one).json() == {"keys": ["cart", "cart.total"]}
    sent = {"keys": ["cart", "cart.total"], "state": {"cart": {"total": 99}}}
    assert step(one, **sent).json() == {"met": [], "pauses": False}
    sent["state"] = {"cart": {"total": 101}}
    assert step(one, **sent).json() == {"met": [row.pk], "pauses": True}
    assert step(one, **sent, met=[row.pk]).json() == {"met": [row.pk], "pauses": False}  # not again
