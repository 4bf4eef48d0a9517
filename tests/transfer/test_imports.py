"""Imports and exports that take long: begun again, taken further by others, and after the rights of who began them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError

from sessions_app import transfer
from sessions_app.access import roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.jobs import runner
from sessions_app.models import Job
from sessions_app.reads import views
from sessions_app.transfer import import_job, imports, uploads
from sessions_app.writes.sessions import create_session
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.transfer.files import file_of, session_line

pytestmark = pytest.mark.usefixtures("own")

PLAN = {"type": "app", "app": "booking", "state": {"plan": "pro"}, "updated": 1.0}


@pytest.fixture
def ref(new_store: Callable[[str], str], open_source: Callable[[str], str]) -> SessionRef:
    """A session of an app that has a plan."""
    source = open_source(new_store("sqlite"))
    return create_session(source, "booking", "ana", session_id="s1", state={"app:plan": "free"}, actor=SYSTEM)


@pytest.fixture(autouse=True)
def _no_files_are_left() -> Iterator[None]:
    yield
    settle("import")
    for path in (Path(settings.DATA_DIR) / "uploads").glob("*"):
        path.unlink()


@pytest.fixture
def maria(own: str) -> Actor:
    """An admin of everything."""
    return roles.actor_of(somebody("maria", "admin"))


def test_an_import_that_is_begun_again_leaves_values_that_people_edited_since(
    ref: SessionRef, maria: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(PLAN, session_line("s2", app="booking", user="ana"))
    begun = imports.begin(uploads.receive([file]), "file.jsonl", ref.source, maria)
    settle("import")

    def cut(*_args: object, **_more: object) -> None:
        raise OperationalError("adkweb's own database is away")

    with monkeypatch.context() as patch:
        patch.setattr(import_job, "import_session", cut)
        imports.go_on(begun, maria, state=True)
        settle("import")
    assert views.app(ref.source, "booking", actor=SYSTEM)[1] == {"plan": "pro"}
    edit.edit_state(ref, [Entry("app:plan", "gold", "pro"), Entry("app:new", 1, ABSENT)], actor=maria)
    assert runner.take_over() == 1
    settle("import")
    assert imports.get(begun, actor=maria).stage == "done"
    assert views.app(ref.source, "booking", actor=SYSTEM)[1] == {"plan": "gold", "new": 1}
    assert views.session(ref._replace(session_id="s2"), actor=SYSTEM).ref.session_id == "s2"


def test_who_may_only_see_all_apps_takes_nobodys_import_further(ref: SessionRef, maria: Actor) -> None:
    begun = imports.begin(uploads.receive([file_of(PLAN)]), "file.jsonl", ref.source, maria)
    settle("import")
    vera = roles.actor_of(somebody("vera", "viewer"))
    shown = imports.get(begun, actor=vera)
    assert (shown.stage, shown.may_act, imports.get(begun, actor=maria).may_act) == ("ready", False, True)
    for act in (lambda: imports.go_on(begun, vera), lambda: imports.discard(begun, actor=vera)):
        with pytest.raises(NotAllowed):
            act()
    imports.discard(begun, actor=roles.actor_of(somebody("root", "admin")))


def test_another_person_of_the_same_name_has_no_import_of_the_one_before(ref: SessionRef, own: str) -> None:
    before = roles.actor_of(somebody("leo", "admin", "booking"))
    begun = imports.begin(uploads.receive([file_of(PLAN)]), "file.jsonl", ref.source, before)
    settle("import")
    after = replace(before, account="person 4711")
    assert [each.id for each in imports.recent(actor=before)] == [begun]
    assert imports.recent(actor=after) == []
    for act in (lambda: imports.get(begun, actor=after), lambda: imports.discard(begun, actor=after)):
        with pytest.raises(NotFound):
            act()


@pytest.mark.parametrize("chosen", [True, False])
def test_an_export_ends_with_the_role_of_who_began_it(
    ref: SessionRef, maria: Actor, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ASK_SECONDS", 0.0)
    pieces: Any = (
        transfer.export_sessions("jsonl", [ref], actor=maria)
        if chosen
        else transfer.export("jsonl", ref.source, transfer.exporting.Filter(), actor=maria)
    )
    next(pieces)
    somebody("maria")
    with pytest.raises(NotAllowed):
        list(pieces)


def test_an_import_whose_person_loses_the_role_on_its_way_stops_and_keeps_its_file(
    ref: SessionRef, maria: Actor
) -> None:
    begun = imports.begin(uploads.receive([file_of(PLAN)]), "file.jsonl", ref.source, maria)
    settle("import")
    job = Job.objects.get(pk=begun)
    somebody("maria")
    assert runner.start(job, step="importing")
    settle("import")
    root = roles.actor_of(somebody("root", "admin"))
    assert imports.get(begun, actor=root).stage == "stopped"
    imports.go_on(begun, root, state=True)
    settle("import")
    assert views.app(ref.source, "booking", actor=SYSTEM)[1] == {"plan": "pro"}
