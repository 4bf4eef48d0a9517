"""The answer to a call that waits: the form that fits its question, and the response that google-adk takes (pure).

What an event says is untrusted. A schema becomes a form, and is used to check an answer, only if it is small and simple
enough; nothing that it refers to is ever fetched.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from . import json_values
from .description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Part
from .errors import Invalid
from .json_values import as_object, dumps
from .mask_patterns import DOTS
from .pending import CONFIRMATION, CREDENTIAL, INPUT, asked
from .shorten import words
from .translation import gettext_lazy as _

MOST_FIELDS: Final = 200
MOST_LEVELS: Final = 10
MOST_SIZE: Final = 100_000  # characters, keys and items of a schema; its definitions count as often as they are used
# What would reach outside the schema, or give a reference another meaning, or can take long to match.
_REFUSED: Final = {
    *("patternProperties", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
}

# --- The form ---------------------------------------------------------------------------------------------------------

TEXT, LINES, INTEGER, NUMBER, YES_NO, CHOICE, JSON = "text", "lines", "integer", "number", "yes-no", "choice", "json"
_KINDS: Final = {"string": TEXT, "integer": INTEGER, "number": NUMBER, "boolean": YES_NO}
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. All its texts are as a browser posts them.

    `path` leads to its value in the answer. `choices` are the values to choose from, by their texts. `empty` is what an
    empty field stands for, if it isn't left out. `within` is the innermost object around it that may be left out, as a
    name; "" if there is none. `kept` is a text beside those to choose from, with which it starts: dots that hide its value.
    """

    path: tuple[str, ...]
    label: str
    help: str
    kind: str
    required: bool
    initial: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    empty: Any = _NOTHING
    within: str = ""
    kept: str = ""

    @property
    def name(self) -> str:
        """Returns the path as text: `address.city`."""
        return ".".join(self.path)


def fields(schema: Any, given: Any = None) -> list[Field] | None:
    """Returns the form of a JSON Schema, filled with its defaults or with what is `given`.

    A schema that isn't that of an object has one field, whose path is empty. Returns None if there can be no form: the
    answer is anything or a list of objects, or the schema is too large or isn't safe to use.
    """
    if _validator(schema) is None:
        return None
    top, nullable = _followed(schema, schema)
    if _is_form(top):
        form = list(islice(_fields(top, schema, (), "", given), MOST_FIELDS + 1))
    else:
        only = _field(top, schema, (), top.get("default") if given is None else given, nullable)
        form = [] if only.kind == JSON else [replace(only, required=only.empty is _NOTHING)]
    names = {each.name for each in form if each.name.isprintable() and all(each.path)}
    return form if form and len(form) <= MOST_FIELDS and len(names) == len(form) else None


def _fields(
    schema: dict[str, Any], root: dict[str, Any], path: tuple[str, ...], within: str, given: Any
) -> Iterator[Field]:
    for name, each in schema["properties"].items():
        inner, nullable = _followed(each, root)
        to, needed = (*path, name), name in schema.get("required", ())
        value = as_object(given).get(name, inner.get("default"))
        if _is_form(inner) and not (needed and nullable):
            around, optional = inner.get("title") or name, not (needed or inner.get("default"))
            for field_of in _fields(inner, root, to, ".".join(to) if optional else within, value):
                yield replace(field_of, label=f"{around} · {field_of.label}")
            continue
        yield _field(inner, root, to, value, nullable, needed=needed, within=within)


def _field(
    schema: dict[str, Any],
    root: dict[str, Any],
    path: tuple[str, ...],
    value: Any,
    nullable: bool,
    *,
    needed: bool = True,
    within: str = "",
) -> Field:
    choices = _choices(schema)
    kind = CHOICE if choices else _kind(schema, root)
    if schema.get("default") in ("", [], {}):  # google-adk makes None of what is left out
        empty = schema["default"]
    elif needed and (nullable or kind == LINES):
        empty = None if nullable else []
    else:
        empty = _NOTHING
    return Field(
        path,
        label=schema.get("title") or (path[-1] if path else str(_("The answer"))),
        help=schema.get("description", ""),
        kind=kind,
        required=needed and empty is _NOTHING and kind != YES_NO and not within,
        initial=_shown(value, kind),
        choices=choices,
        empty=empty,
        within=within,
        kept=_kept(_shown(value, kind), kind, choices),
    )


def fields_seen(schema: Any, seen: Any) -> list[Field] | None:
    """Returns the form of a schema of which someone may see only what `seen` has: a field that is hidden starts with dots,
    and only keeps the kind of text that it takes."""
    form = fields(schema)
    if form is None or schema == seen:
        return form
    stored = {each.name: each for each in form}
    return [_as_seen(each, stored.get(each.name)) for each in fields(_mended(schema, seen)) or ()] or None


