"""google-adk's services and adkweb on one database: whatever one writes, the other reads and goes on from."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import GetSessionConfig

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AlreadyExists, NotFound, StaleSession
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit as edits
from sessions_app.edits.edit import Entry
from sessions_app.reads import lists, timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.adk.services import APP, USER, Adk, key_of
from tests.conftest import formats

STATE = {"step": "search", "user:tier": "gold", "app:version": 3, "temp:raw": [1]}
STORED = {"step": "search", "user:tier": "gold", "app:version": 3}


@pytest.fixture(params=formats("postgresql"))
def form(request: pytest.FixtureRequest) -> str:
    """Returns each of the formats in which ADK keeps sessions."""
    return str(request.param)


def test_adk_uses_a_database_that_adkweb_created_at_once(create: Callable[[], str], adk: Adk) -> None:
    source = create()
    session = adk.create(state=STATE)
    adk.append(session, "Hello", step="book", app__version=4)
    adk.create("s2")
    listed = adk.run(adk.service.list_sessions(app_name=APP, user_id=USER))
    assert [found.id for found in listed.sessions] == ["s1", "s2"]
    assert adk.get().state == {"step": "book", "user:tier": "gold", "app:version": 4}
    assert adk.run(adk.service.get_user_state(app_name=APP, user_id=USER)) == {"tier": "gold"}
    assert [row.ref.session_id for row in lists.sessions(source, APP, actor=SYSTEM).rows] == ["s2", "s1"]
    view = views.session(key_of(source), actor=SYSTEM)
    assert view.state.merged() == {"step": "book", "user:tier": "gold", "app:version": 4}
    (shown,) = timeline.events(view.ref, actor=SYSTEM).rows
    assert (shown.description.text, shown.description.delta) == ("Hello", {"step": "book", "app:version": 4})
    adk.run(adk.service.delete_session(app_name=APP, user_id=USER, session_id="s1"))
    with pytest.raises(NotFound):
        views.session(key_of(source), actor=SYSTEM)
    assert [row.ref.session_id for row in lists.sessions(source, APP, actor=SYSTEM).rows] == ["s2"]


@pytest.mark.guarantee(
    "Agents",
    "google-adk and adkweb can read and write the same database, even at the same time, without losing anything.",
)
def test_a_database_that_adk_wrote_first_is_adopted_and_both_go_on(adopt: Callable[[], str], adk: Adk) -> None:
    session = adk.create(state=STATE)
    for number in range(3):
        adk.append(session, f"before {number}", count=number)
    source = adopt()
    ref = key_of(source)
    assert [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows] == [
        f"before {n}" for n in range(3)
    ]
    adk.append(session, "after", count=3)  # the very session object from before the adoption
    append_event(ref, _message("from adkweb"), actor=Actor.holding("maria", "admin"))
    reloaded = adk.get()
    assert [_text(event) for event in reloaded.events] == ["before 0", "before 1", "before 2", "after", "from adkweb"]
    adk.append(reloaded, "and on", count=4)
    texts = [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows]
    assert texts == ["before 0", "before 1", "before 2", "after", "from adkweb", "and on"]
    assert views.session(ref, actor=SYSTEM).state.merged() == {**STORED, "count": 4}


def test_adk_sees_an_edit_in_state_and_in_events_and_appends_on(
    adopt: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    session = adk.create(state={**STATE, "draft": {"a": 1}})
    adk.append(session, "Hello", step="book")
    ref = key_of(adopt())
    entries = [
        Entry("step", "pay", "book"),
        Entry("draft", ABSENT, {"a": 1}),
        Entry("user:tier", None, "gold"),
        Entry("app:version", [1.5, {"é": "🧳"}], 3),
        Entry("user:new", 2**70, ABSENT),
    ]
    edit = edits.edit_state(ref, entries, actor=actor, reason="the customer called")
    reloaded = adk.get()
    expected = {"step": "pay", "user:tier": None, "user:new": 2**70, "app:version": [1.5, {"é": "🧳"}]}
    assert reloaded.state == expected
    last = reloaded.events[-1]
    assert (last.id, last.author) == (edit.event["id"], "system")
    assert last.actions.state_delta == {**expected, "draft": None}
    assert last.custom_metadata is not None
    assert last.custom_metadata["adkweb"] == {
        "actor": "maria@example.com",
        "reason": "the customer called",
        "replaced": {"step": "book", "draft": {"a": 1}, "user:tier": "gold", "app:version": 3},
        "removed": ["draft"],
    }
    adk.append(reloaded, "Goodbye", step="done")
    assert adk.get().state == {**expected, "step": "done"} == views.session(ref, actor=SYSTEM).state.merged()
    # Another session of this user sees the wider scopes.
    assert adk.create("s2").state == {name: value for name, value in expected.items() if ":" in name}


def test_a_session_that_adkweb_created_is_loaded_and_appended_to_by_adk(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    ref = create_session(create(), APP, USER, actor=actor, state=STATE, session_id="s1")
    append_event(ref, _message("Welcome", step="ready"), actor=actor)
    session = adk.get()
    assert session.state == {**STORED, "step": "ready"}
    assert [_text(event) for event in session.events] == ["Welcome"]
    adk.append(session, "Hi", step="go", user__tier="silver", app__version=None)
    assert [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows] == ["Welcome", "Hi"]
    assert views.session(ref, actor=SYSTEM).state.merged() == {"step": "go", "user:tier": "silver", "app:version": None}
    assert views.session(ref, actor=SYSTEM).initial_state == STORED


def test_an_empty_session_of_adkwebs_can_be_appended_to_by_adk(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    source = create()
    for user in ("ana", "지우"):
        create_session(source, APP, user, actor=actor, session_id="s1")
        adk.append(adk.get(user=user), "Hi", a=1, app__b=2, user__c=3)
        state = views.session(key_of(source, user=user), actor=SYSTEM).state.merged()
        assert state == {"a": 1, "app:b": 2, "user:c": 3}


def test_an_edit_makes_adks_old_session_object_stale_and_a_reloaded_one_goes_on(
    adopt: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    old = adk.create(state={"step": 1})
    adk.append(old, "first", step=2)
    ref = key_of(adopt())
    edits.edit_state(ref, [Entry("step", 3, 2)], actor=actor)
    with pytest.raises(StaleSessionError):
        adk.append(old, "lost", step=99)
    assert views.session(ref, actor=SYSTEM).state.session == {"step": 3}
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 2
    adk.append(adk.get(), "second", step=4)
    assert views.session(ref, actor=SYSTEM).state.session == {"step": 4}


def test_an_edit_with_a_clock_behind_adks_still_makes_the_old_session_stale(
    adopt: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    old = adk.create()
    ref = key_of(adopt())
    append_event(ref, _message("from another machine", at=time.time() - 3600), actor=actor)
    with pytest.raises(StaleSessionError):
        adk.append(old, "lost")
    adk.append(adk.get(), "kept")
    assert [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows] == [
        "from another machine",
        "kept",
    ]


def test_an_adk_append_makes_adkwebs_revision_stale(adopt: Callable[[], str], adk: Adk, actor: Actor) -> None:
    session = adk.create()
    ref = key_of(adopt())
    seen = views.session(ref, actor=SYSTEM).revision
    adk.append(session, "Hello")
    with pytest.raises(StaleSession):
        append_event(ref, _message("late"), actor=actor, expected=seen)
    append_event(ref, _message("in time"), actor=actor, expected=views.session(ref, actor=SYSTEM).revision)
    assert [_text(event) for event in adk.get().events] == ["Hello", "in time"]


def test_the_revision_that_adkweb_answers_is_the_one_that_adk_loads(
    adopt: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    adk.create()
    ref = key_of(adopt())
    for _ in range(20):
        revision = append_event(ref, _message("x"), actor=actor).revision
        assert adk.get().last_update_time == revision == views.session(ref, actor=SYSTEM).revision


def test_adk_and_adkweb_refuse_a_session_that_the_other_has_already(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    source = create()
    adk.create("s1")
    with pytest.raises(AlreadyExists):
        create_session(source, APP, USER, actor=actor, session_id="s1")
    create_session(source, APP, USER, actor=actor, session_id="s2")
    with pytest.raises(Exception, match="already exists"):
        adk.create("s2")


def test_what_adkweb_deletes_is_gone_for_adk_with_its_events(adopt: Callable[[], str], adk: Adk, actor: Actor) -> None:
    session = adk.create(state=STATE)
    adk.append(session, "Hello", step="book")
    ref = key_of(adopt())
    delete_session(ref, actor=actor)
    found = adk.run(adk.service.get_session(app_name=APP, user_id=USER, session_id="s1"))
    assert found is None
    with pytest.raises(SessionNotFoundError):
        adk.append(session, "late")
    again = adk.create("s1")
    assert (again.events, again.state) == ([], {"user:tier": "gold", "app:version": 3})
    assert timeline.events(ref, actor=SYSTEM).rows == []


def test_adk_reads_the_newest_events_and_those_after_a_moment_of_both_writers(
    adopt: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    session = adk.create()
    ref = key_of(adopt())
    for number in range(3):
        adk.append(session, f"adk {number}")
        append_event(ref, _message(f"adkweb {number}"), actor=actor)
        session = adk.get()
    middle = session.events[3].timestamp

    def get(**config: float) -> list[str]:
        found = adk.run(
            adk.service.get_session(app_name=APP, user_id=USER, session_id="s1", config=GetSessionConfig(**config))
        )
        assert found is not None
        return [_text(event) for event in found.events]

    assert get(num_recent_events=2) == ["adk 2", "adkweb 2"]
    assert get(after_timestamp=middle) == ["adkweb 1", "adk 2", "adkweb 2"]


def test_the_initial_state_of_sessions_that_adk_creates_after_adoption_is_known_exactly(
    adopt: Callable[[], str], adk: Adk
) -> None:
    adk.append(adk.create("before", state={"a": 1}), "Hello")
    source = adopt()
    adk.create("after", state={"a": {"b": [1.0, None, "é"]}, "user:u": 1, "app:p": 2, "temp:t": 3})
    adk.create("empty")
    changed = adk.get("after")
    adk.append(changed, "Hello", a=2)
    assert views.session(key_of(source, "before"), actor=SYSTEM).initial_state is None
    # ADK gives adkweb's trigger the session's own keys only: the others belong to no one session.
    assert views.session(key_of(source, "after"), actor=SYSTEM).initial_state == {"a": {"b": [1.0, None, "é"]}}
    assert views.session(key_of(source, "empty"), actor=SYSTEM).initial_state == {}


@pytest.mark.guarantee(
    "Agents",
    "google-adk and adkweb can read and write the same database, even at the same time, without losing anything.",
)
def test_two_agents_processes_and_adkweb_write_one_user_and_nothing_is_lost(
    adopt: Callable[[], str], connect: Callable[[], Adk], actor: Actor
) -> None:
    first, second = connect(), connect()
    one = first.create("one")
    source = adopt()
    two = second.create("two")
    for number in range(5):
        first.append(one, "x", **{f"user__a{number}": number})
        second.append(two, "y", **{f"user__b{number}": number})
        edits.edit_user_state(source, APP, USER, [Entry(f"user:c{number}", number, ABSENT)], actor=actor)
    expected = {f"{letter}{number}": number for letter in "abc" for number in range(5)}
    assert views.user_state(source, APP, USER, actor=SYSTEM) == expected
    assert first.run(first.service.get_user_state(app_name=APP, user_id=USER)) == expected


def _message(text: str, at: float | None = None, **delta: object) -> dict[str, object]:
    event: dict[str, object] = {
        "author": "system",
        "invocation_id": "i-1",
        "content": {"role": "model", "parts": [{"text": text}]},
        "actions": {"state_delta": delta},
    }
    return event if at is None else {**event, "timestamp": at}


def _text(event: object) -> str:
    return str(event.content.parts[0].text)  # type: ignore[attr-defined]
