"""Our services do what google-adk's own services do; the same operations on each, and the answers compared."""

from __future__ import annotations

import ast
import asyncio
import copy
import dataclasses
import datetime
import decimal
import enum
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import sessions_app
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.adk import DjangoSessionService
from sessions_app.adk.base import StoredSessionService
from sessions_app.domain.errors import Invalid, NotAllowed, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.history.edit_log import edits
from sessions_app.reads import timeline, views
from sessions_app.sources import database, registry
from sessions_app.writes.append import append_event
from tests import strategies
from tests.adk.services import Adk, key_of
from tests.adk.sides import APP, USER, event, services, texts, told

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

NAME = {"app_name": APP, "user_id": USER, "session_id": "s1"}
STATE = {"step": 1, "user:tier": "gold", "app:version": 3, "temp:raw": [1], "nested": {"a": [None, 1.5, "é"]}}

Ours = Callable[..., StoredSessionService]
Scenario = Callable[[BaseSessionService], Coroutine[Any, Any, Any]]


async def refused(work: Coroutine[Any, Any, Any]) -> Exception:
    """The error of something that must fail."""
    try:
        await work
    except Exception as error:
        return error
    raise AssertionError("nothing was refused")


# --- The same operations on every service -----------------------------------------------------------------------------


async def creating(service: BaseSessionService) -> Any:
    first = await service.create_session(**NAME, state=STATE)
    second = await service.create_session(app_name=APP, user_id=USER, state={"user:tier": "silver"})
    other = await service.create_session(app_name=APP, user_id="ben", session_id="s1")
    empty = await service.create_session(app_name="empty", user_id="ben", session_id="s1", state={})
    again = await refused(service.create_session(**NAME, state={"user:tier": "lost", "app:version": 99}))
    users = [await service.get_user_state(app_name=APP, user_id=user) for user in (USER, "ben", "nobody")]
    return first, second, other, empty, again, users, [await service.get_session(**NAME)]


async def appending(service: BaseSessionService) -> Any:
    session = await service.create_session(**NAME, state=STATE)
    before = session.last_update_time
    sent = [
        event("one", id="a", step=2, user__tier=None, app__new={"x": []}, temp__secret=7, other=None),
        event("two", id="b"),
        event(id="c", temp__only=1),
        event("three", id="d", step={"now": "an object"}, temp__secret=8),
    ]
    answered = [await service.append_event(session, each) for each in sent]
    assert all(a is b for a, b in zip(answered, sent, strict=True))
    assert session.events == sent
    assert before < session.last_update_time
    partial = event("par", id="p", step="never", temp__secret="never")
    partial.partial = True
    assert await service.append_event(session, partial) is partial
    stored = await service.get_session(**NAME)
    assert stored is not None
    assert [each.timestamp for each in stored.events] == [each.timestamp for each in sent]
    return answered, partial, session, stored, await service.get_user_state(app_name=APP, user_id=USER)


async def getting(service: BaseSessionService) -> Any:
    session = await service.create_session(**NAME, state={"step": 0})
    for number in range(6):
        await service.append_event(session, event(f"{number}", id=f"e{number}", step=number))
    third = session.events[2].timestamp
    configs: list[dict[str, Any]] = [
        {},
        {"num_recent_events": 0},
        {"num_recent_events": 2},
        {"num_recent_events": 99},
        {"after_timestamp": third},
        {"after_timestamp": third, "num_recent_events": 2},
        {"after_timestamp": session.events[-1].timestamp + 1},
        {"after_timestamp": 0.0},
        {"after_timestamp": 0.0, "num_recent_events": 0},
    ]
    found: list[Any] = [await service.get_session(**NAME, config=GetSessionConfig(**config)) for config in configs]
    for part in found[1:]:  # each of them can be appended to
        fresh = await service.get_session(**NAME, config=GetSessionConfig(num_recent_events=0))
        assert fresh is not None
        assert fresh.last_update_time == session.last_update_time
        assert part.last_update_time == session.last_update_time
    await service.append_event(found[3], event("from one that was loaded in part", id="last"))
    nobody = [
        await service.get_session(**{**NAME, name: other})
        for name in NAME
        for other in ("other", "", "x" * 300, "it's")
    ]
    return found, nobody, [await service.get_session(**NAME)]


