"""Converts events between ADK's two spellings: snake_case, as stored, and camelCase, as on ADK's web routes (pure).

Only the names of ADK's own fields change. What people and programs put into state, arguments, responses, metadata and
the like stays as it is, and so do fields that ADK does not know.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from .adk_fields import models

_Rename = Callable[[Any], Any]


def to_camel(value: Any, model: str = "Event") -> Any:
    """Returns a copy of an event, or of another of ADK's models, with the names that ADK's routes send."""
    return _renaming(True)[model](value)


def to_snake(value: Any, model: str = "Event") -> Any:
    """Returns a copy of an event, or of another of ADK's models, with the names that ADK stores.

    It reads camelCase, snake_case and a mix of both. A value that is not an object is returned as it is.
    """
    return _renaming(False)[model](value)


def camel_name(name: str) -> str:
    """Returns a field's name in camelCase, as pydantic spells the alias."""
    return re.sub("_([a-z0-9]?)", lambda found: found[1].upper(), name)


def _plain(names: str) -> dict[str, Any]:
    return {name: {} for name in names.split()}


def _of(model: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{model}"}


# The credentials in `requested_auth_configs`. adk_schema.json does not list their fields: no one writes them by hand.
_CREDENTIALS: Final = {
    "AuthConfig": {
        **_plain("credential_key"),
        "auth_scheme": _of("AuthScheme"),
        "raw_auth_credential": _of("AuthCredential"),
        "exchanged_auth_credential": _of("AuthCredential"),
    },
    "AuthScheme": _plain("type_ in_"),  # the only fields of any scheme that have two spellings
    "AuthCredential": {
        **_plain("auth_type resource_ref api_key"),
        "http": _of("HttpAuth"),
        "service_account": _of("ServiceAccount"),
        "oauth2": _of("OAuth2Auth"),
    },
    "HttpAuth": _plain("additional_headers"),
    "ServiceAccount": {
        **_plain("use_default_credential use_id_token"),
        "service_account_credential": _of("ServiceAccountCredential"),
    },
    "ServiceAccountCredential": _plain(
        "type_ project_id private_key_id private_key client_email client_id auth_uri token_uri auth_provider_x509_cert_url "
        "client_x509_cert_url universe_domain"
    ),
    "OAuth2Auth": _plain(
        "client_id client_secret auth_uri redirect_uri auth_response_uri auth_code access_token refresh_token id_token "
        "expires_at expires_in code_verifier code_challenge_method token_endpoint_auth_method"
    ),
}
_ONE_SPELLING: Final = "CacheMetadata"  # its fields are snake_case on ADK's routes, too


@functools.cache
def _renaming(camel: bool) -> dict[str, _Rename]:
    """Returns a function for each model that renames the fields of its objects. They are built once."""
    fields = {name: model["properties"] for name, model in models().items() if name != _ONE_SPELLING} | _CREDENTIALS
    fields["EventActions"] = {
        **fields["EventActions"],
        "requested_auth_configs": {"additionalProperties": _of("AuthConfig")},
    }
    tables: dict[str, dict[str, tuple[str, _Rename | None]]] = {name: {} for name in fields}
    renames = {name: _object(table) for name, table in tables.items()}
    for name, table in tables.items():
        for snake, schema in fields[name].items():
            spelled = camel_name(snake)
            entry = (spelled if camel else snake, _inner(schema, renames))
            if entry != (snake, None) or not camel:
                table[snake] = entry
            if not camel:
                table[spelled] = entry
    return renames


def _inner(schema: dict[str, Any], renames: dict[str, _Rename]) -> _Rename | None:
    """Returns a function that renames the fields in a value of this JSON Schema, or None if it has none of ADK's
    fields."""
    if "$ref" in schema:
        return renames.get(schema["$ref"].rpartition("/")[2])
    for name, within in (("items", _list), ("additionalProperties", _values)):
        if name in schema and (inner := _inner(schema[name], renames)):
            return within(inner)
    return None


def _object(table: dict[str, tuple[str, _Rename | None]]) -> _Rename:
    def rename(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found = {}
        for name, each in value.items():
            known = table.get(name)
            if known is None:
                found[name] = each
            else:
                found[known[0]] = each if known[1] is None else known[1](each)
        return found

    return rename


def _list(inner: _Rename) -> _Rename:
    return lambda value: [inner(each) for each in value] if isinstance(value, list) else value


def _values(inner: _Rename) -> _Rename:
    return lambda value: {n: inner(each) for n, each in value.items()} if isinstance(value, dict) else value
