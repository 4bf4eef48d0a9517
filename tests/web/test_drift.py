"""The page of drift: what differs and why that can be, the event before it is written, and nothing that is only guessed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.history import drift
from sessions_app.history.index import build
from sessions_app.sources import online, registry
from sessions_app.web.drift import LONG
from sessions_app.writes.incomplete import IMPORTING
from tests.support import bulk
from tests.support.stored import events_of, everything, execute, state_of
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def store(ref: SessionRef, **state: Any) -> None:
    """Another program writes to the session's row."""
    execute(ref.source, "UPDATE sessions SET state = %s", [json.dumps(state)])


@pytest.fixture
def drifted(ref: SessionRef, add: Add) -> SessionRef:
    """A session of which an update was lost, a key was taken away and another put there."""
    add(ref, actions={"state_delta": {"step": "pay", "count": 4}})
    store(ref, step="choose", nothing=None, count=4, extra=True)
    execute(ref.source, "UPDATE sessions SET state = %s", ['{"step": "choose", "count": 4, "extra": true}'])
    return ref


def form_of(page: Element) -> Element:
    (form,) = [form for form in page.all("form") if form.all("input", name="rows")]
    return form


def row_of(page: Element, name: str) -> Element:
    return page.one("div", "driftrow", data_key_row=name)


def choose(maria: Browser, ref: SessionRef, **choices: str) -> dict[str, str]:
    """The form as it is sent with these choices by key."""
    fields = form_of(maria.open("drift", **ref._asdict())).fields()
    for number in fields["rows"].split():
        fields[f"choice-{number}"] = choices.get(fields[f"key-{number}"], "")
    return fields


def send(maria: Browser, ref: SessionRef, fields: dict[str, str], action: str = "apply", *, htmx: bool = False) -> Any:
    return maria.send("drift", {**fields, "action": action}, htmx=htmx, **ref._asdict())


# --- The session's page ---------------------------------------------------------------------------------------------


def test_the_session_s_page_marks_each_key_that_differs_with_both_values(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, actions={"state_delta": {"price": 412, "late": [1]}})
    page = maria.open("session", **ref._asdict())
    assert page.all("p", "drifted") == []
    assert "hidden" in page.one(id="drifted")
    execute(
        ref.source, "UPDATE sessions SET state = %s", ['{"step": "choose", "count": 3, "nothing": null, "price": 999}']
    )
    page = maria.open("session", **ref._asdict())
    rows = {row["data-key-row"]: row for row in page.all("div", "staterow")}
    assert rows["price"].one("p", "drifted").text == "stored 999, according to its events 412Differences from events"
    assert rows["late"].one("p", "drifted").text == "not stored, according to its events [1]Differences from events"
    assert [name for name, row in rows.items() if row.all("p", "drifted")] == ["late", "price"]
    assert "hidden" not in page.one(id="drifted")
    assert page.one(id="drifted").text.startswith("2")


# --- What is told -----------------------------------------------------------------------------------------------------


def test_a_session_without_drift_says_so(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, actions={"state_delta": {"step": "pay"}})
    page = maria.open("drift", **ref._asdict())
    assert "The stored state matches the events." in page.text
    assert "1 event replayed" in page.text
    assert page.all("div", "driftrow") == []
    assert page.links()["Back to the session"] == reverse("session", kwargs=ref._asdict())


def test_each_key_is_told_with_both_values_and_why_that_can_be(drifted: SessionRef, maria: Browser) -> None:
    page = maria.open("drift", **drifted._asdict())
    seq, event = events_of(drifted)[-1]
    told = {section["data-key-row"]: section for section in page.all("div", "driftrow")}
    assert list(told) == ["extra", "nothing", "step"]
    assert "3 keys don't match their event history." in page.text
    assert "No event or initial state has this key." in told["extra"].text
    assert "The session was created with this key, and no event has removed it since." in told["nothing"].text
    assert f"The update from event #{seq} was lost" in told["step"].text
    assert told["step"].links()[f"#{seq}"].endswith(f"/e/{event['id']}/")
    assert told["step"].texts("pre") == ['"pay"', '"choose"']
    assert told["extra"].texts("pre") == ["No such key", "true"]
    assert told["extra"].texts("label") == [
        "Remove the key",
        "Keep this value and record it in an event",
        "Leave as it is",
    ]
    assert "Remove it and record that in an event" in told["nothing"].text


