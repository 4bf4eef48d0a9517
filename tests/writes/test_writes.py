"""Appending, creating and deleting: ADK's contract and what adkweb promises beyond it, in every format."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import LazySettings
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AlreadyExists, Conflict, Invalid, NotAllowed, NotFound, StaleSession
from sessions_app.domain.event import Event, check_event
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State, without_temp
from sessions_app.reads import timeline, views, whole_session
from sessions_app.writes.append import Appended, append_event
from sessions_app.writes.incomplete import MARK
from sessions_app.writes.sessions import create_session, delete_session
from tests.strategies import TEXTS, events, floats, nested, states
from tests.support.people import ALICE
from tests.support.stored import (
    assert_state_is_what_events_say,
    counts,
    events_of,
    everything,
    execute,
    in_threads,
    query,
    state_of,
)


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session with a key in every scope."""
    return create_session(source, "app", "user", actor=ALICE, state={"a": 1, "user:b": 2, "app:c": 3})


def delta(changes: Mapping[str, Any], removed: list[str] | None = None, **fields: Any) -> Event:
    """An event that changes state; with `removed`, as an edit."""
    event: Event = {"author": "x", "actions": {"state_delta": dict(changes)}, **fields}
    if removed:
        event["custom_metadata"] = {"adkweb": {"actor": "alice", "removed": removed}}
    return check_event(event)


def append(ref: SessionRef, event: Mapping[str, Any], **options: Any) -> Appended:
    return append_event(ref, event, actor=ALICE, origin="person", **options)


# --- State ------------------------------------------------------------------------------------------------------------


