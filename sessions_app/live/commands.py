"""Lets companions wait for commands: each holds a request open, for which there is neither a thread nor a connection.

The request itself is answered at once (api/companion.py). If there is nothing to do, it is asked again as soon as there is
something, or after a while; the token is checked both times.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

from .. import broadcast
from ..broadcast import Move
from ..jobs.ticker import Ticker
from ..running import breakpoints, companions

WAIT_SECONDS: Final = 25.0
LOOK_SECONDS: Final = 0.5  # for what another process was asked to stop
REST_SECONDS: Final = 60.0
_MOST: Final = 1_000  # processes that wait
_PATH: Final = "/api/companion"

Message = dict[str, Any]

# By process. The last is the newest breakpoint that it knows of, as it says it; None if it doesn't ask.
waiting_for: Final[dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event, str | None]]] = {}


class Patient:
    """An ASGI application that lets companions wait in front of another one."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        """Sends the application's answer, or that to a later try."""
        if scope.get("method") != "GET" or not scope["path"].endswith(_PATH):
            await self._application(scope, receive, send)
            return
        answer = await self._ask(scope)
        if answer[0]["status"] == 204 and len(waiting_for) < _MOST:
            said = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if not await _wait(said["process"][-1], said.get("newest", [None])[-1], receive):
                return
            answer = await self._ask(scope)
        for message in answer:
            await send(message)

    async def _ask(self, scope: Message) -> list[Message]:
        """Returns the application's answer to a request without a body."""
        answer: list[Message] = []
        asked = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            if asked:
                return asked.pop()
            return await asyncio.Future[Message]()  # until it has answered

        async def send(message: Message) -> None:
            answer.append(message)

        await self._application(dict(scope), receive, send)
        return answer


async def _wait(process: str, newest: str | None, receive: Callable[[], Awaitable[Message]]) -> bool:
    """Waits until there may be a command for a process. Returns False if it has gone away."""
    if before := waiting_for.get(process):
        before[1].set()
    here = asyncio.get_running_loop(), asyncio.Event(), newest
    waiting_for[process] = here
    if Commands.current:
        Commands.current.wake()
    told, gone = asyncio.ensure_future(here[1].wait()), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({told, gone}, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return not gone.done()
    finally:
        told.cancel()
        gone.cancel()
        if waiting_for.get(process) is here:
            del waiting_for[process]


async def _left(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _tell(process: str) -> None:
    loop, told, _newest = waiting_for.get(process, (None, None, None))
    if loop and told and not loop.is_closed():
        loop.call_soon_threadsafe(told.set)


def release() -> None:
    """Answers all that wait, because the server stops."""
    for process in list(waiting_for):
        _tell(process)


class Commands(Ticker):
    """The thread that looks whether there is a command for a companion that waits."""

    current: "Commands | None" = None

    def __init__(self) -> None:
        super().__init__("commands", REST_SECONDS)

    def hear(self, move: Move) -> None:
        """Looks at once if someone may have asked to stop something, or let it go on. This is a listener of broadcast.py."""
        if move.what == "queued" and waiting_for:
            self.wake()

    def run(self) -> None:
        """Looks until the server stops."""
        Commands.current = self
        broadcast.listen(self.hear)
        super().run()

    def tick(self) -> float:
        """Tells those that wait and have something to stop, or to let go on, or a new breakpoint to ask about."""
        if not waiting_for:
            return REST_SECONDS
        new = (None, str(breakpoints.newest()))
        asks = {process for process, (_loop, _told, newest) in [*waiting_for.items()] if newest not in new}
        for process in (companions.told() | breakpoints.told() | asks) & waiting_for.keys():
            _tell(process)
        return LOOK_SECONDS

    def close(self) -> None:
        """Stops listening."""
        broadcast.stop_listening(self.hear)
