"""The turns of a whole session for a picture, against a plain walk through it, however much of it the index has."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.search import outline
from sessions_app.search.outline import CALLS, picture
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.people import ALICE
from tests.support.stored import events_of

OWN = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])


def events(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Makes events: messages, calls, their answers some time later, tokens."""
    made: list[dict[str, Any]] = []
    at, asked = 1_000.0, list[str]()
    for n in range(number):
        at += chance.choice([0.0, 0.5, 2.0, 300.0])
        event: dict[str, Any] = {"author": "booking", "timestamp": at}
        kind = chance.choice(["message", "call", "call", "answer", "words"])
        if kind == "message":
            event |= {"author": "user", "content": {"parts": [{"text": "Hello"}]}}
        elif kind == "call":
            asked.append(f"c{n}")
            event["content"] = {"parts": [{"function_call": {"id": asked[-1], "name": "pay", "args": {}}}]}
        elif kind == "answer" and asked:
            says = chance.choice([{"ok": 1}, {"error": "declined"}])
            answer = {"id": asked.pop(chance.randrange(len(asked))), "name": "pay", "response": says}
            event["content"] = {"parts": [{"function_response": answer}]}
        else:
            event |= {"content": {"parts": [{"text": "Yes"}]}, "usage_metadata": {"total_token_count": 13}}
        made.append(event)
    return made


def turns_of(ref: SessionRef) -> list[list[Any]]:
    """Walks through a session: of each turn its number, seq, time, seconds, tokens and whether it failed."""
    turns: list[list[Any]] = []
    last = 0.0
    for seq, event in events_of(ref):
        part = event.get("content", {}).get("parts", [{}])[0]
        if event["author"] == "user":
            turns.append([len(turns) + 1, seq, event["timestamp"], 0.0, 0, 0])
        elif turns:
            turns[-1][3] += event["timestamp"] - last
            turns[-1][4] += event.get("usage_metadata", {}).get("total_token_count", 0)
            turns[-1][5] |= "error" in part.get("function_response", {}).get("response", {})
        last = event["timestamp"]
    return turns


def calls_of(ref: SessionRef) -> list[tuple[float, float, int]]:
    """Walks through a session: of each call, when it was made, how long it took (0 without an answer), whether it failed."""
    calls: dict[str, tuple[float, float, int]] = {}
    for _seq, event in events_of(ref):
        part = event.get("content", {}).get("parts", [{}])[0]
        if call := part.get("function_call"):
            calls[call["id"]] = event["timestamp"], 0.0, 0
        elif answer := part.get("function_response"):
            at = calls[answer["id"]][0]
            calls[answer["id"]] = at, event["timestamp"] - at, int("error" in answer["response"])
    return list(calls.values())


def in_groups(rows: list[list[Any]], most: int) -> list[list[Any]]:
    """Puts as many rows together as are necessary."""
    size = max(1, -(-len(rows) // most))
    groups = [rows[start : start + size] for start in range(0, len(rows), size)]
    sums = [[sum(column) for column in list(zip(*group, strict=True))[3:]] for group in groups]
    return [[group[0][0], group[-1][0], *group[0][1:3], *added] for group, added in zip(groups, sums, strict=True)]


@OWN
@FORMS
@pytest.mark.parametrize("indexed", [0, 1, 40, 79, 80])
def test_a_picture_has_every_turn_and_call_however_much_is_indexed(own: str, source: str, indexed: int) -> None:
    chance = random.Random(indexed)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    other = create_session(source, "booking", "ana", session_id="s2", actor=ALICE)
    for number, event in enumerate(events(chance, 80)):
        if number == indexed:
            feed(source)
        append_event(ref, event, actor=ALICE)
        append_event(other, event, actor=ALICE)
    if indexed == 80:
        feed(source)
    for most in (200, 7, 3, 1):
        drawn = picture(ref, most, actor=SYSTEM)
        assert drawn is not None
        told = [
            [each.first, each.last, each.seq, each.at, each.took.seconds, each.tokens, each.failed]
            for each in drawn.turns
        ]
        assert told == [pytest.approx(row) for row in in_groups(turns_of(ref), most)]
        assert len(told) <= most
        assert [(each.at, each.took.seconds, each.failed) for each in drawn.calls] == [
            pytest.approx(row) for row in calls_of(ref)
        ]


@FORMS
def test_nobody_draws_turns_while_the_index_is_far_behind(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "UNREAD", 5)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for event in events(random.Random(1), 7):
        append_event(ref, event, actor=ALICE)
    assert picture(ref, actor=SYSTEM) is None


@FORMS
def test_a_picture_costs_the_same_queries_and_rows_however_many_turns_there_are(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    call = {"function_call": {"id": "c", "name": "pay", "args": {}}}
    for number in range(CALLS + 20):
        append_event(
            ref, {"author": "user", "timestamp": 1.0 + number, "content": {"parts": [{"text": "x"}]}}, actor=ALICE
        )
        append_event(ref, {"author": "a", "timestamp": 1.5 + number, "content": {"parts": [call]}}, actor=ALICE)
    feed(source)
    with CaptureQueriesContext(connection) as captured:
        drawn = picture(ref, actor=SYSTEM)
    assert drawn is not None
    assert (len(drawn.turns), len(drawn.calls)) == ((CALLS + 20) // 3, (CALLS + 20) // 2)
    assert [turns.last - turns.first for turns in drawn.turns] == [2] * 140
    assert len(captured) <= 4


@OWN
def test_a_turn_takes_as_long_with_an_edit_during_its_run(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    call, answer = ({name: {"id": "1", "name": "pay"}} for name in ("function_call", "function_response"))
    began = time.time() - 100
    for author, part, at in (("user", {"text": "Pay"}, 0), ("helper", call, 1), ("helper", answer, 101)):
        if part is answer:
            edit_state(ref, [Entry("step", "pay", ABSENT)], actor=ALICE)
        append_event(ref, {"author": author, "content": {"parts": [part]}, "timestamp": began + at}, actor=ALICE)
    feed(source)
    drawn = picture(ref, actor=SYSTEM)
    assert drawn
    assert [round(turn.took.seconds) for turn in drawn.turns] == [101]
