"""Reads `adk-go`: a database of google/adk-go's session/database, with the schema of version 2.3 or earlier.

Its tables are named like ADK's, but `events` has a column for each field: JSON in camelCase as Go's json package writes
it, and `actions` as bytes. Before 2.2, the names in `actions` start with a capital letter. Go stores zero values
(false, "", null) where ADK stores nothing. Fields that ADK's events do not have go into `custom_metadata.adk_go` under
adk-go's names: requestedInput of a workflow's node, confirmationClaim of its actions, excludedEvents of a compaction.
"""

from typing import Any, Final

from ...domain.camel_case import to_snake
from ...domain.errors import Invalid
from .databases import reader
from .layouts import Json, Layout, keep, seconds
from .opened import Row

_TEXTS: Final = ("author", "branch", "isolation_scope", "error_code", "error_message")
_TRUTHS: Final = ("partial", "turn_complete", "interrupted")
_OBJECTS: Final = ("content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata")
_OTHERS: Final = {"long_running_tool_ids_json": list, "node_info_json": dict, "requested_input_json": dict}
_ACTIONS: Final = {
    *("stateDelta", "artifactDelta", "requestedToolConfirmations", "skipSummarization", "transferToAgent", "escalate"),
    "compaction",
}


def _event(row: Row, json: Json) -> dict[str, Any]:
    fields: dict[str, Any] = {name: row[name] or None for name in _TEXTS if name in row}
    fields |= {name: bool(row[name]) or None for name in _TRUTHS if name in row}
    for name in _OBJECTS:
        fields[name] = json.object(row.get(name), name) or None
    for name, kind in _OTHERS.items():
        value = json.parse(row.get(name), name)
        if value is not None and not isinstance(value, kind):
            raise Invalid(f"{name}: not a JSON {'list' if kind is list else 'object'}")
        fields[name.removesuffix("_json")] = value
    fields["output"] = json.parse(row.get("output_json"), "output_json")
    rest = {"requestedInput": fields.pop("requested_input")}
    actions = _actions(json.object(row["actions"], "actions"), rest)
    routes = json.parse(row.get("routes_json"), "routes_json")
    fields["actions"] = actions if routes is None else actions | {"route": routes}
    event: dict[str, Any] = to_snake({name: value for name, value in fields.items() if value is not None})
    keep(event, "adk_go", rest)
    return event


def _actions(given: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    named = {name[:1].lower() + name[1:]: value for name, value in given.items()}
    actions = {name: value for name, value in named.items() if name in _ACTIONS and value not in (None, False, "")}
    if isinstance(compaction := actions.get("compaction"), dict):
        actions["compaction"] = compaction = dict(compaction)
        for name in ("startTimestamp", "endTimestamp"):
            compaction[name] = seconds(compaction.get(name), f"actions.compaction.{name}")
        rest["excludedEvents"] = compaction.pop("excludedEvents", None)
    rest |= {name: value for name, value in named.items() if name not in _ACTIONS}
    return actions


LAYOUT: Final = Layout("adk-go", _event, frozenset({"author", "actions"}))
read = reader(LAYOUT)
