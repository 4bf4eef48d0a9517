"""Makes text safe for a terminal: nothing that is stored can move the cursor, break a line or reverse the words."""

import logging
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings

from ...domain.json_values import dumps
from ...domain.state import ABSENT

_JOINERS: Final = "\u200c\u200d"  # inside words of some scripts, and inside emoji


def plain(text: str) -> str:
    """Returns a line without characters that move the cursor, whatever it contains."""
    return "".join(c if c.isprintable() or c in _JOINERS else "�" for c in text)


def lines(text: str) -> str:
    """Returns lines without such characters, such as the last ones that an agent printed."""
    return "\n".join(map(plain, text.splitlines()))


def words(text: str, length: int = 240) -> str:
    """Returns a text on one line, cut to a length."""
    line = plain(" ".join(text[: length * 4].split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def short(value: Any, length: int = 60) -> str:
    """Returns a value as JSON on one line, cut to a length."""
    if value is ABSENT:
        return "absent"
    if isinstance(value, str):
        value = value[:length]  # a value may be megabytes long
    text = dumps(value)
    return plain(text if len(text) <= length else f"{text[: length - 1]}…")


def local_zone() -> tzinfo:
    """Returns the time zone of this machine, or of TZ; UTC if it is unknown."""
    with suppress(KeyError, ValueError, OSError):
        if settings.MACHINE_ZONE is not None:
            return ZoneInfo(settings.MACHINE_ZONE.removeprefix(":"))
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    return UTC


def clock(seconds: float) -> str:
    """Returns a time in this machine's time zone, to the second."""
    try:
        return datetime.fromtimestamp(seconds, local_zone()).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # an event may hold anything
        return "–"


def silence_logs() -> None:
    """Silences the logs of a command that reports problems itself, once and in its own words."""
    logging.disable(logging.ERROR)
