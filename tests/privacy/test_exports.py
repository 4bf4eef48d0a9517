"""Everything of a user leaves as one file, which an admin of the app can download for a day, and nobody else."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from sessions_app.access.actor import SYSTEM, Actor, Grant
from sessions_app.access.handles import handle_of
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Conflict, NotAllowed, NotFound
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import proposals
from sessions_app.jobs import runner
from sessions_app.jobs.lease import DONE, REFUSED
from sessions_app.models import AuditRow, Job, Pause, Trial
from sessions_app.privacy import bundle, exports
from sessions_app.running import answers, breakpoints, runs
from sessions_app.search import labels
from sessions_app.sources import registry
from sessions_app.trying import whatif
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.artifacts.saving import PNG, Saving, beside
from tests.management.conftest import run
from tests.support.at_work import settle
from tests.support.people import ALICE, BOB, CHARLIE

pytestmark = pytest.mark.usefixtures("own")

FOLDER = Path(settings.DATA_DIR) / "exports"


@pytest.fixture(autouse=True)
def _no_files_are_left() -> Iterator[None]:
    yield
    settle("export")
    for path in FOLDER.glob("*"):
        path.unlink()


def contents_of(file: io.BytesIO | Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files in an export, and what it says of itself."""
    with zipfile.ZipFile(file) as opened:
        assert opened.testzip() is None
        files = {name: opened.read(name) for name in opened.namelist()}
    return files, json.loads(files["about.json"])


def written(source: str, user: str = "ana", actor: Actor = SYSTEM) -> tuple[dict[str, bytes], dict[str, Any]]:
    file = io.BytesIO()
    bundle.write(file, source, "booking", user, actor=actor, moved=lambda done, total: None)
    return contents_of(file)


def lines_of(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files["sessions.jsonl"].splitlines()]


def begin(ref: SessionRef, actor: Actor = SYSTEM) -> uuid.UUID:
    export_id = exports.begin(*ref[:3], actor=actor)
    settle("export")
    return export_id


def test_a_file_has_all_of_the_user_and_nothing_of_others(
    ref: SessionRef, add: Callable[..., str], actor: Actor
) -> None:
    add(ref, step="pay", user__card="4111")
    for user, secret in (("ANA", "of-ANA"), ("ben", "of-ben")):
        create_session(ref.source, "booking", user, session_id="s1", state={"user:x": secret}, actor=actor)
    create_session(ref.source, "weather", "ana", session_id="s1", state={"user:x": "of-weather"}, actor=actor)
    labels.rename(ref, "Seoul", actor=actor)
    files, about = written(ref.source)
    kinds = [line.get("type") for line in lines_of(files)]
    assert kinds == [None, "user", "session", "event", "end"]
    assert lines_of(files)[1]["state"] == {"tier": "gold", "card": "4111"}
    assert (about["sessions"], about["events"], about["titles"]) == (1, 1, [{"session": "s1", "title": "Seoul"}])
    assert not any(b"of-" in content for content in files.values())


def test_a_message_that_did_not_reach_an_agent_is_in_the_file_as_far_as_it_may_be_seen(ref: SessionRef) -> None:
    mask_rules.create("booking", "form", "email", actor=SYSTEM)
    runs.make(ref, [{"text": "Write to ana@example.com"}], "", actor=SYSTEM)
    runs.make(create_session(ref.source, "booking", "ana", session_id="s2", actor=SYSTEM), [], "", actor=SYSTEM)
    _files, about = written(ref.source, actor=ALICE)
    ((session, message),) = [each.values() for each in about["unsent"]]
    assert (session, json.loads(message)["content"]["parts"]) == ("s1", [{"text": f"Write to {DOTS}"}])


def test_what_a_rule_hides_of_a_tool_is_hidden_in_the_answers_to_it(ref: SessionRef) -> None:
    mask_rules.create("booking", "tool", "adk_request_confirmation: iban", actor=SYSTEM)
    call = {"id": "c1", "name": "adk_request_confirmation", "args": {}}
    event = append_event(ref, {"author": "booking", "content": {"parts": [{"function_call": call}]}}, actor=SYSTEM)
    response = {"id": "c1", "name": call["name"], "response": {"confirmed": True, "payload": {"iban": "DE1"}}}
    answer = {"event_id": event.event["id"], "parts": [{"functionResponse": response}], "tools": ["pay"]}
    answers.prepare(ref, answer, None, actor=SYSTEM)
    _files, about = written(ref.source, actor=ALICE)
    ((_session, part),) = [each.values() for each in about["answers"]]
    assert json.loads(part)["functionResponse"]["response"] == {"confirmed": True, "payload": {"iban": DOTS}}


