"""Drift: which keys are not what the events make of them, told and repaired, and nothing said that cannot be known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, Change
from sessions_app.edits import repair as edits_repair
from sessions_app.edits.repair import Choice, choose
from sessions_app.history import adk_merge_bug, drift, moments
from sessions_app.reads import views
from sessions_app.writes.append import Appended, append_event
from sessions_app.writes.incomplete import IMPORTING
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.people import BOB
from tests.support.stored import events_of, everything, execute, in_threads, state_of

pytestmark = pytest.mark.django_db

MARIA = Actor.holding("maria", "admin")
STATE = {"first": 1, "gone": [1], "user:tier": "gold", "app:limit": 10}


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session in a source of each format, after a few events."""
    ref = create_session(source, "booking", "ana", actor=MARIA, session_id="s1", state=STATE)
    for number in range(3):
        add(ref, n=number)
    return ref


def add(ref: SessionRef, removed: tuple[str, ...] = (), **delta: Any) -> str:
    """Appends an event as an agent would; in keys `__` stands for the colon of a scope."""
    named = {name.replace("__", ":"): value for name, value in delta.items()}
    event = {
        "author": "agent",
        "actions": {"state_delta": named | dict.fromkeys(removed)},
        "custom_metadata": {"adkweb": {"removed": list(removed)}} if removed else {},
    }
    return str(append_event(ref, event, actor=MARIA, origin="person").event["id"])


def put(ref: SessionRef, **state: Any) -> None:
    """Another program writes the session's own state."""
    sql = "UPDATE sessions SET state = %s WHERE id = %s"
    execute(ref.source, sql, [json.dumps(state), ref.session_id])


def store_shared(ref: SessionRef, table: str, **state: Any) -> None:
    """Another program writes state that sessions share."""
    execute(ref.source, f"UPDATE {table} SET state = %s", [json.dumps(state)])


def chosen(ref: SessionRef, keep: bool, *names: str) -> list[Choice]:
    """A choice for these keys, or for all that differ."""
    changes = [
        each.change for each in (*drift.own(ref, actor=SYSTEM).drifted, *drift.shared(ref, actor=SYSTEM).drifted)
    ]
    return [Choice(c.key, keep, c.old, c.new) for c in changes if not names or c.key in names]


def repair(ref: SessionRef, keep: bool, *names: str, **more: Any) -> Appended:
    return edits_repair.repair(ref, chosen(ref, keep, *names), actor=MARIA, **more)


# --- Told -------------------------------------------------------------------------------------------------------------


def test_every_key_is_told_with_the_event_that_wrote_it_last(ref: SessionRef) -> None:
    last = events_of(ref)[-1]
    put(ref, n=1, gone=None, extra=5)
    drifts = {each.change.key: each for each in drift.own(ref, actor=SYSTEM).drifted}
    assert {name: (each.change.old, each.change.new) for name, each in drifts.items()} == {
        "n": (2, 1),
        "first": (1, ABSENT),
        "gone": ([1], None),
        "extra": (ABSENT, 5),
    }
    assert drifts["n"].last == drift.Written(ref, last[1]["id"], last[0], 1)
    assert [name for name, each in drifts.items() if each.last is None] == ["extra", "first", "gone"]
    assert drift.own(ref, actor=SYSTEM).events == 3


@pytest.mark.parametrize(("stored", "lost"), [(1, True), (0, False), (None, False)])
def test_a_value_that_stood_there_before_the_last_event_is_told_as_a_lost_update(
    ref: SessionRef, stored: Any, lost: bool
) -> None:
    put(ref, first=1, gone=[1], n=stored)
    (drifted,) = drift.own(ref, actor=SYSTEM).drifted
    assert drifted.lost == lost


def test_a_first_write_that_is_lost_is_told(ref: SessionRef) -> None:
    add(ref, fresh=1)
    put(ref, first=1, gone=[1], n=2)
    (drifted,) = drift.own(ref, actor=SYSTEM).drifted
    assert (drifted.change, drifted.lost) == (Change("fresh", 1, ABSENT), True)


