"""A page that is kept up to date by a websocket, as static/js/live.js keeps it, and the people who look at it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from sessions_app.access import roles
from sessions_app.access.actor import SYSTEM
from sessions_app.access.sign_ins import SessionStore
from sessions_app.domain.session_ref import SessionRef
from sessions_app.http.paths import segment_of
from sessions_app.reads import timeline
from sessions_app.web.session.updates import BATCH
from tests.browser.serving import Adkweb
from tests.servers import HOST
from tests.support.at_work import PATIENCE
from tests.support.own import own_database

FEED: Final = "/live/feed/"
_EVENT: Final = re.compile(r'<li class="ev[^>]* id="event-([^"]+)"')


def live_path(ref: SessionRef) -> str:
    """The address of a session's socket."""
    return "/live/session" + page_path(ref).removeprefix("/s")


def page_path(ref: SessionRef, page: str = "") -> str:
    """The address of one of its pages, as long as no rule of masking hides an id."""
    return "/".join(["/s", *map(segment_of, ref), f"{page}/" if page else ""])


def ids_in(html: str) -> list[str]:
    """The events whose rows a piece of a timeline has, in order."""
    return _EVENT.findall(html)


def ids_of(ref: SessionRef, **chosen: str) -> list[str]:
    """The events that a session holds, in append order."""
    found: list[str] = []
    after: int | str | None = 0
    while after is not None:
        page = timeline.events_after(ref, after, **chosen, actor=SYSTEM)
        found += [event.id for event in page.rows]
        after = page.next
    return found


class Own:
    """adkweb's own database as its operator has it: who may sign in, and who is signed in."""

    def __init__(self, server: Adkweb) -> None:
        self.server = server

    def __enter__(self) -> Self:
        self._database = own_database(f"sqlite:///{self.server.folder / 'data' / 'adkweb.db'}")
        self._database.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._database.__exit__(None, None, None)


def sign_in(server: Adkweb, name: str = "maria") -> str:
    """The key of a fresh sign-in of somebody, who has a password and no rights of an operator."""
    with Own(server):
        return signed_in(name)


def signed_in(name: str) -> str:
    """The same in the database that is adkweb's own just now."""
    person, created = get_user_model().objects.get_or_create(username=name)
    if created:
        person.password = "not-a-hash"  # nobody signs in with it, and changing it changes the sign-ins' hash
        person.save()
        roles.make_admin(person)
    store = SessionStore()
    store[SESSION_KEY] = str(person.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.create()
    assert store.session_key
    return store.session_key


def browser(server: Adkweb, sign_in: str = "") -> httpx.Client:
    """A browser that shows pages."""
    cookies = {settings.SESSION_COOKIE_NAME: sign_in} if sign_in else {}
    return httpx.Client(base_url=server.address, verify=False, cookies=cookies, timeout=60)  # no TLS: no certificates


def post(client: httpx.Client, path: str, seen_on: str = "", **data: str) -> httpx.Response:
    """Sends a form, as it stands on that page or on another."""
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(seen_on or path).text)
    assert found, f"{seen_on or path} has no form"
    data["csrfmiddlewaretoken"] = found[1]
    return client.post(path, data=data, headers={"Origin": str(client.base_url).rstrip("/")})


