"""An event by hand, a new session, and the end of one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.urls import reverse

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import lists, timeline, views
from sessions_app.writes import commits
from tests.support.stored import events_of, everything, execute, state_of
from tests.web.conftest import NAME, Browser, names_of
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db


# --- An event by hand -------------------------------------------------------------------------------------------------


def add_event(maria: Browser, ref: SessionRef, event: Any, reason: str = "") -> Any:
    text = event if isinstance(event, str) else json.dumps(event)
    return maria.send("add-event", {"event": text, "reason": reason}, **ref._asdict())


def test_the_form_for_an_event_begins_with_a_message(ref: SessionRef, maria: Browser) -> None:
    fields = maria.open("add-event", **ref._asdict()).one("form", "form").fields()
    assert json.loads(fields["event"])["content"]["role"] == "user"


def test_an_event_by_hand_is_stored_with_who_and_why(ref: SessionRef, maria: Browser) -> None:
    event = {
        "author": "user",
        "content": {"parts": [{"text": "Hello"}]},
        "actions": {"state_delta": {"user:tier": "x"}},
    }
    response = add_event(maria, ref, json.dumps(event, indent=2).replace("\n", "\r\n"), "The model was away")
    (_seq, stored) = events_of(ref)[-1]
    assert response["Location"] == reverse("session", kwargs=ref._asdict()) + f"#event-{stored['id']}"
    assert stored["content"] == event["content"]
    assert stored["custom_metadata"]["adkweb"] == {
        "actor": NAME,
        "reason": "The model was away",
        "replaced": {"user:tier": "gold"},
        "removed": [],
    }
    assert state_of(ref)["user"] == {"tier": "x"}
    page = maria.open("session", **ref._asdict())
    assert page.one(role="status").text == "The event was added."
    assert page.one("li", "ev")["id"] == f"event-{stored['id']}"


def test_an_id_of_any_kind_leads_back_to_the_session(ref: SessionRef, maria: Browser) -> None:
    response = add_event(maria, ref, {"id": "a b\n#é/%", "author": "x"})
    assert response.status_code == 302
    assert "\n" not in response["Location"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "author": "x"\n  "id": "y"}', "line 3, column 3: not valid JSON"),
        ("", "line 1, column 1: not valid JSON"),
        ("[]", "An event must be a JSON object."),
        ('"text"', "An event must be a JSON object."),
        ("null", "An event must be a JSON object."),
        ('{"actions": {"stateDelta": {}}}', 't recognise "stateDelta"'),
        ('{"actions": []}', "actions: must be an object"),
        ('{"content": {"parts": ["text"]}}', "content.parts: must be a list of objects"),
        ('{"partial": true}', "partial events are never stored"),
        ('{"timestamp": -1}', "between the years 1970 and 2106"),
        ('{"id": 5}', "id isn't a string"),
        ('{"x": NaN}', "NaN and infinity aren't valid JSON"),
        ('{"x": 1, "x": 2}', 'the key "x" appears twice'),
    ],
)
def test_an_event_that_cannot_be_stored_is_refused_and_its_text_kept(
    ref: SessionRef, maria: Browser, text: str, message: str
) -> None:
    response = add_event(maria, ref, text, "Why")
    page = page_of(response)
    assert response.status_code == 400
    assert message in page.one("p", "formerror").text
    fields = page.one("form", "form").fields()
    assert (fields["event"], fields["reason"]) == (text, "Why")
    assert events_of(ref) == []


def test_another_event_under_an_id_is_a_conflict(ref: SessionRef, maria: Browser) -> None:
    assert add_event(maria, ref, {"id": "e1", "author": "a"}).status_code == 302
    response = add_event(maria, ref, {"id": "e1", "author": "b"})
    assert response.status_code == 409
    assert "This session already has an event with the id e1." in page_of(response).one("p", "formerror").text


def test_an_event_for_a_session_that_does_not_exist_is_not_found(ref: SessionRef, maria: Browser) -> None:
    assert add_event(maria, ref._replace(session_id="gone"), {}).status_code == 404


# --- A new session ----------------------------------------------------------------------------------------------------


def create(maria: Browser, source: str, **fields: str) -> Any:
    return maria.send("new-session", {"source": source, "app_name": "booking", "user_id": "ana", **fields})


def errors(page: Element) -> dict[str, str]:
    """The errors of a form by the field that they are about."""
    found = {}
    for field in page.one("form", "form").all(aria_invalid="true"):
        assert f"{field['name']}_error" in field["aria-describedby"].split()
        found[field["name"]] = page.one(id=f"{field['name']}_error").text
    return found


def test_the_form_for_a_session_knows_where_it_was_opened(ref: SessionRef, maria: Browser) -> None:
    names = names_of(ref, 3)
    link = maria.open("user", **names).one("div", "actions").links()["New session"]
    fields = maria.open(link).one("form", "form").fields()
    assert fields == fields | names
    assert fields["state"] == "{}"


def test_the_form_for_a_session_offers_the_apps(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("new-session")
    assert [option["value"] for option in page.one("datalist", id="apps").all("option")] == [ref.app_name]
    assert page.one("input", name="app_name")["list"] == "apps"


def test_a_new_session_has_its_initial_state_by_scope(store: str, maria: Browser) -> None:
    state = {"step": 1, "user:tier": "gold", "app:limit": None, "temp:x": 1}
    response = create(maria, store, session_id="trip", state=json.dumps(state))
    ref = SessionRef(store, "booking", "ana", "trip")
    assert response["Location"] == reverse("session", kwargs=ref._asdict())
    assert state_of(ref) == {"session": {"step": 1}, "user": {"tier": "gold"}, "app": {"limit": None}}
    assert events_of(ref) == []
    assert maria.open("session", **ref._asdict()).one(role="status").text == "Session created."


def test_a_new_session_without_an_id_gets_one(store: str, maria: Browser) -> None:
    location = create(maria, store)["Location"]
    assert maria.open(location).one("h1").text in location


def test_a_session_that_exists_is_not_made_again_and_can_be_opened(ref: SessionRef, maria: Browser) -> None:
    before = everything(ref.source)
    response = create(maria, ref.source, session_id=" s1 ", state='{"a": 1}')
    page = page_of(response)
    assert response.status_code == 409
    assert errors(page) == {"session_id": "There's already a session “s1”. Open it"}
    assert page.links()["Open it"] == reverse("session", kwargs=ref._asdict())
    assert page.one("form", "form").fields()["state"] == '{"a": 1}'
    assert everything(ref.source) == before


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"app_name": ""}, "app_name", "This field is required."),
        ({"user_id": ""}, "user_id", "This field is required."),
        ({"state": "{'a': 1}"}, "state", "line 1, column 2: not valid JSON"),
        ({"state": "[1]"}, "state", "The initial state must be a JSON object with the state's keys"),
        ({"state": '{"a": NaN}'}, "state", "NaN and infinity"),
        ({"app_name": "x" * 129}, "", "the app's name has 129 characters, but the limit is 128"),
        ({"session_id": "a\0b"}, "", "U+0000"),
    ],
)
def test_a_session_that_cannot_be_made_says_why_and_keeps_what_was_typed(
    store: str, maria: Browser, fields: dict[str, str], where: str, message: str
) -> None:
    before = everything(store)
    response = create(maria, store, **{"state": '{"kept": 1}', **fields})
    page = page_of(response)
    assert response.status_code == 400
    assert message in (errors(page)[where] if where else page.one("p", "formerror").text)
    kept = page.one("form", "form").fields()
    assert all(kept[name] == value for name, value in fields.items())
    assert everything(store) == before


def test_a_session_in_a_source_that_is_not_there_is_refused(store: str, maria: Browser) -> None:
    response = create(maria, "gone")
    assert response.status_code == 404
    assert "There's no source “gone”." in page_of(response).one("p", "formerror").text


# --- Deleting ---------------------------------------------------------------------------------------------------------


def delete(maria: Browser, ref: SessionRef, confirm: str) -> Any:
    return maria.send("delete-session", {"confirm": confirm}, **ref._asdict())


@pytest.mark.parametrize("confirm", ["", "s", "S1", "s1x", "booking"])
def test_a_session_is_not_deleted_before_its_id_was_typed(
    ref: SessionRef, maria: Browser, add: Callable[..., str], confirm: str
) -> None:
    add(ref, {"text": "x"})
    before = everything(ref.source)
    response = delete(maria, ref, confirm)
    assert response.status_code == 400
    assert "That isn't the session's id. Nothing was deleted." in page_of(response).one(role="alert").text
    assert everything(ref.source) == before


def test_a_session_is_deleted_with_its_events_and_the_other_state_stays(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    add(ref, {"text": "x"})
    page = maria.open("delete-session", **ref._asdict())
    assert page.one("form", "form")["data-confirm-text"] == "s1"
    response = delete(maria, ref, " s1 ")
    assert response.status_code == 302
    assert "Session “s1” deleted." in maria.open(response["Location"]).one(role="status").text
    assert events_of(ref) == []
    assert state_of(ref) == {"session": {}, "user": {"tier": "gold"}, "app": {"limit": 10}}
    assert lists.sessions(ref.source, ref.app_name, actor=SYSTEM).rows == []


def test_after_the_only_session_of_a_user_without_state_there_is_a_page_to_go_to(
    ref: SessionRef, maria: Browser
) -> None:
    execute(ref.source, "DELETE FROM user_states")  # ADK's SqliteSessionService makes no row for a user without state
    execute(ref.source, "DELETE FROM app_states")
    page = maria.open(delete(maria, ref, "s1")["Location"])
    assert "Session “s1” deleted." in page.one(role="status").text


@pytest.mark.parametrize("session_id", ["line\nbreak", " blanks ", "two  blanks", "e\u0301", "‮x"])
def test_an_id_can_be_confirmed_as_it_can_be_typed_in_one_line(
    ref: SessionRef, maria: Browser, session_id: str
) -> None:
    execute(ref.source, "UPDATE sessions SET id = %s", [session_id])
    typed = session_id.replace("\n", "")  # which a text field takes out
    assert delete(maria, ref._replace(session_id=session_id), typed).status_code == 302


@pytest.mark.parametrize("name", ["new-session", "add-event", "delete-session"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_read_only_refuses_all_of_it(ref: SessionRef, maria: Browser, read_only: None, name: str, method: str) -> None:
    before = everything(ref.source)
    response = getattr(maria, method)(reverse(name, kwargs={} if name == "new-session" else ref._asdict()))
    assert response.status_code == 403
    assert "--read-only" in page_of(response).one("main").text
    assert everything(ref.source) == before


def test_a_file_that_another_program_holds_locked_is_said_and_the_form_comes_back(
    ref: SessionRef, maria: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "PATIENCE_SECONDS", 0.5)
    connections[ref.source].cursor().execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        sent = {"rows": "0", "key-0": "step", "seen-0": '"choose"', "operation-0": "set", "value-0": "1"}
        response = maria.send("session-edit", sent, **ref._asdict())
        assert response.status_code == 503
        assert "another program has locked the file" in page_of(response).one("main").text
    assert maria.send("session-edit", sent, **ref._asdict()).status_code == 302


def test_an_id_that_nobody_can_type_is_confirmed_by_a_word(ref: SessionRef, maria: Browser) -> None:
    with connections[ref.source].cursor() as cursor:
        cursor.execute(
            """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
            SELECT app_name, user_id, '  ', state, create_time, update_time FROM sessions"""
        )
    blank = ref._replace(session_id="  ")
    for nothing in ("", "  "):
        assert delete(maria, blank, nothing).status_code == 400
    assert views.session(blank, actor=SYSTEM)
    assert delete(maria, blank, "delete").status_code == 302
    assert [row.ref for row in lists.sessions(ref.source, ref.app_name, actor=SYSTEM).rows] == [ref]


def test_an_event_sent_twice_by_one_form_is_stored_once(ref: SessionRef, maria: Browser) -> None:
    fields = maria.open("add-event", **ref._asdict()).one("form", "form").fields()
    before = len(timeline.events(ref, actor=SYSTEM).rows)
    for _sending in range(2):
        assert maria.send("add-event", fields, **ref._asdict()).status_code == 302
    assert len(timeline.events(ref, actor=SYSTEM).rows) == before + 1
