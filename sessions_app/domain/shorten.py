"""Shortens a value of any size to a few words on one line."""

from typing import Any, Final

from .json_values import dumps
from .state import ABSENT, UNKNOWN
from .translation import gettext as _

DEPTH_LIMIT: Final = 12  # levels of a value


def words(value: Any, length: int = 240) -> str:
    """Returns a string on one line, and any other value as JSON, cut to a length."""
    text = value if isinstance(value, str) else dumps(value)
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length else line[: length - 1] + "…"


def brief(value: Any, length: int = 40) -> str:
    """Returns a value as short JSON on one line: all of it, or its beginning and one “…”.

    Of an object or a list within it that has more entries than there is room, it says how many: `{cities: [500]}`.
    """
    if value is ABSENT:
        return _("absent")
    if value is UNKNOWN:
        return "?"
    text = _beginning(value, length, 1)
    return text if len(text) <= length else text[: length - 1].rstrip(" ,") + "…"


def _beginning(value: Any, length: int, depth: int) -> str:
    """Returns a value as JSON; of one that is longer than `length`, a beginning that is longer, too."""
    if not isinstance(value, list | dict):
        return dumps(value[: length + 1] if isinstance(value, str) else value)  # it may be megabytes long
    if len(value) > length or (depth > DEPTH_LIMIT and value):
        return f"[{len(value)}]" if isinstance(value, list) else f"{{{len(value)}}}"
    text, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    for number, (key, item) in enumerate(value.items() if isinstance(value, dict) else enumerate(value)):
        text += ", " if number else ""
        text += f"{dumps(str(key)[: length + 1])[1:-1]}: " if isinstance(value, dict) else ""
        text += _beginning(item, max(8, length - len(text)), depth + 1)
        if len(text) > length:
            return text
    return text + end
