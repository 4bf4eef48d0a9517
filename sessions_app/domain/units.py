"""Seconds and milliseconds since 1970: adk-js writes these, google-adk and adkweb those (pure).

A number says by its size which of them it is, so that a database that both write is read right, too. Seconds is what all of
adkweb works with; milliseconds are met where a value leaves a database, and made where one enters.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

_YEAR_10000: Final = 253_402_300_800  # in seconds; as milliseconds, it is in 1978


def are_milliseconds(value: Any) -> bool:
    """Tells whether a value is a time in milliseconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _YEAR_10000 <= value < _YEAR_10000 * 1000


def in_seconds(number: float) -> float:
    """A time in seconds, which may be given in milliseconds: 1795312861.668 for 1795312861668, too."""
    return number / 1000 if are_milliseconds(number) else float(number)


def whole_milliseconds(seconds: float) -> float:
    """A time as a database that keeps milliseconds has it, in seconds: 1795312861.668 for 1795312861.6681232."""
    return round(seconds * 1000) / 1000


def event_in_seconds(event: Any) -> Any:
    """An event as google-adk would have stored it; whatever is no event stays as it is."""
    if isinstance(event, dict) and are_milliseconds(event.get("timestamp")):
        return {**event, "timestamp": in_seconds(event["timestamp"])}
    return event


def text_in_seconds(text: str, at: float) -> str:
    """An event's JSON text as google-adk would have stored it, `at` being the time of its row.

    Only a text that has this time in milliseconds is parsed: thousands of events are passed on at once.
    """
    if f"{at * 1000:.0f}" not in text:
        return text
    try:
        event = json.loads(text)
        changed = event_in_seconds(event)
        return text if changed is event else json.dumps(changed)
    except (ValueError, RecursionError):  # who uses it says so
        return text


def event_in_milliseconds(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as adk-js stores it."""
    at = event.get("timestamp")
    if isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < _YEAR_10000:
        return {**event, "timestamp": round(at * 1000)}
    return dict(event)
