"""What an earlier version left half-done goes on in this one."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.state import ABSENT
from sessions_app.edits import queue
from sessions_app.edits.edit import Entry
from sessions_app.jobs import runner
from sessions_app.reads import lists
from sessions_app.sources import registry
from sessions_app.transfer import imports, uploads
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.parts import long_but
from tests.support.at_work import settle
from tests.support.stored import events_of, state_of
from tests.transfer.files import file_of, session_line

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", long_but(["sqlite", "postgresql"], "sqlite"), indirect=True)

MARIA = Actor.holding("maria", "admin")


@pytest.fixture(autouse=True)
def _no_files_are_left() -> Iterator[None]:
    yield
    for path in (Path(settings.DATA_DIR) / "uploads").glob("*"):
        path.unlink()


@pytest.fixture
def into(tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """An empty source."""
    (tmp_path / "into.db").touch()
    return open_source(str(tmp_path / "into.db"))


def go_back(name: str) -> Any:
    """The models that a migration left, in a database that it has just made."""
    executor = MigrationExecutor(connection)
    return executor.migrate([("sessions_app", name)]).apps


def settled(import_id: uuid.UUID) -> imports.Import:
    settle("import")
    return imports.get(import_id, actor=MARIA)


@on_both_of_adkwebs_own
def test_imports_that_an_earlier_version_left_half_done_go_on(into: str) -> None:
    get_user_model().objects.create_user("maria")
    upload = uploads.receive([file_of(session_line("s1"))])
    text = json.dumps(
        {
            "format": "jsonl",
            "counts": {"states": 0, "sessions": 1, "events": 0},
            "report": {"new": 1},
            "skipped": [],
            "differing": [],
            "sessions": [["app", "u", "s1"]],
        }
    )
    models = go_back("0009_guarded_sign_ins")
    stages = ("checking", "ready", "refused", "importing", "stopped", "done")
    ids = {stage: uuid.uuid4() for stage in stages}
    previews = {stage: {} if stage in ("checking", "refused") else {"found": text} for stage in stages}
    for stage, import_id in ids.items():
        models.get_model("sessions_app", "FileImport").objects.create(
            id=import_id,
            file=upload.id,
            name="backup.jsonl",
            where=registry.identity(into),
            actor="maria",
            created=time.time() - 600,
            beat=time.time() - 300,
            stage=stage,
            share=0.5,
            message="line 3" if stage == "refused" else "",
            **previews[stage],
        )
    call_command("migrate", verbosity=0, interactive=False)

    before = imports.get(ids["importing"], actor=MARIA)
    assert (before.stage, before.name, before.actor, before.source) == ("stopped", "backup.jsonl", "maria", into)
    assert [imports.get(ids[stage], actor=MARIA).stage for stage in ("ready", "refused", "done")] == [
        "ready",
        "refused",
        "done",
    ]
    assert imports.get(ids["refused"], actor=MARIA).message == "line 3"
    assert before.preview is not None
    assert [ref.session_id for ref in before.preview.sessions] == ["s1"]

    assert runner.take_over() == 1
    assert settled(ids["checking"]).stage == "ready"
    assert lists.apps(into, actor=SYSTEM).rows == []
    imports.go_on(ids["importing"], MARIA)
    assert settled(ids["importing"]).stage == "done"
    assert [app.app_name for app in lists.apps(into, actor=SYSTEM).rows] == ["app"]


def keep(person: User, where: str, number: int, **fields: Any) -> dict[str, Any]:
    """The fields of a row that an earlier version kept of a queued edit of its key."""
    entries = [{"key": f"k{number}", "value": number}]
    kept = {"app_name": "app", "user_id": "u", "session_id": "s1", "entries": json.dumps(entries), "reason": "by phone"}
    row = {**kept, "where": where, "actor": "maria", "person_id": person.pk, "event_id": f"event-{number}"}
    return {"id": uuid.UUID(int=number), "created": time.time() - 100 + number, **row, **fields}


@on_both_of_adkwebs_own
def test_edits_that_an_earlier_version_queued_wait_on_and_those_it_finished_are_told(into: str) -> None:
    ref = create_session(into, "app", "u", actor=MARIA, session_id="s1", state={"k3": "mine"})
    models = go_back("0010_job")
    person = models.get_model("auth", "User").objects.create(username="maria")
    nan = json.dumps([{"key": "n", "value": 1, "seen": math.nan}, {"key": "k3", "value": 3, "changed": True}])
    done = {"finished": 5.0}
    rows = [
        {},
        {"claimed_until": 0.0, "of": json.dumps({"undoes": "e1"})},  # perhaps applied
        {"state": "conflict", "entries": nan, **done},
        {"state": "applied", "seq": 313, **done},
        {"state": "applied", "seq": 314, "told": True, **done},
        {"state": "failed", "message": "The session was deleted.", **done},
        {"state": "withdrawn", "message": "bo", "person_id": None, **done},
    ]
    for number, fields in enumerate(rows, 1):
        row = keep(person, registry.identity(into), number, **fields)
        models.get_model("sessions_app", "QueuedEdit").objects.create(**row)
    call_command("migrate", verbosity=0, interactive=False)

    maria = User.objects.get()
    kept = [queue.get(uuid.UUID(int=number), actor=SYSTEM) for number in range(1, 8)]
    states = ["waiting", "waiting", "conflict", "applied", "applied", "failed", "withdrawn"]
    assert [edit.state for edit in kept] == states
    assert [(edit.ref, edit.actor, edit.reason) for edit in kept] == [(ref, "maria", "by phone")] * 7
    assert [edit.event_id for edit in kept] == [f"event-{number}" for number in range(1, 8)]
    assert [edit.author_id for edit in kept] == [maria.pk] * 6 + [None]
    assert [edit.seq for edit in kept] == [None, None, None, 313, 314, None, None]
    assert [edit.message for edit in kept[5:]] == ["The session was deleted.", "bo"]
    assert (kept[2].changed, kept[2].entries[1]) == (["k3"], Entry("k3", 3, ABSENT))
    assert math.isnan(kept[2].entries[0].seen)
    assert kept[1].of == {"undoes": "e1"}
    assert {edit.id for edit in queue.outcomes(maria)} == {kept[2].id, kept[3].id, kept[5].id}

    assert runner.take_over() == 0
    assert queue.apply_due() == 2
    assert [event["id"] for _seq, event in events_of(ref)] == ["event-1", "event-2"]
    assert state_of(ref)["session"] == {"k1": 1, "k2": 2, "k3": "mine"}


@on_both_of_adkwebs_own
def test_an_edit_that_an_earlier_version_applied_without_saying_so_is_not_applied_again(into: str) -> None:
    ref = create_session(into, "app", "u", actor=MARIA, session_id="s1")
    note = {"custom_metadata": {"adkweb": {"actor": "maria", "reason": "by phone"}}}
    event = {"id": "event-1", "author": "system", "actions": {"state_delta": {"k1": 1}}, **note}
    append_event(ref, event, actor=MARIA, origin="person")  # before going back: today's append asks for rules
    before = events_of(ref)
    models = go_back("0010_job")
    person = models.get_model("auth", "User").objects.create(username="maria")
    row = keep(person, registry.identity(into), 1, claimed_until=1.0)
    models.get_model("sessions_app", "QueuedEdit").objects.create(**row)
    call_command("migrate", verbosity=0, interactive=False)
    assert queue.apply_due() == 1
    assert queue.get(uuid.UUID(int=1), actor=SYSTEM).state == "applied"
    assert events_of(ref) == before
