"""Which invocation is in flight: begun, ended, waiting; told from the newest events alone."""

import itertools
import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL
from sessions_app.domain.invocations import Running, running
from tests.strategies import hostile_events, json_values

Event = dict[str, Any]
SILENCE = 60.0


def event(author: str, *parts: Event, at: float = 0, run: str = "e-1", **fields: Any) -> Event:
    """An event as ADK stores it; `at` counts from 1000 seconds."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"author": author, "invocation_id": run, "timestamp": 1000.0 + at, "actions": {}, **content, **fields}


def user(text: str = "hello", **fields: Any) -> Event:
    return event("user", {"text": text}, **fields)


def says(text: str = "done", author: str = "agent", **fields: Any) -> Event:
    return event(author, {"text": text}, **fields)


def call_part(call_id: str, name: str, **args: Any) -> Event:
    return {"function_call": {"id": call_id, "name": name, "args": args}}


def calls(call_id: str = "c1", name: str = "tool", author: str = "agent", **fields: Any) -> Event:
    return event(author, call_part(call_id, name), **fields)


def asks(call_id: str = "c1", name: str = "approve", **fields: Any) -> Event:
    return calls(call_id, name, long_running_tool_ids=[call_id], **fields)


def answers(call_id: str = "c1", author: str = "agent", name: str = "tool", **fields: Any) -> Event:
    return event(author, {"function_response": {"id": call_id, "name": name, "response": {"ok": 1}}}, **fields)


def state(**fields: Any) -> Event:
    return event("agent", **{"actions": {"state_delta": {"k": 1}}, **fields})


def rewind(to: str, run: str = "e-9", **fields: Any) -> Event:
    return event("user", run=run, actions={"rewind_before_invocation_id": to}, **fields)


def now(*events: Event, at: float = 10, silence: float = SILENCE) -> Running | None:
    """What is in flight, at this time after the beginning."""
    return running(events, 1000 + at, silence)


def status(*events: Event, at: float = 10) -> str:
    found = now(*events, at=at)
    return "idle" if found is None else "waiting" if found.waiting else "running"


# --- Begin and end ----------------------------------------------------------------------------------------------------


def test_a_run_that_was_killed_is_over_once_the_user_has_started_another_turn() -> None:
    killed = (user(run="e-1"), calls(run="e-1", at=1))
    assert status(*killed) == "running"
    assert status(*killed, user(run="e-2", at=2), says(run="e-2", at=3)) == "idle"
    assert now(*killed, user(run="e-2", at=2), says(run="e-2", at=3), at=9_999, silence=math.inf) is None
    assert status(*killed, user(run="e-2", at=2), says(run="e-2", at=3), answers(run="e-1", at=4)) == "running"


def test_without_events_nothing_is_in_flight() -> None:
    assert now() is None


def test_a_user_s_message_begins_an_invocation() -> None:
    assert now(user(at=3)) == Running("e-1", since=1003, last=1003, waiting=False)


def test_an_invocation_runs_until_its_final_response() -> None:
    turn = [user(), calls(), answers(), says()]
    assert [status(*turn[:n]) for n in range(1, 5)] == ["running", "running", "running", "idle"]


@pytest.mark.parametrize(
    ("last", "tools"),
    [
        ([calls()], ("tool",)),
        ([calls("c1", "search"), calls("c2", "pay")], ("search", "pay")),
        ([calls("c1", "search"), calls("c2", "pay"), answers("c1", name="search")], ("pay",)),
        ([calls(), answers()], ()),
        ([calls("", "search"), answers("", name="search")], ()),
    ],
)
def test_the_tools_that_are_running_are_named(last: list[Event], tools: tuple[str, ...]) -> None:
    run = now(user(), *last)
    assert run is not None
    assert run.calls == tools


def test_its_beginning_and_its_newest_event_are_told() -> None:
    assert now(user(at=1), calls(at=2), answers(at=4)) == Running("e-1", 1001, 1004, waiting=False)


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (event("agent", error_code="X"), "idle"),
        (event("agent", error_message="x"), "idle"),
        (calls(error_code="MAX_TOKENS"), "running"),  # ADK still runs the calls
        (event("agent", interrupted=True), "idle"),
        (event("agent", turn_complete=True), "idle"),
        (event("agent", finish_reason="STOP"), "idle"),  # a model that had nothing to say
        (event("agent", output={"a": 1}), "idle"),
        (event("agent", output_transcription={"text": "bye"}), "idle"),
        (event("user", input_transcription={"text": "hi"}), "running"),
        (answers(actions={"skip_summarization": True}), "idle"),
        (says(partial=True), "running"),
        (event("agent", {"executable_code": {"code": "1", "language": "PYTHON"}}), "running"),
        (event("agent", {"code_execution_result": {"output": "1", "outcome": "OUTCOME_OK"}}), "running"),
        (event("agent", {"code_execution_result": {"output": "1"}}, {"text": "one"}), "idle"),
        (event("agent", {"text": "hm", "thought": True}), "idle"),
        (event("agent", {"text": "let me see"}, call_part("c1", "tool")), "running"),
    ],
)
def test_what_ends_an_invocation_and_what_does_not(last: Event, wanted: str) -> None:
    assert status(user(), last) == wanted


@pytest.mark.parametrize(
    "silent",
    [
        state(),
        state(actions={"artifact_delta": {"a.png": 0}}),
        state(actions={"end_of_agent": True}),
        event("agent"),
        event("agent", content={"role": "model", "parts": []}),
        event("user", actions={"state_delta": {"k": 1}}),
    ],
)
def test_an_event_that_says_nothing_neither_begins_nor_ends(silent: Event) -> None:
    assert status(silent) == "idle"
    assert status(user(), silent) == "running"
    assert status(user(), says(), silent) == "idle"
    assert status(user(), asks(), silent) == "waiting"


def ends(run: str = "e-1", **fields: Any) -> Event:
    """An edit that was applied while an invocation ran."""
    return event("system", run="edit-1", custom_metadata={"adkweb": {"actor": "maria", "ended": run}}, **fields)


def test_an_edit_that_ended_an_invocation_ends_it_at_once() -> None:
    assert status(user(), calls(), ends()) == "idle"
    assert status(user(), ends("e-0")) == "running"
    assert status(user(), calls(), ends(), user(run="e-2"), at=20) == "running"
    assert status(user(), ends(["e-1"])) == "running"  # type: ignore[arg-type]  # a database may hold anything


def test_an_invocation_that_goes_on_after_the_edit_was_not_ended() -> None:
    assert [status(*turn) for turn in ([user(), ends(), calls()], [user(), ends(), calls(), answers(), says()])] == [
        "running",
        "idle",
    ]
    assert status(user(), calls(), ends(), answers(), ends()) == "idle"


def test_an_edit_that_ended_one_invocation_leaves_what_waits() -> None:
    assert status(user(), asks(run="e-0"), ends()) == "waiting"


@pytest.mark.parametrize(
    "other",
    [
        event(
            "system", run="edit-1", custom_metadata={"adkweb": {"actor": "maria"}}, actions={"state_delta": {"a": 1}}
        ),
        event("user", {"text": "x"}, run="edit-2", custom_metadata={"adkweb": {"actor": "maria"}}),
        event("user", run="e-7", actions={"compaction": {"compacted_content": {"parts": [{"text": "sum"}]}}}),
        rewind("e-8", run="e-7"),
    ],
)
def test_edits_compactions_and_rewinds_neither_begin_nor_end(other: Event) -> None:
    assert status(other) == "idle"
    if other["actions"].get("rewind_before_invocation_id") is None:
        assert status(user(), other) == "running"
        assert status(user(), says(), other) == "idle"


# --- Silence ----------------------------------------------------------------------------------------------------------


def test_silence_ends_what_runs() -> None:
    assert status(user(), at=60) == "running"
    assert status(user(), at=60.1) == "idle"


def test_every_event_of_it_breaks_the_silence_and_no_other_does() -> None:
    assert status(user(), state(at=50), at=100) == "running"
    assert status(user(), says(at=50, run="e-2"), at=100) == "idle"


def test_a_clock_that_runs_ahead_is_not_silence() -> None:
    assert status(user(at=5000), at=0) == "running"


def test_what_waits_goes_on_waiting_in_silence() -> None:
    assert status(user(), asks(), at=10**7) == "waiting"
    assert status(user(), asks(), answers(), at=10**7) == "waiting"  # the agent died over its summary


def test_who_speaks_after_a_silence_begins_anew() -> None:
    found = now(user(), calls(at=1), answers(at=500, author="user"), at=501)
    assert found == Running("e-1", 1500, 1500, waiting=False)


# --- Branches ---------------------------------------------------------------------------------------------------------


def test_parallel_agents_run_until_the_last_of_them_has_spoken() -> None:
    turn = [
        user(),
        calls("c1", branch="root.a"),
        calls("c2", branch="root.b"),
        says(branch="root.b"),
        answers("c1", branch="root.a"),
        says(branch="root.a"),
    ]
    assert [status(*turn[:n]) for n in range(1, 7)] == ["running"] * 5 + ["idle"]


def test_an_open_event_is_followed_on_in_its_branch_and_below_but_not_beside() -> None:
    assert status(user(), answers(branch="r"), says(branch="r.a")) == "idle"
    assert status(user(), answers(branch="r.a"), says(branch="r.ab")) == "running"
    assert status(user(), answers(branch="r.a"), says(branch="r.b")) == "running"


def test_a_last_word_above_ends_what_is_below() -> None:
    assert status(user(), answers(branch="r.a"), answers(branch="r.b"), calls(branch="r")) == "running"
    assert status(user(), answers(branch="r.a"), answers(branch="r.b"), says(branch="r")) == "idle"


def test_a_parallel_agent_s_part_that_escalates_ends_the_others() -> None:
    turn = [user(), calls("c1", author="a", branch="par.a"), calls("c2", author="b", branch="par.b")]
    escalation = answers("c1", author="a", branch="par.a", actions={"escalate": True})
    loop = answers("c1", author="checker", branch="par.a", actions={"escalate": True})
    assert status(*turn, escalation) == "idle"
    assert status(*turn, event("a", branch="par.a", actions={"escalate": True})) == "idle"
    assert status(*turn, loop, says(author="checker", branch="par.a")) == "running"


# --- Agents one after the other ---------------------------------------------------------------------------------------


def test_a_checkpoint_says_that_a_workflow_agent_goes_on_until_its_end() -> None:
    begun = event("seq", actions={"agent_state": {"current_sub_agent": "a"}})
    ended = event("seq", actions={"end_of_agent": True})
    turn = [user(), begun, says(author="a"), says(author="b"), ended]
    assert [status(*turn[:n]) for n in range(1, 6)] == ["running"] * 4 + ["idle"]


def test_a_checkpoint_in_another_branch_ends_its_agent_too() -> None:
    begun = event("par", actions={"agent_state": {}})
    turn = [user(), begun, calls(branch="par.a"), event("par", branch="par.b", actions={"end_of_agent": True})]
    assert status(*turn) == "idle"


def test_an_agent_that_ends_by_transferring_does_not_end_the_invocation() -> None:
    handed = answers(name="transfer_to_agent", actions={"transfer_to_agent": "other"})
    assert status(user(), calls(), handed, event("agent", actions={"end_of_agent": True})) == "running"


def test_an_error_ends_workflow_agents_and_a_new_checkpoint_goes_on() -> None:
    begun = event("seq", actions={"agent_state": {"current_sub_agent": "a"}})
    assert status(user(), begun, event("a", error_code="X")) == "idle"
    assert status(user(), begun, event("a", error_code="X"), begun) == "running"


def test_a_workflow_agent_pauses_while_its_part_waits() -> None:
    begun = event("seq", actions={"agent_state": {"current_sub_agent": "a"}})
    assert status(user(), begun, asks(), answers(), says()) == "waiting"
    assert status(user(), begun, asks(), answers(), says(), answers(author="user"), says()) == "running"


# --- Waiting ----------------------------------------------------------------------------------------------------------


def test_a_long_running_call_waits_for_the_user_s_answer_not_for_the_agent_s_pending_one() -> None:
    turn = [user(), asks(), answers(), says(), answers(author="user"), says()]
    wanted = ["running", "waiting", "running", "waiting", "running", "idle"]
    assert [status(*turn[:n]) for n in range(1, 7)] == wanted


def test_what_waits_is_named_each_tool_once() -> None:
    turn = [user(at=1), asks("c1", at=2), asks("c2", at=3), asks("c3", "other", at=4), says(at=5)]
    assert now(*turn) == Running("e-1", 1001, 1005, waiting=True, waits_for=("approve", "other"))


def test_an_answer_days_later_begins_the_present_run() -> None:
    turn = [user(), asks(), answers(), says(), answers(author="user", at=500_000)]
    assert now(*turn, at=500_001) == Running("e-1", 501_000, 501_000, waiting=False)


def test_a_second_word_of_the_user_s_does_not_begin_what_runs_already() -> None:
    turn = [user(), calls("c1", "task", at=1), answers("c1", author="user", at=2)]  # ADK's task agents answer so
    assert now(*turn) == Running("e-1", 1000, 1002, waiting=False)


def test_an_ordinary_call_beside_a_long_running_one_keeps_the_agent_at_work() -> None:
    both = event("agent", call_part("c1", "approve"), call_part("c2", "tool"), long_running_tool_ids=["c1"])
    assert status(user(), both) == "running"
    assert status(user(), both, answers("c2"), says()) == "waiting"


def test_a_running_branch_wins_over_a_waiting_one() -> None:
    turn = [user(), calls("c2", branch="par.b"), asks("c1", branch="par.a")]
    assert status(*turn) == "running"
    assert status(*turn, answers("c2", branch="par.b"), says(branch="par.b")) == "waiting"


def test_one_answer_of_two_leaves_the_other_waiting() -> None:
    found = now(user(), asks("c1", "first"), asks("c2", "second"), answers("c1", author="user"), says())
    assert found is not None
    assert found.waits_for == ("second",)


def _wrapper(name: str, call_id: str = "w1", **args: Any) -> Event:
    return event("agent", call_part(call_id, name, **args), long_running_tool_ids=[call_id], at=2)


@pytest.mark.parametrize(
    ("wrapper", "action"),
    [
        (
            _wrapper(CONFIRMATION_CALL, originalFunctionCall={"id": "c1", "name": "tool"}),
            "requested_tool_confirmations",
        ),
        (_wrapper(AUTH_CALL, functionCallId="c1"), "requested_auth_configs"),
    ],
)
def test_a_confirmation_and_a_sign_in_wait_in_the_name_of_the_tool(wrapper: Event, action: str) -> None:
    pending = answers(actions={action: {"c1": {}}}, at=1)  # stored after the request, earlier by its time
    turn = [user(), calls(), wrapper, pending, answers("w1", author="user"), answers(), says()]
    wanted = ["running", "running", "waiting", "waiting", "running", "running", "idle"]
    assert [status(*turn[:n]) for n in range(1, 8)] == wanted
    found = now(*turn[:4])
    assert found is not None
    assert (found.waits_for, found.last) == (("tool",), 1002)


def test_a_request_seen_without_its_call_waits_until_the_tool_has_run() -> None:
    pending = answers(actions={"requested_tool_confirmations": {"c1": {}}})
    assert status(pending) == "waiting"
    assert status(pending, says()) == "waiting"
    assert status(pending, answers("w1", author="user"), answers(), says()) == "idle"
    assert status(pending, answers("c1", author="user"), says()) == "idle"


def test_a_workflow_that_asks_for_input_waits() -> None:
    found = now(user(), _wrapper(INPUT_CALL))
    assert found is not None
    assert (found.waiting, found.waits_for) == (True, (INPUT_CALL,))


def test_a_tool_that_failed_at_once_does_not_wait() -> None:
    assert status(user(), asks(), event("agent", error_code="ConnectionError")) == "idle"
    assert status(user(), asks(branch="p.a"), event("agent", error_code="X", branch="p.b")) == "waiting"
    assert status(user(), asks(), answers(), event("agent", error_code="X")) == "waiting"


def test_a_call_without_id_waits_only_while_nothing_follows_it() -> None:
    assert status(user(), asks("")) == "waiting"
    assert status(user(), asks(""), says()) == "idle"


def test_a_long_running_tool_is_named_by_itself_whatever_its_arguments_are() -> None:
    odd = event("agent", call_part("c2", "approve", functionCallId="c1"), long_running_tool_ids=["c2"])
    found = now(user(), calls("c1", "other"), answers("c1"), calls("", "nameless"), answers(""), odd)
    assert found is not None
    assert found.waits_for == ("approve",)


def test_an_answer_under_an_invocation_of_its_own_counts() -> None:
    turn = [user(), asks(), answers(), says()]
    assert status(*turn, answers(author="user", run="e-2"), says(run="e-2")) == "idle"


# --- Several invocations ----------------------------------------------------------------------------------------------


def test_a_running_invocation_wins_over_a_waiting_one() -> None:
    found = now(user(), asks(), user(run="e-2", at=1), asks("c2", run="e-2"), user(run="e-3"), state(run="e-2"))
    assert found is not None
    assert (found.invocation_id, found.waiting) == ("e-3", False)


def test_of_two_that_run_the_one_with_the_newest_event_is_told() -> None:
    turn = [user(run="a"), user(run="b"), calls(run="a")]
    assert [found.invocation_id for n in (1, 2, 3) if (found := now(*turn[:n]))] == ["a", "b", "a"]


def test_of_two_that_wait_the_one_with_the_newest_event_is_told() -> None:
    found = now(user(run="a"), asks("c1", run="a"), user(run="b"), asks("c2", run="b"))
    assert found is not None
    assert found.invocation_id == "b"


def test_an_invocation_that_waits_is_told_again_when_a_newer_one_has_ended() -> None:
    found = now(user(), user(run="e-2"), asks(), says(run="e-2"))
    assert found is not None
    assert (found.invocation_id, found.waiting) == ("e-1", True)


def test_a_session_does_not_wait_for_what_the_user_passed_over() -> None:
    assert status(user(), asks(), user(run="e-2"), says(run="e-2")) == "idle"
    assert status(user(), asks(), user(run="e-2"), asks("c2", run="e-2")) == "waiting"


# --- Rewinds ----------------------------------------------------------------------------------------------------------


def test_what_was_rewound_neither_waits_nor_runs() -> None:
    assert status(user(), asks(), rewind("e-1")) == "idle"
    assert status(user(), calls(), rewind("e-1")) == "idle"
    assert status(user(), asks(), user(run="e-2"), says(run="e-2"), rewind("e-2")) == "waiting"


def test_a_rewind_that_was_rewound_has_no_effect() -> None:
    assert (
        status(user(), asks(), user(run="e-2"), says(run="e-2"), rewind("e-1"), rewind("e-2", run="e-8")) == "waiting"
    )


def test_a_rewind_to_before_the_events_given_takes_all_of_them_back() -> None:
    assert status(user(), asks(), rewind("long-ago")) == "idle"
    assert status(user(), asks(), rewind("long-ago"), user(run="e-2")) == "running"


# --- Whatever a database holds ----------------------------------------------------------------------------------------


@given(st.lists(hostile_events | json_values, max_size=6), st.floats(0, 4e9))
def test_any_json_is_told_of_without_an_error(events: list[Any], at: float) -> None:
    found = running(events, at, SILENCE)
    assert found is None or isinstance(json.dumps([found.invocation_id, found.since, found.last, found.waits_for]), str)


@pytest.mark.parametrize("time_of", ["2026", None, float("nan"), float("inf"), -1, 10**400, [], 1.7e12])
def test_a_time_that_is_none_is_no_sign_of_life(time_of: Any) -> None:
    assert status({**user(), "timestamp": time_of}) == "idle"
    assert now(user(), {**calls(), "timestamp": time_of}) == Running("e-1", 1000, 1000, False, calls=("tool",))


@pytest.mark.parametrize(
    "fields",
    [
        {"invocation_id": None},
        {"invocation_id": ["e-1"]},
        {"branch": {"a": 1}},
        {"author": 7},
        {"actions": []},
        {"actions": {"agent_state": [], "end_of_agent": "yes", "requested_auth_configs": ["c1"]}},
        {"actions": {"rewind_before_invocation_id": {"a": 1}}},
        {"long_running_tool_ids": [[]]},
        {"content": {"parts": "text"}},
        {"content": {"parts": [None, 7, {"function_call": {"id": [], "args": {"originalFunctionCall": 3}}}]}},
    ],
)
def test_shapes_that_nobody_expects_are_read_as_if_they_were_not_there(fields: Event) -> None:
    for events in itertools.permutations([user(), {**asks(), **fields}, says()]):
        now(*events)


@pytest.mark.parametrize(
    "build",
    [
        lambda n: [event("agent", *[{"text": "x"}] * n), user()],
        lambda n: [made for i in range(n // 10) for made in (user(run=str(i)), asks(str(i), run=str(i)))],
        lambda n: [made for i in range(n // 20) for made in (user(run=str(i)), rewind(str(i), run=f"r{i}"))],
    ],
)
def test_a_long_list_is_read_in_time_that_grows_with_it(build: Callable[[int], list[Event]]) -> None:
    def seconds(n: int) -> float:
        events = build(n)
        start = time.process_time()  # however busy the machine is
        running(events, 1000, SILENCE)
        return time.process_time() - start

    seconds(1000)
    assert seconds(100_000) < 5