async def listing(service: BaseSessionService) -> Any:
    found: list[Any] = [
        await service.list_sessions(app_name=APP),
        await service.list_sessions(app_name=APP, user_id="x"),
    ]
    for user, name in (("ana", "s1"), ("ben", "s1"), ("ana", "s2"), ("지우", "s3")):
        await service.create_session(
            app_name=APP, user_id=user, session_id=name, state={f"user:{name}": 1, "app:n": name, "own": user}
        )
    await service.create_session(app_name="other", user_id="ana", session_id="s9", state={"app:not": "here"})
    oldest = await service.get_session(**NAME)
    assert oldest is not None
    await service.append_event(oldest, event("now the newest", id="e1", step=1))
    found += [await service.list_sessions(app_name=APP, user_id=user) for user in (None, "ana", "지우", "nobody")]
    listed = found[2].sessions[-1]
    await service.append_event(listed, event("a listed session can be appended to", id="e2"))
    return found, [await service.get_session(**NAME)]


async def deleting(service: BaseSessionService) -> Any:
    session = await service.create_session(**NAME, state=STATE)
    await service.append_event(session, event("gone soon", id="e1", user__kept=1))
    kept = await service.create_session(app_name=APP, user_id=USER, session_id="s2")
    await service.delete_session(**NAME)
    await service.delete_session(**NAME)
    await service.delete_session(app_name="no", user_id="such", session_id="session")
    gone = await service.get_session(**NAME)
    late = event("late", id="e2", temp__applied=1, step=9)
    not_found = await refused(service.append_event(session, late))
    never = Session(app_name=APP, user_id=USER, id="never")
    not_there = await refused(service.append_event(never, event("x", id="x")))
    again = await service.create_session(**NAME)
    return gone, not_found, not_there, again, kept, [await service.list_sessions(app_name=APP)]


async def copying(service: BaseSessionService) -> Any:
    session = await service.create_session(**NAME, state=STATE)
    session.state["nested"]["a"].append("mine only")
    session.state["user:tier"] = "mine only"
    session.events.append(event("mine only", id="m"))
    stored = await service.get_session(**NAME)
    assert stored is not None
    stored.state.clear()
    user = await service.get_user_state(app_name=APP, user_id=USER)
    user.clear()
    return [await service.get_session(**NAME), await service.get_user_state(app_name=APP, user_id=USER)]


async def configuring(service: BaseSessionService) -> Any:
    with pytest.raises(ValueError, match="num_recent_events must be greater than or equal to 0"):
        GetSessionConfig(num_recent_events=-1)
    await service.flush()
    return [await service.get_session(**NAME, config=GetSessionConfig(num_recent_events=3))]


SCENARIOS = [creating, appending, getting, listing, deleting, copying, configuring]


def compared(file: Path, mine: StoredSessionService, scenario: Scenario, *, memory: bool = True) -> None:
    """Runs a scenario on each service, and compares the answers."""

    async def run() -> None:
        async with services(file, mine) as sides:
            answers = {name: told(await scenario(side)) for name, side in sides.items() if memory or name != "memory"}
        assert answers["ours"] == answers["database"]
        if memory:
            assert answers["ours"] == answers["memory"]

    asyncio.run(run())


@pytest.mark.guarantee("Agents", "`DjangoSessionService` behaves like ADK's own services.")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_answers_as_adks_own_services_do(tmp_path: Path, source: str, ours: Ours, scenario: Scenario) -> None:
    compared(tmp_path / "adk.db", ours(source), scenario)


async def growing_stale(service: BaseSessionService) -> Any:
    one = await service.create_session(**NAME, state=STATE)
    two = await service.get_session(**NAME)
    listed = (await service.list_sessions(app_name=APP)).sessions[0]
    assert two is not None
    await service.append_event(one, event("one", id="a", step=2))
    late = event("late", id="b", step=99, temp__applied=1)
    errors = [await refused(service.append_event(each, late)) for each in (two, listed, copy.deepcopy(two))]
    await service.append_event(one, event("and on", id="c"))
    again = await service.get_session(**NAME)
    assert again is not None
    await service.append_event(again, event("in time", id="d", step=99))
    return errors, two, one, again, [await service.get_session(**NAME)]


async def copies_go_on(service: BaseSessionService) -> Any:
    session = await service.create_session(**NAME)
    await service.append_event(session, event("one", id="a"))
    await service.append_event(shallow := session.model_copy(), event("two", id="b"))
    assert shallow.events is session.events
    stale = await refused(service.append_event(session, event("late", id="c")))
    await service.append_event(deep := copy.deepcopy(shallow), event("three", id="d"))
    return stale, deep, [await service.get_session(**NAME)]


