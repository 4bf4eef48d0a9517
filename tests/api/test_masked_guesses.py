"""Whoever may not see a value is answered the same whether or not they guess it, by every door that compares values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from sessions_app.access import masking
from sessions_app.access.actor import SYSTEM
from sessions_app.access.audit import refusals
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import queue
from sessions_app.edits.edit import Entry
from sessions_app.models import AuditRow
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address
from tests.support.people import ALICE, somebody
from tests.support.stored import events_of, state_of

pytestmark = pytest.mark.django_db

DOTS: Final = "••••"
RIGHT: Final = {"card": "tulip-77", "mail": "ask tim@example.org", "user:card": "rose-1", "app:card": "iris-2"}
WRONG: Final = {"card": "orchid-4", "mail": "ask eva@example.org", "user:card": "lily-3", "app:card": "aster-5"}
HIDDEN: Final = {"card": DOTS, "mail": f"ask {DOTS}", "user:card": DOTS, "app:card": DOTS}


def event_of(values: dict[str, Any]) -> dict[str, Any]:
    part = {"text": f"hello {values['mail']}"}
    return {
        "id": "e1",
        "author": "agent",
        "timestamp": 1700000000.0,
        "content": {"role": "model", "parts": [part]},
        "actions": {"state_delta": {"card": values["card"]}},
    }


@pytest.fixture
def world(source: str) -> Iterator[Callable[[str], SessionRef]]:
    """Makes the same session in any app; rules hide its values."""
    for kind, pattern in (("key", "card"), ("form", "email")):
        mask_rules.create("*", kind, pattern, actor=SYSTEM)

    def make(app: str) -> SessionRef:
        ref = create_session(source, app, "ana", session_id="s1", state=RIGHT, actor=ALICE)
        append_event(ref, event_of(RIGHT), actor=ALICE)
        return ref

    yield make
    refusals.known.clear()
    masking.forget()


def said(answer: Any, app: str) -> Any:
    """What an answer tells, without what no two have in common."""
    told = json.loads(answer.content or b"null")
    told.pop("request_id", None)
    if isinstance(told, dict) and told.get("event"):
        told = {"written": type(told["seq"]).__name__, "delta": told["event"]["actions"]["state_delta"]}
    return answer.status, json.loads(json.dumps(told).replace(app, "APP"))


EDITS: Final = {
    "expects a guess and writes it": lambda key, guess: {"set": {key: guess}, "expected": {key: guess}},
    "expects a guess and writes something": lambda key, guess: {"set": {key: "new"}, "expected": {key: guess}},
    "expects a guess and removes it": lambda key, guess: {"remove": [key], "expected": {key: guess}},
    "writes a guess": lambda key, guess: {"set": {key: guess}},
    "expects dots and writes a guess": lambda key, guess: {"set": {key: guess}, "expected": {key: HIDDEN[key]}},
    "writes a guess and something else": lambda key, guess: {"set": {key: guess, "step": 1}},
}


@pytest.mark.guarantee("Safety", "Someone who isn't allowed to see a value can't discover it by guessing.")
@pytest.mark.parametrize("key", list(RIGHT))
@pytest.mark.parametrize("edit", list(EDITS))
def test_an_edit_answers_a_right_guess_as_a_wrong_one(
    world: Callable[[str], SessionRef], appender: Program, edit: str, key: str
) -> None:
    answers, events = [], []
    for app, guess in (("right", RIGHT[key]), ("wrong", WRONG[key])):
        ref = world(app)
        answer = appender.patch(address(ref, "/state"), EDITS[edit](key, guess))
        answers.append(said(answer, app))
        events.append(len(events_of(ref)))
    assert answers[0] == answers[1]
    assert events[0] == events[1]
    guessed = "expects a guess" in edit
    assert answers[0][0] == (409 if guessed else 201)
    rows = AuditRow.objects.filter(act="refused", detail__contains=f"guess of {key}")
    assert [row.app_name for row in rows] == (["right"] if guessed else [])  # the second is counted with the first


@pytest.mark.parametrize("scope", ["user", "app"])
def test_an_edit_of_shared_state_answers_a_right_guess_as_a_wrong_one(
    world: Callable[[str], SessionRef], appender: Program, scope: str
) -> None:
    key = f"{scope}:card"
    for body in (lambda guess: {"set": {key: guess}}, lambda guess: {"set": {key: 1}, "expected": {key: guess}}):
        answers = []
        for app, guess in (("right", RIGHT[key]), ("wrong", WRONG[key])):
            ref = world(f"{app}{id(body)}")
            path = f"/api/apps/{ref.app_name}" + ("/users/ana" if scope == "user" else "") + "/state"
            answers.append(said(appender.patch(path, body(guess)), ref.app_name))
        assert answers[0] == answers[1]


def test_dots_are_what_somebody_expects_who_overwrites_a_hidden_value(
    world: Callable[[str], SessionRef], appender: Program
) -> None:
    ref = world("booking")
    body = {"set": {"card": "new", "mail": "none"}, "expected": {"card": DOTS, "mail": f"ask {DOTS}"}}
    assert appender.patch(address(ref, "/state"), body).status == 201
    assert state_of(ref)["session"]["card"] == "new"
    same = {"set": {"card": DOTS}}  # who sends back what they read writes nothing
    assert appender.patch(address(ref, "/state"), same).json()["seq"] is None


def test_an_agent_that_works_with_what_is_stored_compares_it(
    world: Callable[[str], SessionRef], appender: Program
) -> None:
    ref = world("booking")
    body = {"set": {"card": "new"}, "expected": {"card": RIGHT["card"]}}
    answer = appender.patch(address(ref, "/state"), body, headers={"X-Adkweb-Agent": "1"})
    assert (answer.status, state_of(ref)["session"]["card"]) == (201, "new")


def test_an_event_that_is_sent_again_with_a_guess_is_answered_the_same(
    world: Callable[[str], SessionRef], appender: Program
) -> None:
    answers = []
    for app, values in (("right", RIGHT), ("wrong", WRONG)):
        ref = world(app)
        answer = appender.post(address(ref, "/events"), event_of(values))
        answers.append((answer.status, {**answer.json(), "seq": None}))
        assert state_of(ref)["session"]["card"] == RIGHT["card"]
    assert answers[0] == answers[1]
    other = {**event_of(RIGHT), "author": "another"}
    assert appender.post(address(world("booking"), "/events"), other).status == 409


def test_a_waiting_edit_ends_the_same_whether_or_not_its_value_is_there_already(
    world: Callable[[str], SessionRef],
) -> None:
    ed, ends = somebody("ed", "editor"), []
    for app, guess in (("right", RIGHT["card"]), ("wrong", WRONG["card"])):
        ref = world(app)
        waiting = queue.queue_edit(ref, [Entry("card", guess, DOTS)], person=ed)
        assert queue.apply_due() == 1
        ends.append((queue.get(waiting.id, actor=SYSTEM).state, len(events_of(ref))))
    assert ends == [("applied", 2)] * 2


@pytest.mark.guarantee("Safety", "Someone who isn't allowed to see a value can't discover it by guessing.")
@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("part", ["app", "user", "state", "initial state", "event"])
def test_an_import_tells_no_difference_that_is_hidden(
    world: Callable[[str], SessionRef], program: Program, part: str, preview: bool
) -> None:
    reports = []
    for app, right in (("right", True), ("wrong", False)):
        world(app)
        for each in mask_rules.listed(actor=SYSTEM):
            mask_rules.delete(each.pk, actor=SYSTEM)
        lines = program.get("/api/export", app=app).content.decode().splitlines()
        mask_rules.create("*", "key", "card", actor=SYSTEM)
        if not right:
            lines = [_guessed(line, part) for line in lines]
        answer = program.post("/api/import", "\n".join(lines).encode(), preview=str(preview).lower())
        reports.append((answer.status, answer.content.decode().replace(app, "APP")))
    assert reports[0] == reports[1]
    assert reports[0][0] == 200
    assert '"same": 1' in reports[0][1] or '"same":1' in reports[0][1]


def _guessed(line: str, part: str) -> str:
    """A line of an export with another value in one of its parts."""
    told = json.loads(line)
    values = {"app": "iris-2", "user": "rose-1", "state": "tulip-77", "initial state": "tulip-77", "event": "tulip-77"}
    if told.get("type") in ("app", "user") and part == told["type"]:
        return line.replace(values[part], "a-guess")
    if told.get("type") == "session" and part in ("state", "initial state"):
        name = "state" if part == "state" else next(key for key in told if "nitial" in key)
        return json.dumps({**told, name: json.loads(json.dumps(told[name]).replace(values[part], "a-guess"))})
    if told.get("type") == "event" and part == "event":
        return line.replace(values[part], "a-guess")
    return line
