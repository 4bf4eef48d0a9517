"""A long fork is a job: it goes on in the background, and in another process where its own dies."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AlreadyExists, NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import fork as forks
from sessions_app.edits import fork_jobs, fork_tree
from sessions_app.edits.fork import Copying
from sessions_app.jobs import runner
from sessions_app.jobs.lease import Lease
from sessions_app.models import Job
from sessions_app.sources import errors
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.incomplete import IMPORTING
from sessions_app.writes.sessions import create_session, delete_session
from tests.support import processes
from tests.support.at_work import settle
from tests.support.booking import APP
from tests.support.bulk import fill
from tests.support.stored import events_of, query, state_of

pytestmark = pytest.mark.usefixtures("own")

AT = "e2400"


@pytest.fixture
def database_name(form: str, new_store: Callable[[str], str]) -> str:
    """What names the source's database."""
    return new_store(form)


@pytest.fixture
def ref(database_name: str, open_source: Callable[[str], str], actor: Actor) -> SessionRef:
    """A session of 2500 events."""
    ref = create_session(open_source(database_name), APP, "ana", actor=actor, session_id="long")
    fill(ref, 2_500)
    return ref


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("fork")


def begin(ref: SessionRef, actor: Actor, reason: str = "what if", **values: Any) -> SessionRef:
    return fork_jobs.begin(ref, AT, user_id="ana", session_id="fork", actor=actor, reason=reason, values=values)


def into_of(ref: SessionRef) -> SessionRef:
    return ref._replace(session_id="fork")


def die() -> None:
    """As if the process that is at a fork had died longer ago than a claim lasts."""
    Job.objects.update(claimed_until=1.0)


@pytest.fixture
def killed(ref: SessionRef, database_name: str, own: str) -> SessionRef:
    """A fork whose process was killed after its first thousand events."""
    assert processes.run(processes.fork_then_die, own, database_name, ref.session_id, AT) == [processes.KILLED]
    return into_of(ref)


def assert_whole(ref: SessionRef, into: SessionRef) -> None:
    assert state_of(into)["session"] == {"n": 2_400}
    assert [event["id"] for _seq, event in events_of(into)][:-1] == [f"e{n}" for n in range(1, 2_401)]
    made = fork_tree.origin(into, actor=SYSTEM)
    assert made is not None
    assert (made.origin, made.event_id, made.reason) == (ref, AT, "what if")


def assert_gone(into: SessionRef) -> None:
    """Nothing of a fork is there."""
    names = [into.app_name, into.session_id]
    assert query(into.source, "SELECT id FROM sessions WHERE app_name = %s AND id = %s", names) == []
    assert query(into.source, "SELECT id FROM events WHERE app_name = %s AND session_id = %s", names) == []


def test_a_long_fork_is_copied_in_the_background(ref: SessionRef, actor: Actor) -> None:
    into = begin(ref, actor)
    settle("fork")
    shown = fork_jobs.progress(ref, AT, into, actor=SYSTEM)
    assert (shown.done, shown.percent, shown.working, shown.stopped) == (True, 100, False, "")
    assert_whole(ref, into)
    assert not Job.objects.exists()


def test_a_long_fork_begins_with_other_values_once_it_is_whole(ref: SessionRef, actor: Actor) -> None:
    into = begin(ref, actor, step="pay", gone=ABSENT)
    settle("fork")
    assert state_of(into)["session"]["step"] == "pay"
    note, edit = [event for _seq, event in events_of(into)[-2:]]
    assert "forked" in note["custom_metadata"]["adkweb"]
    assert edit["actions"]["state_delta"] == {"step": "pay"}
    assert edit["custom_metadata"]["adkweb"]["reason"] == "what if"


@pytest.mark.guarantee(
    "Edits",
    "A fork never overwrites a session, and if the process is killed, the fork later resumes where it left off.",
)
def test_a_fork_whose_process_is_killed_goes_on_in_another(ref: SessionRef, killed: SessionRef) -> None:
    half = fork_jobs.progress(ref, AT, killed, actor=SYSTEM)
    assert (half.copied, half.total, half.done, half.working) == (1_000, 2_400, False, True)
    assert state_of(killed)["session"] == IMPORTING
    assert runner.take_over() == 1  # although its claim lasts: it is seen to be dead
    settle("fork")
    assert_whole(ref, killed)
    assert not Job.objects.exists()


