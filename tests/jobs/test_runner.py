"""Jobs: one process has each, says how far it is, and where it dies another one goes on."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError
from django.utils import translation
from pytest_django import Settings

from sessions_app.access import roles
from sessions_app.access.actor import Actor, Grant
from sessions_app.domain.errors import Conflict, Invalid, NotFound, NotKept, SourceError
from sessions_app.jobs import lease, process, runner
from sessions_app.jobs.lease import IN_DOUBT, Lease, Lost, Outcome, Progress, is_held
from sessions_app.jobs.runner import Beat, Kind
from sessions_app.models import Job
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.support.stored import in_threads

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)

Run = Callable[[Job, Beat], Outcome]
ACTOR = Actor.holding("maria", "admin")


def waiting_for(go: threading.Event, runs: list[Any]) -> Run:
    """Work that goes on until it is told to end, and notes each time that it begins."""

    def run(job: Job, beat: Beat) -> Outcome:
        runs.append(job.pk)
        go.wait(30)
        return Outcome("done")

    return run


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Kind]]:
    """Makes a kind of work known for one test."""
    monkeypatch.setattr(runner, "kinds", {})
    monkeypatch.setattr(runner, "BEAT_SECONDS", 0.0)

    def register(run: Run, can_run: Callable[[Job], bool] = lambda job: True, **options: Any) -> Kind:
        return runner.register(Kind("test", run, can_run, **options))

    yield register
    settle("test")


def add(lane: str = "", **fields: Any) -> Job:
    now = time.time()
    who = runner.fields_of(ACTOR)
    job = {"id": uuid.uuid4(), "kind": "test", "where": "x", "task": "{}", "created": now, "beat": now, "lane": lane}
    return Job.objects.create(**{**job, **who, **fields})


def now(job: Job) -> Job:
    """A job as it is by now."""
    return Job.objects.get(pk=job.pk)


def taken(job: Job) -> Lease:
    """A claim on a job that nobody has."""
    lease = Lease.take(job, 60.0)
    assert lease is not None
    return lease


def die(job: Job) -> None:
    """As if the process that has a job had died longer ago than a claim lasts."""
    Job.objects.filter(pk=job.pk).update(claimed_until=1.0)


def done(job: Job, beat: Beat) -> Outcome:
    beat(Progress(3, 4, "copying"))
    return Outcome("done", fields={"result": "all"})


# --- Claims -----------------------------------------------------------------------------------------------------------


@on_both_of_adkwebs_own
def test_of_many_threads_one_takes_a_job() -> None:
    for _round in range(5):
        job = add()
        results = in_threads([lambda job=job: Lease.take(job, 60.0)] * 8)
        (lease,) = [result for result in results if result is not None]
        assert isinstance(lease, Lease)
        assert now(job).claim == lease.token
        assert Lease.take(now(job), 60.0) is None


@on_both_of_adkwebs_own
def test_a_job_whose_process_died_is_taken_over_by_one_of_many() -> None:
    job = add()
    taken(job)
    die(job)
    dead = now(job)
    results = in_threads([lambda: Lease.take_over(dead, 60.0)] * 8)
    assert len([result for result in results if result is not None]) == 1
    assert now(job).crashes == 1


def test_a_sign_of_life_makes_a_claim_last_and_says_how_far_the_job_is() -> None:
    job = add()
    lease = taken(job)
    die(job)
    lease.beat(Progress(3, 4, "copying"))
    row = now(job)
    assert is_held(row)
    assert (row.done, row.total, row.step) == (3, 4, "copying")
    assert Progress(row.done, row.total).percent == 75
    assert Lease.take_over(row, 60.0) is None


def test_a_process_that_slept_longer_than_its_claim_has_lost_the_job() -> None:
    job = add()
    sleeper = taken(job)
    die(job)
    other = Lease.take_over(now(job), 60.0)
    assert other is not None
    with pytest.raises(Lost):
        sleeper.beat(Progress())
    assert not sleeper.end(Outcome("refused"))
    assert now(job).state == "waiting"
    assert other.end(Outcome("done", "well"))
    assert (now(job).state, now(job).message, is_held(now(job))) == ("done", "well", False)
    assert not other.end(Outcome("refused"))


def test_a_job_that_is_let_go_waits_for_the_next() -> None:
    job = add()
    assert taken(job).end(Outcome())
    assert (now(job).state, now(job).finished, now(job).claimed_until) == ("waiting", None, None)
    assert Lease.take(now(job), 60.0) is not None


def test_of_one_lane_one_job_waits_at_a_time() -> None:
    first, second = add("import x"), add("import x", state="ready")
    assert Lease.take(add("import y"), 60.0) is not None
    with pytest.raises(IntegrityError):
        runner.start(second)
    taken(first).end(Outcome("done"))
    assert Lease.take(second, 60.0) is not None


# --- Running ----------------------------------------------------------------------------------------------------------


@on_both_of_adkwebs_own
def test_a_job_is_run_in_a_thread_and_says_what_came_of_it(kind: Callable[..., Kind]) -> None:
    heard = []
    kind(done, ended=lambda job: heard.append(job.state))
    job = add()
    assert runner.start(job)
    settle("test")
    row = now(job)
    assert (row.state, row.result, row.done, row.total, row.step) == ("done", "all", 3, 4, "copying")
    assert row.finished is not None
    assert heard == ["done"]


def test_a_job_that_is_under_way_is_not_started_twice(kind: Callable[..., Kind]) -> None:
    runs: list[Any] = []
    go = threading.Event()
    kind(waiting_for(go, runs))
    job = add()
    assert runner.start(job)
    assert not runner.start(now(job))
    assert not runner.start(job)
    go.set()
    settle("test")
    assert runs == [job.pk]


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (Invalid("a comma is missing", place="line 3"), "refused", "line 3: a comma is missing"),
        (NotFound("gone"), "refused", "gone"),
        (SourceError("/srv/a.db: full"), "stopped", "This source can't be used right now. An admin can see why."),
        (NotKept("full"), "stopped", "full"),
        (Conflict("somebody writes"), "stopped", "somebody writes"),
        (RuntimeError("a bug"), "stopped", "Something went wrong. See the log for details."),
    ],
)
def test_what_went_wrong_is_kept_with_the_job(
    kind: Callable[..., Kind], error: Exception, state: str, message: str
) -> None:
    def run(job: Job, beat: Beat) -> Outcome:
        raise error

    kind(run)
    job = add()
    runner.start(job)
    settle("test")
    assert (now(job).state, now(job).message) == (state, message)


def test_a_job_runs_with_the_rights_and_the_language_of_who_wanted_it(kind: Callable[..., Kind]) -> None:
    seen = []

    def run(job: Job, beat: Beat) -> Outcome:
        seen.append((runner.actor_of(job), translation.get_language()))
        return Outcome("done")

    kind(run)
    maria = somebody("maria", "editor", "book*")
    with translation.override("ko"):
        job = add(**runner.fields_of(roles.actor_of(maria)))
    runner.start(job)
    settle("test")
    assert seen == [(roles.actor_of(maria), "ko")]
    assert seen[0][0].grants == (Grant("append", "book*"),)


@pytest.mark.parametrize("gone", ["role", "account", "active"])
def test_a_job_has_no_right_that_was_taken_from_who_wanted_it(kind: Callable[..., Kind], gone: str) -> None:
    seen = []
    kind(lambda job, beat: seen.append(runner.actor_of(job).grants) or Outcome("done"))  # type: ignore[func-returns-value]
    maria = somebody("maria", "editor")
    job = add(**runner.fields_of(roles.actor_of(maria)))
    if gone == "role":
        somebody("maria")
    elif gone == "account":
        maria.delete()
    else:
        maria.is_active = False
        maria.save()
    runner.start(job)
    settle("test")
    assert seen == [()]


def test_a_job_that_is_cancelled_ends_at_its_next_sign_of_life(kind: Callable[..., Kind]) -> None:
    ended, begun, go = [], threading.Event(), threading.Event()

    def run(job: Job, beat: Beat) -> Outcome:
        begun.set()
        go.wait(30)
        beat(Progress(1, 2))
        ended.append("not reached")
        return Outcome("done")

    kind(run, ended=lambda job: ended.append(job.state))
    job = add()
    runner.start(job)
    begun.wait(30)
    runner.cancel(now(job))
    go.set()
    settle("test")
    assert (ended, Job.objects.count()) == ([], 0)


def test_a_job_goes_on_while_its_progress_cannot_be_noted(
    kind: Callable[..., Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OperationalError("locked")

    ends = [fail, fail, Lease.end]
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(Lease, "beat", fail)
    monkeypatch.setattr(Lease, "end", lambda *arguments: ends.pop(0)(*arguments))
    kind(done)
    job = add()
    runner.start(job)
    settle("test")
    assert (now(job).state, ends) == ("done", [])


def test_a_job_that_adkwebs_own_database_left_alone_is_begun_again_at_once(kind: Callable[..., Kind]) -> None:
    crashes = []

    def run(job: Job, beat: Beat) -> Outcome:
        crashes.append(job.crashes)
        if not job.crashes:
            raise OperationalError("the connection is lost")
        return Outcome("done")

    kind(run)
    job = add()
    runner.start(job)
    settle("test")
    assert (now(job).state, is_held(now(job))) == ("waiting", False)
    assert runner.take_over() == 1
    settle("test")
    assert (now(job).state, crashes) == ("done", [0, 1])


# --- Taken over -------------------------------------------------------------------------------------------------------


@on_both_of_adkwebs_own
def test_a_job_whose_process_died_goes_on_in_another(kind: Callable[..., Kind]) -> None:
    kind(done)
    held, dead, never_begun = add(), add(), add(beat=1.0)
    for job in (held, dead):
        taken(job)
    die(dead)
    waiting = add()
    assert runner.take_over() == 2
    settle("test")
    assert [now(job).state for job in (held, dead, never_begun, waiting)] == ["waiting", "done", "done", "waiting"]
    assert runner.take_over() == 0


def claimed_by(name: str, **fields: Any) -> Job:
    """A job that a process of this name has."""
    job = add()
    taken(job)
    Job.objects.filter(pk=job.pk).update(process=name, **fields)
    return now(job)


@pytest.mark.guarantee(
    "Writing", "If a process dies, another process on the same machine takes over its job immediately."
)
@on_both_of_adkwebs_own
@pytest.mark.parametrize("waited_for", [False, True], ids=["a zombie", "gone"])
def test_a_job_of_a_process_that_is_seen_to_be_dead_goes_on_at_once(
    kind: Callable[..., Kind], waited_for: bool
) -> None:
    kind(done)
    with subprocess.Popen(["sleep", "100"]) as other:
        job = claimed_by(process.name_of(other.pid))
        assert is_held(job)
        assert runner.take_over() == 0
        other.kill()
        if waited_for:
            other.wait()
        else:
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has waited for it yet
        assert runner.take_over() == 1
    settle("test")
    assert (now(job).state, now(job).crashes) == ("done", 1)


def test_a_job_of_which_nobody_can_tell_what_was_written_is_let_go_in_doubt(kind: Callable[..., Kind]) -> None:
    kind(done)
    with subprocess.Popen(["sleep", "0"]) as other:
        job = claimed_by(process.name_of(other.pid))
    lease = taken(job)
    with pytest.raises(SourceError, match="Its database isn't one of adkweb's sources right now"):
        lease.written(lambda ref: ref)
    assert not is_held(now(job))
    assert now(job).claimed_until == IN_DOUBT
    with pytest.raises(SourceError):
        taken(now(job)).written(lambda ref: ref)


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_one_that_died() -> None:
    machine, pid, began = process.this().rsplit("/", 2)
    assert process.has_died(f"{machine}/{pid}/{int(began) - 1}")
    assert not process.has_died(process.this())


def test_nor_is_that_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process.os, "kill", refuse)
    machine, pid, began = process.this().rsplit("/", 2)
    assert process.has_died(f"{machine}/{pid}/{int(began) - 1}")
    assert not process.has_died(process.this())


@pytest.mark.parametrize("name", ["", "another-boot/pid:[4026531836]/1/5", "x", "/1/2"])
def test_of_another_machine_nothing_is_known_and_its_job_waits(kind: Callable[..., Kind], name: str) -> None:
    kind(done)
    assert not process.has_died(name)
    assert is_held(claimed_by(name))
    assert runner.take_over() == 0


def test_a_clock_that_is_set_back_makes_no_job_wait_for_longer_than_a_claim_lasts(
    kind: Callable[..., Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LONGEST_SECONDS", 0.5)
    kind(done)
    dead, alive = (claimed_by("", claimed_until=time.time() + 3660) for _ in range(2))
    assert runner.take_over() == 0  # it may be another machine's, whose clock is ahead
    time.sleep(0.3)
    Job.objects.filter(pk=alive.pk).update(claimed_until=time.time() + 3661)
    assert runner.take_over() == 0
    time.sleep(0.3)
    assert runner.take_over() == 1
    settle("test")
    assert [now(job).state for job in (dead, alive)] == ["done", "waiting"]


def test_a_job_that_says_nothing_for_long_is_taken_over_by_nobody_while_its_process_lives(
    kind: Callable[..., Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(runner, "ALIVE_SECONDS", 0.05)
    runs: list[Any] = []
    go = threading.Event()
    kind(waiting_for(go, runs))
    job = add()
    runner.start(job)
    time.sleep(1.0)
    assert runner.take_over() == 0
    go.set()
    settle("test")
    assert (now(job).state, now(job).crashes, runs) == ("done", 0, [job.pk])


def test_a_silent_job_that_another_process_took_ends_at_its_next_word(
    kind: Callable[..., Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BEAT_SECONDS", 60.0)
    monkeypatch.setattr(runner, "ALIVE_SECONDS", 0.05)
    ended, go = [], threading.Event()

    def run(job: Job, beat: Beat) -> Outcome:
        beat(Progress(1, 3))
        go.wait(30)
        beat(Progress(2, 3))  # too soon after the first to be noted
        ended.append("not reached")
        return Outcome("done")

    kind(run)
    job = add()
    runner.start(job)
    Job.objects.filter(pk=job.pk).update(claim="another process")
    time.sleep(0.5)
    go.set()
    settle("test")
    assert (now(job).claim, now(job).state, ended) == ("another process", "waiting", [])


def test_a_job_that_this_process_cannot_do_is_left_to_others(kind: Callable[..., Kind]) -> None:
    kind(done, lambda job: False)
    job, other = add(), add(kind="of a later version")
    die(job)
    die(other)
    assert runner.take_over() == 0
    assert [now(each).claimed_until for each in (job, other)] == [1.0, 1.0]


def test_read_only_takes_nothing_over(kind: Callable[..., Kind], settings: Settings) -> None:
    settings.READ_ONLY = True
    kind(done)
    die(add())
    assert runner.take_over() == 0


def test_a_job_that_ends_its_process_again_and_again_waits_for_a_person(kind: Callable[..., Kind]) -> None:
    ended: list[Job] = []
    kind(done, ended=ended.append)
    job = add(crashes=runner.MOST_CRASHES - 1)
    die(job)
    assert runner.take_over() == 0
    assert [(each.pk, each.state) for each in ended] == [(job.pk, "stopped")]
    assert (now(job).state, now(job).message) == (
        "stopped",
        "adkweb stopped several times, or couldn't reach its database.",
    )
    assert runner.start(now(job))
    settle("test")
    assert (now(job).state, now(job).crashes, now(job).message) == ("done", 0, "")