class Page:
    """A page with a socket. It holds every message against the promise: no event twice, no message above BATCH rows."""

    def __init__(
        self,
        server: Adkweb,
        who: str,
        what: SessionRef | str,
        *,
        after: int | str | None = 0,
        origin: str | None = "",
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> None:
        self.server, self.who = server, who
        self.ref = what if isinstance(what, SessionRef) else None
        self.path = live_path(what) if isinstance(what, SessionRef) else what
        self.origin = server.address if origin == "" else origin
        self.headers = headers or {}
        self.place: int | str | None = after
        self.query = query
        self.seen: list[str] = []
        self.parts: dict[str, str] = {}
        self.messages: list[dict[str, Any]] = []
        self.resets = 0
        self.end: tuple[int, str] | None = None
        self.socket: ClientConnection | None = None
        self.open()

    def open(self) -> None:
        """Opens the socket, or again: it says where it was."""
        self.end = None
        query = {**({} if self.place is None else {"after": str(self.place)}), **self.query}
        headers = {**self.headers}
        if self.who:
            headers["Cookie"] = f"{settings.SESSION_COOKIE_NAME}={self.who}"
        self.socket = connect(
            f"ws://{HOST}:{self.server.port}{self.path}?{urlencode(query)}",
            origin=self.origin,  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
            ping_interval=None,
            max_size=None,
            open_timeout=PATIENCE,
            close_timeout=1,
        )

    def close(self) -> None:
        """The reader goes."""
        socket, self.socket = self.socket, None
        if socket:
            socket.close()

    def say(self, frame: Any) -> None:
        """Sends a frame: bytes and texts as they are, anything else as JSON."""
        assert self.socket
        with suppress(ConnectionClosed):
            self.socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def read(self, seconds: float) -> bool:
        """Takes one message, if one comes in time."""
        assert self.socket
        try:
            text = self.socket.recv(seconds)
        except TimeoutError:
            return False
        except ConnectionClosed as closed:
            self.end = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
            return False
        self._apply(json.loads(text))
        return True

    def until(self, condition: Callable[[Page], Any], what: str, seconds: float = PATIENCE) -> Page:
        """Reads until a condition holds; never longer than the deadline, and not after the socket ended."""
        deadline = time.monotonic() + seconds
        while not condition(self):
            assert self.end is None, f"closed with {self.end}, and not yet: {what}; {self}"
            assert time.monotonic() < deadline, f"{seconds} s, and not yet: {what}; {self}"
            self.read(min(1.0, max(0.01, deadline - time.monotonic())))
        return self

    def until_event(self, event_id: str, seconds: float = PATIENCE) -> Page:
        """Reads until an event has come."""
        return self.until(lambda page: event_id in page.seen, f"event {event_id}", seconds)

    def until_all(self, seconds: float = PATIENCE, **chosen: str) -> Page:
        """Reads until the page shows what the session holds, no more and no less, in order."""
        assert self.ref
        wanted = ids_of(self.ref, **chosen)
        assert wanted, "a session without events proves nothing"
        self.until(lambda page: page.seen[-1:] == wanted[-1:] or len(page.seen) >= len(wanted), "every event", seconds)
        assert self.seen == wanted
        return self

    def until_end(self, seconds: float = PATIENCE) -> tuple[int, str]:
        """Reads until the server closes; its code and reason."""
        deadline = time.monotonic() + seconds
        while self.end is None:
            assert time.monotonic() < deadline, f"{seconds} s, and still open; {self}"
            self.read(0.5)
        return self.end

    def _apply(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if message.get("reset"):
            self.resets += 1
            self._load_anew()
        if "events" in message:
            new = ids_in(message["events"])
            assert new, message
            assert len(new) <= BATCH
            twice = set(new) & set(self.seen) or len(new) != len(set(new))
            assert not twice, f"sent twice: {twice}"
            self.seen += new
        if "seq" in message:
            assert self.place is None or message["seq"] >= int(self.place), "backwards"
            self.place = message["seq"]
        self.parts |= {name: text for name, text in message.items() if isinstance(text, str) and name != "events"}

    def _load_anew(self) -> None:
        """As live.js does: the newest page of the timeline, and from there on."""
        assert self.ref
        with browser(self.server, self.who) as client:
            html = client.get(page_path(self.ref, "events"), headers={"HX-Request": "true"}).text
        self.seen = ids_in(html)
        found = re.search(r'data-seq="(\d+)"', html)
        self.place = int(found[1]) if found else self.place
        self.say({"after": self.place})

    def __str__(self) -> str:
        seen = f"{len(self.seen)} events" + (f" up to {self.seen[-1]}" if self.seen else "")
        return f"{self.ref or self.path}: {seen}, {len(self.messages)} messages, {self.resets} resets, end {self.end}"
