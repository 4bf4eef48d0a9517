"""Writes sessions_app/domain/adk_schema.json anew, from google-adk's own models: python -m tests.adk.fields"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.genai._common import CaseInSensitiveEnum
from pydantic.json_schema import GenerateJsonSchema

import sessions_app

FILE = Path(sessions_app.__file__).parent / "domain" / "adk_schema.json"
BASE64 = "^(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?$"


class _Growing(GenerateJsonSchema):
    """The API's own enumerations grow, and take any text."""

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        """A string, or one of an enumeration."""
        return {"type": "string"} if issubclass(schema["cls"], CaseInSensitiveEnum) else super().enum_schema(schema)


def models() -> dict[str, Any]:
    """Every model inside an event as JSON Schema: pydantic's, with types in one list where it has them in `anyOf`.

    So what is wrong has one path and one reason. A field that is not known is "Unknown", which nothing is or anything.
    """
    event = Event.model_json_schema(by_alias=False, schema_generator=_Growing)
    known = event.pop("$defs") | {"Event": event}
    return {name: _model(model, known) for name, model in known.items() if "properties" in model}


def text() -> str:
    """The file: one model a line."""
    lines = (f"  {json.dumps(name)}: {json.dumps(model, sort_keys=True)}" for name, model in sorted(models().items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _model(model: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"required": sorted(model["required"])} if "required" in model else {}
    if model.get("additionalProperties") is False:
        kept["additionalProperties"] = {"$ref": "#/$defs/Unknown"}
    return {**kept, "properties": {name: _field(field, known) for name, field in model["properties"].items()}}


def _field(field: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    kept = {"default": field["default"]} if field.get("default") is not None else {}
    return {**kept, **_kind(field, known)}


def _kind(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return _one_of([_kind(each, known) for each in schema["anyOf"]])
    if "$ref" in schema:
        model = known[schema["$ref"].rpartition("/")[2]]
        return {"type": ["object"], "$ref": schema["$ref"]} if "properties" in model else _kind(model, known)
    if "type" not in schema:
        return {}
    kept = {name: schema[name] for name in ("enum", "minimum") if name in schema}
    if "const" in schema:
        kept["enum"] = [schema["const"]]
    if "items" in schema:
        kept["items"] = _kind(schema["items"], known)
    if isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = _kind(schema["additionalProperties"], known)
    if schema["type"] == "number":
        kept |= {"exclusiveMinimum": -(2.0**1023), "exclusiveMaximum": 2.0**1023}
    if schema.get("format") == "base64url":
        kept["pattern"] = BASE64
    return {"type": [schema["type"]], **kept}


def _one_of(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    if {} in kinds:
        return {}
    merged = {name: value for kind in kinds for name, value in kind.items()}
    types = [name for kind in kinds for name in kind["type"]]
    if "enum" in merged and "null" in types:
        merged["enum"] = [*merged["enum"], None]
    return {**merged, "type": types}


if __name__ == "__main__":
    FILE.write_text(text())
