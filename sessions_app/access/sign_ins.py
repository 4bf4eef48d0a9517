"""Browsers' sign-ins in Django's table of sessions, where only a hash of each key is kept: who can read the table, or a
backup of it, can sign in as nobody. Django's SESSION_ENGINE.
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
_STEP: Final = 0.1  # of the time that a browser may be idle, after which its use is noted


def digest(key: str | None) -> str:
    """The form in which a key is stored: 160 bits, as many as the column has room for."""
    return hashlib.sha256((key or "").encode("utf-8", "replace")).hexdigest()[:40]


class SessionStore(db.SessionStore):
    """Django's store; what it would look up, write and delete by key goes by the key's hash. Pages are synchronous, and so
    is this.
    """

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        rows = Session.objects.filter(session_key=digest(self.session_key), expire_date__gt=timezone.now())
        row = rows.first()
        if row is None:
            self._session_key = None
        return row

    def load(self) -> dict[str, Any]:
        """What a sign-in holds; to use it keeps it from ending, now and then by a write."""
        row = self._get_session_from_db()
        if row is None:
            return {}
        data = self.decode(row.session_data)
        expires = _expires(data)
        if (expires - row.expire_date).total_seconds() > settings.IDLE_SECONDS * _STEP:
            with suppress(OperationalError):  # locked: whoever asks next notes it
                Session.objects.filter(pk=row.pk).update(expire_date=expires)
        return data

    def exists(self, session_key: str) -> bool:
        """Whether a key is taken."""
        return super().exists(digest(session_key))

    def create_model_instance(self, data: Any) -> AbstractBaseSession:
        """The row, under the key's hash."""
        data.setdefault(_BEGAN, time.time())
        row = super().create_model_instance(data)
        row.session_key, row.expire_date = digest(row.session_key), _expires(data)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """Ends this sign-in, or the one of a key."""
        super().delete(digest(session_key or self.session_key))


def _expires(data: dict[str, Any]) -> datetime:
    """A while after the last use, and at the latest SESSION_COOKIE_AGE after the beginning."""
    began = datetime.fromtimestamp(data.get(_BEGAN, time.time()), UTC)
    latest = began + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return min(latest, timezone.now() + timedelta(seconds=settings.IDLE_SECONDS))
