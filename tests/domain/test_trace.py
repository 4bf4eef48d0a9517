"""The trace of a turn is what really happened: agents, model calls and tools, nested, with their times."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.clock import Took
from sessions_app.domain.description import CONFIRMATION_CALL
from sessions_app.domain.invocations import seconds_of
from sessions_app.domain.kinds import describe
from sessions_app.domain.trace import AGENT, MODEL, SUMMARY, TOOL, WAIT, Trace, trace
from tests.domain.runs import BEGIN, TICK, Event, Simulator, seconds, told, turns
from tests.domain.test_invocations import answers, asks, calls, event, says, user
from tests.strategies import MANY, hostile_events


def traced(*events: Event, **more: Any) -> Trace:
    """The trace of events that were stored when they say."""
    return trace(((each, describe(each, seconds_of(each))) for each in events), **more)


def lines(trace: Trace) -> list[str]:
    """A trace to be read: “  tool book 1–3”, in seconds from its beginning."""

    def at(seconds: float | None) -> str:
        return "" if seconds is None else f"{seconds - trace.start:g}"

    return [
        f"{'  ' * each.depth}{'→ ' if each.transferred else ''}{each.kind} {each.name}".rstrip()
        + f" {at(each.start)}–{at(each.end)}"
        + (f" failed {each.why}".rstrip() if each.failed else "")
        for each in trace.spans
    ]


# --- Made-up runs -----------------------------------------------------------------------------------------------------


@MANY
@given(turns)
def test_a_trace_is_exactly_what_happened(plan: list[Any]) -> None:
    run = Simulator(plan)
    trace = traced(*run.events)
    assert sorted(map(told, (each for each in trace.spans if each.parent is None))) == sorted(
        each.told() for each in run.truth
    )
    assert (trace.start, trace.end, trace.more) == (BEGIN, seconds(run.end), 0)


@MANY
@given(turns)
def test_times_and_sums_equal_a_plain_computation(plan: list[Any]) -> None:
    events = Simulator(plan).events
    trace = traced(*events)
    plain = sorted(_plainly(events))
    assert sorted((each.kind, each.start, each.end) for each in trace.spans if each.kind != AGENT) == plain
    during = {kind: _ticks(plain, kind) for kind in (MODEL, TOOL, WAIT)}
    assert trace.model.seconds == len(during[MODEL]) * TICK
    assert trace.tools.seconds == len(during[TOOL]) * TICK
    assert trace.waiting.seconds == len(during[WAIT] - during[MODEL] - during[TOOL]) * TICK


def _plainly(events: list[Event]) -> list[tuple[str, float, float]]:
    """Every model call, tool and wait with its times, found by looking through all events for each of them."""
    spans: list[tuple[str, float, float]] = []
    for number, here in enumerate(events):
        since = max((each["timestamp"] for each in events[:number] if _same_line(each, here, events)), default=BEGIN)
        parts = here.get("content", {}).get("parts", [])
        asking = [part for part in parts if part.get("function_call", {}).get("name") == CONFIRMATION_CALL]
        if here["author"] != "user" and not asking and any("function_response" not in part for part in parts):
            spans.append((MODEL, since, here["timestamp"]))
        for part in parts:
            if "function_call" in part:
                spans += _answers(here, part["function_call"], events)
        if "error_code" in here:
            ends_tool = any("function_call" in part for part in _own(events[:number], here)[-1:])
            spans += [] if ends_tool else [(MODEL, since, here["timestamp"])]
    return spans


def _own(events: list[Event], event: Event) -> list[Event]:
    mine = [each for each in events if each["author"] == event["author"] and "agent_state" not in each["actions"]]
    return [part for each in mine for part in each.get("content", {}).get("parts", [{}])]


def _answers(event: Event, call: Event, events: list[Event]) -> list[tuple[str, float, float]]:
    after: list[Event] = [
        each
        for each in events
        for part in each.get("content", {}).get("parts", [])
        if part.get("function_response", {}).get("id") == call["id"]
    ]
    times = [each["timestamp"] for each in after]
    if call["name"] == CONFIRMATION_CALL:
        return [(WAIT, event["timestamp"], times[0])]
    if not after:
        return [(TOOL, event["timestamp"], next(e["timestamp"] for e in events if _raised(e, event, events)))]
    spans = [(TOOL, event["timestamp"], times[0])]
    if len(after) == 2 and after[1]["author"] == "user":
        spans.append((WAIT, times[0], times[1]))
    elif len(after) == 2:  # after a confirmation
        line = [each for each in events[: events.index(after[1])] if _same_line(each, after[1], events)]
        spans.append((TOOL, max(each["timestamp"] for each in line), times[1]))
    return spans


def _raised(error: Event, call: Event, events: list[Event]) -> bool:
    return "error_code" in error and error["author"] == call["author"] and events.index(error) > events.index(call)


def _same_line(one: Event, other: Event, events: list[Event]) -> bool:
    """Tells whether one event is before the other not only by chance: not in an agent that works at the same time."""
    a, b = (branch.split(".") if (branch := _branch(each, events)) else [] for each in (one, other))
    shared = 0
    while a[shared : shared + 1] == b[shared : shared + 1] != []:
        shared += 1
    if shared == min(len(a), len(b)):
        return True
    lanes = [number for number, name in enumerate(a[:shared]) if "@" in name]
    since = lanes[-1] + 1 if lanes else 0  # group.agent.group.agent
    return (shared - since) % 2 == 0 and "@" not in a[shared] + b[shared]


def _branch(event: Event, events: list[Event]) -> str:
    """Returns the branch of an event; of an answer, that of the question."""
    parts = event.get("content", {}).get("parts", [])
    if event["author"] == "user" and (
        answered := [p["function_response"]["id"] for p in parts if len(p) and "text" not in p]
    ):
        for each in events:
            for part in each.get("content", {}).get("parts", []):
                if part.get("function_call", {}).get("id") == answered[0]:
                    return str(each.get("branch", ""))
    return str(event.get("branch", ""))


def _ticks(spans: list[tuple[str, float, float]], kind: str) -> set[int]:
    return {
        tick
        for each, start, end in spans
        if each == kind
        for tick in range(round((start - BEGIN) / TICK), round((end - BEGIN) / TICK))
    }


# --- What may be stored -----------------------------------------------------------------------------------------------


@MANY
@given(st.lists(hostile_events, max_size=8))
def test_whatever_is_stored_it_never_raises_and_no_time_is_negative(events: list[Event]) -> None:
    trace = traced(*events)
    assert trace.took >= 0
    for each in trace.spans:
        assert trace.start <= each.start
        assert each.end is None or each.start <= each.end <= trace.end
    assert 0 <= trace.waiting.seconds <= trace.took
    assert max(trace.model.seconds, trace.tools.seconds) <= trace.took


@MANY
@given(turns, st.data())
def test_whatever_is_missing_the_others_are_read(plan: list[Any], data: st.DataObject) -> None:
    events = Simulator(plan).events
    kept = [each for each in events if data.draw(st.booleans())]
    back = data.draw(st.lists(st.integers(0, max(0, len(kept) - 1)), max_size=3)) if kept else []
    for number in back:  # clocks that go back, or say nothing
        kept[number] = {**kept[number], "timestamp": data.draw(st.sampled_from([0, None, 1.5, BEGIN - 5]))}
    trace = traced(*kept)
    assert all(each.end is None or each.end >= each.start >= trace.start for each in trace.spans)


def test_without_events_there_is_nothing() -> None:
    assert traced() == Trace(0, 0, [], 0, Took(0), Took(0), Took(0), 0, 0)


def test_one_event_alone_took_no_time() -> None:
    assert lines(traced(says(at=5))) == ["agent agent 0–0", "  model 0–0"]


def test_a_call_without_an_answer_has_no_end() -> None:
    assert lines(traced(user(), calls(at=1))) == ["agent agent 0–1", "  model 0–1", "  tool tool 1–"]


def test_an_answer_without_a_call_begins_with_the_event_before() -> None:
    assert lines(traced(user(), answers(at=2)))[1:] == ["  tool tool 0–2"]


def test_calls_without_ids_are_answered_by_name_and_the_same_id_twice_in_turn() -> None:
    for call_id in ("", "c1"):
        run = [calls(call_id, at=1), calls(call_id, at=2), answers(call_id, at=4), answers(call_id, at=7)]
        assert lines(traced(user(), *run))[2:] == ["  tool tool 1–4", "  model 1–2", "  tool tool 2–7"]


def test_a_clock_that_goes_back_stands_still() -> None:
    trace = traced(user(at=5), calls(at=3), answers(at=4), says(at=9))
    assert lines(trace)[1:] == ["  model 0–0", "  tool tool 0–0", "  model 0–4"]


def test_an_edit_in_the_middle_of_a_turn_takes_nobody_s_time() -> None:
    edit = event("system", at=2, custom_metadata={"adkweb": {"kind": "edit", "actor": "ana"}})
    assert lines(traced(user(), edit, says(at=3)))[1:] == ["  model 0–3"]


def test_an_invocation_without_a_user_s_message_begins_nobody_knows_when() -> None:
    assert lines(traced(user(), says(at=1), says(at=90, run="e-2"), says(at=92, run="e-2")))[1:] == [
        "  model 0–1",
        "  model 90–90",
        "  model 90–92",
    ]


def test_back_to_an_agent_that_transferred_is_beside_it() -> None:
    def hands(author: str, to: str, at: float) -> Event:
        return answers(name="transfer_to_agent", author=author, at=at, actions={"transfer_to_agent": to})

    run = [hands("a", "b", 1), says(author="b", at=2), hands("b", "c", 3), hands("c", "a", 4), says(author="a", at=5)]
    agents = [line for line in lines(traced(user(), *run)) if line.lstrip(" →").startswith("agent ")]
    assert agents == ["agent a 0–1", "  → agent b 1–3", "    → agent c 3–4", "agent a 4–5"]


def test_agents_in_turn_stand_beside_each_other() -> None:
    run = [says(author="a", at=1), says(author="b", at=2), says(author="a", at=3)]
    agents = [line for line in lines(traced(user(), *run)) if line.startswith("agent")]
    assert agents == ["agent a 0–1", "agent b 1–2", "agent a 2–3"]


def test_who_waits_is_told_from_a_tool_at_work() -> None:
    run = [asks(at=1), answers(name="approve", at=2), says("asked", at=3)]
    waits = ["  tool approve 1–2", "  wait approve 2–", "  model 2–3"]
    assert lines(traced(user(), *run))[2:] == waits
    done = traced(user(), *run, answers(author="user", at=60))
    assert "  wait approve 2–60" in lines(done)
    assert (done.waiting, done.tools, done.model, done.took) == (Took(57), Took(1), Took(2), 60)
    assert lines(traced(user(), asks(at=1)))[2:] == ["  wait approve 1–"]  # nobody knows whether its tool still works


def test_errors_are_told_in_their_own_words() -> None:
    declined = event(
        "a", {"function_response": {"id": "c1", "name": "tool", "response": {"error": {"message": "card declined"}}}}
    )
    assert lines(traced(user(), calls(), declined))[2] == "  tool tool 0–0 failed card declined"
    error = event("agent", error_code="429", error_message="try  later", at=1)
    assert lines(traced(user(), error))[1] == "  model 0–1 failed 429 try later"
    assert lines(traced(user(), calls(), error))[2] == "  tool tool 0–1 failed 429 try later"
    code = event("agent", {"code_execution_result": {"output": "no", "outcome": "OUTCOME_FAILED"}}, at=1)
    assert lines(traced(user(), code))[1] == "  tool code 0–1 failed no"
    assert traced(user(), calls(), declined, error).errors == 2


def test_a_summary_of_the_conversation_is_no_agent_s() -> None:
    summary = event("user", at=3, actions={"compaction": {"end_timestamp": 1}}, usage_metadata={"total_token_count": 9})
    trace = traced(user(), says(at=1), summary)
    assert [(each.kind, each.depth, each.tokens) for each in trace.spans if each.kind == SUMMARY] == [(SUMMARY, 0, 9)]
    assert (trace.model, trace.tokens) == (Took(3), 9)


def test_a_span_knows_its_events() -> None:
    trace = traced(user(id="e0"), calls(at=1, id="e1"), answers(at=2, id="e2"), says(at=3, id="e3"))
    assert [each.events for each in trace.spans] == [["e1", "e3"], ["e1"], ["e1", "e2"], ["e3"]]


# --- Bounds -----------------------------------------------------------------------------------------------------------


def test_a_turn_of_ten_thousand_events_says_how_much_is_left_out() -> None:
    run = [user()] + [each for n in range(5_000) for each in (calls(f"c{n}", at=n), answers(f"c{n}", at=n + 1))]
    began = time.process_time()
    trace = traced(*run, most=100)
    assert time.process_time() - began < 5
    assert (len(trace.spans), trace.more) == (100, 10_001 - 100)
    assert (trace.tools, trace.took) == (Took(5_000), 5_000)


@pytest.mark.parametrize(
    "run",
    [
        [
            event("a", *({"function_call": {"id": f"c{n}", "name": "t"}} for n in range(20_000))),
            event("a", error_code="X"),
        ],
        [event("a", *({"function_call": {"id": "c", "name": "t"}} for _ in range(20_000))), *[answers("c")] * 20],
        [says(author=f"a{n}", actions={"transfer_to_agent": f"a{n + 1}"}) for n in range(2_000)],
        [says(branch=".".join(["a"] * 5_000))] * 200,
        [says(author=f"a{n}", branch=f"p.a{n}") for n in range(5_000)],
    ],
    ids=["calls", "the same id", "transfers", "a deep branch", "branches"],
)
def test_what_is_made_to_be_slow_is_read_quickly(run: list[Event]) -> None:
    began = time.process_time()
    trace = traced(user(), *run)
    assert time.process_time() - began < 5
    assert max(each.depth for each in trace.spans) < 40
