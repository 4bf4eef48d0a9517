"""Offers what an ADK agent plugs in: session services, the companion, and replay. No other part of adkweb needs google-adk.

    from adkweb import DjangoSessionService, HttpSessionService

    service = DjangoSessionService("postgresql://agent@host/sessions", on_stale="rebase")
    service = HttpSessionService("http://host:8000", token="adkweb_…", on_stale="rebase")

`base` has what both services share: ADK's semantics, and what happens to a session that someone else has changed.
`conversion` turns ADK's objects into stored JSON and back. A backend keeps the sessions and works in `threads`. It is
either `table_store`, for which `django_service` sets Django up, or `http_store` with `http_client` and `http_answers`.
`companion` reports what runs, and `replay` runs a recorded session again. Only `django_service` and `table_store` need
Django: each name is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .companion import Companion
    from .django_service import DjangoSessionService
    from .http_service import HttpSessionService, register
    from .replay import Replay

__all__ = ["Companion", "DjangoSessionService", "HttpSessionService", "Replay", "register"]

_MODULES = {
    "Companion": "companion",
    "DjangoSessionService": "django_service",
    "HttpSessionService": "http_service",
    "Replay": "replay",
    "register": "http_service",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
