"""A real `adk api_server` in a process of its own, as a user runs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support import warm


@contextmanager
def api_server(agents: Path, sessions: str) -> Iterator[str]:
    """Yields its address. Its agents keep their sessions at a URI."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = warm.Popen(
        [
            *(sys.executable, "-m", "google.adk.cli", "api_server"),
            *("--port", str(port), "--session_service_uri", sessions, str(agents)),
        ],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 30
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health").raise_for_status()
                break
            except httpx.HTTPError:
                assert time.monotonic() < until
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
