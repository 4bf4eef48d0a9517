"""The locks that adopting takes: brief ones on tables, which no writer notices, and one that keeps out other
processes."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg
from django.db import OperationalError, connections, transaction
from django.db.backends.utils import CursorWrapper

from . import dialect
from .steps import Moved, Progress

LOCK_MILLISECONDS: Final = 50
PATIENCE_SECONDS: Final = 60.0  # for a lock that someone else keeps
_PAUSE_SECONDS: Final = (0.1, 2.0)  # before a lock is requested again: at first, and at most
# The keys of PostgreSQL's advisory locks: one process adopts a source, or migrates adkweb's own database, at a time.
ADOPTING: Final = 0x61646B78
MIGRATING: Final = 0x61646B79


def briefly(alias: str, work: Callable[[CursorWrapper], None] | Sequence[str]) -> None:
    """Runs `work` in a transaction that waits at most LOCK_MILLISECONDS for a lock, so that others who queue behind it
    don't notice. Tries again for a minute."""
    pause, until = _PAUSE_SECONDS[0], time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                dialect.of(alias).hurry(cursor, LOCK_MILLISECONDS)
                if callable(work):
                    work(cursor)
                else:
                    for statement in work:
                        cursor.execute(statement)
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, _LOCKED) or time.monotonic() > until:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
        pause = min(pause * 1.5, _PAUSE_SECONDS[1])


_LOCKED: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


@contextmanager
def alone(alias: str, moved: Moved, key: int = ADOPTING) -> Iterator[Callable[[], None]]:
    """Waits until no other process has this lock on a database, and keeps others out. Yields a function that raises
    once the lock is lost.

    An idle transaction of its own connection holds the lock: this also works behind a connection pool, and ends with
    the process. It holds nothing else: no snapshot, no table."""
    # This connection's cursors use the simple protocol: in the extended one, a statement's snapshot would stay, and
    # CREATE INDEX CONCURRENTLY would wait for it.
    parameters = connections[alias].get_connection_params() | {
        "autocommit": False,
        "cursor_factory": psycopg.ClientCursor,
    }
    with psycopg.connect(**parameters) as connection:
        while not _locked(connection, key):
            connection.rollback()
            moved(Progress("", 0.0))
            time.sleep(_PAUSE_SECONDS[0])

        def check() -> None:
            connection.execute("SELECT 1")

        yield check


def _locked(connection: psycopg.Connection, key: int) -> bool:
    """Starts a transaction without an idle time-out, and returns whether it has the lock."""
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [key]).fetchone()
    return row is not None and row[0]
