"""Limits how often someone asks: a person, a token, or the address of someone unknown.

    count("person", "maria", settings.RATE_PERSON)  # raises TooOften, with the seconds to wait

A limit is a number of requests a minute. After a minute without any, that many may also come at once. Each process
counts separately, in memory.
"""

import ipaddress
import math
import threading
import time
from typing import Final, Literal

from django.utils.translation import ngettext

from ..domain.errors import TooOften

Kind = Literal["person", "token", "address"]

MOST: Final = 20_000  # remembered at a time
_MINUTE: Final = 60.0

paid: dict[tuple[Kind, str], float] = {}  # until when each has used up what it may, by the steady rate
_lock: Final = threading.Lock()


def count(kind: Kind, name: str, most: int) -> None:
    """Counts a request. Raises TooOften if there were more than `most` a minute; 0 is no limit."""
    if most <= 0:
        return
    now = time.monotonic()
    with _lock:
        until = max(paid.get((kind, name), now), now) + _MINUTE / most
        wait = until - now - _MINUTE
        if wait <= 1e-6:  # a refused request isn't counted, so waiting as long as asked is enough
            paid[kind, name] = until
            if len(paid) > MOST:
                _forget(now)
            return
    seconds = math.ceil(wait)
    text = ngettext(
        "Too many requests. Nothing was written. Try again in %(n)s second.",
        "Too many requests. Nothing was written. Try again in %(n)s seconds.",
        seconds,
    )
    raise TooOften(text % {"n": seconds}, retry_after=seconds)


def count_address(address: str, most: int) -> None:
    """Counts a request of someone unknown. This machine's own addresses have no limit: a proxy may hide everyone."""
    if not _is_own(address):
        count("address", network_of(address), most)


def network_of(address: str) -> str:
    """Returns an IPv4 address as it is, and an IPv6 address as its /64 network: one sender has all addresses in it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def forget() -> None:
    """Forgets all counts."""
    with _lock:
        paid.clear()


def _is_own(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a socket in the file system, which has no address
        return True
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _forget(now: float) -> None:
    """Forgets those who may do as much as a newcomer, and if they are too few, those who asked least."""
    for key in [key for key, until in paid.items() if until <= now]:
        del paid[key]
    if len(paid) > MOST:
        for key in sorted(paid, key=paid.__getitem__)[: MOST // 2]:
            del paid[key]
