"""Converts events between ADK's two spellings: snake_case, as stored, and camelCase, as on ADK's web routes (pure).

Only the names of ADK's own fields change. What people and programs put into state, arguments, responses, metadata and
the like stays as it is, and so do fields that ADK does not know.
"""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

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


def _plain(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "any")


# The credentials in `requested_auth_configs`. adk_fields.json does not list their fields: nobody writes them by hand.
_CREDENTIALS: Final = {
    "AuthConfig": {
        **_plain("credential_key"),
        "auth_scheme": "AuthScheme",
        "raw_auth_credential": "AuthCredential",
        "exchanged_auth_credential": "AuthCredential",
    },
    "AuthScheme": _plain("type_ in_"),  # the only fields of any scheme that have two spellings
    "AuthCredential": {
        **_plain("auth_type resource_ref api_key"),
        "http": "HttpAuth",
        "service_account": "ServiceAccount",
        "oauth2": "OAuth2Auth",
    },
    "HttpAuth": _plain("additional_headers"),
    "ServiceAccount": {
        **_plain("use_default_credential use_id_token"),
        "service_account_credential": "ServiceAccountCredential",
    },
    "ServiceAccountCredential": dict.fromkeys(
        [
            "type_",
            "project_id",
            "private_key_id",
            "private_key",
            "client_email",
            "client_id",
            "auth_uri",
            "token_uri",
            "auth_provider_x509_cert_url",
            "client_x509_cert_url",
            "universe_domain",
        ],
        "str",
    ),
    "OAuth2Auth": dict.fromkeys(
        [
            "client_id",
            "client_secret",
            "auth_uri",
            "redirect_uri",
            "auth_response_uri",
            "auth_code",
            "access_token",
            "refresh_token",
            "id_token",
            "expires_at",
            "expires_in",
            "code_verifier",
            "code_challenge_method",
            "token_endpoint_auth_method",
        ],
        "any",
    ),
}
_ONE_SPELLING: Final = "CacheMetadata"  # its fields are snake_case on ADK's routes, too


@functools.cache
def _renaming(camel: bool) -> dict[str, _Rename]:
    """Returns a function for each model that renames the fields of its objects. They are built once."""
    models = json.loads((Path(__file__).parent / "adk_fields.json").read_text()) | _CREDENTIALS
    models["EventActions"]["requested_auth_configs"] = "{AuthConfig}"
    del models[_ONE_SPELLING]
    tables: dict[str, dict[str, tuple[str, _Rename | None]]] = {name: {} for name in models}
    renames = {name: _object(table) for name, table in tables.items()}
    for name, table in tables.items():
        for given, kind in models[name].items():
            snake = given.removesuffix("!")
            spelled = camel_name(snake)
            entry = (spelled if camel else snake, _inner(kind, renames))
            if entry != (snake, None) or not camel:
                table[snake] = entry
            if not camel:
                table[spelled] = entry
    return renames


def _inner(kind: str, renames: dict[str, _Rename]) -> _Rename | None:
    """Returns a function that renames the fields in a value of this kind, or None if it has none of ADK's fields.

    adk_fields.py explains the kinds.
    """
    kind = kind.removesuffix("|null")
    rename = renames.get(kind.strip("[]{}"))
    if rename is None or kind[0] not in "[{":
        return rename
    return _list(rename) if kind[0] == "[" else _values(rename)


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
