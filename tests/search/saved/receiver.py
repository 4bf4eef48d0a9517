"""A program that is told by webhooks: a real HTTP server, which answers as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What arrived, and what is answered, one status after the other; the last one goes on."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [200])
    location: str = ""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    trickles: bool = False
    version: str = "HTTP/1.0"

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hook?a=b"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Runs a receiver."""
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.paths.append(self.path)
            told.headers.append(dict(self.headers))
            told.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            status = told.statuses.pop(0) if len(told.statuses) > 1 else told.statuses[0]
            if told.trickles:
                for _byte in range(200):
                    self.wfile.write(b"H")
                    self.wfile.flush()
                    ended.wait(0.05)
                return
            self.protocol_version = told.version
            self.send_response(status)
            if told.location:
                self.send_header("Location", told.location)
            self.end_headers()
            self.wfile.write(b"x" * 100_000)

        def do_GET(self) -> None:
            told.paths.append(self.path)

        def log_message(self, *_given: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_given: Any) -> None:
            """Says nothing: who asks may have gone."""

    ended = threading.Event()
    server = Server(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
