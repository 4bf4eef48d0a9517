"""A session as ADK's own JSON: what google-adk exports comes in as it was, and what leaves is what google-adk loads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import views
from sessions_app.transfer.items import Fault
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk
from tests.adk.test_events import rich_event
from tests.support.stored import counts, everything
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, checked, exported, furnish, imported

STATE = {"step": 0, "stateDelta": {"fooBar": None}, "user:lang": "ko", "app:plan_name": {"aB": [1.5, 10**30]}}
EMPTY = {"app_states": 0, "user_states": 0, "sessions": 0, "events": 0}


@pytest.fixture
def service() -> Iterator[Callable[[str, str], Adk]]:
    """google-adk's service of a format on a database."""
    started: list[Adk] = []

    def start(form: str, place: str) -> Adk:
        started.append(Adk(form, place))
        return started[-1]

    yield start
    for adk in started:
        adk.close()


def converse(agent: Adk) -> Session:
    """A session in which state of every scope changed, tools ran, and names of fields stand where people put theirs."""
    session = agent.create(state=STATE)
    agent.append(session, "안녕 👍", author="user", step=1, user__lang="en")
    call = types.FunctionCall(
        id="c1", name="find_flights", args={"from_city": "a", "functionCall": {"x_y": 1, "xY": None}}
    )
    response = types.FunctionResponse(id="c1", name="find_flights", response={"state_delta": {"aB": 1}})
    for part in (types.Part(function_call=call), types.Part(function_response=response)):
        event = Event(
            invocation_id="e-1",
            author="booking",
            content=types.Content(role="model", parts=[part]),
            custom_metadata={"invocation_id": 1, "invocationId": 2},
            actions=EventActions(state_delta={"last_call": "c1", "app:n": 3}, artifact_delta={"file_name.png": 0}),
        )
        agent.run(agent.service.append_event(session, event))
    rich = rich_event()
    # google-adk does not read back a credential's scheme as it stored it: `in_` stays `in_` on its routes.
    rich.actions.requested_auth_configs = {}
    agent.run(agent.service.append_event(session, rich))
    agent.append(session, "done", step=2)
    return agent.get()


@pytest.fixture
def adks_export(tmp_path: Path, service: Callable[[str, str], Adk]) -> bytes:
    """What `adk web` offers for download: the answer of google-adk's own route, indented by the browser."""
    place = tmp_path / "adk" / "session.db"
    place.parent.mkdir()
    agent = service("sqlite", str(place))
    converse(agent)
    agent.close()
    agents = tmp_path / "agents"
    agents.mkdir()
    app = get_fast_api_app(agents_dir=str(agents), session_service_uri=f"sqlite:///{place}", web=False)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://adk") as client:
            return await client.get(f"/apps/{APP}/users/{USER}/sessions/s1")

    answer = asyncio.run(get())
    assert answer.status_code == 200, answer.text
    return json.dumps(answer.json(), indent=2, ensure_ascii=False).encode()


