"""A syslog that the audit is sent to: real sockets, which keep what arrives."""

from __future__ import annotations

import os
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 10


@dataclass
class Syslog:
    """A syslog with its address, and all that arrived. One that `aborts` reads nothing."""

    address: tuple[str, str, int]
    messages: list[bytes] = field(default_factory=list)
    connections: int = 0
    aborts: bool = False


@contextmanager
def over_tcp(port: int = 0) -> Iterator[Syslog]:
    """Runs a syslog that reads each connection to its end."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            kept.connections += 1
            if kept.aborts:
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                os.close(self.request.detach())
                return
            some = self.rfile.read()
            while some:
                length, _space, rest = some.partition(b" ")
                kept.messages.append(rest[: int(length)])
                some = rest[int(length) :]

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", port), Handler) as server:
        kept = Syslog(("tcp", "127.0.0.1", server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield kept
        server.shutdown()


@contextmanager
def of_datagrams(path: Path | None = None) -> Iterator[Syslog]:
    """Runs a syslog that gets datagrams: by UDP, or at a local path."""
    with socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM) as handle:
        where: Any = str(path) if path else ("127.0.0.1", 0)
        handle.bind(where)
        kept = Syslog(("unix", str(path), 0) if path else ("udp", *handle.getsockname()))
        ended = threading.Event()

        def listen() -> None:
            while some := handle.recv(100_000):
                kept.messages.append(some)
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        yield kept
        with socket.socket(handle.family, socket.SOCK_DGRAM) as last:
            last.sendto(b"", handle.getsockname())
        ended.wait(SECONDS)