def test_what_someone_changed_at_a_breakpoint_is_in_the_file_as_far_as_it_may_be_seen(
    ref: SessionRef, settings: Any
) -> None:
    settings.BREAKPOINTS = True
    mask_rules.create("booking", "tool", "pay: iban", actor=SYSTEM)
    run, request = runs.make(ref, [], "", actor=SYSTEM), {"args": {"iban": "DE1", "eur": 4}}
    step = breakpoints.Step("i1", "tool", "booking", "pay", "c1", pause="0" * 32, request=request)
    breakpoints.ask(ref, step, breakpoints.Asker(run=run.pk))
    breakpoints.decide(ref, "0" * 32, "continue", args={"iban": "DE2", "eur": 4}, actor=SYSTEM)
    _files, about = written(ref.source, actor=ALICE)
    (change,) = about["pauses"]
    assert (change["old"], change["new"]) == ({"iban": DOTS, "eur": 4}, {"iban": DOTS, "eur": 4})
    delete_session(ref, actor=SYSTEM)
    assert not Pause.objects.exists()


def test_what_was_proposed_to_be_sent_is_in_the_file_and_goes_with_its_session(ref: SessionRef) -> None:
    part = {"functionResponse": {"id": "c1", "name": "adk_request_input", "response": {"result": "4 nights"}}}
    answer = {"event_id": "e1", "parts": [part], "tools": ["ask"]}
    proposals.keep_sent(ref, "answer", answer, tools=["ask"], actor=SYSTEM)
    proposals.keep_sent(ref, "message", {"parts": [{"text": "Hello"}]}, actor=SYSTEM)
    _files, about = written(ref.source)
    unsent = [json.loads(each["message"])["content"]["parts"] for each in about["unsent"]]
    assert sorted(unsent, key=str) == [[part], [{"text": "Hello"}]]
    delete_session(ref, actor=SYSTEM)
    assert not proposals.rows().exists()


def test_what_was_tried_is_in_the_file_as_far_as_it_may_be_seen(ref: SessionRef) -> None:
    mask_rules.create("booking", "key", "card", actor=SYSTEM)
    change = asdict(whatif.Change("e1", state={"card": "4111"}, message="Hello"))
    names = {"app_name": "booking", "user_id": "ana", "session_id": "s1"}
    job = Job.objects.make(whatif.KIND, registry.identity(ref.source), {"change": change}, **names)
    event = {"author": "booking", "actions": {"state_delta": {"card": "4222"}}}
    Trial.objects.create(job=job, number=0, events=json.dumps([event]))
    _files, about = written(ref.source, actor=ALICE)
    ((session, changed, trials),) = [each.values() for each in about["what_ifs"]]
    assert (session, changed["actions"], changed["content"]) == (
        "s1",
        {"state_delta": {"card": DOTS}},
        {"parts": [{"text": "Hello"}]},
    )
    assert [[each["actions"]["state_delta"] for each in events] for events in trials] == [[{"card": DOTS}]]


def test_a_user_who_has_only_state_is_exported_and_one_who_is_not_there_is_refused(
    ref: SessionRef, actor: Actor
) -> None:
    delete_session(ref, actor=actor)
    files, about = written(ref.source)
    assert [line.get("type") for line in lines_of(files)] == [None, "user", "end"]
    assert about["sessions"] == 0
    with pytest.raises(NotFound):
        written(ref.source, "ghost")
    with pytest.raises(NotFound):
        written(ref.source, actor=CHARLIE)


def test_artifacts_are_in_the_file_once_under_harmless_names_and_the_rest_is_named(
    tmp_path: Path, new_store: Callable[..., str], open_source: Callable[[str], str]
) -> None:
    source, folder = beside(new_store("sqlite"), tmp_path, open_source)
    saving = Saving(folder)
    refs = [create_session(source, "booking", "ana", session_id=f"s{n}", actor=ALICE) for n in (1, 2)]
    names = {"plan.png": 0, "user:photo.png": 0, "lost.png": 0}
    saving.save(refs[0], "plan.png", PNG, "image/png")
    saving.save(refs[0], "user:photo.png", PNG + b"!", "image/png")
    for ref in refs:
        append_event(ref, {"author": "agent", "actions": {"artifact_delta": names}}, actor=ALICE)
    files, about = written(source)
    kept = {each["name"]: (each["file"].partition("-")[2], files[each["file"]]) for each in about["artifacts"]}
    assert kept == {"plan.png": ("plan.png", PNG), "user:photo.png": ("photo.png", PNG + b"!")}
    assert len(files) == 4
    missing = {(each["session"], each["name"], each["why"]) for each in about["artifacts_that_cannot_be_read"]}
    assert missing == {(s, n, "missing") for s, n in (("s1", "lost.png"), ("s2", "lost.png"), ("s2", "plan.png"))}


def test_a_file_that_was_made_before_a_rule_of_masking_is_given_to_nobody(ref: SessionRef) -> None:
    export_id = begin(ref)
    mask_rules.create("*", "key", "card", actor=SYSTEM)
    assert exports.listed(*ref[:3], actor=ALICE) == []
    with pytest.raises(NotFound, match="This file no longer exists"):
        exports.opened(export_id, *ref[:3], actor=ALICE)
    begin(ref)
    (made,) = exports.listed(*ref[:3], actor=ALICE)
    assert made.size


