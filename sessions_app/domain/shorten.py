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


def brief(value: Any, length: int = 40, depth: int = 1) -> str:
    """Returns a value as short JSON. `depth` is its level in the tree."""
    if value is ABSENT:
        return _("absent")
    if value is UNKNOWN:
        return "?"
    if isinstance(value, list | dict):  # cut first: a value may be megabytes long
        if len(value) > length or (depth > DEPTH_LIMIT and value):
            return f"[{len(value)}]" if isinstance(value, list) else f"{{{len(value)}}}"
        return _brief_branch(value, length, depth)
    text = dumps(value[: length + 1] if isinstance(value, str) else value)
    return text if len(text) <= length else text[: length - 1] + "…"


def _brief_branch(value: list[Any] | dict[str, Any], length: int, depth: int) -> str:
    parts, room = [], length - 2
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        part = brief(item, max(8, room), depth + 1)
        parts.append(f"{brief(key, 24)[1:-1]}: {part}" if isinstance(value, dict) else part)
        room -= len(parts[-1]) + 2
        if room <= 0:
            break
    text = ", ".join(parts) + (", …" if len(parts) < len(value) else "")
    whole = f"{{{text}}}" if isinstance(value, dict) else f"[{text}]"
    return whole if len(whole) <= length else whole[: length - 1] + "…"
