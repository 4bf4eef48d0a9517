"""The projection while others write and read at the same time: nothing is passed over, nothing kept twice."""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history import moments
from sessions_app.history.index import build
from sessions_app.models import Projection, StateChange
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.own import migrated, own_database
from tests.support.people import ALICE

WRITERS, EVENTS = 3, 40


def in_threads(*works: Callable[[], None]) -> None:
    """Runs all at once; the first fault of any is raised."""
    faults: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as fault:
            faults.append(fault)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fault in faults:
        raise fault


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_many_write_and_many_catch_up(source: str, tmp_path: Path) -> None:
    with own_database(f"sqlite:///{migrated(tmp_path / 'own.db')}"):
        keys = [
            create_session(source, "booking", user, state={"app:n": 0, "user:n": 0}, actor=ALICE)
            for user in ("ana", "ana", "ben")
        ]
        ended = threading.Event()

        def write(ref: SessionRef, number: int) -> None:
            for step in range(EVENTS):
                delta = {"n": step, "user:n": [number, step], f"app:{step % 7}": number}
                append_event(ref, {"author": "x", "actions": {"state_delta": delta}}, actor=ALICE)
                if step % 10 == 0:
                    create_session(source, "booking", "ana", state={"user:made": step}, actor=ALICE)

        def catch_up() -> None:
            while not ended.is_set():
                with suppress(Behind):
                    build.catch_up(source, seconds=random.random() / 100)

        readers = [threading.Thread(target=catch_up) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            in_threads(*(lambda key=ref, number=number: write(key, number) for number, ref in enumerate(keys)))  # type: ignore[misc]
        finally:
            ended.set()
            for reader in readers:
                reader.join()
        build.catch_up(source)
        kept = set(StateChange.objects.values_list("owner_id", "key", "place"))
        states = {ref: moments.state_now(ref, actor=SYSTEM) for ref in keys}
        assert {ref: state.state for ref, state in states.items()} == {
            ref: views.session(ref, actor=SYSTEM).state for ref in keys
        }
        number = build.rebuild(source)
        assert number == len([row for row in kept if row[1] != "state"]) == len(keys) * EVENTS * 3 + 6 + len(keys) * 4
        assert {row[1:] for row in kept} == set(StateChange.objects.values_list("key", "place"))
        assert {ref: moments.state_now(ref, actor=SYSTEM) for ref in keys} == states
        assert Projection.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_is_forgotten_leaves_nothing(source: str) -> None:
    ref = create_session(source, "booking", "ana", state={"user:n": 0}, actor=ALICE)
    append_event(ref, {"author": "x", "actions": {"state_delta": {"n": 1}}}, actor=ALICE)
    build.catch_up(source)
    assert StateChange.objects.count() == 3  # the user's key, the session's, and that the event changed state
    build.forget(source)
    assert not StateChange.objects.exists()
    assert not Projection.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_source_that_is_read_only_is_projected_all_the_same(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    event = append_event(ref, {"author": "x", "actions": {"state_delta": {"n": 1}}}, actor=ALICE).event
    with connections[source].cursor() as cursor:
        if cursor.db.vendor == "sqlite":
            cursor.execute("PRAGMA query_only = ON")
        else:
            cursor.execute("SET default_transaction_read_only = on")
        try:
            assert moments.state_at(ref, event["id"], actor=SYSTEM).state.session == {"n": 1}
        finally:
            if cursor.db.vendor == "sqlite":
                cursor.execute("PRAGMA query_only = OFF")
            else:
                cursor.execute("SET default_transaction_read_only = off")
