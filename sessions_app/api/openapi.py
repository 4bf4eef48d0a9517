"""The OpenAPI document: what the framework knows about each operation, and the errors that any of them can return."""

from copy import deepcopy
from typing import Any, Final

from ninja import NinjaAPI

from ..http.problems import MEDIA_TYPE, TITLES
from .schemas import Problem

ANY: Final = (400, 401, 403, 404, 405, 408, 409, 413, 429, 503)  # the errors that any operation can return
PERMISSION: Final = "x-permission"  # of an operation: the permission that a token needs for it

_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    503: {
        "Retry-After": {"schema": {"type": "string"}, "description": "seconds, while the source is still being read"},
    },
    429: {"Retry-After": {"schema": {"type": "string"}, "required": True, "description": "seconds"}},
    405: {"Allow": {"schema": {"type": "string"}, "required": True, "description": "the methods that it has"}},
}
_PARAMETERS: Final = {
    "source": "a source's alias; by default, the only source, or the only one with the app",
    "before": "`next` of the page with later items",
    "after": "`next` of the page before",
    "cursor": "`next` of the page before, for the same query and order",
    "limit": "items of a page",
}


# An operation that makes something answers with its address.
LOCATION: Final = {"responses": {201: {"headers": {"Location": {"schema": {"type": "string"}, "required": True}}}}}


def needs(permission: str) -> dict[str, Any]:
    """Returns the description of an operation that needs another permission than “read”."""
    return {PERMISSION: permission}


def tagged(*statuses: int, required: bool = True) -> dict[str, Any]:
    """Returns the description of an operation that answers with a session's revision."""
    header = {"schema": {"type": "string"}, "required": required, "description": "the session's revision, in quotes"}
    return {"responses": {status: {"headers": {"ETag": header}} for status in statuses}}


def document_of(api: NinjaAPI) -> dict[str, Any]:
    """Returns the OpenAPI document of an API, with all errors in it."""
    document: dict[str, Any] = deepcopy(dict(api.get_openapi_schema(path_prefix="/api/")))
    document["servers"] = [{"url": "/", "description": "this adkweb"}]
    document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    for operations in document["paths"].values():
        for operation in operations.values():
            _complete(operation)
    return document


def _complete(operation: dict[str, Any]) -> None:
    parameters = operation.get("parameters", [])
    for parameter in parameters:
        parameter["schema"] = _sent(parameter["schema"])
        if parameter["name"] in _PARAMETERS:
            parameter.setdefault("description", _PARAMETERS[parameter["name"]])
    operation.setdefault(PERMISSION, "read")
    operation["responses"] = {str(status): told for status, told in operation["responses"].items()}
    matching = any(parameter["name"] == "If-Match" for parameter in parameters)
    for status in (*ANY, *((412,) if matching else ())):
        operation["responses"][str(status)] = _problem(status)


def _sent(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a parameter's schema without null: a parameter in an address is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]} if len(kinds) == 1 else schema


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": TITLES[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "headers": _HEADERS.get(status, {}),
    }