async def sessions_written_out_and_read_again(service: BaseSessionService) -> Any:
    """They have no marker: ADK judges them by their time, and where that is older, by their newest event."""

    def again(session: Session, **other: Any) -> Session:
        return Session.model_validate(session.model_dump(mode="json") | other)

    session = await service.create_session(**NAME)
    await service.append_event(first := again(session), event("one", id="a", temp__x=1))
    await service.append_event(second := again(first, last_update_time=0.0), event("two", id="b"))
    by_hand = Session(app_name=APP, user_id=USER, id="s1")
    stale = [
        await refused(service.append_event(again(first), event("late", id="c"))),
        await refused(service.append_event(by_hand, event("late", id="c"))),
    ]
    await service.append_event(again(first, last_update_time=time.time() + 60), event("three", id="d"))
    return first, second, stale, [await service.get_session(**NAME)]


@pytest.mark.parametrize("scenario", [growing_stale, copies_go_on, sessions_written_out_and_read_again])
def test_it_finds_stale_sessions_as_adks_database_service_does(
    tmp_path: Path, source: str, ours: Ours, scenario: Scenario
) -> None:
    compared(tmp_path / "adk.db", ours(source), scenario, memory=False)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("ab"), st.sampled_from(["s1", " s2"]), strategies.states),
        st.tuples(st.just("append"), st.sampled_from("ab"), st.sampled_from(["s1", "s2"]), strategies.states),
        st.tuples(st.just("get"), st.sampled_from("ab"), st.sampled_from(["s1", "s2 "]), st.sampled_from([None, 0, 2])),
        st.tuples(st.just("list"), st.sampled_from(["a", "b", None]), st.just(""), st.none()),
        st.tuples(st.just("delete"), st.sampled_from("ab"), st.sampled_from(["s1", "s2"]), st.none()),
        st.tuples(st.just("user"), st.sampled_from("ab"), st.just(""), st.none()),
    ),
    max_size=14,
)


@given(operations=OPERATIONS)
def test_whatever_is_done_it_answers_as_the_service_in_memory(source: str, ours: Ours, operations: list[Any]) -> None:
    app = uuid.uuid4().hex

    async def play(service: BaseSessionService) -> list[Any]:
        held: dict[Any, Session] = {}
        answers: list[Any] = []
        for number, (what, user, name, more) in enumerate(operations):
            place: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": name}
            try:
                answer: Any = None
                match what:
                    case "create":
                        answer = held[user, name.strip()] = await service.create_session(
                            **place, state=copy.deepcopy(more)
                        )
                        answer = copy.deepcopy(answer)
                    case "append":
                        session = held.get((user, name)) or Session(app_name=app, user_id=user, id=name)
                        sent = event(f"{number}", id=f"e{number}")
                        sent.actions.state_delta = copy.deepcopy(more)
                        answer = [await service.append_event(session, sent), copy.deepcopy(session)]
                    case "get":
                        answer = await service.get_session(**place, config=GetSessionConfig(num_recent_events=more))
                    case "list":
                        answer = await service.list_sessions(app_name=app, user_id=user)
                    case "delete":
                        answer = await service.delete_session(**place)
                    case "user":
                        answer = await service.get_user_state(app_name=app, user_id=user)
                answers.append(answer)
            except (AlreadyExistsError, SessionNotFoundError) as error:
                answers.append(error)
        return answers

    async def run() -> tuple[Any, Any]:
        async with ours(source) as service:
            return told(await play(service)), told(await play(InMemorySessionService()))

    mine, memory = asyncio.run(run())
    assert mine == memory


# --- Rich values ------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Fare(BaseModel):
    price: decimal.Decimal = decimal.Decimal("412.50")
    seats: frozenset[int] = frozenset([12])
    at: datetime.datetime = datetime.datetime(2026, 12, 1, 10, 30, tzinfo=datetime.UTC)


class Maybe(BaseModel):
    note: str | None = None


@dataclasses.dataclass
class Point:
    x: int = 1


