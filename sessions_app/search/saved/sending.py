"""Sends webhooks: to addresses of the public internet, signed, without following redirects, and never for long.

A name is resolved once, and the connection is made to the address that was checked: a name that leads elsewhere a
moment later changes nothing.
"""

import hashlib
import hmac
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from ...domain.errors import Invalid
from ..lines import clean

# --- Where it may go: the public internet by https, and what the settings list ----------------------------------------

LENGTH: Final = 2_000
_PORTS: Final = {"https": 443, "http": 80}
_TRANSLATED: Final = tuple(  # ranges that stand for IPv4 addresses: mapped, compatible, NAT64, 6to4, Teredo
    map(ipaddress.IPv6Network, ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # what there is of a public internet
# Ranges of IANA's registries of special-purpose addresses that Python, or an older one, calls global: for protocols,
# AS112, multicast tunnels, the old relays of 6to4, documentation. What answers there may stand in one's own network.
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24"),
            *("2001::/23", "2620:4f:8000::/48", "3fff::/20"),
        ),
    )
)
IP = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL in parts. `host` is as it is written, `target` what is asked for there."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def is_listed(self) -> bool:
        """Tells whether ADKWEB_WEBHOOK_HOSTS names this host, or this host with this port."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return not {name, self.host, f"{name}:{self.port}"}.isdisjoint(map(str.lower, settings.WEBHOOK_HOSTS))

    @property
    def authority(self) -> str:
        """Returns the host and port as the header `Host` names them."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


def read(url: str) -> Endpoint:
    """Reads a URL to which adkweb might send. Raises Invalid."""
    if len(url) > LENGTH or not url.isascii() or re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise Invalid(_("This isn't a valid webhook address. Use https://host/path, without spaces."), field="url")
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in _PORTS or "@" in parts.netloc or port == 0:
        raise Invalid(_("This isn't a valid webhook address. Use https://host/path, without spaces."), field="url")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    endpoint = Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], target)
    if endpoint.scheme == "http" and not endpoint.is_listed:
        raise Invalid(
            _("Webhooks must use https. To allow plain http for a host, add it to ADKWEB_WEBHOOK_HOSTS."), field="url"
        )
    return endpoint


def resolve(endpoint: Endpoint) -> IP:
    """Returns the address to connect to. Raises Invalid if one of the name's addresses is not public, and OSError."""
    try:
        answers = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from error
    addresses = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    if not addresses:
        raise OSError("no address")
    if not endpoint.is_listed and not all(map(is_public, addresses)):
        raise Invalid(
            _("%(host)s isn't on the public internet. To allow it, add it to ADKWEB_WEBHOOK_HOSTS.")
            % {"host": endpoint.host},
            field="url",
        )
    return addresses[0]


def is_public(address: IP) -> bool:
    """Tells whether an address is one of the public internet: not this machine, its network, or many machines at once."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    if any(address in network for network in (*_TRANSLATED, *_SPECIAL)):  # of the other version, none is in a network
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


# --- Sending ----------------------------------------------------------------------------------------------------------

SECONDS: Final = 10.0  # for all of an exchange
WORDS: Final = 300  # characters of what went wrong
_READ: Final = 4_096  # bytes of an answer


def signature(secret: str, body: bytes, at: int) -> str:
    """Returns the header Adkweb-Signature: the time, and the HMAC-SHA256 of time, dot and body."""
    code = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={code}"


def send(url: str, body: bytes, secret: str, delivery: str) -> int:
    """Posts a body to an address and returns the status of the answer.

    Raises Invalid for an address that is not allowed, and OSError or HTTPException if there is no answer."""
    endpoint = read(url)
    sockets = [_opened(endpoint)]
    late = threading.Timer(SECONDS, _cut, [sockets])
    late.daemon = True
    late.start()
    try:
        if endpoint.scheme == "https":
            context = ssl.create_default_context()
            wrapped = context.wrap_socket(sockets[0], server_hostname=endpoint.host, do_handshake_on_connect=False)
            sockets.append(wrapped)
            wrapped.do_handshake()
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=SECONDS)
        connection.sock = sockets[-1]
        connection.auto_open = 0  # it would resolve the name again
        headers = {
            "Host": endpoint.authority,
            "Content-Type": "application/json",
            "User-Agent": "adkweb",
            "Adkweb-Delivery": delivery,
            "Adkweb-Signature": signature(secret, body, int(time.time())),
            "Connection": "close",
        }
        connection.request("POST", endpoint.target, body, headers)
        answer = connection.getresponse()
        answer.read(_READ)
        return answer.status
    finally:
        late.cancel()
        for each in sockets:
            each.close()


def deliver(url: str, body: bytes, secret: str, delivery: str) -> tuple[int | None, str]:
    """Sends as `send` does. Returns the status of the answer, and what went wrong; "" if nothing did."""
    try:
        status = send(url, body, secret, delivery)
    except Invalid as error:
        return None, error.message
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, clean(f"{type(error).__name__}: {error}", WORDS)  # the receiver may have chosen the words
    if 200 <= status < 300:
        return status, ""
    return status, _("Redirects aren't followed.") if 300 <= status < 400 else _("The response wasn't successful.")


def _opened(endpoint: Endpoint) -> socket.socket:
    """Returns a connection to the address that was checked."""
    return socket.create_connection((str(resolve(endpoint)), endpoint.port), timeout=SECONDS)


def _cut(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
