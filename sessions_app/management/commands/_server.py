"""Closes connections whose request does not arrive.

uvicorn itself would wait for ever for the rest of a request's head.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0  # for the head of a request to arrive completely

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
