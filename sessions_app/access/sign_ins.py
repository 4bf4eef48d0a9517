"""Keeps the sign-ins of browsers in Django's session table, under a hash of each key. This is Django's SESSION_ENGINE.

Somebody who reads the table, or a backup of it, cannot sign in with what is in it.
"""

import hashlib
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.utils import timezone

_BEGAN: Final = "began"
_STEP: Final = 0.1  # share of IDLE_SECONDS after which the use of a sign-in is written down


def digest(key: str | None) -> str:
    """Returns the hash under which a key is stored: 160 bits, which is all the column has room for."""
    return hashlib.sha256((key or "").encode("utf-8", "replace")).hexdigest()[:40]


class SessionStore(db.SessionStore):
    """Django's session store, which looks up, writes and deletes rows by the hash of the key.

    Pages are synchronous, so only the synchronous methods are changed.
    """

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        rows = Session.objects.filter(session_key=digest(self.session_key), expire_date__gt=timezone.now())
        row = rows.first()
        if row is None:
            self._session_key = None
        return row

    def load(self) -> dict[str, Any]:
        """Returns the data of a sign-in. Using a sign-in puts off its end, which is written down only now and then."""
        row = self._get_session_from_db()
        if row is None:
            return {}
        data = self.decode(row.session_data)
        expires = _expires(data)
        if (expires - row.expire_date).total_seconds() > settings.IDLE_SECONDS * _STEP:
            with suppress(OperationalError):  # locked: the next request writes it
                Session.objects.filter(pk=row.pk).update(expire_date=expires)
        return data

    def exists(self, session_key: str) -> bool:
        """Tells whether a key is in use."""
        return super().exists(digest(session_key))

    def create_model_instance(self, data: Any) -> AbstractBaseSession:
        """Returns the row to store, under the key's hash."""
        data.setdefault(_BEGAN, time.time())
        row = super().create_model_instance(data)
        row.session_key, row.expire_date = digest(row.session_key), _expires(data)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """Ends this sign-in, or the one with the given key."""
        super().delete(digest(session_key or self.session_key))


def _expires(data: dict[str, Any]) -> datetime:
    """Returns when a sign-in ends: IDLE_SECONDS from now, but at most SESSION_COOKIE_AGE after it began."""
    began = datetime.fromtimestamp(data.get(_BEGAN, time.time()), UTC)
    latest = began + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return min(latest, timezone.now() + timedelta(seconds=settings.IDLE_SECONDS))