def test_a_state_of_many_events_and_scopes_has_no_drift(ref: SessionRef) -> None:
    add(ref, ("first",), user__tier=1, app__limit=None, temp__x=1)
    add(ref, ("user:tier",), first=None)
    assert drift.own(ref, actor=SYSTEM) == drift.Report([], [], drift.own(ref, actor=SYSTEM).revision, 5)
    assert drift.shared(ref, actor=SYSTEM) == drift.Report()


def test_keys_older_than_adkweb_that_no_event_wrote_cannot_be_known(ref: SessionRef) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    put(ref, first=7, n=1)
    report = drift.own(ref, actor=SYSTEM)
    assert ([each.change for each in report.drifted], report.unknown) == ([Change("n", 2, 1)], ["first"])


def test_nothing_is_told_of_a_session_that_is_being_imported(ref: SessionRef) -> None:
    put(ref, **IMPORTING)
    assert drift.own(ref, actor=SYSTEM).untold == "importing"


def test_nothing_is_told_where_events_have_no_numbers(
    new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    source = open_source(new_database("postgresql"))
    ref = create_session(source, "booking", "ana", actor=MARIA, session_id="s1", state={"a": 1})
    put(ref, a=2)
    database = connections.databases[source]["ADKWEB"]
    database["adopted"] = False
    try:
        assert drift.own(ref, actor=SYSTEM) == drift.Report(untold="places")
    finally:
        database["adopted"] = True


def test_a_session_that_is_not_there_is_none(ref: SessionRef) -> None:
    for ask in (drift.own, drift.shared):
        with pytest.raises(NotFound):
            ask(ref._replace(session_id="ghost"), actor=SYSTEM)


# --- Shared keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "name"), [("user_states", "user:tier"), ("app_states", "app:limit")])
def test_a_shared_key_that_is_not_what_was_last_written_is_told_with_who_wrote_it(
    ref: SessionRef, table: str, name: str
) -> None:
    other = create_session(ref.source, "booking", "ana", actor=MARIA, session_id="s2")
    event = add(other, **{name.replace(":", "__"): "written"})
    store_shared(ref, table, **{name.partition(":")[2]: "put there"})
    for session in (ref, other):
        (drifted,) = drift.shared(session, actor=SYSTEM).drifted
        assert drifted.change == Change(name, "written", "put there")
        assert drifted.last is not None
        assert (drifted.last.ref, drifted.last.event_id) == (other, event)


def test_a_shared_key_that_was_taken_away_is_told(ref: SessionRef) -> None:
    add(ref, user__tier="silver", user__other=1)
    store_shared(ref, "user_states", other=1)
    (drifted,) = drift.shared(ref, actor=SYSTEM).drifted
    assert (drifted.change, drifted.lost) == (Change("user:tier", "silver", ABSENT), False)


def test_a_shared_key_of_which_nothing_is_left_that_wrote_it_cannot_be_known(ref: SessionRef) -> None:
    other = create_session(ref.source, "booking", "ana", actor=MARIA, session_id="s2")
    add(other, app__new=1)
    delete_session(other, actor=MARIA)
    store_shared(ref, "user_states", tier="gold", put=1)
    report = drift.shared(ref, actor=SYSTEM)
    assert (report.drifted, report.unknown) == ([], ["app:new", "user:put"])


# --- At a glance, without a replay ------------------------------------------------------------------------------------


def glance(ref: SessionRef) -> dict[str, Any]:
    return drift.glance(moments.state_now(ref, actor=SYSTEM), actor=SYSTEM)


def test_a_glance_tells_a_session_s_own_keys_as_a_replay_does(ref: SessionRef) -> None:
    add(ref, late=1, gone=None)
    assert glance(ref) == {}
    put(ref, n=1, extra=5, gone=2)
    assert glance(ref) == {each.change.key: each.change.old for each in drift.own(ref, actor=SYSTEM).drifted}
    gone = {"gone": None} if adk_merge_bug.possible(ref.source) == adk_merge_bug.REPLACED else {}  # a null, or no key
    assert glance(ref) == {"extra": ABSENT, "first": 1, "late": 1, "n": 2} | gone


@pytest.mark.parametrize(("tier", "told"), [("silver", {"user:tier": "platinum"}), ("bronze", {}), ("platinum", {})])
def test_a_glance_tells_of_a_shared_key_only_that_its_last_update_was_lost(
    ref: SessionRef, tier: str, told: dict[str, Any]
) -> None:
    """google-adk's create_session writes shared state without an event: any other value may be one of those."""
    add(ref, user__tier="silver")
    add(ref, user__tier="platinum")
    store_shared(ref, "user_states", tier=tier)
    assert glance(ref) == told


def test_a_glance_guesses_nothing(ref: SessionRef) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    add(ref, null=None)
    put(ref, first=7, n=2)  # `null` is gone: ADK for Java removes a key by null
    assert glance(ref) == {}


def test_what_is_written_while_somebody_looks_is_no_drift(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    read, written = views.session, []

    def written_just_after(*arguments: Any, **named: Any) -> Any:
        answer = read(*arguments, **named)
        written.append(add(ref, n=10 + len(written)))
        return answer

    monkeypatch.setattr(views, "session", written_just_after)
    assert glance(ref) == {}
    assert len(written) == 2


# --- Repaired ---------------------------------------------------------------------------------------------------------


def test_what_is_stored_stays_and_becomes_an_event(ref: SessionRef) -> None:
    put(ref, n=1, gone=None, extra=5)
    store_shared(ref, "user_states", tier="silver")
    before = state_of(ref)
    done = repair(ref, True, reason="it is right")
    assert done.event["actions"]["state_delta"] == {
        "n": 1, "gone": None, "extra": 5, "first": None, "user:tier": "silver"
    }  # fmt: skip
    note = done.event["custom_metadata"]["adkweb"]
    assert (note["actor"], note["reason"], note["removed"]) == ("maria", "it is right", ["first"])
    assert note["replaced"] == {"n": 2, "gone": [1], "first": 1, "user:tier": "gold"}
    assert state_of(ref) == before
    assert (drift.own(ref, actor=SYSTEM).drifted, drift.shared(ref, actor=SYSTEM).drifted) == ([], [])
    assert moments.state_at(ref, done.event["id"], actor=SYSTEM).state.session == {"n": 1, "gone": None, "extra": 5}


def test_what_the_events_say_is_put_back(ref: SessionRef) -> None:
    put(ref, n=1, gone=None, extra=5)
    store_shared(ref, "user_states", tier="silver")
    done = repair(ref, False)
    note = done.event["custom_metadata"]["adkweb"]
    assert (note["removed"], note["replaced"]) == (["extra"], {"n": 1, "gone": None, "extra": 5, "user:tier": "silver"})
    assert state_of(ref)["session"] == {"first": 1, "gone": [1], "n": 2}
    assert state_of(ref)["user"] == {"tier": "gold"}
    assert (drift.own(ref, actor=SYSTEM).drifted, drift.shared(ref, actor=SYSTEM).drifted) == ([], [])


def test_only_the_keys_that_were_chosen_are_repaired_each_its_own_way(ref: SessionRef) -> None:
    put(ref, n=1, gone=None, extra=5, first=1)
    edits_repair.repair(ref, [*chosen(ref, True, "n"), *chosen(ref, False, "gone")], actor=MARIA)
    assert state_of(ref)["session"] == {"first": 1, "gone": [1], "n": 1, "extra": 5}
    assert [each.change for each in drift.own(ref, actor=SYSTEM).drifted] == [Change("extra", ABSENT, 5)]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("meanwhile", ["event", "table", "other key's event"])
def test_a_key_that_somebody_wrote_meanwhile_is_a_conflict_and_nothing_is_written(
    ref: SessionRef, keep: bool, meanwhile: str
) -> None:
    put(ref, first=1, gone=[1], n=1)
    choices = chosen(ref, keep)
    if meanwhile == "event":
        add(ref, n=7)
    elif meanwhile == "table":
        put(ref, first=1, gone=[1], n=7)
    else:
        add(ref, m=7)
        assert edits_repair.repair(ref, choices, actor=MARIA).seq is not None
        return
    before = everything(ref.source)
    with pytest.raises(Conflict) as refused:
        edits_repair.repair(ref, choices, actor=MARIA)
    assert refused.value.detail["current"] == {"n": 7}
    assert everything(ref.source) == before


def test_a_shared_key_that_somebody_wrote_meanwhile_is_a_conflict(ref: SessionRef) -> None:
    store_shared(ref, "app_states", limit=1)
    choices = chosen(ref, True)
    other = create_session(ref.source, "booking", "eva", actor=MARIA, session_id="s2")
    add(other, app__limit=1)  # the same value: what is stored is explained by now
    before = everything(ref.source)
    with pytest.raises(Conflict):
        edits_repair.repair(ref, choices, actor=MARIA)
    assert everything(ref.source) == before


@pytest.mark.parametrize("keep", [True, False])
def test_the_same_repair_sent_again_is_stored_once(ref: SessionRef, keep: bool) -> None:
    put(ref, first=1, gone=[1], n=1)
    choices = chosen(ref, keep)
    first = edits_repair.repair(ref, choices, actor=MARIA, once="form")
    again = edits_repair.repair(ref, choices, actor=MARIA, once="form")
    assert (again.seq, again.event["id"]) == (None, first.event["id"])
    assert len(events_of(ref)) == 4


def test_a_repair_beside_an_agent_that_writes_succeeds_and_loses_nothing(ref: SessionRef) -> None:
    put(ref, first=1, gone=[1], n=1)
    choices = chosen(ref, True)
    done = in_threads(
        [
            lambda: edits_repair.repair(ref, choices, actor=MARIA),
            *(lambda n=n: add(ref, **{f"k{n}": n}) for n in range(8)),
        ]
    )
    assert [each for each in done if isinstance(each, Exception)] == []
    assert drift.own(ref, actor=SYSTEM).drifted == []
    assert state_of(ref)["session"]["n"] == 1


def test_of_two_repairs_at_once_one_is_written(ref: SessionRef) -> None:
    put(ref, first=1, gone=[1], n=1)
    both = [chosen(ref, True), chosen(ref, False)]
    done = in_threads([lambda c=c: edits_repair.repair(ref, c, actor=MARIA) for c in both])  # type: ignore[misc]
    assert sorted(type(each).__name__ for each in done) == ["Appended", "Conflict"]
    assert drift.own(ref, actor=SYSTEM).drifted == []


def test_tens_of_thousands_of_keys_that_drifted_can_be_chosen(ref: SessionRef) -> None:
    names = [f"k{number}" for number in range(30_000)]
    put(ref, **dict.fromkeys(names, 1))
    assert len(choose(ref, names, [], actor=SYSTEM)) == len(names)
    with pytest.raises(Invalid, match="k7: appears twice"):
        choose(ref, names, ["k7"], actor=SYSTEM)
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    assert len(drift.own(ref, actor=SYSTEM).unknown) == len(names)


def test_a_key_that_does_not_differ_cannot_be_repaired(ref: SessionRef) -> None:
    with pytest.raises(Conflict):
        edits_repair.repair(ref, [Choice("n", True, 1, 2)], actor=MARIA)
    with pytest.raises(Invalid):
        edits_repair.repair(ref, [], actor=MARIA)


def test_a_key_with_a_prefix_in_a_sessions_own_state_is_told_and_no_event_can_repair_it(ref: SessionRef) -> None:
    put(ref, **{"first": 1, "gone": [1], "n": 2, "user:tier": "x"})
    (drifted,) = drift.own(ref, actor=SYSTEM).drifted
    assert (drifted.change, drifted.stray) == (Change("user:tier", ABSENT, "x"), True)
    before = everything(ref.source)
    with pytest.raises(Conflict):
        edits_repair.repair(ref, [Choice("user:tier", False, ABSENT, "x")], actor=MARIA)
    assert everything(ref.source) == before


def test_a_stored_value_that_is_no_json_cannot_be_kept_and_is_put_back(
    new_database: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    source = open_source(new_database("sqlite"))
    ref = create_session(source, "booking", "ana", actor=MARIA, session_id="s1", state={"n": 1})
    execute(source, """UPDATE sessions SET state = '{"n": NaN}'""")
    with pytest.raises(Invalid, match="NaN"):
        repair(ref, True)
    repair(ref, False)
    assert drift.own(ref, actor=SYSTEM).drifted == []


def test_who_may_only_read_repairs_nothing(ref: SessionRef) -> None:
    put(ref, n=1)
    choices = chosen(ref, True)
    with pytest.raises(NotAllowed):
        edits_repair.repair(ref, choices, actor=BOB)
