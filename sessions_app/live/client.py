"""Represents a client that watches, for the threads that read: its pending messages, and how it ends."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

MOST_WAITING: Final = 4_000_000  # characters that wait for a client that reads slowly, or not at all
MOST_SOCKETS: Final = 200  # of a person, in one process
MOST_OF_ONE_PAGE: Final = 20  # of a person, in one process
SHARE: Final = 10  # a part is made again only after this many times the time that it took
LONGEST_REST: Final = 5.0  # seconds; a live page is never older, even if the machine was slow for a moment

GOING_AWAY: Final = 1001  # the server stops: a page comes back, to whatever answers then

# The codes with which a socket is closed, apart from 1000, by the client.
FAULT, BAD_REQUEST, SIGNED_OUT, REFUSED, GONE, SLOW, TOO_OFTEN = 1011, 4400, 4401, 4403, 4404, 4408, 4429


class Watcher:
    """A socket that follows something. `sign_in` is the key of its browser's sign-in, `name` the person's name, and
    `path` its address without the query."""

    def __init__(self, sign_in: str, name: str, language: str, path: str = "") -> None:
        self.sign_in = sign_in
        self.name = name
        self.language = language
        self.path = path
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[str] = deque()
        self._size = 0
        self._something = asyncio.Event()
        self._end: tuple[int, str] | None = None

    def end(self, code: int, reason: str) -> None:
        """Closes the socket with a reason, after sending its pending messages. It may be called from any thread."""
        self.closed = True
        self._call(self._finish, code, reason)

    async def next(self) -> str | tuple[int, str]:
        """Waits for and returns the next text to send, or the code and reason with which to close."""
        while not self._waiting:
            if self._end:
                return self._end
            self._something.clear()
            await self._something.wait()
        text = self._waiting.popleft()
        self._size -= len(text)
        return text

    def take(self, text: str) -> None:
        """Queues a text. Call it in the event loop's thread.

        A client that does not read is closed. It loses nothing: when it comes back, it says what it has seen.
        """
        if self._end:
            return
        if self._size > MOST_WAITING:
            self._clear()
            self.closed = True
            self._finish(SLOW, "too slow")
            return
        self._waiting.append(text)
        self._size += len(text)
        self._something.set()

    def forget(self) -> None:
        """Drops the pending messages. It may be called from any thread."""
        self._call(self._clear)

    def _clear(self) -> None:
        self._waiting.clear()
        self._size = 0

    def _finish(self, code: int, reason: str) -> None:
        self._end = self._end or (code, reason)
        self._something.set()

    def _call(self, function: Any, *values: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *values)


watchers: Final[set[Watcher]] = set()  # whose sockets are open


def has_room(name: str, path: str) -> bool:
    """Returns whether a person may open one more socket, in this process. Each of them costs something at every
    event."""
    theirs = [watcher.path for watcher in watchers if watcher.name == name]
    return len(theirs) < MOST_SOCKETS and theirs.count(path) < MOST_OF_ONE_PAGE


def end_all(code: int, reason: str) -> None:
    """Closes all sockets."""
    for watcher in list(watchers):
        watcher.end(code, reason)


def rest_after(took: float) -> float:
    """Returns how long a part is kept, after making it took `took` seconds."""
    return min(SHARE * took, LONGEST_REST)


def push(watchers: Iterable[Watcher], message: dict[str, Any]) -> None:
    """Sends a message to all watchers. It is serialised once. It may be called from any thread."""
    # ADK's SQLite files may hold half of a surrogate pair, which cannot be sent: it becomes a question mark.
    text = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace").decode()
    for watcher in watchers:
        watcher._call(watcher.take, text)
