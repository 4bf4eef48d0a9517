"""The same random operations on adkweb and on google-adk's own InMemorySessionService have the same outcome.

Where the two are promised to differ, DIFFERENCES says so and why, and each difference is shown by a test of its own.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event as AdkEvent
from google.adk.sessions import InMemorySessionService
from google.adk.sessions import Session as AdkSession
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import AlreadyExists, Conflict, Invalid, NotFound, StaleSession
from sessions_app.domain.event import Event, new_id
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import State
from sessions_app.reads import lists, timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.strategies import states, text
from tests.support.people import ALICE

T = TypeVar("T")
_apps = itertools.count()


class Both:
    """One app, in a source of adkweb's and in ADK's memory; operations are done on both and must agree."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.app = f"app{next(_apps)}"
        self.adk = InMemorySessionService()
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.close()

    def ref(self, user: str, session_id: str) -> SessionRef:
        return SessionRef(self.source, self.app, user, session_id)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def create(self, user: str, session_id: str, state: State) -> None:
        def theirs() -> object:
            return self.run(
                self.adk.create_session(app_name=self.app, user_id=user, session_id=session_id, state=dict(state))
            )

        def ours() -> object:
            return create_session(self.source, self.app, user, session_id=session_id, state=state, actor=ALICE)

        self._same_outcome(theirs, ours)

    def append(self, ref: SessionRef, event: Event) -> None:
        self._same_outcome(
            lambda: self.append_to_adk(ref, event), lambda: append_event(ref, event, actor=ALICE, origin="person")
        )

    def append_to_adk(self, ref: SessionRef, event: Event) -> object:
        session = self.in_adk(ref) or AdkSession(app_name=self.app, user_id=ref.user_id, id=ref.session_id)
        return self.run(self.adk.append_event(session, AdkEvent.model_validate(event)))

    def in_adk(self, ref: SessionRef) -> AdkSession | None:
        return self.run(self.adk.get_session(app_name=self.app, user_id=ref.user_id, session_id=ref.session_id))

    def delete_from_adk(self, ref: SessionRef) -> None:
        self.run(self.adk.delete_session(app_name=self.app, user_id=ref.user_id, session_id=ref.session_id))

    def _same_outcome(self, theirs: Callable[[], object], ours: Callable[[], object]) -> None:
        same = {AlreadyExistsError: AlreadyExists, SessionNotFoundError: NotFound}
        try:
            theirs()
        except tuple(same) as error:
            with pytest.raises(same[type(error)]):
                ours()
        else:
            ours()

    def assert_same(self, user: str, session_id: str) -> None:
        """The session is in both or in neither, with equal state and the same events in the same order."""
        ref = self.ref(user, session_id)
        theirs = self.in_adk(ref)
        if theirs is None:
            with pytest.raises(NotFound):
                views.session(ref, actor=SYSTEM)
            return
        assert equal(views.session(ref, actor=SYSTEM).state.merged(), theirs.state)
        ours = timeline.events(ref, actor=SYSTEM).rows
        assert [view.id for view in ours] == [event.id for event in theirs.events]
        for mine, other in zip(ours, theirs.events, strict=True):
            assert equal(mine.description.delta, other.actions.state_delta)
            assert (mine.timestamp, mine.description.author) == (other.timestamp, other.author)
            assert mine.description.text == "".join(part.text or "" for part in other.content.parts or [])  # type: ignore[union-attr]


# --- What must agree --------------------------------------------------------------------------------------------------

USERS, IDS = ("user", "ユーザー/2"), ("s", "a b/..%2F")
users, ids = st.sampled_from(USERS), st.sampled_from(IDS)


