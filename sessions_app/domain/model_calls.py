"""Finds what in an agent's event is from a model, and what went wrong there (pure)."""

from collections.abc import Mapping
from typing import Any, Final

from .cost import usage_of
from .description import Description
from .invocations import ASKING_CALLS
from .json_values import as_object
from .shorten import words

WHY: Final = 160  # characters of an error
_RESULTS: Final = frozenset({"response", "code_result"})  # parts that no model wrote


def by_model(event: Mapping[str, Any], said: Description) -> bool:
    """Returns whether a model wrote an event. ADK itself writes the calls that ask a person for something."""
    if said.calls and all(call.name in ASKING_CALLS for call in said.calls):
        return False
    if any(part.kind not in _RESULTS for part in said.parts) or usage_of(event) or event.get("finish_reason"):
        return True
    return not said.parts and not {"error", "interrupted", "transcription"}.isdisjoint(said.kinds)


def model_of(event: Mapping[str, Any]) -> str:
    """Returns the name of the model that wrote an event, if it says so."""
    return str(event.get("model_version") or "")


def tokens_of(event: Mapping[str, Any]) -> int:
    """Returns the model's input and output tokens."""
    usage = usage_of(event)
    return usage.prompt + usage.output if usage else 0


def failure_of(event: Mapping[str, Any], said: Description) -> tuple[bool, str]:
    """Returns whether an agent's event reports a failure of its own, and its words: (True, "MAX_TOKENS")."""
    told = " ".join(str(event[name]) for name in ("error_code", "error_message") if event.get(name))
    return "error" in said.kinds, words(told, WHY)


def is_exception(said: Description) -> bool:
    """Returns whether an agent's event reports an error and nothing else, as ADK stores an exception: that of the tools
    that the agent called and that have not answered; without such, of its model."""
    return "error" in said.kinds and not said.parts


def error_of(response: Any) -> Any:
    """Returns what a failed tool says: “card declined” for {"error": {"message": "card declined"}}."""
    error = as_object(response).get("error")
    message = as_object(error).get("message")
    return message if isinstance(message, str) else error
