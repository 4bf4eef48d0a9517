"""A pooler in transaction mode between adkweb and a real PostgreSQL, for tests.

Like PgBouncer 1.18, it refuses settings in the first message, names a process of its own, and knows nothing of prepared
statements. It is harder than PgBouncer: no two transactions in a row get the same connection to the server, so what a
session keeps there is lost at once, and not only when others work, too.
"""

import contextlib
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, Final

_TAKEN: Final = {"user", "database", "client_encoding", "application_name", "datestyle", "timezone"}
_CONNECTIONS: Final = 3  # to the server, for all
_UNENCRYPTED: Final = (80877103, 80877104)  # a client asks for TLS or GSSAPI first


@contextlib.contextmanager
def pooler(url: str) -> Iterator[str]:
    """Stands before the database of a URL. Yields the URL of the pooler."""
    head, _at, tail = url.rpartition("@")
    address, _slash, name = tail.partition("/")
    host, _colon, port = address.partition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = _Pool((host, int(port)), name)
        threading.Thread(target=_accept, args=[listener, pool], daemon=True).start()
        try:
            yield f"{head}@127.0.0.1:{listener.getsockname()[1]}/{name}"
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            pool.close()


class _Pool:
    """The connections to the server. Who gives one back stands at the end of the queue."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self._address, self._name = address, name
        self._free: queue.Queue[Any] = queue.Queue()
        self._all: list[Any] = []
        self.greeting = b""  # what the server says of itself
        for _ in range(_CONNECTIONS):
            self.give(self._connect())

    def take(self) -> Any:
        return self._free.get(timeout=30)

    def give(self, server: Any) -> None:
        self._free.put(server)

    def replace(self) -> None:
        self.give(self._connect())

    def close(self) -> None:
        for server in self._all:
            with contextlib.suppress(OSError):
                server.close()

    def _connect(self) -> Any:
        with socket.create_connection(self._address) as connection:
            server = connection.makefile("rwb")
        self._all.append(server)
        start = f"user\0postgres\0database\0{self._name}\0client_encoding\0UTF8\0\0".encode()
        server.write(struct.pack("!ii", len(start) + 8, 196608) + start)
        server.flush()
        greeting = b""
        while (message := _message(server))[0] != b"Z":
            assert message[0] != b"E", message
            greeting += _bytes(*message) if message[0] == b"S" else b""
        self.greeting = greeting
        return server


def _accept(listener: socket.socket, pool: _Pool) -> None:
    while True:
        try:
            client, _address = listener.accept()
        except OSError:  # the end of the test
            return
        threading.Thread(target=_serve, args=[client, pool], daemon=True).start()


def _serve(connection: socket.socket, pool: _Pool) -> None:
    server = None
    with connection, connection.makefile("rwb") as client, contextlib.suppress(OSError, ValueError, EOFError):
        if not _greeted(connection, client, pool):
            return
        while (message := _message(client))[0] != b"X":
            server = server or pool.take()
            server.write(_bytes(*message))
            if message[0] in b"QSc":
                server.flush()
                while (answer := _message(server))[0] not in b"ZG":  # it waits for the client, after G for a COPY
                    client.write(_bytes(*answer))
                if answer == (b"Z", b"I"):
                    pool.give(server)
                    server = None
                client.write(_bytes(*answer))
                client.flush()
    if server is not None:  # in the middle of a transaction
        server.close()
        pool.replace()


def _greeted(connection: socket.socket, client: Any, pool: _Pool) -> bool:
    while True:
        length, code = struct.unpack("!ii", _read(client, 8))
        body = _read(client, length - 8)
        if code not in _UNENCRYPTED:
            break
        connection.sendall(b"N")
    words = body.decode().split("\0")
    unknown = set(words[:-2:2]) - _TAKEN
    if unknown:
        said = f"SFATAL\0C08P01\0Munsupported startup parameter: {unknown.pop()}\0\0".encode()
        client.write(_bytes(b"E", said))
    else:
        client.write(_bytes(b"R", bytes(4)) + pool.greeting + _bytes(b"K", secrets.token_bytes(8)) + _bytes(b"Z", b"I"))
    client.flush()
    return not unknown


def _message(stream: Any) -> tuple[bytes, bytes]:
    kind = _read(stream, 1)
    return kind, _read(stream, struct.unpack("!i", _read(stream, 4))[0] - 4)


def _bytes(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(stream: Any, length: int) -> bytes:
    read: bytes = stream.read(length)
    if len(read) < length:
        raise EOFError
    return read
