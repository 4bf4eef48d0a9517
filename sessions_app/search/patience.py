"""Ends a search that takes too long: nobody waits for it, and it does not keep the machine from other work."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from django.db import OperationalError, connection, transaction
from django.utils.translation import gettext as _

from ..domain.errors import Slow

HASTY: Final = 3.0  # seconds, before somebody is asked
PATIENT: Final = 60.0
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Lets the queries to adkweb's own database in its block take so long. Raises Slow if they take longer.

    On PostgreSQL, each of them may take so long.
    """
    connection.ensure_connection()
    try:
        with _on_sqlite(seconds) if connection.vendor == "sqlite" else _on_postgresql(seconds):
            yield
    except OperationalError as error:
        if "interrupted" in str(error) or isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            raise Slow(_("This search takes longer than %(n)s seconds.") % {"n": round(seconds)}) from error
        raise


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    until, raw = time.monotonic() + seconds, connection.connection
    raw.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


@contextmanager
def _on_postgresql(seconds: float) -> Iterator[None]:
    # Only for this transaction: a pooler would let others meet what is set for longer.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, round(seconds * 1000)))])
        yield
        cursor.execute("SET LOCAL statement_timeout TO DEFAULT")  # within another transaction
