"""Closes connections whose request does not arrive, and stops gracefully.

uvicorn itself would wait forever for the rest of a request's head, and close websockets as if it had crashed.
"""

import asyncio
import socket
import time
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ...live import client, commands

HEAD_SECONDS = 15.0  # for the head of a request to arrive completely

_CLOSING_SECONDS: Final = 1.0  # for clients to answer that their sockets are closed

_Base: Any = AutoHTTPProtocol


class Protocol(_Base):  # type: ignore[misc]
    """uvicorn's own protocol, which also closes a connection whose request does not arrive in time.

    http/limits.py limits the time of bodies, and uvicorn itself the time between two requests.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Starts the time of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Starts the time of a later request with its first byte, or stops it once the head is complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the time."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.get_protocol() is not self:  # it became a websocket
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """uvicorn's own server, which tells pages when it stops. They then reconnect on their own."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts nothing new, closes websockets with 1001, answers companions that wait, and lets requests finish."""
        for server in self.servers:
            server.close()
        client.end_all(client.GOING_AWAY, "adkweb stops")
        commands.release()
        until = time.monotonic() + _CLOSING_SECONDS
        while client.watchers and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