def test_a_null_that_is_stored_as_no_key_is_told_as_adk_of_other_languages_does_it(
    ref: SessionRef, maria: Browser, add: Add, settings: Settings
) -> None:
    settings.SQLITE_STATE = "replaced"  # or google-adk 1.21 to 2.7 would explain it
    add(ref, actions={"state_delta": {"step": "pay"}})
    add(ref, actions={"state_delta": {"step": None}})
    store(ref, count=3, nothing=None)
    assert "wrote null" in row_of(maria.open("drift", **ref._asdict()), "step").text


def test_a_key_that_can_be_read_in_two_ways_is_named_and_cannot_be_repaired(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, actions={"state_delta": {"cfg": {"a": 1}}})
    add(ref, actions={"state_delta": {"cfg": {"b": 2}}})
    store(ref, step="choose", count=3, nothing=None, cfg={"z": 1})
    page = maria.open("drift", **ref._asdict())
    assert (
        "Some stored values differ from the events, but adkweb can't tell which are right, so it doesn't offer a repair"
        in page.text
    )
    assert "No differences" not in page.text
    assert page.all("div", "driftrow") == []


def test_a_shared_key_is_told_with_what_cannot_be_excluded(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, actions={"state_delta": {"user:tier": "silver"}})
    execute(ref.source, "UPDATE user_states SET state = %s", ['{"tier": "put there"}'])
    execute(ref.source, "UPDATE app_states SET state = %s", ['{"limit": 11}'])
    page = maria.open("drift", **ref._asdict())
    assert "Of the events that still exist" in row_of(page, "user:tier").text
    assert row_of(page, "user:tier").texts("h3") == ["Last write", "Stored value"]
    assert "The session s1 was created with this key" in row_of(page, "app:limit").text


def test_what_cannot_be_known_is_said(ref: SessionRef, maria: Browser) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    page = maria.open("drift", **ref._asdict())
    session, shared = page.all("p", "notice")
    assert "No event wrote them, and the session was created before adkweb adopted this database" in session.text
    assert session.texts("span", "delta") == ["count", "nothing", "step"]
    assert "They were set by a deleted session, or when ADK created the session" in shared.text
    assert shared.texts("span", "delta") == ["app:limit", "user:tier"]


def test_a_session_that_is_being_imported_is_not_compared(ref: SessionRef, maria: Browser) -> None:
    store(ref, **IMPORTING)
    page = maria.open("drift", **ref._asdict())
    assert page.one("div", "empty").one("h2").text == "This session is being imported"


def test_a_key_that_no_event_reaches_cannot_be_chosen(ref: SessionRef, maria: Browser) -> None:
    store(ref, **{"step": "choose", "count": 3, "nothing": None, "user:x": 1})
    page = maria.open("drift", **ref._asdict())
    assert "A program wrote this key straight to the table" in row_of(page, "user:x").text
    assert page.all("input", type="radio") == []
    assert form_of(page).all("button") == []


def test_who_may_not_write_sees_the_keys_and_no_choice(drifted: SessionRef, maria: Browser, read_only: None) -> None:
    page = maria.open("drift", **drifted._asdict())
    assert len(page.all("div", "driftrow")) == 3
    assert page.all("input", type="radio") == []
    assert send(maria, drifted, {}).status_code == 403


def test_a_session_that_is_not_there_is_not_found(ref: SessionRef, maria: Browser) -> None:
    maria.open("drift", status=404, **ref._replace(session_id="ghost")._asdict())


