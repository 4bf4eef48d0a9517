"""The strip: every event is in one bar, the bar tells the most telling of them, and steps lead from event to event."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history.index import build
from sessions_app.history.overview import bars, event_at
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.bulk import fill
from tests.support.stored import query

pytestmark = pytest.mark.django_db

Append = Callable[..., int]


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """A session without events."""
    return create_session(source, "booking", "ana", actor=actor, session_id="s1")


@pytest.fixture
def append(actor: Actor) -> Append:
    """Appends an event as an agent would; its seq."""

    def add(ref: SessionRef, **event: object) -> int:
        seq = append_event(ref, {"author": "agent", "invocation_id": "i1", **event}, actor=actor).seq
        assert seq is not None
        return seq

    return add


def told(ref: SessionRef, most: int = 300) -> list[tuple[int, int, str]]:
    return [(bar.events, bar.writes, bar.kind) for bar in bars(ref, most, actor=SYSTEM)]


# --- Bars -------------------------------------------------------------------------------------------------------------


def test_a_session_without_events_has_no_bars(ref: SessionRef) -> None:
    assert bars(ref, actor=SYSTEM) == []


def test_few_events_have_a_bar_each_which_tells_what_they_are(ref: SessionRef, append: Append, actor: Actor) -> None:
    other = create_session(*ref[:3], session_id="other", actor=actor)
    seqs = []
    for event in (
        {"content": {"parts": [{"text": "x"}]}},
        {"actions": {"state_delta": {"a": 1}}},
        {"error_code": "429"},
        {"actions": {"rewind_before_invocation_id": "i1", "state_delta": {"a": None}}},
        {"actions": {"state_delta": {"temp:a": 1}}},
    ):
        seqs.append(append(ref, **event))
        append(other, **event)
    edit_state(ref, [Entry("b", 1, ABSENT)], actor=actor)
    drawn = bars(ref, actor=SYSTEM)
    assert [(bar.first, bar.last) for bar in drawn[:5]] == [(seq, seq) for seq in seqs]
    assert told(ref) == [(1, 0, ""), (1, 1, "state"), (1, 0, "error"), (1, 1, "rewind"), (1, 0, ""), (1, 1, "edit")]


def test_many_events_share_bars_and_none_is_left_out(ref: SessionRef, append: Append) -> None:
    fill(ref, 700)
    append(ref, error_code="500", actions={"state_delta": {"n": 0}})
    drawn = bars(ref, actor=SYSTEM)
    assert len(drawn) == 300
    assert sum(bar.events for bar in drawn) == 701
    assert {bar.events for bar in drawn} == {2, 3}
    assert all(a.last < b.first for a, b in pairwise(drawn))
    assert drawn[-1].kind == "error"
    assert {(bar.kind, bar.writes == bar.events) for bar in drawn[:-1]} == {("state", True)}


def test_what_a_rewind_took_back_is_gone_until_that_is_taken_back(ref: SessionRef, append: Append) -> None:
    def gone() -> str:
        return "".join("x" if bar.gone else "-" for bar in bars(ref, actor=SYSTEM))

    def rewind(to: str, invocation: str) -> None:
        append(ref, invocation_id=invocation, actions={"rewind_before_invocation_id": to})

    for number in range(4):
        append(ref, invocation_id=f"i{number}")
    rewind("i2", "r1")
    append(ref, invocation_id="on")
    assert gone() == "--xx--"
    assert [bar.gone for bar in bars(ref, 2, actor=SYSTEM)] == [False, False]  # a bar of three has one that is not
    rewind("r1", "r2")
    assert gone() == "----xx-"
    rewind("i1", "r3")
    assert gone() == "-xxxxxx-"
    rewind("nowhere", "r4")
    assert gone() == "-xxxxxx--"


def test_an_event_that_is_appended_is_in_the_next_strip(ref: SessionRef, append: Append) -> None:
    append(ref)
    assert told(ref) == [(1, 0, "")]
    append(ref, actions={"state_delta": {"a": 1}})
    assert told(ref) == [(1, 0, ""), (1, 1, "state")]


def test_a_strip_costs_the_same_queries_for_every_session_and_reads_few_events(ref: SessionRef) -> None:
    fill(ref, 20_000)
    build.catch_up(ref.source, 60)
    with CaptureQueriesContext(connections[ref.source]) as captured:
        drawn = bars(ref, actor=SYSTEM)
    assert sum(bar.events for bar in drawn) == 20_000
    assert len(captured) <= 6
    about_state = [entry["sql"] for entry in captured if "ORDER BY" in entry["sql"] and "LIMIT" not in entry["sql"]]
    assert len(about_state) == 1
    assert "event_data" not in about_state[0]
    (of_authors,) = [entry["sql"] for entry in captured if "$.author" in entry["sql"] or "'author'" in entry["sql"]]
    assert of_authors.count(",") < 3 * 300 + 40  # each is asked for by its seq


# --- Steps ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def placed(ref: SessionRef, append: Append) -> tuple[SessionRef, list[int]]:
    """A session of six events e0 to e5, of which e1 and e4 changed state, and their seqs."""
    other = create_session(*ref[:3], session_id="other", actor=Actor.holding("x", "admin"))
    seqs = []
    for number in range(6):
        delta = {"n": number} if number in (1, 4) else {}
        seqs.append(append(ref, id=f"e{number}", actions={"state_delta": delta}))
        append(other, actions={"state_delta": {"n": number}})
    return ref, seqs


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [(2, 0, "e2"), (2, 1, "e3"), (2, -1, "e1"), (2, 3, "e5"), (2, 9, "e5"), (2, -2, "e0"), (2, -9, "e0"), (5, 1, "e5")],
)
def test_steps_lead_from_event_to_event_and_end_at_the_ends(
    placed: tuple[SessionRef, list[int]], start: int, steps: int, expected: str
) -> None:
    ref, seqs = placed
    assert event_at(ref, seqs[start], steps, actor=SYSTEM) == expected


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [(0, 1, "e1"), (1, 1, "e4"), (0, 2, "e4"), (0, 9, "e4"), (4, 1, "e4"), (5, -1, "e4"), (4, -1, "e1"), (5, -2, "e1"),
     (5, -9, "e1"), (1, -1, "e1"), (0, -1, "e0")],
)  # fmt: skip
def test_steps_over_changes_pass_over_what_changed_nothing(
    placed: tuple[SessionRef, list[int]], start: int, steps: int, expected: str
) -> None:
    ref, seqs = placed
    assert event_at(ref, seqs[start], steps, to="state", actor=SYSTEM) == expected


def test_a_place_between_events_is_the_one_before_and_the_first_where_none_is(
    placed: tuple[SessionRef, list[int]],
) -> None:
    ref, seqs = placed
    assert event_at(ref, seqs[3] + 1, actor=SYSTEM) == "e3"
    assert event_at(ref, 0, actor=SYSTEM) == "e0"
    assert event_at(ref, 2**62, actor=SYSTEM) == "e5"


def test_a_change_far_back_is_found(ref: SessionRef, append: Append) -> None:
    first = append(ref, id="first", actions={"state_delta": {"a": 1}})
    for number in range(3):
        filler = create_session(*ref[:3], session_id=f"filler{number}", actor=Actor.holding("x", "admin"))
        fill(filler, 3_000)
    last = append(ref, id="last")
    assert query(ref.source, "SELECT count(*) FROM events")[0][0] == 9_002
    assert event_at(ref, last, -1, to="state", actor=SYSTEM) == "first"
    assert event_at(ref, last, -1, actor=SYSTEM) == "first"
    assert first < last


def test_a_session_without_events_has_no_place_to_go_to(ref: SessionRef) -> None:
    with pytest.raises(NotFound, match="no events"):
        event_at(ref, 1, actor=SYSTEM)
