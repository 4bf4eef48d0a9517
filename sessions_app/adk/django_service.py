"""Offers DjangoSessionService, which reads and writes the tables directly, in a Django process or any other."""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import django
from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE, Settings, settings

from .base import OnRebase, OnStale, StoredSessionService

_SETTINGS: Final = "adkweb.settings"
_lock: Final = threading.Lock()


class DjangoSessionService(StoredSessionService):
    """ADK's session service on the tables that adkweb shows.

    `source` is a SQLite file (created if there is none), a sqlite: or postgresql: URL, or the alias of a source that
    this process already knows. With `on_stale="rebase"`, an edit by someone else does not end a run: the session
    receives it, and `on_rebase(session, events)` is called, if given. One service works in any number of event loops
    and threads.
    """

    def __init__(self, source: str, *, on_stale: OnStale = "raise", on_rebase: OnRebase | None = None) -> None:
        with _lock:
            _set_up_django()
        from . import table_store  # it imports models, for which Django must be set up

        super().__init__(table_store.Tables(table_store.alias_of(source)), on_stale, on_rebase)


def _set_up_django() -> None:
    """Sets Django up, unless it is already set up. The logging and the time zone of the process stay as they are."""
    if not settings.configured and ENVIRONMENT_VARIABLE not in os.environ:
        with _kept("TZ", "ADKWEB_SECRET_KEY"):
            # Nothing here is signed, so no key has to be kept in a folder that may not be writable.
            os.environ.setdefault("ADKWEB_SECRET_KEY", secrets.token_urlsafe())
            settings.configure(default_settings=Settings(_SETTINGS), LOGGING_CONFIG=None)
        time.tzset()
    if not apps.ready:
        django.setup()
    if not apps.is_installed("sessions_app"):
        raise RuntimeError(
            "This process runs a Django project without adkweb: add sessions_app.apps.SessionsConfig to its "
            "INSTALLED_APPS, and to its settings those of adkweb/environment.py that docs/settings.md names."
        )


@contextmanager
def _kept(*names: str) -> Iterator[None]:
    """Restores environment variables at the end."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
