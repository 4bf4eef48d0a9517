"""Keeps the sign-ins of browsers in Django's session table, under a hash of each key. This is Django's SESSION_ENGINE.

Someone who reads the table, or a backup of it, cannot sign in with what is in it.
"""

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.contrib.sessions.models import Session as SignIn
from django.db import OperationalError
from django.http import HttpRequest
from django.utils import timezone

BEGAN: Final = "began"
USED: Final = "used"
CHECKED: Final = "checked"  # the person showed a second factor, or opened the link on this machine
_STEP: Final = 0.1  # share of IDLE_SECONDS after which the use of a sign-in is written,
_LONGEST_STEP: Final = 3600.0  # but at least each hour, because people see when a browser was used


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
        """Returns the data of a sign-in. Using a sign-in delays its end, which is written only now and then."""
        row = self._get_session_from_db()
        if row is None:
            return {}
        data = self.decode(row.session_data)
        if has_ended(data):
            self._session_key = None
            return {}
        now = time.time()
        since = now - data.get(USED, data.get(BEGAN, 0.0))
        put_off = (_expires(data) - row.expire_date).total_seconds()
        if max(since, put_off) > min(settings.IDLE_SECONDS * _STEP, _LONGEST_STEP):
            # If another request has changed the data in the meantime, that change stays, and a later request writes the
            # use.
            same = Session.objects.filter(pk=row.pk, session_data=row.session_data)
            data[USED] = now
            with suppress(OperationalError):  # locked: the next request writes it
                same.update(session_data=self.encode(data), expire_date=_expires(data))
        return data

    def exists(self, session_key: str) -> bool:
        """Returns whether a key is in use."""
        return super().exists(digest(session_key))

    def create_model_instance(self, data: Any) -> AbstractBaseSession:
        """Returns the row to store, under the key's hash."""
        data.setdefault(BEGAN, time.time())
        data.setdefault(USED, time.time())
        row = super().create_model_instance(data)
        row.session_key, row.expire_date = digest(row.session_key), _expires(data)
        return row

    def save(self, must_create: bool = False) -> None:
        """Stores this sign-in. Raises OperationalError if the database can't be reached: no one was signed out then."""
        try:
            super().save(must_create)
        except UpdateError as error:
            if isinstance(error.__context__, OperationalError):
                raise error.__context__ from None
            raise

    def end_within(self, seconds: float) -> None:
        """Makes this sign-in end soon, because the browser's person is not known yet."""
        self[BEGAN] = time.time() + seconds - settings.SESSION_COOKIE_AGE

    def delete(self, session_key: str | None = None) -> None:
        """Ends this sign-in, or the one with the given key."""
        super().delete(digest(session_key or self.session_key))


def has_ended(data: dict[str, Any]) -> bool:
    """Returns whether a sign-in is older than the limits allow now, or had no second factor where everyone needs
    one."""
    if settings.REQUIRE_SECOND_FACTOR and SESSION_KEY in data and not data.get(CHECKED):
        return True
    now = time.time()
    began = data.get(BEGAN, now)
    return bool(min(began + settings.SESSION_COOKIE_AGE, data.get(USED, now) + settings.IDLE_SECONDS) <= now)


def _expires(data: dict[str, Any]) -> datetime:
    """Returns when a sign-in ends: IDLE_SECONDS from now, but at most SESSION_COOKIE_AGE after it started."""
    began = datetime.fromtimestamp(data.get(BEGAN, time.time()), UTC)
    latest = began + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return min(latest, timezone.now() + timedelta(seconds=settings.IDLE_SECONDS))


# --- The browsers that a person is signed in with ---------------------------------------------------------------------

_LONGEST: Final = 400  # characters of a browser's user agent


@dataclass(frozen=True, slots=True)
class Browser:
    """A sign-in. `digest` identifies it without revealing its key; `agent` is the browser's user agent."""

    digest: str
    agent: str
    address: str
    began: datetime
    used: datetime
    ends: datetime
    current: bool


def note(request: HttpRequest) -> None:
    """Notes in a new sign-in which browser it is and where it came from."""
    request.session["agent"] = request.headers.get("User-Agent", "")[:_LONGEST]
    request.session["address"] = request.META.get("REMOTE_ADDR", "")


def listed(person_id: int, current_key: str | None = None) -> list[Browser]:
    """Returns a person's sign-ins that have not ended: the one with this key first, then by their last use."""
    current = digest(current_key) if current_key else ""
    rows = [_browser(row, data, current) for row, data in _rows(person_id)]
    return sorted(rows, key=lambda each: (each.current, each.used), reverse=True)


def end(person_id: int, which: str) -> bool:
    """Signs one of a person's browsers out. Returns False if it was signed out already, or is not theirs."""
    rows = [row.pk for row, _data in _rows(person_id) if row.pk == which]
    return bool(SignIn.objects.filter(pk__in=rows).delete()[0])


def end_all(person_id: int) -> int:
    """Signs a person out in every browser. Returns how many there were."""
    return SignIn.objects.filter(pk__in=[row.pk for row, _data in _rows(person_id)]).delete()[0]


def _rows(person_id: int) -> list[tuple[SignIn, dict[str, Any]]]:
    rows = [(row, row.get_decoded()) for row in SignIn.objects.filter(expire_date__gt=timezone.now())]
    return [(row, data) for row, data in rows if data.get(SESSION_KEY) == str(person_id) and not has_ended(data)]


def _browser(row: SignIn, data: dict[str, Any], current: str) -> Browser:
    began = data.get(BEGAN, 0.0)
    used = datetime.fromtimestamp(data.get(USED, began), UTC)
    agent, address = str(data.get("agent", "")), str(data.get("address", ""))
    return Browser(row.pk, agent, address, datetime.fromtimestamp(began, UTC), used, row.expire_date, row.pk == current)