def test_a_file_that_has_a_hidden_id_is_given_to_who_may_see_that_id(ref: SessionRef) -> None:
    ref = create_session(ref.source, "booking", "ana@example.com", session_id="s1", actor=ALICE)
    mask_rules.create("*", "form", "email", ids=True, actor=SYSTEM)
    export_id = begin(ref)
    _view, pieces = exports.opened(export_id, *ref[:3], actor=ALICE)
    files, about = contents_of(io.BytesIO(b"".join(pieces)))
    assert about["user"] == handle_of("ana@example.com")
    assert b"ana@" not in b"".join(files.values())
    (job,) = Job.objects.filter(kind="export")
    Job.objects.update(result=json.dumps(json.loads(job.result) | {"ids": True}))  # as one who may reveal has it made
    with pytest.raises(NotFound):
        exports.opened(export_id, *ref[:3], actor=ALICE)
    exports.opened(export_id, *ref[:3], actor=Actor("rita", (Grant("admin", reveals=True),)))


def test_only_an_admin_of_the_app_gets_the_file_and_only_for_a_day(ref: SessionRef) -> None:
    export_id = begin(ref)
    (made,) = exports.listed(*ref[:3], actor=ALICE)
    view, pieces = exports.opened(export_id, *ref[:3], actor=ALICE)
    content = b"".join(pieces)
    assert (made.job.state, view.size, made.bundle.sessions) == ("done", len(content), 1)
    assert contents_of(io.BytesIO(content))[1]["user"] == "ana"
    assert [path.stat().st_mode & 0o077 for path in (FOLDER, *FOLDER.iterdir())] == [0, 0]
    for actor in (BOB, CHARLIE):
        with pytest.raises(NotAllowed):
            exports.opened(export_id, *ref[:3], actor=actor)
        with pytest.raises(NotAllowed):
            exports.begin(*ref[:3], actor=actor)
    with pytest.raises(NotFound):  # by the address of another user
        exports.opened(export_id, ref.source, "booking", "ben", actor=ALICE)
    rows = AuditRow.objects.filter(act="exported", by="alice").values_list("user_id", "detail")
    assert list(rows) == [("ana", '{"what":"the file of the user"}')]  # one download
    Job.objects.update(finished=time.time() - exports.KEPT_SECONDS - 1)
    with pytest.raises(NotFound):
        exports.opened(export_id, *ref[:3], actor=ALICE)
    exports.sweep()
    assert (list(FOLDER.glob("*")), Job.objects.count()) == ([], 0)


@pytest.mark.parametrize("form", ["sqlite"])
def test_an_export_whose_process_died_is_begun_anew_and_one_is_made_at_a_time(ref: SessionRef) -> None:
    FOLDER.mkdir(exist_ok=True)
    now = time.time()
    job = Job.objects.create(
        id=uuid.uuid4(), kind="export", where=registry.identity(ref.source), app_name="booking",
        user_id="ana", task="{}", created=now, beat=now, claimed_until=now - 1, claim="dead",
        lane=json.dumps(["export", registry.identity(ref.source), "booking", "ana"]), **runner.fields_of(SYSTEM),
    )  # fmt: skip
    (FOLDER / f"{job.pk.hex}.part").write_bytes(b"half")
    with pytest.raises(Conflict):
        exports.begin(*ref[:3], actor=ALICE)
    assert runner.take_over() == 1
    settle("export")
    job.refresh_from_db()
    assert job.state == DONE
    assert [path.suffix for path in FOLDER.iterdir()] == [".zip"]


@pytest.mark.parametrize("form", ["sqlite"])
def test_an_export_that_is_discarded_when_it_is_almost_done_leaves_no_file(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = bundle.write

    def slowly(*args: Any, **more: Any) -> bundle.Bundle:
        made = write(*args, **more)
        Job.objects.filter(kind="export").delete()
        return made

    monkeypatch.setattr(bundle, "write", slowly)
    begin(ref)
    assert list(FOLDER.glob("*")) == []


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_job_whose_admin_lost_the_role_makes_no_file(ref: SessionRef) -> None:
    job_id = exports.begin(*ref[:3], actor=Actor(ALICE.name, ALICE.grants, "person 4711"))
    settle("export")
    assert Job.objects.get(pk=job_id).state == REFUSED
    assert list(FOLDER.glob("*")) == []


def test_the_command_writes_the_file(
    tmp_path: Path, new_store: Callable[[str], str], form: str, open_source: Callable[[str], str]
) -> None:
    url = new_store(form)
    create_session(open_source(url), "booking", "ana", session_id="s1", state={"user:a": 1}, actor=ALICE)
    output = tmp_path / "ana.zip"
    words = ("export-user", url, "--app", "booking", "--output", output)
    assert run(tmp_path, *words, "--user", "ana") == (0, "1 sessions, 0 events, 0 artifacts\n", "")
    assert contents_of(output)[1]["user"] == "ana"
    output.unlink()
    code, _out, errors = run(tmp_path, *words, "--user", "ghost")
    assert (code, "no user “ghost”" in errors, list(tmp_path.glob("*.zip*"))) == (1, True, [])
