"""Lets threads that write to the same SQLite file share a commit.

SQLite allows one writer at a time, and most of the time of an append is spent waiting for the disk to commit. So the
first thread to come leads: it starts a transaction, does the work of every thread that is waiting by then, and commits
once. Only then do they get their answers. The next thread in line then leads.

Each piece of work has a savepoint of its own. If it fails, it is undone and the error is raised in the thread that
asked for it; the rest of the group is stored. If the commit fails, nothing is stored and every thread gets the error.
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
_HOLD_SECONDS: Final = 0.05  # after this, no one can join the group
# Other programs check every 100 ms whether the file is free, and give up after some seconds. So this process leaves it
# free for a share of the time that it held it. Its own threads use the pause to prepare, so the next group is larger.
_REST: Final = 0.25
_MOST_REST_SECONDS: Final = 0.01


def share(db: BaseDatabaseWrapper, work: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Runs `work(db)`, commits it together with other threads' work, and returns what it returned.

    The work may run in another thread, on that thread's connection. It must change nothing but the database, because it
    may be undone. If the caller is in a transaction already, the work becomes part of it.
    """
    if db.in_atomic_block:
        with transaction.atomic(using=db.alias):
            return work(db)
    job = _Job(work)
    with line_of(db.alias).turn(job):
        if job.leads:
            _lead(db, job)
    if job.error is not None:
        try:
            raise job.error
        finally:
            job.error = None  # its traceback refers to the job: a cycle
    return job.answer  # type: ignore[no-any-return]


@contextmanager
def alone(db: BaseDatabaseWrapper) -> Iterator[None]:
    """Opens a Django transaction that no other thread shares. It waits for its turn in the same queue as shared
    work."""
    if db.in_atomic_block:
        with transaction.atomic(using=db.alias):
            yield
        return
    job = _Job(None)
    with line_of(db.alias).turn(job):
        db.ensure_connection()
        _be_patient(db.connection, job)
        with transaction.atomic(using=db.alias):
            yield


class Cursor:
    """SQLite's own cursor, for SQL that is written for Django's cursor.

    What Django does around each statement takes longer than the statement itself.
    """

    def __init__(self, db: BaseDatabaseWrapper) -> None:
        self.db = db
        self._cursor: sqlite3.Cursor = db.connection.cursor()
        self.fetchone = self._cursor.fetchone

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Runs a statement. It may contain no percent signs but those of `%s`."""
        self._cursor.execute(_with_question_marks(sql), parameters)

    @property
    def rowcount(self) -> int:
        """Returns the number of rows that the last statement changed."""
        return self._cursor.rowcount

    @property
    def lastrowid(self) -> int | None:
        """Returns the rowid of the row that was inserted last."""
        return self._cursor.lastrowid


@cache
def _with_question_marks(sql: str) -> str:
    return sql.replace("%s", "?")


# --- The line ---------------------------------------------------------------------------------------------------------


class _Job:
    """One thread's work and its result. If `work` is None, the thread does its work alone."""

    __slots__ = ("answer", "came", "error", "language", "leads", "waits", "woken", "work")

    def __init__(self, work: Callable[[BaseDatabaseWrapper], Any] | None) -> None:
        self.work = work
        self.language = translation.get_language()  # for the errors that it raises, whichever thread does it
        self.came = time.monotonic()
        self.woken = threading.Lock()
        self.woken.acquire()
        self.waits = self.leads = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def do(self, db: BaseDatabaseWrapper) -> None:
        """Does the work; errors of the database are raised as Django's."""
        assert self.work  # noqa: S101 - says so to the type checker
        with db.wrap_database_errors:
            self.answer = self.work(db)


class _Line:
    """The threads of this process that wait to write to a file, and the one that is writing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows; no one waits while holding it
        self._waiting: deque[_Job] = deque()
        self._taken = False
        self._since = self._held = 0.0  # when the current leader started, and how long the one before it led

    @contextmanager
    def turn(self, job: _Job) -> Iterator[None]:
        """Waits until the job leads or another thread has done it. Afterwards, the next job in the queue leads."""
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
        finally:  # also when the thread is interrupted while it waits
            self.leave(job)

    def join(self) -> _Job | None:
        """Removes the next job from the queue and returns it, or None if no one waits or the next one isn't shared."""
        with self._lock:
            if not self._waiting or self._waiting[0].work is None:
                return None
            job = self._waiting.popleft()
            job.waits = False
        return job

    def leave(self, job: _Job) -> None:
        """Removes a job from the queue. If it was leading, the next one leads."""
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


lines: dict[str, _Line] = {}
os.register_at_fork(after_in_child=lines.clear)  # the threads that led do not exist in the child


def line_of(alias: str) -> _Line:
    """Returns the queue in which a source's writers wait."""
    return lines.get(alias) or lines.setdefault(alias, _Line())


# --- Leading ----------------------------------------------------------------------------------------------------------


def _lead(db: BaseDatabaseWrapper, own: _Job) -> None:
    """Does a job, and the jobs that are waiting by then, in one transaction."""
    group = [own]
    line = line_of(db.alias)
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
    """Does the leader's job and those in the queue in one transaction, and adds the jobs that it takes to the group."""
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
    """Does a job under a savepoint, so that its failure does not touch the others."""
    connection: sqlite3.Connection = db.connection
    connection.execute("SAVEPOINT adkweb")
    try:
        with translation.override(job.language):
            job.do(db)
    except Exception as error:
        if not connection.in_transaction:
            raise  # for example, the disk is full and SQLite has rolled everything back
        job.error = error
        connection.execute("ROLLBACK TO adkweb")
    connection.execute("RELEASE adkweb")


def _be_patient(connection: sqlite3.Connection, job: _Job) -> None:
    """Makes SQLite wait for other programs for what is left of the job's patience.

    The job's time started when it joined the queue, not when its turn came.
    """
    seconds = max(1, math.ceil(job.came + PATIENCE_SECONDS - time.monotonic()))
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000}")
