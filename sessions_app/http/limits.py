"""Refuses bodies while they arrive. Django would store a whole body on disk before it checked who sends it.

Anyone may send a little, as the sign-in form needs. Before anyone may send more, adkweb checks who it is: programs by
their token, people by their browser's sign-in. A body is also refused if it is too large or too slow, or if too many
files are arriving at once.
"""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, parse_cookie
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from ..access import actor as access_actor
from ..access import lockout, rates, roles, sign_in, tokens
from ..access.audit import refusals
from ..domain.errors import NotAllowed, TooOften
from ..sources import errors
from .problems import for_programs, sentence

SMALL: Final = 64 * 1024  # bytes that anybody may send
UPLOADS: Final = 4  # files that a process receives at the same time
PATIENCE_SECONDS = 30.0  # for a body to arrive
SLOWEST = 32 * 1024  # bytes a second; a large body may take longer, at this rate
_RETRY_SECONDS: Final = 10
_UPLOADS: Final = re.compile(r"/(api/)?import/?")

GONE: Final = "adkweb.gone"  # in a request's scope: an Event that is set as soon as no one waits for the answer

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):
    """A body that is not received: the status and the sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Limited:
    """An ASGI application that limits bodies to ADKWEB_MAX_BODY bytes, and imported files to ADKWEB_MAX_UPLOAD."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._uploads = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Sends the application's answer, or the refusal."""
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        if not headers.keys() & {b"content-length", b"transfer-encoding"}:  # HTTP has no other sign of a body
            await self._application(scope, receive, send)
            return
        body = _Body(scope, headers, receive)
        taken = begun = False
        gone = scope[GONE] = threading.Event()

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def receiving() -> Message:
            nonlocal taken
            message = await body.receive()
            if message["type"] == "http.disconnect":
                gone.set()
            if body.upload and body.large and not taken:
                taken = True
                self._take()
            return message

        try:
            await body.check_announced()
            await self._application(scope, receiving, sending)
        except Refused as refused:
            if begun:
                raise
            await _refuse(send, scope["path"], refused)
        finally:  # also when the server stops, which cancels requests without an answer
            gone.set()
            self._uploads -= taken

    def _take(self) -> None:
        self._uploads += 1
        if self._uploads > UPLOADS:
            raise Refused(503, _("Too many files are being uploaded. Try again in a moment."))


class _Body:
    """A request's body while it is received. Every method raises Refused."""

    def __init__(self, scope: Message, headers: dict[bytes, bytes], receive: Receive) -> None:
        self._scope, self._headers, self._receive = scope, headers, receive
        self.upload = _UPLOADS.fullmatch(scope["path"]) is not None
        self._name = "ADKWEB_MAX_UPLOAD" if self.upload else "ADKWEB_MAX_BODY"
        self._limit: int = settings.MAX_UPLOAD if self.upload else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        self._length = 0
        self._whole = self._known = False
        self._began = time.monotonic()

    @property
    def large(self) -> bool:
        """Returns whether the body is longer than strangers may send."""
        return self._length > SMALL

    async def check_announced(self) -> None:
        """Checks the announced length before anything is received."""
        said = self._headers.get(b"content-length", b"")
        if said.isdigit():
            await self._check(int(said))

    async def receive(self) -> Message:
        """Receives and checks the next piece. After the last one, it passes on whatever comes."""
        if self._whole:
            return await self._receive()
        allowed = PATIENCE_SECONDS + self._length / SLOWEST
        try:
            async with asyncio.timeout(self._began + allowed - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, _("The request body arrived too slowly. Nothing was written.")) from None
        self._whole = not message.get("more_body", False)
        self._length += len(message.get("body", b""))
        await self._check(self._length)
        return message

    async def _check(self, length: int) -> None:
        if length > min(SMALL, self._limit) and not self._known:
            async with ThreadSensitiveContext():  # a thread of its own, so that no check waits for another
                await database_sync_to_async(self._check_sender)()
            self._known = True
        if length > self._limit:
            message = _("The body is larger than the %(n)s bytes that %(name)s allows. Nothing was written.")
            raise Refused(413, message % {"n": self._limit, "name": self._name})

    def _check_sender(self) -> None:
        try:
            sender = self._program() if for_programs(self._scope["path"]) else self._person()
            if self.upload:
                sender.check_permission("admin")
        except NotAllowed as error:
            refusals.note("refused", sender.name, "upload")
            raise Refused(403, error.message) from error
        except DatabaseError as error:
            raise Refused(503, errors.of_own(error)) from error

    def _program(self) -> access_actor.Actor:
        kind, _space, text = self._headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        address = (self._scope.get("client") or [""])[0]
        actor = tokens.actor_of(text, address) if kind.lower() == "bearer" else None
        if actor is None:
            raise Refused(401, _("Sign in with a token to send requests this large: Authorization: Bearer …"))
        return actor

    def _person(self) -> access_actor.Actor:
        cookies = parse_cookie(self._headers.get(b"cookie", b"").decode("latin-1"))
        key = cookies.get(settings.SESSION_COOKIE_NAME, "")
        person = sign_in.signed_in([key]).get(key)
        if person is None:
            raise Refused(
                403,
                _(
                    "You have been signed out, and nothing was saved. Sign in again in another tab, then "
                    "reload this page."
                ),
            )
        return roles.actor_of(person)


async def _refuse(send: Send, path: str, refused: Refused) -> None:
    response = sentence(path, refused.status, refused.message, _RETRY_SECONDS if refused.status == 503 else None)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    start = {"type": "http.response.start", "status": refused.status}
    await send({**start, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": response.content})


# --- How often people and strangers may ask ---------------------------------------------------------------------------


class Rated(MiddlewareMixin):
    """Answers 429 to people who send too many requests, and to addresses from which strangers do.

    If the view answers 429, after wrong passwords or codes, this adds when the next try is allowed."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Returns the refusal, if there is one."""
        try:
            if not for_programs(request.path):
                _count(request)
        except TooOften as error:
            return sentence(request.path, 429, error.message, error.detail["retry_after"])
        return None

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Returns the answer, with the header."""
        if response.status_code == 429 and (seconds := request.META.get(lockout.RETRY_AFTER)):
            response["Retry-After"] = seconds
        return response


def count_stranger(request: HttpRequest) -> None:
    """Counts a request from someone unknown. Raises TooOften."""
    rates.count_address(request.META.get("REMOTE_ADDR", ""), settings.RATE_ADDRESS)


def _count(request: HttpRequest) -> None:
    if request.user.is_authenticated:
        rates.count("person", request.user.get_username(), settings.RATE_PERSON)
    else:
        count_stranger(request)