def test_an_append_changes_every_scope_that_its_delta_names(source: str, actor: Actor) -> None:
    ref = create_session(source, "app", "user", actor=actor, state={"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4})
    delta = {"a": 10, "user:b": None, "app:c": [1], "temp:d": 5}
    append_event(ref, {"author": "x", "actions": {"state_delta": delta}}, actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == {"a": 10, "user:b": None, "app:c": [1]}


def test_scopes_are_shared_as_far_as_their_names_say(source: str) -> None:
    mine, other_session, other_user, other_app = (
        create_session(source, app, user, actor=ALICE)
        for app, user in (("app", "user"), ("app", "user"), ("app", "user2"), ("app2", "user"))
    )
    append(mine, delta({"s": 1, "user:u": 2, "app:a": 3}))
    assert views.session(mine, actor=SYSTEM).state.merged() == {"s": 1, "app:a": 3, "user:u": 2}
    assert views.session(other_session, actor=SYSTEM).state.merged() == {"app:a": 3, "user:u": 2}
    assert views.session(other_user, actor=SYSTEM).state.merged() == {"app:a": 3}
    assert views.session(other_app, actor=SYSTEM).state.merged() == {}


def test_a_value_replaces_its_whole_key_and_null_is_stored(ref: SessionRef) -> None:
    append(ref, delta({"a": {"x": 1, "y": 2}, "user:b": {"x": 1}, "app:c": {"x": 1}}))
    append(ref, delta({"a": {"x": None}, "user:b": {}, "app:c": None}))
    assert state_of(ref) == {"session": {"a": {"x": None}}, "user": {"b": {}}, "app": {"c": None}}


def test_a_removal_leaves_the_stored_state_of_its_scope_and_stands_as_null_in_the_event(ref: SessionRef) -> None:
    append(ref, delta({"keep": 0, "user:keep": 0, "app:keep": 0}))
    names = ["a", "user:b", "app:c"]
    appended = append(ref, delta({**dict.fromkeys(names), "set": 1}, removed=names))
    assert state_of(ref) == {"session": {"keep": 0, "set": 1}, "user": {"keep": 0}, "app": {"keep": 0}}
    assert appended.event["actions"]["state_delta"] == {"a": None, "user:b": None, "app:c": None, "set": 1}
    append(ref, delta(dict.fromkeys(["a", "never there"]), removed=["a", "never there"]))
    append(ref, delta({"a": None}))
    assert state_of(ref)["session"] == {"keep": 0, "set": 1, "a": None}


def test_a_removal_of_one_key_does_not_touch_another_scopes_key_of_the_same_name(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE, state={"k": 1, "user:k": 2, "app:k": 3})
    append(ref, delta({"user:k": None}, removed=["user:k"]))
    assert views.session(ref, actor=SYSTEM).state.merged() == {"k": 1, "app:k": 3}


def test_the_first_delta_of_a_scope_may_be_a_removal(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE)
    execute(source, "DELETE FROM user_states")  # SqliteSessionService makes these rows only when it needs them
    execute(source, "DELETE FROM app_states")
    append(ref, delta({"user:a": None, "app:b": None, "app:c": 1}, removed=["user:a", "app:b"]))
    assert state_of(ref) == {"session": {}, "user": {}, "app": {"c": 1}}


def test_an_append_without_a_delta_leaves_all_state_as_it_is(ref: SessionRef) -> None:
    before = state_of(ref)
    append(ref, {"author": "x", "content": {"parts": [{"text": "hello"}]}})
    append(ref, delta({}))
    append(ref, delta({"temp:a": 1}))
    assert state_of(ref) == before


@pytest.mark.guarantee(
    "Writing", "Values, including floats, large integers and any text, don't change when they are stored and read back."
)
@given(initial=states, series=st.lists(events, max_size=4))
def test_whatever_is_appended_reads_back_equal_and_state_is_its_fold(
    source: str, initial: State, series: list[Event]
) -> None:
    ref = create_session(source, "folded", "user", actor=ALICE, state=initial)
    merged = views.session(ref, actor=SYSTEM).state.merged()  # app and user state of the examples before, too
    appended = [append(ref, event) for event in {event.get("id", n): event for n, event in enumerate(series)}.values()]
    for done in appended:
        merged |= done.event["actions"]["state_delta"]
        assert equal(timeline.event(ref, done.event["id"], actor=SYSTEM).data, done.event)
    assert equal(views.session(ref, actor=SYSTEM).state.merged(), merged)
    assert equal(views.session(ref, actor=SYSTEM).initial_state, without_temp(initial))
    delete_session(ref, actor=ALICE)


@given(st.lists(floats, min_size=1, max_size=20))
@example(
    [1e23, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1e16, 1e15, 0.1 + 0.2, 2.2250738585072014e-308]
)
def test_every_float_reads_back_as_the_same_number(source: str, numbers: list[float]) -> None:
    ref = create_session(source, "floats", "user", actor=ALICE, state={"initial": numbers})
    for _ in range(2):  # read, merged and written again
        appended = append(ref, delta({f"k{n}": number for n, number in enumerate(numbers)} | {"user:all": numbers}))
    state = views.session(ref, actor=SYSTEM).state
    assert state.session == {"initial": numbers} | {f"k{n}": number for n, number in enumerate(numbers)}
    assert state.user["all"] == numbers
    assert timeline.event(ref, appended.event["id"], actor=SYSTEM).data["actions"]["state_delta"]["user:all"] == numbers
    assert views.session(ref, actor=SYSTEM).initial_state == {"initial": numbers}
    delete_session(ref, actor=ALICE)


def test_integers_beyond_64_bits_read_back_equal(ref: SessionRef) -> None:
    numbers = [2**53 + 1, 2**63, -(2**64) - 1, 10**100 + 7, -(10**4299)]
    appended = append(ref, delta({"a": numbers, "user:b": numbers[-1], "app:c": {"n": numbers[2]}}))
    append(ref, delta({"another": 1, "user:another": 1, "app:another": 1}))
    state = views.session(ref, actor=SYSTEM).state
    assert (state.get("a"), state.get("user:b"), state.get("app:c")) == (numbers, numbers[-1], {"n": numbers[2]})
    assert timeline.event(ref, appended.event["id"], actor=SYSTEM).data["actions"]["state_delta"]["a"] == numbers


def test_a_nan_that_adk_stored_does_not_stop_edits_of_other_keys(form: str, ref: SessionRef) -> None:
    if form == "postgresql":
        with pytest.raises(Invalid, match="a: NaN"):  # JSONB cannot hold one, so nobody stored one
            append(ref, {"actions": {"state_delta": {"a": float("nan")}}})
        return
    for table in ("sessions", "user_states", "app_states"):
        execute(ref.source, f"""UPDATE {table} SET state = '{{"bad": NaN, "worse": [Infinity, -Infinity], "a": 1}}'""")
    append(ref, delta({"a": 2, "user:a": 2, "app:a": 2}), expected={"a": 1, "user:a": 1, "app:a": 1})
    append(ref, delta({"app:b": 1, "b": 1}))
    stored = query(ref.source, "SELECT state FROM sessions")[0][0]
    assert "NaN" in stored
    state = views.session(ref, actor=SYSTEM).state
    for scope in (state.session, state.user, state.app):
        assert scope["a"] == 2
        assert scope["bad"] != scope["bad"]
        assert scope["worse"] == [float("inf"), -float("inf")]
    append(ref, delta({"bad": 0}), expected={"bad": float("nan")})
    assert views.session(ref, actor=SYSTEM).state.session["bad"] == 0


def test_half_a_character_that_adk_stored_does_not_stop_edits_of_other_keys(form: str, ref: SessionRef) -> None:
    if form == "postgresql":
        return  # JSONB refuses it
    execute(ref.source, """UPDATE sessions SET state = '{"bad": "\\ud83d", "a": 1}'""")
    append(ref, delta({"a": 2}), expected={"a": 1})
    assert views.session(ref, actor=SYSTEM).state.session == {"bad": "\ud83d", "a": 2}


# --- Events -----------------------------------------------------------------------------------------------------------


def test_a_partial_event_is_returned_untouched_and_nothing_is_stored(ref: SessionRef) -> None:
    before = everything(ref.source)
    event = {"partial": True, "branch": None, "actions": {"state_delta": {"temp:a": 1, "a": float("nan")}}}
    appended = append(ref, event)
    assert appended == Appended(event)
    assert append(SessionRef(ref.source, "no", "such", "session"), event).seq is None
    assert everything(ref.source) == before


def test_an_append_returns_the_stored_event_its_place_and_the_new_revision(ref: SessionRef) -> None:
    event = {"id": "e1", "author": "x", "timestamp": time.time(), "x_unknown": {"n": [None]}, "branch": None}
    appended = append(ref, {**event, "actions": {"state_delta": {"temp:a": 1, "a": 2}}})
    assert appended.event["actions"] == {"state_delta": {"a": 2}}
    assert events_of(ref) == [(appended.seq, appended.event)]
    assert appended.event["x_unknown"] == {"n": [None]}
    assert appended.revision == views.session(ref, actor=SYSTEM).revision
    view = timeline.event(ref, "e1", actor=SYSTEM)
    assert (view.seq, view.timestamp, view.data) == (appended.seq, event["timestamp"], appended.event)


def test_places_grow_in_append_order_whatever_the_timestamps(ref: SessionRef) -> None:
    appended = [append(ref, delta({"a": n}, timestamp=1000.0 - n)) for n in range(5)]
    assert [seq for seq, _event in events_of(ref)] == sorted({done.seq for done in appended if done.seq})
    assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == [done.event["id"] for done in appended]


def test_the_same_event_twice_is_stored_once_and_applied_once(ref: SessionRef) -> None:
    event = delta({"a": 2, "user:n": 1, "app:n": 1}, id="e1", x_numbers=[1.0, 10**30, 1e23])
    first = append(ref, event)
    append(ref, delta({"a": 3}))
    before = everything(ref.source)
    again = append(ref, {**event, "branch": None, "actions": {**event["actions"], "artifact_delta": {}}})
    assert equal(again.event, first.event)
    assert (again.seq, again.revision) == (None, None)
    assert everything(ref.source) == before


def test_the_same_event_sent_again_with_what_was_expected_the_first_time_is_no_conflict(ref: SessionRef) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    event = delta({"a": 2, "app:c": None}, ["app:c"], id="e1")
    append(ref, event, expected=revision)
    assert append(ref, event, expected=revision).seq is None
    changes = delta({"a": 5, "user:b": 5})
    append(ref, changes, expected={"a": 2, "user:b": 2})
    assert append(ref, changes, expected={"a": 2, "user:b": 2}).seq is None
    assert len(events_of(ref)) == 2


@pytest.mark.guarantee(
    "Writing", "If an event is sent several times, even at the same moment, it is stored and applied only once."
)
def test_the_same_event_sent_by_many_at_once_is_stored_once(ref: SessionRef) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    event = delta({"a": 2, "user:b": 3, "app:c": 4})
    expectations: list[Any] = [None, revision, {"a": 1, "app:c": 3}, None]
    results = in_threads([lambda e=e: append(ref, event, expected=e) for e in expectations * 3])
    assert [r for r in results if isinstance(r, Exception)] == []
    assert len([r for r in results if isinstance(r, Appended) and r.seq is not None]) == 1
    assert len(events_of(ref)) == 1
    assert state_of(ref) == {"session": {"a": 2}, "user": {"b": 3}, "app": {"c": 4}}


@pytest.mark.guarantee("Writing", "A different event with the same id is a conflict and changes nothing.")
@pytest.mark.parametrize("expected", [None, "revision", {"a": 2}])
def test_another_event_under_a_stored_events_id_is_a_clear_conflict(ref: SessionRef, expected: Any) -> None:
    append(ref, delta({"a": 2}, id="e1"))
    before = everything(ref.source)
    if expected == "revision":
        expected = views.session(ref, actor=SYSTEM).revision
    with pytest.raises(Conflict, match="already has an event with the id e1"):
        append(ref, delta({"a": 3}, id="e1"), expected=expected)
    assert everything(ref.source) == before


def test_two_sessions_may_have_events_of_the_same_id(ref: SessionRef) -> None:
    other = create_session(ref.source, "app", "user", actor=ALICE)
    append(ref, delta({"a": 1}, id="e1"))
    append(other, delta({"a": 2}, id="e1"))
    assert [views.session(k, actor=SYSTEM).state.session["a"] for k in (ref, other)] == [1, 2]


@pytest.mark.parametrize("expected", [None, 1.0, {"a": 1}, {"app:a": ABSENT}])
def test_a_session_that_does_not_exist_is_not_found_and_no_state_is_written(source: str, expected: Any) -> None:
    before = everything(source)
    with pytest.raises(NotFound, match=r"^There's no session “nobody”\.$"):
        append(SessionRef(source, "app", "user", "nobody"), delta({"a": 1, "user:b": 1, "app:c": 1}), expected=expected)
    assert everything(source) == before


# --- What the caller expects ------------------------------------------------------------------------------------------


def test_an_append_on_the_revision_that_was_read_succeeds_again_and_again(ref: SessionRef) -> None:
    revision: float | None = views.session(ref, actor=SYSTEM).revision
    for n in range(5):
        revision = append(ref, delta({"a": n}), expected=revision).revision
    assert views.session(ref, actor=SYSTEM).revision == revision


def test_an_append_on_an_old_revision_is_stale_and_writes_nothing(ref: SessionRef) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    append(ref, delta({"a": 2}))
    before = everything(ref.source)
    for old in (revision, 0.0, revision + 3600):
        with pytest.raises(StaleSession, match=r"^The session has been modified in storage since it was loaded\.$"):
            append(ref, delta({"a": 3, "user:b": 3, "app:c": 3}), expected=old)
    assert everything(ref.source) == before


@pytest.mark.parametrize(
    ("expected", "current"),
    [
        ({"a": 0}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a": None}, {"a": 1}),
        ({"a": ABSENT}, {"a": 1}),
        ({"none": None}, {"none": ABSENT}),
        ({"none": 1}, {"none": ABSENT}),
        ({"user:b": 1}, {"user:b": 2}),
        ({"user:none": 1}, {"user:none": ABSENT}),
        ({"app:c": ABSENT}, {"app:c": 3}),
        ({"app:none": None}, {"app:none": ABSENT}),
        ({"a": 1, "user:b": 2, "app:c": 4}, {"a": 1, "user:b": 2, "app:c": 3}),
    ],
)
def test_a_value_that_is_another_by_now_is_a_conflict_that_tells_it_and_writes_nothing(
    ref: SessionRef, expected: dict[str, Any], current: dict[str, Any]
) -> None:
    before = everything(ref.source)
    with pytest.raises(Conflict) as caught:
        append(ref, delta({"a": 5, "user:b": 5, "app:c": 5}), expected=expected)
    assert caught.value.detail == {"current": current, "changed": [*expected][-1:]}  # the others are as expected
    assert everything(ref.source) == before


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"a": 1},
        {"a": 1.0},
        {"a": 1, "user:b": 2, "app:c": 3},
        {"none": ABSENT, "user:none": ABSENT, "app:none": ABSENT},
        {"app:c": 3},
    ],
)
def test_values_that_are_still_as_expected_let_the_append_through(ref: SessionRef, expected: dict[str, Any]) -> None:
    append(ref, delta({"a": 5, "user:b": 5, "app:c": 5}), expected=expected)
    assert views.session(ref, actor=SYSTEM).state.merged() == {"a": 5, "user:b": 5, "app:c": 5}


def test_null_and_absent_are_different_expectations(ref: SessionRef) -> None:
    append(ref, delta({"a": None, "user:b": None}, removed=["user:b"]))
    append(ref, delta({"x": 1}), expected={"a": None, "user:b": ABSENT})
    with pytest.raises(Conflict):
        append(ref, delta({"x": 2}), expected={"a": ABSENT})
    with pytest.raises(Conflict):
        append(ref, delta({"x": 2}), expected={"user:b": None})


def test_expectations_of_a_user_and_an_app_without_rows_can_be_met(ref: SessionRef) -> None:
    execute(ref.source, "DELETE FROM user_states")
    execute(ref.source, "DELETE FROM app_states")
    append(ref, delta({"user:x": 1, "app:x": 1}), expected={"user:x": ABSENT, "app:x": ABSENT})
    assert state_of(ref) == {"session": {"a": 1}, "user": {"x": 1}, "app": {"x": 1}}


# --- Revisions --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 2**32 - 1) | st.sampled_from([0.0, 1e9, 1e9 + 1e-6, 2.0**32 - 1]), min_size=1, max_size=6))
@example([2e9, 2e9, 2e9, 1.0, 2e9, 2e9 + 1e-7])
@example([2.0**32 - 1] * 4)
def test_every_append_advances_the_revision_whatever_its_timestamp(source: str, timestamps: list[float]) -> None:
    ref = create_session(source, "app", "times", actor=ALICE)
    revision = views.session(ref, actor=SYSTEM).revision
    for timestamp in timestamps:
        appended = append(ref, {"timestamp": timestamp}, expected=revision)
        assert appended.revision is not None
        assert appended.revision > revision
        assert appended.revision == pytest.approx(max(timestamp, revision), abs=1e-5, rel=1e-15)
        revision = views.session(ref, actor=SYSTEM).revision
        assert revision == appended.revision
        assert timeline.event(ref, appended.event["id"], actor=SYSTEM).timestamp == timestamp
    delete_session(ref, actor=ALICE)


# --- Creating ---------------------------------------------------------------------------------------------------------


def test_initial_state_is_split_by_scope_and_kept_as_given_without_temp_keys(source: str) -> None:
    state = {"a": {"b": [1, 1e23]}, "user:b": None, "app:c": "x", "temp:d": 1, "app:user:e": 2, "": 0, "app:": 1}
    ref = create_session(source, "app", "user", actor=ALICE, state=state)
    del state["temp:d"]
    assert state_of(ref) == {
        "session": {"a": {"b": [1, 1e23]}, "": 0},
        "user": {"b": None},
        "app": {"c": "x", "user:e": 2, "": 1},
    }
    append(ref, delta({"a": 1}))
    assert views.session(ref, actor=SYSTEM).initial_state == state
    assert events_of(ref)[0][1]["actions"]["state_delta"] == {"a": 1}  # initial state is not an event


def test_a_created_session_has_the_rows_that_adks_own_service_needs(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE)
    assert counts(source) == {"app_states": 1, "user_states": 1, "sessions": 1, "events": 0}
    assert state_of(ref) == {"session": {}, "user": {}, "app": {}}
    assert abs(views.session(ref, actor=SYSTEM).revision - time.time()) < 10


def test_a_created_session_does_not_disturb_the_state_of_its_user_and_app(ref: SessionRef) -> None:
    create_session(ref.source, "app", "user", actor=ALICE, state={"user:x": 1})
    assert state_of(ref) == {"session": {"a": 1}, "user": {"b": 2, "x": 1}, "app": {"c": 3}}


@pytest.mark.parametrize("given_id", [None, "", "  \n"])
def test_a_session_without_an_id_gets_a_fresh_one(source: str, given_id: str | None) -> None:
    first, second = (create_session(source, "a", "u", actor=ALICE, session_id=given_id) for _ in range(2))
    assert len({first.session_id, second.session_id}) == 2
    assert len(first.session_id) == 36


def test_blanks_around_a_new_sessions_id_are_stripped(source: str) -> None:
    ref = create_session(source, "a", "u", actor=ALICE, session_id=" s 1\n")
    assert ref.session_id == "s 1"
    assert views.session(ref, actor=SYSTEM).ref == ref


def test_a_second_session_of_the_same_id_is_refused_and_changes_nothing(source: str) -> None:
    ref = create_session(source, "a", "u", actor=ALICE, session_id="s", state={"x": 1, "app:x": 1})
    append(ref, delta({"x": 2}))
    before = everything(source)
    with pytest.raises(AlreadyExists, match=r"^There's already a session “s”\.$"):
        create_session(source, "a", "u", actor=ALICE, session_id=" s ", state={"x": 3, "app:x": 3, "user:x": 3})
    assert everything(source) == before
    for app, user in (("a", "u2"), ("a2", "u")):
        create_session(source, app, user, actor=ALICE, session_id="s")


# --- Deleting ---------------------------------------------------------------------------------------------------------


def test_deleting_takes_the_events_along_and_leaves_user_and_app_state(ref: SessionRef) -> None:
    other = create_session(ref.source, "app", "user", actor=ALICE, state={"x": 1})
    for session in (ref, other):
        append(session, delta({"user:b": 5, "app:c": 6}))
    delete_session(ref, actor=ALICE)
    assert counts(ref.source) == {"app_states": 1, "user_states": 1, "sessions": 1, "events": 1}
    assert views.session(other, actor=SYSTEM).state.merged() == {"x": 1, "user:b": 5, "app:c": 6}
    for again in (
        lambda: views.session(ref, actor=SYSTEM),
        lambda: append(ref, delta({"app:c": 7})),
        lambda: delete_session(ref, actor=ALICE),
    ):
        with pytest.raises(NotFound):
            again()
    assert views.session(other, actor=SYSTEM).state.app == {"c": 6}


def test_a_session_made_anew_under_a_deleted_ones_id_starts_anew(ref: SessionRef) -> None:
    append(ref, delta({"a": 2, "user:b": 3}, id="e1"))
    delete_session(ref, actor=ALICE)
    again = create_session(*ref[:3], session_id=ref.session_id, actor=ALICE, state={"z": 1})
    assert again == ref
    assert timeline.events(ref, actor=SYSTEM).rows == []
    assert views.session(ref, actor=SYSTEM).initial_state == {"z": 1}
    assert views.session(ref, actor=SYSTEM).state.merged() == {"z": 1, "user:b": 3, "app:c": 3}
    assert append(ref, delta({"a": 9}, id="e1")).seq is not None


# --- Who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("Writing", "With `--read-only` or a read-only source URL, adkweb doesn't write anything.")
def test_read_only_refuses_every_write_and_leaves_everything_as_it_is(ref: SessionRef, settings: LazySettings) -> None:
    before = everything(ref.source)
    settings.READ_ONLY = True
    for write in (
        lambda: append(ref, delta({"a": 2})),
        lambda: append(ref, delta({"a": 2}), expected={"a": 1}),
        lambda: create_session(ref.source, "app", "user", actor=ALICE),
        lambda: delete_session(ref, actor=ALICE),
    ):
        with pytest.raises(NotAllowed, match="--read-only"):
            write()
    assert everything(ref.source) == before


# --- Bad and hostile input --------------------------------------------------------------------------------------------

LONGEST = ("x" * 128, "👩" * 128, "/" * 128, "‏ש" * 64)


def test_names_of_any_characters_are_kept_as_they_are(source: str, subtests: pytest.Subtests) -> None:
    for name in (*TEXTS, *LONGEST):
        with subtests.test(repr(name)):
            session_id = name.strip() or "s"
            ref = create_session(source, name, name, actor=ALICE, session_id=session_id, state={"app:a": 1})
            assert ref == (source, name, name, session_id)
            event_id = append(
                ref, delta({name: name, f"user:{name}": 1}, id=name, invocation_id=name, author=name)
            ).event["id"]
            assert event_id == name or (not name and event_id)
            view = timeline.event(ref, event_id, actor=SYSTEM)
            assert (view.id, view.invocation_id, view.data["author"]) == (event_id, name, name)
            state = views.session(ref, actor=SYSTEM).state
            assert (state.session, state.user, state.app) == ({name: name}, {name: 1}, {"a": 1})
            delete_session(ref, actor=ALICE)
            assert counts(source)["sessions"] == 0


@pytest.mark.parametrize("name", ["", "k" * 10_000, "𝕬" * 10_000])
def test_a_key_may_be_empty_or_very_long(ref: SessionRef, name: str) -> None:
    for full in (name, f"user:{name}", f"app:{name}"):
        append(ref, delta({full: {"n": 1}}), expected={full: ABSENT})
        append(ref, delta({full: None}), expected={full: {"n": 1}})
        assert views.session(ref, actor=SYSTEM).state.get(full) is None
        append(ref, delta({full: None}, removed=[full]), expected={full: None})
        assert views.session(ref, actor=SYSTEM).state.get(full) is ABSENT
    assert views.session(ref, actor=SYSTEM).state.merged() == {"a": 1, "user:b": 2, "app:c": 3}


def test_an_event_of_five_megabytes_is_stored_and_read(ref: SessionRef) -> None:
    text = "0123456789 שלום 👩‍👩‍👧‍👦\n" + "five megabytes " * 350_000
    append(ref, {"id": "big", "content": {"parts": [{"text": text}]}})
    assert timeline.event(ref, "big", actor=SYSTEM).description.text == text
    delta = {"a": text, "app:c": text}
    append(ref, {"id": "larger", "actions": {"state_delta": delta}})  # than what is shown
    assert views.session(ref, actor=SYSTEM).state.merged() == {"a": text, "user:b": 2, "app:c": text}
    stored = whole_session.load(ref, newest=1, actor=SYSTEM)
    assert stored
    assert json.loads(stored.events[0].text)["actions"]["state_delta"] == delta


BAD_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"id": "x" * 129}, "id has 129 characters"),
    ({"invocation_id": "👩" * 257}, "invocation_id has 257 characters"),
    ({"id": "a\0b"}, "id: the character U+0000"),
    ({"author": "\ud800"}, "author: half a surrogate pair"),
    ({"x_unknown": [float("nan")]}, "x_unknown[0]: NaN"),
    ({"actions": {"adkweb": 1}}, "actions: ADK doesn't recognise"),
    (
        {"actions": {"state_delta": {"good": 1, "user:bad": {"x": "\0"}}}},
        "actions.state_delta.user:bad.x: the character",
    ),
    ({"actions": {"state_delta": {"good": 1, "temp:bad": float("inf")}}}, "actions.state_delta.temp:bad: NaN"),
    ({"actions": {"state_delta": {"a\0": 1}}}, "actions.state_delta: the character U+0000"),
    ({"actions": {"state_delta": {"app:a\udc00": 1}}}, "actions.state_delta: half a surrogate"),
    ({"actions": {"state_delta": {"a": nested(200)}}}, "nested deeper"),
    ({"actions": {"state_delta": {"a": 10**5000}}}, "actions.state_delta.a: an integer"),
    ({"actions": {"state_delta": {5: 1}}}, "actions.state_delta: a key must be a string"),
    ({"actions": {"state_delta": {"good": 1, MARK: True}}}, "The key adkweb:importing is reserved for adkweb"),
    ({"custom_metadata": {"adkweb_run": "5" * 32}}, "adkweb started no such run in this session"),
    ({"custom_metadata": {"adkweb_run": {"a": 1}}}, "adkweb started no such run in this session"),
]


