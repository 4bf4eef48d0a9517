"""What an earlier version left half-done goes on in this one."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from sessions_app.access.actor import Actor
from sessions_app.jobs import runner
from sessions_app.reads import lists
from sessions_app.sources import registry
from sessions_app.transfer import imports, uploads
from tests.transfer.files import file_of, session_line

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)

MARIA = Actor("maria", "admin")


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
    for thread in threading.enumerate():
        if thread.name == "adkweb-import":
            thread.join(30)
    return imports.get(import_id)


@on_both_of_adkwebs_own
def test_imports_that_an_earlier_version_left_half_done_go_on(into: str) -> None:
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

    before = imports.get(ids["importing"])
    assert (before.stage, before.name, before.actor, before.source) == ("stopped", "backup.jsonl", "maria", into)
    assert [imports.get(ids[stage]).stage for stage in ("ready", "refused", "done")] == ["ready", "refused", "done"]
    assert imports.get(ids["refused"]).message == "line 3"
    assert before.preview is not None
    assert [ref.session_id for ref in before.preview.sessions] == ["s1"]

    assert runner.take_over() == 1
    assert settled(ids["checking"]).stage == "ready"
    assert lists.apps(into) == []
    imports.go_on(ids["importing"], MARIA)
    assert settled(ids["importing"]).stage == "done"
    assert [app.app_name for app in lists.apps(into)] == ["app"]
