"""Finds the secrets of credentials that google-adk keeps in events and states, and hides them or leaves them out
(pure).

    hidden({"auth_type": "apiKey", "api_key": "k-1"}) == {"auth_type": "apiKey", "api_key": "••••"}
    without({"auth_type": "apiKey", "api_key": "k-1"}) == {"auth_type": "apiKey"}

google-adk's own routes leave out what `without` with `wider=False` does. It also keeps credentials where its routes
don't look: a bare token under a credential's key, Google's tokens as JSON in a text, and parts of a credential without
its type.
"""

import re
from collections.abc import Callable
from operator import is_
from typing import Any, Final

from .camel_case import camel_name
from .description import AUTH_CALL
from .json_values import read_stored_or_none
from .mask_patterns import DOTS

_DEEPEST: Final = 250  # levels: nothing deeper is shown, because it could be anything
_GONE: Final = object()

AUTH_TYPES: Final = frozenset(["apiKey", "http", "oauth2", "openIdConnect", "serviceAccount"]) | {
    name
    for kind in ("API_KEY", "HTTP", "OAUTH2", "OPEN_ID_CONNECT", "SERVICE_ACCOUNT")
    for name in (kind, kind.lower())
}


def _both(*names: str) -> frozenset[str]:
    return frozenset(each for name in names for each in (name, camel_name(name)))


CREDENTIALS: Final = _both("raw_auth_credential", "exchanged_auth_credential")
REQUESTED: Final = _both("requested_auth_configs")
_CONFIG: Final = _both("auth_config")
_TYPE: Final = ("authType", "auth_type")
_SECRETS: Final = _both(
    *("password", "token", "additional_headers", "client_secret", "auth_response_uri", "auth_code", "access_token"),
    *("refresh_token", "id_token", "code_verifier", "private_key_id", "private_key", "api_key"),
)
# An object with one of these is a credential, or a part of one; with one of the others, if other fields confirm it.
_TELLING: Final = _both("client_secret", "refresh_token")
_BESIDE: Final = {
    **dict.fromkeys(_both("access_token"), _both("client_id", "token_type", "expires_in", "expires_at", "id_token")),
    **dict.fromkeys(_both("private_key"), _both("private_key_id", "client_email")),
}
# google-adk keeps a bare token under such a key: adk_oauth2_5f3…_oauth2_9ac…
_TOKEN_KEY: Final = re.compile(r"(?:temp:|user:|app:)?adk_(?:apiKey|http|oauth2|openIdConnect)_[0-9a-f]{8,}_\w+")
# A text in which none of these is found has no secrets. Each starts with letters that are searched for together,
# followed by what must be around them: an event of 30 MB is searched seven times instead of seventeen.
_HINTS: Final = (
    # google-adk stores an empty `requested_auth_configs` in every event.
    re.compile(r'uth(?:Type|C|_(?<=auth_)(?!configs": ?\{\}))'),
    re.compile("redential"),
    re.compile("adk_(?:oauth2|http|apiKey|openIdConnect)_"),
    re.compile("oken(?:(?<=accessToken)|(?<=access_token)|(?<=refreshToken)|(?<=refresh_token))"),
    re.compile("lient(?:S|_s)ecret"),
    re.compile("rivate(?:K|_k)ey"),
    re.compile(r"\\u00[3-7]"),  # a letter of a name may be written like this
)

_Put = Callable[[Any], Any]  # returns the replacement of a secret; _GONE leaves it out


def may_hold(text: str) -> bool:
    """Checks quickly whether a JSON text may hold a credential: False is certain."""
    return any(hint.search(text) for hint in _HINTS)


def hidden(value: Any) -> Any:
    """Returns a value with dots in place of secrets; the same object if it has none."""
    return _Look(lambda secret: DOTS if _is_there(secret) else secret).at(value)


