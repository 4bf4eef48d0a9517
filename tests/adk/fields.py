"""Writes sessions_app/domain/adk_fields.json anew, from google-adk's own models: python -m tests.adk.fields"""

from __future__ import annotations

import enum
import json
import types as builtin_types
import typing
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.genai._common import CaseInSensitiveEnum
from pydantic import BaseModel

import sessions_app

FILE = Path(sessions_app.__file__).parent / "domain" / "adk_fields.json"


def fields() -> dict[str, dict[str, str]]:
    """Every model inside an event: the kind of each field; `!` marks one that must be there, `*` any other field."""
    found: dict[str, dict[str, str]] = {}
    _kind(Event, found)
    return found


def text() -> str:
    """The file: one model a line."""
    lines = (f"  {json.dumps(name)}: {json.dumps(model)}" for name, model in sorted(fields().items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _kind(annotation: Any, found: dict[str, dict[str, str]]) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, builtin_types.UnionType):
        return "|".join(_kind(each, found) for each in arguments)
    if origin in (list, set):
        return f"[{_kind(arguments[0], found)}]"
    if origin is dict:
        return f"{{{_kind(arguments[1], found)}}}"
    if origin is typing.Literal:
        return "|".join(f"={value}" for value in arguments)
    if annotation in (Any, type(None)):
        return "any" if annotation is Any else "null"
    if issubclass(annotation, enum.Enum):
        # The API's own enumerations grow, and take any text.
        known = [f"={member.value}" for member in annotation]
        return "str" if issubclass(annotation, CaseInSensitiveEnum) else "|".join(known)
    if issubclass(annotation, BaseModel):
        if annotation.__name__ not in found:
            model = found[annotation.__name__] = {}
            if annotation.model_config.get("extra") != "forbid":
                model["*"] = "any"
            for name, field in sorted(annotation.model_fields.items()):
                kind = _kind(field.annotation, found)
                bounded = any(getattr(each, "ge", None) == 0 for each in field.metadata)
                model[name + "!" * field.is_required()] = kind.replace("int", "count") if bounded else kind
        return str(annotation.__name__)
    return str(annotation.__name__)


if __name__ == "__main__":
    FILE.write_text(text())
