"""Adds what adopting adds while agents write: no lock makes a writer wait for long, and none fails.

PostgreSQL: what needs an exclusive lock asks for it for LOCK_MILLISECONDS, then lets the writers pass and asks again. The
rows that are there are numbered in small batches, indexes are built CONCURRENTLY. SQLite: each step is a transaction of its
own with a pause after it, and an index that takes longer than BUILD_SECONDS is left out, unless its owner asks for it
(`patient`).

Every step can be seen in the database, so a process that is killed leaves nothing that the next one has to know.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psycopg
from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.translation import gettext as _

from ..errors import SourceError
from . import adoption, schema
from .dialect import SEQ

log = logging.getLogger("adkweb.sources")

LOCK_MILLISECONDS: Final = 50
BUILD_SECONDS: Final = 0.15
_UNNOTICED_SECONDS: Final = 0.02  # that a transaction on SQLite may take without a pause after it
_ASKED_AGAIN_SECONDS: Final = 0.11  # after which whoever waits for SQLite's lock has asked for it again
_PATIENCE_SECONDS: Final = 60.0  # for a lock that somebody else keeps
_PAUSE_SECONDS: Final = (0.1, 2.0)  # before a lock is asked for again: at first, and at most
_BATCH: Final = (200, 5_000)  # rows numbered at once: at first, and at most
_BATCH_SECONDS: Final = 0.05  # that a batch aims at
_REST: Final = 1.0  # pause after a batch, in parts of its own time: agents share the server
_SMALL: Final = 2_000  # events that are numbered at once, in the transaction that adds the column
_RESERVE: Final = (
    100_000  # numbers, and a tenth more than there are events, for those written until new ones are numbered
)
_ROWS: Final = 2_000  # of other tables, at once
_LOCK: Final = 0x61646B78  # of PostgreSQL's advisory locks: one process adopts at a time


@dataclass(frozen=True, slots=True)
class Progress:
    """How far adopting is: the step that it is at, by its name in adopt.STEPS, and the share of everything, 0 to 1."""

    step: str
    share: float


Moved = Callable[[Progress], None]


def add(alias: str, moved: Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adds what is missing; `moved` hears how far it is, and may raise to stop it.

    May be interrupted at any point, and goes on there when it is called again. Another process that does the same is waited
    for. Raises SourceError where this user may not do it, or where somebody else keeps a lock for a minute.
    """
    if connections[alias].vendor == "sqlite":
        _SQLite(alias, moved, patient).add()
        return
    try:
        with _alone(alias, moved) as alone:
            _PostgreSQL(alias, moved, alone).add()
    except (DatabaseError, psycopg.Error) as error:
        raise SourceError(
            _(
                "Adopting this database stopped: %(error)s It goes on where it stopped when it is started again. It needs "
                "the tables' owner; until it is done, adkweb shows the database and writes nothing."
            )
            % {"error": f"{error}".strip().rstrip(".") + "."}
        ) from error


def release(alias: str) -> None:
    """Takes away what adopting added, all or nothing; ADK's tables are then as they were."""
    sqlite = connections[alias].vendor == "sqlite"
    with nullcontext() if sqlite else _alone(alias, lambda progress: None):
        _briefly(alias, adoption.to_release(alias))


