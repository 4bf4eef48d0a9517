"""An event that is too large to be read whole keeps its author, text, turn, title and files, at every door."""

from __future__ import annotations

import base64
import json
import os

import pytest
from django.urls import reverse

from sessions_app.access import shown, tokens
from sessions_app.access.actor import PEOPLE, SYSTEM, TERMINAL, Actor
from sessions_app.agent_view.conversation import conversation
from sessions_app.domain.errors import Invalid
from sessions_app.domain.masks import FORM, Mask, Rule
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import UNKNOWN
from sessions_app.edits import undo
from sessions_app.reads import timeline
from sessions_app.reads.size_limits import LARGE
from sessions_app.search import outline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address
from tests.search.finding import feed, ids, rows
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.test_export import body

DB = pytest.mark.django_db
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])

PDF = b"%PDF-1.4\n" + os.urandom(LARGE * 3 // 4)  # as base64, it is a third longer
TEXT = base64.urlsafe_b64encode(PDF).decode().rstrip("=")
FILE = {"inline_data": {"mime_type": "application/pdf", "data": TEXT, "display_name": "contract.pdf"}}
WROTE = {"read": True, "price": 1610521604143693812, "none": None, "big": "y" * 30_000}


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """A session in which the user sent a large file, and an agent answered."""
    ref = create_session(source, "booking", "ana", actor=actor, session_id="s1")
    event = {"id": "e1", "invocation_id": "i1", "author": "user", "content": {"role": "user"}}
    event["content"]["parts"] = [{"text": "Read the contract, please"}, FILE]  # type: ignore[index]
    append_event(ref, {**event, "actions": {"state_delta": WROTE}}, actor=actor)
    answer = {"role": "model", "parts": [{"text": "It is fine"}]}
    append_event(ref, {"id": "e2", "invocation_id": "i1", "author": "clerk", "content": answer}, actor=actor)
    return ref


@pytest.mark.guarantee(
    "History",
    "An event too large to read in full is never shown as empty: you still see its author, text, turn, title and files.",
)
@DB
@FORMS
def test_nothing_but_the_length_of_what_is_long_is_lost(ref: SessionRef) -> None:
    first, _second = timeline.events(ref, actor=SYSTEM).rows
    assert first.size > LARGE
    assert (first.description.author, first.description.text) == ("user", "Read the contract, please")
    (file,) = first.description.media
    assert (file.name, file.value["data"], file.bytes) == ("contract.pdf", "…", len(TEXT) * 3 // 4)
    assert {change.key: change.new for change in first.changes} == {**WROTE, "big": UNKNOWN}
    assert first.seq is not None
    turn = outline.outline(ref, [first.seq], actor=SYSTEM).turn_of(first.seq)
    assert turn is not None
    assert turn.number == 1


@pytest.mark.guarantee(
    "History",
    "An event too large to read in full is never shown as empty: you still see its author, text, turn, title and files.",
)
@DB
@FORMS
def test_pages_show_its_words_and_its_file(ref: SessionRef, maria: Browser) -> None:
    for density in ("events", "chat", "trace"):
        page = maria.open("session", **ref._asdict(), query={"density": density}).one("main").text
        assert "Read the contract, please" in page
    chat = maria.open("session", **ref._asdict(), query={"density": "chat"})
    assert "contract.pdf" in chat.one("main").text
    event = maria.open("event", **ref._asdict(), event_id="e1").one("main").text
    assert "contract.pdf" in event
    assert "long values truncated" in event
    where = reverse("event-data", kwargs={**ref._asdict(), "event_id": "e1", "number": 0})
    answer = maria.get(where)
    assert body(answer) == PDF
    assert "contract.pdf" in answer.headers["Content-Disposition"]


@pytest.mark.guarantee(
    "History",
    "An event too large to read in full is never shown as empty: you still see its author, text, turn, title and files.",
)
@FORMS
def test_the_index_has_its_title_its_words_and_its_turn(own: str, source: str, ref: SessionRef) -> None:
    feed(source)
    (row,) = rows()
    assert (row.title, row.turns) == ("Read the contract, please", 1)
    assert ids("contract") == ids("author:user") == ["s1"]


@DB
@FORMS
def test_programs_get_what_is_read_its_size_and_its_file(ref: SessionRef) -> None:
    program = Program(tokens.create("reader", "read", "*", by=TERMINAL)[1])
    told = program.get(address(ref, "/events/e1")).json()
    assert told["size"] > LARGE
    assert told["event"]["content"]["parts"][1]["inline_data"] == {**FILE["inline_data"], "data": "…"}
    assert program.get(address(ref, "/events/e1/data/0")).content == PDF
    assert program.get(address(ref, "/events/e1/data/1")).status == 404


@DB
@pytest.mark.parametrize("form", ["sqlite"])
def test_the_page_in_one_file_has_its_words_and_the_name_of_its_file(ref: SessionRef, maria: Browser) -> None:
    page = body(maria.get(reverse("session-export", kwargs=ref._asdict()), {"format": "html"})).decode()
    shown_part = page.partition('<script type="application/x-adkweb-jsonl"')[0]
    assert "Read the contract, please" in shown_part
    assert "contract.pdf" in shown_part


@DB
@FORMS
def test_an_agent_is_not_said_to_be_spared_of_it(ref: SessionRef) -> None:
    lines = conversation(ref, actor=SYSTEM).lines
    assert [line.left_out for line in lines] == [None, None]


@DB
@FORMS
def test_it_is_not_undone_by_halves(ref: SessionRef) -> None:
    with pytest.raises(Invalid, match="too large to undo"):
        undo.undo(ref, "e1", actor=TERMINAL)


@DB
@FORMS
def test_of_a_long_list_the_beginning_is_read_and_all_that_stands_after_it(ref: SessionRef, actor: Actor) -> None:
    response = {
        "rows": [{"number": n, "is": "a row"} for n in range(200_000)],
        "keys": {f"k{n}": 1 for n in range(9_000)},
    }
    answer = {"function_response": {"id": "c", "name": "look", "response": response}}
    parts = [answer, {"text": "That is all", "thought_signature": "é" * 30_000}]
    event = {"id": "e3", "author": "clerk", "content": {"parts": parts}, "actions": {"state_delta": WROTE}}
    append_event(ref, event, actor=actor)
    view = timeline.event(ref, "e3", actor=SYSTEM)
    assert (view.description.author, view.description.text) == ("clerk", "That is all")
    (answered,) = view.description.responses
    assert answered.value["rows"] == response["rows"][:300]  # type: ignore[index]
    assert {change.key: change.new for change in view.changes} == {**WROTE, "big": UNKNOWN}


@DB
@FORMS
def test_no_half_of_what_rules_hide_is_shown(ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Mask([Rule(FORM, "card")]))
    card = "4111 1111 1111 1111"
    text = "x " * 9_995 + card + " y" * 5_000
    secret = json.dumps({"client_id": "a", "client_secret": "s" * 40_000, "refresh_token": "r-1"})
    parts = [{"text": text}, {"text": secret}, FILE]
    append_event(ref, {"id": "e3", "author": "user", "content": {"parts": parts}}, actor=actor)
    seen = timeline.event(ref, "e3", actor=PEOPLE)
    assert "4111" not in seen.description.text
    assert "client_secret" not in seen.description.text


@DB
@pytest.mark.parametrize("form", ["sqlite"])
def test_the_half_of_a_long_secret_is_hidden(ref: SessionRef, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Mask([Rule(FORM, "jwt"), Rule(FORM, "service")]))
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJ" + "c3ViIjoi" * 400 + "." + "s" * 43
    key = "-----BEGIN PRIVATE KEY-----" + "k" * 20_100
    parts = [{"text": "x " * 9_500 + jwt + " y" * 5_000}, {"text": key + " eyJhbGciOiJIUzI1NiJ9." + "y" * 5_000}, FILE]
    append_event(ref, {"id": "e3", "author": "user", "content": {"parts": parts}}, actor=actor)
    seen = timeline.event(ref, "e3", actor=PEOPLE).data["content"]["parts"]
    assert "eyJ" not in seen[0]["text"] + seen[1]["text"]


@DB
@pytest.mark.parametrize("form", ["sqlite"])
def test_what_cannot_be_read_is_not_called_empty(ref: SessionRef, maria: Browser) -> None:
    execute(ref.source, "UPDATE events SET event_data = json_insert(event_data, '$.x', 1) || ']' WHERE id = 'e1'")
    view = timeline.event(ref, "e1", actor=SYSTEM)
    assert view.unread
    (first, _second) = conversation(ref, actor=SYSTEM).lines
    assert first.left_out is not None
    assert first.left_out.kind == "unread"
    assert "too large to show" in maria.open("event", **ref._asdict(), event_id="e1").one("main").text


@DB
@pytest.mark.parametrize("form", ["sqlite"])
def test_an_event_of_millions_of_values_is_not_taken_apart(ref: SessionRef, maria: Browser) -> None:
    """SQLite would take 100 bytes of memory for each, whenever a page shows the event."""
    many = '{"id": "e1", "author": "clerk", "output": [' + "1," * LARGE + "1]}"
    execute(ref.source, "UPDATE events SET event_data = %s WHERE id = 'e1'", [many])
    first, second = timeline.events(ref, actor=SYSTEM).rows
    assert (first.size, first.description.author, second.description.author) == (len(many), "", "clerk")
    assert "too large to read" in maria.open("context", **ref._asdict()).one("main").text
