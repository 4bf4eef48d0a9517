"""A writer that dies in the middle leaves all of what it did, or nothing: real processes, really killed."""

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import State
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.people import ALICE
from tests.support.stored import assert_state_is_what_events_say, counts, events_of, everything, query

INITIAL: State = {"n": 0, "user:n": 0, "app:n": 0}
ROOT = Path(__file__).parents[2]

Victim = Callable[..., list[dict[str, Any]]]
Moments = Iterator[tuple[int, str]]


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    """victim.py, waiting for jobs."""
    command = [sys.executable, "-W", "error", "-m", "tests.writes.victim"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


@pytest.fixture
def text(form: str, new_store: Callable[[str], str]) -> str:
    """What names the database of this test."""
    return new_store(form)


@pytest.fixture
def ref(own: str, text: str, open_source: Callable[[str], str]) -> SessionRef:
    """A session with state in every scope, made before anybody dies."""
    return create_session(open_source(text), "app", "user", actor=ALICE, state=INITIAL)


@pytest.fixture
def victim(form: str, text: str, ref: SessionRef, process: subprocess.Popen[str]) -> Victim:
    """Runs one job in a process that dies of it; what it told, and its end."""
    name = f"{text}?application_name=victim" if form == "postgresql" else text

    def run(**job: Any) -> list[dict[str, Any]]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"source": name, "key": ref[1:], **job}) + "\n")
        process.stdin.flush()
        told: list[dict[str, Any]] = []
        while "exit" not in (told[-1] if told else {}):
            told.append(json.loads(process.stdout.readline()))
        assert [line for line in told if "error" in line] == []
        if form == "postgresql":  # the server finishes, or rolls back, what it had got
            left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim'"
            while query(ref.source, left)[0][0]:
                time.sleep(0.005)
        return told

    return run


def die_at_random_moments(ref: SessionRef, victim: Victim, rounds: int) -> None:
    rng = random.Random()
    number = 1
    for _ in range(rounds):
        told = victim(operation="append", first=number, after=rng.uniform(0, 0.06))
        *acknowledged, end = told
        assert end == {"exit": -signal.SIGKILL}
        stored = [event["id"] for _seq, event in events_of(ref)]
        assert stored == [f"e{n}" for n in range(1, len(stored) + 1)]
        # All that was acknowledged is there, and at most the one that was under way.
        assert acknowledged[-1]["done"] <= len(stored) <= acknowledged[-1]["done"] + 1
        assert_consistent(ref)
        number = len(stored) + 1
        appended = append_event(ref, {"id": f"e{number}", "timestamp": time.time()}, actor=ALICE)
        assert appended.seq is not None
        number += 1


