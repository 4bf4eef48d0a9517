"""What was written along a stretch of events, taken together, is the state after each of them, and who wrote it."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State, same
from sessions_app.history import moments, steps
from sessions_app.history.steps import changes_along
from sessions_app.reads import timeline
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.fold import ALICE, KEYS, Fold, values

pytestmark = pytest.mark.django_db(transaction=True)

KEPT: Final = [key for key in KEYS if len(key) < 500 and key.isprintable()]
appends = st.tuples(
    *(st.just("append"), st.just("ana"), st.sampled_from(("s1", "s2"))),
    *(st.dictionaries(st.sampled_from(KEPT), values, max_size=3), st.lists(st.sampled_from(KEPT), max_size=1)),
    st.just("i1"),
)
others = st.sampled_from(
    [("delete", "ana", "s2", True), ("create", "ana", "s2", {"user:tier": 1}), ("rewind", "ana", "s1", "i1")]
)
histories = st.lists(appends | appends | appends | others, min_size=5, max_size=25)


def append(ref: SessionRef, delta: dict[str, Any]) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}}
    return str(append_event(ref, event, actor=ALICE).event["id"])


def check(ref: SessionRef, ids: list[str]) -> None:
    """Goes from event to event by what was written, and compares with `moments` at each."""
    events = [timeline.event(ref, event_id, actor=SYSTEM) for event_id in ids]
    changes = changes_along(ref, events, actor=SYSTEM)
    assert changes is not None
    state = moments.state_at(ref, ids[0], actor=SYSTEM).state.merged()
    for number, (event, each) in enumerate(zip(events, changes, strict=True)):
        then = moments.state_at(ref, event.id, actor=SYSTEM)
        before = moments.state_at(ref, event.id, before=True, actor=SYSTEM).state
        for name, held in each.items():
            assert not held.own or same(held.before, before.get(name)), name
            assert held.writer == then.writers.get(name), name
            assert held.initial == (name in then.initial), name
            state[name] = held.value
        if number:
            assert {name for name, held in each.items() if held.own} == moments.made(event, actor=SYSTEM).keys()
        same_values(state, then.state.merged())


def same_values(told: State, wanted: State) -> None:
    told = {key: value for key, value in told.items() if value is not ABSENT}
    assert told.keys() == wanted.keys()
    assert [key for key in told if not same(told[key], wanted[key])] == []


@given(begun=st.dictionaries(st.sampled_from(KEPT), values), history=histories)
def test_the_state_after_each_event_is_the_one_that_is_told_there(
    source: str, begun: dict[str, Any], history: list[tuple[Any, ...]]
) -> None:
    fold = Fold(source)
    for what, *rest in [("create", "ana", "s1", begun), ("create", "ana", "s2", {}), *history]:
        getattr(fold, what)(*rest)
    for ref in fold.session:
        ids = [event_id for of, event_id, _before, _after in fold.seen if of == ref]
        for some in (ids, ids[len(ids) // 2 :]):
            if some and database.is_numbered(source):
                check(ref, some)


def test_too_many_writes_are_not_told_at_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = create_session(source, "app", "ana", actor=ALICE)
    ids = [append(ref, {"n": number}) for number in range(6)]
    check(ref, ids)
    monkeypatch.setattr(steps, "MOST_WRITES", 4)
    assert changes_along(ref, [timeline.event(ref, each, actor=SYSTEM) for each in ids], actor=SYSTEM) is None


def test_a_key_that_the_index_shortens_is_not_told_at_once(source: str) -> None:
    ref = create_session(source, "app", "ana", actor=ALICE)
    ids = [append(ref, {"k" * 600: number}) for number in range(2)]
    assert changes_along(ref, [timeline.event(ref, each, actor=SYSTEM) for each in ids], actor=SYSTEM) is None
