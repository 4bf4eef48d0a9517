"""The fields that google-adk knows inside an event, so that it can load events that people write (pure).

An agent can't load a session if it can't load one of its events. adk_schema.json is the JSON Schema of google-adk's own
models; a test compares it with the installed one. A program's google-adk may be newer, and have fields that are not
here.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .errors import Invalid
from .json_values import MAX_DEPTH
from .translation import Message
from .translation import gettext_lazy as _

if TYPE_CHECKING:  # agents' processes read these fields, and don't have it
    from jsonschema_rs import Draft202012Validator, ValidationError

_NAMES: Final = {"boolean": "bool", "integer": "int", "number": "float", "string": "str"}
_PYTHON: Final = {"array": list, "boolean": bool, "object": dict, "string": str}


@functools.cache
def models() -> dict[str, Any]:
    """Returns google-adk's models inside an event as JSON Schema, by name."""
    schema: dict[str, Any] = json.loads((Path(__file__).parent / "adk_schema.json").read_text())
    return schema


def types_of(model: str) -> dict[str, type]:
    """Returns the fields of a model that are a list, an object, a string, or true and false, each with that type."""
    types = {name: {*field.get("type", ())} - {"null"} for name, field in models()[model]["properties"].items()}
    return {name: _PYTHON[kind] for name, kinds in types.items() if len(kinds) == 1 for kind in kinds & _PYTHON.keys()}


EVENT_FIELDS: Final = frozenset(models()["Event"]["properties"])
ACTION_FIELDS: Final = frozenset(models()["EventActions"]["properties"])
_OF_CREDENTIALS: Final = "requested_auth_configs"  # any object to the schema; google-adk puts its own models there
# The fields of actions in which programs put what they want: the schema says nothing about their content.
ANYTHING: Final = {
    name
    for name, field in models()["EventActions"]["properties"].items()
    if field in ({}, {"type": ["object"]}, {"type": ["object", "null"]}) and name != _OF_CREDENTIALS
}


def check_fields(event: Mapping[str, Any], *, newer: bool = False) -> None:
    """Raises Invalid, naming the path, if google-adk could not load this event; a `newer` one may know more fields."""
    from jsonschema_rs import ValidationError

    try:
        _validator(newer).validate(event)
    except UnicodeEncodeError:  # half of a surrogate pair in a field's name
        check_fields(json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")), newer=newer)
    except ValidationError as error:
        raise Invalid(_problem(error)) from error
    except ValueError as error:  # its recursion limit, beyond which google-adk reads nothing either
        raise Invalid(_("nested deeper than %(n)s levels") % {"n": MAX_DEPTH}) from error


@functools.cache
def _validator(newer: bool) -> "Draft202012Validator":
    from jsonschema_rs import Draft202012Validator, RegexOptions

    # Messages contain no values, which may be large. The first fault stops it, so 100,000 faults cost no more than one.
    schema = {"$ref": "#/$defs/Event", "$defs": {**models(), "Unknown": newer}}
    return Draft202012Validator(schema, mask="…", pattern_options=RegexOptions())


def _problem(error: "ValidationError") -> Message:
    from jsonschema_rs import ValidationErrorKind

    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required():
            return _("%(place)s: missing") % {"place": f"{path}.{error.kind.property}".removeprefix(".")}
        case ValidationErrorKind.FalseSchema():
            problem = _("%(place)s: ADK doesn't recognise this field and could no longer load the session")
            return problem % {"place": path.removeprefix(".")}
    expected: Any = {"$defs": models()}
    for step in error.schema_path[:-1]:
        expected = expected[step]
    problem = _("%(place)s: ADK expects a different type (%(kind)s)")
    return problem % {"place": path.removeprefix("."), "kind": ", ".join(_types(expected))}


def _types(schema: Any) -> Iterator[str]:
    """Yields google-adk's names for the allowed types of a value: “str”, “Content”."""
    if schema is True or "type" not in schema:
        yield "any"
        return
    for name in schema["type"]:
        match name:
            case "array":
                yield "|".join(_types(schema["items"]))
            case "object":
                inner = schema.get("additionalProperties", True)
                yield schema["$ref"].rpartition("/")[2] if "$ref" in schema else "|".join(_types(inner))
            case "string" if "enum" in schema or "pattern" in schema:
                yield ", ".join(filter(None, schema.get("enum", ["bytes"])))
            case _ if name != "null":
                yield _NAMES[name]
