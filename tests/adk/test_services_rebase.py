"""What becomes of an agent's session that somebody else has changed: it receives what it missed, and its run goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig

from sessions_app.access.actor import Actor
from sessions_app.adk import table_store
from sessions_app.adk.base import StoredSessionService
from sessions_app.api import events as api_events
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import delete_session
from tests.adk.services import Adk, key_of
from tests.adk.sides import APP, USER, event, texts, told

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

Ours = Callable[..., StoredSessionService]

NAME = {"app_name": APP, "user_id": USER, "session_id": "s1"}


class Rebasing:
    """A service that rebases, an edit from outside, and what the callback was told."""

    def __init__(self, service: StoredSessionService, source: str) -> None:
        self.service, self._source = service, source

    async def edit(self, *entries: Entry) -> None:
        """What a person does, in the thread of a page."""
        await asyncio.to_thread(edit.edit_state, key_of(self._source), entries, actor=Actor.holding("maria", "admin"))

    async def stored(self) -> Session:
        """The session as anybody else loads it."""
        found = await self.service.get_session(**NAME)
        assert found is not None
        return found


def run(ours: Ours, source: str, work: Callable[[Rebasing], Coroutine[Any, Any, None]], **how: Any) -> None:
    """Does it with a service of its own."""

    async def whole() -> None:
        async with ours(source, **{"on_stale": "rebase", **how}) as service:
            await work(Rebasing(service, source))

    asyncio.run(whole())


def test_a_session_receives_what_it_missed_in_order_and_then_its_own_event(source: str, ours: Ours) -> None:
    heard: list[tuple[Session, list[str]]] = []

    async def work(at: Rebasing) -> None:
        session = await at.service.create_session(**NAME, state={"step": 1, "old": True, "app:version": 1})
        events, state = session.events, session.state
        await at.service.append_event(session, event("one", step=2, temp__mine=7))
        await at.edit(Entry("step", "edited", 2), Entry("old", ABSENT, True), Entry("user:tier", "gold", ABSENT))
        await at.edit(Entry("app:version", None, 1))
        await at.service.append_event(session, event("two", own=1, temp__mine=8))
        assert session.events is events
        assert session.state is state  # what tools hold on to
        assert state == {"step": "edited", "user:tier": "gold", "app:version": None, "own": 1, "temp:mine": 8}
        stored = await at.stored()
        assert told(stored.events) == told(session.events)
        assert stored.state == {key: value for key, value in state.items() if key != "temp:mine"}
        assert stored.last_update_time == session.last_update_time
        assert [each.author for each in session.events] == ["booking", "system", "system", "booking"]
        ((same, missed),) = heard
        assert same is session
        assert missed == [each.id for each in session.events[1:3]]
        await at.service.append_event(session, event("three", step=3))
        assert len(heard) == 1  # nothing was missed this time

    run(ours, source, work, on_rebase=lambda session, missed: heard.append((session, [each.id for each in missed])))


def test_its_own_value_wins_over_one_that_it_missed(source: str, ours: Ours) -> None:
    async def work(at: Rebasing) -> None:
        session = await at.service.create_session(**NAME, state={"step": 1})
        await at.edit(Entry("step", "edited", 1))
        await at.service.append_event(session, event("mine", step="mine"))
        assert session.state["step"] == "mine" == (await at.stored()).state["step"]

    run(ours, source, work)


def test_adks_own_services_may_be_the_others(ours: Ours, create: Callable[[], str], adk: Adk) -> None:
    source = create()
    session = adk.create(state={"a": 1})

    async def load(at: Rebasing) -> None:
        mine.append(await at.stored())

    async def append(at: Rebasing) -> None:
        await at.service.append_event(mine[0], event("ours", b=2))
        assert told(mine[0]) == told(await at.stored())

    mine: list[Session] = []
    run(ours, source, load)
    adk.append(session, "adk's", a=2, user__u=1)
    run(ours, source, append)
    assert texts(mine[0]) == ["adk's", "ours"]
    assert mine[0].state == {"a": 2, "user:u": 1, "b": 2}


@pytest.mark.parametrize(
    "loaded", ["in part", "without events", "listed", "written out", "written out in part", "copied"]
)
def test_it_does_not_matter_how_the_session_was_loaded(source: str, ours: Ours, loaded: str) -> None:
    async def work(at: Rebasing) -> None:
        first = await at.service.create_session(**NAME)
        for number in range(3):
            await at.service.append_event(first, event(f"{number}", n=number))

        def again(session: Session) -> Session:
            return Session.model_validate_json(session.model_dump_json())

        last = GetSessionConfig(num_recent_events=0 if loaded == "without events" else 1)
        part = await at.service.get_session(**NAME, config=last)
        assert part is not None
        session, seen = {
            "in part": (part, ["2"]),
            "without events": (part, []),
            "listed": ((await at.service.list_sessions(app_name=APP)).sessions[0], ["0", "1", "2"]),
            "written out": (again(first), ["0", "1", "2"]),
            "written out in part": (again(part), ["2"]),
            "copied": (first.model_copy(deep=True), ["0", "1", "2"]),
        }[loaded]
        await at.edit(Entry("note", "edited", ABSENT))
        await at.service.append_event(session, event("mine"))
        assert texts(session) == [*seen, "mine"]
        assert session.events[-2].author == "system"
        assert session.state == {"n": 2, "note": "edited"}
        await at.service.append_event(session, event("and on"))

    run(ours, source, work)


def test_a_session_that_was_deleted_is_not_found_and_one_made_anew_under_its_id_is_another(
    source: str, ours: Ours
) -> None:
    async def work(at: Rebasing) -> None:
        for known in (0, 2):  # events
            session = await at.service.create_session(**NAME, state={"a": 1})
            for number in range(known):
                await at.service.append_event(session, event(f"{number}"))
            await at.service.delete_session(**NAME)
            with pytest.raises(SessionNotFoundError, match=r"^Session s1 not found\.$"):
                await at.service.append_event(session, event("late"))
            again = await at.service.create_session(**NAME, state={"a": 2})
            await at.service.append_event(again, event("another conversation"))
            with pytest.raises(StaleSessionError, match="reload the session"):
                await at.service.append_event(session, event("late"))
            assert texts(await at.stored()) == ["another conversation"]
            assert session.state == {"a": 1}
            await at.service.delete_session(**NAME)

    run(ours, source, work)


def test_a_session_whose_events_are_not_the_stored_ones_is_stale(source: str, ours: Ours) -> None:
    async def work(at: Rebasing) -> None:
        await at.service.create_session(**NAME)
        await at.edit(Entry("a", 1, ABSENT))
        by_hand = Session(app_name=APP, user_id=USER, id="s1", events=[event("never stored")])
        with pytest.raises(StaleSessionError):
            await at.service.append_event(by_hand, event("late"))
        empty = Session(app_name=APP, user_id=USER, id="s1")
        await at.service.append_event(empty, event("one that knows nothing"))
        assert [each.author for each in empty.events] == ["system", "booking"]

    run(ours, source, work)


def test_a_rewind_is_never_rebased(source: str, ours: Ours) -> None:
    """It brings back the state that its session had, which is not the stored one any more."""

    async def work(at: Rebasing) -> None:
        session = await at.service.create_session(**NAME)
        await at.service.append_event(session, event("one", a=1))
        await at.edit(Entry("a", 2, 1))
        rewind = Event(author="user", actions=EventActions(rewind_before_invocation_id="e-1", state_delta={"a": None}))
        with pytest.raises(StaleSessionError):
            await at.service.append_event(session, rewind)
        assert (await at.stored()).state == {"a": 2}

    run(ours, source, work)


def test_a_callback_may_be_asynchronous_may_append_and_may_fail(
    source: str, ours: Ours, caplog: pytest.LogCaptureFixture
) -> None:
    services: list[StoredSessionService] = []
    told_of: list[int] = []

    async def on_rebase(session: Session, missed: Sequence[Event]) -> None:
        told_of.append(len(missed))
        if len(told_of) == 2:
            raise ValueError("a fault of the callback's own")
        await services[0].append_event(session, event("noticed an edit"))

    async def work(at: Rebasing) -> None:
        services.append(at.service)
        session = await at.service.create_session(**NAME)
        await at.edit(Entry("a", 1, ABSENT))
        await at.service.append_event(session, event("one"))
        assert texts(session) == ["one", "noticed an edit"]
        await at.edit(Entry("a", 2, 1))
        with caplog.at_level(logging.ERROR, "adkweb.adk"):
            await at.service.append_event(session, event("two"))
        assert "on_rebase failed" in caplog.text
        assert texts(session) == texts(await at.stored()) == ["one", "noticed an edit", "two"]

    run(ours, source, work, on_rebase=on_rebase)
    assert told_of == [1, 1]


def test_many_writers_of_one_session_all_succeed_and_each_has_the_same_history(source: str, ours: Ours) -> None:
    """Each as if in a process of its own: with a service and a session object that the others do not know."""
    writers, each = 8, 6

    async def write(number: int) -> Session:
        async with ours(source, on_stale="rebase") as service:
            session = await service.get_session(**NAME)
            assert session is not None
            for n in range(each):
                await service.append_event(session, event(f"{number}.{n}", last=number, **{f"w{number}": n}))
            return session

    async def work(at: Rebasing) -> None:
        await at.service.create_session(**NAME)
        sessions = await asyncio.gather(*map(write, range(writers)))
        stored = await at.stored()
        said = texts(stored)
        assert sorted(said) == sorted(f"{w}.{n}" for w in range(writers) for n in range(each))
        for number, session in enumerate(sessions):
            assert texts(session) == said[: len(session.events)]  # what there was when it appended last
            assert [text for text in said if text.startswith(f"{number}.")] == [f"{number}.{n}" for n in range(each)]
            await at.service.append_event(session, event("end"))
            assert session.state == (await at.stored()).state

    run(ours, source, work)


def test_with_raise_nothing_is_received_and_nothing_is_written(source: str, ours: Ours) -> None:
    async def work(at: Rebasing) -> None:
        session = await at.service.create_session(**NAME)
        await at.edit(Entry("a", 1, ABSENT))
        with pytest.raises(StaleSessionError):
            await at.service.append_event(session, event("late", temp__x=1))
        assert (session.events, session.state) == ([], {"temp:x": 1})
        assert texts(await at.stored()) == []

    run(ours, source, work, on_stale="raise", on_rebase=lambda *_: pytest.fail("told of nothing"))


def test_an_append_whose_session_is_deleted_between_two_tries_is_not_found(
    source: str, ours: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(at: Rebasing) -> None:
        session = await at.service.create_session(**NAME)
        await at.edit(Entry("a", 1, ABSENT))
        append = append_event

        def deleted_first(*arguments: Any, **how: Any) -> Any:
            if how["expected"] is None:
                delete_session(key_of(source), actor=Actor.holding("maria", "admin"))
            return append(*arguments, **how)

        for door in (table_store, api_events):
            monkeypatch.setattr(door, "append_event", deleted_first)
        with pytest.raises(SessionNotFoundError, match=r"^Session s1 not found\.$"):
            await at.service.append_event(session, event("late"))

    run(ours, source, work)