RICH: dict[str, Any] = {
    "datetime": datetime.datetime(2026, 12, 1, 10, 30),  # noqa: DTZ001
    "date": datetime.date(2026, 12, 1),
    "timedelta": datetime.timedelta(seconds=90),
    "model": Fare(),
    "models": [Fare(), {"inner": Fare()}],
    "set": {1},
    "tuple": (1, "two"),
    "decimal": decimal.Decimal("1.10"),
    "enum": Colour.RED,
    "uuid": uuid.UUID(int=7),
    "path": Path("/tmp"),
    "dataclass": Point(),
    "keys": {1: "one", Colour.RED: 2},
    "function": len,
    "object": 1j,
}


@pytest.mark.parametrize("name", RICH)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rich_values_are_stored_as_adk_stores_them(tmp_path: Path, source: str, ours: Ours, name: str) -> None:
    value = RICH[name]
    parts = [
        types.Part(function_call=types.FunctionCall(name="f", args={"nothing": None})),
        types.Part(inline_data=types.Blob(data=b"\xff\x00", mime_type="image/png")),
        types.Part(text="thinking", thought=True, thought_signature=b"\xfe"),
    ]
    if name not in ("function", "object"):  # ADK refuses them outside of state
        parts.append(types.Part(function_response=types.FunctionResponse(name="f", response={"answer": value})))

    async def rich(service: BaseSessionService) -> Any:
        session = await service.create_session(**NAME, state={"initial": value, "app:initial": value})
        sent = event(id="a", rich=value, user__rich=[value], temp__rich=value)
        sent.content = types.Content(role="model", parts=parts)
        sent.long_running_tool_ids = {"b", "a"}
        sent.finish_reason = types.FinishReason.STOP
        await service.append_event(session, sent)
        assert session.state["rich"] is value is session.state["temp:rich"]  # the caller keeps its own objects
        return [await service.get_session(**NAME), await service.get_user_state(app_name=APP, user_id=USER)]

    compared(tmp_path / "adk.db", ours(source), rich, memory=False)


def test_an_event_tells_of_a_value_what_the_state_became(source: str, ours: Ours) -> None:
    """ADK leaves nulls of models out of the event and keeps them in the state, and writes bytes in two ways."""

    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            await service.append_event(session, event(model=Maybe(), bytes=b"abc"))
            stored = await service.get_session(**NAME)
        assert stored is not None
        assert stored.state == {"model": {"note": None}, "bytes": "abc"} == stored.events[0].actions.state_delta

    asyncio.run(run())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"bytes": b"\xff"}, "utf-8"),
    ({"number": float("nan")}, "NaN and infinity aren't valid JSON"),
    ({"said": "a\0"}, "U\\+0000"),
    ({"deep": strategies.nested(200)}, "nested deeper"),
]


@pytest.mark.parametrize(("delta", "why"), REFUSED, ids=lambda each: next(iter(each)) if isinstance(each, dict) else "")
def test_what_no_database_holds_is_refused_and_nothing_changes(
    source: str, ours: Ours, delta: dict[str, Any], why: str
) -> None:
    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME, state={"a": 1})
            with pytest.raises(InputValidationError, match=why):
                await service.append_event(session, event("x", a=2, **delta))
            with pytest.raises(InputValidationError):
                await service.create_session(app_name=APP, user_id=USER, session_id="s2", state=delta)
            assert (session.state, session.events) == ({"a": 1}, [])
            await service.append_event(session, event("fine"))
            assert told(await service.list_sessions(app_name=APP)) == told(
                {"sessions": [{**told(session), "events": []}]}
            )

    asyncio.run(run())


def test_names_that_no_column_holds_are_refused_or_not_found(source: str, ours: Ours) -> None:
    async def run() -> None:
        async with ours(source) as service:
            for name in ("x" * 129, "a\0b", "\ud800"):
                place = {**NAME, "session_id": name}
                with pytest.raises(InputValidationError):
                    await service.create_session(**place)
                assert await service.get_session(**place) is None
                await service.delete_session(**place)
                with pytest.raises(SessionNotFoundError):
                    await service.append_event(Session(app_name=APP, user_id=USER, id=name), event("x"))
                assert await service.get_user_state(app_name=APP, user_id=name) == {}
                assert (await service.list_sessions(app_name=name)).sessions == []

    asyncio.run(run())


