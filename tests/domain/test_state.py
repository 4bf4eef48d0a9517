"""Scopes of state: the laws of splitting, merging, folding and comparing."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.json_values import equal
from sessions_app.domain.state import (
    ABSENT,
    PREFIXES,
    STORED,
    UNKNOWN,
    Scope,
    State,
    apply,
    diff,
    fold,
    full_key,
    scope_of,
    split,
    without_temp,
)
from tests.strategies import keys, states

# Deltas with the keys that they remove: as an edit writes them, null in the delta.
removals = st.lists(keys, max_size=2)
deltas = st.builds(lambda delta, gone: ({**delta, **dict.fromkeys(gone)}, gone), states, removals)


@given(keys)
def test_scope_and_bare_key_make_the_full_key_again(key: str) -> None:
    assert full_key(*scope_of(key)) == key


@pytest.mark.parametrize(
    ("key", "scope", "bare"),
    [
        ("x", "session", "x"),
        ("app:x", "app", "x"),
        ("user:x", "user", "x"),
        ("temp:x", "temp", "x"),
        ("app:user:x", "app", "user:x"),
        ("user:temp:x", "user", "temp:x"),
        ("app:", "app", ""),
        ("app", "session", "app"),
        ("APP:x", "session", "APP:x"),
        (" app:x", "session", " app:x"),
        ("", "session", ""),
    ],
)
def test_only_a_leading_prefix_names_a_scope_and_only_the_first_one(key: str, scope: Scope, bare: str) -> None:
    assert scope_of(key) == (scope, bare)


@given(states)
def test_splitting_loses_nothing_and_invents_nothing(delta: State) -> None:
    scoped = split(delta)
    joined = {full_key(scope, bare): value for scope in PREFIXES for bare, value in scoped.scope(scope).items()}
    assert joined == delta


@given(states)
def test_merging_what_was_split_gives_all_but_temp_keys(delta: State) -> None:
    assert split(delta).merged() == without_temp(delta)
    assert not any(key.startswith("temp:") for key in without_temp(delta))


def test_merged_state_is_in_adks_order() -> None:
    assert list(split({"user:b": 1, "app:b": 2, "b": 3, "temp:b": 4}).merged()) == ["b", "app:b", "user:b"]


@given(states, keys)
def test_a_key_is_found_in_its_scope_or_absent(delta: State, key: str) -> None:
    assert split(delta).get(key) is delta.get(key, ABSENT)


@given(states, states, removals)
def test_a_delta_replaces_whole_keys_and_only_named_keys_leave(state: State, delta: State, removed: list[str]) -> None:
    before = dict(state)
    after = apply(state, delta, removed)
    assert state == before
    for key in {*state, *delta, *removed}:
        if key in removed:
            assert key not in after
        else:
            assert after[key] is (delta[key] if key in delta else state[key])


@given(states, st.lists(deltas, max_size=5))
def test_folding_is_applying_one_after_the_other(initial: State, series: list[tuple[State, list[str]]]) -> None:
    state = without_temp(initial)
    for delta, removed in series:
        state = apply(state, without_temp(delta), removed)
    assert fold(initial, series) == state
    assert fold(fold(initial, series[:2]), series[2:]) == state


@given(states, st.lists(deltas, max_size=5))
def test_folding_each_scope_apart_gives_the_same_as_folding_all(
    initial: State, series: list[tuple[State, list[str]]]
) -> None:
    folded = split(fold(initial, series))
    for scope in STORED:
        apart: Iterable[tuple[State, list[str]]] = [
            (split(delta).scope(scope), [bare for s, bare in map(scope_of, removed) if s == scope])
            for delta, removed in series
        ]
        state = dict(split(initial).scope(scope))
        for delta, removed in apart:
            state = apply(state, delta, removed)
        assert folded.scope(scope) == state


def test_null_stays_a_removed_key_leaves_and_may_come_back() -> None:
    assert fold({"a": 1, "b": 1}, [({"a": None, "b": None}, ["b"])]) == {"a": None}
    assert fold({"b": 1}, [({"b": None}, ["b"]), ({"b": 2}, [])]) == {"b": 2}


def test_nested_objects_are_replaced_not_merged() -> None:
    assert fold({"a": {"x": 1, "y": 2}}, [({"a": {"x": 3}}, [])]) == {"a": {"x": 3}}


@given(states)
def test_a_state_does_not_differ_from_itself(state: State) -> None:
    assert diff(state, dict(state)) == []


@given(states, states)
def test_a_difference_applied_to_the_old_state_gives_the_new_one(old: State, new: State) -> None:
    changes = diff(old, new)
    assert [change.key for change in changes] == sorted(change.key for change in changes)
    result = dict(old)
    for change in changes:
        assert change.old is old.get(change.key, ABSENT)
        assert change.scope == scope_of(change.key)[0]
        if change.new is ABSENT:
            del result[change.key]
        else:
            result[change.key] = change.new
    assert equal(result, new)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [({"a": 1}, {"a": 1.0}, False), ({"a": 1}, {"a": True}, True), ({}, {"a": None}, True), ({"a": None}, {}, True)],
)
def test_what_counts_as_a_change(old: State, new: State, changed: bool) -> None:
    assert bool(diff(old, new)) is changed


@pytest.mark.parametrize("sentinel", [ABSENT, UNKNOWN])
def test_absent_and_unknown_are_not_values(sentinel: Any) -> None:
    assert not sentinel
    assert sentinel is not None
    assert not equal(sentinel, None)
    assert repr(sentinel) in ("ABSENT", "UNKNOWN")
