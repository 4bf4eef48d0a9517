"""Passwords that are wrong make the next try wait, by name and by address; all processes that share adkweb's own database
count together.

    person = person_of(request, "maria", "correct horse battery staple")  # None where it is wrong; raises TryLater

A try is counted before its password is looked at, so that tries at the same moment win nothing.
"""

import hashlib
import ipaddress
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

from ..models import PasswordTries

log = logging.getLogger("adkweb.sign_in")

FREE: Final = 5  # tries before the first pause; after each further one it is twice as long
FIRST_PAUSE: Final = 5.0  # seconds
LONGEST_PAUSE: Final = 15 * 60
LONGEST_PASSWORD: Final = 4096  # characters; to hash a longer one is work for nothing
_FORGOTTEN_SECONDS: Final = 24 * 60 * 60
_HASHES: Final = 2  # at once: each takes a core for a third of a second
_HASH_SECONDS: Final = 5.0
_hashing: Final = threading.BoundedSemaphore(_HASHES)


class TryLater(Exception):
    """Too many tries: `seconds` until the next one."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = math.ceil(seconds)


def person_of(request: HttpRequest, name: str, password: str) -> User | None:
    """The person whose name and password these are; None where they are nobody's. Raises TryLater."""
    address = request.META.get("REMOTE_ADDR", "")
    whose, where = key_of("name", name), key_of("address", _network(address))
    pause = _count(sorted((whose, where)))
    if pause > 0:
        log.warning("%s: no further password is tried from %s for %d s", name, address, math.ceil(pause))
        raise TryLater(pause)
    person = _authenticated(request, name, password) if len(password) <= LONGEST_PASSWORD else None
    if person is None:
        log.warning("%s: a wrong password from %s", name, address)
    else:
        PasswordTries.objects.filter(pk=whose).delete()
        PasswordTries.objects.filter(pk=where, count__gt=0).update(count=F("count") - 1)
    return person


def _authenticated(request: HttpRequest, name: str, password: str) -> User | None:
    if not _hashing.acquire(timeout=_HASH_SECONDS):
        raise TryLater(_HASH_SECONDS)
    try:
        return authenticate(request, username=name, password=password)
    finally:
        _hashing.release()


def _count(keys: list[str]) -> float:
    """Counts a try, or returns the seconds until there may be one."""
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


def _network(address: str) -> str:
    """An address; of IPv6 its network, as one sender has all the addresses in it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def key_of(kind: str, text: str) -> str:
    """A hash: somebody may have typed a password where the name belongs."""
    return hashlib.sha256(f"{kind}\n{text}".encode("utf-8", "replace")).hexdigest()
