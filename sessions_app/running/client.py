"""Talks to an ADK server: sends a message and yields the events of the agent's answer, until someone closes the stream."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from ..domain.errors import AgentError

_CONNECT_SECONDS: Final = 5.0
_LONGEST: Final = 64 * 1024 * 1024  # bytes of an event
_WORDS: Final = 1_000  # characters of an error that are shown


class Stream:
    """The open `/run_sse` of an ADK server: iterate over it for the events. `close` ends the agent's run, from any thread.

    `begun` is set as soon as the message may have reached the server, `refused` if the server said that it won't run it, or
    not any longer."""

    def __init__(self, url: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)
        self._path = parts.path.rstrip("/") + "/run_sse"
        self._headers = {**headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        self._body = json.dumps(body).encode()
        self._socket: socket.socket | None = None
        self.begun = self.refused = self.closed = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Sends the message, and yields each event. Raises AgentError with what went wrong there; after `close`, ends."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock  # which the connection forgets if the server won't keep it open
            self._socket.settimeout(None)  # an agent may think for as long as it likes
            if self.closed:
                return
            self.begun = True
            self._connection.request("POST", self._path, self._body, self._headers)
            answer = self._connection.getresponse()
            self.refused = answer.status != 200
            if self.refused:
                raise AgentError(_refusal(answer.status, answer.read(_LONGEST)), status=answer.status)
            while line := answer.readline(_LONGEST):
                if line.startswith(b"data:") and (event := _event(line[5:])) is not None:
                    yield event
        except AgentError:  # its last word: what it hasn't stored by now won't be
            self.refused = True
            raise
        except (OSError, http.client.HTTPException) as error:
            if not self.closed:
                raise AgentError(_("The connection to the agent broke: %(why)s") % {"why": str(error)}) from error
        finally:
            self._connection.close()

    def close(self) -> None:
        """Ends the run: ADK seals it as soon as the agent notices."""
        self.closed = True
        if self._socket:
            with suppress(OSError):  # the other side was faster
                self._socket.shutdown(socket.SHUT_RDWR)


def _event(text: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if "error" in event and "author" not in event:
        raise AgentError(str(event["error"])[:_WORDS])
    return event


def _refusal(status: int, body: bytes) -> str:
    try:
        why = str(json.loads(body)["detail"])
    except (ValueError, RecursionError, TypeError, KeyError):
        why = http.client.responses.get(status, "")
    return _("The agent's server refused: %(why)s (%(status)s)") % {"why": why[:_WORDS], "status": status}
