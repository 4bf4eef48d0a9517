"""Adopts a SQLite file while agents write: each step is a transaction of its own, with a pause after a long one."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connections
from django.db.backends.utils import CursorWrapper

from . import adoption, schema
from .steps import Moved, Steps

log = logging.getLogger("adkweb.sources")

BUILD_SECONDS: Final = 0.15
_UNNOTICED_SECONDS: Final = 0.02  # a transaction that takes at most this long needs no pause after it
_ASKED_AGAIN_SECONDS: Final = 0.11  # a writer that waits for the lock asks again within this time


class SQLite(Steps):
    """The steps in a SQLite file."""

    weights: Mapping[str, float] = {"adkweb_events_seq": 10.0}

    def __init__(self, alias: str, moved: Moved, patient: bool) -> None:
        super().__init__(alias, moved)
        self._patient = patient

    def step(self, name: str, statements: Sequence[str]) -> None:
        """Adds one thing, in a transaction of its own, after the transactions that prepare it."""
        if name == "sessions.initial_place":
            self.note_beginnings(name)
        elif name == "adkweb_deleted_writes_place":
            self.note_users(name)
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
        """Opens a transaction, and pauses after a long one.

        SQLite keeps no queue: a writer that waits for the lock asks again only now and then, and needs the pause."""
        began = time.monotonic()
        try:
            with super().transaction() as cursor:
                yield cursor
        finally:
            if (took := time.monotonic() - began) > _UNNOTICED_SECONDS:
                time.sleep(min(2 * took, _ASKED_AGAIN_SECONDS))

    def _build_quickly(self, name: str, statements: Sequence[str]) -> None:
        """Builds an index, or leaves it out if building it takes longer than BUILD_SECONDS."""
        connection = connections[self.alias].connection
        began: list[
            float
        ] = []  # since the lock was taken: SQLite calls this while a statement runs, not while it waits

        def is_late() -> bool:
            began.append(time.monotonic())
            return began[-1] - began[0] > BUILD_SECONDS

        connection.set_progress_handler(is_late, 10_000)
        try:
            self._run(name, statements)
        except OperationalError as error:
            if "interrupted" not in str(error):
                raise
            log.info("%s: the index %s is left out: building it would hold up writers", self.alias, name)
        finally:
            connection.set_progress_handler(None, 0)