def test_a_hostile_key_and_value_are_text(ref: SessionRef, maria: Browser) -> None:
    name = '<script>alert("x")</script>\u202e'
    store(ref, **{"step": "choose", "count": 3, "nothing": None, name: "</textarea><b>"})
    page = maria.open("drift", **ref._asdict())
    assert page.all("b", text="</textarea>") == []
    maria_sent = choose(maria, ref, **{name: "keep"})
    assert send(maria, ref, maria_sent).status_code == 302
    assert drift.own(ref, actor=SYSTEM).drifted == []


# --- The event before it is written -----------------------------------------------------------------------------------


@pytest.mark.parametrize("htmx", [True, False])
def test_the_event_is_shown_before_it_is_written(drifted: SessionRef, maria: Browser, htmx: bool) -> None:
    before = everything(drifted.source)
    fields = choose(maria, drifted, step="back", extra="keep") | {"reason": "because"}
    response = send(maria, drifted, fields, "preview", htmx=htmx)
    page = page_of(response)
    assert response.status_code == 200
    event = json.loads(page.one("pre", "jsonraw").raw)
    assert event["actions"]["state_delta"] == {"extra": True, "step": "pay"}
    assert event["custom_metadata"]["adkweb"]["reason"] == "because"
    assert page.one("button", "primary").text == "Repair"
    assert everything(drifted.source) == before
    if htmx:
        assert page.all("html") == []
    else:
        kept = form_of(page).fields()
        assert {name: kept[name] for name in fields if "csrf" not in name} == {
            name: value for name, value in fields.items() if "csrf" not in name
        }


def test_before_anything_is_chosen_there_is_only_the_button_that_shows_the_event(
    drifted: SessionRef, maria: Browser
) -> None:
    form = form_of(maria.open("drift", **drifted._asdict()))
    assert form.texts("button") == ["Show the event"]
    nothing = send(maria, drifted, form.fields())
    assert nothing.status_code == 400
    assert "Nothing selected" in page_of(nothing).one(role="alert").text
    taken_back = page_of(send(maria, drifted, form.fields(), "preview", htmx=True))
    assert (taken_back.texts("button"), taken_back.all(role="alert")) == (["Show the event"], [])


# --- Repaired ---------------------------------------------------------------------------------------------------------


def test_each_key_is_repaired_as_it_was_chosen(drifted: SessionRef, maria: Browser) -> None:
    fields = choose(maria, drifted, step="back", extra="keep", nothing="keep") | {"reason": "because"}
    response = send(maria, drifted, fields)
    assert (response.status_code, response["Location"]) == (302, reverse("drift", kwargs=drifted._asdict()))
    assert state_of(drifted)["session"] == {"step": "pay", "count": 4, "extra": True}
    note = events_of(drifted)[-1][1]["custom_metadata"]["adkweb"]
    assert (note["actor"], note["reason"], note["removed"]) == (NAME, "because", ["nothing"])
    page = maria.open("drift", **drifted._asdict())
    assert page.one(role="status").text == "Saved as event #2. View Undo u"
    assert "The stored state matches the events." in page.text


def test_what_was_left_is_still_there(drifted: SessionRef, maria: Browser) -> None:
    send(maria, drifted, choose(maria, drifted, step="keep"))
    page = maria.open("drift", **drifted._asdict())
    assert [section["data-key-row"] for section in page.all("div", "driftrow")] == ["extra", "nothing"]


def test_sent_twice_it_is_written_once(drifted: SessionRef, maria: Browser) -> None:
    fields = choose(maria, drifted, step="keep")
    assert [send(maria, drifted, fields).status_code for _ in range(2)] == [302, 302]
    assert len(events_of(drifted)) == 2
    messages = maria.open("drift", **drifted._asdict()).texts(role="status")
    assert messages == ["Saved as event #2. View Undo u", "This edit has already been written."]


def test_where_a_key_changed_meanwhile_nothing_is_written_and_the_other_choices_stay(
    drifted: SessionRef, maria: Browser, add: Add
) -> None:
    fields = choose(maria, drifted, step="back", extra="keep") | {"reason": "because"}
    add(drifted, actions={"state_delta": {"step": "done"}})
    store(drifted, step="other", count=4, extra=True)
    before = everything(drifted.source)
    response = send(maria, drifted, fields)
    page = page_of(response)
    assert response.status_code == 409
    assert "Nothing was written" in page.one(role="alert").text
    assert everything(drifted.source) == before
    again = form_of(page).fields()
    chosen = {again[f"key-{n}"]: again[f"choice-{n}"] for n in again["rows"].split()}
    assert chosen == {"extra": "keep", "nothing": "", "step": ""}
    assert again["reason"] == "because"
    assert send(maria, drifted, again).status_code == 302


