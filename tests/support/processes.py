"""Does work on a source in separate processes, which tests start together or kill halfway.

run(adopt_then_die, place, 3)   # returns the exit codes, negative for a signal
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import uuid
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import django

# A server that has loaded Django and has no threads: a child starts in milliseconds, and shares no connection.
CONTEXT = multiprocessing.get_context("forkserver")
KILLED = -signal.SIGKILL
CONTEXT.set_forkserver_preload(["tests.support.processes"])


def run(work: Callable[..., None], *arguments: Any, copies: int = 1) -> list[int | None]:
    """Does the same work in some processes at once, and returns their exit codes."""
    children = [CONTEXT.Process(target=work, args=arguments) for _ in range(copies)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]


def adopt_then_die(place: str, statements: int) -> None:
    """Opens and adopts a source, a few rows at a time, and kills this process right after so many statements."""
    from django.db import connections

    from sessions_app.sources import database, online_postgresql, registry, steps

    online_postgresql.SMALL, online_postgresql.BATCH, steps.ROWS = 0, (2, 2), 2
    (source,) = registry.add(place)
    seen = 0

    def count(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal seen
        answer = execute(sql, params, many, context)
        seen += 1
        if seen == statements:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    with connections[source.alias].execute_wrapper(count):
        database.open_source(source, adopting=True)


def run_until(work: Callable[..., None], seconds: float, *arguments: Any) -> int | None:
    """Runs a process, kills it after so many seconds if it has not ended, and returns its exit code."""
    child = CONTEXT.Process(target=work, args=arguments)
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    return child.exitcode


def adopt(place: str) -> None:
    """Opens and adopts a source."""
    from sessions_app.sources import database, registry

    database.open_source(registry.add(place)[0], adopting=True)


def record_many(own: str, folder: str, rows: int) -> None:
    """Records acts in adkweb's own database, one after the other."""
    from django.conf import settings

    from sessions_app.access.audit.record import record
    from tests.support.own import own_database

    settings.DATA_DIR = folder
    with own_database(own):
        for number in range(rows):
            record("exported", "terminal", number=number)


def open_own(folder: str, files: int) -> None:
    """Opens files with adkweb's own tables, one after the other."""
    from django.db import connection

    from tests.support.own import own_database

    for number in range(files):
        with own_database(f"sqlite:///{folder}/{number}.db"):
            connection.ensure_connection()


def forward_audit(own: str, folder: str, address: tuple[str, str, int]) -> None:
    """Sends the audit to a syslog, some rows at a time, until it has all."""
    from functools import partial

    from django.conf import settings

    from sessions_app.access.audit import forwarding
    from sessions_app.access.audit.forwarding import Receiver, backlogs, forward
    from tests.support.own import own_database

    settings.DATA_DIR, settings.AUDIT_SYSLOG = folder, address
    receiver = Receiver("syslog", partial(forwarding.deliver, address), 4)
    with own_database(own):
        while backlogs()[0].lacks:
            forward(receiver)


def open_together(place: str, barrier: Barrier) -> None:
    """Opens a source at the same moment as other processes."""
    from sessions_app.sources import database, registry

    (source,) = registry.add(place)
    barrier.wait(30)
    database.open_source(source, adopting=True)


def apply_together(own: str, place: str, barrier: Barrier) -> None:
    """Applies what is queued at the same moment as other processes, until nothing waits."""
    from sessions_app.edits import queue
    from sessions_app.sources import database, registry
    from tests.support.own import own_database

    with own_database(own):
        database.open_source(registry.add(place)[0])
        barrier.wait(30)
        queue.apply_due()


def apply_then_die(own: str, place: str) -> None:
    """Applies a queued edit and kills this process after the event is written, but before that is recorded."""
    from sessions_app.edits import queue
    from sessions_app.sources import database, registry
    from tests.support.own import own_database

    queue.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    with own_database(own):
        database.open_source(registry.add(place)[0])
        queue.apply_due()


def fork_then_die(own: str, place: str, session_id: str, event_id: str) -> None:
    """Forks a session of ana's in a job and kills this process after the first page of events is copied."""
    from sessions_app.access.actor import Actor
    from sessions_app.domain.session_ref import SessionRef
    from sessions_app.edits import fork_jobs
    from sessions_app.jobs.lease import Lease, Progress
    from sessions_app.sources import database, registry
    from tests.support.booking import APP
    from tests.support.own import own_database

    beat = Lease.beat

    def die(lease: Lease, progress: Progress | None = None) -> None:
        beat(lease, progress)
        os.kill(os.getpid(), signal.SIGKILL)

    Lease.beat = die  # type: ignore[method-assign]
    with own_database(own):
        (source,) = registry.add(place)
        database.open_source(source)
        ref, actor = SessionRef(source.alias, APP, "ana", session_id), Actor.holding("maria@example.com", "admin")
        fork_jobs.begin(ref, event_id, user_id="ana", session_id="fork", actor=actor, reason="what if")
        threading.Event().wait(30)


def batch_then_die(own: str, place: str, batch_id: str, events: int) -> None:
    """Does a batch and kills this process after so many events are written, before the last one is noted."""
    from sessions_app.access.actor import Actor
    from sessions_app.batches import batch, items
    from sessions_app.sources import database, registry
    from tests.support.own import own_database

    note, noted = items.note, 0

    def die(*given: Any, **fields: Any) -> None:
        nonlocal noted
        noted += 1
        if noted == events:
            os.kill(os.getpid(), signal.SIGKILL)
        note(*given, **fields)

    items.note = die
    with own_database(own):
        database.open_source(registry.add(place)[0])
        batch.do(uuid.UUID(batch_id), actor=Actor.holding("maria@example.com", "admin"))
        threading.Event().wait(300)


if multiprocessing.current_process().name != "MainProcess" or multiprocessing.parent_process() is None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    import psycopg  # noqa: F401

    import sessions_app.edits.queue  # what each child would import again
    import sessions_app.sources.database  # noqa: F401