def comparable(session: Session) -> dict[str, Any]:
    """A session, without times, which have microseconds in a database."""
    found = session.model_dump(mode="json")
    for event in found["events"]:
        del event["timestamp"]
    del found["last_update_time"]
    return found


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_google_adk_exports_comes_in_with_its_ids_times_and_state(
    adks_export: bytes,
    form: str,
    new_database: Callable[[str], str],
    open_source: Any,
    service: Callable[[str, str], Adk],
) -> None:
    place = new_database(form)
    source = open_source(place, form)
    assert imported(source, adks_export, "adk-json").new == 1
    before = everything(source)
    assert imported(source, adks_export, "adk-json").same == 1
    assert everything(source) == before
    original, copy = Session.model_validate_json(adks_export), service(form, place).get()
    assert comparable(copy) == comparable(original)
    assert copy.last_update_time == pytest.approx(original.last_update_time, abs=2e-6, rel=0)
    for a, b in zip(original.events, copy.events, strict=True):
        assert b.timestamp == pytest.approx(a.timestamp, abs=2e-6, rel=0)
    seen = views.session(SessionRef(source, APP, USER, "s1"), actor=SYSTEM)
    assert (seen.state.user, seen.state.app["n"]) == ({"lang": "en", "b": None}, 3)
    assert seen.create_time == pytest.approx(original.events[0].timestamp, abs=2e-6, rel=0)
    agent = service(form, place)
    agent.append(agent.get(), "and on", step=9)
    assert agent.get().state["step"] == 9


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_leaves_is_what_google_adk_itself_would_send_and_loads_again(
    adks_export: bytes, source: str, make: Make
) -> None:
    imported(source, adks_export, "adk-json")
    file = exported(source, "adk-json")
    theirs, ours = json.loads(adks_export), json.loads(file)
    assert ours.pop("lastUpdateTime") == pytest.approx(theirs.pop("lastUpdateTime"), abs=2e-6, rel=0)
    assert ours == theirs
    assert Session.model_validate_json(file).events == Session.model_validate_json(adks_export).events
    for form in ("sqlite", "postgresql"):
        into = make(form)
        imported(into, file, "adk-json")
        assert exported(into, "adk-json") == file


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("alias", [True, False])
def test_both_spellings_are_read(adks_export: bytes, make: Make, alias: bool) -> None:
    session = Session.model_validate_json(adks_export)
    file = session.model_dump_json(indent=2, exclude_none=True, by_alias=alias).encode()
    into, other = make("sqlite"), make("sqlite")
    imported(into, file, "adk-json")
    imported(other, adks_export, "adk-json")
    assert exported(into) == exported(other)


def test_every_session_that_a_store_can_hold_leaves_and_comes_back(full: str, make: Make, form: str) -> None:
    for app, user, session in (
        ("app", "ana", "s1"),
        ("app", "Ána", "S2"),
        ("Zoo", "ana", "👍"),
        ("Zoo", "ana", "empty"),
    ):
        file = exported(full, "adk-json", app=app, user=user, session=session)
        loaded = Session.model_validate_json(file)
        assert (loaded.app_name, loaded.user_id, loaded.id) == (app, user, session)
        seen = views.session(SessionRef(full, app, user, session), actor=SYSTEM)
        assert loaded.state == seen.state.merged()
        into = make(form)
        if session == "s1":  # its events hold numbers and texts of every kind
            assert len(loaded.events) == 5
        imported(into, file, "adk-json")
        assert exported(into, "adk-json") == file


def test_state_of_app_and_user_that_is_there_changes_only_when_asked_for(source: str, adks_export: bytes) -> None:
    create_session(source, APP, USER, actor=ANA, session_id="own", state={"app:n": "mine", "user:kept": 1})
    report = imported(source, adks_export, "adk-json")
    changed = {c.key for differing in report.differing for c in differing.changes}
    assert changed == {"app:n", "app:plan_name", "app:c", "user:lang", "user:b"}
    assert views.session(SessionRef(source, APP, USER, "own"), actor=SYSTEM).state.app == {"n": "mine"}
    imported(source, adks_export, "adk-json", state=True)
    state = views.session(SessionRef(source, APP, USER, "own"), actor=SYSTEM).state
    assert (state.app["n"], state.user["kept"]) == (3, 1)


def test_a_store_with_several_sessions_or_none_is_no_such_file(make: Make) -> None:
    source = make("sqlite")
    with pytest.raises(Invalid, match="there is none"):
        exported(source, "adk-json")
    furnish(source)
    with pytest.raises(Invalid, match="--session"):
        exported(source, "adk-json")


EVENT = {"id": "e1", "invocationId": "i", "author": "a", "timestamp": 2.5, "actions": {"stateDelta": {"a": 1}}}
SESSION = {"id": "s1", "appName": "app", "userId": "u", "state": {"a": 1}, "events": [EVENT], "lastUpdateTime": 3.0}


