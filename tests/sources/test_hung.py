"""A server that hangs is noticed once, for all who ask it, and holds up nobody else."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.reads import timeline
from sessions_app.sources import database, hung
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.servers import PostgreSQL

FIRST_SECONDS = hung.SLOW_SECONDS + hung.PROBE_SECONDS + 15.0  # on a busy machine
EVENT = {"author": "agent", "invocation_id": "i"}


@contextmanager
def frozen(server: PostgreSQL) -> Iterator[None]:
    """Stops all processes of a server, which then neither answer nor close anything."""
    assert server.process is not None
    parent = psutil.Process(server.process.pid)
    processes = [parent, *parent.children(recursive=True)]
    for each in processes:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGCONT)


def took(ask: Callable[[], object]) -> tuple[float, str]:
    """How long somebody waited, and the error that they got."""
    began = time.monotonic()
    try:
        ask()
    except SourceError as error:
        return time.monotonic() - began, error.message
    return time.monotonic() - began, ""


@pytest.mark.guarantee("Databases and files", "An unresponsive source doesn't delay other sources.")
def test_all_fail_after_one_time_out_then_at_once_and_others_are_not_held_up(
    new_database: Callable[[str], str], open_source: Callable[[str], str], actor: Actor
) -> None:
    with PostgreSQL() as server:
        hangs, other = open_source(server.create_database("hangs")), open_source(new_database("postgresql"))
        refs = [create_session(source, "app", "ana", actor=actor, session_id="s") for source in (hangs, other)]
        waits: list[tuple[float, str]] = []

        def work(number: int) -> None:
            try:
                timeline.events(refs[0], actor=SYSTEM)  # opens a connection of this thread
                ready.wait()
                stopped.wait(60)
                if number % 2:
                    waits.append(took(lambda: append_event(refs[0], EVENT, actor=actor)))
                else:
                    waits.append(took(lambda: timeline.events(refs[0], actor=SYSTEM)))
            finally:
                connections.close_all()

        ready, stopped = threading.Barrier(5), threading.Event()
        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        ready.wait(60)
        with frozen(server):
            stopped.set()
            for thread in threads:
                thread.join(60)
            assert len(waits) == 4
            for seconds, said in waits:
                assert seconds < FIRST_SECONDS
                assert "isn't answering" in said
            for ask in (lambda: append_event(refs[0], EVENT, actor=actor), lambda: database.get(hangs)):
                seconds, said = took(ask)
                assert seconds < 1.0
            seconds, said = took(lambda: timeline.events(refs[0], actor=SYSTEM))
            assert (seconds < 1.0, "isn't answering" in said) == (True, True)
            seconds, said = took(lambda: append_event(refs[1], EVENT, actor=actor))
            assert (seconds < 1.0, said) == (True, "")
        until = time.monotonic() + 30
        while took(lambda: timeline.events(refs[0], actor=SYSTEM))[1]:
            assert time.monotonic() < until
            time.sleep(0.1)
        append_event(refs[0], EVENT, actor=actor)
        database.forget(hangs)


@pytest.mark.parametrize("form", ["postgresql"])
def test_a_statement_that_only_takes_long_is_left_alone(source: str) -> None:
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [hung.SLOW_SECONDS + 2 * hung.PROBE_SECONDS])
        assert cursor.fetchone() is not None


@pytest.mark.parametrize("form", ["postgresql"])
def test_the_thread_that_looks_ends_when_nobody_waits(source: str) -> None:
    def looks() -> bool:
        return any(thread.name == "adkweb-hung" for thread in threading.enumerate())

    with database.using(source):
        hung.leave()
        assert looks()
    hung.leave()
    assert not looks()
    with database.using(source):
        assert looks()
    until = time.monotonic() + 10
    while looks():
        assert time.monotonic() < until
        time.sleep(0.05)