class Machine(RuleBasedStateMachine):
    """What hypothesis does to both, in any order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.both = Both(source)
        self.sent: list[Event] = []

    def teardown(self) -> None:
        self.both.close()

    @rule(user=users, session_id=ids, state=states)
    def create(self, user: str, session_id: str, state: State) -> None:
        self.both.create(user, session_id, state)

    @rule(user=users, session_id=ids, delta=states, said=text, timestamp=st.floats(0, 4e9))
    def append(self, user: str, session_id: str, delta: State, said: str, timestamp: float) -> None:
        event = {
            "id": new_id(),
            "invocation_id": "i",
            "author": user,
            "timestamp": timestamp,
            "content": {"parts": [{"text": said}]},
            "actions": {"state_delta": delta},
        }
        self.sent.append(event)
        self.both.append(self.both.ref(user, session_id), event)

    @rule(user=users, session_id=ids, data=st.data())
    def append_again(self, user: str, session_id: str, data: st.DataObject) -> None:
        if self.sent:
            self.both.append(self.both.ref(user, session_id), data.draw(st.sampled_from(self.sent)))

    @rule(user=users, session_id=ids, delta=states)
    def append_a_partial_event(self, user: str, session_id: str, delta: State) -> None:
        event = {"author": user, "partial": True, "actions": {"state_delta": delta}}
        self.both.append(self.both.ref(user, session_id), event)

    @rule(user=users, session_id=ids)
    def delete(self, user: str, session_id: str) -> None:
        ref = self.both.ref(user, session_id)
        if self.both.in_adk(ref):
            self.both.delete_from_adk(ref)
            delete_session(ref, actor=ALICE)

    @invariant()
    def sessions_are_the_same(self) -> None:
        for user, session_id in itertools.product(USERS, IDS):
            self.both.assert_same(user, session_id)

    @invariant()
    def lists_are_the_same(self) -> None:
        for user in (None, *USERS):
            found = self.both.run(self.both.adk.list_sessions(app_name=self.both.app, user_id=user)).sessions
            rows = lists.sessions(self.both.source, self.both.app, user, actor=SYSTEM).rows
            assert {row.ref[2:] for row in rows} == {(session.user_id, session.id) for session in found}
            times = [row.update_time for row in rows]
            assert times == sorted(times, reverse=True)

    @invariant()
    def user_state_is_the_same(self) -> None:
        for user in USERS:
            theirs = self.both.run(self.both.adk.get_user_state(app_name=self.both.app, user_id=user))
            try:
                ours = views.user_state(self.both.source, self.both.app, user, actor=SYSTEM)
            except NotFound:
                ours = {}
            assert equal(ours, theirs)


@pytest.mark.hypothesis
def test_the_same_operations_have_the_same_outcome_as_in_adks_memory(source: str) -> None:
    quick = settings(max_examples=max(settings().max_examples // 2, 5), stateful_step_count=15)
    run_state_machine_as_test(lambda: Machine(source), settings=quick)


# --- What is promised to differ ---------------------------------------------------------------------------------------


def _another_event_under_a_stored_id(both: Both, ref: SessionRef) -> None:
    event: Event = {"id": "e", "author": "a", "timestamp": 1.0}
    both.append(ref, event)
    both.append_to_adk(ref, {**event, "author": "b"})
    session = both.in_adk(ref)
    assert session is not None
    assert [e.id for e in session.events] == ["e", "e"]
    with pytest.raises(Conflict):
        append_event(ref, {**event, "author": "b"}, actor=ALICE)


def _an_old_timestamp(both: Both, ref: SessionRef) -> None:
    before = views.session(ref, actor=SYSTEM).revision
    both.append(ref, {"timestamp": 1000.0})
    session = both.in_adk(ref)
    assert session is not None
    assert session.last_update_time == 1000.0
    assert views.session(ref, actor=SYSTEM).revision > before


def _an_old_copy_of_the_session(both: Both, ref: SessionRef) -> None:
    old, revision = both.in_adk(ref), views.session(ref, actor=SYSTEM).revision
    assert old is not None
    both.append(ref, {"id": "one", "timestamp": 1.0})
    both.run(both.adk.append_event(old, AdkEvent(id="two", author="x")))
    with pytest.raises(StaleSession):
        append_event(ref, {"id": "two"}, actor=ALICE, expected=revision)


def _ids_over_128_characters(both: Both, ref: SessionRef) -> None:
    both.append_to_adk(ref, {"id": "x" * 129})
    with pytest.raises(Invalid):
        append_event(ref, {"id": "x" * 129}, actor=ALICE)


def _values_that_are_not_json(both: Both, ref: SessionRef) -> None:
    event: Event = {"actions": {"state_delta": {"a": float("nan"), "b": "\0"}}}
    both.append_to_adk(ref, event)
    with pytest.raises(Invalid):
        append_event(ref, event, actor=ALICE)


def _removing_a_key(both: Both, ref: SessionRef) -> None:
    both.append(ref, {"actions": {"state_delta": {"a": 1}}})
    removal: Event = {"actions": {"state_delta": {"a": None}}, "custom_metadata": {"adkweb": {"removed": ["a"]}}}
    both.append(ref, removal)
    session = both.in_adk(ref)
    assert session is not None
    assert session.state == {"a": None}
    assert views.session(ref, actor=SYSTEM).state.merged() == {}


def _deleting_what_is_not_there(both: Both, ref: SessionRef) -> None:
    both.delete_from_adk(both.ref("user", "nobody"))
    with pytest.raises(NotFound):
        delete_session(both.ref("user", "nobody"), actor=ALICE)


def _blanks_around_an_id_that_is_looked_up(both: Both, ref: SessionRef) -> None:
    padded = both.ref(ref.user_id, f" {ref.session_id} ")
    assert both.in_adk(padded) is not None
    with pytest.raises(NotFound):
        views.session(padded, actor=SYSTEM)


DIFFERENCES: list[tuple[Callable[[Both, SessionRef], None], str]] = [
    (_another_event_under_a_stored_id, "the tables' key allows one; silently keeping either would lose an event"),
    (_an_old_timestamp, "a revision that moves backwards hides a write from everybody who compares it"),
    (_an_old_copy_of_the_session, "ADK's own database services refuse it too; only its memory does not"),
    (_ids_over_128_characters, "ADK's columns hold 128 characters"),
    (
        _values_that_are_not_json,
        "no database can hold them all, and NaN would read back as another value or not at all",
    ),
    (_removing_a_key, "Python ADK cannot remove a key; a person can, and ADK reads null, which its rewind means by it"),
    (_deleting_what_is_not_there, "a person who deletes should hear that somebody else already did"),
    (_blanks_around_an_id_that_is_looked_up, "other programs store ids with blanks; each must stay reachable as it is"),
]


@pytest.fixture
def both(source: str) -> Iterator[Both]:
    """An app in both."""
    made = Both(source)
    yield made
    made.close()


@pytest.mark.guarantee(
    "Writing",
    "Given the same events, adkweb stores the same state as google-adk, except for differences listed in a test.",
)
@pytest.mark.parametrize(
    ("difference", "reason"), DIFFERENCES, ids=[shown.__name__.strip("_") for shown, _reason in DIFFERENCES]
)
def test_adkweb_differs_from_adks_memory_only_where_promised(
    both: Both, difference: Callable[[Both, SessionRef], None], reason: str
) -> None:
    both.create("user", "s", {})
    difference(both, both.ref("user", "s"))
