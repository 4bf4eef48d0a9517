"""Browsers' sign-ins in Django's table of sessions, where only a hash of each key is kept: who can read the table, or a
backup of it, can sign in as nobody. Django's SESSION_ENGINE.
"""

import hashlib
from typing import Any

from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.utils import timezone


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

    def exists(self, session_key: str) -> bool:
        """Whether a key is taken."""
        return super().exists(digest(session_key))

    def create_model_instance(self, data: Any) -> AbstractBaseSession:
        """The row, under the key's hash."""
        row = super().create_model_instance(data)
        row.session_key = digest(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """Ends this sign-in, or the one of a key."""
        super().delete(digest(session_key or self.session_key))
