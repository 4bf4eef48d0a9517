"""The session services that an ADK agent plugs in; nothing else of adkweb needs google-adk.

    from adkweb import DjangoSessionService, HttpSessionService

    service = DjangoSessionService("postgresql://agent@host/sessions", on_stale="rebase")
    service = HttpSessionService("http://host:8000", token="adkweb_…", on_stale="rebase")

`base` is what both share: ADK's semantics, and what becomes of a session that somebody else has changed. `conversion` turns
ADK's objects into stored JSON and back. A store does its work in `threads`: `table_store`, for which `django_service`
sets Django up; and `http_store`, for `http_service`, which needs no Django that is set up.
"""

from .django_service import DjangoSessionService
from .http_service import HttpSessionService, register

__all__ = ["DjangoSessionService", "HttpSessionService", "register"]