@pytest.mark.parametrize(("event", "sentence"), BAD_EVENTS)
def test_a_bad_event_is_refused_with_its_place_and_nothing_is_half_written(
    ref: SessionRef, event: dict[str, Any], sentence: str
) -> None:
    before = everything(ref.source)
    for expected in (None, {"a": 1}):
        with pytest.raises(Invalid) as caught:
            append(ref, {"author": "x", **event}, expected=expected)
        assert sentence in caught.value.message
    assert everything(ref.source) == before


BAD_NAMES = ["x" * 129, "👩" * 129, "a\0", "\ud800"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("what", ["app_name", "user_id", "session_id"])
def test_a_session_under_a_bad_name_is_refused_and_nothing_is_half_written(source: str, what: str, name: str) -> None:
    names = {"app_name": "app", "user_id": "user", "session_id": "session", what: name}
    with pytest.raises(Invalid):
        create_session(source, **names, actor=ALICE, state={"app:a": 1})
    assert set(counts(source).values()) == {0}


@pytest.mark.parametrize(
    "state",
    [{"a": float("nan")}, {"app:a": "\0"}, {"\0": 1}, {"temp:x": "\ud800"}, {"user:x": nested(200)}, {MARK: 1}],
)
def test_a_session_with_bad_initial_state_is_refused_and_nothing_is_half_written(source: str, state: State) -> None:
    with pytest.raises(Invalid):
        create_session(source, "app", "user", actor=ALICE, state={"app:good": 1, **state})
    assert set(counts(source).values()) == {0}


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_session_under_a_name_that_cannot_exist_is_not_found(ref: SessionRef, place: int, name: str) -> None:
    before = everything(ref.source)
    wrong = SessionRef(*(name if n == place else part for n, part in enumerate(ref)))
    for expected in (None, 1.0, {"a": 1}):
        with pytest.raises(NotFound):
            append(wrong, delta({"a": 1, "app:c": 2}), expected=expected)
    with pytest.raises(NotFound):
        delete_session(wrong, actor=ALICE)
    assert everything(ref.source) == before


# PostgreSQL itself refuses to store these, or merges without reading them here.
@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000 + "]" * 100_000, "x"], ids=["long", "deep", "no JSON"])
@pytest.mark.parametrize(("table", "name"), [("sessions", "a"), ("user_states", "user:b"), ("app_states", "app:c")])
def test_state_that_cannot_be_read_is_not_written_over(ref: SessionRef, value: str, table: str, name: str) -> None:
    execute(ref.source, f"""UPDATE {table} SET state = '{{"x": {value}}}'""")
    before = everything(ref.source)
    with pytest.raises(Invalid, match="nothing was written"):
        append(ref, delta({name: 2}))
    assert everything(ref.source) == before


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_a_session_whose_state_cannot_be_read_can_be_deleted(ref: SessionRef) -> None:
    execute(ref.source, "UPDATE sessions SET state = 'x'")
    delete_session(ref, actor=ALICE)
    assert counts(ref.source)["sessions"] == 0


def test_state_is_what_the_events_say_after_all_of_this(ref: SessionRef) -> None:
    for n in range(5):
        append(ref, delta({"a": n, f"user:{n}": n, "app:c": n}))
        append(ref, delta({f"user:{n}": None, "a": None}, removed=[f"user:{n}"]))
    assert_state_is_what_events_say(ref.source, {ref: {"a": 1, "user:b": 2, "app:c": 3}})
