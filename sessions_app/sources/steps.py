"""The steps of adopting: which are missing, their progress, and those that SQLite and PostgreSQL share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from . import adoption, dialect, schema

ROWS: Final = 2_000  # of a table, at once


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of adopting: the current step, by its name in schema.STEPS, and the share of the whole, from 0 to
    1."""

    step: str
    share: float


Moved = Callable[[Progress], None]


class Steps:
    """Adds the missing steps, one after the other."""

    weights: Mapping[str, float]  # of steps that take long; all others weigh 1

    def __init__(self, alias: str, moved: Moved) -> None:
        self.alias = alias
        self._moved = moved
        self._steps = schema.STEPS.on(alias)
        self._total = sum(self.weights.get(name, 1.0) for name in self._steps)
        self._done = self._total

    def add(self) -> None:
        """Adds what is missing."""
        lacking = adoption.missing(self.alias)
        self._done -= sum(self.weights.get(name, 1.0) for name in lacking)
        for name in lacking:
            self.moved(name)
            self.step(name, self._steps[name])
            self._done += self.weights.get(name, 1.0)

    def moved(self, name: str, share: float = 0.0) -> None:
        """Reports progress: all steps that are done, and `share` of this one."""
        self._moved(Progress(name, (self._done + share * self.weights.get(name, 1.0)) / self._total))

    def step(self, name: str, statements: Sequence[str]) -> None:
        """Adds one of the missing things."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Iterator[CursorWrapper]:
        """Opens one of the transactions that a step consists of."""
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            yield cursor

    def note_beginnings(self, name: str) -> None:
        """Notes the current state of each session without events as its initial state."""
        for first, last in self._ranges("sessions", ("app_name", "user_id", "id")):
            self.moved(name)
            with self.transaction() as cursor:
                # A row that is locked this way takes no event in the meantime. A session that someone is writing to no
                # longer has its initial state.
                lock = dialect.of(self.alias).for_update_of_unlocked
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

    def note_users(self, name: str) -> None:
        """Notes which users already have state: it may be left over from deleted sessions."""
        for first, last in self._ranges("user_states", ("app_name", "user_id")):
            self.moved(name)
            with self.transaction() as cursor:
                cursor.execute(
                    f"{schema.LEFT_OF_USERS} AND (app_name, user_id) BETWEEN (%s, %s) AND (%s, %s) {schema.NOT_TWICE}",
                    [*first, *last],
                )

    def _ranges(self, table: str, names: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yields the first and the last key of each batch of ROWS rows of a table."""
        key, values = ", ".join(names), ", ".join(["%s"] * len(names))
        after: Sequence[str] = [""] * len(names)
        while True:
            with connections[self.alias].cursor() as cursor:
                cursor.execute(
                    f"SELECT {key} FROM {table} WHERE ({key}) > ({values}) ORDER BY {key} LIMIT %s", [*after, ROWS]
                )
                rows = cursor.fetchall()
            if not rows:
                return
            yield rows[0], rows[-1]
            after = rows[-1]


_EVENTS: Final = """SELECT 1 FROM events WHERE events.app_name = sessions.app_name
    AND events.user_id = sessions.user_id AND events.session_id = sessions.id"""
