"""Says which events a model wrote. Pure."""

from typing import Final

from .content import Raw, object_of
from .edit_note import SYSTEM

_NO_AGENTS: Final = (None, "", "user", SYSTEM)  # authors


def is_answer(event: Raw) -> bool:
    """Tells whether a model wrote an event: it is an agent's, and has a model's words or the tokens that they took."""
    if event.get("author") in _NO_AGENTS:
        return False
    return object_of(event, "content").get("role") == "model" or bool(object_of(event, "usage_metadata"))
