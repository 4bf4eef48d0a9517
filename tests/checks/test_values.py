"""What values of state show, and that no value makes it slow."""

import math
import time
from typing import Any

import pytest

from sessions_app.checks.values import LARGE, Sign, signs

DEEP: Any = {"a": {"b": {"c": {"d": {"e": 1}}}}}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *(("gold", set()), (5, set()), (None, set()), ({}, set()), ([], set()), ("{}", set()), ("[x]", set())),
        ("x" * 12_345, {Sign("large", "12347")}),
        (list(range(5000)), {Sign("large", "23891")}),
        (DEEP, {Sign("deep", "5")}),
        ({"a": {"b": {"c": {"d": 1}}}}, set()),
        ('{"a": [1, 2]}', {Sign("text", "json")}),
        ("<__main__.Cart object at 0x7f3a9c4d5e6f>", {Sign("text", "object")}),
        ({"x": math.nan}, {Sign("text", "nan")}),
        ([{"key": "AKIA" + "IOSFODNN7EXAMPLE"}], {Sign("secret", "aws")}),
        ({"login": {"password": "hunter22"}}, {Sign("secret", "named")}),
    ],
)
def test_a_value_shows_what_adk_advises_against(value: Any, told: set[Sign]) -> None:
    assert signs("cart", value) == told


def test_no_value_makes_it_slow_and_none_is_told() -> None:
    deep: Any = "AKIA" + "IOSFODNN7EXAMPLE"
    for _level in range(90):
        deep = [deep, {"password": "hunter22", "<b>": "</script>"}]
    wide = {f"key{n}": ["x" * 100, {"": -math.inf}] for n in range(20_000)}
    began = time.thread_time()
    told = signs("k", deep) | signs("k", wide) | signs("k", "{" * LARGE) | signs("k", "[" * 4_999 + "]")
    assert time.thread_time() - began < 1.0
    assert {each.kind for each in told} == {"secret", "large", "deep"}
    assert not [each for each in told if "hunter" in each.detail or "AKIA" in each.detail]
