"""A value that does not fit what its key has been is told so, and one that fits never is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.key_schema import KeySchema, misfits
from tests.domain.test_key_schema import VALUES, learnt

STEPS = learnt(*["pay"] * 200, *["book"] * 112)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (STEPS, 3, "step was of type string in 312 events, but this value is of type number."),
        (STEPS, None, "step was of type string in 312 events, but this value is of type null."),
        (STEPS, "pya", "step has always been one of “pay”, “book”."),
        (STEPS, "pay", ""),
        (learnt(*range(41)), 41, "step has always been 0 to 40."),
        (learnt(*range(41)), -0.5, "step has always been 0 to 40."),
        (learnt(*range(41)), 2.5, "step has always been a whole number."),
        (learnt(*range(41)), 40, ""),
        (learnt(*range(41)), True, "step was of type number in 41 events, but this value is of type true/false."),
        (learnt(7, 7, 7, 7, 7), 8, "step has always been 7."),
        (learnt(1, 2), 900, ""),  # two numbers are no range
        (learnt("pay"), "book", ""),
        (learnt({"a": 1}), [], "step was of type object in 1 event, but this value is of type list."),
        (learnt(*["pay"] * 400, 3), 4, "step was of type string in 400 events, but this value is of type number."),
        (learnt(*["pay"] * 20, 3), 4, ""),  # one in twenty is no mistake
        (KeySchema(), "anything", ""),
    ],
)
def test_what_is_unusual_is_said(schema: KeySchema, value: Any, said: str) -> None:
    assert misfits("step", schema, value) == ([said] if said else [])


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_a_value_that_was_seen_fits(values: list[Any]) -> None:
    schema = learnt(*values)
    for value in values:
        if value == value and abs(value) < 2**53 if isinstance(value, int | float) else True:
            assert misfits("step", schema, value) == []
