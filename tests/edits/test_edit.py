"""What a person does to state: one event with who, why and what was replaced; nothing half, nothing forged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.event import Event
from sessions_app.domain.session_ref import SessionRef, own_session
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits import edit as edits
from sessions_app.edits.edit import Entry
from sessions_app.history import edit_log, moments
from sessions_app.reads import lists, stored_sessions, timeline, views
from sessions_app.reads.deltas import writers
from sessions_app.reads.stored_sessions import Selection
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.booking import APP, START
from tests.support.stored import assert_state_is_what_events_say, counts, everything


def note(event: Event) -> dict[str, Any]:
    """What an edit recorded about itself."""
    recorded: dict[str, Any] = event["custom_metadata"]["adkweb"]
    return recorded


# --- State ------------------------------------------------------------------------------------------------------------


def test_an_edit_changes_several_keys_of_three_scopes_in_one_event(ref: SessionRef, actor: Actor) -> None:
    entries = [
        Entry("step", "pay", "search"),
        Entry("new", {"x": [1, None, 2.5]}, ABSENT),
        Entry("draft", ABSENT, {"a": [1]}),
        Entry("user:tier", None, "gold"),
        Entry("app:limit", 4, 3),
        Entry("app:new", "é 🧳", ABSENT),
    ]
    appended = edits.edit_state(ref, entries, actor=actor, reason="  the customer called\n")
    after = {"step": "pay", "new": {"x": [1, None, 2.5]}, "user:tier": None, "app:limit": 4, "app:new": "é 🧳"}
    assert views.session(ref, actor=SYSTEM).state.merged() == after
    (view,) = timeline.events(ref, actor=SYSTEM).rows
    assert view.id == appended.event["id"]
    assert view.seq == appended.seq
    assert (view.data["author"], view.invocation_id[:5]) == ("system", "edit-")
    assert view.data["actions"]["state_delta"] == {**after, "draft": None}
    assert note(view.data) == {
        "actor": "maria@example.com",
        "reason": "the customer called",
        "replaced": {"step": "search", "draft": {"a": [1]}, "user:tier": "gold", "app:limit": 3},
        "removed": ["draft"],
    }
    assert {change.key: (change.old, change.new) for change in view.changes} == {
        "step": ("search", "pay"),
        "new": (ABSENT, {"x": [1, None, 2.5]}),
        "draft": ({"a": [1]}, ABSENT),
        "user:tier": ("gold", None),
        "app:limit": (3, 4),
        "app:new": (ABSENT, "é 🧳"),
    }
    assert_state_is_what_events_say(ref.source, {ref: START})


def test_removing_a_key_and_setting_it_to_null_are_two_different_edits(ref: SessionRef, actor: Actor) -> None:
    edits.edit_state(ref, [Entry("step", None, "search"), Entry("draft", ABSENT, {"a": [1]})], actor=actor)
    state = views.session(ref, actor=SYSTEM).state
    assert (state.get("step"), state.get("draft")) == (None, ABSENT)
    edits.edit_state(ref, [Entry("step", ABSENT, None), Entry("draft", None, ABSENT)], actor=actor)
    state = views.session(ref, actor=SYSTEM).state
    assert (state.get("step"), state.get("draft")) == (ABSENT, None)
    assert [event.data["actions"]["state_delta"] for event in timeline.events(ref, actor=SYSTEM).rows] == [
        {"step": None, "draft": None}
    ] * 2


@pytest.mark.parametrize("scope", ["", "user:", "app:"])
def test_a_key_is_removed_from_its_own_scope_only(scope: str, source: str, actor: Actor) -> None:
    state = {"k": 1, "user:k": 1, "app:k": 1}
    ref = create_session(source, APP, "ana", actor=actor, state=state, session_id="s1")
    edits.edit_state(ref, [Entry(f"{scope}k", ABSENT, 1)], actor=actor)
    expected = {name: 1 for name in state if name != f"{scope}k"}
    assert views.session(ref, actor=SYSTEM).state.merged() == expected


class Counted(str):
    """A key that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_an_edit_of_many_keys_compares_each_a_few_times() -> None:
    Counted.compared = 0
    names = [Counted(f"k{number}") for number in range(5_000)]
    edits.state_event([Entry(name, 1, ABSENT) for name in names], Actor.holding("alice", "admin"), "")
    assert Counted.compared < 20 * len(names)


