"""Names each request, so that a person can quote the name, and the log's lines about it can be found."""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

HEADER: Final = "X-Request-ID"
_NAME: Final = "request_id"  # in the log
_SANE: Final = re.compile(rb"[0-9A-Za-z][0-9A-Za-z._-]{7,63}")

Message = dict[str, Any]


def current() -> str:
    """Returns the id of the request that is being answered, or "" if there is none."""
    return str(structlog.contextvars.get_contextvars().get(_NAME, ""))


class Identified:
    """An ASGI application that names each request and adds the name to the answer's headers.

    A proxy may have named the request: its X-Request-ID is kept if it is 8 to 64 letters, digits, dots, dashes and
    underscores.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        """Runs the application under the name of the request."""
        if scope["type"] not in ("http", "websocket"):
            await self._application(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        name = given.decode() if _SANE.fullmatch(given) else secrets.token_hex(8)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER.lower().encode(), name.encode())]}
            await send(message)

        with structlog.contextvars.bound_contextvars(**{_NAME: name}):
            await self._application(scope, receive, sending)