def _as_seen(shown: Field, stored: Field | None) -> Field:
    if shown.initial not in (DOTS, dumps(DOTS)):
        return shown
    kept = replace(shown, initial=DOTS)
    if stored is None:  # an object, all of which is hidden
        return kept
    kind = TEXT if stored.kind == CHOICE and not shown.choices else stored.kind
    return replace(kept, kind=kind, empty=stored.empty, kept=_kept(DOTS, kind, shown.choices))


def _kept(initial: str, kind: str, choices: Mapping[str, Any]) -> str:
    known = {YES_NO: ("true", "false"), CHOICE: choices}.get(kind)
    return initial if initial and known is not None and initial not in known else ""


def _mended(schema: Any, seen: Any) -> Any:
    """Returns what is seen of a schema as a schema: dots don't stand for one, nor for a list of choices."""
    if isinstance(schema, dict) and isinstance(seen, dict):
        return {
            name: _mended(schema.get(name), each)
            for name, each in seen.items()
            if name == "default" or isinstance(each, list) or not isinstance(schema.get(name), list)
        }
    if isinstance(schema, dict):
        return {"default": seen}
    return seen


def _is_form(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" and bool(schema.get("properties"))


def _kind(schema: dict[str, Any], root: dict[str, Any]) -> str:
    of = schema.get("type")
    if of == "array":
        items, nullable = _followed(schema.get("items"), root)
        return LINES if items.get("type") == "string" and "enum" not in items and not nullable else JSON
    return _KINDS.get(of, JSON) if isinstance(of, str) else JSON


def _choices(schema: dict[str, Any]) -> dict[str, Any]:
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    choices = {_shown(value): value for value in values}
    return choices if len(choices) == len(values) else {}


def _shown(value: Any, kind: str = TEXT) -> str:
    if value is None:
        return ""
    if kind == LINES and isinstance(value, list):
        return "\n".join(map(_shown, value))
    if kind == JSON:
        return dumps(value, 2)
    return value if isinstance(value, str) else dumps(value)


def read(schema: Any, given: Mapping[str, str], seen: Any = None) -> Any:
    """Returns the answer that a browser posted, by the names of the form's fields.

    A field left empty is left out, and so is an object that may be missing if all its fields are as they were. Someone who
    may see only a part of the schema, that in `seen`, leaves what is hidden as it is. Raises Invalid with the name of the
    `field` that is wrong.
    """
    form = fields(schema)
    asked = form if seen is None else fields_seen(schema, seen)
    if form is None or asked is None:
        raise Invalid(_("This question has no form. Answer it with JSON."))
    texts: list[tuple[Field, str]] = []
    for each in asked:
        text = str(given.get(each.name, ""))
        if text == each.initial:
            texts += [(stored, stored.initial) for stored in form if stored.path[: len(each.path)] == each.path]
        else:
            texts.append((each, text))
    filled = {"", *(each.within for each, text in texts if text not in ("", each.initial))}
    whole: dict[str, Any] = {}
    for each, text in texts:
        if each.within in filled:
            around, path = whole, ("", *each.path)
            for name in path[:-1]:
                around = around.setdefault(name, {})
            try:
                value = _value(each, text)
                if value is not _NOTHING:
                    around[path[-1]] = json_values.check(value)
                elif not each.path:
                    raise Invalid(_PROBLEMS["required"] % {"field": words(each.label, 80)}, field="")
            except Invalid as error:
                raise Invalid(json_values.at(words(each.label, 80), error.args[0]), field=each.name) from error
    answer = whole.get("", {})
    check(schema, answer)
    return answer


def _value(of: Field, text: str) -> Any:
    """Returns the value that a text stands for; the text itself if it doesn't fit, which `check` then says."""
    if text in of.choices:
        return of.choices[text]
    if of.kind == YES_NO and (text or not of.required):
        return {"": False, "false": False, "true": True, "on": True}.get(text, text)
    if not text.strip():
        return of.empty
    if of.kind == LINES:
        return [line.strip() for line in text.split("\n") if line.strip()]
    if of.kind == JSON:
        return json_values.loads(text)
    for number_of in (int, float) if of.kind in (INTEGER, NUMBER) else ():
        with suppress(ValueError):
            if abs(number := number_of(text)) < math.inf:
                return number
    return text.replace("\r\n", "\n")


# --- The schema -------------------------------------------------------------------------------------------------------


def check(schema: Any, value: Any) -> None:
    """Raises Invalid, with the name of the `field` if one is wrong, for an answer that doesn't fit a JSON Schema.

    google-adk stores such an answer, and then its workflow can't be answered at all. If the schema isn't safe to use,
    this only checks that the answer is JSON, and an object where the schema wants one.
    """
    value = json_values.check(value)
    validator = _validator(schema)
    if validator is None:
        if as_object(schema).get("type") == "object" and not isinstance(value, dict):
            raise Invalid(_TYPES["object"] % {"field": _("The answer")}, field="")
        return
    try:
        validator.validate(value)
    except ValidationError as error:
        raise _invalid(schema, error) from None


def _validator(schema: Any) -> Draft202012Validator | None:
    """Returns what checks answers; None if the schema isn't valid, or isn't safe to use."""
    if not isinstance(schema, dict) or not _is_simple(schema):
        return None
    try:
        return Draft202012Validator(
            schema, mask="…", pattern_options=RegexOptions(), offline=True, validate_formats=False
        )
    except ValueError:  # also ValidationError
        return None


def _is_simple(schema: dict[str, Any]) -> bool:
    """Returns whether a schema is small, and only refers to its own definitions, and not in a circle.

    It looks at everything, whatever its name, and follows each reference: a circle is never small.
    """
    size = 0
    rest: list[tuple[Any, int]] = [(schema, 0)]
    while rest:
        value, level = rest.pop()
        size += 1 + (len(value) if isinstance(value, str | list | dict) else 0)
        if size > MOST_SIZE or level > MOST_LEVELS:
            return False
        if isinstance(value, list):
            rest += [(each, level) for each in value]
        elif isinstance(value, dict):
            if not _REFUSED.isdisjoint(value) or isinstance(value.get("pattern"), str):
                return False
            if isinstance(reference := value.get("$ref"), str):
                if (target := _target(schema, reference)) is None:
                    return False
                rest.append((target, level))
            for name, each in value.items():
                rest += [(name, level), (each, level + (name in ("properties", "items")))]
    return True


def _target(root: dict[str, Any], reference: str) -> Any:
    """Returns the definition that `#/$defs/City` names; None if there is none."""
    start, __, name = reference.rpartition("/")
    return as_object(root.get(start[2:])).get(name) if start in ("#/$defs", "#/definitions") else None


def _followed(schema: Any, root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the schema that a reference or `anyOf [X, null]` stands for, with what is said beside it, and whether
    null fits, too."""
    said, nullable = dict(as_object(schema)), False
    while True:
        match said:
            case {"$ref": str(reference)}:
                del said["$ref"]
                inner = _target(root, reference)
            case {"anyOf": [inner, {"type": "null"}] | [{"type": "null"}, inner]}:
                del said["anyOf"]
                nullable = True
            case {"allOf": [inner]}:
                del said["allOf"]
            case {"type": [str(inner), "null"] | ["null", str(inner)]}:
                said["type"], nullable = inner, True
                continue
            case _:
                return said, nullable
        # The title of a definition is the name of a class.
        said = {**{name: each for name, each in as_object(inner).items() if name != "title"}, **said}


_PROBLEMS: Final = {
    "required": _("%(field)s is missing."),
    "additionalProperties": _("The agent doesn't ask for %(field)s."),
    "enum": _("%(field)s must be one of these: %(value)s."),
    "const": _("%(field)s must be %(value)s."),
    "minimum": _("%(field)s must be at least %(value)s."),
    "maximum": _("%(field)s must be at most %(value)s."),
    "exclusiveMinimum": _("%(field)s must be greater than %(value)s."),
    "exclusiveMaximum": _("%(field)s must be less than %(value)s."),
    "multipleOf": _("%(field)s must be a multiple of %(value)s."),
    "minLength": _("%(field)s is too short. The minimum number of characters is %(value)s."),
    "maxLength": _("%(field)s is too long. The maximum number of characters is %(value)s."),
    "minItems": _("%(field)s has too few items. The minimum is %(value)s."),
    "maxItems": _("%(field)s has too many items. The maximum is %(value)s."),
}
_TYPES: Final = {
    "integer": _("%(field)s must be a whole number."),
    "number": _("%(field)s must be a number."),
    "string": _("%(field)s must be text."),
    "boolean": _("%(field)s must be true or false."),
    "array": _("%(field)s must be a list."),
    "object": _("%(field)s must be a JSON object."),
}


def _invalid(schema: Any, error: ValidationError) -> Invalid:
    """Returns what is wrong, in the words of the form."""
    while (kind := error.kind).name == "anyOf":
        rest = [each[0] for each in kind.value if (each[0].kind.name, each[0].kind.value) != ("type", ["null"])]
        if len(rest) != 1:
            break
        error = rest[0]
    path, keyword, value = [*error.instance_path], kind.name, kind.value
    if keyword == "required":
        path.append(value)
    elif keyword == "additionalProperties":
        path.append(value[0])
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    around = next((each for each in fields(schema) or () if [*each.path] == path[: len(each.path)]), None)
    label = around.label if around and around.name == name else name
    types = [each for each in value if each != "null"] if keyword == "type" else []
    problem = _TYPES.get(types[0]) if len(types) == 1 else _PROBLEMS.get(keyword)
    shown = ", ".join(map(_shown, value)) if keyword == "enum" else _shown(value) if keyword in _PROBLEMS else ""
    return Invalid(
        (problem or _("%(field)s isn't what the agent asks for."))
        % {"field": words(label, 80) or _("The answer"), "value": words(shown, 200)},
        field=around.name if around else name,
    )


# --- The response -----------------------------------------------------------------------------------------------------


def response(kind: str, call: Part, value: Any = None, *, confirmed: bool = False) -> tuple[str, dict[str, Any]]:
    """Returns the name and the content of the function response that answers a call of this kind. Raises Invalid.

    `value` is the payload of a confirmation, the address that a sign-in came back with, or else the answer.
    """
    if kind == CREDENTIAL:
        return AUTH_CALL, _signed_in(call, value)
    question = asked(call)
    if kind == CONFIRMATION:
        payload = json_values.check(question.payload if value is None else value)
        return CONFIRMATION_CALL, {"confirmed": confirmed} | ({} if payload is None else {"payload": payload})
    value = json_values.check(value)
    if kind == INPUT:
        check(question.schema, value)
        return INPUT_CALL, _input(call, value)
    return call.name, value if isinstance(value, dict) else {"result": value}


def _input(call: Part, value: Any) -> dict[str, Any]:
    """Returns the response to an `adk_request_input`. A workflow's has the call's id as its own.

    google-adk takes the value out of `{"result": …}`, and reads a text there as JSON if it can: “12” must be quoted.
    """
    if isinstance(value, dict) and call.value.get("interruptId") == call.id and value.keys() != {"result"}:
        return value
    return {"result": dumps(value) if isinstance(value, str) and _reads_as_json(value) else value}


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:  # which google-adk would meet, too
        return True
    return True


# --- Signing in -------------------------------------------------------------------------------------------------------

_ASCII: Final = re.compile(r"[!-~]+")  # without blanks; a browser skips some of them
_HOST: Final = re.compile(r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:]+\])(?::\d+)?")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class SignIn:
    """Where to sign in: the address and its host. It comes back to `redirect_uri`, with the same `state`."""

    address: str
    host: str
    redirect_uri: str
    state: str


def sign_in_link(call: Part) -> SignIn | None:
    """Returns where a credential request wants a person to sign in. None if a browser can't open it safely: it isn't
    https (http on this machine), or what comes back couldn't be checked."""
    oauth2 = _oauth2(call)
    address, redirect_uri, state = oauth2.get("authUri"), oauth2.get("redirectUri"), oauth2.get("state")
    link = _parts(address)
    if link is None or _parts(redirect_uri) is None or not isinstance(state, str) or not state:
        return None
    if link.scheme == "https" or (link.scheme == "http" and link.hostname in _LOOPBACK):
        return SignIn(str(address), link.netloc, str(redirect_uri), state)
    return None


def check_returned(call: Part, address: Any) -> None:
    """Raises Invalid for an address that isn't the one with which the sign-in of this call came back."""
    link = sign_in_link(call)
    if link is None:
        raise Invalid(_("This question has no safe link for signing in, so it can't be answered here."))
    returned = _parts(address)
    if returned is None or _page(returned) != _page(_parts(link.redirect_uri)):
        problem = _("The address must begin with %(address)s. Copy all of it after you have signed in.")
        raise Invalid(problem % {"address": words(link.redirect_uri, 200)}, field="address")
    if parse_qs(returned.query, keep_blank_values=True).get("state") != [link.state]:
        raise Invalid(_("This address is from another sign-in. Sign in again with the link here."), field="address")


def _oauth2(call: Part) -> dict[str, Any]:
    config = as_object(as_object(call.value).get("authConfig"))
    return as_object(as_object(config.get("exchangedAuthCredential")).get("oauth2"))


def _signed_in(call: Part, address: Any) -> dict[str, Any]:
    check_returned(call, address)
    config = call.value["authConfig"]
    oauth2 = {**_oauth2(call), "authResponseUri": address}
    return {**config, "exchangedAuthCredential": {**config["exchangedAuthCredential"], "oauth2": oauth2}}


def _parts(address: Any) -> SplitResult | None:
    """Returns the parts of an address that every program reads in the same way; None for any other."""
    if not isinstance(address, str) or not _ASCII.fullmatch(address):
        return None
    try:
        parts = urlsplit(address)
        return parts if _HOST.fullmatch(parts.netloc) and parts.port != 0 else None
    except ValueError:  # such as a port above 65535
        return None


def _page(parts: SplitResult | None) -> tuple[str, str | None, int | None, str] | None:
    return parts and (parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme), parts.path or "/")