@pytest.mark.django_db
def test_an_edit_may_have_tens_of_thousands_of_keys(ref: SessionRef, actor: Actor) -> None:
    names = [f"k{number}" for number in range(30_000)]
    edits.edit_state(ref, [Entry(name, 1, ABSENT) for name in names], actor=actor)
    gone = edits.edit_state(ref, [Entry(name, ABSENT, 1) for name in names], actor=actor).event["id"]
    assert timeline.event(ref, gone, actor=SYSTEM).changes[0].new is ABSENT
    assert not moments.state_at(ref, gone, actor=SYSTEM).state.session.keys() & set(names)


def test_an_unchanged_entry_is_left_out_of_the_event(ref: SessionRef, actor: Actor) -> None:
    entries = [Entry("step", "search", "search"), Entry("user:tier", "silver", "gold"), Entry("no", ABSENT, ABSENT)]
    appended = edits.edit_state(ref, entries, actor=actor)
    assert appended.event["actions"]["state_delta"] == {"user:tier": "silver"}
    assert note(appended.event)["replaced"] == {"user:tier": "gold"}
    assert note(appended.event)["reason"] == ""


def test_values_that_differ_only_in_type_are_a_change_and_numbers_that_are_equal_are_none(
    source: str, actor: Actor
) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"n": 1, "d": {"x": [0]}}, session_id="s1")
    with pytest.raises(Invalid, match="Nothing would change"):
        edits.edit_state(ref, [Entry("n", 1.0, 1), Entry("d", {"x": [0.0]}, {"x": [0]})], actor=actor)
    edits.edit_state(ref, [Entry("n", True, 1), Entry("d", {"x": [False]}, {"x": [0]})], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.get("n") is True
    assert views.session(ref, actor=SYSTEM).state.get("d")["x"][0] is False


# --- Conflicts --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Edits", "If someone else has changed a key in the meantime, adkweb writes nothing and shows both values."
)
@pytest.mark.parametrize(
    ("entry", "current"),
    [
        (Entry("step", "mine", "what I saw"), "search"),
        (Entry("step", "mine", ABSENT), "search"),
        (Entry("gone", "mine", "what I saw"), ABSENT),
        (Entry("gone", ABSENT, "what I saw"), ABSENT),
        (Entry("user:tier", "mine", None), "gold"),
        (Entry("app:limit", "mine", "3"), 3),
        (Entry("app:limit", "mine", True), 3),
        (Entry("draft", "mine", {"a": [2]}), {"a": [1]}),
    ],
)
def test_a_key_that_somebody_else_changed_is_a_conflict_with_the_values_by_now_and_nothing_is_written(
    ref: SessionRef, actor: Actor, entry: Entry, current: Any
) -> None:
    before = everything(ref.source)
    harmless = Entry("other", 1, ABSENT)
    with pytest.raises(Conflict, match="Someone else changed it in the meantime") as refused:
        edits.edit_state(ref, [harmless, entry], actor=actor)
    assert refused.value.detail["current"] == {"other": ABSENT, entry.key: current}
    assert everything(ref.source) == before


