"""The page of a session whose agent pauses at a breakpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from sessions_app.access import approval
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Invalid
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import Breakpoint, Pause
from sessions_app.running import breakpoints, runs
from sessions_app.running.breakpoints import Asker, Step
from sessions_app.writes.append import append_event
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db
NUMBER = "0123456789abcdef" * 2
REQUEST = {
    "instruction": "Be brief.",
    "begins": "Be brief.",
    "message": "Pay it\nnow",
    "contents": [
        {"role": "user", "parts": [{"text": "<b>Hi</b>"}, {"file": "image/png"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "pay", "args": {"eur": 4}}}]},
        {"role": None, "parts": None},
    ],
    "left_out": 3,
    "tools": [{"name": "pay", "description": "Pays."}],
}


@pytest.fixture(autouse=True)
def _agents(ref: SessionRef, settings: Settings) -> None:
    settings.AGENTS, settings.RUN_AGENTS = {ref.source: str(Path("examples/agents").absolute())}, True
    settings.BREAKPOINTS = True


def pause(ref: SessionRef, kind: str = "tool", **request: Any) -> None:
    """Lets the agent of a session pause, in a run of adkweb's own."""
    run = runs.running(ref) or runs.make(ref, [], "", actor=ALICE)
    breakpoints.ask(ref, Step("i1", kind, "booking", "pay", "c1", pause=NUMBER, request=request), Asker(run=run.pk))


def waits(browser: Browser, ref: SessionRef) -> Element:
    return browser.open("session", **ref._asdict()).one(id="waits")


def go_on(browser: Browser, ref: SessionRef, **sent: str) -> Any:
    return browser.send("resume", {"pause": NUMBER, "go": "continue", **sent}, **ref._asdict())


def test_the_card_shows_the_arguments_and_says_what_is_wrong_with_others(ref: SessionRef, maria: Browser) -> None:
    pause(ref, args={"eur": 4})
    page = maria.open("session", **ref._asdict())
    assert page.one(id="status").text.split()[:4] == ["paused", "·", "before", "pay,"]
    card = page.one("form", class_="pause")
    assert card.one("legend").text == "Paused before pay is called"
    assert json.loads(card.one("textarea", name="args").text) == {"eur": 4}
    assert [button.text for button in card.all("button")] == ["Continue", "Step", "Stop"]
    assert "continues by itself in 9:5" in " ".join(card.text.split())
    answer = maria.send("resume", {"pause": NUMBER, "args": '{"eur": 5'}, htmx=True, **ref._asdict())
    assert answer.status_code == 400
    again = page_of(answer).one("form", class_="pause")
    assert again.one("textarea", name="args", aria_invalid="true").text.strip() == '{"eur": 5'
    assert again.one(class_="formerror")
    go_on(maria, ref, args='{"eur": 5}')
    assert json.loads(Pause.objects.get().decision) == {"go": "continue", "args": {"eur": 5}}
    assert not waits(maria, ref).all("form", class_="pause")
    go_on(maria, ref)
    assert "maria has let the agent go on already" in maria.open("session", **ref._asdict()).text


def test_the_card_shows_what_a_model_gets(ref: SessionRef, maria: Browser) -> None:
    pause(ref, "model", **REQUEST)
    card = waits(maria, ref).one("form", class_="pause")
    assert [each.text.strip() for each in card.all("textarea")] == ["Be brief.", "Pay it now"]
    assert "<b>Hi</b>" in card.text
    assert "3 earlier messages aren't shown." in card.text
    assert "Pays." in card.text
    go_on(maria, ref, instruction="Be brief.", message="Pay it\r\nnow", go="step")
    assert json.loads(Pause.objects.get().decision) == {"go": "step"}
    assert Pause.objects.get().changed == ""


def test_what_cant_be_changed_is_shown_cut(ref: SessionRef, maria: Browser) -> None:
    pause(ref, cut="x" * 5_000 + "…")
    card = waits(maria, ref).one("form", class_="pause")
    assert not card.all("textarea", name="args")
    assert "The arguments are too long to be changed." in card.text
    Pause.objects.all().delete()
    pause(
        ref,
        "model",
        instruction=5,
        contents=[7, {"parts": 8}, {"parts": [9, {"text": ["x"]}]}],
        tools={"a": 1},
        left_out=-1,
    )
    assert "There is no instruction." in waits(maria, ref).text
    with pytest.raises(Invalid):
        pause(ref, "model", message="x" * 1_000_001)


