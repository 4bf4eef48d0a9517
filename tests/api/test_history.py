"""The past over REST: state at an event, histories, comparing, taking back, forks, drift, and what an agent sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.agent_view import instructions
from sessions_app.api import history as api
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history import drift
from sessions_app.history.index import build
from sessions_app.writes.sessions import create_session
from tests.api.program import Answer, Program, address
from tests.support.stored import events_of, everything, execute, state_of

pytestmark = pytest.mark.django_db

Add = Callable[..., str]
USER = "/api/apps/booking/users/ana"
APP = "/api/apps/booking"


def delta(**values: Any) -> dict[str, Any]:
    """What an event says of state; in keys `__` stands for the colon of a scope."""
    return {"actions": {"state_delta": {name.replace("__", ":"): value for name, value in values.items()}}}


def get(program: Program, session: SessionRef, tail: str, **query: Any) -> Any:
    answer = program.get(address(session, tail), **query)
    assert answer.status == 200, answer
    return answer.json()


@pytest.fixture
def told(each_ref: SessionRef, add: Add) -> SessionRef:
    """A session in a source of each format, after four events and one of another session."""
    other = create_session(each_ref.source, "booking", "ana", session_id="s2", actor=Actor.holding("a", "admin"))
    add(each_ref, id="e1", invocation_id="i1", **delta(step="pay", n=1))
    add(each_ref, id="e2", invocation_id="i1", **delta(n=2, user__tier="silver"))
    add(other, id="o1", **delta(user__tier="platinum", app__limit=11))
    add(each_ref, id="e3", invocation_id="i2", **delta(n=None, step="done"))
    return each_ref


# --- State at an event ------------------------------------------------------------------------------------------------


def test_state_is_told_as_it_was_just_after_an_event_with_what_other_sessions_had_written(
    program: Program, told: SessionRef
) -> None:
    assert get(program, told, "/events/e2/state")["state"] == {
        "session": {"step": "pay", "nothing": None, "n": 2},
        "user": {"tier": "silver"},
        "app": {"limit": 10},
    }
    last = get(program, told, "/events/e3/state")
    assert last["state"]["session"] == {"step": "done", "nothing": None, "n": None}
    assert (last["state"]["user"], last["state"]["app"]) == ({"tier": "platinum"}, {"limit": 11})
    assert (last["event_id"], last["unknown"], last["unrecorded"]) == ("e3", [], False)
    assert last["initial"] == ["nothing"]
    writer = last["writers"]["user:tier"]
    assert (writer["session_id"], writer["event_id"], writer["author"]) == ("s2", "o1", "agent")


def test_state_is_told_as_it_was_just_before_an_event(program: Program, told: SessionRef) -> None:
    found = get(program, told, "/events/e1/state", before="true")
    assert found["state"]["session"] == {"step": "choose", "nothing": None}


def test_what_cannot_be_known_is_named_and_not_guessed(program: Program, each_ref: SessionRef, add: Add) -> None:
    execute(each_ref.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    add(each_ref, id="e1", **delta(app__limit=1))
    add(each_ref, id="e2", **delta(step="pay"))
    found = get(program, each_ref, "/events/e1/state")
    assert found["unrecorded"]
    assert sorted(found["unknown"]) == ["step", "user:tier"]
    assert found["state"] == {"session": {"nothing": None}, "user": {}, "app": {"limit": 1}}


@pytest.mark.parametrize("tail", ["/events/ghost/state", "/compare?a=ghost", "/compare?a=e1&b_session=ghost"])
def test_a_moment_that_is_gone_is_not_found(program: Program, told: SessionRef, tail: str) -> None:
    assert program.get(address(told, tail)).status == 404


# --- Histories --------------------------------------------------------------------------------------------------------


def test_a_keys_history_is_told_the_newest_first(program: Program, told: SessionRef) -> None:
    found = get(program, told, "/state/history", key="step")
    assert [(each["event_id"], each.get("old"), each["new"]) for each in found["items"]] == [
        ("e3", "pay", "done"),
        ("e1", "choose", "pay"),
        (None, None, "choose"),
    ]
    assert found["next"] is None


def test_a_history_comes_by_page(program: Program, told: SessionRef) -> None:
    rows: list[Any] = []
    query: dict[str, Any] = {}
    while query.get("before", "") is not None:
        page = get(program, told, "/state/history", key="n", limit=1, **query)
        assert len(page["items"]) <= 1
        rows += page["items"]
        query = {"before": page["next"]}
    assert [(row["event_id"], row["new"]) for row in rows] == [("e3", None), ("e2", 2), ("e1", 1)]
    assert "old" not in rows[-1]
    assert rows[0]["old"] == 2


def test_a_page_of_large_values_ends_early_and_the_pages_have_every_write(
    program: Program, told: SessionRef, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        add(told, id=f"big{number}", **delta(n=f"{number} " + "x" * 10_000))
    whole = get(program, told, "/state/history", key="n")
    assert (len(whole["items"]), whole["next"]) == (15, None)
    monkeypatch.setattr(api, "LONGEST", 60_000)  # each value is told twice
    pages = [get(program, told, "/state/history", key="n", limit=50)]
    while before := pages[-1]["next"]:
        pages.append(get(program, told, "/state/history", key="n", limit=50, before=before))
    assert max(len(json.dumps(page)) for page in pages) < 150_000
    assert len(pages) > 2
    assert [row for page in pages for row in page["items"]] == whole["items"]


def test_the_history_of_a_shared_key_has_the_writes_of_every_session(program: Program, told: SessionRef) -> None:
    whole = [("s2", "o1", "platinum"), ("s1", "e2", "silver"), ("s1", None, "gold")]
    for found in (
        get(program, told, "/state/history", key="user:tier"),
        program.get(f"{USER}/state/history", key="user:tier").json(),
    ):
        assert [(row["session_id"], row["event_id"], row["new"]) for row in found["items"]] == whole
    limits = program.get(f"{APP}/state/history", key="app:limit").json()["items"]
    assert [row["new"] for row in limits] == [11, 10]


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        (f"{USER}/state/history", "app:limit", 400),
        (f"{APP}/state/history", "user:tier", 400),
        (f"{USER}/sessions/s1/state/history", "temp:x", 400),
        (f"{USER}/sessions/ghost/state/history", "user:tier", 404),
        (f"{APP}/users/ghost/state/history", "user:tier", 404),
        ("/api/apps/ghost/state/history", "app:limit", 404),
    ],
)
def test_a_history_of_what_is_not_there_says_so(
    program: Program, told: SessionRef, path: str, key: str, status: int
) -> None:
    assert program.get(path, key=key).status == status


def test_a_key_that_was_never_written_has_no_history(program: Program, told: SessionRef) -> None:
    assert get(program, told, "/state/history", key="ghost") == {"items": [], "next": None}


# --- Comparing --------------------------------------------------------------------------------------------------------


def test_two_moments_are_compared_by_key(program: Program, told: SessionRef) -> None:
    found = get(program, told, "/compare", a="e1", b="e3")
    assert {each["key"]: (each.get("old"), each.get("new")) for each in found["items"]} == {
        "step": ("pay", "done"),
        "n": (1, None),
        "user:tier": ("gold", "platinum"),
        "app:limit": (10, 11),
    }
    assert get(program, told, "/compare", a="e3") == {"items": []}
    other = get(program, told, "/compare", a="now", b="now", b_session="s2")
    assert [each["key"] for each in other["items"]] == ["n", "nothing", "step"]


# --- Taking back ------------------------------------------------------------------------------------------------------


def undo(program: Program, ref: SessionRef, event_id: str, **body: Any) -> Answer:
    return program.post(address(ref, f"/events/{event_id}/undo"), body)


def test_an_event_is_undone_by_an_event(program: Program, told: SessionRef) -> None:
    done = undo(program, told, "e3", reason="it was wrong")
    assert done.status == 201
    assert state_of(told)["session"] == {"step": "pay", "nothing": None, "n": 2}
    note = done.json()["event"]["custom_metadata"]["adkweb"]
    assert (note["undoes"], note["actor"], note["reason"]) == ("e3", "token program", "it was wrong")
    assert drift.own(told, actor=SYSTEM).drifted == []


def test_an_undo_of_something_undone_says_so_and_writes_nothing(program: Program, told: SessionRef) -> None:
    assert undo(program, told, "e3").status == 201
    before = everything(told.source)
    again = undo(program, told, "e3")
    assert again.status == 400
    assert "This has already been undone by event" in again.detail
    assert everything(told.source) == before


def test_an_undo_of_what_a_rewind_took_back_does_not_say_that_it_was_undone(program: Program, told: SessionRef) -> None:
    last = program.post(address(told, "/events"), {"invocation_id": "i9", **delta(fresh=1)}).json()["event"]["id"]
    rewound = program.post(address(told, "/rewind"), {"before": "i9"}).json()
    again = undo(program, told, last)
    assert (again.status, f"event {rewound['event']['id']} already restored" in again.detail) == (400, True)


def test_a_key_that_somebody_wrote_since_is_a_conflict_unless_it_is_meant(program: Program, told: SessionRef) -> None:
    before = everything(told.source)
    refused = undo(program, told, "e1")
    assert refused.status == 409
    assert refused.json()["current"] == {"n": None, "step": "done"}
    assert everything(told.source) == before
    assert undo(program, told, "e1", overwrite=True).status == 201
    assert state_of(told)["session"] == {"step": "choose", "nothing": None}


def test_state_is_restored_by_an_event(program: Program, told: SessionRef) -> None:
    path = address(told, "/restore")
    assert program.post(path, {"to": "e1", "keys": ["n", "user:tier"]}).status == 201
    assert state_of(told) == {
        "session": {"step": "done", "nothing": None, "n": 1},
        "user": {"tier": "gold"},
        "app": {"limit": 11},
    }
    done = program.post(path, {"to": "e1", "scopes": ["session"], "reason": "back"})
    assert done.json()["event"]["custom_metadata"]["adkweb"]["restores"] == "e1"
    assert state_of(told)["session"] == {"step": "pay", "nothing": None, "n": 1}
    nothing = program.post(path, {"to": "e1", "scopes": ["session"]})
    assert (nothing.status, "The state is already the same as it was then" in nothing.detail) == (400, True)


def test_a_session_that_moved_is_not_taken_back_where_if_match_says_so(program: Program, told: SessionRef) -> None:
    before = everything(told.source)
    for tail, body in (
        ("/events/e3/undo", {}),
        ("/restore", {"to": "e1"}),
        ("/rewind", {"before": "i2"}),
    ):
        assert program.post(address(told, tail), body, if_match='"1.5"').status == 412
    assert everything(told.source) == before


def test_a_conversation_is_rewound_once(program: Program, told: SessionRef) -> None:
    body = {"before": "i2", "reason": "again", "once": "a"}
    done = program.post(address(told, "/rewind"), body)
    assert done.status == 201
    event = done.json()["event"]
    assert event["actions"]["rewind_before_invocation_id"] == "i2"
    assert state_of(told)["session"] == {"step": "pay", "nothing": None, "n": 2}
    again = program.post(address(told, "/rewind"), body)
    assert (again.status, again.json()) == (200, {**done.json(), "revision": None})
    undone = undo(program, told, event["id"])
    assert (undone.status, "rewind to before its own" in undone.detail) == (400, True)


def test_a_session_is_forked_at_an_event(program: Program, told: SessionRef) -> None:
    done = program.post(address(told, "/events/e2/fork"), {"session_id": "try/it", "user_id": "eva"})
    assert done.status == 201
    assert done.json() == {"source": told.source, "app_name": "booking", "user_id": "eva", "id": "try/it"}
    fork = told._replace(user_id="eva", session_id="try/it")
    assert [event["id"] for _seq, event in events_of(fork)][:2] == ["e1", "e2"]
    assert program.get(done.headers["location"]).json()["state"]["session"] == {"step": "pay", "nothing": None, "n": 2}
    taken = program.post(address(told, "/events/e2/fork"), {"session_id": "try/it", "user_id": "eva"})
    assert taken.status == 409
    assert program.post(address(told, "/events/e2/fork")).json()["user_id"] == "ana"


@pytest.mark.parametrize(
    ("tail", "body", "status"),
    [
        ("/events/ghost/undo", {}, 404),
        ("/events/ghost/fork", {}, 404),
        ("/restore", {}, 400),
        ("/restore", {"to": "ghost"}, 404),
        ("/restore", {"to": "e1", "scopes": ["temp"]}, 400),
        ("/restore", {"to": "e1", "keys": ["ghost"]}, 400),
        ("/rewind", {}, 400),
        ("/rewind", {"before": "ghost"}, 404),
        ("/rewind", {"before": "i2", "reason": "x" * 1001}, 400),
        ("/events/e1/undo", {"overwrite": "yes"}, 400),
        ("/events/e1/fork", {"user_id": ""}, 400),
        ("/drift", {"keep": ["step"]}, 400),
        ("/drift", {}, 400),
    ],
)
def test_what_cannot_be_taken_back_is_refused_and_nothing_is_written(
    program: Program, told: SessionRef, tail: str, body: dict[str, Any], status: int
) -> None:
    before = everything(told.source)
    assert program.post(address(told, tail), body).status == status
    assert everything(told.source) == before


# --- Drift ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def drifted(told: SessionRef) -> SessionRef:
    """A session whose state another program wrote to."""
    execute(
        told.source, "UPDATE sessions SET state = %s WHERE id = 's1'", [json.dumps({"step": "pay", "n": None, "x": 1})]
    )
    execute(told.source, "UPDATE user_states SET state = %s", ['{"tier": "put there"}'])
    return told


def test_drift_is_told_with_what_wrote_each_key_last(program: Program, drifted: SessionRef) -> None:
    found = get(program, drifted, "/drift")
    items = {each["key"]: each for each in found["items"]}
    assert {name: (each.get("old"), each.get("new")) for name, each in items.items()} == {
        "step": ("done", "pay"),
        "nothing": (None, None),
        "x": (None, 1),
        "user:tier": ("platinum", "put there"),
    }
    assert ("new" in items["nothing"], "old" in items["x"]) == (False, False)
    assert [items["step"][name] for name in ("event_id", "lost", "stray")] == ["e3", True, False]
    assert [items["user:tier"][name] for name in ("session_id", "event_id")] == ["s2", "o1"]
    assert [items["x"][name] for name in ("session_id", "event_id", "seq")] == [None] * 3
    assert (found["events"], found["unknown"], found["untold"]) == (3, [], "")


def test_drift_is_repaired_by_one_event(program: Program, drifted: SessionRef) -> None:
    body = {"keep": ["nothing", "user:tier"], "put_back": ["step", "x"], "reason": "as it should be"}
    done = program.post(address(drifted, "/drift"), body)
    assert done.status == 201
    assert state_of(drifted)["session"] == {"step": "done", "n": None}
    assert state_of(drifted)["user"] == {"tier": "put there"}
    assert get(program, drifted, "/drift")["items"] == []
    note = done.json()["event"]["custom_metadata"]["adkweb"]
    assert (note["actor"], note["reason"], note["removed"]) == ("token program", "as it should be", ["nothing", "x"])
    again = program.post(address(drifted, "/drift"), body)
    assert (again.status, "nothing" in again.detail) == (400, True)


@pytest.mark.parametrize("body", [{"keep": ["step"], "put_back": ["step"]}, {"keep": ["step", "step"]}])
def test_a_key_is_repaired_one_way(program: Program, drifted: SessionRef, body: dict[str, Any]) -> None:
    refused = program.post(address(drifted, "/drift"), body)
    assert (refused.status, "appears twice" in refused.detail) == (400, True)


# --- What an agent sees -----------------------------------------------------------------------------------------------


def test_an_instruction_is_filled_in_at_a_moment(program: Program, told: SessionRef) -> None:
    def filled(template: str, **query: str) -> Any:
        answer = program.ask("POST", address(told, "/instruction"), {"template": template}, **query)
        assert answer.status == 200
        return answer.json()

    assert filled("You are at {step}, {user:tier}.")["text"] == "You are at done, platinum."
    then = filled("You are at {step}, {user:tier}.", at="e1")
    assert then["text"] == "You are at pay, gold."
    assert [piece["name"] for piece in then["pieces"] if piece["kind"] == "key"] == ["step", "user:tier"]
    assert then["pieces"][1]["writer"]["event_id"] == "e1"
    missing = filled("{ghost} {ghost?}{temp:x}")
    assert missing["text"] is None
    assert [piece["fault"] for piece in missing["pieces"] if piece["kind"] == "key"] == ["missing", "missing", "temp"]


def test_an_instruction_that_would_be_very_long_is_refused(
    reader: Program, told: SessionRef, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(told, id="e4", **delta(big="x" * 100))
    monkeypatch.setattr(instructions, "MOST", 1_000)
    monkeypatch.setattr(instructions, "LONGEST", 60)
    path = address(told, "/instruction")
    assert len(reader.post(path, {"template": "{big}" * 10}).json()["text"]) == 1_000
    for template, why in (("{big}" * 11, "1000 characters"), ("x" * 61, "60 characters")):
        refused = reader.post(path, {"template": template})
        assert (refused.status, why in refused.detail) == (400, True)


def test_the_conversation_is_told_with_what_is_left_out(program: Program, told: SessionRef) -> None:
    program.post(address(told, "/rewind"), {"before": "i2"})
    found = get(program, told, "/context")
    assert found["agent"] == "agent"
    lines = {line["event_id"]: line for line in found["items"]}
    assert (lines["e1"]["role"], lines["e1"]["parts"]) == ("model", [{"text": "hello"}])
    assert lines["e3"]["left_out"]["kind"] == "rewound"
    assert lines["e3"]["left_out"]["by"] == events_of(told)[-1][1]["id"]
    then = get(program, told, "/context", at="e2")
    assert [line["event_id"] for line in then["items"]] == ["e1", "e2"]
    assert program.get(address(told, "/context"), at="ghost").status == 404


def test_what_another_agent_did_a_summary_and_a_task_are_told_as_such(
    program: Program, told: SessionRef, add: Add
) -> None:
    add(told, "from the other", id="q1", author="other")
    add(told, "mine", id="q2")
    marks = {line["event_id"]: (line["role"], line["quoted"]) for line in get(program, told, "/context")["items"]}
    assert (marks["q1"], marks["q2"]) == (("user", True), ("model", False))
    covered = {"start_timestamp": 1.0, "end_timestamp": 2.0**32, "compacted_content": {"role": "model", "parts": [{}]}}
    add(told, id="sum", actions={"compaction": covered})
    (line,) = [line for line in get(program, told, "/context")["items"] if line["left_out"] is None]
    assert (line["event_id"], line["summary"], line["quoted"]) == ("sum", True, False)
    call = {"function_call": {"id": "c1", "name": "delegate", "args": {"to": "do"}}}
    add(told, id="call", content={"role": "model", "parts": [call]})
    assert get(program, told, "/context")["task"] is None
    add(told, "on it", id="scoped", author="helper", isolation_scope="c1")
    assert get(program, told, "/context", agent="helper")["task"] == '{"to": "do"}'


# --- While the source is read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["/events/e1/state", "/state/history?key=n", "/compare?a=e1", "/drift", "/context"])
def test_while_a_source_is_read_a_program_is_told_when_to_ask_again(
    program: Program, told: SessionRef, monkeypatch: pytest.MonkeyPatch, tail: str
) -> None:
    """A source of millions of events, of which a piece takes longer than a request waits."""

    def slow(*_asked: Any, **_more: Any) -> None:
        raise Behind(share=0.25)

    monkeypatch.setattr(build, "catch_up", slow)
    monkeypatch.setattr(build, "catch_up", slow)
    answer = program.get(address(told, tail))
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert "still being indexed" in answer.detail
