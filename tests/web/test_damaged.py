"""A damaged row does not keep the others from leaving: it is left out if that is asked for, and named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access import tokens
from sessions_app.access.actor import TERMINAL, Actor
from sessions_app.domain.errors import Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.transfer import export, exporting
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.support.stored import execute
from tests.transfer.files import imported
from tests.web.conftest import Browser
from tests.web.test_export import body

pytestmark = pytest.mark.django_db
ANYWHERE = pytest.mark.parametrize("form", ["sqlite", "postgresql"])
LEFT_OUT = ["booking/ana/s1/e1", "booking/ana/s1/e%", "booking/omar/s2"]


@pytest.fixture
def ref(source: str, form: str) -> SessionRef:
    """A session of which two of three events are damaged, beside one whose state is."""
    ref = create_session(source, "booking", "ana", actor=TERMINAL, session_id="s1", state={"step": "pay"})
    other = create_session(source, "booking", "omar", actor=TERMINAL, session_id="s2")
    for event_id in ("e1", "e2", "e%"):
        append_event(ref, {"id": event_id, "author": "a", "content": {"parts": [{"text": "hi"}]}}, actor=TERMINAL)
    cut = '{"content": {"role": "mod' if form == "sqlite" else "[]"  # PostgreSQL holds only JSON
    execute(source, "UPDATE events SET event_data = %s WHERE id = 'e1'", [cut])
    execute(source, "UPDATE events SET event_data = '[1]' WHERE id = 'e%%'", [])
    deep = "[" * 250 + "]" * 250
    execute(source, "UPDATE sessions SET state = %s WHERE id = %s", [f'{{"a": {deep}}}', other.session_id])
    return ref


@pytest.mark.guarantee(
    "Databases and files", "An export leaves out damaged rows only if you ask it to, and lists them first."
)
@ANYWHERE
@pytest.mark.parametrize("name", ["jsonl", "adk-json", "evalset"])
def test_what_is_left_out_is_named_and_the_rest_is_there(ref: SessionRef, name: str) -> None:
    only = exporting.Filter("booking", "ana" if name == "adk-json" else None)
    with pytest.raises(Invalid, match=r"cannot be exported|is not an object"):
        b"".join(export(name, ref.source, only, actor=TERMINAL))
    left_out = exporting.damaged(ref.source, only, actor=TERMINAL)
    assert left_out.names == LEFT_OUT[: 2 if name == "adk-json" else 3]
    file = b"".join(export(name, ref.source, only, actor=TERMINAL, left_out=left_out))
    assert file.count(b'"text":"hi"') == 1
    if name == "jsonl":
        assert json.loads(file.splitlines()[0])["left_out"] == LEFT_OUT


@ANYWHERE
def test_such_a_file_is_imported(ref: SessionRef, new_store: Any, open_source: Any) -> None:
    only = exporting.Filter()
    left_out = exporting.damaged(ref.source, only, actor=TERMINAL)
    file = b"".join(export("jsonl", ref.source, only, actor=TERMINAL, left_out=left_out))
    report = imported(open_source(new_store("sqlite")), file)
    assert (report.new, report.events) == (1, 1)


@pytest.mark.guarantee(
    "Databases and files", "An export leaves out damaged rows only if you ask it to, and lists them first."
)
@ANYWHERE
def test_what_was_damaged_since_is_not_left_out_in_silence(ref: SessionRef) -> None:
    only = exporting.Filter("booking", "ana")
    left_out = exporting.damaged(ref.source, only, actor=TERMINAL)
    execute(ref.source, "UPDATE events SET event_data = '[2]' WHERE id = 'e2'")
    with pytest.raises(Invalid, match="not an object"):
        b"".join(export("jsonl", ref.source, only, actor=TERMINAL, left_out=left_out))


@pytest.mark.parametrize("form", ["sqlite"])
def test_pages_and_programs_leave_it_out_when_asked(ref: SessionRef, maria: Browser) -> None:
    menu = maria.open("session", **ref._asdict()).one("form", "exports")
    assert menu.one("input", name="skip_damaged")["value"] == "1"
    assert maria.get(menu["action"], {"format": "jsonl"}).status_code == 400
    answer = maria.get(menu["action"], {"format": "jsonl", "skip_damaged": "1"})
    assert answer["Adkweb-Left-Out"] == "2: booking/ana/s1/e1 booking/ana/s1/e%25"
    assert json.loads(body(answer).splitlines()[0])["left_out"] == LEFT_OUT[:2]

    chosen = {"act": "export", "ref": [reverse("session", kwargs=ref._asdict())]}
    assert maria.post("/sessions/chosen/", chosen).status_code == 400
    answer = maria.post("/sessions/chosen/", {**chosen, "skip_damaged": "1"})
    assert answer["Adkweb-Left-Out"] == "2: booking/ana/s1/e1 booking/ana/s1/e%25"
    assert json.loads(body(answer).splitlines()[0])["left_out"] == LEFT_OUT[:2]

    program = Program(tokens.create("reader", "read", "*", by=TERMINAL)[1])
    asked = {"format": "adk-json", "app": "booking", "user": "ana", "session": "s1", "source": ref.source}
    assert program.get("/api/export", **asked).status == 400
    told = program.get("/api/export", **asked, skip_damaged="true")
    assert (told.status, told.headers["adkweb-left-out"][:2]) == (200, "2:")
    assert [event["id"] for event in json.loads(told.content)["events"]] == ["e2"]


@pytest.mark.parametrize("form", ["sqlite"])
def test_what_is_damaged_in_an_app_that_somebody_may_not_see_is_not_named(ref: SessionRef) -> None:
    create_session(ref.source, "support", "ben", actor=TERMINAL, session_id="s9", state={"app:k": 1, "user:k": 1})
    for table in ("app_states", "user_states", "sessions"):
        execute(ref.source, f"UPDATE {table} SET state = '{{' WHERE app_name = 'support'")
    eva = Actor.holding("eva", "read", apps="booking")
    assert exporting.damaged(ref.source, exporting.Filter(), actor=eva).names == LEFT_OUT
