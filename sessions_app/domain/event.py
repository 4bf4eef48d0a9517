"""Checks that an event can be stored, and reads what it writes (pure)."""

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from .adk_fields import ACTION_FIELDS, types_of
from .edit_note import edit_of
from .errors import Invalid
from .json_values import as_object, at, check, check_name, dumps, equal, read_stored_or_none
from .state import State, without_temp
from .translation import gettext_lazy as _

Event = dict[str, Any]
ID_LENGTH: Final = 128  # characters that fit ADK's columns
INVOCATION_ID_LENGTH: Final = 256
_LAST_TIMESTAMP: Final = 2**32 - 1  # in the year 2106; later, floats are too coarse to add a microsecond


def new_id() -> str:
    """Returns a new event id."""
    return str(uuid.uuid4())


def is_partial(event: Mapping[str, Any]) -> bool:
    """Returns whether the event is a piece of a streamed answer, which is never stored."""
    return bool(event.get("partial"))


def check_event(event: Any, *, newer: bool = False) -> Event:
    """Returns the event as it will be stored: with an id and a timestamp, without temp keys and nulls.

    Raises Invalid, which names the field, for anything that ADK could not load again or a database cannot hold. A
    `newer` one may have actions that this adkweb does not know: the google-adk that made it has checked them.
    """
    if not isinstance(event, Mapping):
        raise Invalid(_("An event must be a JSON object."))
    # A key that an edit removes may have a name that no new key can have: another program stored it.
    checked = check(event, known=frozenset(removed_by(event)))
    stored: Event = {key: value for key, value in checked.items() if value is not None}
    stored["id"] = check_name(stored.get("id", ""), "id", ID_LENGTH) or new_id()
    stored["invocation_id"] = check_name(stored.get("invocation_id", ""), "invocation_id", INVOCATION_ID_LENGTH)
    stored["author"] = check_name(stored.get("author", ""), "author", INVOCATION_ID_LENGTH)
    stored["timestamp"] = _check_timestamp(stored.get("timestamp", time.time()))
    _check_types(stored, "", "event")
    stored["actions"] = _check_actions(stored.get("actions", {}), newer=newer)
    _check_content(stored.get("content", {}))
    if not all(isinstance(name, str) for name in stored.get("long_running_tool_ids", [])):
        raise Invalid(_("long_running_tool_ids: must be a list of strings"))
    return stored


def read_reduced(text: str) -> Any:
    """Reads an event that is reduced to a list of its delta, author, adkweb's note and branch, and returns it as an
    event.

    Any other JSON is returned as it is, and None if it isn't JSON."""
    said = read_stored_or_none(text)
    if not isinstance(said, list):
        return said
    delta, author, note, branch = said
    return {
        "author": author,
        "branch": branch,
        "actions": {"state_delta": delta},
        "custom_metadata": {"adkweb": note},
    }


def delta_of(event: Mapping[str, Any]) -> State:
    """Returns the event's state delta, with full keys."""
    return as_object(as_object(event.get("actions")).get("state_delta"))


def removed_by(event: Mapping[str, Any]) -> list[str]:
    """Returns the keys that the event removes from the state. Its delta has them as null, for ADK."""
    delta = delta_of(event)
    removed = edit_of(event).get("removed")
    keys = removed if isinstance(removed, list) else []
    return [key for key in keys if isinstance(key, str) and delta.get(key, "") is None]


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Returns whether two events are one event that was sent twice: equal, apart from nulls and empty actions."""
    return equal(_core(a), _core(b))


def _core(event: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in event.items() if value is not None}
    kept["actions"] = {k: v for k, v in as_object(event.get("actions")).items() if v not in (None, {}, [])}
    return kept


def _check_timestamp(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(_("timestamp: must be a number, in seconds since 1970"))
    if not 0 <= value <= _LAST_TIMESTAMP:
        raise Invalid(_("timestamp: must be in seconds, between the years 1970 and 2106"))
    return float(value)


def _check_actions(actions: dict[str, Any], *, newer: bool) -> dict[str, Any]:
    unknown = sorted(actions.keys() - ACTION_FIELDS)
    if unknown and not newer:
        raise Invalid(
            _("actions: ADK doesn't recognise %(names)s and would fail to load the session")
            % {"names": ", ".join(map(dumps, unknown))}
        )
    kept = {key: value for key, value in actions.items() if value is not None}
    _check_types(kept, "actions.")
    if "state_delta" in kept:
        kept["state_delta"] = without_temp(kept["state_delta"])
    for name, version in kept.get("artifact_delta", {}).items():
        if isinstance(version, bool) or not isinstance(version, int):
            raise Invalid(_("actions.artifact_delta.%(name)s: must be a whole number") % {"name": name})
    return kept


def _check_content(content: dict[str, Any]) -> None:
    _check_types(content, "content.")
    for place, part in enumerate(content.get("parts") or []):
        where = f"content.parts[{place}]."
        if not isinstance(part, dict):
            raise Invalid(_("content.parts: must be a list of objects"))
        _check_types(part, where, "part")
        for name in ("function_call", "function_response"):
            _check_types(part.get(name) or {}, f"{where}{name}.", name)


def _check_types(found: dict[str, Any], where: str, shape: str = "") -> None:
    for name, wanted in _TYPES[shape or where].items():
        if found.get(name) is not None and not isinstance(found[name], wanted):
            raise Invalid(at(f"{where}{name}", _TYPE_WORDS[wanted]))


_TYPE_WORDS: Final = {
    str: _("must be a string"),
    bool: _("must be true or false"),
    dict: _("must be an object"),
    list: _("must be a list"),
}


# The types that ADK's parser requires: for all fields of actions, and for other fields that adkweb knows. With a wrong
# type, an agent could not load its session at all.
_SHAPES: Final[dict[str, dict[type, str]]] = {
    "event": {
        str: "branch error_code error_message finish_reason isolation_scope model_version",
        bool: "partial turn_complete interrupted",
        dict: """actions content custom_metadata usage_metadata grounding_metadata node_info input_transcription
            output_transcription""",
        list: "long_running_tool_ids",
    },
    "part": {
        str: "text",
        bool: "thought",
        dict: "function_call function_response executable_code code_execution_result inline_data file_data",
    },
    "function_call": {str: "id name", dict: "args"},
    "function_response": {str: "id name", dict: "response"},
}
_TYPES: Final = {
    shape: {name: wanted for wanted, names in fields.items() for name in names.split()}
    for shape, fields in _SHAPES.items()
} | {"actions.": types_of("EventActions"), "content.": types_of("Content")}
