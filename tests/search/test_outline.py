"""Turns and numbers of events, against a plain walk through the session, however much of it the index has."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.positions import Seq
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.search import outline
from sessions_app.search.outline import Outline
from sessions_app.sources.dialect import UNADOPTED
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.adk.services import Adk, key_of
from tests.search.finding import feed
from tests.support.people import ALICE
from tests.support.stored import events_of, query

OWN = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])


def events(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Makes events of users, agents and people, of which some begin turns."""
    call = {"function_call": {"id": "c", "name": "pay", "args": {}}}
    answer = {"function_response": {"id": "c", "name": "pay", "response": {"error": "declined"}}}
    each: list[dict[str, Any]] = [
        {"author": "user", "content": {"parts": [{"text": "Hello"}]}},
        {"author": "user", "content": {"parts": [answer]}},
        {"author": "billing", "content": {"parts": [call]}},
        {"author": "billing", "content": {"parts": [answer]}},
        {
            "author": "booking",
            "content": {"parts": [{"text": "Which day?"}]},
            "model_version": chance.choice(["gemini-a", "gemini-b"]),
            "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 3, "total_token_count": 13},
        },
    ]
    return [{**chance.choice(each), "timestamp": 1_000.0 + n} for n in range(number)]


def expected(ref: SessionRef) -> dict[Seq, tuple[int, int, float, int, bool]]:
    """Walks through a session: the number of each event, and its turn: seconds, tokens, whether it failed."""
    turns: list[list[Any]] = [[0.0, 0, False]]
    numbers: dict[Seq, tuple[int, int]] = {}
    last = 0.0
    for number, (seq, event) in enumerate(events_of(ref), 1):
        parts = event["content"]["parts"]
        if event["author"] == "user" and "text" in parts[0]:
            turns.append([0.0, 0, False])
        elif event["author"] != "user" and last:
            turns[-1][0] += event["timestamp"] - last
        last = event["timestamp"]
        turns[-1][1] += event.get("usage_metadata", {}).get("total_token_count", 0)
        turns[-1][2] |= "error" in parts[0].get("function_response", {}).get("response", {})
        numbers[Seq(seq)] = number, len(turns) - 1
    return {seq: (number, turn, *turns[turn]) for seq, (number, turn) in numbers.items()}


def told(of: Outline, seqs: list[Seq]) -> dict[Seq, tuple[int, int, float, int, bool]]:
    each = {}
    for seq in seqs:
        turn = of.turn_of(seq)
        figures = (turn.number, turn.took.seconds, turn.tokens, turn.failed) if turn else (0, 0.0, 0, False)
        each[seq] = of.numbers[seq], *figures
    return each


def without_turn_0(each: dict[Seq, tuple[int, int, float, int, bool]]) -> dict[Seq, Any]:
    return {seq: row if row[1] else row[:2] for seq, row in each.items()}


@OWN
@FORMS
@pytest.mark.parametrize("indexed", [0, 1, 40, 60])
def test_each_event_has_its_number_and_its_turn_however_much_is_indexed(own: str, source: str, indexed: int) -> None:
    chance = random.Random(indexed)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    other = create_session(source, "booking", "ana", session_id="s2", actor=ALICE)
    for number, event in enumerate(events(chance, 60)):
        if number == indexed:
            feed(source)
        append_event(ref, event, actor=ALICE)
        append_event(other, event, actor=ALICE)
    if indexed == 60:
        feed(source)
    whole = without_turn_0(expected(ref))
    for size in (1, 3, 20, 60):  # any page, also one that a filter leaves holes in
        some = sorted(chance.sample(list(whole), size))
        of = without_turn_0(told(outline.outline(ref, some, actor=SYSTEM), some))
        assert of == {seq: whole[seq] for seq in some}
    ids = [event["id"] for _seq, event in events_of(ref)]
    assert [outline.event_numbered(ref, number, actor=SYSTEM) for number in range(1, 61)] == ids
    turn_by_seq = outline.outline(ref, (), actor=SYSTEM, also=whole).turn_numbers(whole)
    assert turn_by_seq == {seq: row[1] for seq, row in whole.items() if row[1]}
    turns, usage = outline.turns_of(ref, actor=SYSTEM) or (0, [])
    turn_of = {seq: row[1] for seq, row in expected(ref).items()}
    spoken = [event for seq, event in events_of(ref) if "model_version" in event and turn_of[Seq(seq)]]
    assert turns == max(turn_of.values())
    for model in ("gemini-a", "gemini-b"):
        used = [(each.prompt, each.output) for each in usage if each.model == model]
        times = sum(event["model_version"] == model for event in spoken)
        assert [sum(column) for column in zip(*used, strict=True)] == ([10 * times, 3 * times] if times else [])


