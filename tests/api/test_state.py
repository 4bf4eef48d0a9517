"""State by scope, and edits of it."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.domain.session_ref import SessionRef
from tests.api.conftest import STATE
from tests.api.program import Answer, Program, address
from tests.support.stored import (
    assert_state_is_what_events_say,
    counts,
    events_of,
    everything,
    execute,
    in_threads,
    state_of,
)

pytestmark = pytest.mark.django_db

USER = "/api/apps/booking/users/ana/state"
APP = "/api/apps/booking/state"


def test_state_is_told_by_scope(program: Program, each_ref: SessionRef) -> None:
    assert program.get(address(each_ref, "/state")).json() == {
        "app": {"limit": 10},
        "user": {"tier": "gold"},
        "session": {"step": "choose", "nothing": None},
    }
    assert program.get(USER).json() == {"tier": "gold"}
    assert program.get(APP).json() == {"limit": 10}


@pytest.mark.parametrize("path", ["/api/apps/booking/users/ghost/state", "/api/apps/ghost/state"])
def test_who_is_not_there_has_no_state(program: Program, each_ref: SessionRef, path: str) -> None:
    assert program.get(path).status == 404


def test_an_edit_sets_and_removes_keys_of_every_scope_in_one_event(program: Program, each_ref: SessionRef) -> None:
    body = {
        "set": {"step": ["pay", {"a": None}], "user:tier": None, "app:new": 1.5},
        "remove": ["nothing", "app:limit"],
        "reason": " because ",
    }
    done = program.patch(address(each_ref, "/state"), body)
    assert done.status == 201
    event = done.json()["event"]
    assert event["author"] == "system"
    assert event["custom_metadata"]["adkweb"] == {
        "actor": "token program",
        "reason": "because",
        "replaced": {"step": "choose", "nothing": None, "user:tier": "gold", "app:limit": 10},
        "removed": ["nothing", "app:limit"],
    }
    assert state_of(each_ref) == {
        "session": {"step": ["pay", {"a": None}]},
        "user": {"tier": None},
        "app": {"new": 1.5},
    }
    assert done.headers["etag"] == program.get(address(each_ref)).headers["etag"]
    assert [event for _seq, event in events_of(each_ref)] == [event]
    assert_state_is_what_events_say(each_ref.source, {each_ref: STATE})


def test_state_of_a_user_and_of_an_app_is_edited_beside_every_conversation(
    program: Program, each_ref: SessionRef
) -> None:
    tag = program.get(address(each_ref, "/state")).headers["etag"]
    assert program.patch(USER, {"set": {"user:tier": "silver"}}).status == 201
    assert program.patch(APP, {"remove": ["app:limit"]}).status == 201
    after = program.get(address(each_ref, "/state"))
    assert (after.headers["etag"], after.json()["user"], after.json()["app"]) == (tag, {"tier": "silver"}, {})
    for path, key in ((USER, "step"), (USER, "app:limit"), (APP, "user:tier")):
        refused = program.patch(path, {"set": {key: 1}})
        assert refused.status == 400
        assert key in refused.detail


@pytest.mark.parametrize(
    "body",
    [
        {"set": {"step": "choose"}},
        {"remove": ["ghost"]},
        {"set": {"nothing": None}, "expected": {"nothing": None}},
        {"remove": ["ghost"], "absent": ["ghost"]},
    ],
)
def test_where_nothing_has_to_change_nothing_is_written(
    program: Program, each_ref: SessionRef, body: dict[str, Any]
) -> None:
    before = everything(each_ref.source)
    done = program.patch(address(each_ref, "/state"), body)
    assert done.status == 200
    assert done.json() == {"seq": None, "revision": None, "event": None}
    assert everything(each_ref.source) == before


@pytest.mark.parametrize(
    ("body", "current"),
    [
        ({"set": {"step": 2}, "expected": {"step": 1}}, {"step": "choose"}),
        ({"set": {"step": 2}, "absent": ["step"]}, {"step": "choose"}),
        ({"set": {"step": "choose"}, "expected": {"step": 1}}, {"step": "choose"}),
        ({"set": {"new": 2}, "expected": {"new": None}}, {}),
        ({"remove": ["user:tier"], "expected": {"user:tier": "silver"}}, {"user:tier": "gold"}),
        ({"set": {"app:limit": 1, "free": 1}, "expected": {"app:limit": 10.5}}, {"app:limit": 10}),
    ],
)
def test_a_value_that_is_not_what_was_expected_is_a_conflict_that_tells_it(
    program: Program, each_ref: SessionRef, body: dict[str, Any], current: dict[str, Any]
) -> None:
    before = everything(each_ref.source)
    refused = program.patch(address(each_ref, "/state"), body)
    assert refused.status == 409
    assert refused.json()["current"] == current
    assert everything(each_ref.source) == before


@pytest.mark.parametrize(
    "body",
    [
        {"set": {"step": 2}, "expected": {"step": "choose"}},
        {"set": {"new": 2}, "absent": ["new"]},
        {"remove": ["app:limit"], "expected": {"app:limit": 10.0}},
    ],
)
def test_a_value_that_is_what_was_expected_is_replaced(
    program: Program, each_ref: SessionRef, body: dict[str, Any]
) -> None:
    assert program.patch(address(each_ref, "/state"), body).status == 201


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "set"),
        ({}, "set"),
        ({"set": []}, "set"),
        ({"set": None}, "set"),
        ({"remove": "step"}, "remove"),
        ({"remove": [1]}, "remove.0"),
        ({"set": {"a": 1}, "remove": ["a"]}, "a: appears twice"),
        ({"remove": ["a", "a"], "expected": {"b": 1}}, "b"),
        ({"set": {"a": 1}, "absent": ["b"]}, "b"),
        ({"set": {"a": 1}, "expected": {"a": 1}, "absent": ["a"]}, "a"),
        ({"set": {"temp:a": 1}}, "temp:a"),
        ({"set": {"": 1}}, "name"),
        ({"set": {"user:": 1}}, "name"),
        ({"set": {"a": 1}, "reason": "x" * 1001}, "reason"),
        ({"set": {"a": 1}, "reason": None}, "reason"),
        ({"set": {"a": 1}, "once": 5}, "once"),
        ({"set": {"a": 1}, "sett": {}}, "sett"),
        ({"set": {"a": "\0"}}, "U+0000"),
        ([], "object"),
    ],
)
def test_what_is_no_edit_is_refused_with_its_place(
    program: Program, each_ref: SessionRef, body: Any, place: str
) -> None:
    before = everything(each_ref.source)
    refused = program.patch(address(each_ref, "/state"), body)
    assert refused.status == 400
    assert place in refused.detail
    assert everything(each_ref.source) == before


@pytest.mark.parametrize("path", ["", USER, APP])
def test_an_edit_sent_again_with_its_once_is_stored_once(program: Program, each_ref: SessionRef, path: str) -> None:
    key = {"": "step", USER: "user:tier", APP: "app:limit"}[path]
    path = path or address(each_ref, "/state")

    def edit(value: Any, once: str) -> Answer:
        return program.patch(path, {"set": {key: value}, "once": once})

    first = edit(1, "a")
    assert first.status == 201
    second = edit(2, "b")
    assert second.status == 201
    again = edit(1, "a")  # its answer was lost
    assert again.status == 200
    assert again.json() == {**first.json(), "revision": None}
    assert program.patch(path, {"set": {key: 1}, "once": "c"}).status == 201
    assert counts(each_ref.source)["events"] == 3


def test_an_edit_sent_again_with_its_once_undoes_nothing_that_was_written_since(
    program: Program, each_ref: SessionRef
) -> None:
    body = {"set": {"step": 1, "user:tier": "gold"}, "once": "a"}  # one of them is so already
    assert program.patch(address(each_ref, "/state"), body).status == 201
    assert program.patch(address(each_ref, "/state"), {"set": {"user:tier": "silver"}}).status == 201
    assert program.patch(address(each_ref, "/state"), body).status == 200
    assert state_of(each_ref)["user"] == {"tier": "silver"}


def test_an_edit_of_a_session_that_moved_is_refused_where_if_match_says_so(
    program: Program, each_ref: SessionRef
) -> None:
    tag = program.get(address(each_ref, "/state")).headers["etag"]
    moved = program.patch(address(each_ref, "/state"), {"set": {"a": 1}}, if_match=tag)
    assert moved.status == 201
    before = everything(each_ref.source)
    assert program.patch(address(each_ref, "/state"), {"set": {"b": 1}}, if_match=tag).status == 412
    assert everything(each_ref.source) == before
    assert program.patch(address(each_ref, "/state"), {"set": {"b": 1}}, if_match=moved.headers["etag"]).status == 201


@pytest.mark.parametrize("same_key", [False, True])
@pytest.mark.parametrize("path", ["", USER, APP])
def test_no_edit_of_many_at_once_is_lost(
    program: Program, each_ref: SessionRef, transactional_db: None, path: str, same_key: bool
) -> None:
    prefix = {"": "", USER: "user:", APP: "app:"}[path]
    path = path or address(each_ref, "/state")

    def edit(number: int) -> Answer:
        return program.patch(path, {"set": {f"{prefix}k{0 if same_key else number}": number}})

    answers = in_threads([lambda n=n: edit(n) for n in range(12)])  # type: ignore[misc]
    assert [getattr(answer, "status", answer) for answer in answers] == [201] * 12
    assert_state_is_what_events_say(each_ref.source, {each_ref: STATE})
    events = [answer.json()["event"] for answer in answers if isinstance(answer, Answer)]
    assert len({event["id"] for event in events}) == 12
    if same_key:  # each replaced what another had written
        replaced = [event["custom_metadata"]["adkweb"]["replaced"].get(f"{prefix}k0") for event in events]
        assert len(set(replaced)) == 12


def test_of_two_edits_that_expect_the_same_value_one_succeeds(
    program: Program, each_ref: SessionRef, transactional_db: None
) -> None:
    path = address(each_ref, "/state")
    bodies = [{"set": {"step": number}, "expected": {"step": "choose"}} for number in range(6)]
    answers = in_threads([lambda body=body: program.patch(path, body).status for body in bodies])  # type: ignore[misc]
    assert sorted(map(str, answers)) == ["201"] + ["409"] * 5


def test_a_counter_that_many_raise_by_if_match_counts_all(
    program: Program, each_ref: SessionRef, transactional_db: None
) -> None:
    path = address(each_ref, "/state")

    def count() -> int:
        for attempt in range(200):
            seen = program.get(path)
            number = seen.json()["session"].get("n", 0)
            if program.patch(path, {"set": {"n": number + 1}}, if_match=seen.headers["etag"]).status == 201:
                return attempt
        raise AssertionError("never")

    in_threads([count] * 5)
    assert program.get(path).json()["session"]["n"] == 5


def test_what_adk_stored_although_it_is_no_json_can_be_replaced(program: Program, ref: SessionRef) -> None:
    execute(ref.source, """UPDATE sessions SET state = '{"a": NaN}'""")
    assert program.patch(address(ref, "/state"), {"set": {"a": 1}}).status == 201
    assert program.get(address(ref, "/state")).json()["session"] == {"a": 1}


def test_a_body_of_too_many_lists_is_refused_before_it_is_read(program: Program, ref: SessionRef) -> None:
    """To make millions of objects would hold up every other request."""
    body = b'{"set":{"a":[' + b"[]," * 400_000 + b"1]}}"
    answer = program.patch(address(ref, "/state"), body)
    assert (answer.status, answer.detail) == (400, "more than 300000 lists, objects and keys in total")
    body = b'{"set":{"a":[' + b"1," * 1_000_001 + b"1]}}"
    answer = program.patch(address(ref, "/state"), body)
    assert (answer.status, answer.detail) == (400, "more than 1000000 items")
