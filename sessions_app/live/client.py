"""One client that watches, seen from the threads that read: what waits to be sent to it, and how it ends."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

MOST_WAITING: Final = 4_000_000  # characters that wait for a client which reads slowly, or never
SHARE: Final = 10  # of the time, one part goes into making what is pushed
LONGEST_REST: Final = 5.0  # seconds: a page that looks live is never older, however slow the machine was for a moment

# How a socket ends, beside 1000, by the client.
FAULT, BAD_REQUEST, SIGNED_OUT, REFUSED, GONE, SLOW = 1011, 4400, 4401, 4403, 4404, 4408


class Watcher:
    """A socket that follows something; `sign_in` is the key of its browser's sign-in, `name` who it is."""

    def __init__(self, sign_in: str, name: str, language: str) -> None:
        self.sign_in = sign_in
        self.name = name
        self.language = language
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[str] = deque()
        self._size = 0
        self._something = asyncio.Event()
        self._end: tuple[int, str] | None = None

    def end(self, code: int, reason: str) -> None:
        """Closes the socket with a reason, after what waits; from any thread."""
        self.closed = True
        self._call(self._finish, code, reason)

    async def next(self) -> str | tuple[int, str]:
        """What to send next, or how to close."""
        while not self._waiting:
            if self._end:
                return self._end
            self._something.clear()
            await self._something.wait()
        text = self._waiting.popleft()
        self._size -= len(text)
        return text

    def take(self, text: str) -> None:
        """Queues a text; in the loop's own thread. A client that does not read is let go, and loses nothing: when it
        comes back it says where it was.
        """
        if self._end:
            return
        if self._size > MOST_WAITING:
            self._waiting.clear()
            self.closed = True
            self._finish(SLOW, "too slow")
            return
        self._waiting.append(text)
        self._size += len(text)
        self._something.set()

    def _finish(self, code: int, reason: str) -> None:
        self._end = self._end or (code, reason)
        self._something.set()

    def _call(self, function: Any, *values: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *values)


def rest_after(took: float) -> float:
    """How long to leave a part as it is after making it took so long, both in seconds."""
    return min(SHARE * took, LONGEST_REST)


def push(watchers: Iterable[Watcher], message: dict[str, Any]) -> None:
    """Sends a message to each of them, written once; from any thread."""
    # Half of a surrogate pair, which ADK's SQLite files may hold, cannot be sent: it becomes a question mark.
    text = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace").decode()
    for watcher in watchers:
        watcher._call(watcher.take, text)
