"""Sessions that are deleted, by whomever: what they wrote is never taken as never written, nor told as what stood before."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import example, given
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Invalid
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN, Scoped
from sessions_app.edits import undo
from sessions_app.history import drift, key_history, moments
from sessions_app.history.index import build
from sessions_app.models import StateChange
from sessions_app.reads import views
from sessions_app.sources import adoption, database, online
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import import_state
from sessions_app.writes.sessions import create_session, delete_session
from tests.adk.services import Adk
from tests.support.fold import ALICE, Fold, with_deletions

pytestmark = pytest.mark.django_db(transaction=True)


def append(ref: SessionRef, delta: dict[str, Any]) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}}
    return str(append_event(ref, event, actor=ALICE).event["id"])


def create(source: str, session: str, user: str = "ana", **state: Any) -> SessionRef:
    named = {name.replace("__", ":"): value for name, value in state.items()}
    return create_session(source, "booking", user, session_id=session, state=named, actor=ALICE)


def execute(source: str, statement: str) -> None:
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(statement)


def told_truly(told: Scoped, truth: Scoped) -> None:
    """Every value is what it was, or not known; of its own keys every one is known."""
    assert told.session == truth.session
    for scope in ("app", "user"):
        for name, value in told.scope(scope).items():
            assert value is UNKNOWN or equal(value, truth.scope(scope).get(name, ABSENT)), (scope, name, value)
        assert not truth.scope(scope).keys() - told.scope(scope).keys(), scope


@pytest.mark.guarantee(
    "History",
    "No matter how sessions are deleted, everything adkweb shows about the past is either correct or marked as unknown.",
)
@given(history=with_deletions)
@example(
    history=[
        ("create", "ana", "s1", {}),
        ("append", "ana", "s1", {"n": None}, [], "i1"),
        ("append", "ana", "s1", {"n": 1}, [], "i1"),
    ]
)
def test_however_sessions_are_deleted_what_is_told_is_true(
    source: str, settings: Settings, history: list[tuple[Any, ...]]
) -> None:
    # Else a null that was overwritten is unknown, until another example leaves evidence in the file that deltas replace.
    settings.SQLITE_STATE = "replaced"
    fold = Fold(source)
    for what, *rest in history:
        if what == "look":
            build.catch_up(source)
        else:
            getattr(fold, what)(*rest)
    for rebuilt in (False, True):
        if rebuilt:
            build.rebuild(source)
        for ref, event_id, before, after in fold.seen:
            told_truly(moments.state_at(ref, event_id, actor=SYSTEM).state, after)
            told_truly(moments.state_at(ref, event_id, before=True, actor=SYSTEM).state, before)
        for ref in fold.session:
            now, stored = moments.state_now(ref, actor=SYSTEM).state, fold.state(ref)
            assert all(equal(now.scope(each), stored.scope(each)) for each in ("app", "user", "session"))


def test_a_creation_is_not_forgotten_when_the_newest_event_goes(source: str) -> None:
    other = create(source, "other")
    append(other, {"n": 1})
    build.catch_up(source)
    ref = create(source, "mine", user__tier="basic")
    newest = create(source, "newest", "ben")
    append(newest, {"n": 1})
    build.catch_up(source)
    delete_session(newest, actor=ALICE)
    gold = append(ref, {"user:tier": "gold"})
    assert moments.state_at(ref, gold, before=True, actor=SYSTEM).state.user == {"tier": "basic"}
    assert [step.then for step in undo.undo(ref, gold, actor=SYSTEM).steps] == ["basic"]


def test_a_session_that_is_created_after_the_newest_events_were_deleted_comes_after_those_before_it(
    source: str,
) -> None:
    gone = create(source, "gone")
    append(gone, {"n": 1})
    create(source, "other", "ben", app__total=1)
    delete_session(gone, actor=ALICE)
    ref = create(source, "mine", app__total=2)
    for _look in range(3):
        build.catch_up(source)
    changes = StateChange.objects.filter(key="total").count()
    assert changes == 2, "each creation is noted once"
    for _round in range(2):
        first = append(ref, {"app:total": 3})
        assert moments.state_at(ref, first, before=True, actor=SYSTEM).state.app == {"total": 2 + _round}
        build.rebuild(source)


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("by_adkweb", [True, False])
def test_what_it_wrote_last_is_not_told_as_the_value_before_it(source: str, looked: bool, by_adkweb: bool) -> None:
    one, two = create(source, "one"), create(source, "two")
    append(one, {"user:tier": "silver", "app:limit": 1})
    append(two, {"user:tier": "gold", "app:limit": 2})
    if looked:
        build.catch_up(source)
    if by_adkweb:
        delete_session(two, actor=ALICE)
    else:
        execute(source, "DELETE FROM sessions WHERE id = 'two'")
    between = append(one, {"n": 1})
    last = append(one, {"user:tier": "platinum", "app:limit": 3})
    for _round in range(2):
        state = moments.state_at(one, between, actor=SYSTEM).state
        assert (state.user, state.app) == ({"tier": UNKNOWN}, {"limit": UNKNOWN})
        assert key_history.history(one, "user:tier", actor=SYSTEM).rows[0].change.old is UNKNOWN
        with pytest.raises(Invalid, match="Earlier values are unknown"):
            undo.undo(one, last, actor=SYSTEM)
        build.rebuild(source)


def test_what_it_began_with_is_not_told_as_the_value_before_it(source: str) -> None:
    one = create(source, "one")
    append(one, {"user:tier": "silver"})
    two = create(source, "two", user__tier="gold")
    delete_session(two, actor=ALICE)
    between = append(one, {"n": 1})
    append(one, {"user:tier": "platinum"})
    assert moments.state_at(one, between, actor=SYSTEM).state.user == {"tier": UNKNOWN}


def test_it_makes_nothing_unknown_that_it_did_not_write(source: str) -> None:
    one, two, ben = create(source, "one"), create(source, "two"), create(source, "three", "ben")
    append(one, {"user:tier": "silver", "app:limit": 1})
    append(two, {"n": 1, "user:other": 1})
    append(ben, {"user:tier": "gold"})
    between = append(one, {"n": 1})
    append(one, {"user:tier": "platinum", "app:limit": 2})
    delete_session(two, actor=ALICE)
    delete_session(ben, actor=ALICE)
    build.rebuild(source)
    state = moments.state_at(one, between, actor=SYSTEM).state
    assert (state.user["tier"], state.app) == ("silver", {"limit": 1})


def test_adk_deletes_the_session_of_the_newest_events(form: str, new_database: Any, open_source: Any) -> None:
    where = new_database(form)
    adk = Adk(form, where)
    for name in ("stays", "goes"):
        adk.create(name)
    source = open_source(where, "")
    stays = adk.get("stays")
    adk.append(stays, user__tier="silver")
    goes = adk.get("goes")
    for number in range(10):
        adk.append(goes, n=number, user__count=number)
    made = create(source, "made", user__tier="basic")
    build.catch_up(source)
    adk.run(adk.service.delete_session(app_name="booking", user_id="ana", session_id="goes"))
    gold = append(made, {"user:tier": "gold"})
    later = [append(made, {"n": number}) for number in range(12)]
    adk.close()
    for _round in range(2):
        assert moments.state_at(made, gold, before=True, actor=SYSTEM).state.user["tier"] == "basic"
        for each in later:
            assert moments.state_at(made, each, actor=SYSTEM).state.user["tier"] == "gold"
        rows = key_history.history(made, "user:tier", actor=SYSTEM).rows
        assert [row.change.new for row in rows] == ["gold", "basic", "silver"]
        assert [step.then for step in undo.undo(made, gold, actor=SYSTEM).steps] == ["basic"]
        build.rebuild(source)


def test_state_that_stood_there_before_adopting_may_be_of_sessions_that_are_gone(
    form: str, new_database: Any, open_source: Any
) -> None:
    where = new_database(form)
    adk = Adk(form, where)
    adk.create("gone", {"user:tier": "gold", "app:limit": 10})
    adk.run(adk.service.delete_session(app_name="booking", user_id="ana", session_id="gone"))
    adk.close()
    ref = create(open_source(where, ""), "new")
    event_id = append(ref, {"user:tier": "silver", "app:limit": 11})
    before = moments.state_at(ref, event_id, before=True, actor=SYSTEM).state
    assert (before.user, before.app) == ({"tier": UNKNOWN}, {"limit": UNKNOWN})


def test_state_that_was_imported_without_a_session_is_not_taken_as_never_there(source: str) -> None:
    at = SessionRef(source, "booking", "ana", "")
    import_state(at, "user", {"tier": "gold"}, actor=ALICE, updated=1.0, overwrite=False)
    import_state(at, "app", {"limit": 10}, actor=ALICE, updated=1.0, overwrite=False)
    ref = create(source, "new")
    event_id = append(ref, {"user:tier": "silver", "app:limit": 11})
    before = moments.state_at(ref, event_id, before=True, actor=SYSTEM).state
    assert (before.user, before.app) == ({"tier": UNKNOWN}, {"limit": UNKNOWN})


@pytest.mark.parametrize("form", ["postgresql"])
def test_after_a_truncate_nothing_is_taken_as_never_written(source: str) -> None:
    append(create(source, "one"), {"user:tier": "gold"})
    execute(source, "TRUNCATE sessions, events")
    ref = create(source, "two")
    event_id = append(ref, {"user:tier": "silver"})
    assert moments.state_at(ref, event_id, before=True, actor=SYSTEM).state.user == {"tier": UNKNOWN}


def test_very_many_writes_of_a_session_that_is_gone_are_passed_over(source: str) -> None:
    here = create(source, "here")
    append(here, {"user:n": "kept"})
    gone = create(source, "gone")
    for number in range(1_200):
        append(gone, {"user:n": number})
    delete_session(gone, actor=ALICE)
    append(here, {"n": 1})
    (write,) = key_history.history(here, "user:n", limit=1, actor=SYSTEM).rows
    assert write.change.new == "kept"
    assert [each.change.key for each in drift.shared(here, actor=SYSTEM).drifted] == ["user:n"]


def test_where_nothing_is_new_nothing_is_written(source: str) -> None:
    gone = create(source, "gone")
    append(gone, {"user:n": 1})
    append(create(source, "here"), {"user:n": 2})
    delete_session(gone, actor=ALICE)
    build.catch_up(source)
    build.catch_up(source)
    execute(source, "UPDATE app_states SET update_time = update_time")  # a transaction more
    with CaptureQueriesContext(connection) as queries:
        build.catch_up(source)
    assert [query["sql"] for query in queries if not query["sql"].startswith("SELECT")] == []


def test_adopting_what_is_adopted_notes_nothing_again(source: str) -> None:
    append(create(source, "one"), {"user:tier": "gold"})
    before = adoption.missing(source)
    online.add(source)
    assert before == []
    assert views.session(SessionRef(source, "booking", "ana", "one"), actor=SYSTEM).state.user == {"tier": "gold"}
