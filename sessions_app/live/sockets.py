"""Opens websockets: who may open one, what a client may send, and the ASGI application.

A client reports where it was with `?after=` and a seq, and later with the frame `{"after": 313}`. Any other frame
closes the socket. A client receives JSON objects; docs/api.md lists their fields.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.urls import path, re_path

from .. import broadcast
from ..access import rates
from ..access import sign_in as access_sign_in
from ..access.actor import PEOPLE
from ..access.audit import refusals
from ..access.audit.record import address
from ..access.roles import actor_of
from ..domain.errors import Error, Invalid, SourceError, TooOften
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..jobs import runner
from ..jobs.ticker import Ticker
from ..reads.users import ref_meant
from ..running import children
from ..web.session import updates
from ..web.session.modes import known
from ..web.session.trace import SAME
from ..web.urls import LIVE_SESSION
from . import commands, lags, source_follower  # noqa: F401 - lags registers its figures
from .client import BAD_REQUEST, FAULT, GONE, REFUSED, SIGNED_OUT, TOO_OFTEN, Watcher, has_room, watchers
from .feed import Lobby, WatchFeed
from .queue_worker import Worker
from .room import Seat
from .search_feeder import SearchFeeder
from .senders import senders
from .source_finder import Searcher

log = logging.getLogger("adkweb.live")

FRAME_LENGTH: Final = 1000  # characters of a client's frame
_PATIENCE: Final = 2.0  # seconds, for threads and jobs to end


class Refused(RuntimeError):
    """A socket that is closed at once: `args` are the code and a reason of at most 123 bytes."""


class Socket(AsyncWebsocketConsumer):
    """The base of all sockets: the handshake, and sending the watcher's messages."""

    channel_layer_alias = ""  # followers reach their watchers directly
    watcher: Watcher | None = None
    sender: asyncio.Task[None] | None = None
    person: User

    async def connect(self) -> None:
        """Accepts the socket and starts to watch. Closes it with a reason, which a refused handshake could not give."""
        if not same_origin(self.scope):
            await database_sync_to_async(note_refused, thread_sensitive=False)(self.scope)
            await self.close(REFUSED)  # a page of another site gets no reason
            return
        await self.accept()
        try:
            sign_in, self.person = await _person(self.scope)
            self.query = {key: values[-1] for key, values in parse_qs(self.scope["query_string"].decode()).items()}
            language = self.query.get("language", "")
            known = language if language in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE
            if not has_room(name := self.person.get_username(), self.scope["path"]):
                raise Refused(TOO_OFTEN, "too many sockets of one person")
            self.watcher = Watcher(sign_in, name, known, self.scope["path"])
            watchers.add(self.watcher)
            await self.enter(self.watcher)
        except Refused as refused:
            await self._refuse(*refused.args)
            return
        except TooOften:  # the client tries again, less and less often
            await self._refuse(TOO_OFTEN, "too many requests")
            return
        except DatabaseError:  # of adkweb's own database, which knows who is signed in; the client tries again
            await self._refuse(FAULT, "adkweb's own database does not answer")
            return
        self.sender = asyncio.create_task(self._send(self.watcher))

    async def _refuse(self, code: int, reason: str) -> None:
        if self.watcher:
            watchers.discard(self.watcher)
            self.watcher = None
        await self.close(code, reason)

    async def enter(self, watcher: Watcher) -> None:
        """Starts to watch. Raises Refused."""
        raise NotImplementedError

    async def leave(self, watcher: Watcher) -> None:
        """Stops watching."""
        raise NotImplementedError

    async def hear(self, said: dict[str, Any]) -> None:
        """Handles a client's message. Raises Refused for anything unknown."""
        raise Refused(BAD_REQUEST, "this socket takes no messages")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handles a frame from the client."""
        if self.watcher is None:
            return
        try:
            said = json.loads(text_data) if text_data and len(text_data) <= FRAME_LENGTH else None
            if not isinstance(said, dict):
                raise Refused(BAD_REQUEST, "a frame is a JSON object")
            rates.count("person", self.watcher.name, settings.RATE_PERSON)
            await self.hear(said)
        except (ValueError, RecursionError):
            self.watcher.end(BAD_REQUEST, "a frame is a JSON object")
        except Refused as refused:
            self.watcher.end(*refused.args)
        except TooOften:
            self.watcher.end(TOO_OFTEN, "too many requests")

    async def disconnect(self, code: int) -> None:
        """Forgets the watcher."""
        if self.watcher:
            watchers.discard(self.watcher)
            await self.leave(self.watcher)
        if self.sender:
            self.sender.cancel()

    async def _send(self, watcher: Watcher) -> None:
        while isinstance(something := await watcher.next(), str):
            await self.send(text_data=something)
        await self.close(*something)


class SessionSocket(Socket):
    """Follows a session's timeline and state."""

    async def enter(self, watcher: Watcher) -> None:
        """Takes a seat at the place that the client reports."""
        density = known(self.query.get("density", ""))
        scaled = cookie(self.scope, "scale") == SAME
        chosen = updates.Filter(self.query.get("kind", ""), self.query.get("author", ""), density, scaled)
        self.seat = Seat(watcher, chosen, _seq(self.query.get("after", "")), self.query.get("mask", ""))
        try:
            self.ref = await database_sync_to_async(self._named, thread_sensitive=False)()
            await database_sync_to_async(self._check, thread_sensitive=False)(chosen)
        except SourceError:
            if not hasattr(self, "ref"):  # the user is named by a handle
                raise Refused(FAULT, "the source does not answer") from None
            # The source can't be reached: the follower says so, and sends everything when it is back.
        except Error as error:
            await self.send(text_data=json.dumps({"gone": error.message}))
            raise Refused(GONE, "no such session") from error
        self.follower = source_follower.follow(self.ref.source, lambda follower: follower.enter(self.ref, self.seat))

    def _named(self) -> SessionRef:
        return ref_meant(SessionRef(**self.scope["url_route"]["kwargs"]), actor=actor_of(self.person))

    def _check(self, chosen: updates.Filter) -> None:
        actor_of(self.person).check_sees(self.ref)
        updates.check(self.ref, chosen, PEOPLE)

    async def leave(self, watcher: Watcher) -> None:
        """Gives up the seat."""
        self.follower.leave(self.ref, self.seat)

    async def hear(self, said: dict[str, Any]) -> None:
        """Moves the seat to the place that the client reports."""
        if said.keys() != {"after"}:
            raise Refused(BAD_REQUEST, "unknown command")
        self.follower.move(self.ref, self.seat, _seq(said["after"]))


