"""When an event ended is what its row says; where nobody can know it, the least that is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.clock import Clock, Ended, Took, ends, sign_of_all
from sessions_app.domain.kinds import describe
from sessions_app.domain.trace import trace
from tests.domain.test_invocations import answers, calls, event, says, user
from tests.strategies import hostile_events

AT = 1_790_000_000.0


def ended(*rows: tuple[dict[str, Any], float | None]) -> list[Ended]:
    """When events ended; each is given with when it was stored."""
    return list(ends(((each, describe(each, written)) for each, written in rows), Clock()))


def at(after: float, made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "timestamp": AT + after}


# As google-adk stores it without streaming: the model takes 3 seconds, the tool 6, and then the model 4.
PLAIN = [
    (at(0.0, user("go")), AT + 0.01),
    (at(0.02, calls("look")), AT + 3.02),
    (at(9.02, answers("look")), AT + 9.03),
    (at(9.04, says("done")), AT + 13.04),
]
STREAMED = [(at(each, made), written) for each, (made, written) in zip((0.0, 3.01, 9.02, 13.03), PLAIN, strict=True)]


@pytest.mark.parametrize("rows", [PLAIN, STREAMED], ids=["plain", "streamed"])
def test_durations_are_true_whether_a_stamp_is_the_start_or_the_end(rows: list[Any]) -> None:
    told = trace((each, describe(each, written)) for each, written in rows)
    assert (told.model.sign, told.tools.sign) == ("", "")
    assert (round(told.model.seconds), round(told.tools.seconds), round(told.took)) == (7, 6, 13)


@pytest.mark.parametrize("rows", [PLAIN, STREAMED], ids=["plain", "streamed"])
def test_without_the_time_of_writing_durations_are_bounds_that_hold(rows: list[Any]) -> None:
    told = trace((each, describe(each)) for each, _written in rows)
    assert (told.model.sign, told.tools.sign) == ("≥", "≤")
    assert told.model.seconds <= 7.02
    assert told.tools.seconds >= 5.99
    *_first, last = told.spans
    assert last.took is not None
    assert last.took.sign == "≥"


@pytest.mark.guarantee("History", "Durations are correct, whether or not the model streams its responses.")
@pytest.mark.parametrize("later", [60.0, 86_400.0])
def test_rows_that_were_copied_later_keep_their_stamps(later: float) -> None:
    copied = [(each, AT + 13.04 + later) for each, _written in PLAIN]
    assert ended(*copied) == ended(*((each, None) for each, _written in PLAIN))


def test_a_clock_that_is_a_little_wrong_changes_nothing() -> None:
    for skew in (-5.0, 5.0):
        rows = [(each, written + skew) for each, written in PLAIN]
        told = trace((each, describe(each, written)) for each, written in rows)
        assert (told.model.sign, round(told.model.seconds), round(told.tools.seconds)) == ("", 7, 6)


def test_the_answers_of_tools_that_ran_side_by_side_may_have_ended_later() -> None:
    both = event(
        "agent", {"function_response": {"id": "a", "name": "x"}}, {"function_response": {"id": "b", "name": "y"}}
    )
    assert [each.known for each in ended((at(0, user("go")), None), (at(1, both), None))] == [True, False]


def test_a_turn_that_began_before_the_database_was_adopted_is_told_by_its_stamps() -> None:
    first, *rest = PLAIN
    assert ended((first[0], None), *rest) == ended(*((each, None) for each, _written in PLAIN))


def test_signs_of_several_durations() -> None:
    assert [sign_of_all(signs) for signs in ((), ("", ""), ("", "≥"), ("≥", "≤"), ("≈", "≥"))] == [
        "",
        "",
        "≥",
        "≈",
        "≈",
    ]
    assert Ended(2.0).until(Ended(1.0)) == Took(0.0)
    assert Ended(2.0, known=False).until(Ended(3.0, known=False)) == Took(1.0, "≈")


@given(st.lists(st.tuples(hostile_events, st.none() | st.floats(0, 2**40)), max_size=6))
def test_whatever_is_stored_it_says_a_time(rows: list[Any]) -> None:
    assert all(each.at >= 0 for each in ended(*rows))
