"""The schema of an app on pages: all of it, and a card of one key."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.agent_view import agent_code
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.sessions import create_session
from tests.domain.test_schema_model import models, takes
from tests.search.finding import feed
from tests.support.stored import execute, state_of
from tests.web.conftest import Browser, names_of
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db
Add = Callable[..., str]
HOSTILE = "<script>alert(1)</script>"


def learn(ref: SessionRef, add: Add, **more: object) -> None:
    """Has the index learn eight events of a session."""
    for number in range(8):
        delta = {"booking_step": "pay" if number % 2 else "book", "user:age": 10 + number, HOSTILE: HOSTILE, **more}
        add(ref, actions={"state_delta": delta}, author="booking_agent")
    feed(ref.source)


def card(maria: Browser, ref: SessionRef, key: str) -> Element:
    return maria.open("schema-key", **names_of(ref, 2), query={"key": key})


def test_the_page_of_an_app_leads_to_its_schema(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add, api_key="hunter22")
    page = maria.open(maria.open("app", **names_of(ref, 2)).links()["Schema"])
    rows = {row.texts("td")[0]: row.texts("td")[1:] for row in page.one("tbody").all("tr")}
    assert rows == {
        "user:age": ["8", "number 8", "10 to 17, whole numbers", "booking_agent 8", "–"],
        HOSTILE: ["8", "string 8", f'"{HOSTILE}" 8', "booking_agent 8", "–"],
        "api_key": ["8", "string 8", "hidden: looks like a secret", "booking_agent 8", "–"],
        "booking_step": ["8", "string 8", '"book" 4 "pay" 4', "booking_agent 8", "–"],
    }
    assert "hunter22" not in page.text


def test_an_app_of_which_nothing_is_known_says_so(ref: SessionRef, maria: Browser) -> None:
    assert "0% of the sessions have been indexed" in maria.open("schema", **names_of(ref, 2)).text
    feed(ref.source)
    page = maria.open("schema", **names_of(ref, 2))
    assert page.one("main").texts("h2") == ["No schema yet"]
    assert "No event is known to have written this key" in card(maria, ref, "booking_step").text


def test_a_card_tells_a_key_and_whatever_it_is_called(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add)
    shown = card(maria, ref, "booking_step")
    assert shown.one("header").text == "booking_step seen in 8 events across booking"
    assert shown.texts("dd") == ["string 8", '"book" 4 "pay" 4', "booking_agent 8"]
    assert card(maria, ref, HOSTILE).one(class_="name").text == HOSTILE
    assert shown.links()["The app's schema"] == reverse("schema", kwargs=names_of(ref, 2))
    for key in ("", "\0", "x" * 5_000):
        assert "No event is known to have written this key" in card(maria, ref, key).text


def test_no_event_is_read_for_a_card(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add)
    execute(ref.source, "DELETE FROM events")
    assert "seen in 8 events across booking" in card(maria, ref, "booking_step").text


def test_the_state_panel_names_the_card_once_and_not_for_each_key(ref: SessionRef, maria: Browser) -> None:
    for name, count in (("session", 4), ("user", 3), ("app", 2)):
        page = maria.open(name, **names_of(ref, count))
        assert page.one(id="keycard")["data-key-card"] == reverse("schema-key", kwargs=names_of(ref, 2))


def test_an_agent_whose_instruction_has_a_key_reads_it(
    folder: Path,
    new_store: Callable[..., str],
    open_source: Callable[[str], str],
    maria: Browser,
    actor: Actor,
    add: Add,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agents = folder / "booking"
    (agents / ".adk").mkdir(parents=True)
    os.replace(new_store("sqlite", "made"), agents / ".adk" / "session.db")
    source = open_source(str(agents / ".adk" / "session.db"))
    ref = create_session(source, "booking", "ana", session_id="s1", actor=actor)
    learn(ref, add)
    code = 'Agent(name="{}", instruction="You are at {{booking_step}}, {{user:age?}}. {{not a key}}")\n'
    (agents / "agent.py").write_text(code.format("greeter") + code.format("payer") + 'Agent(name="idle")\n')
    assert card(maria, ref, "booking_step").texts("dd")[-1] == "greeter payer"
    monkeypatch.setattr(agent_code.Code, "readers", lambda code: pytest.fail("the files did not change"))
    assert card(maria, ref, "user:age").texts("dd")[-1] == "greeter payer"
    monkeypatch.undo()
    (agents / "agent.py").write_text(code.format("payer"))
    assert card(maria, ref, "booking_step").texts("dd")[-1] == "payer"
    assert card(maria, ref, "gone").texts("dd") == []


def test_the_schema_is_downloaded_as_a_pydantic_model(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add, api_key="hunter22")
    answer = maria.get(maria.open("schema", **names_of(ref, 2)).links()["Export as pydantic"])
    assert answer["Content-Type"] == "text/x-python; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="state.py"'
    names = models(answer.content.decode())
    state = {"booking_step": "pay", "user:age": 12, HOSTILE: HOSTILE, "api_key": "any"}
    takes(names, state)
    assert names["SessionState"].model_validate(state).booking_step == "pay"
    assert "hunter22" not in answer.content.decode()


# --- The form that edits ----------------------------------------------------------------------------------------------


def check(maria: Browser, ref: SessionRef, **given: str) -> list[str]:
    """The warning while a value is typed."""
    return page_of(maria.send("schema-check", given, **names_of(ref, 2))).texts("p", "misfit")


def test_what_does_not_fit_is_said_while_it_is_typed(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add)
    other = "booking_step was of type string in 8 events, but this value is of type {}."
    assert check(maria, ref, key="booking_step", value="3") == [other.format("number")]
    assert check(maria, ref, key="booking_step", value="", operation="null") == [other.format("null")]
    assert check(maria, ref, key="booking_step", value='"pya"') == [
        "booking_step has always been one of “book”, “pay”."
    ]
    assert check(maria, ref, key="booking_step", value="pya", type="string") == [
        "booking_step has always been one of “book”, “pay”."
    ]
    assert check(maria, ref, key="user:age", value="70") == ["user:age has always been 10 to 17."]
    fitting = [
        {"key": "booking_step", "value": '"pay"'},
        {"key": "booking_step", "value": "not JSON"},
        {"key": "booking_step", "value": "3", "operation": "remove"},
        {"key": "booking_step", "value": "3", "seen": "3"},
        {"key": "of which nothing is known", "value": "3"},
        {},
    ]
    assert [check(maria, ref, **given) for given in fitting] == [[]] * len(fitting)
    assert maria.get(reverse("schema-check", kwargs=names_of(ref, 2))).status_code == 405


def test_the_preview_warns_and_nothing_is_refused(ref: SessionRef, maria: Browser, add: Add) -> None:
    learn(ref, add)
    form = maria.open("session-edit", query={"key": "booking_step"}, **ref._asdict()).one("form", "editbox")
    assert form.texts("p", "misfit") == []
    assert [button["data-offer"] for button in form.all("button", "chip")] == ['"book"', '"pay"']
    assert form["data-check"] == reverse("schema-check", kwargs=names_of(ref, 2))
    assert form.fields()["type-0"] == "string"  # the key is new here, and was one in other sessions
    sent = {**form.json_fields(), "value-0": "3"}
    preview = page_of(maria.send("session-edit", {**sent, "action": "preview"}, **ref._asdict()))
    assert preview.texts("p", "misfit") == [
        "booking_step was of type string in 8 events, but this value is of type number."
    ]
    assert maria.send("session-edit", {**sent, "action": "apply"}, **ref._asdict()).status_code == 302
    assert state_of(ref)["session"]["booking_step"] == 3
