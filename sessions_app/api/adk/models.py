"""Builds google-adk's models of an event from their JSON Schema, so that they accept and refuse what google-adk does.

adkweb runs without google-adk, but answers its clients as it would: with the same coercions, errors and JSON."""

import time
from functools import cache
from typing import Any, Final, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.alias_generators import to_camel

from ...domain.adk_fields import models

_PLAIN: Final[dict[str, Any]] = {
    "boolean": bool,
    "integer": int,
    "null": None,
    "number": float,
    "string": str,
}
_ONE_SPELLING: Final = "CacheMetadata"  # google-adk gives it no camelCase names


@cache
def event_model() -> type[BaseModel]:
    """Returns the model of google-adk's Event."""
    return _model("Event")


@cache
def _model(name: str) -> type[BaseModel]:
    model = models()[name]
    config = ConfigDict(
        extra="forbid" if "additionalProperties" in model else "ignore",
        alias_generator=None if name == _ONE_SPELLING else to_camel,
        populate_by_name=True,
        protected_namespaces=(),
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )
    required = model.get("required", [])
    told: dict[str, Any] = {
        each: (_type(schema), _field(schema, each in required)) for each, schema in model["properties"].items()
    }
    if name == "Event":
        told["timestamp"] = (float, Field(default_factory=time.time))
        told["long_running_tool_ids"] = (set[str] | None, None)
        before: Any = model_validator(mode="before")(_shorthand)
        return create_model(name, __config__=config, __validators__={"shorthand": before}, **told)
    return create_model(name, __config__=config, **told)


def _type(schema: dict[str, Any]) -> Any:
    if "type" not in schema:
        return Any
    types: list[Any] = []
    for name in schema["type"]:
        if "$ref" in schema and name == "object":
            types.append(_model(schema["$ref"].rpartition("/")[2]))
        elif name == "object":
            types.append(dict[str, _type(schema.get("additionalProperties", {}))])  # type: ignore[misc]
        elif name == "array":
            types.append(list[_type(schema["items"])])  # type: ignore[misc]
        elif name == "string" and "enum" in schema:
            types.append(Literal[schema["enum"][0]])
        else:
            types.append(bytes if name == "string" and "pattern" in schema else _PLAIN[name])
    return Union[tuple(types)]  # noqa: UP007  made of what a table says


def _field(schema: dict[str, Any], required: bool) -> Any:
    """Returns a field with its default: none if it is required, null if it may be null, else google-adk's."""
    bounds: dict[str, Any] = {"ge": schema["minimum"]} if "minimum" in schema else {}
    if required:
        return Field(**bounds)
    if "default" in schema or "null" in schema.get("type", ["null"]):
        return Field(default=schema.get("default"), **bounds)
    return Field(default_factory=_model(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else dict)


def _shorthand(data: Any) -> Any:
    """Expands the shorthand arguments of google-adk's Event: `message`, `state`, `route`, `node_path`."""
    if not isinstance(data, dict):
        return data
    data = dict(data)
    message, state, route, path = (data.pop(name, None) for name in ("message", "state", "route", "node_path"))
    if message is not None:
        if data.get("content") is not None:
            raise ValueError("'message' and 'content' are mutually exclusive. Use one or the other.")
        data["content"] = {"parts": [{"text": message}], "role": "user"} if isinstance(message, str) else message
    actions = {} if data.get("actions") is None else data["actions"]
    given = {name: value for name, value in (("state_delta", state), ("route", route)) if value is not None}
    if given and isinstance(actions, dict):
        data["actions"] = {**actions, **given}
    node = {} if data.get("node_info") is None else data["node_info"]
    if path is not None and isinstance(node, dict):
        data["node_info"] = {**node, "path": path}
    return data
