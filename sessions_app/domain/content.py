"""Takes an event's content apart: its parts, calls and responses (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any

Raw = Mapping[str, Any]


# --- Raw JSON ---------------------------------------------------------------------------------------------------------


def object_of(of: Raw, name: str) -> dict[str, Any]:
    """Returns a field that is a JSON object, or {} if it is missing or something else."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def parts_of(content: Raw) -> list[dict[str, Any]]:
    """Returns the parts of a content, without any that are not objects."""
    parts = content.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def calls_of(event: Raw) -> list[Raw]:
    """Returns an event's tool calls."""
    return objects(parts_of(object_of(event, "content")), "function_call")


def responses_of(event: Raw) -> list[Raw]:
    """Returns an event's tool responses."""
    return objects(parts_of(object_of(event, "content")), "function_response")


def objects(parts: Iterable[Raw], name: str) -> list[Raw]:
    """Returns each part's object under a name, if it has one: `[{"name": "book"}]` for `function_call`."""
    return [part[name] for part in parts if isinstance(part.get(name), dict)]
