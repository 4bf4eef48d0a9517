"""A process that ends lets its jobs go, and the next one goes on with them at once."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest

from sessions_app.jobs import runner
from sessions_app.jobs.lease import Outcome, Progress, is_held
from sessions_app.jobs.runner import Beat, Kind
from sessions_app.models import Job
from tests.support.at_work import settle
from tests.support.people import ALICE

pytestmark = [
    pytest.mark.usefixtures("own"),
    pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True),
]


def begin(monkeypatch: pytest.MonkeyPatch, go: threading.Event, seen: list[Any], ended: list[Any]) -> Job:
    """Begins a job that goes on, with progress, until it is told to end."""

    def run(job: Job, beat: Beat) -> Outcome:
        seen.append(job.crashes)
        while not go.wait(0.01):
            beat(Progress(len(seen), 10))
        return Outcome("done")

    monkeypatch.setattr(runner, "kinds", {})
    runner.register(Kind("test", run, lambda job: True, ended=ended.append))
    now = time.time()
    who = runner.fields_of(ALICE)
    job = Job.objects.create(id=uuid.uuid4(), kind="test", where="x", task="{}", created=now, beat=now, **who)
    assert runner.start(job)
    return job


def now(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def test_a_job_that_is_let_go_is_taken_over_at_once_and_no_crash_however_often(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, seen, ended = threading.Event(), [], []
    job = begin(monkeypatch, go, seen, ended)
    for times in range(1, runner.MOST_CRASHES + 3):
        began = time.monotonic()
        runner.let_go(10.0)
        assert time.monotonic() - began < 5
        assert (now(job).state, is_held(now(job)), len(seen)) == ("waiting", False, times)
        assert ended == []
        assert runner.take_over() == 1
        while len(seen) == times:
            time.sleep(0.01)
    go.set()
    settle("test")
    assert (now(job).state, now(job).crashes, set(seen), len(ended)) == ("done", 0, {0}, 1)


def test_a_job_without_any_progress_is_not_waited_for_longer_and_stays_claimed(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Event()

    def run(job: Job, beat: Beat) -> Outcome:
        begun.set()
        go.wait(30)
        return Outcome("done")

    monkeypatch.setattr(runner, "kinds", {})
    runner.register(Kind("test", run, lambda job: True))
    who = runner.fields_of(ALICE)
    job = Job.objects.create(id=uuid.uuid4(), kind="test", where="x", task="{}", created=1.0, beat=1.0, **who)
    runner.start(job)
    assert begun.wait(10)
    began = time.monotonic()
    runner.let_go(0.2)
    assert 0.1 < time.monotonic() - began < 2
    assert is_held(now(job))
    assert runner.take_over() == 0
    go.set()
    settle("test")
    assert now(job).state == "done"
