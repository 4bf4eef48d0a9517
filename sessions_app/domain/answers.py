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


def prompt_tokens(event: Raw) -> int | None:
    """Returns how many tokens a model says that it was given for an event; None if it does not."""
    number = object_of(event, "usage_metadata").get("prompt_token_count")
    return number if type(number) is int and 0 < number < 2**53 else None