@OWN
@FORMS
def test_an_edit_that_the_index_has_not_read_belongs_to_the_turn_it_was_made_in(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for text in ("Hello", "Book it"):
        append_event(ref, {"author": "user", "content": {"parts": [{"text": text}]}}, actor=ALICE)
    feed(source)
    edit_state(ref, [Entry("step", "pay", ABSENT)], actor=ALICE)
    hello, _book, edit = [Seq(seq) for seq, _event in events_of(ref)]
    of = outline.outline(ref, (), actor=SYSTEM, also=[hello, edit])
    assert of.turn_numbers([hello, edit]) == {hello: 1, edit: 2}


@OWN
@FORMS
def test_nobody_knows_while_the_index_is_far_behind(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "UNREAD", 5)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for event in events(random.Random(1), 7):
        append_event(ref, event, actor=ALICE)
    seqs = list(expected(ref))
    assert outline.outline(ref, seqs, actor=SYSTEM) == Outline()
    assert outline.turns_of(ref, actor=SYSTEM) is None
    feed(source)
    assert list(outline.outline(ref, seqs, actor=SYSTEM).numbers.values()) == [1, 2, 3, 4, 5, 6, 7]


@OWN
@FORMS
def test_a_large_event_that_is_indexed_does_not_hide_the_numbers_of_those_after_it(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": "x" * 3_000_000}]}}, actor=ALICE)
    feed(source)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": "Hello"}]}}, actor=ALICE)
    seqs = [Seq(seq) for seq, _event in events_of(ref)]
    of = outline.outline(ref, seqs, actor=SYSTEM)
    assert [(of.numbers[seq], of.turn_numbers(seqs)[seq]) for seq in seqs] == [(1, 1), (2, 2)]


@OWN
@FORMS
def test_a_session_that_was_made_anew_is_not_taken_for_the_one_in_the_index(own: str, source: str) -> None:
    for number in (7, 2):
        ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
        for event in events(random.Random(number), number):
            append_event(ref, event, actor=ALICE)
        if number == 7:
            feed(source)
            delete_session(ref, actor=ALICE)
    assert list(outline.outline(ref, list(expected(ref)), actor=SYSTEM).numbers.values()) == [1, 2]


@OWN
def test_a_database_that_was_not_adopted_has_numbers_and_turns_too(
    own: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    url = new_database("postgresql")
    adk = Adk("postgresql", url)
    session = adk.create("s1")
    for number in range(9):
        adk.append(session, f"the {number}th", author="booking" if number % 3 else "user")
        if number == 4:
            source = open_source(url, adopting=False)
            feed(source)
    ref = key_of(source)
    seqs = [Seq(seq) for (seq,) in query(source, f"SELECT {UNADOPTED.seq} FROM events ORDER BY timestamp, id")]
    of = outline.outline(ref, seqs, actor=SYSTEM)
    assert [of.numbers[seq] for seq in seqs] == [*range(1, 10)]
    assert [turn.number if (turn := of.turn_of(seq)) else 0 for seq in seqs] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    adk.close()
