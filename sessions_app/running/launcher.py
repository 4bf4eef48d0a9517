"""Serves a folder of agents for adkweb, in the interpreter of the agents: `python launcher.py`.

children.py starts it. This file imports the standard library, google-adk, and what google-adk itself brings; adkweb
isn't installed there. The server listens on a free port of 127.0.0.1 and says which, as JSON, in its first line. It
answers only requests with the token that the first line of standard input has.

Standard input stays open as long as the adkweb that started it lives. When it ends, even because adkweb was killed, runs
are ended so that ADK records where they stopped, and the process leaves. It also leaves when nobody has asked it for
anything for a while: only this process sees the requests of every adkweb.
"""

import asyncio
import atexit
import hmac
import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import uvicorn
from fastapi.exception_handlers import http_exception_handler
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

SECONDS: Final = 2.5  # that runs may take to end, once adkweb is gone
PROOF: Final = (
    "/adkweb/proof"  # what adkweb asks for before it sends the token: another server may have this port by now
)
ANSWER: Final = "/adkweb/answer"  # what adkweb says about breakpoints: its answers, and what people decide
ASKS: Final = b"x-adkweb-breakpoints"  # the header of a run that asks: the newest breakpoint
LEAVE: Final = "/adkweb/leave"  # what adkweb asks for when nothing runs that it wants to keep
TRIES: Final = 10  # of one append, each of which may wait 5 seconds for a locked file


def main() -> None:
    """Serves until standard input ends."""
    atexit.register(os._exit, 0)  # runs last, and spares half a second of taking Python apart
    here = Path(__file__).resolve().parent
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != here]  # an agent's `import runs` means its own
    lifeline, answer = _take_over_streams()
    order = json.loads(lifeline.readline())
    gate = Gate(order["token"], order["idle"])
    server = _Server(uvicorn.Config(gate, log_level="warning", access_log=False))
    threading.Thread(target=_leave_with_adkweb, args=(lifeline, gate), daemon=True).start()
    gate.channel = _plugins()
    gate.app = _app(order)
    listening = socket.create_server(("127.0.0.1", 0))
    answer.write(json.dumps({"port": listening.getsockname()[1]}).encode() + b"\n")
    answer.close()
    server.run([listening])


def _take_over_streams() -> tuple[Any, Any]:
    """Returns standard input and output. Agents get an empty input, and what they print goes to standard error."""
    lifeline, answer = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    return open(lifeline, "rb", buffering=0), open(answer, "wb", buffering=0)


def _app(order: dict[str, Any]) -> ASGIApp:
    """Returns ADK's server. Without a URI, sessions and artifacts are kept in each agent's `.adk` folder.

    ADK would keep them in memory in a container, or somewhere else if an environment variable names a place. What an
    agent does would then never show up in adkweb.
    """
    from google.adk.cli.fast_api import get_fast_api_app
    from google.adk.cli.service_registry import get_service_registry
    from google.adk.cli.utils import local_storage

    def sessions(uri: str, **given: Any) -> Any:
        return local_storage.create_local_session_service(base_dir=given["agents_dir"], per_agent=True)

    def artifacts(uri: str, **given: Any) -> Any:
        return local_storage.create_local_artifact_service(base_dir=given["agents_dir"], per_agent=True)

    get_service_registry().register_session_service("folder", sessions)
    get_service_registry().register_artifact_service("folder", artifacts)
    rebase()
    app = get_fast_api_app(
        agents_dir=order["agents"],
        session_service_uri=order["sessions"] or "folder://",
        artifact_service_uri=order["artifacts"] or "folder://",
        web=False,
        bind_host="127.0.0.1",  # turns on ADK's guard against other hosts and origins
        extra_plugins=[f"{_PLUGIN}.plugin", f"{_FINGERPRINTS}.Fingerprints"],
    )
    for kind in (HTTPException, Exception):
        app.add_exception_handler(kind, _say_why)
    return app


