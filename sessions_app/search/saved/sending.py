"""Sends webhooks: to addresses that outgoing.py allows, signed, without following redirects, and never for long."""

import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Final

from django.utils.translation import gettext as _

from ...domain.errors import Invalid
from ...http import outgoing
from ..lines import clean

HOSTS: Final = "WEBHOOK_HOSTS"  # the setting that lists hosts that webhooks can be sent to, too
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
    endpoint = outgoing.read(url, HOSTS)
    sockets = [outgoing.opened(endpoint, SECONDS)]
    late = threading.Timer(SECONDS, _cut, [sockets])
    late.daemon = True
    late.start()
    try:
        if endpoint.scheme == "https":
            context = ssl.create_default_context()
            wrapped = context.wrap_socket(sockets[0], server_hostname=endpoint.host, do_handshake_on_connect=False)
            sockets.append(wrapped)
            wrapped.do_handshake()
        connection = outgoing.speaking(endpoint, sockets[-1])
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


def _cut(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
