"""The HTTP server below adkweb: uvicorn, which by itself waits for ever for the rest of a request's head."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0  # that a connection may take until the head of its request is whole

_Base: Any = AutoHTTPProtocol


class Protocol(_Base):  # type: ignore[misc]
    """uvicorn's own, which lets go of a connection whose request does not come. Bodies have their time in http/limits.py,
    and between two requests uvicorn looks itself.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The time runs from here for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """It runs from its first byte for each other one, until its head is whole."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
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
