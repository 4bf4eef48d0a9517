"""Judges values of state (pure): their size and depth, and texts that were something else before."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..domain.errors import Invalid
from ..domain.json_values import dumps, loads
from ..domain.secrets import NAMED, is_named_secret, secret_of

LARGE: Final = 10_000  # characters of a value as JSON
DEEP: Final = 4  # nesting of objects and lists
_MOST: Final = 500  # values that are checked inside of one
_OBJECT: Final = re.compile(r"<(?:[\w.]{1,200}) object at 0x[0-9a-f]{6,16}>|<class '[\w.]{1,200}'>")
_JSON_TEXT: Final = 5_000  # characters of a text that is read to see whether it is JSON


class Sign(NamedTuple):
    """Something that a value shows: a kind of advice, and a detail that reveals no value."""

    kind: str
    detail: str = ""


def signs(key: str, value: Any) -> set[Sign]:
    """Returns the findings for the value of a key."""
    shown: set[Sign] = set()
    if isinstance(value, dict | list | str) and (size := len(dumps(value))) > LARGE:
        shown.add(Sign("large", str(size)))
    deepest = 0
    for path, inner, depth in _inside(key, value):
        deepest = max(deepest, depth + isinstance(inner, dict | list))
        if isinstance(inner, str):
            shown.update(_signs_of_text(path, inner))
        elif isinstance(inner, float) and inner - inner != 0:
            shown.add(Sign("text", "nan"))
    if deepest > DEEP:
        shown.add(Sign("deep", str(deepest)))
    return shown


def _signs_of_text(path: str, text: str) -> Iterator[Sign]:
    name = path.rpartition(".")[2]
    if kind := secret_of(text) or (NAMED if is_named_secret(name, text) else ""):
        yield Sign("secret", kind)
    if _OBJECT.search(text[:1000]):
        yield Sign("text", "object")
    elif _is_json(text):
        yield Sign("text", "json")


def _is_json(text: str) -> bool:
    """Returns whether a text is an object or a list that was written as JSON."""
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]") or not 2 < len(text) <= _JSON_TEXT:
        return False
    try:
        return isinstance(loads(text), dict | list)
    except Invalid:
        return False


def _inside(key: str, value: Any) -> Iterator[tuple[str, Any, int]]:
    """Yields a value and what is inside of it, level by level, each with its path and depth."""
    left: list[tuple[str, Any, int]] = [(key, value, 0)]
    for path, each, depth in left:  # which grows in the meantime
        yield path, each, depth
        if len(left) < _MOST:
            if isinstance(each, dict):
                left += [(f"{path}.{name}", inner, depth + 1) for name, inner in list(each.items())[:_MOST]]
            elif isinstance(each, list):
                left += [(path, inner, depth + 1) for inner in each[:_MOST]]