def test_of_two_people_who_saw_the_same_value_one_wins_and_one_is_told(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"user:n": 0}, session_id="s1")
    barrier = threading.Barrier(4)
    outcomes: list[str] = []

    def edit(name: str) -> None:
        barrier.wait(10)
        try:
            edits.edit_state(ref, [Entry("user:n", name, 0)], actor=Actor.holding(name, "admin"))
            outcomes.append(name)
        except Conflict:
            outcomes.append("")
        finally:
            connections[source].close()

    threads = [threading.Thread(target=edit, args=[f"person{n}"]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [name for name in outcomes if name]
    assert len(outcomes) == 4
    assert views.session(ref, actor=SYSTEM).state.get("user:n") == winner
    assert [note(view.data)["actor"] for view in timeline.events(ref, actor=SYSTEM).rows] == [winner]


def test_an_edit_does_not_mind_what_others_do_to_other_keys(ref: SessionRef, actor: Actor) -> None:
    seen = views.session(ref, actor=SYSTEM).state
    delta = {"else": 1, "user:else": 2, "app:else": 3}
    append_event(ref, {"author": "agent", "actions": {"state_delta": delta}}, actor=actor)
    edits.edit_state(ref, [Entry("step", "pay", seen.get("step")), Entry("app:limit", 4, 3)], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == {**START, **delta, "step": "pay", "app:limit": 4}


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], r"Nothing would change\."),
        ([Entry("step", "search", "search")], r"Nothing would change\."),
        ([Entry("nothing", ABSENT, ABSENT)], r"Nothing would change\."),
        ([Entry("temp:x", 1, ABSENT)], "temp:x: temp: keys live for one invocation and are never stored"),
        ([Entry("step", 1, "search"), Entry("temp:x", 1, ABSENT)], "temp:x: temp: keys"),
        ([Entry("", 1, ABSENT)], r"Enter a name for the key\."),
        ([Entry("user:", 1, ABSENT)], r"Enter a name for the key\."),
        ([Entry("app:", 1, ABSENT)], r"Enter a name for the key\."),
        ([Entry("a", 1, ABSENT), Entry("a", 2, ABSENT)], "a: appears twice in this edit"),
        ([Entry("a", float("nan"), ABSENT)], "a: NaN and infinity aren't valid JSON"),
        ([Entry("a", {"b": ["\0"]}, ABSENT)], r"a\.b\[0\]: the character U\+0000"),
        ([Entry("a\0", 1, ABSENT)], r"U\+0000"),
        ([Entry("a\ud800", 1, ABSENT)], "surrogate"),
        ([Entry("a", {1: 2}, ABSENT)], "a key must be a string"),
        ([Entry("a", object(), ABSENT)], "a: object isn't a JSON type"),
    ],
)
def test_an_edit_that_cannot_be_is_refused_with_its_place_and_writes_nothing(
    ref: SessionRef, actor: Actor, entries: list[Entry], message: str
) -> None:
    before = everything(ref.source)
    with pytest.raises(Invalid, match=message):
        edits.edit_state(ref, entries, actor=actor)
    assert everything(ref.source) == before


