"""Two runs beside each other: what is alike stands beside what it is like, and the first divergence is where they part."""

import copy
import time
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.alignment import MOST, Alignment, Pair, align
from sessions_app.domain.description import Description
from sessions_app.domain.invocations import begins_turn
from sessions_app.domain.kinds import describe
from tests.strategies import json_values
from tests.strategies import text as texts

Event = dict[str, Any]


@dataclass
class Told:
    data: Event

    @property
    def description(self) -> Description:
        return describe(self.data)


def said(author: str, *parts: Event, **more: Any) -> Event:
    return {"author": author, "content": {"parts": list(parts)}, **more}


def user(text: str) -> Event:
    return said("user", {"text": text})


def agent(text: str, **more: Any) -> Event:
    return said("booking", {"text": text}, **more)


def call(name: str, **args: Any) -> Event:
    return said("booking", {"function_call": {"id": uuid.uuid4().hex, "name": name, "args": args}})


def answer(name: str, value: Any, **delta: Any) -> Event:
    part = {"function_response": {"id": uuid.uuid4().hex, "name": name, "response": {"result": value}}}
    return said("booking", part, actions={"state_delta": delta})


def edit(**delta: Any) -> Event:
    noted = {"adkweb": {"actor": "maria", "reason": ""}}
    return {"author": "system", "actions": {"state_delta": delta}, "custom_metadata": noted}


def aligned(left: list[Event], right: list[Event]) -> Alignment[Told]:
    return align([Told(event) for event in left], [Told(event) for event in right])


def numbers(alignment: Alignment[Told], left: list[Event], right: list[Event]) -> list[tuple[int | None, int | None]]:
    """Returns the indexes of the events that stand beside each other."""

    def index(told: Told | None, run: list[Event]) -> int | None:
        return None if told is None else next(n for n, event in enumerate(run) if event is told.data)

    return [(index(pair.left, left), index(pair.right, right)) for pair in alignment.pairs]


def again(run: list[Event]) -> list[Event]:
    """Returns the same run at another time: with other ids, times, invocations and tokens."""
    events = copy.deepcopy(run)
    for number, event in enumerate(events):
        event |= {"id": f"other-{number}", "timestamp": 1e9 + number, "invocation_id": f"e-{number}"}
        event["usage_metadata"] = {"total_token_count": number}
        for part in event["content"]["parts"] if "content" in event else []:
            for name in part.keys() & {"function_call", "function_response"}:
                part[name]["id"] = f"call-{number}"
    return events


_words = st.sampled_from(["Thanks!", "yes", "Book it", ""]) | texts
_names = st.sampled_from(["search", "charge"]) | texts
_values = st.integers(0, 3) | json_values
_steps = st.one_of(
    st.builds(agent, _words),
    st.builds(lambda name, value: call(name, it=value), _names, _values),
    st.builds(lambda name, value: answer(name, value, step=value), _names, _values),
    st.builds(lambda value: edit(step=value), _values),
    st.builds(lambda words: said("other", {"text": words, "thought": True}), _words),
    st.builds(lambda words: said("", error_code="500", error_message=words), _words),
)
_runs = st.lists(_steps | st.builds(user, st.sampled_from(["yes", "no", "Book it"])), max_size=14)


# --- What holds for any two runs --------------------------------------------------------------------------------------


@given(_runs)
def test_a_run_has_no_difference_from_itself_at_another_time(run: list[Event]) -> None:
    alignment = aligned(run, again(run))
    assert alignment.first is None
    assert all(pair.same for pair in alignment.pairs)
    assert len(alignment.pairs) == len(run)
    assert [turn.left for turn in alignment.turns] == [turn.right for turn in alignment.turns]


@given(_runs, _runs)
def test_every_event_of_both_runs_stands_there_once_and_in_order(left: list[Event], right: list[Event]) -> None:
    pairs = numbers(aligned(left, right), left, right)
    assert [n for n, _other in pairs if n is not None] == [*range(len(left))]
    assert [n for _one, n in pairs if n is not None] == [*range(len(right))]


@given(_runs, _runs)
def test_exchanged_runs_are_aligned_alike(left: list[Event], right: list[Event]) -> None:
    there, back = aligned(left, right), aligned(right, left)
    assert [(pair.left, pair.right, pair.differs) for pair in there.pairs] == [
        (pair.right, pair.left, pair.differs) for pair in back.pairs
    ]
    assert [(turn.left, turn.right) for turn in there.turns] == [(turn.right, turn.left) for turn in back.turns]


@given(_runs, _steps, st.data())
def test_an_event_more_is_the_only_difference(run: list[Event], event: Event, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(run)))
    alignment = aligned(run, [*run[:at], event, *run[at:]])
    (more,) = [pair for pair in alignment.pairs if not pair.same]
    assert more.left is None
    assert more.right
    assert aligned([more.right.data], [event]).first is None


@given(_runs, st.lists(_steps, min_size=1, max_size=4))
def test_a_fork_diverges_at_its_first_own_event(run: list[Event], own: list[Event]) -> None:
    note = {"author": "system", "custom_metadata": {"adkweb": {"actor": "maria", "forked": {"session": "trip"}}}}
    first = aligned(run, [*again(run), note, *own]).first
    assert first
    assert first.left is None
    assert first.right
    assert first.right.data is own[0]
    assert aligned(run, [*again(run), note]).first is None


