"""The schema of a key is what a plain walk through its values says, in whatever parts they were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.description import Description
from sessions_app.domain.json_values import kind
from sessions_app.domain.key_schema import MOST_TEXTS, MOST_WRITERS, SHORT, KeySchema, from_text, learn, to_text

VALUES = st.one_of(
    st.sampled_from(["pay", "book", "x" * (SHORT + 1), "", "\0", "\ud800", "한국"]),
    st.text(max_size=3),
    st.integers(-10, 10) | st.sampled_from([10**400, -(10**400), 2**60]),
    st.floats(),
    st.booleans(),
    st.none(),
    st.just([1]),
    st.just({"a": 1}),
)


def told(delta: dict[str, Any], author: str = "booking", person: str = "", removed: Sequence[str] = ()) -> Description:
    """Describes an event of an agent, or an edit of a person."""
    edit = {"actor": person} if person else {}
    return Description("state", author, delta=delta, removed=[*removed], edit=edit)


def learnt(*values: Any, user: int = 1) -> KeySchema:
    """Learns values of the key `step` that an agent wrote, each in an event of its own."""
    return merged([(user, list(values))])


def merged(parts: list[tuple[int, list[Any]]]) -> KeySchema:
    """Learns values by user, each part as that of a session, and stores what is known after each."""
    whole = KeySchema()
    for user, values in parts:
        schemas: dict[str, KeySchema] = {}
        for value in values:
            learn(schemas, told({"step": value}))
        for schema in schemas.values():
            whole.merge(schema, user)
        whole = from_text(to_text(whole))
    return whole


@given(st.lists(st.tuples(st.integers(1, 3), st.lists(VALUES, max_size=8)), max_size=6))
def test_types_and_ranges_are_those_of_all_values(parts: list[tuple[int, list[Any]]]) -> None:
    values = [value for _user, some in parts for value in some]
    schema = merged(parts)
    assert schema.events == schema.values == len(values)
    assert schema.types == {name: count for name in map(kind, values) if (count := [*map(kind, values)].count(name))}
    numbers = [value for value in values if kind(value) == "number" and abs(value) < float("inf")]
    if numbers and max(map(abs, numbers)) <= 2**53:
        assert (schema.low, schema.high) == (min(numbers), max(numbers))
    texts = [value for value in values if isinstance(value, str)]
    plain = all(len(text) <= SHORT and "\0" not in text and "\ud800" not in text for text in texts)
    if plain and len(set(texts)) <= MOST_TEXTS:
        assert schema.texts == {text: texts.count(text) for text in texts}
        users = {text: {user for user, some in parts if text in some} for text in texts}
        assert schema.users == {text: next(iter(of)) for text, of in users.items() if len(of) == 1}
    else:
        assert (schema.many, schema.texts, schema.users) == (True, {}, {})


def test_few_strings_that_come_again_are_options_and_others_are_not() -> None:
    assert learnt(*["pay"] * 4, "book", "book").options == ["pay", "book"]
    assert learnt("pay", "pay", "book").options == [], "three values say little"
    assert learnt(*"abcdef").options == [], "each came once"
    assert learnt(*map(str, range(MOST_TEXTS + 1)), *["1"] * 50).options == []


def test_a_fraction_is_told_from_a_whole_number_and_a_number_from_true() -> None:
    assert not learnt(1, 2.0, True).fractions
    assert learnt(1, 2.5).fractions
    assert learnt(float("nan")).fractions
    assert learnt(True).low is None
    assert not learnt(10**400).fractions


def test_a_removed_key_has_no_value_and_writers_are_told_apart() -> None:
    schemas: dict[str, KeySchema] = {}
    learn(schemas, told({"step": "pay"}))
    learn(schemas, told({"step": None}, "system", "maria", ["step"]))
    schema = schemas["step"]
    assert (schema.events, schema.removed, schema.types) == (2, 1, {"string": 1})
    assert (schema.agents, schema.people) == ({"booking": 1}, {"maria": 1})
    for number in range(50):
        learn(schemas, told({"step": "pay"}, f"agent {number}" + "x" * 100))
    assert len(schema.agents) == MOST_WRITERS
    assert max(map(len, schema.agents)) == SHORT


@pytest.mark.parametrize("key", ["temp:x", "__session_metadata__", "", "x" * 201, "a\0", "\ud800"])
def test_some_keys_are_not_learnt(key: str) -> None:
    schemas: dict[str, KeySchema] = {}
    learn(schemas, told({key: 1, "step": 1}))
    assert [*schemas] == ["step"]


def test_a_schema_is_small_whatever_was_written() -> None:
    schema = KeySchema()
    for number in range(200):
        some: dict[str, KeySchema] = {}
        wide = "𝄞" * 36 + f"{number:04}"
        value = wide if number < MOST_TEXTS else 10**300 * number
        learn(some, told({"k": value}, wide, wide if number % 2 else ""))
        schema.merge(some["k"], number)
    assert len(to_text(schema).encode()) < 8_000