def test_a_repair_of_what_is_whole_by_now_says_so(drifted: SessionRef, maria: Browser) -> None:
    fields = choose(maria, drifted, step="back")
    store(drifted, step="pay", count=4, nothing=None)
    response = send(maria, drifted, fields)
    assert response.status_code == 409
    assert "The stored state matches the events." in page_of(response).text


@pytest.mark.parametrize("broken", [{"said-0": "{"}, {"stored-0": "nonsense"}, {"said-0": "[" * 100_000}])
def test_a_form_that_is_not_whole_writes_nothing(drifted: SessionRef, maria: Browser, broken: dict[str, str]) -> None:
    before = everything(drifted.source)
    fields = choose(maria, drifted, extra="keep") | broken
    assert send(maria, drifted, fields).status_code == 400
    assert everything(drifted.source) == before


def test_while_an_invocation_runs_the_repair_warns_and_is_written_when_it_is_wanted(
    drifted: SessionRef, maria: Browser, add: Add
) -> None:
    fields = choose(maria, drifted, step="keep")
    add(drifted, invocation_id="i2", author="user", timestamp=time.time(), content={"parts": [{"text": "hello"}]})
    before = everything(drifted.source)
    held = send(maria, drifted, fields)
    assert held.status_code == 409
    page = page_of(held)
    assert "Agent running" in page.text
    assert page.one("button", value="apply-now").text == "Repair now"
    assert everything(drifted.source) == before
    assert send(maria, drifted, fields, "apply-now").status_code == 302


# --- While the source is read -----------------------------------------------------------------------------------------


def test_the_sessions_own_keys_are_told_while_the_others_events_are_still_read(
    drifted: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source of millions of events, of which a piece takes longer than the page waits."""

    def slow(source: str, **_more: object) -> None:
        raise Behind(share=0.25)

    monkeypatch.setattr(build, "catch_up", slow)
    page = maria.open("drift", **drifted._asdict())
    assert len(page.all("div", "driftrow")) == 3
    assert page.one("div", "behind")["hx-target"] == "#drift"
    assert page.all("input", type="radio") == []  # which the next answer would take away again
    monkeypatch.undo()
    build.catch_up(drifted.source)
    page = maria.open("drift", htmx=True, **drifted._asdict())
    assert (page.all("html"), page.all("progress")) == ([], [])
    assert len(page.all("input", type="radio")) == 9


def test_the_page_of_a_long_session_comes_before_its_events_are_replayed(ref: SessionRef, maria: Browser) -> None:
    bulk.fill(ref, LONG + 1)
    with connections[ref.source].cursor() as cursor:
        cursor.execute("UPDATE sessions SET state = '{}' WHERE id = %s", [ref.session_id])
    page = maria.open("drift", **ref._asdict())
    assert "The events are being replayed" in page.text
    assert page.one("section", id="drift")["hx-get"] == reverse("drift", kwargs=ref._asdict())
    assert page.links()["Show without scripts"] == "?wait=no"
    for more in ({"htmx": True}, {"query": {"wait": "no"}}):
        found = maria.open("drift", **more, **ref._asdict())
        assert "n" in [section["data-key-row"] for section in found.all("div", "driftrow")]


def test_of_a_file_that_was_never_adopted_its_own_keys_are_told(
    drifted: SessionRef, maria: Browser, read_only: None
) -> None:
    online.release(drifted.source)
    registry.opened_files.pop(drifted.source, None)
    page = maria.open("drift", **drifted._asdict())
    assert row_of(page, "step")  # which an event wrote
    assert "Some user and app keys can't be checked." in page.text
    assert "Some of the session's keys can't be checked." in page.text
