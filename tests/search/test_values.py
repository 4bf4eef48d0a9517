"""How values of state compare in the index: as JSON values do, numbers to the last digit."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.search.values import Value, json_of, ordered, value_of

numbers = st.one_of(st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False))


@pytest.mark.guarantee(
    "Writing", "Searches, rules, batches, webhooks and views compare numbers exactly, down to the last digit."
)
@example(1_610_521_604_143_693_813, 1_610_521_604_143_693_814)
@example(2**53 + 1, float(2**53))
@example(10**23, 1e23)
@example(-12, -123)
@example(-12, -12.5)
@example(0.1, 0.30000000000000004)
@example(0, -0.0)
@example(5e-324, 0)
@example(10**4299, float("inf"))
@example(-(10**4299), float("-inf"))
@given(numbers, numbers)
def test_texts_of_numbers_compare_as_the_numbers_do(one: float, other: float) -> None:
    assert (ordered(one) < ordered(other), ordered(one) == ordered(other)) == (one < other, one == other)


def test_only_a_number_is_compared_as_a_number() -> None:
    assert value_of(True) == Value("b", "true")
    assert value_of("12").kind == "s"
    assert value_of(float("nan")) == Value("o")
    assert value_of(1) == value_of(1.0)


@example(10**40)
@example(0.1 + 0.2)
@given(st.one_of(numbers, st.text(), st.booleans(), st.none()))
def test_the_json_of_a_value_compares_as_the_value(value: object) -> None:
    compared = value_of(value)
    written = json_of(compared.kind, compared.text)
    assert written is None or value_of(json.loads(written)) == compared
    assert written or (isinstance(value, int | float) and not 1e-29 < abs(value) < 1e29) or len(str(value)) > 300
