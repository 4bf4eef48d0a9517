"""The points of a pinned key: what a plain reading of the events gives, few of many, unknown where nobody knows."""

from __future__ import annotations

import random
from bisect import bisect_left
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history.steps import MOST, points_of
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.bulk import fill
from tests.support.stored import query

pytestmark = pytest.mark.django_db

STATE: dict[str, Any] = {"n": 0, "user:tier": "silver", "gone": 1}


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """A session with state, and another one of its user."""
    create_session(source, "booking", "ana", actor=actor, session_id="other")
    return create_session(source, "booking", "ana", actor=actor, session_id="s1", state=STATE)


@pytest.mark.parametrize("seed", range(3))
def test_points_are_what_a_plain_reading_of_the_events_gives(ref: SessionRef, actor: Actor, seed: int) -> None:
    chance = random.Random(seed)
    other, seqs = ref._replace(session_id="other"), list[int]()
    expected: dict[str, list[tuple[int, Any, bool]]] = {"n": [], "user:tier": [], "never": []}
    for number in range(40):
        elsewhere = chance.random() < 0.3
        delta: dict[str, Any] = chance.choice([{}, {"n": number}, {"user:tier": f"t{number}"}, {"n": number, "x": 1}])
        seq = append_event(
            other if elsewhere and seqs else ref, {"author": "a", "actions": {"state_delta": delta}}, actor=actor
        ).seq
        assert seq is not None
        elsewhere = elsewhere and bool(seqs)
        if not elsewhere:
            seqs.append(seq)
        for name in delta.keys() & expected.keys():
            if name != "n" or not elsewhere:
                expected[name].append((seq, delta[name], elsewhere))
    ends = [*seqs[2::3], *([] if len(seqs) % 3 == 0 else [seqs[-1]])]
    told = points_of(ref, list(expected), seqs[0], ends, actor=SYSTEM)
    before = {"n": 0, "user:tier": "silver", "never": ABSENT}
    for name, values in expected.items():
        known = [(seq, value, where) for seq, value, where in values if seq <= seqs[-1]]
        assert [(point.seq, point.value, point.elsewhere) for point in told[name].points] == known
        assert [point.stretch for point in told[name].points] == [bisect_left(ends, seq) for seq, _v, _w in known]
        assert (told[name].before, told[name].writes) == (before[name], len(known))


def test_a_key_that_was_removed_is_absent_from_there_on(ref: SessionRef, actor: Actor) -> None:
    first = append_event(ref, {"author": "a"}, actor=actor).seq
    edit_state(ref, [Entry("gone", ABSENT, 1)], actor=actor)
    last = query(ref.source, "SELECT count(*) FROM events")[0][0]
    assert first is not None
    told = points_of(ref, ["gone"], first, [first, first + last], actor=SYSTEM)["gone"]
    assert told.before == 1
    assert [point.value for point in told.points] == [ABSENT]


def test_of_many_writes_some_are_told_the_newest_among_them(source: str, ref: SessionRef, actor: Actor) -> None:
    long = create_session(source, "booking", "ana", actor=actor, session_id="long")
    fill(long, 5_000)
    column = "seq" if connections[source].vendor == "postgresql" else "rowid"
    seqs = [row[0] for row in query(source, f"SELECT {column} FROM events WHERE session_id = 'long' ORDER BY 1")]
    ends = [seqs[n] for n in range(9, 5_000, 10)]
    points_of(long, ["n"], seqs[0], ends, actor=SYSTEM)
    with CaptureQueriesContext(connections[source]) as captured:
        told = points_of(long, ["n"], seqs[0], ends, actor=SYSTEM)["n"]
    assert len(captured) < 15
    assert told.writes == 5_000
    assert MOST // 2 <= len(told.points) <= MOST
    assert all(point.value == seqs.index(point.seq) + 1 for point in told.points)
    assert told.points[-1].value == 5_000
    assert sorted(told.points, key=lambda point: point.seq) == told.points


@pytest.mark.parametrize("name", ["temp:x", "", "\0", "\ud800", "x" * 1_024, "user:", "a'b\"c%s", "<b>"])
def test_a_key_that_nobody_wrote_has_no_points(ref: SessionRef, actor: Actor, name: str) -> None:
    seq = append_event(ref, {"author": "a", "actions": {"state_delta": {"temp:x": 1}}}, actor=actor).seq
    assert seq is not None
    told = points_of(ref, [name], seq, [seq], actor=SYSTEM)[name]
    assert told.points == []
    assert told.before in (ABSENT, UNKNOWN)
