"""A rewind: one event that ADK understands, the session's own keys as they were, initial state kept, nothing guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound, StaleSession
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import rewind, undo
from sessions_app.edits.rewind import Artifact
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from tests.support.booking import START
from tests.support.own import migrated, own_database
from tests.support.people import BOB, CHARLIE
from tests.support.stored import assert_state_is_what_events_say, events_of, everything, execute

pytestmark = pytest.mark.django_db


@pytest.fixture
def say(actor: Actor) -> Callable[..., str]:
    """Appends an agent's event in an invocation; its id."""

    def append(ref: SessionRef, invocation: str, delta: dict[str, Any] | None = None, **actions: Any) -> str:
        event = {"author": "agent", "invocation_id": invocation, "actions": {"state_delta": delta or {}, **actions}}
        return str(append_event(ref, event, actor=actor).event["id"])

    return append


def ids_of(gone: rewind.Gone) -> tuple[int, str, str, bool]:
    """How many events, the first's and the last's id, and whether they are all there."""
    ends = [event.id if event else "" for event in (gone.first, gone.last)]
    return gone.events, ends[0], ends[1], gone.all


def test_a_rewind_is_one_event_as_adk_writes_it_with_who_and_why(
    ref: SessionRef, actor: Actor, say: Callable[..., str], settings: Settings
) -> None:
    settings.SQLITE_STATE = "replaced"  # or nobody knows whether a null was kept
    say(ref, "i1", {"step": "pay", "kept": None})
    say(ref, "i2", {"step": "done", "new": 1, "draft": 2, "kept": 1, "user:tier": "black", "app:limit": 4})
    say(ref, "i2", {"new": 2})
    appended = rewind.rewind(ref, "i2", actor=actor, reason=" wrong turn ")
    event = events_of(ref)[-1][1]
    assert event["author"] == "user"
    assert event["invocation_id"] == f"e-{event['id']}"
    assert event["actions"] == {
        "rewind_before_invocation_id": "i2",
        "state_delta": {"step": "pay", "new": None, "draft": {"a": [1]}, "kept": None},
    }
    assert event["custom_metadata"]["adkweb"] == {
        "actor": actor.name,
        "reason": "wrong turn",
        "replaced": {"step": "done", "new": 2, "draft": 2, "kept": 1},
        "removed": ["new"],
    }
    assert "content" not in event
    assert appended.event["id"] == event["id"]
    assert views.session(ref, actor=SYSTEM).state.merged() == {
        **START, "step": "pay", "kept": None, "user:tier": "black", "app:limit": 4
    }  # fmt: skip
    assert_state_is_what_events_say(ref.source, {ref: START})


