"""Sends rows of the audit to a syslog: RFC 5424, over UDP, TCP (RFC 6587, with the length first) or a local socket.

TCP has no answer that says what the receiver has. So each delivery is a connection of its own: the receiver closes it when
it has read all. If it closes earlier, the rows are sent again.
"""

import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from . import chain
from .forwarding import Row

SECONDS: Final = 10.0  # for a connection, for sending, and for the receiver to close it
MOST: Final = 200  # rows that are sent at once
_LONGEST: Final = 60_000  # bytes of a row: a datagram holds no more
_CUT: Final = 200  # characters that are left of each text of a longer one
_PRIORITY: Final = 13 * 8 + 5  # facility "log audit", severity "notice"
_READ: Final = 4_096

Address = tuple[str, str, int]  # ("udp" or "tcp", host, port), ("unix", path, 0)


def deliver(address: Address, rows: Sequence[Row]) -> str:
    """Sends rows, and returns what went wrong; "" if nothing did."""
    messages = [message(row) for row in rows]
    kind, where, port = address
    try:
        if kind == "tcp":
            _through(socket.create_connection((where, port), timeout=SECONDS), messages)
        elif kind == "udp":
            family, _type, protocol, _name, target = socket.getaddrinfo(where, port, type=socket.SOCK_DGRAM)[0]
            _datagrams(socket.socket(family, socket.SOCK_DGRAM, protocol), target, messages)
        else:
            _datagrams(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), where, messages)
    except (OSError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def message(row: Row) -> bytes:
    """Returns a row as a message. It is one line of ASCII, whatever names are in it."""
    at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="microseconds")
    host = "".join(char for char in socket.gethostname() if "!" <= char <= "~")[:255] or "-"
    return f"<{_PRIORITY}>1 {at} {host} adkweb {os.getpid()} {row.act} - {_fitting(row.text)}".encode()


def _fitting(text: str) -> str:
    """Returns the JSON of a row, or of what is left of one that is too long: somebody may have chosen long names."""
    if len(text) <= _LONGEST:
        return text
    fields: dict[str, Any] = json.loads(text)
    cut = {name: value[:_CUT] if isinstance(value, str) else value for name, value in fields.items()}
    return chain.canonical({**cut, "cut": True})


def _through(connection: socket.socket, messages: Sequence[bytes]) -> None:
    """Sends messages through a connection, and waits until the receiver closes it."""
    with closing(connection):
        connection.sendall(b"".join(b"%d %s" % (len(each), each) for each in messages))
        connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + SECONDS
        while connection.recv(_READ):  # it need not say anything
            if time.monotonic() > until:
                raise TimeoutError("the receiver does not close the connection")


def _datagrams(handle: socket.socket, target: Any, messages: Sequence[bytes]) -> None:
    with closing(handle):
        handle.settimeout(SECONDS)
        handle.connect(target)
        for each in messages:
            handle.send(each)
        # The system knows only afterwards that nobody listens at a port.
        if error := handle.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