def _plugins() -> Any:
    """Makes the plugin that notes instructions (adk/fingerprints.py), and that which lets agents pause (adk/breakpoints.py).
    Returns the channel of the latter: what it asks goes into the stream of the run, and adkweb answers with a request."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "adk"))
    import breakpoints  # type: ignore[import-not-found]
    import fingerprints  # type: ignore[import-not-found]

    del sys.path[0], sys.modules["breakpoints"], sys.modules["fingerprints"]

    class InStream(breakpoints.Channel):  # type: ignore[misc]
        def reaches(self, invocation: str) -> bool:
            return _stream.get() is not None

        async def send(self, step: dict[str, Any]) -> Any:
            number = os.urandom(16).hex()
            answer = self.awaits(number)
            try:
                await _stream.get()({"adkweb": {**step, "number": number}})
                return await answer
            finally:
                self.forget(number)

    breakpoints.plugin = breakpoints.Breakpoints(channel := InStream())
    sys.modules[_PLUGIN], sys.modules[_FINGERPRINTS] = breakpoints, fingerprints
    return channel


async def _say_why(request: Request, error: Any) -> Response:
    """Says which error it was where ADK only says that there was one, as for an agent that can't be loaded: in the output,
    other agents of the folder print, too."""
    cause = error.__cause__ if isinstance(error, HTTPException) else error
    if getattr(error, "status_code", 500) != 500 or cause is None:
        return await http_exception_handler(request, error)
    return JSONResponse({"detail": f"{type(cause).__name__}: {cause}"}, 500)


_PLUGIN: Final = "adkweb_breakpoints"
_FINGERPRINTS: Final = "adkweb_fingerprints"
_stream: ContextVar[Any] = ContextVar("stream", default=None)  # says something in the stream of the run that asks


def _streaming(send: Send) -> tuple[Send, Callable[[Any], Awaitable[None]]]:
    """Returns a `send` for an answer that is a stream of events, and what adds an event to it."""
    is_open = False

    async def sends(message: Any) -> None:
        nonlocal is_open
        is_open = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    async def says(event: Any) -> None:
        if not is_open:
            raise ConnectionError("there is no stream")
        line = f"data: {json.dumps(event)}\n\n".encode()
        await send({"type": "http.response.body", "body": line, "more_body": True})

    return sends, says


# --- Who may ask, and until when --------------------------------------------------------------------------------------


class Gate:
    """Lets requests with the token through to the app, and none after it was closed."""

    app: ASGIApp
    channel: Any = None  # of agents that pause

    def __init__(self, token: str, idle: float) -> None:
        self._token = token.encode()
        self._running: set[asyncio.Task[Any] | None] = set()
        self._idle, self._used = idle, inf  # nobody is late before the first request
        self.closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        said = dict(scope["headers"]).get(b"authorization", b"")
        number = said.removeprefix(b"Proof ").partition(b" ")[0]
        asks = b"Proof " + number + b" " + self._signed(b"asks", number)
        if scope["path"] == PROOF and not self.closed and hmac.compare_digest(said, asks):
            self._used = time.monotonic()
            return await Response(self._signed(b"answers", number))(scope, receive, send)
        if not hmac.compare_digest(said, b"Bearer " + self._token):
            return await PlainTextResponse("This server is adkweb's own.", 401)(scope, receive, send)
        if self.closed:
            return await PlainTextResponse("adkweb has ended.", 503)(scope, receive, send)
        if scope.get("method") == "POST" and scope["path"] in (LEAVE, ANSWER):
            return await (await self._told(Request(scope, receive)))(scope, receive, send)
        if newest := dict(scope["headers"]).get(ASKS):
            self.channel.newest = int(newest)
            send, says = _streaming(send)
            _stream.set(says)  # in the context of this request only
        task = asyncio.current_task()
        self._running.add(task)
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            if not self.closed:
                raise
        finally:
            self._running.discard(task)
            self._used = time.monotonic()

    async def _told(self, request: Request) -> Response:
        if request.url.path == ANSWER:
            said = await request.json()
            if "newest" in said:
                self.channel.newest = said["newest"]
            else:
                self.channel.decide(said["number"], said["answer"])
        elif self._running:
            return PlainTextResponse("An agent is running.", 409)
        else:
            self.close()
        return PlainTextResponse("")

    def _signed(self, word: bytes, number: bytes) -> bytes:
        return hmac.new(self._token, word + b" " + number, "sha256").hexdigest().encode()

    def close_if_idle(self) -> None:
        """Closes it if no request is running, and none has been for a while."""
        if not self._running and time.monotonic() - self._used >= self._idle:
            self.close()

    def close(self) -> None:
        """Lets nothing through any longer, and has the process leave: in its own time, or by force if a tool blocks it."""
        if not self.closed:
            self.closed = True
            force = threading.Timer(SECONDS, os._exit, [0])
            force.daemon = True
            force.start()

    def end_running(self) -> None:
        """Ends what runs as if the one who asked had gone away: ADK then records that the run was ended."""
        for task in filter(None, self._running):
            task.cancel()


class _Server(uvicorn.Server):
    async def on_tick(self, counter: int) -> bool:
        """Returns whether the process is to leave. This is asked ten times a second, between requests."""
        gate: Any = self.config.app
        gate.close_if_idle()
        return gate.closed or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the runs first. A signal to end comes here, too."""
        gate: Any = self.config.app
        gate.close()
        gate.end_running()
        await super().shutdown(sockets)


def _leave_with_adkweb(lifeline: Any, gate: Gate) -> None:
    """Waits until adkweb is gone, and then ends this process."""
    while lifeline.read(4096):
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)  # who read our output is gone, and a tool that prints would fail
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    gate.close()


# --- Appends beside other writers -------------------------------------------------------------------------------------

_appending: ContextVar[bool] = ContextVar("appending", default=False)


