"""Converts times between seconds since 1970 (google-adk, adkweb) and milliseconds (adk-js) (pure).

A number's size shows which one it is, so a database that both write to is read correctly, too. All of adkweb works with
seconds. Values are converted only where they are read from a database or written to one.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

_YEAR_10000: Final = 253_402_300_800  # in seconds; in milliseconds, this number is in 1978


def are_milliseconds(value: Any) -> bool:
    """Returns whether a value is a time in milliseconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _YEAR_10000 <= value < _YEAR_10000 * 1000


def in_seconds(number: float) -> float:
    """Returns a time in seconds that may be given in milliseconds: 1795312861.668 for 1795312861668."""
    return number / 1000 if are_milliseconds(number) else float(number)


def whole_milliseconds(seconds: float) -> float:
    """Rounds a time in seconds to whole milliseconds: 1795312861.668 for 1795312861.6681232."""
    return round(seconds * 1000) / 1000


def event_in_seconds(event: Any) -> Any:
    """Returns an event as google-adk would have stored it. Anything that is not an event is returned as it is."""
    if isinstance(event, dict) and are_milliseconds(event.get("timestamp")):
        return {**event, "timestamp": in_seconds(event["timestamp"])}
    return event


def text_in_seconds(text: str, at: float) -> str:
    """Returns an event's JSON as google-adk would have stored it. `at` is the time of its row, in seconds.

    Only a text that contains this time in milliseconds is parsed: callers pass on thousands of events at once.
    """
    if f"{at * 1000:.0f}" not in text:
        return text
    try:
        event = json.loads(text)
        changed = event_in_seconds(event)
        return text if changed is event else json.dumps(changed)
    except (ValueError, RecursionError):  # the caller that parses it reports the error
        return text


def event_in_milliseconds(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an event as adk-js stores it, with its timestamp in milliseconds."""
    at = event.get("timestamp")
    if isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < _YEAR_10000:
        return {**event, "timestamp": round(at * 1000)}
    return dict(event)
