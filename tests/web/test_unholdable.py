"""U+0000 and half a surrogate pair, which only SQLite holds: such keys are removed, and such files moved."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.access import tokens
from sessions_app.access.actor import TERMINAL
from sessions_app.domain.errors import Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import views
from sessions_app.transfer.items import Fault, replacing_nul
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address
from tests.support.stored import execute, query
from tests.transfer.files import checked, event_line, file_of, imported, session_line
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
STATE = {"nul\0key": 1, "\udc00k": 2, "k": "a\0b", "stays": 3}
FILE = file_of(
    session_line("s1", 2, state={"n\0": 1, "n�": 2}),
    event_line("e1", data={"id": "e1", "invocation_id": "i", "author": "a", "timestamp": 1.0}),
    event_line("e2", data={"id": "e2", "invocation_id": "i", "author": "a", "timestamp": 2.0, "x": "a\0\ud83d"}),
)


@pytest.fixture
def ref(new_store: Callable[..., str], open_source: Callable[[str], str]) -> SessionRef:
    """A session whose state google-adk stored with such keys."""
    source = open_source(new_store("sqlite"))
    ref = create_session(source, "booking", "ana", actor=TERMINAL, session_id="s1")
    execute(source, "UPDATE sessions SET state = %s", [json.dumps(STATE)])
    return ref


def state_of(ref: SessionRef) -> dict[str, Any]:
    return views.session(ref, actor=TERMINAL).state.session


def test_a_program_removes_such_keys_and_makes_none(ref: SessionRef) -> None:
    program = Program(tokens.create("editor", "append", "*", by=TERMINAL)[1])
    assert program.patch(address(ref, "/state"), {"set": {"new\0": 1}}).status == 400
    assert program.patch(address(ref, "/state"), {"remove": ["no\0ne"]}).json()["event"] is None
    told = program.patch(address(ref, "/state"), {"set": {"k": "clean"}, "remove": ["nul\0key", "\udc00k"]})
    assert told.status == 201
    assert state_of(ref) == {"k": "clean", "stays": 3}
    (event,) = (json.loads(text) for (text,) in query(ref.source, "SELECT event_data FROM events"))
    assert event["custom_metadata"]["adkweb"]["removed"] == ["nul\0key", "\udc00k"]
    assert program.get(address(ref), newest="5").status == 200
    assert program.get(address(ref, "/state/history"), key="nul\0key").json()["items"][0]["event_id"] == event["id"]


@pytest.mark.parametrize("key", ["nul\0key", "\udc00k"])
def test_a_person_removes_such_a_key_on_its_form(ref: SessionRef, maria: Browser, key: str) -> None:
    asked = key.encode("utf-8", "replace").decode()
    sent = maria.open("session-edit", query={"key": asked}, **ref._asdict()).one("form", "editbox").fields()
    (number,) = sent["rows"].split()
    answer = maria.send("session-edit", {**sent, f"operation-{number}": "remove", "action": "apply"}, **ref._asdict())
    assert answer.status_code == 302
    assert state_of(ref) == {name: value for name, value in STATE.items() if name != key}


def test_nobody_else_may_write_such_a_name(ref: SessionRef) -> None:
    event = {"id": "e1", "author": "a", "actions": {"state_delta": {"a\0": None}}}
    with pytest.raises(Invalid, match=r"U\+0000"):
        append_event(ref, event, actor=TERMINAL)


@pytest.mark.parametrize("form", ["postgresql"])
def test_an_import_names_the_session_and_the_event_and_replaces_when_asked(source: str) -> None:
    only_event = FILE.replace(b'"n\\u0000"', b'"n"')
    said = r"app/u/s1, event e2: PostgreSQL cannot hold the character U\+0000\..* --replace-nul"
    with pytest.raises(Fault, match=said) as refused:
        checked(only_event, strict=True)
    assert refused.value.detail["place"] == "line 4"
    with pytest.raises(Fault, match="app/u/s1: PostgreSQL cannot hold"):
        checked(FILE, strict=True)
    session = {"id": "s1", "appName": "app", "userId": "u", "events": [{"id": "e1", "author": "a\0", "timestamp": 1.0}]}
    with pytest.raises(Fault, match="app/u/s1, event e1: PostgreSQL cannot hold"):
        checked(json.dumps(session).encode(), "adk-json", strict=True)
    with replacing_nul(True):
        assert imported(source, FILE).events == 2
        assert imported(source, FILE).same == 1
    assert state_of(SessionRef(source, "app", "u", "s1")) == {"n��": 1, "n�": 2}
    (text,) = query(source, "SELECT event_data ->> 'x' FROM events WHERE id = 'e2'")[0]
    assert text == "a��"


@pytest.mark.parametrize("form", ["postgresql"])
def test_a_program_asks_for_it(source: str) -> None:
    program = Program(tokens.create("admin", "admin", "*", by=TERMINAL)[1])
    refused = program.post("/api/import", FILE, source=source)
    assert (refused.status, "app/u/s1" in refused.detail) == (400, True)
    assert program.post("/api/import", FILE, source=source, replace_nul="true").json()["events"] == 2