class _Steps:
    """The steps that are missing, one after the other."""

    weights: Mapping[str, float]  # of steps that take long, beside the 1 of all others

    def __init__(self, alias: str, moved: Moved) -> None:
        self.alias = alias
        self._moved = moved
        self._steps = schema.STEPS[connections[alias].vendor]
        self._total = sum(self.weights.get(name, 1.0) for name in self._steps)
        self._done = self._total

    def add(self) -> None:
        lacking = adoption.missing(self.alias)
        self._done -= sum(self.weights.get(name, 1.0) for name in lacking)
        for name in lacking:
            self.moved(name)
            self.step(name, self._steps[name])
            self._done += self.weights.get(name, 1.0)
        self.drop_outdated()

    def drop_outdated(self) -> None:
        """Drops the indexes that an older adkweb made."""
        for statement in adoption.outdated(self.alias):
            with connections[self.alias].cursor() as cursor:
                cursor.execute(statement)

    def moved(self, name: str, share: float = 0.0) -> None:
        """Tells how far it is: so much of this step, and all before it."""
        self._moved(Progress(name, (self._done + share * self.weights.get(name, 1.0)) / self._total))

    def step(self, name: str, statements: Sequence[str]) -> None:
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Iterator[CursorWrapper]:
        """One of the transactions that a step consists of."""
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            yield cursor

    def _note_beginnings(self, name: str) -> None:
        """Notes as initial state what a session has to which nothing happened yet."""
        for first, last in self._ranges("sessions", ("app_name", "user_id", "id")):
            self.moved(name)
            with self.transaction() as cursor:
                # A row that is locked so takes no event meanwhile; one that somebody writes to is not as it was created.
                lock = "FOR UPDATE SKIP LOCKED" if cursor.db.vendor == "postgresql" else ""
                cursor.execute(
                    f"""SELECT app_name, user_id, id FROM sessions WHERE (app_name, user_id, id) BETWEEN (%s, %s, %s)
                    AND (%s, %s, %s) AND initial_state IS NULL AND NOT EXISTS ({_EVENTS}) {lock}""",
                    [*first, *last],
                )
                cursor.executemany(
                    f"""UPDATE sessions SET initial_state = state WHERE app_name = %s AND user_id = %s AND id = %s
                    AND NOT EXISTS ({_EVENTS})""",
                    cursor.fetchall(),
                )

    def _note_users(self, name: str) -> None:
        """Notes whose state is there already: it may be what is left of sessions that are gone."""
        for first, last in self._ranges("user_states", ("app_name", "user_id")):
            self.moved(name)
            with self.transaction() as cursor:
                cursor.execute(
                    f"{schema.LEFT_OF_USERS} AND (app_name, user_id) BETWEEN (%s, %s) AND (%s, %s) {schema.NOT_TWICE}",
                    [*first, *last],
                )

    def _ranges(self, table: str, names: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """The first and the last key of each few rows of a table."""
        key, values = ", ".join(names), ", ".join(["%s"] * len(names))
        after: Sequence[str] = [""] * len(names)
        while True:
            with connections[self.alias].cursor() as cursor:
                cursor.execute(
                    f"SELECT {key} FROM {table} WHERE ({key}) > ({values}) ORDER BY {key} LIMIT %s", [*after, _ROWS]
                )
                rows = cursor.fetchall()
            if not rows:
                return
            yield rows[0], rows[-1]
            after = rows[-1]


_EVENTS: Final = """SELECT 1 FROM events WHERE events.app_name = sessions.app_name
    AND events.user_id = sessions.user_id AND events.session_id = sessions.id"""


# --- SQLite -----------------------------------------------------------------------------------------------------------


class _SQLite(_Steps):
    weights: Mapping[str, float] = {"adkweb_events_seq": 10.0}

    def __init__(self, alias: str, moved: Moved, patient: bool) -> None:
        super().__init__(alias, moved)
        self._patient = patient

    def step(self, name: str, statements: Sequence[str]) -> None:
        """One transaction, before it those that prepare it."""
        if name == "sessions.initial_place":
            self._note_beginnings(name)
        elif name == "adkweb_deleted_writes_place":
            self._note_users(name)
        if name in schema.INDEXES and not self._patient:
            self._build_quickly(name, statements)
        else:
            self._run(name, statements)

    def _run(self, name: str, statements: Sequence[str]) -> None:
        with self.transaction() as cursor:
            if name in adoption.missing(self.alias):  # another process may have been faster
                for statement in statements:
                    cursor.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[CursorWrapper]:
        """After a long one, a pause: SQLite keeps no queue, and whoever waits for the lock asks again only now and then."""
        began = time.monotonic()
        try:
            with super().transaction() as cursor:
                yield cursor
        finally:
            if (took := time.monotonic() - began) > _UNNOTICED_SECONDS:
                time.sleep(min(2 * took, _ASKED_AGAIN_SECONDS))

    def _build_quickly(self, name: str, statements: Sequence[str]) -> None:
        """Builds an index, or leaves it out where that would hold up writers."""
        connection = connections[self.alias].connection
        began: list[float] = []  # once the lock is had: SQLite asks while a statement runs, and not while it waits

        def is_late() -> bool:
            began.append(time.monotonic())
            return began[-1] - began[0] > BUILD_SECONDS

        connection.set_progress_handler(is_late, 10_000)
        try:
            self._run(name, statements)
        except OperationalError as error:
            if "interrupted" not in str(error):
                raise
            log.info("%s: the index %s is left out: building it would hold up whoever writes", self.alias, name)
        finally:
            connection.set_progress_handler(None, 0)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


class _PostgreSQL(_Steps):
    weights: Mapping[str, float] = {
        "events.seq NOT NULL": 60.0,
        "adkweb_events_seq": 5.0,
        "adkweb_events_tail": 5.0,
    }

    def __init__(self, alias: str, moved: Moved, alone: Callable[[], None]) -> None:
        super().__init__(alias, moved)
        self._alone = alone

    def moved(self, name: str, share: float = 0.0) -> None:
        """Also makes sure that no other process has begun to do the same."""
        self._alone()
        super().moved(name, share)

    def step(self, name: str, statements: Sequence[str]) -> None:
        """A brief transaction, or an index that is built beside the writers."""
        if name in schema.INDEXES:
            self._build(name, statements[0])
            return
        if name == "events.seq":
            self._add_numbers(statements)
            return
        if name == "sessions.initial_place":
            self._note_beginnings(name)
        elif name == "adkweb_deleted_writes_place":
            self._note_users(name)
        elif name == "events.seq NOT NULL":
            self._number_events(name)
        _briefly(self.alias, statements)
        if name == "events.seq NOT NULL":
            self._execute("ANALYZE events")

    def _add_numbers(self, statements: Sequence[str]) -> None:
        """Adds the column, and sees to it that new events are numbered; of few events, all at once."""
        (count,) = _ask(self.alias, "SELECT count(*) FROM events")

        def add(cursor: CursorWrapper) -> None:
            cursor.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            cursor.execute("SELECT count(*) FROM (SELECT 1 FROM events LIMIT %s) AS counted", [_SMALL + 1])
            (now,) = cursor.fetchone()
            start = now + 1 if now <= _SMALL else count + count // 10 + _RESERVE
            for statement in statements:
                cursor.execute(statement.format(start=start))
            if now <= _SMALL:
                cursor.execute(_NUMBER_SOME, [*_BEFORE_ALL, _SMALL, 0])

        _briefly(self.alias, add)

    def _number_events(self, name: str) -> None:
        """Numbers the events that were there before new ones took numbers, by time and id, which is ADK's reading order."""
        self._build(
            "adkweb_unnumbered",
            "CREATE INDEX adkweb_unnumbered ON events (timestamp, id, app_name, user_id, session_id) WHERE seq IS NULL",
        )
        (left,) = _ask(self.alias, "SELECT count(*) FROM events WHERE seq IS NULL")
        if left:
            self._number_all(name, left)
        self._execute("DROP INDEX CONCURRENTLY IF EXISTS adkweb_unnumbered")
        _briefly(
            self.alias,
            [
                "ALTER TABLE events DROP CONSTRAINT IF EXISTS adkweb_numbered",
                "ALTER TABLE events ADD CONSTRAINT adkweb_numbered CHECK (seq IS NOT NULL) NOT VALID",
            ],
        )
        self._execute("ALTER TABLE events VALIDATE CONSTRAINT adkweb_numbered")  # so that NOT NULL need not look

    def _number_all(self, name: str, left: int) -> None:
        seq = SEQ["postgresql"]
        (last,) = _ask(
            self.alias,
            f"""SELECT coalesce(max({seq}), 0) FROM events
            WHERE {seq} < (SELECT seqstart FROM pg_sequence WHERE seqrelid = 'adkweb_seq'::regclass)""",
        )
        beyond: Sequence[Any] = _BEFORE_ALL
        size, done = _BATCH[0], 0
        while True:
            began = time.monotonic()
            rows: list[tuple[Any, ...]] = []

            def number(cursor: CursorWrapper, values: Sequence[Any], rows: list[tuple[Any, ...]]) -> None:
                cursor.execute("SET LOCAL synchronous_commit = off")  # what a crash loses is numbered again
                cursor.execute(_NUMBER_SOME, values)
                rows[:] = cursor.fetchall()

            _briefly(self.alias, partial(number, values=[*beyond, size, last], rows=rows))
            if not rows:
                return
            ((taken, *beyond),) = rows
            last, done = last + taken, done + taken
            took = time.monotonic() - began
            self.moved(name, min(1.0, done / left))
            size = max(_BATCH[0], min(_BATCH[1], int(size * _BATCH_SECONDS / max(took, 0.001))))
            time.sleep(took * _REST)

    def _build(self, name: str, statement: str) -> None:
        """Builds an index beside the writers; one that was left half-built is dropped first."""
        if "STATISTICS" not in statement:
            self._execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        self._execute(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))

    def _execute(self, statement: str) -> None:
        """Runs, however long it takes, a statement that waits for nobody whom others then wait for."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SET statement_timeout = 0")
            try:
                cursor.execute(statement)
            finally:
                cursor.execute("RESET lock_timeout")
                cursor.execute("RESET statement_timeout")


_BEFORE_ALL: Final = ("-infinity", "", "", "", "")
# Nobody waits for this: it holds the rows for a moment, and gives up where somebody else has one of them.
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


def _briefly(alias: str, work: Callable[[CursorWrapper], None] | Sequence[str]) -> None:
    """A transaction that waits for locks so shortly that nobody who queues behind it notices; tried again for a minute."""
    pause, until = _PAUSE_SECONDS[0], time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                if cursor.db.vendor == "postgresql":
                    cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
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
def _alone(alias: str, moved: Moved) -> Iterator[Callable[[], None]]:
    """While no other process adopts this database; what it yields makes sure that it is still so.

    A transaction that is open and does nothing keeps the lock, also behind a pool of connections, and ends with its process.
    It holds nothing else: no snapshot, no table.
    """
    # Its cursors use the simple protocol: in the other one a statement's snapshot stays, and CONCURRENTLY waits for it.
    parameters = connections[alias].get_connection_params() | {
        "autocommit": False,
        "cursor_factory": psycopg.ClientCursor,
    }
    with psycopg.connect(**parameters) as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        lock = f"SELECT 1 WHERE pg_try_advisory_xact_lock({_LOCK})"
        while connection.execute(lock).fetchone() is None:
            connection.rollback()
            moved(Progress("", 0.0))
            time.sleep(_PAUSE_SECONDS[0])

        def check() -> None:
            connection.execute("SELECT 1")

        yield check