def session(*events: Any, **other: Any) -> bytes:
    """A session's JSON."""
    return json.dumps({**SESSION, **({"events": events} if events else {}), **other}, indent=2).encode()


def event(**other: Any) -> dict[str, Any]:
    return {**EVENT, "id": "e2", **other}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


FAULTS = {
    "nothing": (b"", "line 1, column 1", "truncated"),
    "a list": (b"[]", "", "not an object"),
    "no JSON": (b'{"id": "s1",\n "appName": app}', "line 2, column 13", "not valid JSON"),
    "not UTF-8": (b'{"id":\n"\xff"}', "line 2", "UTF-8"),
    "far too deep": (b"[" * 100_000, "", "deeper"),
    "too many digits": (b'{"id": ' + b"1" * 5_000 + b"}", "", "4300"),
    "no app": (b'{"id": "s1", "userId": "u"}', "", "appName is missing"),
    "an unknown field": (session(revision=1), "revision", "no such field"),
    "a name that is none": (session(userId=5), "", "userId isn't a string"),
    "a name too long": (session(id="x" * 129), "", "129"),
    "a state that is none": (session(state=[1]), "state", "not an object"),
    "events that are none": (session(events={}), "events", "not a list"),
    "a time that is none": (session(lastUpdateTime="now"), "lastUpdateTime", "not a time"),
    "an event that is none": (session(EVENT, 7), "events[1]", "not an object"),
    "an event without id": (session(EVENT, {**event(), "id": ""}), "events[1].id", "missing"),
    "an event without time": (session(event(timestamp=None)), "events[0].timestamp", "float"),
    "an unknown action": (session(EVENT, event(actions={"foo": 1})), "events[1].actions.foo", "doesn't recognise"),
    "a wrong type": (session(event(content={"parts": [{"text": 1}]})), "events[0].content.parts[0].text", "str"),
    "an unknown part": (
        session(event(content={"parts": [{"functionCal": {}}]})),
        "events[0].content.parts[0]",
        "recognise",
    ),
    "a delta that is none": (session(event(actions={"stateDelta": 1})), "events[0].actions.state_delta", "any"),
    "an id twice": (session(EVENT, event(), EVENT), "events[2]", "e1 appears twice"),
    "an id too long": (session(event(id="x" * 129)), "events[0]", "129"),
    "too deep": (session(EVENT, event(output=nested(250))), "events[1]", "200 levels"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_place_and_nothing_is_written(name: str, source: str) -> None:
    file, place, words = FAULTS[name]
    with pytest.raises(Fault, match=words) as raised:
        imported(source, file, "adk-json")
    assert raised.value.detail["place"].startswith(place)
    assert bool(raised.value.detail["place"]) == bool(place)
    assert counts(source) == EMPTY


def test_the_good_file_has_no_fault_and_one_that_is_truncated_anywhere_has() -> None:
    good = session(EVENT, event())
    assert checked(good, "adk-json").events == 2
    for length in range(len(good)):
        with pytest.raises(Fault, match=r"truncated|not valid JSON") as raised:
            checked(good[:length], "adk-json")
        assert raised.value.detail["place"].startswith("line ")


def test_what_postgresql_cannot_hold_is_named(make: Make) -> None:
    file = session(EVENT, event(output="a\0b"))
    with pytest.raises(Fault, match=r"U\+0000") as raised:
        imported(make("postgresql"), file, "adk-json")
    assert raised.value.detail["place"] == "events[1]"
    assert imported(make("sqlite"), file, "adk-json").events == 2


def test_times_that_are_missing_are_those_of_the_events(make: Make) -> None:
    source = make("sqlite")
    known = {name: value for name, value in SESSION.items() if name != "lastUpdateTime"}
    imported(source, json.dumps(known).encode(), "adk-json")
    seen = views.session(SessionRef(source, "app", "u", "s1"), actor=SYSTEM)
    assert (seen.create_time, seen.revision) == (2.5, 2.5)