@pytest.mark.parametrize("scope", ["", "user:", "app:"])
def test_a_key_without_a_name_that_an_agent_left_can_be_edited_and_removed(
    scope: str, source: str, actor: Actor
) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={scope: 1}, session_id="s1")
    edits.edit_state(ref, [Entry(scope, 2, 1)], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == {scope: 2}
    edits.edit_state(ref, [Entry(scope, ABSENT, 2)], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.merged() == {}


def test_a_reason_may_have_a_thousand_characters(ref: SessionRef, actor: Actor) -> None:
    with pytest.raises(Invalid, match="longer than 1000 characters"):
        edits.edit_state(ref, [Entry("a", 1, ABSENT)], actor=actor, reason="x" * 1001)
    appended = edits.edit_state(ref, [Entry("a", 1, ABSENT)], actor=actor, reason="é" * 1000)
    assert note(appended.event)["reason"] == "é" * 1000


def test_a_session_that_was_deleted_is_not_found_and_not_made_anew(ref: SessionRef, actor: Actor) -> None:
    delete_session(ref, actor=actor)
    with pytest.raises(NotFound, match="s1"):
        edits.edit_state(ref, [Entry("step", "pay", "search")], actor=actor)
    with pytest.raises(NotFound, match="s1"):
        edit.add_event(ref, {"author": "x"}, actor=actor)
    assert counts(ref.source)["sessions"] == 0


def test_read_only_refuses_every_edit(ref: SessionRef, actor: Actor, settings: Settings) -> None:
    before = everything(ref.source)
    settings.READ_ONLY = True
    works: list[Callable[[], Any]] = [
        lambda: edits.edit_state(ref, [Entry("a", 1, ABSENT)], actor=actor),
        lambda: edits.edit_app_state(ref.source, APP, [Entry("app:a", 1, ABSENT)], actor=actor),
        lambda: edits.edit_user_state(ref.source, APP, "ana", [Entry("user:a", 1, ABSENT)], actor=actor),
        lambda: edit.add_event(ref, {"author": "x"}, actor=actor),
    ]
    for work in works:
        with pytest.raises(NotAllowed, match="read-only"):
            work()
    assert everything(ref.source) == before


# --- Outside a conversation -------------------------------------------------------------------------------------------


def test_app_state_is_edited_in_adkwebs_own_session_which_is_made_when_needed(ref: SessionRef, actor: Actor) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    first = edits.edit_app_state(ref.source, APP, [Entry("app:limit", 4, 3)], actor=actor, reason="release")
    own = SessionRef(ref.source, APP, "adkweb", "adkweb")
    second = edits.edit_app_state(ref.source, APP, [Entry("app:notice", "hi", ABSENT)], actor=actor)
    assert [view.id for view in timeline.events(own, actor=SYSTEM).rows] == [first.event["id"], second.event["id"]]
    assert views.app(ref.source, APP, actor=SYSTEM)[1] == {"limit": 4, "notice": "hi"}
    assert views.session(ref, actor=SYSTEM).state.get("app:notice") == "hi"
    assert views.session(ref, actor=SYSTEM).revision == revision  # the conversation did not go stale
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 0
    edits.edit_app_state(ref.source, APP, [Entry("app:notice", ABSENT, "hi")], actor=actor)
    assert views.app(ref.source, APP, actor=SYSTEM)[1] == {"limit": 4}


def test_user_state_is_edited_in_a_session_of_that_user_which_is_made_when_needed(
    ref: SessionRef, actor: Actor
) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    appended = edits.edit_user_state(ref.source, APP, "ana", [Entry("user:tier", ABSENT, "gold")], actor=actor)
    own = SessionRef(ref.source, APP, "ana", "adkweb")
    assert [view.id for view in timeline.events(own, actor=SYSTEM).rows] == [appended.event["id"]]
    assert note(appended.event)["removed"] == ["user:tier"]
    assert views.user_state(ref.source, APP, "ana", actor=SYSTEM) == {}
    assert views.session(ref, actor=SYSTEM).revision == revision
    # A user whom no agent has met yet.
    edits.edit_user_state(ref.source, APP, "지우", [Entry("user:name", "지우", ABSENT)], actor=actor)
    assert views.user_state(ref.source, APP, "지우", actor=SYSTEM) == {"name": "지우"}


@pytest.mark.parametrize("name", ["plain", "user:x", "temp:x", "app"])
def test_a_key_of_another_scope_is_refused_in_app_state(ref: SessionRef, actor: Actor, name: str) -> None:
    before = everything(ref.source)
    with pytest.raises(Invalid, match=f"{name}: keys here must start with app:"):
        edits.edit_app_state(ref.source, APP, [Entry("app:ok", 1, ABSENT), Entry(name, 1, ABSENT)], actor=actor)
    assert everything(ref.source) == before


@pytest.mark.parametrize("name", ["plain", "app:x", "temp:x", "user"])
def test_a_key_of_another_scope_is_refused_in_user_state(ref: SessionRef, actor: Actor, name: str) -> None:
    before = everything(ref.source)
    with pytest.raises(Invalid, match=f"{name}: keys here must start with user:"):
        edits.edit_user_state(ref.source, APP, "ana", [Entry(name, 1, ABSENT)], actor=actor)
    assert everything(ref.source) == before


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [Entry("app:limit", 3, 3)],
        [Entry("app:", 1, ABSENT)],
        [Entry("app:a", float("inf"), ABSENT)],
        [Entry("app:a", 1, ABSENT), Entry("app:a", 2, ABSENT)],
    ],
)
def test_a_refused_edit_of_app_state_leaves_no_session_behind(
    ref: SessionRef, actor: Actor, entries: list[Entry]
) -> None:
    before = everything(ref.source)
    with pytest.raises(Invalid):
        edits.edit_app_state(ref.source, APP, entries, actor=actor)
    assert everything(ref.source) == before


