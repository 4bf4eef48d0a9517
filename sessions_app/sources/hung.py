"""Notices a PostgreSQL server that does not answer, once for all callers.

A server that hangs says nothing: a caller would wait, and everyone after it, too. As soon as a caller has waited for
SLOW_SECONDS, one thread tries to connect. If that takes longer than PROBE_SECONDS, all waiting callers get an error,
and new callers get one at once until that thread reaches the server again. A statement that only takes long is left
alone. The thread ends when no one is waiting.
"""

import itertools
import math
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakSet

import psycopg
from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from ..domain.errors import SourceError
from . import registry
from .finding import log

SLOW_SECONDS: Final = 2.0
PROBE_SECONDS: Final = 3  # whole seconds
_LOOK_SECONDS: Final = 0.5
_REST_SECONDS: Final = 5.0  # until a server that has answered is asked again, for a statement that takes long

_waiting: defaultdict[str, dict[int, float]] = defaultdict(dict)  # by alias, since when callers wait
_connections: defaultdict[str, "WeakSet[Any]"] = defaultdict(WeakSet)  # by alias, all that are open
_hung: set[str] = set()
_due: dict[str, float] = {}  # by alias, when it may be asked next; never while it is being asked
_lock: Final = threading.Lock()
_numbers: Final = itertools.count()
_thread: threading.Thread | None = None
_look_now: Final = threading.Event()


def check(alias: str) -> None:
    """Raises SourceError while the server of a source is known to hang."""
    if alias in _hung:
        raise _error(alias)


def opened(alias: str, connection: Any) -> None:
    """Notes a new connection, to be ended if its server hangs."""
    with _lock:
        _connections[alias].add(connection)


@contextmanager
def watched(alias: str) -> Iterator[None]:
    """Watches the queries to a source in this block. Raises SourceError if its server hangs."""
    check(alias)
    number = next(_numbers)
    waiting = _begin(alias, number)
    try:
        yield
    except (DatabaseError, SourceError) as error:
        if alias in _hung:
            raise _error(alias) from error
        raise
    finally:
        del waiting[number]


def _error(alias: str) -> SourceError:
    source = registry.sources.get(alias)
    where = source.where if source else alias
    return SourceError(
        _("%(where)s: the server isn't answering. adkweb will keep trying and continue once it answers.")
        % {"where": where},
        alias=alias,
    )


def leave() -> None:
    """Ends the thread if no one is waiting."""
    _look_now.set()
    with _lock:
        thread = None if any(list(_waiting.values())) else _thread
    if thread:
        thread.join(2 * _LOOK_SECONDS)


def _begin(alias: str, number: int) -> dict[int, float]:
    global _thread
    with _lock:
        waiting = _waiting[alias]
        waiting[number] = time.monotonic()
        if _thread is None or not _thread.is_alive():  # also after a fork
            _thread = threading.Thread(target=_look, name="adkweb-hung", daemon=True)
            _thread.start()
    return waiting


def _look() -> None:
    global _thread
    while True:
        _look_now.wait(_LOOK_SECONDS)
        _look_now.clear()
        with _lock:
            if not any(list(_waiting.values())):
                _thread = None
                return
        now = time.monotonic()
        for alias, since in list(_waiting.items()):
            if now > _due.get(alias, 0.0) and any(began < now - SLOW_SECONDS for began in list(since.values())):
                _due[alias] = math.inf
                threading.Thread(target=_probe, args=[alias], name="adkweb-probe", daemon=True).start()


def _probe(alias: str) -> None:
    """Tries to connect until the server answers."""
    try:
        while alias in registry.sources and not _answers(alias):
            if alias not in _hung:
                log.warning("source %s: the server does not answer; requests for it get an error at once", alias)
                _hung.add(alias)
            with _lock:
                waited_for = list(_connections[alias])
            for connection in waited_for:
                _end(connection)
            time.sleep(_LOOK_SECONDS)
    finally:
        if alias in _hung:
            _hung.discard(alias)
            log.warning("source %s: the server answers again", alias)
        _due[alias] = time.monotonic() + _REST_SECONDS


def _answers(alias: str) -> bool:
    """Returns whether a server reacts at all: one that refuses does not hang."""
    try:
        parameters = connections[alias].get_connection_params() | {"connect_timeout": PROBE_SECONDS}
        psycopg.connect(**parameters).close()
    except psycopg.errors.ConnectionTimeout:
        return False
    except Exception:  # whoever asks is told
        return True
    return True


def _end(connection: Any) -> None:
    """Ends a connection that another thread uses: it stops waiting for the server."""
    with suppress(OSError, psycopg.Error):
        if not connection.closed:
            with socket.socket(fileno=os.dup(connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