def test_a_half_whose_origin_is_gone_when_it_is_taken_over_is_deleted(
    ref: SessionRef, killed: SessionRef, actor: Actor
) -> None:
    delete_session(ref, actor=actor)
    die()
    assert runner.take_over() == 1
    settle("fork")
    assert_gone(killed)
    assert [job.state for job in Job.objects.all()] == ["refused"]


def test_a_half_that_somebody_deleted_is_not_made_again(ref: SessionRef, killed: SessionRef, actor: Actor) -> None:
    delete_session(killed, actor=actor)
    die()
    assert runner.take_over() == 1
    settle("fork")
    assert_gone(killed)
    with pytest.raises(NotFound):
        fork_jobs.progress(ref, AT, killed, actor=SYSTEM)
    begin(ref, actor)
    settle("fork")
    assert_whole(ref, killed)


def test_a_fork_that_was_whole_when_its_process_died_is_done(
    ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lease, "end_surely", lambda *_: False)  # dies before it
    into = begin(ref, actor)
    settle("fork")
    monkeypatch.undo()
    before = events_of(into)
    die()
    assert runner.take_over() == 1
    settle("fork")
    assert events_of(into) == before
    assert not Job.objects.exists()


def test_a_fork_that_is_sent_again_while_it_is_copied_is_copied_once(
    ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, go, runs = Copying.run, threading.Event(), []

    def wait(copying: Copying, *arguments: Any) -> None:
        runs.append(copying)
        go.wait(30)
        run(copying, *arguments)

    monkeypatch.setattr(Copying, "run", wait)
    into = begin(ref, actor)
    early = fork_jobs.progress(ref, AT, into, actor=SYSTEM)
    assert (early.copied, early.total, early.percent, early.done, early.working) == (0, 2_400, 0, False, True)
    begin(ref, actor)
    go.set()
    settle("fork")
    assert len(runs) == 1
    assert_whole(ref, into)


def test_a_fork_that_stopped_says_why_and_goes_on(
    ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_batch = forks.import_session

    def away(*arguments: Any, **options: Any) -> None:
        import_batch(*arguments, **options)
        raise SourceError("away")

    monkeypatch.setattr(forks, "import_session", away)
    into = begin(ref, actor)
    settle("fork")
    monkeypatch.undo()
    half = fork_jobs.progress(ref, AT, into, actor=SYSTEM)
    assert (half.copied, half.done, half.working, half.stopped) == (1_000, False, False, errors.unusable())
    begin(ref, actor)
    settle("fork")
    assert fork_jobs.progress(ref, AT, into, actor=SYSTEM).done
    assert_whole(ref, into)


def test_a_fork_that_stopped_before_its_first_page_says_why(
    ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise SourceError("away")

    monkeypatch.setattr(forks, "import_session", away)
    into = begin(ref, actor)
    settle("fork")
    shown = fork_jobs.progress(ref, AT, into, actor=SYSTEM)
    assert (shown.copied, shown.total, shown.done, shown.stopped) == (0, 2_400, False, errors.unusable())


def test_a_long_fork_is_refused_before_anything_is_kept(ref: SessionRef, actor: Actor) -> None:
    theirs = ImportedSession(into_of(ref), 1.0, 1.0, "{}", "{}")
    import_session(theirs, [ImportedEvent("x", "", 1.0, "{}")], actor=actor, after=None, last=False)
    with pytest.raises(AlreadyExists):
        begin(ref, actor)
    assert not Job.objects.exists()


def test_why_a_fork_stopped_is_kept_for_a_day(ref: SessionRef, actor: Actor) -> None:
    who = runner.fields_of(actor)
    for name, ago, state in (("new", 3600.0, "stopped"), ("old", 2 * 86400.0, "stopped"), ("other", 1e6, "ready")):
        moment = time.time() - ago
        kind = "import" if name == "other" else "fork"
        when = dict.fromkeys(("created", "beat", "finished"), moment)
        Job.objects.create(id=uuid.uuid4(), kind=kind, where=name, task="{}", state=state, **when, **who)
    begin(ref, actor)
    settle("fork")
    assert sorted(job.where for job in Job.objects.all()) == ["new", "other"]
