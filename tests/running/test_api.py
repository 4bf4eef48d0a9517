"""A program writes to an agent, answers it and stops it, over the API."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.access import approval, tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import timeline
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.support.at_work import until
from tests.support.people import as_admin

ADDRESS = "/api/apps/helper/users/ana/sessions/s1"


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session whose agent may be started."""
    return create_session(source, "helper", "ana", session_id="s1", state={"seconds": 30}, actor=SYSTEM)


@pytest.fixture
def program(ref: SessionRef) -> Program:
    """A program that may operate."""
    return Program(tokens.create("desk", "operate", "*", by=as_admin("maria"))[1])


def ended(program: Program, run: dict[str, Any]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        now: dict[str, Any] = program.get(f"{ADDRESS}/runs/{run['id']}").json()
        return None if now["state"] == "waiting" else now

    return dict(until(look))


def send(program: Program, path: str, body: dict[str, Any]) -> Any:
    return program.post(ADDRESS + path, body)


def test_an_agent_is_written_to_and_answered(ref: SessionRef, program: Program) -> None:
    sent = send(program, "/runs", {"text": "pay"})
    assert (sent.status, sent.json()["started_by"]) == (202, "token desk")
    assert ended(program, sent.json())["sent"] is True
    asking = next(
        row
        for row in timeline.events(ref, actor=SYSTEM).rows
        if row.description.calls[-1:] and row.data.get("long_running_tool_ids")
    )
    call = asking.description.calls[-1].id
    wrong = send(program, "/answers", {"event_id": asking.id, "answers": {call: {"yes": True}}})
    assert (wrong.status, "give confirmed" in wrong.json()["detail"]) == (400, True)
    body = {"event_id": asking.id, "answers": {call: {"confirmed": True}}}
    assert send(program, "/answers", {**body, "state": {"tier": "gold"}}).status == 403
    run = ended(program, send(program, "/answers", body).json())
    assert (run["state"], run["message"]) == ("done", "")
    assert send(program, "/answers", body).status == 409


def test_a_run_is_stopped(ref: SessionRef, program: Program) -> None:
    run = send(program, "/runs", {"text": "pause"}).json()
    assert program.delete(f"{ADDRESS}/runs/{run['id']}").status == 202
    assert ended(program, run)["message"] == "Stopped by token desk."
    reader = Program(tokens.create("reader", "read", "*", by=as_admin("maria"))[1])
    assert (ended(reader, run)["state"], ended(reader, run)["message"]) == ("stopped", "")
    other = send(program, "/runs", {"text": "pause"}).json()
    assert program.delete(f"{ADDRESS}/runs/{run['id']}").status == 404
    assert program.delete(f"{ADDRESS}/runs/{other['id']}").json()["message"] == ""
    assert ended(program, other)["message"] == "Stopped by token desk."


def test_state_and_a_message_in_place_of_another_need_more_than_to_operate(ref: SessionRef, program: Program) -> None:
    assert send(program, "/runs", {"text": "look", "state": {"tier": "gold"}}).status == 403
    assert send(program, "/runs", {"text": "look", "instead_of": "e1"}).status == 403
    editor = Program(tokens.create("editor", "append", "*", by=as_admin("maria"))[1])
    wrong = {"text": "look", "state": {"seconds": 1}, "expected": {"seconds": 31}}
    assert send(editor, "/runs", wrong).status == 409
    assert send(editor, "/runs", {"text": "look", "state": {"seconds": 1}, "absent": ["seconds"]}).status == 409
    assert send(editor, "/runs", {"text": "look", "absent": ["tier"]}).status == 400
    run = ended(editor, send(editor, "/runs", {**wrong, "expected": {"seconds": 30}}).json())
    assert (run["state"], timeline.events(ref, actor=SYSTEM).rows[0].description.delta) == ("done", {"seconds": 1})
    (said,) = [row for row in timeline.events(ref, actor=SYSTEM).rows if row.description.text == "look"]
    for first in ({"instead_of": said.id}, {"state": {"seconds": 2}}):
        stale = editor.post(f"{ADDRESS}/runs", {"text": "count", **first}, headers={"If-Match": '"1.0"'})
        assert stale.status == 412
    run = ended(editor, send(editor, "/runs", {"text": "count", "instead_of": said.id}).json())
    assert run["message"] == ""


def test_files_go_to_the_agent_inside_the_message(ref: SessionRef, program: Program) -> None:
    file = {"name": "a.txt", "mime_type": "text/plain", "data": "aGk="}
    assert ended(program, send(program, "/runs", {"text": "look", "files": [file]}).json())["sent"] is True
    (part,) = timeline.events(ref, actor=SYSTEM).rows[0].description.media
    assert (part.name, part.value["mime_type"], part.value["data"]) == ("a.txt", "text/plain", "aGk=")
    assert send(program, "/runs", {"text": "look", "files": [{**file, "data": "?"}]}).status == 400
    assert "up to 5 files" in send(program, "/runs", {"text": "look", "files": [file] * 6}).json()["detail"]
    large = {**file, "data": "aGlo" * (5 * 1024 * 1024 // 3 + 1)}
    assert "together" in send(program, "/runs", {"text": "look", "files": [large]}).json()["detail"]


def test_what_a_rule_holds_is_answered_with_the_proposal_of_all_of_it(ref: SessionRef, program: Program) -> None:
    approval.make(by=SYSTEM, keys="seconds")
    editor = Program(tokens.create("editor", "append", "*", by=as_admin("maria"))[1])
    body = {"text": "look", "state": {"seconds": 1}, "expected": {"seconds": 30}}
    held = send(editor, "/runs", body)
    assert (held.status, "seconds: needs a second person" in held.json()["detail"]) == (403, True)
    proposal = editor.get(f"/api/apps/helper/proposals/{held.json()['proposal']}").json()
    assert (proposal["kind"], proposal["state"], proposal["text"]) == ("message", "waiting", "look")
    assert proposal["changes"] == [{"key": "seconds", "old": 30, "new": 1}]
    assert send(program, "/runs", body).status == 403
    assert program.delete(f"/api/apps/helper/proposals/{proposal['id']}").status == 403
    assert editor.delete(f"/api/apps/helper/proposals/{proposal['id']}").json()["state"] == "withdrawn"
    approval.make(by=SYSTEM, tools="pay")
    ended(program, send(program, "/runs", {"text": "pay"}).json())
    rows = timeline.events(ref, actor=SYSTEM).rows
    (call,) = [call for row in rows for call in row.description.calls if call.name.startswith("adk_")]
    (event,) = [row.id for row in rows if call in row.description.calls]
    answer = {"event_id": event, "answers": {call.id: {"confirmed": True}}}
    held = send(program, "/answers", answer)
    cancelled = program.delete(f"/api/apps/helper/proposals/{held.json()['proposal']}")
    assert (cancelled.status, cancelled.json()["answers"]) == (200, [{"key": "pay", "new": {"confirmed": True}}])


def test_what_is_held_is_not_written(ref: SessionRef) -> None:
    approval.make(by=SYSTEM, keys="seconds")
    editor = Program(tokens.create("editor", "append", "*", by=as_admin("maria"))[1])
    assert send(editor, "/runs", {"text": "look", "state": {"seconds": 1}}).status == 403
    assert timeline.events(ref, actor=SYSTEM).rows == []
