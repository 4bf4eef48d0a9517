"""The fields that google-adk knows inside an event, so that what a person writes by hand is one that it loads (pure).

An agent that meets one event that it cannot load cannot load the session any more. adk_fields.json has google-adk's own
models; a test compares it with the installed one. A program's google-adk may be newer, and have fields that are not here.
"""

import base64
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from ..errors import Invalid


def check_fields(event: Mapping[str, Any], *, newer: bool = False) -> None:
    """Raises Invalid, naming the place, where google-adk could not load this event; a `newer` one may know more fields."""
    if newer:
        event = _known(event, "Event")
    _check(event, "Event", "")


def _known(value: Any, kinds: str) -> Any:
    """A value without the fields that are not known here."""
    kind = next((kind for kind in _split(kinds) if _opens(value, kind)), None)
    if kind is None:
        return value
    if kind.startswith("["):
        return [_known(each, kind[1:-1]) for each in value]
    if kind.startswith("{"):
        return {name: _known(each, kind[1:-1]) for name, each in value.items()}
    model = _models()[kind]
    named = {name: model.get(name) or model.get(name + "!") or model.get("*") for name in value}
    return {name: _known(value[name], kinds) for name, kinds in named.items() if kinds}


def _check(value: Any, kinds: str, where: str) -> None:
    alternatives = _split(kinds)
    if any(_fits(value, kind) for kind in alternatives):
        return
    if len(inner := [kind for kind in alternatives if _opens(value, kind)]) != 1:
        wanted = ", ".join(kind.strip("=[]{}") for kind in alternatives if kind != "null")
        raise Invalid(_("%(place)s: ADK expects another type here (%(kind)s)") % {"place": where, "kind": wanted})
    kind = inner[0]
    if kind.startswith("["):
        for number, each in enumerate(value):
            _check(each, kind[1:-1], f"{where}[{number}]")
    elif kind.startswith("{"):
        for name, each in value.items():
            _check(each, kind[1:-1], f"{where}.{name}")
    else:
        _check_model(value, _models()[kind], where)


def _check_model(value: Mapping[str, Any], model: Mapping[str, str], where: str) -> None:
    dot = f"{where}." if where else ""
    for name in (name[:-1] for name in model if name.endswith("!")):
        if name not in value:
            raise Invalid(_("%(place)s: is missing") % {"place": dot + name})
    for name, each in value.items():
        kind = model.get(name) or model.get(name + "!") or model.get("*")
        if kind is None:
            raise Invalid(
                _("%(place)s: ADK does not know this field and could not load the session again")
                % {"place": dot + name}
            )
        _check(each, kind, dot + name)


def _fits(value: Any, kind: str) -> bool:
    """Whether a value is of a kind that has nothing inside."""
    match kind:
        case "any":
            return True
        case "null":
            return value is None
        case "bool":
            return isinstance(value, bool)
        case "str":
            return isinstance(value, str)
        case "int" | "count":
            return isinstance(value, int) and not isinstance(value, bool) and (kind == "int" or value >= 0)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1023
        case "bytes":
            return isinstance(value, str) and _is_base64(value)
    return kind.startswith("=") and value == kind[1:]


def _opens(value: Any, kind: str) -> bool:
    """Whether a value has the outer form of a kind: a list, an object, a model's object."""
    if kind.startswith("["):
        return isinstance(value, list)
    return isinstance(value, Mapping) and (kind.startswith("{") or kind in _models())


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return False
    return True


@functools.cache
def _split(kinds: str) -> list[str]:
    """The alternatives of `a|[b|c]|{d}`: `a`, `[b|c]` and `{d}`."""
    found, depth = [""], 0
    for character in kinds:
        depth += (character in "[{") - (character in "]}")
        if character == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return found


@functools.cache
def _models() -> dict[str, dict[str, str]]:
    models: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "adk_fields.json").read_text())
    return models
