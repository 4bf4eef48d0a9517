"""Slows down guessing: after wrong passwords, the next try has to wait. Tries are counted by name and by address.

    person = person_of(request, "maria", "correct horse battery staple")  # None if it is wrong; raises TooOften

All processes that share adkweb's own database count together. A try is counted before its password is checked, so
trying many at once gains nothing.
"""

import hashlib
import logging
import math
import threading
import time
from typing import Final

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils.translation import ngettext

from ..domain.errors import TooOften
from ..models import PasswordTries
from .audit.record import record
from .rates import network_of

log = logging.getLogger("adkweb.sign_in")

FREE: Final = 5  # tries before the first pause; each further try doubles the pause
FIRST_PAUSE: Final = 5.0  # seconds
LONGEST_PAUSE: Final = 15 * 60
LONGEST_PASSWORD: Final = 4096  # characters; hashing a longer one would be wasted work
_FORGOTTEN_SECONDS: Final = 24 * 60 * 60
_HASHES: Final = 2  # at the same time: each takes a core for a third of a second
_HASH_SECONDS: Final = 5.0
RETRY_AFTER: Final = "adkweb.retry_after"  # in the META of a request: the value of that header of its answer
_hashing: Final = threading.BoundedSemaphore(_HASHES)


def person_of(request: HttpRequest, name: str, password: str, kind: str = "name") -> User | None:
    """Returns the person with this name and password, or None if they are wrong. `kind` is as in `begin`.

    Raises TooOften."""
    address = request.META.get("REMOTE_ADDR", "")
    tried = begin(request, kind, name)
    person = _authenticated(request, name, password) if len(password) <= LONGEST_PASSWORD else None
    if person is None:
        log.warning("%s: a wrong password from %s", name, address)
        record("sign-in-failed", _known(name), how="password")
    else:
        succeeded(tried)
    return person


def begin(request: HttpRequest, kind: str, name: str) -> tuple[str, ...]:
    """Counts a try, of a password ("name"), of a code ("code"), or of the password that someone who is signed in
    repeats ("confirm"). A "confirm" slows down only that person. Returns the argument for `succeeded`. Raises
    TooOften."""
    address = request.META.get("REMOTE_ADDR", "")
    tried: tuple[str, ...] = (key_of(kind, name),)
    if kind != "confirm":
        tried += (key_of("address", network_of(address)),)
    pause = _count(sorted(tried))
    if pause > 0:
        what = "code" if kind == "code" else "password"
        log.warning("%s: no further %s is tried from %s for %d s", name, what, address, math.ceil(pause))
        raise _too_often(request, kind, pause)
    return tried


def succeeded(tried: tuple[str, ...]) -> None:
    """Forgets the tries of a name, because one was right, and this one of its address."""
    whose, *where = tried
    PasswordTries.objects.filter(pk=whose).delete()
    PasswordTries.objects.filter(pk__in=where, count__gt=0).update(count=F("count") - 1)


def _too_often(request: HttpRequest, kind: str, pause: float) -> TooOften:
    """Returns the refusal of a try. Its answer also tells programs when the next try is allowed."""
    seconds = math.ceil(pause)
    request.META[RETRY_AFTER] = str(seconds)
    if kind == "code":
        text = ngettext(
            "Too many failed attempts. Try again in %(n)s second.",
            "Too many failed attempts. Try again in %(n)s seconds.",
            seconds,
        )
    else:
        text = ngettext(
            "Too many wrong passwords. Try again in %(n)s second.",
            "Too many wrong passwords. Try again in %(n)s seconds.",
            seconds,
        )
    return TooOften(text % {"n": seconds}, field="code" if kind == "code" else "old")


def _authenticated(request: HttpRequest, name: str, password: str) -> User | None:
    if not _hashing.acquire(timeout=_HASH_SECONDS):
        raise _too_often(request, "name", _HASH_SECONDS)
    try:
        return authenticate(request, username=name, password=password)
    finally:
        _hashing.release()


def _known(name: str) -> str:
    """Returns a name if an account has it, else "": people sometimes type a password into the name field."""
    return name if User.objects.filter(username=name).exists() else ""


def _count(keys: list[str]) -> float:
    """Counts a try and returns 0.0. If no try is allowed yet, counts nothing and returns the seconds until one is."""
    now = time.time()
    PasswordTries.objects.filter(seen__lt=now - _FORGOTTEN_SECONDS).delete()
    with transaction.atomic():
        for key in keys:
            PasswordTries.objects.get_or_create(pk=key)
        rows = list(PasswordTries.objects.select_for_update().filter(pk__in=keys).order_by("pk"))
        pause: float = max(row.until for row in rows) - now
        if pause > 0:
            return pause
        for row in rows:
            row.count, row.seen = row.count + 1, now
            row.until = now + _pause_after(row.count)
            row.save()
    return 0.0


def _pause_after(count: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(count - FREE, 30)) if count >= FREE else 0.0


def key_of(kind: str, text: str) -> str:
    """Returns a hash to count under: people sometimes type a password into the name field, so no plain text is kept."""
    return hashlib.sha256(f"{kind}\n{text}".encode("utf-8", "replace")).hexdigest()