def test_what_is_hidden_is_dots(ref: SessionRef, maria: Browser) -> None:
    mask_rules.create("*", "key", "pin", actor=ALICE)
    pause(ref, args={"pin": "hunter-22", "eur": 4})
    card = waits(maria, ref).one("form", class_="pause")
    assert "hunter" not in card.text
    assert json.loads(card.one("textarea", name="args").text) == {"pin": DOTS, "eur": 4}
    go_on(maria, ref, args=json.dumps({"pin": DOTS, "eur": 5}))
    assert json.loads(Pause.objects.get().decision)["args"] == {"pin": "hunter-22", "eur": 5}


def test_someone_gives_the_result_of_a_tool(ref: SessionRef, maria: Browser) -> None:
    pause(ref, args={"eur": 4})
    sent = {"pause": NUMBER, "go": "continue", "args": '{"eur": 4}'}
    answer = maria.send("resume", {**sent, "result": "[1]"}, htmx=True, **ref._asdict())
    card = page_of(answer).one("form", class_="pause")
    assert (answer.status_code, card.one("textarea", name="result").text) == (400, "[1]")
    assert "The result must be a JSON object." in card.text
    go_on(maria, ref, args='{"eur": 4}', result=' {"paid": true} ')
    assert json.loads(Pause.objects.get().decision) == {"go": "continue", "result": {"paid": True}}
    part = {"function_call": {"id": "c1", "name": "pay", "args": {"eur": 4}}}
    event = append_event(ref, {"author": "booking", "content": {"parts": [part]}}, actor=SYSTEM)
    assert "result given by maria" in maria.open("session", **ref._asdict()).one(id="events").text
    shown = maria.open("event", **ref._asdict(), event_id=event.event["id"])
    section = next(each for each in shown.all("section") if "Changed at a breakpoint" in each.text)
    assert "Result; the tool didn't run · maria" in " ".join(section.text.split())
    assert (section.one("pre").text.count("paid"), section.all("del")) == (1, [])


def test_a_second_person_applies_what_the_first_proposed(ref: SessionRef, maria: Browser, guest: Browser) -> None:
    approval.make(by=ALICE, tools="pay")
    pause(ref, args={"eur": 4})
    assert "without a decision" in " ".join(waits(maria, ref).text.split())
    go_on(maria, ref, args='{"eur": 5}')
    card = waits(maria, ref).one("form", class_="pause")
    assert "maria has proposed other arguments" in card.text
    assert "Apply and continue" not in card.text
    guest.force_login(somebody("vera", "viewer"))
    assert not waits(guest, ref).one("form", class_="pause").all("button")
    guest.force_login(somebody("ben", "operator"))
    assert waits(guest, ref).one("form", class_="pause").all("button")[0].text == "Apply and continue"
    go_on(guest, ref, go="apply")
    assert Pause.objects.get().decided_by == "maria, ben"


def test_breakpoints_are_set_and_removed_on_the_page(ref: SessionRef, maria: Browser, guest: Browser) -> None:
    maria.send("breakpoints", {"kind": "tool", "what": " pay ", "scope": "session"}, **ref._asdict())
    maria.send("breakpoints", {"kind": "model", "what": "", "scope": "app"}, **ref._asdict())
    maria.send("breakpoints", {"kind": "state", "what": "cart.total > 100", "scope": "session"}, **ref._asdict())
    stops = waits(maria, ref).one(class_="stops")
    lines = [" ".join(each.text.split()) for each in stops.all("li")]
    assert lines == [
        "before a tool is called: pay this session · maria Remove",
        "before a model is asked all sessions of booking · maria Remove",
        "when a condition on state becomes true: cart.total > 100 this session · maria Remove",
    ]
    maria.send("breakpoints", {"kind": "state", "what": "app:booking", "scope": "session"}, **ref._asdict())
    assert "isn't a condition on state" in maria.open("session", **ref._asdict()).text
    maria.send("breakpoints", {"remove": str(Breakpoint.objects.first().pk)}, **ref._asdict())  # type: ignore[union-attr]
    assert len(waits(maria, ref).one(class_="stops").all("li")) == 2
    guest.force_login(somebody("vera", "viewer"))
    assert not waits(guest, ref).all(class_="stops")


def test_there_are_none_where_they_arent_allowed(ref: SessionRef, maria: Browser, settings: Settings) -> None:
    settings.BREAKPOINTS = None
    assert not waits(maria, ref).all(class_="stops")
