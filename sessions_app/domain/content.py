"""Takes an event's content apart: its parts, calls and responses, and whether a model wrote it (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .edit_note import SYSTEM

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


# --- Who wrote it -----------------------------------------------------------------------------------------------------

_NO_AGENTS: Final = (None, "", "user", SYSTEM)  # authors


def is_answer(event: Raw) -> bool:
    """Returns whether a model wrote an event: it is an agent's, and has a model's words or the tokens that they
    took."""
    if event.get("author") in _NO_AGENTS:
        return False
    return object_of(event, "content").get("role") == "model" or bool(object_of(event, "usage_metadata"))


def prompt_tokens(event: Raw) -> int | None:
    """Returns the number of tokens that a model reports as its input for an event; None if it doesn't."""
    number = object_of(event, "usage_metadata").get("prompt_token_count")
    return number if type(number) is int and 0 < number < 2**53 else None
