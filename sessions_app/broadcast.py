"""Tells the followers of a session that it changed, after the commit: in this process and, through Redis, in others.

A message is a pointer without content, except for what an agent says right now, which is encrypted; and nothing depends on
its arrival. Followers of a source also poll (live/), so
a lost message or a missing Redis costs time, but never an event. Telling never waits and never fails: the listeners in
this process are called directly, and a separate thread tells Redis. If several messages about a session wait there,
only the last of each kind is sent.
"""

import asyncio
import logging
import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

from channels.layers import BaseChannelLayer, get_channel_layer
from django.conf import settings

from .domain.session_ref import SessionRef

log = logging.getLogger("adkweb.broadcast")

What = Literal["events", "queued", "watching", "begun", "spoken", "at work"]

GROUP: Final = "adkweb.moves"
PROCESS = uuid.uuid4().hex  # of this process; a fork has another one
_MOST_WAITING: Final = 10_000  # sessions with pending messages, while Redis does not answer
_RETRY_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Move:
    """A message that a session changed: its events or state, its queued edits and runs, or who watches it in a process;
    that it started to match a watched view; that its agent says something, which is not an event yet; or that it calls
    something else now, as its companion reports.

    `said` is what an agent says, for other processes; encrypted."""

    what: What
    ref: SessionRef
    process: str = field(default_factory=lambda: PROCESS)
    people: tuple[str, ...] = ()
    said: str = ""


Listener = Callable[[Move], None]


def _renew() -> None:
    """A server may be forked from a process that imported this: its messages would seem to come from the others."""
    global PROCESS
    PROCESS = uuid.uuid4().hex


os.register_at_fork(after_in_child=_renew)


def tell(what: What, ref: SessionRef, people: tuple[str, ...] = (), said: str = "") -> None:
    """Tells every listener, in this process at once and in others soon. Call it after the commit."""
    move = Move(what, ref, PROCESS, people, said)
    _hear(move)
    if settings.REDIS_URL:
        _sender().put(move)


def listen(listener: Listener) -> None:
    """Adds a listener. It is called for every message, from any thread, and must not wait."""
    _listeners.append(listener)
    if settings.REDIS_URL:
        _sender()


def stop_listening(listener: Listener) -> None:
    """Removes a listener."""
    with suppress(ValueError):
        _listeners.remove(listener)


_listeners: list[Listener] = []
_lock: Final = threading.Lock()


def _hear(move: Move) -> None:
    for listener in list(_listeners):
        try:
            listener(move)
        except Exception:  # its failure must not keep the others from hearing, or the write from succeeding
            log.exception("a listener failed")


def _sender() -> "_Thread":
    with _lock:
        return _thread()


@cache
def _thread() -> "_Thread":
    thread = _Thread()
    thread.start()
    thread.ready.wait()
    return thread


class _Thread(threading.Thread):
    """Talks to Redis. It owns the channel layer, whose queues and connections belong to one event loop."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-broadcast", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.waiting: dict[tuple[str, SessionRef], Move] = {}
        self.something = asyncio.Event()

    def put(self, move: Move) -> None:
        """Queues a message for sending."""
        if move.what == "events":
            self.waiting.pop(("spoken", move.ref), None)  # it is stored, and must not come after its event
        if len(self.waiting) < _MOST_WAITING:
            self.waiting[move.what, move.ref] = move
            self.loop.call_soon_threadsafe(self.something.set)

    def run(self) -> None:
        """Sends and receives until the process ends."""
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self.ready.set)
        self.loop.run_until_complete(self._both())

    async def _both(self) -> None:
        layer = get_channel_layer()
        assert layer, "ADKWEB_REDIS_URL is set, and no layer"  # noqa: S101 - says so to the type checker
        await asyncio.gather(self._send(layer), self._receive(layer))

    async def _send(self, layer: BaseChannelLayer) -> None:
        while True:
            await self.something.wait()
            self.something.clear()
            while self.waiting:
                _id, move = self.waiting.popitem()
                await self._publish(layer, move)

    async def _publish(self, layer: BaseChannelLayer, move: Move) -> None:
        message = {
            "type": "move",
            "what": move.what,
            "key": list(move.ref),
            "people": list(move.people),
            "said": move.said,
        }
        try:
            await asyncio.wait_for(layer.group_send(GROUP, {**message, "process": PROCESS}), _PATIENCE_SECONDS)
        except Exception as error:  # whatever the layer raises; others find the events by polling
            log.warning("other adkweb processes get no messages, and poll instead: %s", error)
            self.waiting.clear()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _receive(self, layer: BaseChannelLayer) -> None:
        while True:
            try:
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
                while True:
                    try:
                        message = await layer.receive(channel)
                    except ValueError:  # not a message from adkweb; the next one may be
                        continue
                    self._take(message)
            except Exception as error:
                log.warning("Redis (ADKWEB_REDIS_URL) does not answer; trying again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    def _take(self, message: dict[str, Any]) -> None:
        try:
            what, process, key, people = message["what"], message["process"], message["key"], message["people"]
            said = message.get("said", "")
            if not all(isinstance(text, str) for text in (what, process, *key, *people, said)):
                raise TypeError
            move = Move(what, SessionRef(*key), process, tuple(people), said)
        except (KeyError, TypeError):  # from another version of adkweb, or from someone else
            return
        if move.process != PROCESS:
            _hear(move)