@pytest.fixture(params=[5, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
def moments(request: pytest.FixtureRequest) -> Moments:
    """Before the first statement, after it, before the second …; in `make test`, around every fifth one."""
    return ((place, side) for place in itertools.count(1, request.param) for side in ("before", "after"))


def assert_consistent(ref: SessionRef) -> None:
    """State is what the events say, and the revision is the last event's time."""
    assert_state_is_what_events_say(ref.source, {ref: INITIAL})
    times = [event["timestamp"] for _seq, event in events_of(ref)]
    view = views.session(ref, actor=SYSTEM)
    assert view.revision == pytest.approx(max([*times, view.create_time]), abs=3e-6, rel=0)


def test_a_writer_killed_at_random_moments_leaves_whole_appends_only(ref: SessionRef, victim: Victim) -> None:
    die_at_random_moments(ref, victim, rounds=10)


@pytest.mark.long
def test_a_writer_killed_a_hundred_times_leaves_whole_appends_only(ref: SessionRef, victim: Victim) -> None:
    die_at_random_moments(ref, victim, rounds=100)


@pytest.mark.guarantee("Writing", "An append either completes or has no effect, no matter when the process is killed.")
@pytest.mark.parametrize("operation", ["append", "append on a revision", "append on values"])
def test_an_append_killed_before_or_after_any_of_its_statements_is_whole_or_nothing(
    ref: SessionRef, victim: Victim, operation: str, form: str, moments: Moments, request: pytest.FixtureRequest
) -> None:
    before = everything(ref.source)
    job = {"operation": operation, "first": 3, "revision": views.session(ref, actor=SYSTEM).revision}
    deaths = 0
    for place, side in moments:
        (end,) = victim(**job, kill=[side, place])
        if end["exit"] == 0:
            break
        deaths += 1
        stored = [event["id"] for _seq, event in events_of(ref)]
        if stored == []:
            assert everything(ref.source) == before
        else:
            assert stored == ["e3"]
            assert_consistent(ref)
            break  # the rest of the statements are reads
    assert deaths >= (2 if form == "postgresql" or "some" in request.node.callspec.id else 16)
    assert [event["id"] for _seq, event in events_of(ref)] == ["e3"]
    assert_consistent(ref)
    # Whether or not the last one died after its commit: what it did not hear of, it may send again.
    (_seq, event) = events_of(ref)[0]
    assert append_event(ref, event, actor=ALICE, origin="person").seq is None
    assert append_event(ref, {"id": "next"}, actor=ALICE).seq is not None
    assert_consistent(ref)


@pytest.mark.guarantee("Writing", "Acknowledged events survive even if the process is killed.")
@pytest.mark.parametrize(("form", "mode"), [("sqlite", "wal"), ("sqlite", "delete"), ("sqlite-database", "wal")])
def test_threads_that_share_commits_and_are_killed_lose_nothing_that_was_acknowledged(
    ref: SessionRef, victim: Victim, mode: str
) -> None:
    assert query(ref.source, f"PRAGMA journal_mode = {mode}") == [(mode,)]
    rng = random.Random()
    known: set[str] = set()
    for number in range(6):
        threads = [(number * 16 + thread) * 10_000 + 1 for thread in range(16)]
        told = victim(operation="append", threads=threads, after=rng.uniform(0.005, 0.15))
        *acknowledged, end = told
        assert end == {"exit": -signal.SIGKILL}
        known |= {line["id"] for line in acknowledged}
        stored = [event["id"] for _seq, event in events_of(ref)]
        assert len(stored) == len(set(stored))
        assert known <= set(stored)
        assert len(stored) <= len(known) + 16  # each thread had one under way
        assert_state_is_what_events_say(ref.source, {ref: INITIAL})
        known = {*stored, f"between{number}"}
        assert append_event(ref, {"id": f"between{number}"}, actor=ALICE).seq is not None
    assert len(known) > 25


@pytest.mark.guarantee("Writing", "A session is either created completely or not at all.")
def test_a_session_is_created_whole_or_not_at_all(ref: SessionRef, victim: Victim, moments: Moments) -> None:
    before = everything(ref.source)
    for place, side in moments:
        (end,) = victim(operation="create", first=1, kill=[side, place])
        if end["exit"] == 0:
            break
        assert everything(ref.source) == before
    made = SessionRef(*ref[:3], "made")
    expected = {"n": 1, "user:made": 1, "app:made": 1, "user:n": 0, "app:n": 0}
    assert views.session(made, actor=SYSTEM).state.merged() == expected


@pytest.mark.guarantee("Writing", "A session is either deleted with all its events or not at all.")
def test_a_session_is_deleted_with_all_its_events_or_not_at_all(
    ref: SessionRef, victim: Victim, moments: Moments
) -> None:
    for n in range(3):
        append_event(ref, {"actions": {"state_delta": {"n": n}}}, actor=ALICE)
    before = everything(ref.source)
    for place, side in moments:
        (end,) = victim(operation="delete", first=1, kill=[side, place])
        if end["exit"] == 0:
            break
        assert everything(ref.source) == before
    assert counts(ref.source) == {"app_states": 1, "user_states": 1, "sessions": 0, "events": 0}
