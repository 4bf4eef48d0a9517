"""Undo and restore: the inverse of what was written, compared with what stands, as an edit like any other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Conflict, Invalid, NotFound
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State
from sessions_app.edits import edit, rewind, undo
from sessions_app.edits.edit import Entry
from sessions_app.history import moments
from sessions_app.reads import timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.booking import APP, START
from tests.support.stored import events_of, everything, execute

pytestmark = pytest.mark.django_db

_numbers = itertools.count()


def take_back(ref: SessionRef, event_id: str, actor: Actor) -> str:
    """Undoes an event whatever was written since; the undo's id."""
    plan = undo.undo(ref, event_id, actor=SYSTEM)
    return str(edit.edit_state(ref, plan.entries, actor=actor, of={"undoes": event_id}).event["id"])


def state(ref: SessionRef) -> State:
    return views.session(ref, actor=SYSTEM).state.merged()


# --- Undo -------------------------------------------------------------------------------------------------------------


def test_an_undo_brings_back_what_stood_before_in_every_scope(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay", new=[1], draft=None, user__tier="silver", app__limit=4, app__new=True)
    undone = take_back(ref, event_id, actor)
    assert state(ref) == START
    event = events_of(ref)[-1][1]
    assert event["id"] == undone
    assert event["custom_metadata"]["adkweb"] == {
        "undoes": event_id,
        "actor": actor.name,
        "reason": "",
        "replaced": {"step": "pay", "new": [1], "draft": None, "user:tier": "silver", "app:limit": 4, "app:new": True},
        "removed": ["app:new", "new"],
    }


def test_an_undo_can_be_undone(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay", new=1, user__tier=None)
    after = state(ref)
    first = take_back(ref, event_id, actor)
    second = take_back(ref, first, actor)
    assert state(ref) == after
    take_back(ref, second, actor)
    assert state(ref) == START


@pytest.mark.parametrize("before", ["search", "NaN", "[1, 2]", '{"a": Infinity}', {"a": [None]}, ABSENT], ids=repr)
def test_the_note_of_an_edit_tells_what_undoes_it_as_history_does(
    before: Any, ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    seen = START["step"]
    edit.edit_state(ref, [Entry("step", "old", seen)], actor=actor)
    edit.edit_state(ref, [Entry("step", before, "old")], actor=actor)
    entries = [Entry("step", "pay", before), Entry("user:tier", ABSENT, "gold"), Entry("app:new", 1, ABSENT)]
    event_id = edit.edit_state(ref, entries, actor=actor).event["id"]
    add(ref, user__tier="silver")
    event, now = timeline.event(ref, event_id, actor=SYSTEM), views.session(ref, actor=SYSTEM).state
    plan = undo.undo_by_note(event, now, actor=actor)
    if before in ("NaN", '{"a": Infinity}'):  # the note has these texts for values that are not JSON, too
        assert plan is None
    else:
        assert plan
        assert plan.steps == undo.undo(ref, event_id, actor=actor).steps
        assert [step.key for step in plan.steps if step.contested] == ["user:tier"]


def test_an_edit_that_removed_a_key_is_undone(ref: SessionRef, actor: Actor) -> None:
    entries = [Entry("draft", ABSENT, {"a": [1]}), Entry("user:tier", ABSENT, "gold")]
    take_back(ref, edit.edit_state(ref, entries, actor=actor).event["id"], actor)
    assert state(ref) == START


def test_undone_already_names_the_event_that_has_done_it(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    undone = take_back(ref, event_id, actor)
    with pytest.raises(Invalid, match="This has already been undone by event") as refused:
        undo.undo(ref, event_id, actor=SYSTEM)
    assert refused.value.detail["writer"].event_id == undone


def test_where_another_event_brought_the_values_back_it_is_named_as_such(
    ref: SessionRef, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    again = add(ref, step="search")
    with pytest.raises(Invalid, match=r"event \S+ already restored") as refused:
        undo.undo(ref, event_id, actor=SYSTEM)
    assert refused.value.detail["writer"].event_id == again


def test_what_removed_a_key_again_is_named_and_only_an_undo_is_called_one(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, new=1)
    undone = take_back(ref, event_id, actor)
    with pytest.raises(Invalid, match="This has already been undone by event") as refused:
        undo.undo(ref, event_id, actor=SYSTEM)
    assert refused.value.detail["writer"].event_id == undone
    other = append_event(
        ref, {"author": "agent", "invocation_id": "i2", "actions": {"state_delta": {"fresh": 1}}}, actor=actor
    ).event["id"]
    rewound = rewind.rewind(ref, "i2", actor=actor).event["id"]
    with pytest.raises(Invalid, match=r"event \S+ already restored") as refused:
        undo.undo(ref, other, actor=SYSTEM)
    assert refused.value.detail["writer"].event_id == rewound


def test_where_no_event_brought_the_values_back_none_is_named(ref: SessionRef, add: Callable[..., str]) -> None:
    before = json.dumps(views.session(ref, actor=SYSTEM).state.session)
    event_id = add(ref, new=1)
    execute(ref.source, "UPDATE sessions SET state = %s", [before])
    with pytest.raises(Invalid) as refused:
        undo.undo(ref, event_id, actor=SYSTEM)
    assert refused.value.message == "Nothing to undo: the keys already have the values from before this event."


@pytest.mark.guarantee(
    "Edits", "An undo doesn't overwrite later changes unless the person doing the undo chooses to overwrite them."
)
def test_what_was_written_since_is_contested_and_the_rest_is_not(ref: SessionRef, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay", draft=1, user__tier="silver", app__limit=4)
    add(ref, step="done", draft={"a": [1]})
    other = create_session(ref.source, APP, "ana", actor=Actor.holding("other", "admin"))
    add(other, user__tier="black")
    plan = undo.undo(ref, event_id, actor=SYSTEM)
    assert [(s.key, s.then, s.wrote, s.now, s.contested) for s in plan.steps] == [
        ("app:limit", 3, 4, 4, False),
        ("step", "search", "pay", "done", True),
        ("user:tier", "gold", "silver", "black", True),
    ]


def test_a_key_that_was_removed_since_is_contested_and_can_be_brought_back(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    edit.edit_state(ref, [Entry("step", ABSENT, "pay")], actor=actor)
    (step,) = undo.undo(ref, event_id, actor=SYSTEM).steps
    assert (step.then, step.wrote, step.now, step.contested) == ("search", "pay", ABSENT, True)
    take_back(ref, event_id, actor)
    assert state(ref) == START


def test_a_write_between_looking_and_sending_is_not_lost(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    plan = undo.undo(ref, add(ref, step="pay", new=1), actor=SYSTEM)
    add(ref, new=2)
    before = everything(ref.source)
    with pytest.raises(Conflict) as refused:
        edit.edit_state(ref, plan.entries, actor=actor)
    assert refused.value.detail["current"] == {"new": 2, "step": "pay"}
    assert everything(ref.source) == before


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({}, "didn't change any state"),
        ({"step": "search"}, "This event wrote the values that were already there, so there is nothing to undo"),
        ({"temp:x": 1}, "didn't change any state"),
    ],
)
def test_an_event_that_changed_nothing_has_nothing_to_undo(
    ref: SessionRef, add: Callable[..., str], delta: State, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        undo.undo(ref, add(ref, **delta), actor=SYSTEM)


def test_what_stood_before_and_was_never_recorded_is_left_alone_and_named(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    event_id = add(ref, step="pay")
    with pytest.raises(Invalid, match=r"can't be undone\. Earlier values are unknown for these keys: step"):
        undo.undo(ref, event_id, actor=SYSTEM)
    second = add(ref, step="done", draft=1)
    plan = undo.undo(ref, second, actor=SYSTEM)
    assert ([s.key for s in plan.steps], plan.unknown) == (["step"], ["draft"])
    take_back(ref, second, actor)
    assert state(ref) == START | {"step": "pay", "draft": 1}


def test_an_event_that_is_gone_cannot_be_undone(ref: SessionRef) -> None:
    with pytest.raises(NotFound, match="may have been deleted"):
        undo.undo(ref, "gone", actor=SYSTEM)
    with pytest.raises(NotFound, match="may have been deleted"):
        undo.restore(ref, "gone", actor=SYSTEM)


# --- Restore ----------------------------------------------------------------------------------------------------------


def bring_back(ref: SessionRef, event_id: str, actor: Actor, **which: Any) -> None:
    plan = undo.restore(ref, event_id, **which, actor=SYSTEM)
    edit.edit_state(ref, plan.entries, actor=actor, of={"restores": event_id})


def test_a_key_a_scope_or_everything_is_restored_to_a_moment(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay", user__tier="silver", mine=1)
    at = state(ref)
    add(ref, step="done", draft=None, late=1, user__tier=None, user__late=1, app__limit=9, mine=None)
    late = state(ref)
    bring_back(ref, event_id, actor, keys=["step", "late"])
    assert state(ref) == {k: v for k, v in late.items() if k != "late"} | {"step": "pay"}
    bring_back(ref, event_id, actor, scopes=["user"])
    assert views.user_state(ref.source, APP, "ana", actor=SYSTEM) == {"tier": "silver"}
    assert state(ref)["app:limit"] == 9
    bring_back(ref, event_id, actor)
    assert state(ref) == at
    assert events_of(ref)[-1][1]["custom_metadata"]["adkweb"]["restores"] == event_id
    with pytest.raises(Invalid, match="The state is already the same as it was then"):
        undo.restore(ref, event_id, actor=SYSTEM)


def test_a_key_that_was_never_there_cannot_be_restored(ref: SessionRef, add: Callable[..., str]) -> None:
    with pytest.raises(Invalid, match=r"The key “nope” didn.t exist then and doesn.t exist now"):
        undo.restore(ref, add(ref, step="pay"), keys=["step", "nope"], actor=SYSTEM)


def test_a_restore_while_another_session_writes_is_all_or_nothing(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    add(ref, step="done", user__tier="silver", app__limit=9)
    plan = undo.restore(ref, event_id, actor=SYSTEM)
    other = create_session(ref.source, APP, "ben", actor=actor)
    add(other, app__limit=10)
    before = everything(ref.source)
    with pytest.raises(Conflict):
        edit.edit_state(ref, plan.entries, actor=actor)
    assert everything(ref.source) == before
    bring_back(ref, event_id, actor)
    assert state(ref) == START | {"step": "pay"}


def test_what_was_never_recorded_is_not_restored_and_named(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    event_id = add(ref, other=1)
    add(ref, step="done", other=2)
    plan = undo.restore(ref, event_id, scopes=["session"], actor=SYSTEM)
    assert ([s.key for s in plan.steps], plan.unknown) == (["other"], ["step"])
    with pytest.raises(
        Invalid, match=r"The state is already the same as it was then\. Earlier values are unknown for these keys: step"
    ):
        undo.restore(ref, event_id, keys=["step"], actor=SYSTEM)


def test_the_number_of_questions_does_not_grow_with_the_keys(
    ref: SessionRef, actor: Actor, add: Callable[..., str], django_assert_max_num_queries: Any
) -> None:
    event_id = add(ref, **{f"k{n}": n for n in range(300)})
    add(ref, **{f"k{n}": -n for n in range(300)})
    moments.state_now(ref, actor=SYSTEM)
    with django_assert_max_num_queries(25, connection=connections[ref.source]):
        assert len(undo.restore(ref, event_id, actor=SYSTEM).steps) == 299


# --- Any history ------------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c", "user:a", "user:b", "app:a"])
_values = st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["x", [1], {"y": None}]))
_steps = st.lists(
    st.tuples(st.integers(0, 1), st.dictionaries(_names, _values, max_size=3), st.sets(_names, max_size=2)), max_size=8
)


def _write(keys: list[SessionRef], steps: list[tuple[int, State, set[str]]], actor: Actor) -> list[tuple[str, State]]:
    """Writes a history into two sessions of one user; of the first, each event's id and the state after it."""
    told = []
    for number, delta, removed in steps:
        ref = keys[number]
        event = {
            "author": "agent",
            "actions": {"state_delta": {**delta, **dict.fromkeys(removed)}},
            "custom_metadata": {"adkweb": {"removed": sorted(removed)}},
        }
        event_id = append_event(ref, event, actor=actor, origin="person").event["id"]
        if number == 0:
            told.append((event_id, state(ref)))
    return told


def _two(source: str, actor: Actor, initial: State) -> list[SessionRef]:
    app = f"app{next(_numbers)}"
    first = create_session(source, app, "ana", actor=actor, state=initial)
    return [first, create_session(source, app, "ana", actor=actor)]


@given(steps=_steps, initial=st.dictionaries(_names, _values, max_size=3), at=st.integers(0, 7))
def test_restoring_a_moment_makes_the_state_that_of_the_moment(
    source: str, actor: Actor, steps: list[tuple[int, State, set[str]]], initial: State, at: int
) -> None:
    keys = _two(source, actor, initial)
    told = _write(keys, steps, actor)
    if not told:
        return
    event_id, then = told[at % len(told)]
    with suppress(Invalid):  # nothing differs
        bring_back(keys[0], event_id, actor)
    assert equal(state(keys[0]), then)


@pytest.mark.guarantee("Edits", "An undo can be undone.")
@given(steps=_steps, initial=st.dictionaries(_names, _values, max_size=3), at=st.integers(0, 7))
def test_an_undo_undone_is_as_if_nothing_was_undone(
    source: str, actor: Actor, steps: list[tuple[int, State, set[str]]], initial: State, at: int
) -> None:
    keys = _two(source, actor, initial)
    told = _write(keys, steps, actor)
    if not told:
        return
    before = state(keys[0])
    try:
        undone = take_back(keys[0], told[at % len(told)][0], actor)
    except Invalid:
        assert equal(state(keys[0]), before)
        return
    assert not equal(state(keys[0]), before)
    take_back(keys[0], undone, actor)
    assert equal(state(keys[0]), before)


# --- A session that is not whole --------------------------------------------------------------------------------------


def test_nothing_is_taken_back_in_a_session_that_is_being_copied(ref: SessionRef, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay")
    execute(ref.source, "UPDATE sessions SET state = %s", ['{"adkweb:importing": true}'])
    before = everything(ref.source)
    for plan in (lambda: undo.undo(ref, event_id, actor=SYSTEM), lambda: undo.restore(ref, event_id, actor=SYSTEM)):
        with pytest.raises(Conflict, match="being copied or imported"):
            plan()
    assert everything(ref.source) == before


def test_of_several_events_that_brought_values_back_the_last_is_named(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay", draft=1)
    add(ref, draft={"a": [1]})
    last = add(ref, step="search")
    with pytest.raises(Invalid) as nothing:
        undo.undo(ref, event_id, actor=SYSTEM)
    assert nothing.value.detail["writer"].event_id == last
    assert "This has already been undone by event" not in nothing.value.message


def test_an_undo_of_the_same_id_in_another_session_is_none_of_this_event(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    other = create_session(*ref[:3], session_id="other", actor=actor)
    event = {"id": "same", "author": "agent", "invocation_id": "i", "actions": {"state_delta": {"user:tier": "iron"}}}
    append_event(ref, event, actor=actor)
    take_back(ref, "same", actor)
    append_event(other, {**event, "actions": {"state_delta": {"user:tier": "iron"}}}, actor=actor)
    add(other, user__tier="gold")
    with pytest.raises(Invalid) as nothing:
        undo.undo(other, "same", actor=SYSTEM)
    assert "This has already been undone by event" not in nothing.value.message