def without(value: Any, *, wider: bool = True) -> Any:
    """Returns a value without secrets and their names; the same object if it has none. Without `wider`, only those are
    left out that google-adk's own routes leave out."""
    left = _Look(lambda _secret: _GONE, wider).at(value)
    return None if left is _GONE else left


def secrets_of(value: Any) -> list[Any]:
    """Returns the secrets in a value."""
    secrets: list[Any] = []

    def note(secret: Any) -> Any:
        if _is_there(secret):
            secrets.append(secret)
        return secret

    _Look(note).at(value)
    return secrets


def _is_there(secret: Any) -> bool:
    return secret not in (None, "", [], {})


class _Look:
    """A walk through a value that replaces each secret. It uses loops, because comprehensions would take more levels of
    Python's stack."""

    def __init__(self, put: _Put, wider: bool = True) -> None:
        self._put, self._wider = put, wider

    def at(self, value: Any, depth: int = 0) -> Any:
        """Returns what is left of any value."""
        if not isinstance(value, list | dict):
            return self._text(value)
        if depth > _DEEPEST:
            return DOTS
        if isinstance(value, list):
            return _list(value, self.at, depth)
        if any(isinstance(kind := value.get(name), str) and kind in AUTH_TYPES for name in _TYPE):
            return self._within(value, depth)
        if value.get("name") == AUTH_CALL:
            return self._call(value, depth)
        carriers = CREDENTIALS if self._wider or REQUESTED.isdisjoint(value) else frozenset()
        is_part = self._wider and _is_part(value)
        seen = {}
        for name, each in value.items():
            if name in REQUESTED or name in carriers:
                seen[name] = self._within(each, depth + 1)
            elif (is_part and name in _SECRETS) or (self._wider and self._is_token(name, each)):
                seen[name] = self._put(each)
            else:
                seen[name] = self.at(each, depth + 1)
        return _left(seen, value)

    def _within(self, value: Any, depth: int) -> Any:
        """Returns what is left of a credential: every secret is found by its name, at any depth."""
        if not isinstance(value, list | dict):
            return self._text(value)
        if depth > _DEEPEST:
            return DOTS
        if isinstance(value, list):
            return _list(value, self._within, depth)
        seen = {}
        for name, each in value.items():
            seen[name] = self._put(each) if name in _SECRETS else self._within(each, depth + 1)
        return _left(seen, value)

    def _call(self, value: dict[str, Any], depth: int) -> Any:
        """Returns what is left of a call that asks for a credential, or of the answer to it."""
        seen = {}
        for name, each in value.items():
            if name == "args" and isinstance(each, dict):
                args = {}
                for inner, given in each.items():
                    args[inner] = self._within(given, depth + 2) if inner in _CONFIG or self._wider else given
                seen[name] = _left(args, each)
            else:
                seen[name] = self._within(each, depth + 1) if name == "response" else self.at(each, depth + 1)
        return _left(seen, value)

    def _is_token(self, name: str, value: Any) -> bool:
        return isinstance(value, str) and _TOKEN_KEY.fullmatch(name) is not None

    def _text(self, value: Any) -> Any:
        """Returns a text, or its replacement if it is JSON with secrets, as Google's tokens are kept."""
        if not (self._wider and isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and may_hold(value)):
            return value
        return self._put(value) if secrets_of(read_stored_or_none(value)) else value


def _list(values: list[Any], look: Callable[[Any, int], Any], depth: int) -> list[Any]:
    seen = []
    for each in values:
        seen.append(look(each, depth + 1))
    if all(map(is_, seen, values)):
        return values
    return [each for each in seen if each is not _GONE]


def _left(seen: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if all(map(is_, seen.values(), value.values())):
        return value
    return {name: each for name, each in seen.items() if each is not _GONE}


def _is_part(value: dict[str, Any]) -> bool:
    if not _TELLING.isdisjoint(value):
        return True
    return any(name in value and not beside.isdisjoint(value) for name, beside in _BESIDE.items())
