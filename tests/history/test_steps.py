"""The values of some keys after each write, gone through in order, are those that the state at each event has."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.positions import Position
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, same
from sessions_app.history import moments
from sessions_app.history.index import written
from sessions_app.history.steps import Step, steps_of
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session

pytestmark = pytest.mark.usefixtures("own")
KEYS = ["cart", "cart.total", "step", "user:tier", "app:limit", "gone"]


def all_steps(ref: SessionRef, limit: int) -> list[Step]:
    """All steps of a session, so many at a time."""
    steps: list[Step] = []
    after: Position | None = None
    while True:
        some = steps_of(ref, KEYS, after, written.FOREVER, limit, actor=SYSTEM)
        assert len(some.steps) <= limit
        steps += some.steps
        if not some.more:
            return steps
        after = some.upto


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_the_values_after_each_write_are_those_of_the_state_at_its_event(source: str, actor: Actor, limit: int) -> None:
    chance, refs, written = random.Random(5), [], []
    values: dict[str, Any] = {
        "cart": [{"total": 1}, {"total": {"net": 2}}, None, 5],
        "step": ["pay", "book", None],
        "user:tier": ["gold", "silver"],
        "app:limit": [1, 2, {"a": 1}],
        "other": [1, 2],
    }
    for number in range(60):
        delta = {key: chance.choice(values[key]) for key in chance.sample(list(values), chance.randrange(1, 4))}
        if number % 20 == 0:
            refs.append(create_session(source, "booking", "ana", session_id=f"s{number}", state=delta, actor=actor))
            continue
        ref = chance.choice(refs)
        event = {"author": "agent", "actions": {"state_delta": delta}}
        event_id = str(append_event(ref, event, actor=actor).event["id"])
        if {*delta} & {*KEYS}:
            written.append((ref, event_id))
    for ref in refs:
        own = {step.event_id: step for step in all_steps(ref, limit) if step.ref == ref and step.event_id}
        assert list(own) == [event_id for of, event_id in written if of == ref]
        for event_id, step in own.items():
            state = moments.state_at(ref, event_id, actor=SYSTEM).state
            assert [key for key in KEYS if not same(step.values[key], state.get(key))] == []


def test_a_session_begins_with_its_initial_state(source: str, actor: Actor, add: Callable[..., str]) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", state={"step": "pay"}, actor=actor)
    add(ref, cart=1)
    steps = steps_of(ref, KEYS, None, written.FOREVER, 10, actor=SYSTEM)
    assert (steps.start["step"], steps.start["cart"]) == ("pay", ABSENT)
    assert [(step.wrote, step.values["cart"]) for step in steps.steps] == [({"cart"}, 1)]
    assert steps_of(ref, ["gone"], None, written.FOREVER, 10, actor=SYSTEM).steps == []


def test_what_a_deleted_session_with_the_same_id_wrote_is_no_step(
    source: str, actor: Actor, add: Callable[..., str]
) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=actor)
    add(ref, step="old")
    delete_session(ref, actor=actor)
    create_session(*ref[:3], session_id="s1", actor=actor)
    new = add(ref, step="new")
    assert [step.event_id for step in all_steps(ref, 10)] == [new]
