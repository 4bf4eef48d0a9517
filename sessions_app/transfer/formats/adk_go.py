"""`adk-go`: a database of google/adk-go's session/database, schema of 2.3 and of every version before it.

Its tables have the names of ADK's, but `events` has a column for each field: JSON in camelCase as Go's json package writes
it, `actions` as bytes. Before 2.2 the names in `actions` begin with a capital. Go's zero values (false, "", null) are what
ADK leaves out. What ADK's events have no field for goes into `custom_metadata.adk_go` under adk-go's name for it:
requestedInput of a workflow's node, confirmationClaim of its actions, excludedEvents of a compaction.
"""

from typing import Any, Final

from ...domain.spelling import to_snake
from ...errors import Invalid
from .databases import Json, Layout, keep, reader, seconds
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
    found: dict[str, Any] = {name: row[name] or None for name in _TEXTS if name in row}
    found |= {name: bool(row[name]) or None for name in _TRUTHS if name in row}
    for name in _OBJECTS:
        found[name] = json.object(row.get(name), name) or None
    for name, kind in _OTHERS.items():
        value = json.parse(row.get(name), name)
        if value is not None and not isinstance(value, kind):
            raise Invalid(f"{name}: no JSON {'list' if kind is list else 'object'}")
        found[name.removesuffix("_json")] = value
    found["output"] = json.parse(row.get("output_json"), "output_json")
    rest = {"requestedInput": found.pop("requested_input")}
    actions = _actions(json.object(row["actions"], "actions"), rest)
    routes = json.parse(row.get("routes_json"), "routes_json")
    found["actions"] = actions if routes is None else actions | {"route": routes}
    event: dict[str, Any] = to_snake({name: value for name, value in found.items() if value is not None})
    keep(event, "adk_go", rest)
    return event


def _actions(given: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    named = {name[:1].lower() + name[1:]: value for name, value in given.items()}
    found = {name: value for name, value in named.items() if name in _ACTIONS and value not in (None, False, "")}
    if isinstance(compaction := found.get("compaction"), dict):
        found["compaction"] = compaction = dict(compaction)
        for name in ("startTimestamp", "endTimestamp"):
            compaction[name] = seconds(compaction.get(name), f"actions.compaction.{name}")
        rest["excludedEvents"] = compaction.pop("excludedEvents", None)
    rest |= {name: value for name, value in named.items() if name not in _ACTIONS}
    return found


LAYOUT: Final = Layout("adk-go", _event, frozenset({"author", "actions"}))
read = reader(LAYOUT)
