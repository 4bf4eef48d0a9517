"""A fork: a session up to one of its events, under another name; its events say what is stored, and nothing shared moves."""

from __future__ import annotations

import itertools
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AlreadyExists, Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State
from sessions_app.edits import edit, fork_jobs, fork_tree, queue, rewind, undo
from sessions_app.edits import edit as edits
from sessions_app.edits import fork as forks
from sessions_app.edits.edit import Entry
from sessions_app.history import drift, edit_log, key_history, moments
from sessions_app.history.index import build
from sessions_app.reads import timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.incomplete import IMPORTING
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.booking import APP, START
from tests.support.bulk import fill
from tests.support.people import BOB, CHARLIE
from tests.support.stored import (
    assert_state_is_what_events_say,
    events_of,
    everything,
    execute,
    overwrite_event,
    query,
    state_of,
)
from tests.transfer.files import exported, imported

pytestmark = pytest.mark.django_db

_numbers = itertools.count()


def fork(ref: SessionRef, event_id: str, actor: Actor, session_id: str = "fork", user_id: str = "ana") -> SessionRef:
    return forks.fork(ref, event_id, user_id=user_id, session_id=session_id, actor=actor, reason="what if")


def own(ref: SessionRef) -> State:
    return state_of(ref)["session"]


# --- What a fork is ---------------------------------------------------------------------------------------------------


