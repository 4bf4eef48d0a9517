"""Reads `adk-v0`: a database of ADK's DatabaseSessionService from before 1.22, in which an event's actions are pickled.

The rest of an event has columns of its own, with JSON as text (JSONB on PostgreSQL). The columns of google-adk 1.0 to
1.21 are all optional, because older databases lack the newer ones. Times are read as UTC. The result is the same as
with ADK's own `adk migrate session`.
"""

from typing import Any, Final

from . import unpickle
from .databases import reader
from .layouts import Json, Layout, blob
from .opened import Row

_TEXTS: Final = ("author", "branch", "error_code", "error_message")
_TRUTHS: Final = ("partial", "turn_complete", "interrupted")
_OBJECTS: Final = (
    *("content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata"),
    *("input_transcription", "output_transcription"),
)


def _event(row: Row, json: Json) -> dict[str, Any]:
    fields: dict[str, Any] = {name: row.get(name) for name in _TEXTS}
    fields |= {name: None if row.get(name) is None else bool(row[name]) for name in _TRUTHS}
    for name in _OBJECTS:
        value = json.parse(row.get(name), name)
        fields[name] = value if isinstance(value, dict) else None  # ADK also ignores anything but an object
    waiting = json.parse(row.get("long_running_tool_ids_json"), "long_running_tool_ids_json")
    fields["long_running_tool_ids"] = waiting if isinstance(waiting, list) else []
    if row["actions"] is not None:
        # A pickle can hold values that JSON cannot. They are refused here.
        fields["actions"] = json.again(unpickle.actions(blob(row["actions"], "actions")), "actions")
    return {name: value for name, value in fields.items() if value is not None}


LAYOUT: Final = Layout("adk-v0", _event, frozenset({"author", "actions"}))
read = reader(LAYOUT)
