"""Offers the session services that an ADK agent plugs in. No other part of adkweb needs google-adk.

    from adkweb import DjangoSessionService, HttpSessionService

    service = DjangoSessionService("postgresql://agent@host/sessions", on_stale="rebase")
    service = HttpSessionService("http://host:8000", token="adkweb_…", on_stale="rebase")

`base` has what both services share: ADK's semantics, and what happens to a session that someone else has changed.
`conversion` turns ADK's objects into stored JSON and back. A backend keeps the sessions and works in `threads`. It is
either `table_store`, for which `django_service` sets Django up, or `http_store` with `http_client` and `http_answers`,
which need no Django.
"""

from .django_service import DjangoSessionService
from .http_service import HttpSessionService, register

__all__ = ["DjangoSessionService", "HttpSessionService", "register"]
