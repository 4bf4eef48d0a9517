"""google-adk's models of an event, put together from adk_fields.json: they read what it reads, and refuse as it does.

adkweb runs without google-adk, and answers its clients all the same: same coercions, same errors, same JSON.
"""

import json
import re
import time
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.alias_generators import to_camel

_FIELDS: Final = Path(__file__).parents[2] / "domain" / "adk_fields.json"
_ALTERNATIVES: Final = re.compile(r"[\[{][^\]}]*[\]}]|[^|]+")
_PLAIN: Final[dict[str, Any]] = {
    "any": Any,
    "bool": bool,
    "bytes": bytes,
    "count": int,
    "float": float,
    "int": int,
    "null": None,
    "str": str,
}
_DEFAULTS: Final[dict[str, Any]] = {"bool": False, "str": ""}
_ONE_SPELLING: Final = "CacheMetadata"  # google-adk gives it no camelCase


@cache
def event_model() -> type[BaseModel]:
    """google-adk's Event."""
    return _model("Event")


@cache
def _fields() -> dict[str, dict[str, str]]:
    fields: dict[str, dict[str, str]] = json.loads(_FIELDS.read_text())
    return fields


@cache
def _model(name: str) -> type[BaseModel]:
    fields = _fields()[name]
    config = ConfigDict(
        extra="ignore" if "*" in fields else "forbid",
        alias_generator=None if name == _ONE_SPELLING else to_camel,
        populate_by_name=True,
        protected_namespaces=(),
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )
    told: dict[str, Any] = {
        each.removesuffix("!"): (_type(kind), _field(each, kind)) for each, kind in fields.items() if each != "*"
    }
    if name == "Event":
        told["timestamp"] = (float, Field(default_factory=time.time))
        told["long_running_tool_ids"] = (set[str] | None, None)
        before: Any = model_validator(mode="before")(_shorthand)
        return create_model(name, __config__=config, __validators__={"shorthand": before}, **told)
    return create_model(name, __config__=config, **told)


def _type(kinds: str) -> Any:
    types: list[Any] = []
    for kind in _ALTERNATIVES.findall(kinds):
        if kind[0] == "[":
            types.append(list[_type(kind[1:-1])])  # type: ignore[misc]
        elif kind[0] == "{":
            types.append(dict[str, _type(kind[1:-1])])  # type: ignore[misc]
        elif kind[0] == "=":
            types.append(Literal[kind[1:]])
        else:
            types.append(_PLAIN[kind] if kind in _PLAIN else _model(kind))
    return Union[tuple(types)]  # noqa: UP007  made of what a table says


def _field(name: str, kind: str) -> Any:
    """A field's default: none where it must be there, null where it may be, else google-adk's."""
    bounds: dict[str, Any] = {"ge": 0} if kind.startswith("count") else {}
    if name.endswith("!"):
        return Field(**bounds)
    if kind.endswith("null") or kind == "any":
        return Field(default=None, **bounds)
    if kind[0] == "{":
        return Field(default_factory=dict)
    return Field(default=_DEFAULTS[kind]) if kind in _DEFAULTS else Field(default_factory=lambda: _empty(kind))


def _empty(kind: str) -> Any:
    return _model(kind)()


def _shorthand(data: Any) -> Any:
    """What google-adk's Event takes beside its fields: `message`, `state`, `route`, `node_path`."""
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
