"""Text for a terminal: nothing that is stored moves a cursor, breaks a line or turns the words around."""

import logging
from typing import Any, Final

from ...domain.json_values import dumps
from ...domain.state import ABSENT

_JOINERS: Final = "\u200c\u200d"  # within words of some scripts, and within emoji


def plain(text: str) -> str:
    """A line that moves no cursor, whatever names are in it."""
    return "".join(c if c.isprintable() or c in _JOINERS else "�" for c in text)


def words(text: str, length: int = 240) -> str:
    """A text on one line, cut."""
    line = plain(" ".join(text[: length * 4].split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def short(value: Any, length: int = 60) -> str:
    """A value as JSON text on one line, cut."""
    if value is ABSENT:
        return "absent"
    if isinstance(value, str):
        value = value[:length]  # a value may be megabytes long
    text = dumps(value)
    return plain(text if len(text) <= length else f"{text[: length - 1]}…")


def silence_logs() -> None:
    """For commands that say themselves what goes wrong, once and in their own words."""
    logging.disable(logging.ERROR)