# --- The same event again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_stale", ["raise", "rebase"])
def test_an_event_that_is_sent_again_is_stored_and_applied_once(source: str, ours: Ours, on_stale: Any) -> None:
    async def run() -> None:
        async with ours(source, on_stale=on_stale) as service:
            session = await service.create_session(**NAME, state={"n": 0})
            unaware = copy.deepcopy(session)  # as one whose append was stored and whose answer was lost
            sent = event("once", id="a", n=1, temp__x=1)
            await service.append_event(session, sent)
            await service.append_event(session, sent)
            await service.append_event(unaware, sent.model_copy(deep=True))
            for each in (session, unaware):
                assert texts(each) == ["once"]
            await service.append_event(unaware, event("and on", n=2))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == ["once", "and on"] == texts(unaware)
            with pytest.raises(AlreadyExistsError, match="with the id a"):
                await service.append_event(unaware, event("another", id="a"))

    asyncio.run(run())


# --- Beside adkweb and google-adk's services --------------------------------------------------------------------------


def test_what_it_writes_adks_own_service_reads_and_the_other_way_round(
    ours: Ours, create: Callable[[], str], place: str, adk: Adk
) -> None:
    source = create()

    async def mine(work: Callable[[StoredSessionService], Coroutine[Any, Any, Any]]) -> Any:
        async with ours(source) as service:
            return await work(service)

    async def begin(service: StoredSessionService) -> None:
        session = await service.create_session(**NAME, state=STATE)
        await service.append_event(session, event("ours", id="a", step=2, user__tier="silver"))

    asyncio.run(mine(begin))
    session = adk.get()
    assert (texts(session), session.state["step"], session.state["user:tier"]) == (["ours"], 2, "silver")
    adk.append(session, "adk's", step=3, app__version=4)
    theirs = adk.create("s2", {"own": 1})

    async def go_on(service: StoredSessionService) -> Session:
        found = await service.get_session(**NAME)
        assert found is not None
        assert told(found) == told(adk_session)
        assert found.last_update_time == adk_session.last_update_time
        await service.append_event(found, event("ours again", step=4))
        made = await service.get_session(app_name=APP, user_id=USER, session_id=theirs.id)
        assert made is not None
        await service.append_event(made, event("in a session of ADK's"))
        assert await service.get_user_state(app_name=APP, user_id=USER) == {"tier": "silver"}
        return found

    adk_session = adk.get()
    found = asyncio.run(mine(go_on))
    assert told(adk.get()) == told(found)
    listed = adk.run(adk.service.list_sessions(app_name=APP, user_id=USER)).sessions
    listed_by_us = asyncio.run(mine(lambda service: service.list_sessions(app_name=APP, user_id=USER))).sessions
    assert told(listed) == told(listed_by_us)


def test_custom_metadata_of_an_agents_own_is_kept_as_it_is(source: str, ours: Ours) -> None:
    metadata = {"mine": {"adkweb": [1]}, "a2a:task": "t", "adkweb_like": {"actor": "maria"}}

    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            sent = event("hello", a=1)
            sent.custom_metadata = metadata
            await service.append_event(session, sent)
            found = await service.get_session(**NAME)
            assert found is not None
            assert [each.custom_metadata for each in found.events] == [metadata]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "note"),
    [("adkweb", {"actor": "maria"}), ("adkweb_origin", {"session": "other", "event": "e1"}), ("adkweb_origin", None)],
)
def test_no_agent_writes_what_adkweb_itself_notes(source: str, ours: Ours, name: str, note: Any) -> None:
    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            sent = event("hello", a=1)
            sent.custom_metadata = {"mine": 1, name: note}
            with pytest.raises(InputValidationError, match=f"custom_metadata.{name}"):
                await service.append_event(session, sent)
            found = await service.get_session(**NAME)
            assert found is not None
            assert found.events == []

    asyncio.run(run())


def test_an_action_of_a_newer_google_adk_is_stored_as_its_agent_sent_it_and_no_person_can_write_one(
    source: str, ours: Ours, actor: Actor
) -> None:
    class NewerActions(EventActions):
        pause_agent: bool = True

    class NewerEvent(Event):
        actions: NewerActions

    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            await service.append_event(session, NewerEvent(actions=NewerActions(state_delta={"a": 1})))

    asyncio.run(run())
    ref = key_of(source)
    (shown,) = timeline.events(ref, actor=SYSTEM).rows
    assert shown.data["actions"]["pause_agent"] is True
    with pytest.raises(Invalid, match="pause_agent"):
        append_event(ref, {"author": "x", "actions": {"pause_agent": True}}, actor=actor)


