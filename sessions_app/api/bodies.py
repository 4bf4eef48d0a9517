"""Reads and writes JSON: parses strictly, sends what is stored, and uses a session's revision as its ETag."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Schema
from pydantic import ValidationError

from ..domain.errors import Invalid, StaleSession
from ..domain.json_values import check, dumps, typed
from ..domain.state import ABSENT, UNKNOWN, Change

S = TypeVar("S", bound=Schema)

_NOT_JSON: Final = ("NaN", "Infinity")
_NEVER: Final = 2**32  # no session is written so late, and a database could not compare it
_REVISION: Final = re.compile(r'"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"')


def object_of(request: HttpRequest, unchecked: str = "") -> dict[str, Any]:
    """Returns the JSON object that was sent. Raises Invalid with the path of the fault.

    The `unchecked` field may hold texts that no database can store."""
    try:
        sent = typed(request.body.decode())
    except UnicodeDecodeError as error:
        raise Invalid(_("The body isn't valid UTF-8 (byte %(n)s).") % {"n": error.start + 1}) from error
    if not isinstance(sent, dict):
        raise Invalid(_("The body must be a JSON object."))
    checked: dict[str, Any] = check({name: value for name, value in sent.items() if name != unchecked})
    return checked | ({unchecked: sent[unchecked]} if unchecked in sent else {})


def body_of(request: HttpRequest, schema: type[S], unchecked: str = "") -> S:
    """Returns the body, validated by its schema. An empty body is an empty object. Raises Invalid with the path of the
    fault."""
    sent = object_of(request, unchecked) if request.body else {}
    if unknown := sent.keys() - schema.model_fields.keys():
        known = ", ".join(schema.model_fields)
        raise Invalid(_("%(name)s: unknown field. Known fields: %(known)s") % {"name": min(unknown), "known": known})
    try:
        return schema.model_validate(sent, strict=True)
    except ValidationError as error:
        raise Invalid(str(errors_of(error.errors())[0]["message"])) from error


def errors_of(errors: Iterable[Any]) -> list[dict[str, str]]:
    """Returns pydantic's errors, each with its path and a message."""
    told = []
    for error in errors:
        path = ".".join(str(step) for step in error["loc"]) or "body"
        told.append({"place": path, "message": f"{path}: {error['msg']}"})
    return told


def body_schema(schema: type[Schema], *, required: bool = False) -> dict[str, Any]:
    """Returns the OpenAPI description of a body that `body_of` reads."""
    content = {"application/json": {"schema": schema.model_json_schema() | {"additionalProperties": False}}}
    return {"requestBody": {"content": content, "required": required}}


def answer(value: Any, status: int = 200, revision: float | None = None) -> HttpResponse:
    """Returns a JSON response. NaN and infinity, which ADK may store although JSON has no such values, become null."""
    return HttpResponse(
        text_of(value).encode("utf-8", "replace"), "application/json", status, headers=headers_of(revision)
    )


def change_of(change: Change) -> dict[str, Any]:
    """Returns a key's change as JSON. Leaves out a side that is unknown, or on which the key is absent."""
    sides = {"old": change.old, "new": change.new}
    also = {"also_written_by": list(change.beside)} if change.beside else {}
    return {"key": change.key} | also | {name: value for name, value in sides.items() if value not in (ABSENT, UNKNOWN)}


def text_of(value: Any) -> str:
    """Returns a value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return checked(dumps(value))


def checked(text: str) -> str:
    """Returns stored JSON text with null for NaN and infinity. A text that has none of them is not parsed."""
    if not any(name in text for name in _NOT_JSON):
        return text
    return dumps(json.loads(text, parse_constant=lambda _name: None, parse_float=_finite))


def _finite(text: str) -> float | None:
    return number if math.isfinite(number := float(text)) else None


def expected_revision(request: HttpRequest) -> float | None:
    """Returns the revision that `If-Match` demands; None if it demands none. Raises Invalid."""
    said = request.headers.get("If-Match")
    if said is None or said.strip() == "*":
        return None
    match = _REVISION.fullmatch(said.strip())
    if match is None:
        raise Invalid(_("If-Match must be one quoted revision, like a session's ETag"))
    if (revision := float(match[1])) >= _NEVER:
        raise Precondition
    return revision


IF_MATCH: Final = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "schema": {"type": "string"},
            "description": "a session's ETag: write only if no one has written since, else 412",
        }
    ]
}


class Precondition(StaleSession):
    """The session has changed since it was read: If-Match names an earlier revision. Nothing was written."""


def etag(revision: float) -> str:
    """Returns a revision as an entity tag."""
    return f'"{revision!r}"'


def headers_of(revision: float | None) -> dict[str, str]:
    """Returns the headers of a response: caches must ask again, and the revision is its ETag."""
    return {"Cache-Control": "private, no-cache"} | ({} if revision is None else {"ETag": etag(revision)})
