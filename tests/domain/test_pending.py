"""Calls that wait for an answer are read from the stored events alone."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL
from sessions_app.domain.invocations import running
from sessions_app.domain.kinds import describe
from sessions_app.domain.pending import MOST, Entry, Pending, add, asked, entries, pending, unfinished, waiting
from tests.domain.test_invocations import Event, answers, asks, call_part, calls, event, rewind, says, user
from tests.strategies import hostile_events, json_values

RECORDED = Path(__file__).parent / "waiting"  # as google-adk 2.13.0 stored them


def recorded(name: str) -> list[Event]:
    events: list[Event] = json.loads((RECORDED / f"{name}.json").read_text())
    return events


def tools(*events: Event) -> list[str]:
    return [each.tool for each in pending(events)]


@pytest.mark.parametrize("resumable", ["", "_resumable"])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("confirm", [("confirmation", "buy"), ("confirmation", "buy")]),
        ("payload", [("confirmation", "ask")]),
        ("input_tool", [("input", INPUT_CALL)]),
        ("input_workflow", [("input", INPUT_CALL)]),
        ("credential", [("credential", "mail")]),
        ("longrunning", [("long-running", "approve")]),
    ],
)
def test_each_kind_of_question_waits_until_the_user_answers(
    name: str, resumable: str, wanted: list[tuple[str, str]]
) -> None:
    events = recorded(name + resumable)
    waits = pending(events)
    assert [(each.kind, each.tool) for each in waits] == wanted
    for number, each in enumerate(waits):
        assert events[each.seq]["id"] == each.event_id
        assert each.since == events[each.seq]["timestamp"]
        events.append(answers(each.call_id, author="user"))
        assert pending(events) == waits[number + 1 :]


@pytest.mark.parametrize("name", ["confirm", "credential", "longrunning", "payload"])
def test_the_order_of_events_of_one_moment_does_not_matter(name: str) -> None:
    *before, last_but_one, last = recorded(name)
    wanted = [(each.kind, each.call_id) for each in pending([*before, last_but_one, last])]
    assert [(each.kind, each.call_id) for each in pending([*before, last, last_but_one])] == wanted


def test_what_is_asked_is_said_in_the_words_of_the_agent() -> None:
    def of(name: str) -> Any:
        events = recorded(name)
        waits = pending(events)[0]
        return asked(next(call for call in describe(events[waits.seq]).calls if call.id == waits.call_id))

    assert (of("confirm").hint, of("confirm").args) == ("", {"n": 1})  # ADK's own sentence is for programs
    assert (of("payload").hint, of("payload").payload) == ("How many days?", {"days": 0})
    assert of("input_workflow").hint == "How many days?"
    assert of("input_workflow").args == {"for": "trip"}
    assert of("input_workflow").schema["required"] == ["days"]
    assert of("credential").args is None  # whose configuration is not for reading
    assert of("longrunning").args == {"what": "trip"}


def test_neither_a_first_result_nor_a_text_nor_a_later_message_answers() -> None:
    turn = [user(), asks(), answers(), says()]
    assert tools(*turn) == ["approve"]
    (waits,) = pending([*turn, user(run="e-2"), says(run="e-2")])
    assert waits.passed_over
    assert not pending([*turn, answers(author="user", run="e-2")])  # under an invocation of its own, too


def test_an_update_leaves_a_call_waiting_and_its_invocation() -> None:
    update = answers(author="user", custom_metadata={"adkweb_updates": ["c1"]})
    turn = [user(), asks(), answers(), says(), update, says()]
    assert tools(*turn) == ["approve"]
    status = running(turn, 1e9, 60)
    assert status is not None
    assert (status.waiting, status.waits_for) == (True, ("approve",))
    assert not tools(*turn, answers(author="user"))
    assert not tools(*turn[:4], answers(author="user", custom_metadata={"adkweb_updates": "c1"}))


def test_a_call_of_an_older_store_that_lists_no_long_running_ids_waits() -> None:
    for name in (INPUT_CALL, AUTH_CALL, CONFIRMATION_CALL):
        assert tools(user(), calls("c1", name)) == [name]
    assert not tools(user(), calls("c1", "look"))
    assert not tools(user(), asks(""))  # without an id, nobody can answer it


def test_a_stopped_run_waits_no_longer() -> None:
    sealed = {"error_code": "INVOCATION_ABORTED"}
    assert not tools(user(), asks(), event("agent", **sealed))
    assert tools(user(), asks(), event("agent", run="e-2", **sealed)) == ["approve"]
    both = [user(), asks("c1", "first"), asks("c2", "second")]
    assert tools(*both, answers("c1", **sealed)) == ["second"]
    assert tools(*both, event("agent", error_code="ConnectionError")) == ["first", "second"]


STOP = event("agent", error_code="INVOCATION_ABORTED")
FIRST, SECOND = ({"agent_state": {"current_sub_agent": name}} for name in ("first", "second"))


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([user()], 0),
        ([user(), calls()], 1),
        ([user(), calls(), answers("c1")], 2),
        ([user(), STOP], 1),
        ([user(), calls(), STOP, event("maria", custom_metadata={"adkweb": {"actor": "maria"}})], 2),
        ([user(), says("agent")], None),
        ([user(), event("agent", error_code="429")], None),
        ([user(), asks(), STOP, user(run="e-2"), STOP | {"invocation_id": "e-2"}], 4),
        ([user(), asks(), calls("c2")], None),  # a call of the session waits
        ([user(), says("agent"), user(run="e-2"), calls(run="e-2"), rewind("e-2", run="e-3")], None),
        ([user(), calls(), user(run="e-2"), calls(run="e-2"), rewind("e-2", run="e-3")], 1),
        # ADK refuses what no node did and no checkpoint tells of, if that is seen from the beginning
        ([user(), calls(node_info={"path": "agent@1"})], 1),
        ([user(), calls(node_info={"path": ""})], None),
        ([user(), calls(node_info={"path": ""}), STOP], None),
        ([calls(node_info={"path": ""})], 0),
        ([user(), event("pair", actions=FIRST), calls(node_info={"path": ""})], 2),
        ([user(), event("pair", actions=FIRST, node_info={"path": ""}), says(), event("pair", actions=SECOND)], 3),
    ],
)
def test_what_breaks_off_is_continued_unless_adk_would_refuse_it(events: list[Event], last: int | None) -> None:
    told = [(each, describe(each)) for each in events]
    assert unfinished(told, running(events, 2_000, math.inf)) == (None if last is None else told[last])


def test_the_newest_of_two_questions_with_one_id_counts() -> None:
    (waits,) = pending([user(), asks("days-1", at=1), user(run="e-2"), asks("days-1", run="e-2", at=9)])
    assert (waits.seq, waits.since, waits.passed_over) == (3, 1009, False)


def test_what_was_rewound_does_not_wait_and_what_was_answered_there_waits_again() -> None:
    asked_ = [user(), asks(), says()]
    answered = [*asked_, user(run="e-2"), answers(author="user", run="e-2")]
    assert not pending([*asked_, rewind("e-1")])
    assert not pending(answered)
    (waits,) = pending([*answered, rewind("e-2")])
    assert not waits.passed_over
    assert not pending([*answered, rewind("e-2"), rewind("e-9", run="e-10")])  # the first rewind is undone


def test_a_long_log_keeps_what_waits() -> None:
    log: list[Entry] = []
    for number in range(3 * MOST):
        event_ = asks("open") if number == 0 else asks("c1") if number % 2 else answers("c1", author="user")
        add(log, entries(event_, describe(event_), number, {}, None))
    assert len(log) == MOST
    assert [each.call_id for each in waiting(log)] == ["open", "c1"]
    log = []
    add(log, [Entry("said", 1), Entry("answered", 2, "c")])
    assert not log  # nothing waits for it


@given(st.lists(hostile_events | json_values, max_size=6))
def test_any_json_is_read_without_an_error(events: list[Any]) -> None:
    assert all(isinstance(each, Pending) for each in pending(events))


def test_a_call_beside_others_waits_alone() -> None:
    both = event("agent", call_part("c1", "approve"), call_part("c2", "look"), long_running_tool_ids=["c1"])
    assert tools(user(), both) == ["approve"]