def test_two_first_edits_of_app_state_at_once_both_succeed(ref: SessionRef) -> None:
    barrier = threading.Barrier(4)
    failed: list[Exception] = []

    def edit(number: int) -> None:
        barrier.wait(10)
        try:
            edits.edit_app_state(
                ref.source, APP, [Entry(f"app:n{number}", number, ABSENT)], actor=Actor.holding(f"p{number}", "admin")
            )
        except Exception as error:
            failed.append(error)
        finally:
            connections[ref.source].close()

    threads = [threading.Thread(target=edit, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert views.app(ref.source, APP, actor=SYSTEM)[1] == {"limit": 3, **{f"n{n}": n for n in range(4)}}
    assert len(timeline.events(SessionRef(ref.source, APP, "adkweb", "adkweb"), actor=SYSTEM).rows) == 4


@pytest.mark.django_db
def test_sessions_that_hold_such_edits_are_in_no_list_and_no_count(ref: SessionRef, actor: Actor) -> None:
    edits.edit_app_state(ref.source, APP, [Entry("app:limit", 4, 3)], actor=actor)
    edits.edit_user_state(ref.source, APP, "ana", [Entry("user:tier", "silver", "gold")], actor=actor)
    edits.edit_user_state(ref.source, APP, "new", [Entry("user:tier", "gold", ABSENT)], actor=actor)
    of_ana, of_app = own_session(ref.source, APP, "ana"), own_session(ref.source, APP)
    assert [row.ref for row in lists.sessions(ref.source, APP, actor=SYSTEM).rows] == [ref]
    assert [row.ref for row in lists.sessions(ref.source, APP, "ana", limit=1, actor=SYSTEM).rows] == [ref]
    assert lists.sessions(ref.source, APP, "ana", limit=1, actor=SYSTEM).next is None
    assert [row.ref for row in stored_sessions.load_all(Selection(ref.source, APP, "ana"), actor=SYSTEM)] == [ref]
    assert [row.ref for row in stored_sessions.load_page(Selection(ref.source, APP), limit=1, actor=SYSTEM).rows] == [
        ref
    ]
    assert [(row.user_id, row.sessions) for row in lists.users(ref.source, APP, actor=SYSTEM).rows] == [
        ("ana", 1),
        ("new", 0),
    ]
    assert (
        views.app(ref.source, APP, actor=SYSTEM)[0].sessions,
        views.app(ref.source, APP, actor=SYSTEM)[0].users,
    ) == (1, 2)
    # Asked for, they are there; by their names, too.
    everything = {ref, of_ana, of_app, own_session(ref.source, APP, "new")}
    assert {row.ref for row in lists.sessions(ref.source, APP, hidden=True, actor=SYSTEM).rows} == everything
    assert {
        row.ref for row in stored_sessions.load_all(Selection(ref.source, APP, hidden=True), actor=SYSTEM)
    } == everything
    assert views.session(of_ana, actor=SYSTEM).ref == of_ana
    for own in (of_ana, of_app):
        row = lists.left_out(own, actor=SYSTEM)
        assert row
        assert (row.ref, row.events) == (own, 1)
    assert lists.left_out(ref, actor=SYSTEM) is None
    assert {view.ref for view in edit_log.edits(actor=SYSTEM)[0].rows} == everything - {ref}


def test_a_conversation_that_has_that_name_is_in_every_list(ref: SessionRef, actor: Actor) -> None:
    edits.edit_user_state(ref.source, APP, "ana", [Entry("user:tier", "silver", "gold")], actor=actor)
    own = own_session(ref.source, APP, "ana")
    append_event(own, {"author": "user", "invocation_id": "e-1"}, actor=actor)
    edits.edit_user_state(ref.source, APP, "ana", [Entry("user:tier", "gold", "silver")], actor=actor)
    assert {row.ref for row in lists.sessions(ref.source, APP, actor=SYSTEM).rows} == {ref, own}
    assert {row.ref for row in stored_sessions.load_all(Selection(ref.source, APP), actor=SYSTEM)} == {ref, own}
    assert lists.left_out(own, actor=SYSTEM) is None


def test_an_app_of_which_only_edits_are_known_is_there(source: str, actor: Actor) -> None:
    edits.edit_user_state(source, "new-app", "ana", [Entry("user:tier", "gold", ABSENT)], actor=actor)
    assert views.app(source, "new-app", actor=SYSTEM)[0].sessions == 0
    assert [row.app_name for row in lists.apps(source, actor=SYSTEM).rows] == ["new-app"]


# --- Events by hand ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_event_by_hand_is_an_edit_that_records_what_it_replaced(ref: SessionRef, actor: Actor) -> None:
    event = {
        "author": "agent",
        "invocation_id": "e-7",
        "content": {"role": "model", "parts": [{"text": "Hello"}]},
        "actions": {"state_delta": {"step": "pay", "new": 1, "user:tier": None, "app:limit": 3, "temp:x": 1}},
        "custom_metadata": {"mine": True},
    }
    appended = edit.add_event(ref, event, actor=actor, reason="as the customer asked")
    (view,) = timeline.events(ref, actor=SYSTEM).rows
    assert (view.data["author"], view.invocation_id, view.description.text) == ("agent", "e-7", "Hello")
    assert view.data["custom_metadata"]["mine"] is True
    assert (
        note(appended.event)
        == note(view.data)
        == {
            "actor": "maria@example.com",
            "reason": "as the customer asked",
            "replaced": {"step": "search", "user:tier": "gold", "app:limit": 3},
            "removed": [],
        }
    )
    assert views.session(ref, actor=SYSTEM).state.merged() == {**START, "step": "pay", "new": 1, "user:tier": None}
    assert [view.id for view in edit_log.edits(actor=SYSTEM)[0].rows] == [appended.event["id"]]
    assert "mine" in event["custom_metadata"]
    assert "adkweb" not in event["custom_metadata"]  # the caller's own event is left as it was


def test_an_event_by_hand_without_author_and_invocation_is_the_systems(ref: SessionRef, actor: Actor) -> None:
    edit.add_event(ref, {}, actor=actor)
    (view,) = timeline.events(ref, actor=SYSTEM).rows
    assert view.data["author"] == "system"
    assert view.invocation_id.startswith("edit-")


@pytest.mark.guarantee("Edits", "No one can forge the author of an edit.")
def test_who_made_an_edit_cannot_be_forged(ref: SessionRef, actor: Actor) -> None:
    forged = {"actor": "boss@example.com", "reason": "forged", "replaced": {"step": "forged"}, "other": "forged"}
    event = {"custom_metadata": {"adkweb": forged}, "actions": {"state_delta": {"step": "pay"}}}
    edit.add_event(ref, event, actor=actor, reason="mine")
    (view,) = timeline.events(ref, actor=SYSTEM).rows
    assert note(view.data) == {
        "actor": "maria@example.com",
        "reason": "mine",
        "replaced": {"step": "search"},
        "removed": [],
    }
    assert view.description.edit["actor"] == "maria@example.com"
    assert writers(ref, actor=SYSTEM)["step"].actor == "maria@example.com"


def test_an_event_by_hand_may_remove_keys(ref: SessionRef, actor: Actor) -> None:
    event = {
        "actions": {"state_delta": {"draft": None, "step": None}},
        "custom_metadata": {"adkweb": {"removed": ["draft", "never mentioned"]}},
    }
    edit.add_event(ref, event, actor=actor)
    state = views.session(ref, actor=SYSTEM).state
    assert (state.get("draft"), state.get("step")) == (ABSENT, None)
    assert_state_is_what_events_say(ref.source, {ref: START})


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ([], "An event must be a JSON object"),
        ({"partial": True}, "partial: partial events are never stored"),
        ({"actions": {"made_up": 1}}, 't recognise "made_up"'),
        ({"timestamp": "now"}, "timestamp: must be a number, in seconds"),
        ({"id": "x" * 129}, "id has 129 characters"),
        ({"custom_metadata": []}, "custom_metadata: must be an object"),
        (
            {"custom_metadata": {"adkweb_origin": {"event": "e"}}},
            r"custom_metadata\.adkweb_origin: reserved for adkweb",
        ),
        ({"content": {"parts": ["text"]}}, r"content\.parts: must be a list of objects"),
        ({"actions": {"state_delta": {"a": float("nan")}}}, r"actions\.state_delta\.a: NaN"),
    ],
)
def test_an_event_by_hand_that_adk_could_not_load_is_refused_with_its_place(
    ref: SessionRef, actor: Actor, event: Any, message: str
) -> None:
    before = everything(ref.source)
    with pytest.raises(Invalid, match=message):
        edit.add_event(ref, event, actor=actor)
    assert everything(ref.source) == before