def test_a_fork_has_the_events_up_to_one_and_the_state_of_that_moment(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    first, second, _third = add(ref, step="pay"), add(ref, new=1, draft=None), add(ref, step="done", late=1)
    before = (events_of(ref), state_of(ref))
    into = fork(ref, second, actor)
    assert into == ref._replace(session_id="fork")
    assert own(into) == {"step": "pay", "draft": None, "new": 1}
    copied = [event for _seq, event in events_of(into)][:-1]
    assert [event["id"] for event in copied] == [first, second]
    for event, (seq, original) in zip(copied, events_of(ref), strict=False):
        metadata = event.pop("custom_metadata")
        assert event == original
        assert metadata == {"adkweb_origin": {"user": "ana", "session": "s1", "event": event["id"], "seq": seq}}
    assert (events_of(ref), state_of(ref)) == before
    assert_state_is_what_events_say(ref.source, {ref: START, into: {"step": "search", "draft": {"a": [1]}}})


def test_the_last_event_of_a_fork_says_where_it_comes_from_as_an_edit(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    begun = time.time()
    into = fork(ref, event_id, actor)
    note = events_of(into)[-1][1]
    assert (note["author"], note["invocation_id"]) == ("system", f"edit-{note['id']}")
    assert note["custom_metadata"]["adkweb"] == {
        "forked": {"user": "ana", "session": "s1", "event": event_id, "seq": events_of(ref)[0][0]},
        "actor": actor.name,
        "reason": "what if",
        "replaced": {},
        "removed": [],
    }
    found = fork_tree.origin(into, actor=SYSTEM)
    assert found
    assert (found.ref, found.origin, found.event_id, found.actor) == (into, ref, event_id, actor.name)
    assert found.reason == "what if"
    assert begun <= found.created <= time.time()
    assert [view.id for view in edit_log.edits(actor=SYSTEM)[0].rows] == [note["id"]]


def test_a_fork_at_the_first_event_of_many_and_at_the_last(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    ids = [add(ref, n=number) for number in range(5)]
    first, last = fork(ref, ids[0], actor, "first"), fork(ref, ids[-1], actor, "last")
    assert (own(first)["n"], len(events_of(first))) == (0, 2)
    assert (own(last), len(events_of(last))) == (own(ref), 6)


def test_shared_state_is_not_written_again(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay", user__tier="silver", app__limit=4, user__gone=None)
    add(ref, user__tier="black", app__limit=5)
    shared = {scope: state for scope, state in state_of(ref).items() if scope != "session"}
    into = fork(ref, event_id, actor)
    other = fork(ref, event_id, actor, user_id="ben")
    assert {scope: state for scope, state in state_of(into).items() if scope != "session"} == shared
    assert state_of(other)["user"] == {}
    copied = events_of(into)[0][1]
    assert copied["actions"]["state_delta"] == {"step": "pay"}
    assert copied["custom_metadata"]["adkweb_origin"]["delta"] == {
        "user:tier": "silver",
        "app:limit": 4,
        "user:gone": None,
    }
    started = {"step": "search", "draft": {"a": [1]}}
    assert_state_is_what_events_say(ref.source, {ref: START, into: started, other: started})


def test_a_fork_for_somebody_else_has_no_value_of_the_users_keys(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    add(ref, user__tier="platinum secret", app__limit=5, step="pay")
    edit = edits.edit_state(ref, [Entry("user:tier", "other secret", "platinum secret")], actor=actor).event["id"]
    mine = fork(ref, edit, actor, "mine")
    again = fork(mine, edit, actor, "hers", "ben")
    theirs = fork(ref, edit, actor, "theirs", "ben")
    assert "platinum secret" in json.dumps([event for _seq, event in events_of(mine)])
    for copy in (theirs, again):
        told = [event for _seq, event in events_of(copy)]
        assert "secret" not in json.dumps(told)
        assert told[0]["custom_metadata"]["adkweb_origin"]["delta"] == {"app:limit": 5}
        assert own(copy) == {"step": "pay", "draft": {"a": [1]}}


def test_a_fork_of_a_session_that_drifted_begins_with_what_its_events_say(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    add(ref, n=1, step="pay")
    at = add(ref, m=1)
    text = json.dumps({**own(ref), "n": 5, "new": 7})
    execute(ref.source, f"UPDATE sessions SET state = '{text}'")
    copy = fork(ref, at, actor)
    assert own(copy) == {"step": "pay", "draft": {"a": [1]}, "n": 1, "m": 1}
    assert drift.own(copy, actor=SYSTEM).drifted == []


def test_history_and_moments_of_shared_keys_know_no_fork(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, user__tier="silver", app__new=1)
    fork(ref, event_id, actor)
    later = add(ref, user__tier="black")
    assert [write.change.new for write in key_history.history(ref, "user:tier", actor=SYSTEM).rows] == [
        "black",
        "silver",
        "gold",
    ]
    before = moments.state_at(ref, later, before=True, actor=SYSTEM)
    assert (before.state.get("user:tier"), before.writers["user:tier"].event_id) == ("silver", event_id)
    assert moments.state_at(ref, event_id, before=True, actor=SYSTEM).state.get("app:new") is ABSENT  # still known


def test_a_fork_of_a_fork_keeps_where_events_were_first_written(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    first = add(ref, step="pay", user__tier="silver")
    one = fork(ref, first, actor, "one")
    second = add(one, step="done")
    two = fork(one, second, actor, "two")
    copied = {event["id"]: event for _seq, event in events_of(two)}
    assert copied[first]["custom_metadata"]["adkweb_origin"]["session"] == "s1"
    assert copied[first]["custom_metadata"]["adkweb_origin"]["delta"] == {"user:tier": "silver"}
    assert copied[second]["custom_metadata"]["adkweb_origin"]["session"] == "one"
    assert own(two) == own(one)
    # Of its origin's note it has no copy: that one is not about it.
    assert [event["id"] for _seq, event in events_of(two)][:-1] == [first, second]
    assert events_of(two)[-1][1]["custom_metadata"]["adkweb"]["forked"]["session"] == "one"


def test_a_fork_can_have_the_name_that_an_ancestor_of_its_origin_had(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    for _round in range(3):
        one = fork(ref, event_id, actor, "one")
        two = fork(one, add(one, step="more"), actor, "two")
        delete_session(one, actor=actor)
        again = fork(two, events_of(two)[-1][1]["id"], actor, "one")
        assert own(again) == own(two)
        assert fork_tree.origin(again, actor=SYSTEM) == fork_tree.forks_of(two, actor=SYSTEM)[0]
        delete_session(two, actor=actor)
        delete_session(again, actor=actor)


def test_a_copy_of_a_note_does_not_stand_in_a_forks_way(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    one = fork(ref, add(ref, step="pay"), actor, "one")
    (note,) = [event for _seq, event in events_of(one)][-1:]
    delete_session(one, actor=actor)
    two = fork(ref, add(ref, step="done"), actor, "two")
    copied = {**note, "custom_metadata": {**note["custom_metadata"], "adkweb_origin": {"session": "one"}}}
    append_event(two, {"id": note["id"], "author": "agent"}, actor=actor)
    overwrite_event(two, copied)
    last = add(two, step="more")
    again = fork(two, last, actor, "one")
    assert [event["id"] for _seq, event in events_of(again)].count(note["id"]) == 1
    assert fork_tree.origin(again, actor=SYSTEM) == fork_tree.forks_of(two, actor=SYSTEM)[0]


def test_an_event_under_a_forks_own_id_refuses_it_before_anything_is_made(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    one = fork(ref, add(ref, step="pay"), actor, "one")
    note_id = events_of(one)[-1][1]["id"]
    delete_session(one, actor=actor)
    append_event(ref, {"id": note_id, "actions": {"state_delta": {"step": "mine"}}}, actor=actor)
    before = everything(ref.source)
    with pytest.raises(Conflict, match="one: an event already has this id"):
        fork(ref, note_id, actor, "one")
    assert everything(ref.source) == before
    assert own(fork(ref, note_id, actor, "other")) == own(ref)


def test_a_fork_is_edited_undone_rewound_and_goes_on(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay")
    into = fork(ref, event_id, actor)
    add(into, step="done")
    edits.edit_state(into, [Entry("step", "edited", "done")], actor=actor)
    (step,) = undo.undo(into, event_id, actor=SYSTEM).steps
    assert (step.then, step.wrote, step.now, step.contested) == ("search", "pay", "edited", True)
    rewind.rewind(into, "i1", actor=actor)
    assert own(into) == {"step": "search", "draft": {"a": [1]}}
    assert own(ref) == {"step": "pay", "draft": {"a": [1]}}


def test_no_agent_runs_in_a_fork_before_it_goes_on_there(ref: SessionRef, actor: Actor, settings: Settings) -> None:
    settings.SILENCE_SECONDS = 600
    said = {"content": {"parts": [{"text": "hello"}]}}
    call = {"content": {"parts": [{"function_call": {"id": "c", "name": "ask"}}]}}
    append_event(ref, {"author": "user", "invocation_id": "i1", **said}, actor=actor)
    asked = {"author": "agent", "invocation_id": "i1", "long_running_tool_ids": ["c"], **call}
    first = append_event(ref, {"author": "agent", "invocation_id": "i1", **call}, actor=actor).event["id"]
    assert queue.held(ref, actor=SYSTEM)
    into = fork(ref, first, actor)
    assert queue.held(into, actor=SYSTEM) is None
    append_event(into, {"author": "user", "invocation_id": "i2", **said}, actor=actor)
    assert queue.held(into, actor=SYSTEM)
    second = append_event(ref, asked | {"id": "asked"}, actor=actor).event["id"]
    waiting = timeline.in_flight(fork(ref, second, actor, "waits"), actor=SYSTEM)
    assert waiting
    assert (waiting.waiting, waiting.waits_for) == (True, ("ask",))


def test_what_was_never_recorded_is_left_out(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    event_id = add(ref, new=1)
    add(ref, step="pay")
    into = fork(ref, event_id, actor)
    # `step` was overwritten before anybody looked; `draft` nobody has written since the session began.
    assert own(into) == {"new": 1, "draft": {"a": [1]}}
    assert views.session(into, actor=SYSTEM).initial_state == {"draft": {"a": [1]}}


_names = st.sampled_from(["a", "b", "user:a", "app:a"])
_values = st.one_of(st.none(), st.integers(0, 2), st.just({"y": [None]}))
_steps = st.lists(st.tuples(st.dictionaries(_names, _values, max_size=3), st.sets(_names, max_size=2)), min_size=1)


@given(steps=_steps, initial=st.dictionaries(_names, _values), at=st.integers(0, 20))
def test_a_forks_events_say_what_is_stored_for_any_history(
    source: str, actor: Actor, steps: list[tuple[State, set[str]]], initial: State, at: int
) -> None:
    ref = create_session(source, f"app{next(_numbers)}", "ana", actor=actor, state=initial)
    ids, states = [], []
    for delta, removed in steps:
        event = {
            "author": "agent",
            "actions": {"state_delta": {**delta, **dict.fromkeys(removed)}},
            "custom_metadata": {"adkweb": {"removed": sorted(removed)}},
        }
        ids.append(append_event(ref, event, actor=actor, origin="person").event["id"])
        states.append(own(ref))
    place = at % len(ids)
    shared = (state_of(ref)["user"], state_of(ref)["app"])
    into = fork(ref, ids[place], actor)
    assert equal(own(into), states[place])
    assert equal((state_of(into)["user"], state_of(into)["app"]), shared)
    for event_id, state in zip(ids[: place + 1], states, strict=False):
        assert equal(moments.state_at(into, event_id, actor=SYSTEM).state.session, state)
    assert_state_is_what_events_say(source, _initial(source))


def _initial(source: str) -> dict[SessionRef, State]:
    rows = query(source, "SELECT app_name, user_id, id, initial_state FROM sessions")
    return {SessionRef(source, *names): json.loads(text) for *names, text in rows}


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_a_session_that_is_there_is_never_overwritten(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay")
    before = everything(ref.source)
    with pytest.raises(AlreadyExists, match="already a session “s1”"):
        fork(ref, event_id, actor, "s1")
    assert everything(ref.source) == before


def test_a_fork_at_an_event_that_is_gone_makes_nothing(ref: SessionRef, actor: Actor) -> None:
    before = everything(ref.source)
    with pytest.raises(NotFound, match="may have been deleted"):
        fork(ref, "gone", actor)
    with pytest.raises(NotFound):
        fork(ref._replace(session_id="none"), "gone", actor)
    assert everything(ref.source) == before


def test_only_who_may_do_everything_in_an_app_forks(
    ref: SessionRef, actor: Actor, add: Callable[..., str], settings: Settings
) -> None:
    event_id = add(ref, step="pay")
    before = everything(ref.source)
    for refused in (BOB, Actor.holding("writer", "append"), CHARLIE):
        with pytest.raises(NotAllowed):
            fork(ref, event_id, refused)
    with pytest.raises(Invalid, match="reason is longer"):
        forks.fork(ref, event_id, user_id="ana", session_id="x", actor=actor, reason="x" * 1001)
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed, match="read-only"):
        fork(ref, event_id, actor)
    assert everything(ref.source) == before


def test_a_forks_name_is_checked_and_made_up_the_same_for_the_same_form(ref: SessionRef) -> None:
    assert forks.name(ref, "ben", " mine ", "form") == ref._replace(user_id="ben", session_id="mine")
    made = forks.name(ref, "ana", "", "form")
    assert made == forks.name(ref, "ana", "", "form")
    assert made != forks.name(ref, "ana", "", "another")
    with pytest.raises(Invalid, match="Enter a user for the session"):
        forks.name(ref, "", "x", "form")
    with pytest.raises(Invalid, match="129 characters"):
        forks.name(ref, "ana", "x" * 129, "form")


# --- Large ones -------------------------------------------------------------------------------------------------------


class _Stop(Exception):
    pass


@pytest.mark.guarantee(
    "Edits",
    "A fork never overwrites a session, and if the process is killed, the fork later resumes where it left off.",
)
def test_a_fork_that_was_cut_off_says_so_and_goes_on_where_it_stopped(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 3_500)
    heard: list[tuple[int, int]] = []

    def told(copied: int, total: int) -> None:
        heard.append((copied, total))
        if copied == 2_000:
            raise _Stop

    with pytest.raises(_Stop):
        forks.fork(ref, "e3200", user_id="ana", session_id="fork", actor=actor, told=told)
    into = ref._replace(session_id="fork")
    assert own(into) == IMPORTING
    assert heard == [(1_000, 3_200), (2_000, 3_200)]
    half = fork_jobs.progress(ref, "e3200", into, actor=SYSTEM)
    assert (half.copied, half.total, half.done, half.percent) == (2_000, 3_200, False, 62)
    assert forks.fork(ref, "e3200", user_id="ana", session_id="fork", actor=actor) == into
    assert own(into) == {"n": 3_200}
    assert [event["id"] for _seq, event in events_of(into)][:-1] == [f"e{n}" for n in range(1, 3_201)]
    assert fork_jobs.progress(ref, "e3200", into, actor=SYSTEM).done
    with pytest.raises(AlreadyExists):
        forks.fork(ref, "e3200", user_id="ana", session_id="fork", actor=actor)


def test_a_half_copied_session_of_somebody_elses_is_not_gone_on_with(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 1_500)
    into = ref._replace(session_id="fork")
    theirs = ImportedSession(into, 1.0, 1.0, "{}", "{}")
    import_session(theirs, [ImportedEvent("x", "", 1.0, "{}")], actor=actor, after=None, last=False)
    before = events_of(into)
    with pytest.raises(AlreadyExists):
        forks.fork(ref, "e1400", user_id="ana", session_id="fork", actor=actor)
    assert events_of(into) == before


def _half(ref: SessionRef, actor: Actor, at: str, session_id: str = "fork") -> SessionRef:
    """A fork that was cut off after its first thousand events."""

    def told(copied: int, total: int) -> None:
        raise _Stop

    with pytest.raises(_Stop):
        forks.fork(ref, at, user_id="ana", session_id=session_id, actor=actor, told=told)
    return ref._replace(session_id=session_id)


def _adk_writes(ref: SessionRef, **delta: Any) -> None:
    """As google-adk's own services do it, which no condition of adkweb's stops."""
    event = json.dumps({"id": "foreign", "author": "agent", "actions": {"state_delta": delta}})
    execute(
        ref.source,
        """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        SELECT app_name, user_id, session_id, 'foreign', 'i', timestamp, %s FROM events
        WHERE session_id = %s AND id = 'e1'""",
        [event, ref.session_id],
    )
    if delta:
        state = json.dumps({**own(ref), **delta})
        execute(ref.source, "UPDATE sessions SET state = %s WHERE id = %s", [state, ref.session_id])


def test_nobody_writes_to_a_fork_that_is_being_copied(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 1_500)
    into = _half(ref, actor, "e1400")
    before = everything(source)
    copied = timeline.event(into, "e5", actor=SYSTEM)
    refused: list[Callable[[], Any]] = [
        lambda: append_event(into, {"author": "agent"}, actor=actor),
        lambda: edits.edit_state(into, [Entry("n", 1, ABSENT)], actor=actor),
        lambda: edits.edit_state(into, [Entry("adkweb:importing", ABSENT, True)], actor=actor),
        lambda: edit.add_event(into, {"author": "user"}, actor=actor),
        lambda: undo.undo(into, "e5", actor=SYSTEM),
        lambda: undo.restore(into, "e5", actor=SYSTEM),
        lambda: rewind.plan(into, copied.invocation_id, actor=SYSTEM),
        lambda: rewind.rewind(into, copied.invocation_id, actor=actor),
    ]
    for write in refused:
        with pytest.raises(Conflict, match="This session is being copied or imported"):
            write()
    assert everything(source) == before
    assert forks.fork(ref, "e1400", user_id="ana", session_id="fork", actor=actor) == into
    assert own(into) == {"n": 1_400}
    edits.edit_state(into, [Entry("n", 1, 1_400)], actor=actor)


@pytest.mark.parametrize("delta", [{}, {"stray": 1}], ids=["no delta", "delta"])
def test_a_half_made_fork_that_google_adk_wrote_to_says_what_to_do(
    source: str, actor: Actor, delta: dict[str, Any]
) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 1_500)
    into = _half(ref, actor, "e1400")
    _adk_writes(into, **delta)
    before = everything(source)
    assert not fork_jobs.progress(ref, "e1400", into, actor=SYSTEM).done
    with pytest.raises(AlreadyExists, match="“fork” is incomplete, and someone else has written to it"):
        fork(ref, "e1400", actor)
    with pytest.raises(Conflict, match="being copied or imported"):
        append_event(into, {"author": "agent"}, actor=actor)
    assert everything(source) == before
    assert own(fork(ref, "e1400", actor, "other")) == {"n": 1_400}
    delete_session(into, actor=actor)
    assert own(fork(ref, "e1400", actor)) == {"n": 1_400}


def test_a_fork_that_google_adk_writes_to_while_it_is_copied_says_what_to_do(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 2_500)
    into = ref._replace(session_id="fork")

    def told(copied: int, total: int) -> None:
        if copied == 1_000:
            _adk_writes(into)

    with pytest.raises(AlreadyExists, match="is incomplete, and someone else has written to it"):
        forks.fork(ref, "e2400", user_id="ana", session_id="fork", actor=actor, told=told)


def test_a_fork_whose_origin_is_deleted_while_it_is_copied_leaves_nothing(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 2_500)

    def told(copied: int, total: int) -> None:
        delete_session(ref, actor=actor)

    with pytest.raises(NotFound, match="deleted while"):
        forks.fork(ref, "e2400", user_id="ana", session_id="fork", actor=actor, told=told)
    assert query(source, "SELECT id FROM sessions") == query(source, "SELECT id FROM events") == []


def test_an_event_that_is_no_json_is_named_and_no_half_of_a_fork_is_left(
    new_store: Callable[[str], str], open_source: Callable[[str], str], actor: Actor
) -> None:
    ref = create_session(open_source(new_store("sqlite")), APP, "ana", actor=actor, session_id="long")
    fill(ref, 2_500)
    execute(ref.source, "UPDATE events SET event_data = 'not JSON' WHERE id = 'e1500'")
    with pytest.raises(Invalid, match="Event e1500 can't be copied"):
        forks.fork(ref, "e2400", user_id="ana", session_id="fork", actor=actor)
    assert query(ref.source, "SELECT id FROM sessions") == [("long",)]


def test_a_half_that_an_agent_wrote_to_is_kept_when_its_origin_is_deleted(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 2_500)
    into = ref._replace(session_id="fork")

    def told(copied: int, total: int) -> None:
        delete_session(ref, actor=actor)
        _adk_writes(into)

    with pytest.raises((NotFound, AlreadyExists)):
        forks.fork(ref, "e2400", user_id="ana", session_id="fork", actor=actor, told=told)
    assert "foreign" in {event["id"] for _seq, event in events_of(into)}


def test_a_long_fork_of_a_fork_under_an_earlier_name_goes_on_where_it_was_cut_off(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 1_500)
    one = fork(ref, "e500", actor, "one")
    for number in range(3):
        append_event(one, {"id": f"f{number}", "author": "agent"}, actor=actor)
    with connections[source].cursor() as cursor:  # the note stands in the middle of a page, many events after it
        cursor.executemany(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            SELECT app_name, user_id, session_id, %s, 'i', timestamp, event_data FROM events
            WHERE session_id = 'one' AND id = 'f2'""",
            [(f"g{number}",) for number in range(1_500)],
        )
    two = fork(one, "g1400", actor, "two")
    delete_session(one, actor=actor)
    into = _half(two, actor, "g1399", "one")
    assert fork_jobs.progress(two, "g1399", into, actor=SYSTEM).copied == 1_000
    fork(two, "g1399", actor, "one")
    order = "rowid" if connections[source].vendor == "sqlite" else "seq"
    ids = [found for (found,) in query(source, f"SELECT id FROM events WHERE session_id = 'one' ORDER BY {order}")]
    assert ids[:-1] == [f"e{n}" for n in range(1, 501)] + ["f0", "f1", "f2"] + [f"g{n}" for n in range(1_400)]
    assert fork_tree.origin(into, actor=SYSTEM) == fork_tree.forks_of(two, actor=SYSTEM)[0]


@pytest.mark.parametrize("form", ["sqlite"], indirect=True)
def test_memory_is_that_of_a_page(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, session_id="long")
    fill(ref, 10_001)
    build.catch_up(source, 60)  # the projection is read before, and not what is measured
    tracemalloc.start()
    try:
        fork(ref, "e10000", actor)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4_000_000
    assert own(ref._replace(session_id="fork")) == {"n": 10_000}


# --- The tree ---------------------------------------------------------------------------------------------------------


def _drawn(node: fork_tree.Node) -> Any:
    return {node.ref.session_id if node.there else "gone": [_drawn(each) for each in node.forks]}


def test_the_tree_is_the_same_from_wherever_it_is_looked_at(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    event_id = add(ref, step="pay")
    one, two = fork(ref, event_id, actor, "one"), fork(ref, event_id, actor, "two", "ben")
    deep = fork(two, event_id, actor, "deep", "ben")
    drawn = {"s1": [{"one": []}, {"two": [{"deep": []}]}]}
    for each in (ref, one, two, deep):
        assert _drawn(fork_tree.tree(each, actor=SYSTEM)) == drawn
    assert [each.ref for each in fork_tree.forks_of(ref, actor=SYSTEM)] == [one, two]
    assert fork_tree.origin(ref, actor=SYSTEM) is None
    delete_session(ref, actor=actor)
    assert _drawn(fork_tree.tree(deep, actor=SYSTEM)) == {"gone": [{"one": []}, {"two": [{"deep": []}]}]}


def test_a_tree_is_listed_each_session_before_its_forks(ref: SessionRef, actor: Actor, add: Callable[..., str]) -> None:
    event_id = add(ref, step="pay")
    one = fork(ref, event_id, actor, "one")
    fork(ref, event_id, actor, "two")
    fork(fork(one, event_id, actor, "deep"), event_id, actor, "deeper")
    listed = [(node.ref.session_id, node.level) for node in fork_tree.listed(fork_tree.tree(ref, actor=SYSTEM))]
    assert listed == [("s1", 1), ("one", 2), ("deep", 3), ("deeper", 4), ("two", 2)]


def test_a_session_of_the_same_name_of_another_user_has_other_forks(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    other = create_session(ref.source, APP, "ben", actor=actor, session_id="s1")
    fork(ref, add(ref, a=1), actor, "one")
    fork(other, add(other, a=1), actor, "two", "ben")
    assert [each.ref.session_id for each in fork_tree.forks_of(ref, actor=SYSTEM)] == ["one"]
    assert [each.ref.session_id for each in fork_tree.forks_of(other, actor=SYSTEM)] == ["two"]


def test_what_others_wrote_there_is_no_fork_and_breaks_nothing(
    ref: SessionRef, actor: Actor, add: Callable[..., str]
) -> None:
    for number, noted in enumerate(
        [1, "s1", [], {"session": "s1"}, {"session": "s1" * 5_000, "user": 1, "event": "e"}]
    ):
        event = {"id": f"x{number}", "custom_metadata": {"adkweb": {"forked": noted}}}
        append_event(ref, event, actor=actor, origin="person")
    assert fork_tree.forks_of(ref, actor=SYSTEM) == []
    assert fork_tree.origin(ref, actor=SYSTEM) is None


def test_the_tree_survives_export_and_import(
    ref: SessionRef,
    actor: Actor,
    add: Callable[..., str],
    new_database: Callable[[str], str],
    open_source: Callable[[str, str], str],
) -> None:
    into = fork(ref, add(ref, step="pay"), actor)
    other = open_source(new_database("sqlite"), "sqlite")
    imported(other, exported(ref.source))
    assert _drawn(fork_tree.tree(ref._replace(source=other), actor=SYSTEM)) == {"s1": [{"fork": []}]}
    assert fork_tree.origin(into._replace(source=other), actor=SYSTEM) is not None
