"""Talks to an ADK server: reads from it, and sends a message and yields the events of the agent's answer, until someone
closes the stream."""

import http
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from ..domain.errors import AgentError
from ..domain.mask_patterns import DOTS

_CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 15.0  # that a read may take
_LONGEST: Final = 64 * 1024 * 1024  # bytes of an event
_WORDS: Final = 1_000  # characters of an error that are shown
_OPEN: Final = frozenset({"Host", "User-Agent"})  # headers that are no secrets


class Server(Protocol):
    """A server that runs agents: a child of adkweb, or one at an address (`is_remote`)."""

    url: str
    headers: Mapping[str, str]
    is_remote: bool

    @property
    def is_running(self) -> bool:
        """Returns whether it is there, as far as adkweb knows."""

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Returns an open connection. Raises OSError, and AgentError if adkweb may not connect there."""


def get(server: Server, path: str) -> Any:
    """Returns what an ADK server answers. Raises AgentError; if it isn't 200, with its `status` and `why`."""
    try:
        connection = server.connect(_CONNECT_SECONDS)
        over = connection.sock  # a server may answer forever, a byte at a time
        late = threading.Timer(READ_SECONDS, _hang_up, [over])
        late.start()
        try:
            over.settimeout(READ_SECONDS)
            connection.request("GET", urlsplit(server.url).path.rstrip("/") + path, headers=dict(server.headers))
            with connection.getresponse() as answer:
                body = answer.read(_LONGEST + 1)
        finally:
            late.cancel()
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise _refusal(server, answer.status, body)
        return json.loads(body)
    except (OSError, http.client.HTTPException) as error:
        raise AgentError(_("The agent's server can't be reached: %(why)s") % {"why": str(error)[:_WORDS]}) from error
    except (ValueError, RecursionError) as error:
        raise AgentError(_("This isn't the answer of an ADK server.")) from error


def tell(server: Server, path: str, body: Any) -> None:
    """Tells an ADK server something. Raises AgentError if that doesn't arrive."""
    try:
        with closing(server.connect(_CONNECT_SECONDS)) as connection:
            headers = {**server.headers, "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body).encode(), headers)
            connection.getresponse().read(_WORDS)
    except (OSError, http.client.HTTPException) as error:
        raise AgentError(_("The agent's server can't be reached: %(why)s") % {"why": str(error)[:_WORDS]}) from error


class Stream:
    """The open `/run_sse` of an ADK server: iterate over it for the events. `close` ends the agent's run, from any thread.

    `begun` is set as soon as the message may have reached the server, `refused` if the server said that it won't run it, or
    not any longer, and `done` when it has said everything. `continues` tells whether it is to go on without a message. With
    the number of the newest breakpoint, a child of adkweb also yields what it asks before a step (launcher.py)."""

    def __init__(self, server: Server, body: Mapping[str, Any], *, newest: int | None = None) -> None:
        self._server = server
        self._path = urlsplit(server.url).path.rstrip("/") + "/run_sse"
        self._headers = {**server.headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        if newest is not None:
            self._headers["X-Adkweb-Breakpoints"] = str(newest)
        self._body = json.dumps(body).encode()
        self.continues = "newMessage" not in body
        self._socket: socket.socket | None = None
        self.begun = self.refused = self.closed = self.done = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Sends the message, and yields each event. Raises AgentError with what went wrong there; after `close`, ends."""
        connection = None
        try:
            connection = self._server.connect(_CONNECT_SECONDS)
            self._socket = connection.sock
            self._socket.settimeout(None)  # an agent may think for as long as it likes
            if self.closed:
                return
            self.begun = True
            connection.request("POST", self._path, self._body, self._headers)
            with connection.getresponse() as answer:  # which has the socket if the server won't keep it open
                if answer.status != http.HTTPStatus.OK:
                    raise _refusal(self._server, answer.status, answer.read(_LONGEST))
                lines = 0
                while line := answer.readline(_LONGEST):
                    lines += 1
                    if line.startswith(b"data:") and (event := _event(self._server, line[5:])) is not None:
                        yield event
                if answer.chunk_left is not None if answer.chunked else answer.length:
                    raise http.client.IncompleteRead(b"")  # which readline keeps to itself
                self.done = lines > 0  # one that is cut before its first line looks like one that has ended
        except AgentError as error:  # its last word: what it hasn't stored by now won't be
            # A proxy that gives up says nothing about the server behind it.
            self.refused = not (self._server.is_remote and error.detail.get("status", 0) >= http.HTTPStatus.BAD_GATEWAY)
            raise
        except (OSError, http.client.HTTPException) as error:
            if not self.closed:
                raise AgentError(_("The connection to the agent broke: %(why)s") % {"why": str(error)}) from error
        finally:
            if connection:
                connection.close()

    def close(self) -> None:
        """Ends the run: ADK seals it as soon as the agent notices."""
        self.closed = True
        if self._socket:
            _hang_up(self._socket)


def _hang_up(over: socket.socket) -> None:
    with suppress(OSError):  # the other side was faster
        over.shutdown(socket.SHUT_RDWR)


def _event(server: Server, text: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if "error" in event and "author" not in event:
        raise AgentError(_words(server, event["error"]))
    return event


def _words(server: Server, said: object) -> str:
    """Returns what a server says, without what adkweb signs in with: it may say what it was sent."""
    text = str(said)
    for value in {
        word for name, each in server.headers.items() if name not in _OPEN for word in (each, each.split()[-1])
    }:
        text = text.replace(value, DOTS)
    return text[:_WORDS]


def _refusal(server: Server, status: int, body: bytes) -> AgentError:
    try:
        why = _words(server, json.loads(body)["detail"])
    except (ValueError, RecursionError, TypeError, KeyError):
        if 300 <= status < 400:
            words = _("The agent's server leads to another address (%(status)s). Redirects aren't followed.")
            return AgentError(words % {"status": status}, status=status)
        why = http.client.responses.get(status, "")
    words = _("The agent's server refused: %(why)s (%(status)s)") % {"why": why, "status": status}
    return AgentError(words, status=status, why=why)
