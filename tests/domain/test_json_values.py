"""JSON values: what goes in comes out equal, and what could not is refused with its place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.errors import Invalid
from sessions_app.domain.json_values import (
    MAX_DEPTH,
    MAX_DIGITS,
    Stored,
    check,
    check_name,
    dumps,
    equal,
    kind,
    loads,
    read_stored,
    read_stored_or_none,
)
from tests.strategies import json_values, keys, nested, text


@given(json_values)
def test_a_checked_value_equals_the_given_one(value: Any) -> None:
    assert equal(check(value), value)
    assert check(check(value)) == check(value)


@given(json_values, st.sampled_from([None, 2]))
def test_a_value_reads_back_equal_from_its_text(value: Any, indent: int | None) -> None:
    assert equal(loads(dumps(value, indent)), value)
    assert equal(loads(dumps(check(value), indent)), value)
    assert equal(loads(json.dumps(value)), value)  # as ADK writes it


def test_the_deepest_value_and_the_longest_integer_that_are_allowed_are_kept() -> None:
    for value in (nested(MAX_DEPTH), 10**MAX_DIGITS - 1, -(10**MAX_DIGITS) + 1):
        assert loads(dumps(check(value))) == value


def test_what_another_program_stored_is_read_as_far_as_it_can_be() -> None:
    digits = "9" * (MAX_DIGITS + 1)
    assert read_stored(f"[{digits}, -{digits}, {digits[1:]}]") == [float("inf"), -float("inf"), int(digits[1:])]
    assert read_stored(f"-{digits[1:]}") == -int(digits[1:])
    assert json.loads(f"[{digits}]", cls=Stored) == read_stored("[1e999]") == [float("inf")]
    assert json.loads("[" * 9_000 + "]" * 9_000, cls=Stored) is None
    for unreadable in ("[" * 9_000 + "]" * 9_000, "{"):
        with pytest.raises(Invalid):
            read_stored(unreadable)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[NaN, -Infinity]", [float("nan"), -float("inf")]),
        ('{"n": 18446744073709551616}', {"n": 2**64}),
        ("[-9223372036854775809, 0.1, 123456789012345678901.5]", [-(2**63) - 1, 0.1, 123456789012345678901.5]),
        ('["\\ud83d", "\\ud83d\\ude00"]', ["\ud83d", "😀"]),
        ('["\ud83d"]', ["\ud83d"]),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        ('"\\u0000"', "\0"),
        ("[" * 180 + "]" * 180, nested(180)),
        ("5", 5),
        ("null", None),
    ],
)
def test_what_json_does_not_have_is_read_all_the_same(text: str, value: Any) -> None:
    assert equal(read_stored(text), value)
    assert equal(read_stored_or_none(text), value)
    assert equal(read_stored_or_none(text.encode("utf-8", "surrogatepass")), value)


@pytest.mark.parametrize(
    "text", ["", None, "{", "[1,]", "'a'", "01", "\ufeff{}", "[" * 9_000 + "]" * 9_000, b"\xff", b"{"]
)
def test_what_cannot_be_read_is_none(text: str | bytes | None) -> None:
    assert read_stored_or_none(text) is None


@given(json_values)
def test_what_is_stored_is_read_as_python_reads_it(value: Any) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        expected = json.loads(written)
        assert repr(read_stored(written)) == repr(expected)  # 1 is not 1.0
        assert repr(read_stored(f"[{written}, 123456789012345678901234567890]")) == repr(
            [expected, 123456789012345678901234567890]
        )


def test_a_long_integer_is_exact_wherever_it_stands_in_a_long_text() -> None:
    integer = 123456789012345678901
    for before in (2**20 - 30, 2**20 - 19, 2**20 - 10, 2**20, 2**21 - 35):
        assert read_stored(f'["{"x" * (before - 4)}",{integer}]')[1] == integer


@pytest.mark.parametrize("text", ["[" * 990 + "]" * 990, '{"a":' * 990 + "1" + "}" * 990])
def test_what_python_could_not_write_again_is_not_read(text: str) -> None:
    assert read_stored_or_none(text) is None
    with pytest.raises(Invalid):
        read_stored(text)


def test_deep_values_are_compared_and_written_and_never_a_recursion_error() -> None:
    deep, other = read_stored("[" * 800 + "1" + "]" * 800), read_stored("[" * 800 + "2" + "]" * 800)
    assert equal(deep, read_stored("[" * 800 + "1" + "]" * 800))
    assert not equal(deep, other)
    assert "".join(dumps(deep, indent=2).split()) == dumps(deep) == "[" * 800 + "1" + "]" * 800
    deeper: list[Any] = []
    for _level in range(5_000):
        deeper = [deeper]
    assert not equal(deeper, [deeper])
    for indent in (None, 2):
        with pytest.raises(Invalid, match="too deep"):
            dumps(deeper, indent)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": {"b": float("nan")}}, "a.b: NaN"),
        ({"a": [1, float("inf")]}, "a[1]: NaN and infinity"),
        ([[-float("inf")]], "[0][0]: NaN and infinity"),
        ({"a": {"b": ["", "x\0y"]}}, "a.b[1]: the character U+0000"),
        ({"a": {"x\0y": 1}}, "a: the character U+0000"),
        ({"a": "ok\ud800"}, "a: half a surrogate pair at character 3"),
        ({"a": ["\ud83d\ude00"]}, "a[0]: half a surrogate pair"),
        ({"a": {"\udfff": 1}}, "a: half a surrogate pair"),
        ({"a": nested(200)}, f"nested deeper than {MAX_DEPTH} levels"),
        ({"a": 10**MAX_DIGITS}, "a: an integer with more than 4300 digits"),
        ({"a": -(10**5000)}, "a: an integer with more than 4300 digits"),
        ({"a": {1: 2}}, "a: a key must be a string, not int"),
        ({"a": {None: 2}}, "a: a key must be a string, not NoneType"),
        ({"a": {"b": {1, 2}}}, "a.b: set isn't a JSON type"),
        ({"a": b"bytes"}, "a: bytes isn't a JSON type"),
    ],
)
def test_what_json_or_a_database_cannot_hold_is_refused_with_its_place(value: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        check(value)
    assert sentence in caught.value.message
    if "deeper" in sentence:
        assert caught.value.message.startswith("a[0][0]")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "line 1, column 1"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        ("{'a': 1}", "line 1, column 2"),
        ("nul", "line 1, column 1"),
        ("1 2", "line 1, column 3"),
        ("\ufeff{}", "line 1, column 1"),
        ('{"a": NaN}', "(NaN)"),
        ("[-Infinity]", "(-Infinity)"),
        ('{"a": 1e999}', "a: NaN and infinity"),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" appears twice'),
        ('{"a": "\\u0000"}', "a: the character U+0000"),
        ('{"a": "\\ud800"}', "a: half a surrogate pair"),
        ("[" * 200 + "]" * 200, f"nested deeper than {MAX_DEPTH} levels"),
        ("[" * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
        ('{"a": ' * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
        ("9" * (MAX_DIGITS + 1), "an integer with more than 4300 digits"),
        ("[" + "9" * 100_000 + "]", "an integer with more than 4300 digits"),
    ],
)
def test_text_that_is_no_value_is_refused_with_the_reason(given: str, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        loads(given)
    assert sentence in caught.value.message


def test_a_syntax_error_carries_line_and_column_for_the_editor() -> None:
    with pytest.raises(Invalid) as caught:
        loads('{\n  "a": oops\n}')
    assert caught.value.detail == {"line": 2, "column": 8}


@given(st.text() | st.text(st.sampled_from('{}[]",:0123456789-+.eEtruefalsn\\u ')))
def test_any_text_is_a_value_or_invalid_and_nothing_else(given: str) -> None:
    try:
        value = loads(given)
    except Invalid:
        return
    assert equal(loads(dumps(value)), value)


@given(json_values, json_values)
def test_equality_is_reflexive_and_symmetric(a: Any, b: Any) -> None:
    assert equal(a, a)
    assert equal(a, b) == equal(b, a)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (10**23, 1e23, False),
        (True, 1, False),
        (0, False, False),
        ([True], [1], False),
        ({"a": {"b": 0}}, {"a": {"b": False}}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
        ([1, 2], (1, 2), True),
        ("1", 1, False),
        ("\u00e9", "e\u0301", False),
        (float("nan"), float("nan"), True),  # ADK may have stored it; it has not changed then
        ({}, [], False),
        (None, False, False),
    ],
)
def test_equality_is_that_of_json(a: Any, b: Any, same: bool) -> None:
    assert equal(a, b) is same


@given(json_values)
def test_every_value_has_a_type_that_json_knows(value: Any) -> None:
    first = dumps(value)[0]
    expected = {"{": "object", "[": "array", '"': "string", "n": "null", "t": "boolean", "f": "boolean"}
    assert kind(value) == expected.get(first, "number")


@given(keys | text)
def test_a_name_of_any_characters_is_kept(name: str) -> None:
    assert check_name(name, "id", 128) == name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x" * 129, "id has 129 characters, but the limit is 128"),
        ("a\0b", "id: the character U+0000"),
        ("a\udc80", "id: half a surrogate pair at character 2"),
        (5, "id isn't a string"),
        (None, "id isn't a string"),
    ],
)
def test_a_name_that_a_column_cannot_hold_is_refused(name: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_name(name, "id", 128)
    assert sentence in caught.value.message


def test_a_name_is_measured_in_characters_not_in_bytes() -> None:
    assert check_name("👩" * 128, "id", 128)