class FeedSocket(Socket):
    """Follows the activity in all sources."""

    async def enter(self, watcher: Watcher) -> None:
        """Enters the lobby."""
        self.lobby = Lobby.admit(watcher)

    async def leave(self, watcher: Watcher) -> None:
        """Leaves the lobby."""
        self.lobby.leave(watcher)


class WatchingSocket(Socket):
    """Reports sessions that start to match the views that a person watches."""

    async def enter(self, watcher: Watcher) -> None:
        """Enters the feed."""
        self.feed = WatchFeed.admit(watcher)

    async def leave(self, watcher: Watcher) -> None:
        """Leaves the feed."""
        self.feed.leave(watcher)


class NoSocket(AsyncWebsocketConsumer):
    """The socket of any other address, which is refused."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        """Closes the socket."""
        await self.close(GONE)


SOCKETS: Final[dict[str, type[Socket]]] = {
    LIVE_SESSION: SessionSocket,
    "live/feed/": FeedSocket,
    "live/watching/": WatchingSocket,
}


async def _person(scope: Any) -> tuple[str, User]:
    """Returns the sign-in and the person who opens a socket. Raises Refused."""
    sign_in = cookie(scope)
    client = (scope.get("client") or [""])[0]

    def look_up() -> User:
        if not access_sign_in.is_loopback(client) and not access_sign_in.anybody_can():
            raise Refused(REFUSED, "only this machine, until an admin account exists")
        person = access_sign_in.signed_in([sign_in]).get(sign_in)
        if person is None:
            rates.count_address(client, settings.RATE_ADDRESS)
            raise Refused(SIGNED_OUT, "signed out")
        rates.count("person", person.get_username(), settings.RATE_PERSON)
        return person

    return sign_in, await database_sync_to_async(look_up, thread_sensitive=False)()


def _seq(said: Any) -> Seq:
    try:
        return Seq(updates.number_in(str(said)))
    except Invalid as error:
        raise Refused(BAD_REQUEST, "after: must be a seq") from error


class Lifespan:
    """Starts and stops the background threads, together with the server."""

    async def __call__(self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Follows the ASGI lifespan protocol."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                broadcast.listen(source_follower.tell)
                self._threads: tuple[Ticker, ...] = (
                    Worker(),
                    Searcher(),
                    SearchFeeder(),
                    commands.Commands(),
                    *senders(),
                )
                for thread in self._threads:
                    thread.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                broadcast.stop_listening(source_follower.tell)
                for thread in self._threads:
                    thread.end()
                # Killed work leaves a claim that another process would have to wait for.
                await asyncio.to_thread(self._wait)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        runner.let_go(_PATIENCE)
        children.stop_all(_PATIENCE)
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))


def application(http: Any) -> ProtocolTypeRouter:
    """Returns the ASGI application: `http` serves pages and programs, websockets serve live pages."""
    routes: list[Any] = [path(address, cast(Any, socket.as_asgi())) for address, socket in SOCKETS.items()]
    routes.append(re_path("", cast(Any, NoSocket.as_asgi())))
    return ProtocolTypeRouter({"http": commands.Patient(http), "websocket": URLRouter(routes), "lifespan": Lifespan()})


# --- Which pages may open a websocket ---------------------------------------------------------------------------------


def same_origin(scope: Any) -> bool:
    """Returns whether the socket is opened by a page of this server, or of one that ADKWEB_TRUSTED_ORIGINS names.

    A browser sends the sign-in cookie for any site's page. Only the origin shows which site it is.
    """
    headers = dict(scope["headers"])
    origin, host = (headers.get(name, b"").decode("latin-1").lower() for name in (b"origin", b"host"))
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        asks = urlsplit(origin).netloc
    except ValueError:
        return False
    return bool(origin) and asks == host and validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


def note_refused(scope: Any) -> None:
    """Notes in the audit that a page of another site opened a socket in someone's name. Strangers are not noted."""
    token = address.set((scope.get("client") or [""])[0])
    try:
        person = access_sign_in.signed_in([cookie(scope)]).get(cookie(scope))
        if person is not None:
            names = scope["url_route"]["kwargs"]
            ref = SessionRef(*(str(names.get(name, "")) for name in SessionRef._fields))
            refusals.note("refused", person.get_username(), "websocket from another site", ref)
    except DatabaseError as error:  # it is refused all the same
        log.warning("a refused websocket cannot be noted: %s", error)
    finally:
        address.reset(token)


def cookie(scope: Any, name: str = "") -> str:
    """Returns a cookie of a handshake, the sign-in if it is not named, or ""."""
    cookies = parse_cookie(dict(scope["headers"]).get(b"cookie", b"").decode("latin-1"))
    return cookies.get(name or settings.SESSION_COOKIE_NAME, "")
