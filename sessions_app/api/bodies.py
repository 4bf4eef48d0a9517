"""JSON in and out: parsed strictly, written as it is stored, a session's revision as its ETag."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Schema
from pydantic import ValidationError

from ..domain.json_values import dumps, loads
from ..domain.state import ABSENT, UNKNOWN, Change
from ..errors import Invalid, StaleSession

S = TypeVar("S", bound=Schema)

_NOT_JSON: Final = ("NaN", "Infinity")
_NEVER: Final = 2**32  # no session was written so late; a database could not even be asked
_REVISION: Final = re.compile(r'"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"')


def object_of(request: HttpRequest) -> dict[str, Any]:
    """The JSON object that was sent; raises Invalid with the place of the fault."""
    try:
        sent = loads(request.body.decode())
    except UnicodeDecodeError as error:
        raise Invalid(_("The body is not UTF-8 (byte %(n)s).") % {"n": error.start + 1}) from error
    if not isinstance(sent, dict):
        raise Invalid(_("The body is a JSON object."))
    return sent


def body_of(request: HttpRequest, schema: type[S]) -> S:
    """What was sent, as its schema says; no body is an empty object. Raises Invalid with the place of the fault."""
    sent = object_of(request) if request.body else {}
    if unknown := sent.keys() - schema.model_fields.keys():
        known = ", ".join(schema.model_fields)
        raise Invalid(_("%(name)s: is not known here; %(known)s are") % {"name": min(unknown), "known": known})
    try:
        return schema.model_validate(sent, strict=True)
    except ValidationError as error:
        raise Invalid(str(errors_of(error.errors())[0]["message"])) from error


def errors_of(errors: Iterable[Any]) -> list[dict[str, str]]:
    """Pydantic's errors, by place."""
    told = []
    for error in errors:
        path = ".".join(str(step) for step in error["loc"]) or "body"
        told.append({"place": path, "message": f"{path}: {error['msg']}"})
    return told


def body_schema(schema: type[Schema], *, required: bool = False) -> dict[str, Any]:
    """What the OpenAPI document says of a body that `body_of` reads."""
    content = {"application/json": {"schema": schema.model_json_schema() | {"additionalProperties": False}}}
    return {"requestBody": {"content": content, "required": required}}


def answer(value: Any, status: int = 200, revision: float | None = None) -> HttpResponse:
    """A JSON answer; what ADK stored although it is no JSON (NaN) is null."""
    return HttpResponse(
        text_of(value).encode("utf-8", "replace"), "application/json", status, headers=headers_of(revision)
    )


def change_of(change: Change) -> dict[str, Any]:
    """A key's change; a side that is unknown, or where the key was not there, is left out."""
    sides = {"old": change.old, "new": change.new}
    return {"key": change.key} | {name: value for name, value in sides.items() if value not in (ABSENT, UNKNOWN)}


def text_of(value: Any) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return checked(dumps(value))


def checked(text: str) -> str:
    """Stored JSON text, with null for what is no JSON in it; texts without any are not parsed."""
    if not any(name in text for name in _NOT_JSON):
        return text
    return dumps(json.loads(text, parse_constant=lambda _name: None, parse_float=_finite))


def _finite(text: str) -> float | None:
    return number if math.isfinite(number := float(text)) else None


def expected_revision(request: HttpRequest) -> float | None:
    """The revision that `If-Match` asks for; None where it asks for none. Raises Invalid."""
    said = request.headers.get("If-Match")
    if said is None or said.strip() == "*":
        return None
    match = _REVISION.fullmatch(said.strip())
    if match is None:
        raise Invalid(_("If-Match: must be one revision in quotes, like the ETag of a session"))
    if (revision := float(match[1])) >= _NEVER:
        raise Precondition
    return revision


IF_MATCH: Final = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "schema": {"type": "string"},
            "description": "a session's ETag: write only if nobody has written since, else 412",
        }
    ]
}


class Precondition(StaleSession):
    """The session has changed since it was read: If-Match names an earlier revision; nothing was written."""


def etag(revision: float) -> str:
    """A revision as an entity tag."""
    return f'"{revision!r}"'


def headers_of(revision: float | None) -> dict[str, str]:
    """An answer's headers: nobody keeps it, and the revision is its ETag."""
    return {"Cache-Control": "private, no-cache"} | ({} if revision is None else {"ETag": etag(revision)})
