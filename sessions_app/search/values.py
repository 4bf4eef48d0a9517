"""Turns state into values that can be compared: {"cart.total": Value("n", "", 5.0)}. Pure."""

import sys
from dataclasses import dataclass
from typing import Any, Final

from ..domain.session_ref import digest_of
from .lines import clean

_MOST_PATHS: Final = 200  # values of a state that can be compared
_DEPTH: Final = 4
_GREATEST: Final = int(sys.float_info.max)
_TEXT: Final = 300  # characters of a value; of a longer one, the rest is a hash


@dataclass(frozen=True, slots=True)
class Value:
    """A value of state: its JSON type (s n b z o), as text and, if it is one, as a number."""

    kind: str
    text: str = ""
    number: float | None = None


def comparable(state: dict[str, Any]) -> dict[str, Value]:
    """Returns the values of a state by path. Objects can be looked into, lists only be there."""
    values: dict[str, Value] = {}
    left: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in state.items() if not key.startswith("__")]
    for path, value, depth in left:
        if len(values) == _MOST_PATHS:
            break
        values.setdefault(clean(path), value_of(value))
        if isinstance(value, dict) and depth < _DEPTH:
            left += [(f"{path}.{key}", inner, depth + 1) for key, inner in list(value.items())[:_MOST_PATHS]]
    return values


def value_of(value: Any) -> Value:
    """Returns a JSON value as it is compared."""
    if isinstance(value, str):
        short = value if len(value) <= _TEXT else value[:_TEXT] + digest_of(value)
        return Value("s", clean(short, _TEXT * 2))
    if isinstance(value, bool):
        return Value("b", "true" if value else "false")
    if value is None:
        return Value("z", "null")
    if isinstance(value, int | float) and value == value:  # NaN, which ADK stores, is not a number
        return Value("n", "", float(min(max(value, -_GREATEST), _GREATEST)))
    return Value("o")
