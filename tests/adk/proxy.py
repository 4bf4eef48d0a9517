"""What stands between an agent and adkweb, and fails when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Proxy(ThreadingHTTPServer):
    """Hands every request on, except for `faults`, each for one request of a method: `("POST", "drop")`.

    `drop`: handed on, and the connection closed instead of the answer; `refuse`: closed before; `slow`: handed on, and the
    answer held back; a number: answered with this status, and not handed on. `asked` is every request that came.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(url).netloc
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.faults: list[tuple[str, str | int]] = []
        self.asked: list[tuple[str, str]] = []
        self.connections = 0
        self.slow_seconds = 2.0

    def get_request(self) -> Any:
        """Counts connections."""
        self.connections += 1
        return super().get_request()

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _any(self) -> None:
        self.server.asked.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        faults = self.server.faults
        fault = faults.pop(0)[1] if faults and faults[0][0] == self.command else None
        if fault == "refuse":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self._answer(fault, [("Content-Type", "text/html")], b"<h1>The proxy's own page</h1>")
            return
        behind = HTTPConnection(self.server.behind)
        behind.request(self.command, self.path, body, dict(self.headers))
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if fault == "slow":
            time.sleep(self.server.slow_seconds)
        if fault == "drop":
            self.close_connection = True
        else:
            self._answer(answer.status, answer.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _any  # noqa: N815 - as http.server calls them

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Such a proxy before an address."""
    with Proxy(url) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        yield proxy
        proxy.shutdown()