def rebase() -> None:
    """Makes ADK's services for SQL databases append to a session even if someone else has written to it.

    As they are, they refuse, so that an edit of a person would make the run fail although its tool has acted.
    """
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    sqlite: Any = SqliteSessionService
    sqlite.append_event = _rebasing(sqlite.append_event)
    sqlite._get_db_connection = _locking(sqlite._get_db_connection)
    try:
        from google.adk.sessions.database_session_service import DatabaseSessionService
    except ImportError:  # there is no SQLAlchemy, and so no such service
        return
    database: Any = DatabaseSessionService
    database.append_event = _rebasing(database.append_event)
    database.__init__ = _locking_first(database.__init__)


Append = Callable[[Any, Any, Any], Awaitable[Any]]


def _rebasing(append: Append) -> Append:
    """Makes an append happen as a whole, one after the other, and on top of what others have written."""
    turns: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def in_turn(service: Any, session: Any, event: Any) -> Any:
        async with turns.setdefault((session.app_name, session.user_id, session.id), asyncio.Lock()):
            return await _append(append, service, session, event)

    async def append_event(service: Any, session: Any, event: Any) -> Any:
        appending = asyncio.ensure_future(in_turn(service, session, event))
        try:
            return await asyncio.shield(appending)
        except asyncio.CancelledError:
            # The run was ended. What ADK appends then has to know whether this event is there.
            await asyncio.wait([appending])
            raise

    return append_event


async def _append(append: Append, service: Any, session: Any, event: Any) -> Any:
    from google.adk.errors import StaleSessionError

    async def locking() -> Any:
        _appending.set(True)  # in the context of this append only
        try:
            return await append(service, session, event)
        finally:
            _appending.set(False)

    try:
        return await _patiently(locking)
    except StaleSessionError:
        # A rewind restores a past that was computed from what the session has seen.
        if event.actions.rewind_before_invocation_id:
            raise
    newest = await _patiently(partial(_catch_up, service, session))
    event.timestamp = max(event.timestamp, newest + 1e-6)  # ADK reads events in the order of their times
    seen = session.last_update_time, session._storage_update_marker
    # So it isn't compared again: however often others write, there is no third try. What they write now comes after it.
    session.last_update_time, session._storage_update_marker = inf, None
    try:
        appended = await _patiently(locking)
    except BaseException:
        session.last_update_time, session._storage_update_marker = seen
        raise
    await _patiently(partial(_catch_up, service, session))
    return appended


async def _patiently(act: Callable[[], Awaitable[Any]]) -> Any:
    """Reads or appends, and tries again if somebody keeps the file locked for long. Nothing is stored then."""
    for _ in range(TRIES - 1):
        try:
            return await act()
        except Exception as error:
            if "database is locked" not in str(error):
                raise
    return await act()


async def _catch_up(service: Any, session: Any) -> float:
    """Gives a session what others have written. Returns the time of the newest event.

    Raises StaleSessionError if the stored session isn't the one that was loaded: it was deleted and made again.
    """
    from google.adk.errors import StaleSessionError

    stored = await service.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
    known = {each.id for each in session.events}
    ids = [each.id for each in stored.events] if stored else []
    if not stored or not known <= set(ids):
        raise StaleSessionError("This isn't the session that was loaded.")
    oldest = ids.index(session.events[0].id) if known else 0  # a run may have loaded the newest events only
    for each in stored.events[oldest:]:
        if each.id in known:
            continue
        session.events.append(each)
        for key in each.actions.state_delta:  # adkweb removes keys, too
            if key in stored.state:
                session.state[key] = stored.state[key]
            else:
                session.state.pop(key, None)
    session.last_update_time = stored.last_update_time
    session._storage_update_marker = stored._storage_update_marker
    return float(max([stored.last_update_time, *(each.timestamp for each in stored.events[-1:])]))


# SQLite compares and writes without a lock in between: another's write would be missed, or undone.


def _locking(
    connect: Callable[[Any], AbstractAsyncContextManager[Any]],
) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
    """Makes SqliteSessionService lock the file before it looks whether the session is stale."""

    @asynccontextmanager
    async def connected(service: Any) -> AsyncIterator[Any]:
        async with connect(service) as db:
            if _appending.get():
                await db.execute("BEGIN IMMEDIATE")
            yield db

    return connected


def _locking_first(init: Callable[..., None]) -> Callable[..., None]:
    """Makes DatabaseSessionService do the same on SQLite; on other databases, it locks the row."""

    def initialised(service: Any, *args: Any, **kwargs: Any) -> None:
        from sqlalchemy import event

        init(service, *args, **kwargs)
        if service.db_engine.dialect.name == "sqlite":
            event.listen(service.db_engine.sync_engine, "begin", _begin)

    return initialised


def _begin(connection: Any) -> None:
    if _appending.get():
        connection.exec_driver_sql("BEGIN IMMEDIATE")


if __name__ == "__main__":
    main()