def test_a_rewind_to_the_first_invocation_keeps_the_initial_state(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    say(ref, "i1", {"step": "pay", "draft": None, "new": 1})
    rewind.rewind(ref, "i1", actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == START


def test_the_plan_says_what_the_agent_will_not_see_and_what_stays(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    say(ref, "i1", artifact_delta={"plan.txt": 0, "old.txt": 1, "user:photo.png": 0})
    first = say(ref, "i2", {"step": "pay"}, artifact_delta={"plan.txt": 1})
    say(ref, "i2", artifact_delta={"plan.txt": 2, "new.txt": 0, "user:photo.png": 1})
    last = say(ref, "i3")
    plan = rewind.plan(ref, "i2", actor=SYSTEM)
    assert (ids_of(plan.gone), plan.back, plan.first.id) == ((3, first, last, True), 0, first)
    assert [(c.key, c.old, c.new) for c in plan.changes] == [("step", "pay", "search")]
    assert plan.artifacts == [Artifact("new.txt", None, 0), Artifact("plan.txt", 0, 2)]
    assert len(events_of(ref)) == 4  # nothing was written


def test_a_rewind_is_taken_back_by_a_rewind_to_before_it(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    say(ref, "i1", {"step": "pay"})
    say(ref, "i2", {"step": "done", "new": 1})
    after = views.session(ref, actor=SYSTEM).state.merged()
    first = rewind.rewind(ref, "i2", actor=actor)
    plan = rewind.plan(ref, first.event["invocation_id"], actor=SYSTEM)
    assert (ids_of(plan.gone), plan.back) == ((0, "", "", True), 1)  # ADK itself shows no rewind to the agent
    rewind.rewind(ref, first.event["invocation_id"], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == after
    plan = rewind.plan(ref, "i1", actor=SYSTEM)
    assert (plan.gone.events, plan.back) == (2, 0)


def test_what_was_said_after_a_rewind_that_was_taken_back_counts_as_what_it_is(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    early = [say(ref, f"i{number}") for number in range(3)]
    first = rewind.rewind(ref, "i1", actor=actor).event["invocation_id"]
    say(ref, "talk")
    back = rewind.rewind(ref, first, actor=actor).event["invocation_id"]
    late = say(ref, "on")
    # Before the second rewind the agent saw i0 and the talk; now it sees i0, i1, i2 and what came after.
    plan = rewind.plan(ref, back, actor=SYSTEM)
    assert (ids_of(plan.gone), plan.back) == ((3, early[1], late, False), 1)
    assert plan.takes_back
    rewind.rewind(ref, back, actor=actor)
    plan = rewind.plan(ref, "i1", actor=SYSTEM)
    assert (ids_of(plan.gone), plan.back) == ((1, *[events_of(ref)[4][1]["id"]] * 2, True), 0)
    assert not plan.takes_back


def test_events_that_were_rewound_earlier_count_once(ref: SessionRef, actor: Actor, say: Callable[..., str]) -> None:
    for number in range(1, 5):
        say(ref, f"i{number}")
    rewind.rewind(ref, "i3", actor=actor)
    say(ref, "i5")
    plan = rewind.plan(ref, "i2", actor=SYSTEM)
    assert (plan.gone.events, plan.back, plan.gone.all) == (2, 0, False)  # i2 and i5
    rewind.rewind(ref, "i1", actor=actor)
    # Before i3 stood i1 and i2, which the agent would see again, as ADK reads rewinds.
    assert (rewind.plan(ref, "i3", actor=SYSTEM).gone.events, rewind.plan(ref, "i3", actor=SYSTEM).back) == (0, 2)


@pytest.mark.parametrize("name", ["nope", "", "I1"])
def test_a_rewind_to_an_unknown_invocation_is_refused(
    ref: SessionRef, actor: Actor, say: Callable[..., str], name: str
) -> None:
    say(ref, "i1")
    before = everything(ref.source)
    with pytest.raises(NotFound, match=f"no invocation “{name}” in this session"):
        rewind.rewind(ref, name, actor=actor)
    assert everything(ref.source) == before


def test_a_rewind_of_a_session_without_events_is_refused(ref: SessionRef, actor: Actor) -> None:
    with pytest.raises(NotFound):
        rewind.plan(ref, "i1", actor=SYSTEM)


def test_nobodys_write_is_lost(ref: SessionRef, actor: Actor, say: Callable[..., str]) -> None:
    say(ref, "i1", {"step": "pay"})
    plan = rewind.plan(ref, "i1", actor=SYSTEM)
    say(ref, "i2", {"late": 1})
    before = everything(ref.source)
    with pytest.raises(StaleSession):
        rewind.rewind(ref, "i1", actor=actor, revision=plan.revision)
    assert everything(ref.source) == before


def test_a_rewind_sent_twice_by_one_form_is_written_once(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    say(ref, "i1", {"step": "pay"})
    plan = rewind.plan(ref, "i1", actor=SYSTEM)
    first = rewind.rewind(ref, "i1", actor=actor, revision=plan.revision, once="form")
    again = rewind.rewind(ref, "i1", actor=actor, revision=plan.revision, once="form")
    assert (again.event["id"], again.seq) == (first.event["id"], None)
    assert len(events_of(ref)) == 2


def test_a_rewind_sent_many_times_at_once_is_written_once_and_each_is_answered(
    ref: SessionRef, actor: Actor, say: Callable[..., str], tmp_path: Path
) -> None:
    say(ref, "i1", {"step": "pay"})
    plan = rewind.plan(ref, "i1", actor=SYSTEM)

    def send(_number: int) -> str:
        try:
            return str(rewind.rewind(ref, "i1", actor=actor, revision=plan.revision, once="form").event["id"])
        finally:
            connections.close_all()

    own = own_database(f"sqlite:///{migrated(tmp_path / 'own.db')}")  # the tests' own is in memory, for one thread
    with own, ThreadPoolExecutor(10) as threads:
        assert len(set(threads.map(send, range(10)))) == 1
    assert len(events_of(ref)) == 2


def test_keys_that_were_never_recorded_are_left_alone_and_named(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    say(ref, "i1", {"other": 1})
    say(ref, "i2", {"other": 2})
    say(ref, "i3", {"step": "pay"})
    plan = rewind.plan(ref, "i2", actor=SYSTEM)
    assert plan.unknown == ["step"]
    assert [change.key for change in plan.changes] == ["other"]
    rewind.rewind(ref, "i2", actor=actor)
    assert views.session(ref, actor=SYSTEM).state.session == {"step": "pay", "draft": {"a": [1]}, "other": 1}


def test_undoing_the_state_of_a_rewind_is_possible(ref: SessionRef, actor: Actor, say: Callable[..., str]) -> None:
    say(ref, "i1", {"step": "pay", "new": 1})
    event_id = rewind.rewind(ref, "i1", actor=actor).event["id"]
    steps = {step.key: (step.then, step.now) for step in undo.undo(ref, event_id, actor=SYSTEM).steps}
    assert steps == {"step": ("pay", "search"), "new": (1, ABSENT)}


def test_only_who_may_append_rewinds(ref: SessionRef, say: Callable[..., str], settings: Settings) -> None:
    say(ref, "i1")
    before = everything(ref.source)
    for actor in (BOB, CHARLIE):
        with pytest.raises(NotAllowed):
            rewind.rewind(ref, "i1", actor=actor)
    with pytest.raises(Invalid, match="reason is longer"):
        rewind.rewind(ref, "i1", actor=Actor.holding("x", "admin"), reason="x" * 1001)
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed, match="read-only"):
        rewind.rewind(ref, "i1", actor=Actor.holding("x", "admin"))
    assert everything(ref.source) == before


def test_a_preview_asks_as_little_of_many_rewinds_as_of_one(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    say(ref, "i0")
    asked: list[int] = []
    for rewinds in (1, 30):
        for number in range(rewinds):
            invocation = f"r{rewinds}.{number}"
            say(ref, invocation, artifact_delta={f"{number}.txt": 0})
            rewind.rewind(ref, invocation, actor=actor)
        say(ref, "last", artifact_delta={"last.txt": rewinds})
        rewind.plan(ref, "last", actor=SYSTEM)
        with CaptureQueriesContext(connections[ref.source]) as queries:
            plan = rewind.plan(ref, "r1.0", actor=SYSTEM)
        asked.append(len(queries))
        assert plan.artifacts[-1] == Artifact("last.txt", None, rewinds)
    assert asked[0] == asked[1]
    assert (plan.gone.events, plan.back) == (2, 0)  # the last event of each round
    assert plan.gone.last is not None
    assert plan.gone.last.id == events_of(ref)[-1][1]["id"]


def test_an_artifact_delta_of_any_shape_is_passed_over_or_told(
    ref: SessionRef, actor: Actor, say: Callable[..., str]
) -> None:
    strange: list[Any] = [[1], "x", 7, None, {"a": "1"}, {"a": None}, {"a": {"b": 1}}, {"a": [1]}]
    told = {"": 3, 'q"\\ü%s😀': 2**40}
    for delta in [*strange, told, {"b": "2"}]:
        event_id = say(ref, "i1")
        event = {"id": event_id, "author": "agent", "actions": {"artifact_delta": delta}}
        execute(ref.source, "UPDATE events SET event_data = %s WHERE id = %s", [json.dumps(event), event_id])
    found = rewind.plan(ref, "i1", actor=SYSTEM).artifacts
    assert found == [Artifact(name, None, version) for name, version in sorted(told.items())]