def test_the_dashboard_shows_its_events_as_an_agents_and_never_as_edits(source: str, ours: Ours, actor: Actor) -> None:
    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME, state={"a": 1})
            await service.append_event(session, event("hello", a=2))

    asyncio.run(run())
    ref = key_of(source)
    (shown,) = timeline.events(ref, actor=SYSTEM).rows
    assert (shown.description.author, shown.description.kind, shown.data.get("custom_metadata")) == (
        "booking",
        "message",
        None,
    )
    assert edits(actor=SYSTEM)[0].rows == []
    assert views.session(ref, actor=SYSTEM).initial_state == {"a": 1}
    edit.edit_state(ref, [Entry("a", 3, 2)], actor=actor)
    assert [view.ref for view in edits(actor=SYSTEM)[0].rows] == [ref]


def test_events_come_in_the_order_in_which_they_were_appended_whatever_their_clocks_say(
    source: str, ours: Ours
) -> None:
    async def run() -> None:
        async with ours(source) as service:
            session = await service.create_session(**NAME)
            for number in range(4):
                late = event(f"{number}")
                late.timestamp -= number * 100
                await service.append_event(session, late)
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == ["0", "1", "2", "3"] == texts(session)
            assert stored.last_update_time == session.last_update_time
            newest = await service.get_session(**NAME, config=GetSessionConfig(num_recent_events=2))
            assert newest is not None
            assert texts(newest) == ["2", "3"]

    asyncio.run(run())


def test_an_id_that_adk_kept_with_blanks_around_it_is_found(ours: Ours, create: Callable[[], str], adk: Adk) -> None:
    source = create()
    adk.create(" s1 ")  # SqliteSessionService strips it

    async def run() -> None:
        async with ours(source) as service:
            found = await service.get_session(**{**NAME, "session_id": " s1 "})
            assert found is not None
            await service.append_event(found, event("x"))
            if found.id == " s1 ":
                assert (await service.create_session(**{**NAME, "session_id": "\ts1 "})).id == "s1"
            with pytest.raises(AlreadyExistsError, match=r"^Session with id s1 already exists\.$"):
                await service.create_session(**{**NAME, "session_id": " s1"})

    asyncio.run(run())


# --- What a service is made from --------------------------------------------------------------------------------------


def test_a_source_is_a_new_file_a_url_or_an_alias(tmp_path: Path, source: str) -> None:
    new, other = tmp_path / "new.db", tmp_path / "other.db"

    async def run(name: str) -> None:
        async with DjangoSessionService(name) as service:
            await service.create_session(**NAME)

    asyncio.run(run(str(new)))
    asyncio.run(run(f"sqlite+aiosqlite:///{other}"))
    asyncio.run(run(source))
    for file in (new, other):
        adk = SqliteSessionService(str(file))
        assert asyncio.run(adk.get_session(**NAME)) is not None
    for alias in [each.alias for each in registry.listed() if each.alias in ("new", "other")]:
        assert views.session(SessionRef(alias, APP, USER, "s1"), actor=SYSTEM)
        database.forget(alias)


def test_what_is_no_source_is_refused_in_words(tmp_path: Path) -> None:
    for bad, why in (
        (str(tmp_path), "is a folder"),
        ("mysql://x/y", "isn't supported"),
        ("postgresql://", "database"),
    ):
        with pytest.raises(SourceError, match=why):
            DjangoSessionService(bad)
    with pytest.raises(ValueError, match="on_stale"):
        DjangoSessionService(str(tmp_path / "x.db"), on_stale="ignore")  # type: ignore[arg-type]
    database.forget("x")


def test_a_read_only_process_reads_and_refuses_to_write(source: str, settings: Any) -> None:
    async def run() -> None:
        async with DjangoSessionService(source) as service:
            session = await service.create_session(**NAME)
            settings.READ_ONLY = True
            assert await service.get_session(**NAME) == session
            with pytest.raises(NotAllowed):
                await service.append_event(session, event("x"))

    asyncio.run(run())


def test_nothing_else_of_adkweb_needs_google_adk() -> None:
    root = Path(sessions_app.__file__).parent
    outside = [*root.rglob("*.py"), *(root.parent / "adkweb").rglob("*.py")]
    for path in outside:
        of_extras = (root / "transfer" / "formats" / "vertex.py", root / "artifacts" / "buckets.py")
        programs = (root / "running" / "launcher.py", root / "trying" / "replayer.py")
        if path in programs:  # they run in the interpreter of the agents
            continue
        if path.is_relative_to(root / "adk") or path in of_extras:  # the extras `adk`, `vertex`, `gcs`
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("google", "httpx")], path
