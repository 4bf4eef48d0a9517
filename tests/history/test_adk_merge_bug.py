"""SQLite files in which google-adk 1.21 to 2.7 merged deltas: what is told is so, and no repair overwrites right state."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Invalid
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN, State
from sessions_app.edits import undo
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.edits.repair import choose
from sessions_app.history import adk_merge_bug, drift, key_history, moments
from sessions_app.reads import views
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.merged import append, create
from tests.support.people import ALICE
from tests.support.stored import execute

pytestmark = pytest.mark.django_db(transaction=True)

_numbers = itertools.count()


@pytest.fixture
def source(new_database: Callable[[str], str], open_source: Callable[[str, str], str]) -> str:
    """A file in the form of SqliteSessionService."""
    return open_source(new_database("sqlite"), "sqlite")


def new(source: str, state: State | None = None, *, merges: bool = True, user: str = "ana") -> SessionRef:
    """A session of an app of its own."""
    ref = SessionRef(source, f"app{next(_numbers)}", user, "s1")
    create(ref, state or {}, merges=merges)
    return ref


def stored(ref: SessionRef) -> State:
    return views.session(ref, actor=SYSTEM).state.merged()


def at(ref: SessionRef, event_id: str, *, before: bool = False) -> State:
    return moments.state_at(ref, event_id, before=before, actor=SYSTEM).state.merged()


def drifted(ref: SessionRef) -> list[drift.Drift]:
    return [*drift.own(ref, actor=SYSTEM).drifted, *drift.shared(ref, actor=SYSTEM).drifted]


def test_a_merged_file_is_recognised_and_folded_so(source: str) -> None:
    ref = new(source, {"user:prefs": {"z": 0}})
    ids = [
        append(ref, delta)
        for delta in (
            {"cfg": {"a": 1}, "gone": 1},
            {"cfg": {"b": {"x": 1, "y": 2}}, "gone": None},
            {"cfg": {"b": {"y": None}}},
            {"cfg": 5, "n": {"a": 1}},
            {"n": {"b": 2}},
        )
    ]
    assert [at(ref, each).get("cfg") for each in ids[:3]] == [
        {"a": 1},
        {"a": 1, "b": {"x": 1, "y": 2}},
        {"a": 1, "b": {"x": 1}},
    ]
    assert "gone" not in at(ref, ids[1])
    assert at(ref, ids[4])["n"] == stored(ref)["n"] == {"a": 1, "b": 2}
    assert [write.change.new for write in key_history.history(ref, "cfg", actor=SYSTEM).rows] == [
        5,
        {"a": 1, "b": {"x": 1}},
        {"a": 1, "b": {"x": 1, "y": 2}},
        {"a": 1},
    ]
    assert moments.state_now(ref, actor=SYSTEM).writers["n"].event_id == ids[4]
    assert drifted(ref) == []


def test_a_replaced_file_is_recognised_and_folded_so(source: str) -> None:
    ref = new(source, merges=False)
    ids = [append(ref, delta, merges=False) for delta in ({"cfg": {"a": 1}, "n": 1}, {"cfg": {"b": 2}}, {"n": None})]
    assert [at(ref, each)["cfg"] for each in ids] == [{"a": 1}, {"b": 2}, {"b": 2}]
    assert at(ref, ids[2])["n"] is None
    assert drifted(ref) == []


def test_an_upgrade_in_the_middle_is_read_as_both(source: str) -> None:
    old = new(source)
    before = [
        append(old, delta) for delta in ({"cfg": {"a": 1}, "x": {"a": 1}}, {"cfg": {"b": 2}, "x": {"b": 1}}, {"x": 3})
    ]
    ref = new(source, merges=False)
    after = [append(ref, delta, merges=False) for delta in ({"cfg": {"a": 1}}, {"cfg": {"b": 2}}, {"cfg": {"c": 3}})]
    assert at(old, before[1])["x"] == {"a": 1, "b": 1}, "what came before the last that merged was merged"
    assert at(ref, after[1])["cfg"] is UNKNOWN, "it may have been upgraded just before or after this"
    assert at(ref, after[2])["cfg"] == {"c": 3}
    append(ref, {"cfg": 1}, merges=False)
    assert at(ref, after[2])["cfg"] is UNKNOWN
    assert drifted(ref) == drifted(old) == []


def test_without_evidence_what_differs_is_unknown_and_says_why(source: str) -> None:
    ref = new(source)
    ids = [append(ref, delta) for delta in ({"cfg": {"a": 1}}, {"cfg": {"b": 2}}, {"cfg": 3})]
    assert at(ref, ids[0])["cfg"] == {"a": 1}, "both readings agree"
    moment = moments.state_at(ref, ids[1], actor=SYSTEM)
    assert moment.state.session["cfg"] is UNKNOWN
    assert moment.either == {"cfg"}
    with pytest.raises(Invalid, match="unknown for these keys: cfg"):
        undo.restore(ref, ids[1], keys=["cfg"], actor=SYSTEM)
    assert key_history.history(ref, "cfg", actor=SYSTEM).rows[1].change.new is UNKNOWN


@pytest.mark.parametrize(("said", "cfg"), [("merged", {"a": 1, "b": 2}), ("replaced", {"b": 2})])
def test_the_setting_says_which(source: str, settings: Settings, said: str, cfg: State) -> None:
    settings.SQLITE_STATE = said
    ref = new(source)
    ids = [append(ref, delta) for delta in ({"cfg": {"a": 1}}, {"cfg": {"b": 2}}, {"cfg": 3})]
    assert at(ref, ids[1])["cfg"] == cfg
    append(ref, {"kept": {"a": 1}})
    append(ref, {"kept": {"b": 1}})
    assert [each.change.key for each in drifted(ref)] == ([] if said == "merged" else ["kept"])


@pytest.mark.parametrize("slow", [False, True])
def test_what_a_deleted_session_showed_is_not_said_of_one_with_the_same_row_numbers(
    source: str, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    if slow:  # a search that took long is not repeated at once
        monkeypatch.setattr(adk_merge_bug, "FAST", -1.0)
        monkeypatch.setattr(adk_merge_bug, "PAUSE", 1e9)
    gone = new(source)
    deltas: list[State] = [{"cfg": {"a": 1}, "x": {"a": 1}}, {"cfg": {"b": 2}, "x": {"b": 2}}, {"x": 3}]
    ids = [append(gone, delta) for delta in deltas]
    assert at(gone, ids[1])["x"] == {"a": 1, "b": 2}
    delete_session(gone, actor=ALICE)
    ref = new(source, merges=False)  # the agent was upgraded
    ids = [append(ref, delta, merges=False) for delta in ({"x": {"a": 1}}, {"x": {"b": 2}}, {"x": 3})]
    assert at(ref, ids[1])["x"] is UNKNOWN


def test_an_undo_of_what_was_merged_brings_back_what_stood_before(source: str) -> None:
    ref = new(source)
    append(ref, {"cfg": {"a": 1}, "other": {"a": 1}})
    event_id = append(ref, {"cfg": {"b": 2}, "other": {"b": 1}})
    plan = undo.undo(ref, event_id, actor=SYSTEM)
    assert [(step.key, step.then, step.contested) for step in plan.steps] == [
        ("cfg", {"a": 1}, False),
        ("other", {"a": 1}, False),
    ]
    edit_state(ref, plan.entries, actor=ALICE)
    assert stored(ref) == {"cfg": {"a": 1}, "other": {"a": 1}}
    assert at(ref, event_id)["cfg"] == {"a": 1, "b": 2}, "the edit notes what it replaced"
    assert append(ref, {"cfg": {"c": 3}})
    assert stored(ref)["cfg"] == {"a": 1, "c": 3}
    assert drifted(ref) == [], "an edit of adkweb replaces, and the agent merges on"


def test_a_lost_update_is_told_still_where_no_reading_explains_it(source: str) -> None:
    ref = new(source)
    append(ref, {"cfg": {"a": 1}, "n": 1})
    append(ref, {"cfg": {"b": 2}, "n": 2})
    execute(source, "UPDATE sessions SET state = json_patch(state, '{\"n\": 1}') WHERE app_name = %s", [ref.app_name])
    assert [(each.change.key, each.change.old, each.change.new) for each in drifted(ref)] == [("n", 2, 1)]


def test_no_repair_is_offered_where_nobody_knows_which_reading_is_right(source: str) -> None:
    ref = new(source)
    append(ref, {"cfg": {"a": 1}})
    append(ref, {"cfg": {"b": 2}})
    execute(source, 'UPDATE sessions SET state = \'{"cfg": {"z": 1}}\' WHERE app_name = %s', [ref.app_name])
    report = drift.own(ref, actor=SYSTEM)
    assert (report.drifted, report.either) == ([], ["cfg"])
    with pytest.raises(Invalid, match="has no difference that an event can repair"):
        choose(ref, [], ["cfg"], actor=SYSTEM)


def test_other_forms_are_never_read_as_merged(
    new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    source = open_source(new_database("sqlite-database"), "sqlite-database")
    ref = create_session(source, "booking", "ana", actor=ALICE)
    deltas: tuple[State, ...] = ({"cfg": {"a": 1}}, {"cfg": {"b": None}}, {"cfg": None})
    ids = [
        append_event(ref, {"author": "a", "actions": {"state_delta": each}}, actor=ALICE).event["id"] for each in deltas
    ]
    assert [at(ref, each)["cfg"] for each in ids] == [{"a": 1}, {"b": None}, None]


# --- Any history ------------------------------------------------------------------------------------------------------

_KEYS = ("n", "cfg", "user:p", "app:q")
_leaves = st.none() | st.integers(0, 2) | st.just([{"a": None}])
_values = st.recursive(_leaves, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=5)
_deltas = st.dictionaries(st.sampled_from(_KEYS), _values, min_size=1, max_size=3)
_steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "edit"]), st.integers(0, 1), _deltas), max_size=8
)


def play(
    source: str, steps: list[tuple[str, int, State]], began: State, merged: int
) -> list[tuple[SessionRef, str, State, State]]:
    """Two sessions of a user written by an agent that merges for so many steps, and by edits: state around each event."""
    one = new(source, began, merges=merged > 0)
    keys = [one, one._replace(session_id="s2")]
    create(keys[1], {}, merges=merged > 0)
    seen = []
    for number, (what, which, delta) in enumerate(steps):
        ref = keys[which]
        before = stored(ref)
        if what == "append":
            event_id = append(ref, delta, merges=number < merged)
        else:
            entries = [Entry(name, value, before.get(name, ABSENT)) for name, value in delta.items()]
            try:
                event_id = str(edit_state(ref, entries, actor=ALICE).event["id"])
            except Invalid:  # nothing would change
                continue
        seen.append((ref, event_id, before, stored(ref)))
    return seen


def only_what_is_so(told: State, truth: State) -> None:
    for name in told.keys() | truth.keys():
        value, so = told.get(name, ABSENT), truth.get(name, ABSENT)
        assert value is UNKNOWN or value is so or equal(value, so), (name, value, so)


@given(steps=_steps, began=_deltas, merged=st.sampled_from([0, 99]))
def test_what_is_told_is_so_or_unknown(
    new_database: Callable[[str], str], open_source: Callable[[str, str], str], steps: Any, began: State, merged: int
) -> None:
    source = open_source(new_database("sqlite"), "sqlite")  # of its own: what is told goes by the evidence of the file
    seen = play(source, steps, began, merged)
    for ref, event_id, before, after in seen:
        only_what_is_so(at(ref, event_id), after)
        only_what_is_so(at(ref, event_id, before=True), before)
        for plan, truth in ((undo.undo, before), (undo.restore, after)):
            try:
                steps_back = plan(ref, event_id, actor=SYSTEM).steps
            except Invalid:
                continue
            only_what_is_so(
                {step.key: step.then for step in steps_back}, {s.key: truth.get(s.key, ABSENT) for s in steps_back}
            )
    for ref in {each[0] for each in seen}:
        assert moments.state_now(ref, actor=SYSTEM).state.merged() == stored(ref)
        assert drifted(ref) == []
        around = {event_id: (before, after) for of, event_id, before, after in seen if of == ref}
        for name in _KEYS:
            for write in key_history.history(ref, name, actor=SYSTEM).rows:
                if write.event_id in around:
                    before, after = around[write.event_id]
                    only_what_is_so({name: write.change.old}, {name: before.get(name, ABSENT)})
                    only_what_is_so({name: write.change.new}, {name: after.get(name, ABSENT)})
    database.forget(source)


@given(steps=_steps, began=_deltas, merged=st.integers(0, 8))
def test_no_repair_is_offered_however_it_was_upgraded(source: str, steps: Any, began: State, merged: int) -> None:
    for ref in {each[0] for each in play(source, steps, began, merged)}:
        assert drifted(ref) == []
        assert moments.state_now(ref, actor=SYSTEM).state.merged() == stored(ref)