@given(_runs, _runs)
def test_a_message_stands_only_beside_a_message(left: list[Event], right: list[Event]) -> None:
    for pair in aligned(left, right).pairs:
        if pair.left and pair.right:
            assert begins_turn(pair.left.description) == begins_turn(pair.right.description)


# --- Examples ---------------------------------------------------------------------------------------------------------

GOOD = [
    user("Which flights?"),
    agent("Two."),
    user("Book TP431 for Ana"),
    call("search_flights", flight="TP431", currency="EUR"),
    answer("search_flights", {"price": 412.5}, price=412.5),
    call("charge_card", amount=412.5),
    agent("Booked. Your reference is KX81-2."),
    user("Thanks!"),
    agent("Have a good trip."),
]
BAD = [
    *again(GOOD[:3]),
    call("search_flights", flight="TP431", currency="USD"),
    answer("search_flights", {"price": 0}, price=0),
    agent("I could not book it: the price is 0."),
    user("Why 0?"),
    agent("The search service returned no price in USD."),
]


def test_a_good_and_a_bad_run() -> None:
    alignment = aligned(GOOD, BAD)
    assert numbers(alignment, GOOD, BAD) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, None), (6, 5), (7, 6), (8, 7)]
    assert [turn.same for turn in alignment.turns] == [True, False, False]
    first = alignment.first
    assert first
    assert first.differs == ("arguments",)
    assert [pair.differs for pair in alignment.pairs[4:7]] == [("response", "state"), (), ("text",)]


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        (agent("a"), agent("b"), ("text",)),
        (agent("a"), said("other", {"text": "a"}), ("author",)),
        (agent("a", error_code="500"), agent("a", error_code="503"), ("error",)),
        (agent("a"), agent("a", error_message="too slow"), ("error", "kind")),
        (call("book", n=1), call("book", n=2), ("arguments",)),
        (call("book", n=1), call("book", n=1.0), ()),
        (call("book", n=1), call("book", n=True), ("arguments",)),
        (call("book", n=1), call("cancel", n=1), ("tools",)),
        (answer("book", 1), answer("book", 2), ("response",)),
        (answer("book", 1, n=1), answer("book", 1, n=2), ("state",)),
        (agent("a"), agent("a", output={"x": 1}), ("output",)),
        (agent("a"), agent("a", actions={"escalate": True}), ("kind", "actions")),
        (
            agent("a", actions={"artifact_delta": {"f": 0}}),
            agent("a", actions={"artifact_delta": {"f": 1}}),
            ("actions",),
        ),
        (agent("a", actions={"escalate": None, "artifact_delta": {}}), agent("a"), ()),
        (agent("a", branch="x", turn_complete=True), agent("a"), ()),
        (said("a", {"text": "x"}), said("a", {"text": "x", "thought": True}), ("kind", "text", "thought")),
        (
            said("a", {"inline_data": {"mime_type": "image/png", "data": "AA=="}}),
            said("a", {"inline_data": {"mime_type": "image/png", "data": "AQ=="}}),
            ("media",),
        ),
    ],
)
def test_it_is_told_in_what_two_events_differ(one: Event, other: Event, differs: tuple[str, ...]) -> None:
    assert aligned([user("Go"), one], [user("Go"), other]).pairs[1].differs == differs


def test_asking_for_a_confirmation_twice_is_the_same() -> None:
    def asking(number: str) -> Event:
        inner = {"originalFunctionCall": {"id": f"call-{number}", "name": "book", "args": {"n": 1}}}
        event = call("adk_request_confirmation", **inner)
        event["actions"] = {"requested_tool_confirmations": {f"call-{number}": {"hint": "Sure?"}}}
        return event

    assert aligned([asking("1")], [asking("2")]).first is None


def test_messages_that_stand_in_both_runs_stand_beside_each_other() -> None:
    left = [user("a"), agent("1"), user("b"), agent("2")]
    right = [user("b"), agent("2"), user("c"), agent("3")]
    assert numbers(aligned(left, right), left, right) == [(0, None), (1, None), (2, 0), (3, 1), (None, 2), (None, 3)]
    assert [(turn.left, turn.right) for turn in aligned(left, right).turns] == [(1, None), (2, 1), (None, 2)]


def test_what_precedes_the_first_message_is_turn_0() -> None:
    left, right = [edit(n=1), user("a")], [user("a")]
    assert [(turn.left, turn.right) for turn in aligned(left, right).turns] == [(0, 0), (1, 1)]
    assert aligned(left, right).first == Pair(Told(left[0]), None)


def test_runs_that_are_too_long_are_paired_in_order_and_say_so() -> None:
    count = MOST + 200
    left = [user("go"), *(call("step", n=n) for n in range(count))]
    right = [user("go"), call("begin"), *(call("step", n=-n) for n in range(1, count)), call("end")]
    began = time.process_time()
    alignment = aligned(left, right)
    assert time.process_time() - began < 5
    assert alignment.turns[0].coarse
    assert not alignment.coarse
    assert aligned([user("go"), *left[-3:]], [user("go"), *right[-3:]]).turns[0].coarse is False


def test_a_long_run_with_an_event_more_is_aligned_in_full() -> None:
    count = 3 * MOST
    run = [user("go"), *(call("step", n=n) for n in range(count))]
    alignment = aligned(run, [*run[:count], agent("more"), *run[count:]])
    assert sum(not pair.same for pair in alignment.pairs) == 1
    assert not alignment.turns[0].coarse
