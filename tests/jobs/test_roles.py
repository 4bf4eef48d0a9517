"""Jobs: what each role may have done, in one table over all kinds of jobs. A new kind without a row fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest
from django.conf import settings
from django.test import override_settings

from sessions_app.access import roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.batches import batch
from sessions_app.checks import rules
from sessions_app.domain.errors import Error, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork_jobs
from sessions_app.jobs import runner
from sessions_app.jobs.lease import Lease, Progress
from sessions_app.models import Job, Rule, Trial, TriedSession
from sessions_app.privacy import erasures, exports, retention, retention_job
from sessions_app.privacy.retention import RetentionRule
from sessions_app.running import children, runs
from sessions_app.transfer import imports, recording, uploads
from sessions_app.trying import replays, whatif, whatifs
from sessions_app.writes.sessions import create_session
from tests.support.at_work import settle
from tests.support.bulk import fill
from tests.support.people import somebody
from tests.support.stored import everything, execute
from tests.transfer.files import exported

pytestmark = pytest.mark.usefixtures("own", "forked_agents")

APP: Final = "booking"
PEOPLE: Final = {
    "nobody": ("", "*"),
    "auditor": ("auditor", "*"),
    "stranger": ("admin", "weather*"),
    "viewer": ("viewer", "book*"),
    "operator": ("operator", "book*"),
    "editor": ("editor", "book*"),
    "admin": ("admin", "book*"),
}


@pytest.fixture
def ref(new_store: Callable[[str], str], open_source: Callable[[str], str]) -> SessionRef:
    """A session long enough that its fork is a job."""
    ref = create_session(open_source(new_store("sqlite")), APP, "ana", session_id="s1", actor=SYSTEM)
    fill(ref, 2_500)
    return ref


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for kind in KINDS:
        settle(kind)
    children.stop_all(2)
    for path in (Path(settings.DATA_DIR) / "exports").glob("*"):
        path.unlink()


# --- What begins a job of each kind, as its page does, up to where it would write ---------------------------------------


def an_edit(ref: SessionRef, actor: Actor) -> None:
    made = batch.begin("edit", actor=actor, refs=[ref])
    batch.try_(made, {"step": "pay"}, actor=actor)
    settle("batch")
    batch.do(made, actor=actor)


def a_fork(ref: SessionRef, actor: Actor) -> None:
    fork_jobs.begin(ref, "e2400", user_id="ana", session_id="fork", actor=actor, reason="", values={})


def an_import(ref: SessionRef, actor: Actor) -> None:
    text = exported(ref.source).replace(b'"s1"', b'"s2"')
    imported = imports.begin(uploads.receive([text]), "file.jsonl", ref.source, actor)
    settle("import")
    imports.go_on(imported, actor)


def a_rule(ref: SessionRef, actor: Actor) -> None:
    rules.create(ref.source, APP, "paid", "step exists", actor=actor)


def an_export(ref: SessionRef, actor: Actor) -> None:
    exports.begin(*ref[:3], actor=actor)


def an_erasure(ref: SessionRef, actor: Actor) -> None:
    erasures.begin(*ref[:3], actor=actor)


def a_retention(ref: SessionRef, actor: Actor) -> None:
    retention.save(ref.source, APP, 1, export=False, actor=actor)
    RetentionRule.objects.update(due=0.0)
    execute(ref.source, "UPDATE sessions SET update_time = 1.0")
    retention_job.begin_due()


def a_run(ref: SessionRef, actor: Actor) -> None:
    with override_settings(AGENTS={ref.source: str(Path("examples/agents").absolute())}, RUN_AGENTS=True):
        runs.say(ref, "Book the cheapest one", actor=actor)
        settle("run")


def a_replay(ref: SessionRef, actor: Actor) -> None:
    """It is too long for a replay, which is its outcome."""
    agents = {ref.source: str(Path("examples/agents").absolute())}
    with override_settings(AGENTS=agents, RUN_AGENTS=True), patch.object(recording, "MOST", 10):
        replays.begin(replays.draft([ref], actor=actor), actor=actor)
        settle("replay")


def a_what_if(ref: SessionRef, actor: Actor) -> None:
    with override_settings(AGENTS={ref.source: str(Path("examples/agents").absolute())}, RUN_AGENTS=True):
        whatif.start(ref, whatif.Change("e2400"), actor=actor)
        settle("whatif")


def what_ifs_of_many(ref: SessionRef, actor: Actor) -> None:
    with override_settings(AGENTS={ref.source: str(Path("examples/agents").absolute())}, RUN_AGENTS=True):
        whatifs.begin(whatifs.draft([ref], actor=actor), whatif.Change(""), actor=actor)
        settle("whatifs")


KINDS: Final[dict[str, tuple[Callable[[SessionRef, Actor], None], set[str]]]] = {
    "batch": (an_edit, {"editor", "admin"}),
    "erase": (an_erasure, {"admin"}),
    "export": (an_export, {"admin"}),
    "fork": (a_fork, {"admin"}),
    "import": (an_import, {"admin"}),
    "replay": (a_replay, {"operator", "editor", "admin"}),
    "retention": (a_retention, {"admin"}),
    "rule": (a_rule, {"editor", "admin"}),
    "run": (a_run, {"operator", "editor", "admin"}),
    "whatifs": (what_ifs_of_many, {"operator", "editor", "admin"}),
    "whatif": (a_what_if, {"operator", "editor", "admin"}),
}
EACH: Final = pytest.mark.parametrize("kind", KINDS)


def kept(ref: SessionRef) -> object:
    """What is in the source, the rules, what was tried, and the files that were made."""
    files = sorted((Path(settings.DATA_DIR) / "exports").glob("*.zip"))
    outcomes = list(TriedSession.objects.exclude(result="").values_list("outcome", flat=True))
    rules = list(Rule.objects.values_list("condition", flat=True))
    return everything(ref.source), rules, Trial.objects.count(), files, outcomes


def test_every_kind_of_job_has_a_row() -> None:
    assert runner.kinds.keys() == KINDS.keys()


@EACH
@pytest.mark.parametrize("who", PEOPLE)
def test_a_job_does_what_whoever_wants_it_may_do(ref: SessionRef, kind: str, who: str) -> None:
    begin, may = KINDS[kind]
    before = kept(ref)
    with suppress(*() if who in may else (NotAllowed, NotFound)):
        begin(ref, roles.actor_of(somebody("ria", *PEOPLE[who])))
    settle(kind)
    assert (kept(ref) != before) == (who in may)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"rule"}))  # whose check changes nothing, and belongs to its app
def test_a_job_whose_person_may_not_do_it_any_more_does_nothing(
    ref: SessionRef, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ria = somebody("ria", "admin", "book*")
    real, waiting = runner.start, []

    def start(job: Job, **fields: object) -> bool:
        """Another process is slow: what would write waits."""
        if fields.get("step") in ("doing", "importing", "ready", "running", None):
            waiting.append((job, fields))
            return True
        return real(job, **fields)

    monkeypatch.setattr(runner, "start", start)
    KINDS[kind][0](ref, roles.actor_of(ria))
    settle(kind)
    before = kept(ref)
    somebody("ria")
    for job, fields in waiting:
        with suppress(Error):
            real(job, **fields)
    settle(kind)
    assert len(waiting) == 1
    assert kept(ref) == before


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"rule"}))
def test_a_job_whose_person_loses_the_role_on_its_way_is_begun_again_without_it(
    ref: SessionRef, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ria, begun = somebody("ria", "admin", "book*"), []
    beat = Lease.beat

    def lose(lease: Lease, progress: Progress | None = None) -> None:
        beat(lease, progress)
        if progress and progress.step not in ("checking", "trying") and not begun:
            begun.append(kept(ref))
            somebody("ria")

    monkeypatch.setattr(Lease, "beat", lose)
    KINDS[kind][0](ref, roles.actor_of(ria))
    settle(kind)
    assert (len(begun), runner.take_over()) == (1, 1)
    settle(kind)
    assert kept(ref) == begun[0]
