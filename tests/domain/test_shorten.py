"""A value in short: cut once, at its end, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.shorten import brief

TEXT = st.text(st.characters(codec="ascii", exclude_characters="…"), max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner, max_size=6),
    max_leaves=12,
)


@given(VALUES, st.integers(8, 90))
def test_a_value_is_whole_or_its_beginning_with_one_ellipsis(value: Any, length: int) -> None:
    whole, short = brief(value, 100_000), brief(value, length)
    assert len(short) <= length
    assert short.count("…") == short.endswith("…")
    assert short == whole or len(whole) > length


@pytest.mark.parametrize(
    ("value", "length", "short"),
    [
        ([{"flight": "TP431", "from": "LIS", "to": "ICN"}], 32, '[{flight: "TP431", from: "LIS"…'),
        ({"a": "x" * 50, "b": 1}, 20, '{a: "xxxxxxxxxxxxxx…'),
        ({"cities": list(range(500)), "n": 1}, 40, "{cities: [500], n: 1}"),
        (list(range(50)), 40, "[50]"),
        ({"k" * 50: 1}, 12, "{kkkkkkkkkk…"),
        ("short", 40, '"short"'),
    ],
)
def test_what_is_left_of_a_long_value(value: Any, length: int, short: str) -> None:
    assert brief(value, length) == short
