"""Turns state into values that can be compared: {"cart.step": Value("s", "pay")}. Pure."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ..domain.session_ref import digest_of
from ..domain.state import without_temp
from .lines import clean

_MOST_PATHS: Final = 200  # values of a state that can be compared
_DEPTH: Final = 4
_TEXT: Final = 300  # characters of a value; of a longer one, the rest is a hash
_MIDDLE: Final = 50_000  # is added to powers of ten, so that they compare as texts; they are between -400 and 5,000
_DIGITS: Final = 30  # of a number that is written out
_NINES: Final = str.maketrans("0123456789", "9876543210")


@dataclass(frozen=True, slots=True)
class Value:
    """A value of state: its JSON type (s n b z o; - of a key that was removed) and a text. Texts of one type are equal, and
    in order, as the values are.

    Of a number, the text is as `ordered` returns it: compared as a float, two order numbers of 19 digits would be equal.
    """

    kind: str
    text: str = ""


REMOVED: Final = Value("-")


def comparable(state: Mapping[str, Any], of: Callable[[Any], Value] | None = None) -> dict[str, Value]:
    """Returns the values of a state by path. Objects can be looked into, lists only be there."""
    of = of or value_of
    values: dict[str, Value] = {}
    left: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in state.items() if not key.startswith("__")]
    for path, value, depth in left:
        if len(values) == _MOST_PATHS:
            break
        values.setdefault(clean(path), of(value))
        if isinstance(value, dict) and depth < _DEPTH:
            left += [(f"{path}.{key}", inner, depth + 1) for key, inner in list(value.items())[:_MOST_PATHS]]
    return values


def told_apart(value: Any) -> Value:
    """Returns a JSON value as it is compared; of an object or a list, the text stands for all that is in it."""
    if isinstance(value, dict | list):
        with suppress(RecursionError):  # of two that are nested so deep, nobody can tell
            return Value("o", digest_of(json.dumps(value, sort_keys=True)))
    return value_of(value)


def as_written(delta: Mapping[str, Any], removed: Collection[str]) -> dict[str, Value]:
    """Returns what an event wrote, by path."""
    return comparable(without_temp(delta), told_apart) | {clean(key): REMOVED for key in removed}


def value_of(value: Any) -> Value:
    """Returns a JSON value as it is compared."""
    if isinstance(value, str):
        return Value("s", clean(_cut(value), _TEXT * 2))
    if isinstance(value, bool):
        return Value("b", "true" if value else "false")
    if value is None:
        return Value("z", "null")
    if isinstance(value, int | float) and value == value:  # NaN, which ADK stores, is not a number
        return Value("n", ordered(value))
    return Value("o")


def ordered(number: float) -> str:
    """Returns a text for a number. Two texts compare, character by character, as their numbers do, to the last digit:
    -0.5 is "1499994~", 0 is "2" and 1200 is "35000412".

    The sign comes first, then the number's size as a power of ten, then its digits. In a negative number each digit stands
    as 9 minus the digit.
    """
    if not number:
        return "2"
    if isinstance(number, float) and math.isinf(number):
        return "4" if number > 0 else "0"
    # A float of whole size is that very integer, 1e23 for instance, and not the one that its digits show.
    exact = int(number) if isinstance(number, int) or number.is_integer() else repr(number)
    negative, figures, power = Decimal(exact).as_tuple()
    digits = _cut("".join(map(str, figures)).rstrip("0"))
    size = f"{_MIDDLE + len(figures) + int(power):05}{digits}"
    return f"1{size.translate(_NINES)}~" if negative else f"3{size}"


def json_of(kind: str, text: str) -> str | None:
    """Returns the JSON of a value, as a query compares with it; None of an object, of a list, of a key that was removed, of
    a text that is cut, and of a number that is very long.

        json_of(*value) == "412.5"  # of value_of(412.5)
    """
    if kind in "bz":
        return text
    if kind == "s":
        return json.dumps(text, ensure_ascii=False) if len(text) <= _TEXT else None
    if kind != "n" or text in ("0", "4"):
        return None
    if text == "2":
        return "0"
    sign, size = ("-", text[1:-1].translate(_NINES)) if text[0] == "1" else ("", text[1:])
    power = int(size[:5]) - _MIDDLE
    return f"{sign}{Decimal(f'0.{size[5:]}e{power}'):f}" if abs(power) <= _DIGITS else None


def _cut(text: str) -> str:
    """Returns a text that is as long as the index keeps; two that differ only after that remain different."""
    return text if len(text) <= _TEXT else text[:_TEXT] + digest_of(text)
