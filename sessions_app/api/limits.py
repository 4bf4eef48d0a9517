"""Bodies that are too large are refused while they arrive: Django would keep all of one before it looked at it."""

import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import gettext as _

from ..problems import for_programs, problem

_UPLOADS: Final = re.compile(r"/(api/)?import/?")

GONE: Final = "adkweb.gone"  # in a request's scope: an Event, set as soon as nobody waits for the answer

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class TooLarge(Exception):
    """A body that goes on beyond the limit."""


class Limited:
    """An ASGI application that takes bodies up to ADKWEB_MAX_BODY, files to import up to ADKWEB_MAX_UPLOAD bytes."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """The application's answer, or 413."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        name = "ADKWEB_MAX_UPLOAD" if _UPLOADS.fullmatch(scope["path"]) else "ADKWEB_MAX_BODY"
        limit = settings.MAX_UPLOAD if name == "ADKWEB_MAX_UPLOAD" else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        said = dict(scope["headers"]).get(b"content-length", b"")
        if said.isdigit() and int(said) > limit:
            await _refuse(send, scope["path"], name, limit)
            return
        received = 0
        begun = False
        gone = scope[GONE] = threading.Event()

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            received += len(message.get("body", b""))
            if received > limit:
                raise TooLarge
            return message

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, limited, sending)
        except TooLarge:
            if begun:
                raise
            await _refuse(send, scope["path"], name, limit)
        finally:  # at the end of the server, too, which cancels what it did not answer yet
            gone.set()


async def _refuse(send: Send, path: str, name: str, limit: int) -> None:
    message = _("The body is larger than the %(n)s bytes that %(name)s allows; nothing was written.")
    message %= {"n": limit, "name": name}
    if for_programs(path):
        response = problem(413, message)
    else:  # a browser shows the sentence, or says it in a toast
        response = HttpResponse(message, "text/plain; charset=utf-8", 413, headers={"Cache-Control": "no-store"})
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": response.content})