def test_another_event_under_an_id_that_is_taken_is_a_conflict(ref: SessionRef, actor: Actor) -> None:
    edit.add_event(ref, {"id": "e1", "actions": {"state_delta": {"a": 1}}}, actor=actor)
    before = everything(ref.source)
    with pytest.raises(Conflict, match="already has an event with the id e1"):
        edit.add_event(ref, {"id": "e1", "actions": {"state_delta": {"a": 2}}}, actor=actor)
    assert everything(ref.source) == before


def test_an_event_by_hand_records_what_it_really_replaced_while_others_write(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"n": 0}, session_id="s1")
    barrier = threading.Barrier(4)
    failed: list[Exception] = []

    def write(number: int) -> None:
        barrier.wait(10)
        try:
            for step in range(3):
                event = {"author": f"a{number}", "actions": {"state_delta": {"n": f"{number}.{step}"}}}
                if number == 0:
                    edit.add_event(ref, event, actor=actor)
                else:
                    append_event(ref, event, actor=actor)
        except Exception as error:
            failed.append(error)
        finally:
            connections[source].close()

    threads = [threading.Thread(target=write, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    before: Any = 0
    for view in timeline.events(ref, actor=SYSTEM).rows:
        if view.description.edit:
            assert note(view.data)["replaced"] == {"n": before}
        before = view.description.delta["n"]
    assert views.session(ref, actor=SYSTEM).state.get("n") == before


@pytest.mark.guarantee("Edits", "If a form is submitted twice, the edit is written only once.")
def test_the_same_edit_from_the_same_form_is_stored_once(source: str, actor: Actor) -> None:
    ref = create_session(source, "app", "user", actor=actor, state={"a": 1})
    first = edits.edit_state(ref, [Entry("a", 2, 1)], actor=actor, reason="why", once="form")
    again = edits.edit_state(ref, [Entry("a", 2, 1)], actor=actor, reason="why", once="form")
    assert again.event["id"] == first.event["id"]
    assert again.seq is None
    with pytest.raises(Conflict):
        edits.edit_state(ref, [Entry("a", 3, 1)], actor=actor, once="form")
    with pytest.raises(Conflict):
        edits.edit_state(ref, [Entry("a", 2, 1)], actor=actor, once="another form")
    edits.edit_user_state(source, "app", "user", [Entry("user:b", 1, ABSENT)], actor=actor, once="form")
    assert (
        edits.edit_user_state(source, "app", "user", [Entry("user:b", 1, ABSENT)], actor=actor, once="form").seq is None
    )
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 1


def test_the_same_hand_written_event_is_stored_once(source: str, actor: Actor) -> None:
    ref = create_session(source, "app", "user", actor=actor)
    event = {"id": "same", "author": "user", "actions": {"state_delta": {"a": 1}}}
    edit.add_event(ref, event, actor=actor)
    assert edit.add_event(ref, event, actor=actor).seq is None
    with pytest.raises(Conflict):
        edit.add_event(ref, {**event, "author": "agent"}, actor=actor)
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 1


def test_camel_case_is_refused_where_a_person_writes(source: str, actor: Actor) -> None:
    ref = create_session(source, "app", "user", actor=actor)
    with pytest.raises(Invalid, match="invocationId: use snake_case for field names"):
        edit.add_event(ref, {"author": "user", "invocationId": "x"}, actor=actor)
