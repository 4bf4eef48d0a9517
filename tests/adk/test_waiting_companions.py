"""Companions that wait for commands: not beside test_companion.py, which has a database of adkweb's own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack

from sessions_app.live.commands import waiting_for
from tests.adk.serving import Serving
from tests.servers import HOST
from tests.support.at_work import until


def test_a_companion_that_waits_costs_no_thread(serving: Serving, new_token: Callable[..., str]) -> None:
    secret, before = new_token("companion", "*"), set(threading.enumerate())
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection((HOST, serving.port))) for _ in range(20)]
        for number, each in enumerate(waiting):
            head = (
                f"GET /api/companion?process={number:032x} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {secret}"
            )
            each.sendall(f"{head}\r\n\r\n".encode())
        until(lambda: len(waiting_for) == 20)
        until(lambda: not [each for each in set(threading.enumerate()) - before if "request" not in each.name])
        idle = {each.name for each in set(threading.enumerate()) - before}
        assert len(idle) <= 16, "only threads that serve other requests in the meantime"
    until(lambda: not waiting_for)  # those who went away are forgotten
