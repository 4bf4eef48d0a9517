"""Threads that write to one SQLite file share a commit.

SQLite has one writer at a time, and each commit waits for the disk: most of the time of an append. So the thread that comes
first leads. It begins a transaction, does the work of everybody who waits meanwhile, commits once, and only then is anybody
answered. Whoever waits then leads next.

Work that fails is undone by a savepoint of its own and raises in the thread that asked for it; the rest of the group is
stored. Where the commit fails, nothing is stored and everybody gets the error.
"""

import math
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import translation

T = TypeVar("T")

PATIENCE_SECONDS: Final = 20.0  # with other programs that write to the file
_MOST: Final = 64  # that share a commit
_HOLD_SECONDS: Final = 0.05  # after which nobody joins a group any more
# Other programs look every 100 ms whether the file is free, and give up after some seconds: of the time that this process
# has it, it leaves it free for a part. Meanwhile its own threads prepare what they write, and the next group is larger.
_REST: Final = 0.25
_MOST_REST_SECONDS: Final = 0.01


def share(db: BaseDatabaseWrapper, work: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Returns what `work(db)` returns, once it is committed. It may run in another thread, on that one's connection, and
    must change nothing but the database: it may be undone. Within a transaction of the caller's it becomes part of that.
    """
    if db.in_atomic_block:
        with transaction.atomic(using=db.alias):
            return work(db)
    job = _Job(work)
    with _line(db.alias).turn(job):
        if job.leads:
            _lead(db, job)
    if job.error is not None:
        try:
            raise job.error
        finally:
            job.error = None  # a cycle, through its traceback
    return job.answer  # type: ignore[no-any-return]


@contextmanager
def alone(db: BaseDatabaseWrapper) -> Iterator[None]:
    """A transaction of Django's that is shared with nobody; the file is waited for in the same line."""
    if db.in_atomic_block:
        with transaction.atomic(using=db.alias):
            yield
        return
    job = _Job(None)
    with _line(db.alias).turn(job):
        db.ensure_connection()
        _be_patient(db.connection, job)
        with transaction.atomic(using=db.alias):
            yield


class Cursor:
    """SQLite's own cursor, for SQL as it is written for Django's: Django's own work at each statement takes longer than
    the statement.
    """

    def __init__(self, db: BaseDatabaseWrapper) -> None:
        self.db = db
        self._cursor: sqlite3.Cursor = db.connection.cursor()
        self.fetchone = self._cursor.fetchone

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Runs a statement whose only percent signs are those of its `%s`."""
        self._cursor.execute(_with_question_marks(sql), parameters)

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        return self._cursor.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The rowid of the row inserted last."""
        return self._cursor.lastrowid


@cache
def _with_question_marks(sql: str) -> str:
    return sql.replace("%s", "?")


# --- The line ---------------------------------------------------------------------------------------------------------


class _Job:
    """One thread's work, and what became of it; work of None is not shared."""

    __slots__ = ("answer", "came", "error", "language", "leads", "waits", "woken", "work")

    def __init__(self, work: Callable[[BaseDatabaseWrapper], Any] | None) -> None:
        self.work = work
        self.language = translation.get_language()  # of what it raises, whichever thread does it
        self.came = time.monotonic()
        self.woken = threading.Lock()
        self.woken.acquire()
        self.waits = self.leads = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def do(self, db: BaseDatabaseWrapper) -> None:
        """Does the work, with Django's errors for the database's."""
        assert self.work  # noqa: S101 - says so to the type checker
        with db.wrap_database_errors:
            self.answer = self.work(db)


class _Line:
    """The threads of this process that wait for one file, and the one that has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of what follows; nobody waits while holding it
        self._waiting: deque[_Job] = deque()
        self._taken = False
        self._since = self._held = 0.0  # when the lead was given last, and for how long it was kept before

    @contextmanager
    def turn(self, job: _Job) -> Iterator[None]:
        """Waits until the job leads, or another has done it; afterwards the next one leads."""
        try:
            with self._lock:
                job.waits = self._taken
                job.leads = not self._taken
                self._taken = True
                if job.waits:
                    self._waiting.append(job)
            if not job.leads:
                job.woken.acquire()
                if job.leads:
                    time.sleep(min(self._held * _REST, _MOST_REST_SECONDS))
            self._since = time.monotonic()
            yield
        finally:  # also for one that is interrupted while it waits
            self.leave(job)

    def join(self) -> _Job | None:
        """The next one that waits and shares, taken out of the line."""
        with self._lock:
            if not self._waiting or self._waiting[0].work is None:
                return None
            job = self._waiting.popleft()
            job.waits = False
        return job

    def leave(self, job: _Job) -> None:
        """Takes a job out of the line; if it leads, the next one does."""
        if not (job.leads or job.waits):
            return
        with self._lock:
            if job.waits:
                self._waiting.remove(job)
                job.waits = False
            if not job.leads:
                return
            job.leads = False
            self._held = time.monotonic() - self._since
            if not self._waiting:
                self._taken = False
                return
            successor = self._waiting.popleft()
            successor.waits, successor.leads = False, True
        successor.woken.release()


_lines: dict[str, _Line] = {}
os.register_at_fork(after_in_child=_lines.clear)  # whoever led is not there


def _line(alias: str) -> _Line:
    return _lines.get(alias) or _lines.setdefault(alias, _Line())


# --- Leading ----------------------------------------------------------------------------------------------------------


def _lead(db: BaseDatabaseWrapper, own: _Job) -> None:
    """Does a job, and those that wait by then, in one transaction."""
    group = [own]
    line = _line(db.alias)
    try:
        db.ensure_connection()
        with db.wrap_database_errors:
            _do_all(db, line, group)
    except BaseException as error:
        own.error = error
        for job in group[1:]:
            job.error = OperationalError(str(error) or type(error).__name__)
    finally:
        line.leave(own)
        for job in group[1:]:
            job.woken.release()


def _do_all(db: BaseDatabaseWrapper, line: _Line, group: list[_Job]) -> None:
    """One transaction; the jobs that it takes from the line are put into the group."""
    connection: sqlite3.Connection = db.connection
    _be_patient(connection, group[0])
    connection.execute("BEGIN IMMEDIATE")
    try:
        until = time.monotonic() + _HOLD_SECONDS
        group[0].do(db)  # where this fails, nothing else has been done yet
        while len(group) < _MOST and time.monotonic() < until and (job := line.join()):
            group.append(job)
            _do_beside(db, job)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _do_beside(db: BaseDatabaseWrapper, job: _Job) -> None:
    """A job that fails alone."""
    connection: sqlite3.Connection = db.connection
    connection.execute("SAVEPOINT adkweb")
    try:
        with translation.override(job.language):
            job.do(db)
    except Exception as error:
        if not connection.in_transaction:
            raise  # the disk is full, say: SQLite has rolled everything back
        job.error = error
        connection.execute("ROLLBACK TO adkweb")
    connection.execute("RELEASE adkweb")


def _be_patient(connection: sqlite3.Connection, job: _Job) -> None:
    """Has SQLite wait for other programs as long as the job's patience lasts, which began before those of this process
    that came first.
    """
    seconds = max(1, math.ceil(job.came + PATIENCE_SECONDS - time.monotonic()))
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000}")
