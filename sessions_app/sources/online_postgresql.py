"""Adopts a PostgreSQL database while agents write: numbers rows in small batches, builds indexes CONCURRENTLY."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import psycopg
from django.db import connections
from django.db.backends.utils import CursorWrapper

from . import schema
from .dialect import POSTGRESQL
from .locks import briefly
from .poolers import is_pooled
from .steps import Moved, Steps

BATCH: Final = (200, 5_000)  # rows that are numbered at once: at first, and at most
_BATCH_SECONDS: Final = 0.05  # that a batch should take
_REST: Final = 1.0  # the pause after a batch, as a multiple of its duration: agents share the server
SMALL: Final = 2_000  # events that are numbered at once, in the transaction that adds the column
# New events are numbered from 110 % of the counted events plus this on: more may be written after the count.
_RESERVE: Final = 100_000


class PostgreSQL(Steps):
    """The steps in a PostgreSQL database. `alone` raises once this process has lost its lock on adopting."""

    weights: Mapping[str, float] = {
        "events.seq NOT NULL": 60.0,
        "adkweb_events_seq": 5.0,
        "adkweb_events_tail": 5.0,
    }

    def __init__(self, alias: str, moved: Moved, alone: Callable[[], None]) -> None:
        super().__init__(alias, moved)
        self._alone = alone

    def moved(self, name: str, share: float = 0.0) -> None:
        """Reports progress, after making sure that this process still holds the lock on adopting."""
        self._alone()
        super().moved(name, share)

    def step(self, name: str, statements: Sequence[str]) -> None:
        """Adds one thing, in a brief transaction; an index is built CONCURRENTLY."""
        if name in schema.INDEXES:
            self._build(name, statements[0])
            return
        if name == "events.seq":
            self._add_numbers(statements)
            return
        if name == "sessions.initial_place":
            self.note_beginnings(name)
        elif name == "adkweb_deleted_writes_place":
            self.note_users(name)
        elif name == "events.seq NOT NULL":
            self._number_events(name)
        briefly(self.alias, statements)
        if name == "events.seq NOT NULL":
            self._execute("ANALYZE events")

    def _add_numbers(self, statements: Sequence[str]) -> None:
        """Adds the column `seq`, and lets new events draw from the sequence. Numbers existing events at once if they
        are few."""
        (count,) = _ask(self.alias, "SELECT count(*) FROM events")

        def add(cursor: CursorWrapper) -> None:
            cursor.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            cursor.execute("SELECT count(*) FROM (SELECT 1 FROM events LIMIT %s) AS counted", [SMALL + 1])
            (now,) = cursor.fetchone()
            start = now + 1 if now <= SMALL else count + count // 10 + _RESERVE
            for statement in statements:
                cursor.execute(statement.format(start=start))
            if now <= SMALL:
                cursor.execute(_NUMBER_SOME, [*_BEFORE_ALL, SMALL, 0])

        briefly(self.alias, add)

    def _number_events(self, name: str) -> None:
        """Numbers the events that are older than the column, by time and id, the order in which ADK reads them."""
        self._build(
            "adkweb_unnumbered",
            "CREATE INDEX adkweb_unnumbered ON events (timestamp, id, app_name, user_id, session_id) WHERE seq IS NULL",
        )
        (left,) = _ask(self.alias, "SELECT count(*) FROM events WHERE seq IS NULL")
        if left:
            self._number_all(name, left)
        self._execute("DROP INDEX CONCURRENTLY IF EXISTS adkweb_unnumbered")
        briefly(
            self.alias,
            [
                "ALTER TABLE events DROP CONSTRAINT IF EXISTS adkweb_numbered",
                "ALTER TABLE events ADD CONSTRAINT adkweb_numbered CHECK (seq IS NOT NULL) NOT VALID",
            ],
        )
        self._execute("ALTER TABLE events VALIDATE CONSTRAINT adkweb_numbered")  # so that NOT NULL need not scan

    def _number_all(self, name: str, left: int) -> None:
        seq = POSTGRESQL.seq
        (last,) = _ask(
            self.alias,
            f"""SELECT coalesce(max({seq}), 0) FROM events
            WHERE {seq} < (SELECT seqstart FROM pg_sequence WHERE seqrelid = 'adkweb_seq'::regclass)""",
        )
        beyond: Sequence[Any] = _BEFORE_ALL
        size, done = BATCH[0], 0
        while True:
            began = time.monotonic()
            rows: list[tuple[Any, ...]] = []

            def number(cursor: CursorWrapper, values: Sequence[Any], rows: list[tuple[Any, ...]]) -> None:
                cursor.execute("SET LOCAL synchronous_commit = off")  # what a crash loses is numbered again
                cursor.execute(_NUMBER_SOME, values)
                rows[:] = cursor.fetchall()

            briefly(self.alias, partial(number, values=[*beyond, size, last], rows=rows))
            if not rows:
                return
            ((taken, *beyond),) = rows
            last, done = last + taken, done + taken
            took = time.monotonic() - began
            self.moved(name, min(1.0, done / left))
            size = max(BATCH[0], min(BATCH[1], int(size * _BATCH_SECONDS / max(took, 0.001))))
            time.sleep(took * _REST)

    def _build(self, name: str, statement: str) -> None:
        """Builds an index CONCURRENTLY. Drops one that was left half-built first."""
        if "STATISTICS" not in statement:
            self._execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        self._execute(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))

    def _execute(self, statement: str) -> None:
        """Runs a statement without a time limit. Only for statements that hold up no one while they wait.

        An index cannot be built CONCURRENTLY in a transaction, so the limit is lifted for a connection of its own.
        Behind a pooler it stays, as someone else would get that connection."""
        database = connections[self.alias]
        parameters = database.get_connection_params() | {"autocommit": True}
        with database.wrap_database_errors, psycopg.connect(**parameters) as connection:
            if not is_pooled(connection):
                connection.execute(_NO_LIMIT)
            connection.execute(statement)


_NO_LIMIT: Final = "SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)"
_BEFORE_ALL: Final = ("-infinity", "", "", "", "")
# No one waits long for this statement: it locks its rows only for a moment, and gives up if another transaction holds
# one.
_NUMBER_SOME: Final = """WITH picked AS (
        SELECT ctid AS row, timestamp, id, app_name, user_id, session_id FROM events
        WHERE seq IS NULL AND (timestamp, id, app_name, user_id, session_id) > (%s::timestamp, %s, %s, %s, %s)
        ORDER BY timestamp, id, app_name, user_id, session_id LIMIT %s FOR NO KEY UPDATE NOWAIT),
    numbered AS (
        SELECT *, row_number() OVER (ORDER BY timestamp, id, app_name, user_id, session_id) AS number FROM picked),
    done AS (UPDATE events SET seq = number + %s FROM numbered WHERE events.ctid = numbered.row RETURNING 1)
    SELECT (SELECT count(*) FROM done), timestamp::text, id, app_name, user_id, session_id FROM numbered
    ORDER BY number DESC LIMIT 1"""


def _ask(alias: str, statement: str) -> tuple[Any, ...]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        row: tuple[Any, ...] = cursor.fetchone()
        return row
