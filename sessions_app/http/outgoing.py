"""Decides where adkweb may send something that a person named: the public internet by https, and what a setting lists.

A name is resolved once, and the connection is made to the address that was checked: a name that leads elsewhere a
moment later changes nothing.
"""

import http.client
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from ..domain.errors import Invalid

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
    """A URL in parts. `host` is as it is written, `target` what is asked for there; `setting` lists hosts that are allowed
    even if they aren't public, or without https."""

    scheme: str
    host: str
    port: int
    target: str
    setting: str

    @property
    def is_listed(self) -> bool:
        """Tells whether the setting names this host, or this host with this port."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return not {name, self.host, f"{name}:{self.port}"}.isdisjoint(map(str.lower, getattr(settings, self.setting)))

    @property
    def authority(self) -> str:
        """Returns the host and port as the header `Host` names them."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


def read(url: str, setting: str) -> Endpoint:
    """Reads a URL to which adkweb might send: `read("https://example.com/", "WEBHOOK_HOSTS")`. Raises Invalid."""
    if len(url) > LENGTH or not url.isascii() or re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise Invalid(_("This isn't a valid address. Use https://host/path, without spaces."), field="url")
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in _PORTS or "@" in parts.netloc or port == 0:
        raise Invalid(_("This isn't a valid address. Use https://host/path, without spaces."), field="url")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    endpoint = Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], target, setting)
    if endpoint.scheme == "http" and not endpoint.is_listed:
        raise Invalid(
            _("This address must use https. To allow plain http for a host, add it to %(setting)s.")
            % {"setting": f"ADKWEB_{setting}"},
            field="url",
        )
    return endpoint


def host_of(url: str) -> str:
    """Returns the host of a URL that was read before, with its port unless that is the usual one."""
    return urlsplit(url).netloc


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
            _("%(host)s isn't on the public internet. To allow it, add it to %(setting)s.")
            % {"host": endpoint.host, "setting": f"ADKWEB_{endpoint.setting}"},
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


# --- Connecting -------------------------------------------------------------------------------------------------------


def opened(endpoint: Endpoint, seconds: float) -> socket.socket:
    """Returns a connection to the address that was checked. Raises Invalid as `resolve`, and OSError."""
    return socket.create_connection((str(resolve(endpoint)), endpoint.port), timeout=seconds)


def speaking(endpoint: Endpoint, over: socket.socket) -> http.client.HTTPConnection:
    """Returns what speaks HTTP over a connection, and opens no other one: that would resolve the name again."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port)
    connection.sock = over
    connection.auto_open = 0
    return connection
