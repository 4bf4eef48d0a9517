"""The session services that an ADK agent plugs in; nothing else of adkweb needs google-adk.

    from sessions_app.adk import DjangoSessionService

    service = DjangoSessionService("postgresql://agent@host/sessions", on_stale="rebase")

`service` is what both services share: ADK's semantics, and what becomes of a session that somebody else has changed.
`objects` turns ADK's objects into stored JSON and back. `django_service` sets Django up; `tables` is its store, which works
in threads of `crew`.
"""

from .django_service import DjangoSessionService

__all__ = ["DjangoSessionService"]
