"""ADK's own routes: whatever `adk api_server` answers, adkweb answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sessions_app.access.actor import Actor
from sessions_app.domain.errors import Invalid
from sessions_app.reads import whole_session
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests import strategies
from tests.adk.services import APP, USER, Adk
from tests.adk.test_events import rich_event
from tests.api.both import JSON, SESSIONS, AdkServer, AdkwebServer, differences, said

pytestmark = pytest.mark.django_db(databases="__all__")
_numbers = itertools.count()


@pytest.fixture
def adk(form: str, new_database: Callable[[str], str]) -> Iterator[Adk]:
    """google-adk on a database of its own."""
    adk = Adk(form, new_database(form))
    yield adk
    adk.close()


@pytest.fixture
def adks(adk: Adk) -> AdkServer:
    """google-adk's server there."""
    return AdkServer(adk)


@pytest.fixture
def ours(source: str, new_token: Callable[..., str]) -> AdkwebServer:
    """adkweb on another database of the same format."""
    return AdkwebServer(new_token())


@pytest.fixture
def shared(
    form: str,
    new_database: Callable[[str], str],
    open_source: Callable[[str, str], str],
    new_token: Callable[..., str],
) -> Iterator[tuple[AdkServer, AdkwebServer, Adk, str]]:
    """Both on one database; google-adk's service there; the source."""
    place = new_database(form)
    alias = open_source(place, form)
    adk = Adk(form, place)
    yield AdkServer(adk), AdkwebServer(new_token()), adk, alias
    adk.close()


# --- What is there ----------------------------------------------------------------------------------------------------


def same_answers(adks: AdkServer, ours: AdkwebServer, *paths: str) -> None:
    """The same JSON, ids and times included."""
    for path in paths:
        theirs, told = adks.ask("GET", path), ours.ask("GET", path)
        assert told.status_code == theirs.status_code
        # google-adk writes `in` of a scheme as `in_`, which its own clients cannot read; adkweb writes `in`, as /run does.
        found = [each for each in differences(told.json(), theirs.json()) if ".authScheme:" not in each]
        assert found == []
        assert told.headers["content-type"] == theirs.headers["content-type"]


def test_what_google_adk_stored_is_sent_as_google_adk_sends_it(
    shared: tuple[AdkServer, AdkwebServer, Adk, str],
) -> None:
    adks, ours, adk, _source = shared
    session = adk.create(state={"step": None, "user:tier": {"a": [None, 1.5]}, "app:limit": 10, "temp:x": 1})
    adk.run(adk.service.append_event(session, rich_event()))
    adk.append(session, "hello", step="choose", user__tier="gold", app__limit=None, temp__now=1)
    adk.create("s2", {"apiKey": "kept", "auth": {"authType": "apiKey", "apiKey": "secret", "in": {"token": 1}}})
    adk.create("adk-eval-session-1")
    same_answers(
        adks, ours, SESSIONS, SESSIONS + "/s1", SESSIONS + "/s2", SESSIONS + "/s3", "/apps/none/users/x/sessions"
    )


def test_events_of_several_pages_are_all_sent_in_their_order(
    shared: tuple[AdkServer, AdkwebServer, Adk, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    adks, ours, adk, _source = shared
    monkeypatch.setattr(whole_session, "PAGE", 2)
    session = adk.create()
    for number in range(6):
        same_answers(adks, ours, SESSIONS + "/s1")
        adk.append(session, f"message {number}", n=number)
    same_answers(adks, ours, SESSIONS + "/s1")
    told = ours.ask("GET", SESSIONS + "/s1").json()["events"]
    assert [each["actions"]["stateDelta"]["n"] for each in told] == list(range(6))


@given(events=st.lists(strategies.events | strategies.hostile_events, max_size=3))
def test_what_adkweb_or_another_program_stored_is_sent_as_google_adk_sends_it(
    shared: tuple[AdkServer, AdkwebServer, Adk, str], events: list[dict[str, Any]]
) -> None:
    adks, ours, _adk, source = shared
    ref = create_session(source, APP, USER, actor=Actor.holding("test", "admin"))
    for number, hostile in enumerate(events):
        told = {name: value for name, value in hostile.items() if name not in ("id", "timestamp")}
        try:
            append_event(ref, {**told, "timestamp": 1e9 + number}, actor=Actor.holding("test", "admin"))
        except Invalid:
            continue
    theirs = adks.ask("GET", f"{SESSIONS}/{ref.session_id}")
    told = ours.ask("GET", f"{SESSIONS}/{ref.session_id}")
    if theirs.status_code == 500:  # google-adk cannot load it
        assert told.status_code == 200
    else:
        assert differences(told.json(), theirs.json()) == []


# --- Sequences --------------------------------------------------------------------------------------------------------

names = st.sampled_from(["s1", "s2", "ñ 😀", "a~b"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | strategies.text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strategies.keys, inner, max_size=3),
    max_leaves=5,
)
states = st.dictionaries(strategies.keys, values, max_size=4)
wrong = st.sampled_from([None, 3, "x", [], {}, True, [3]])
calls = st.fixed_dictionaries({"name": st.sampled_from(["f", "adk_request_credential"])}, optional={"args": states})
parts = st.fixed_dictionaries(
    {},
    optional={
        "text": strategies.text | wrong,
        "functionCall": calls,
        "function_response": st.fixed_dictionaries({"name": st.just("f"), "response": states}),
        "thought": st.booleans() | wrong,
        "bogus": wrong,
        "inlineData": st.fixed_dictionaries({"data": st.sampled_from(["AAA=", "-_8=", "+/8=", "?"])}),
    },
)
new_events = st.fixed_dictionaries(
    {},
    optional={
        "author": strategies.text | wrong,
        "invocationId": strategies.text,
        "invocation_id": st.just("i2"),
        "content": st.fixed_dictionaries({"role": st.just("user"), "parts": st.lists(parts, max_size=2)}) | wrong,
        "customMetadata": st.dictionaries(strategies.keys | st.just("__adk_internal_x"), values, max_size=3),
        "actions": st.sampled_from([{}, {"stateDelta": {}}, {"state_delta": {"a": 1}}, {"bogus": 1}]) | wrong,
        "longRunningToolIds": st.sampled_from([[], ["a"], [3], None]),
        "partial": st.booleans() | wrong,
        "turnComplete": st.sampled_from(["yes", "odd", 1, False]),
        "usageMetadata": st.fixed_dictionaries({"totalTokenCount": st.integers(0, 9) | wrong}),
        "timestamp": st.sampled_from(["x", None, [], True]),
        "nodeInfo": st.sampled_from([{"path": "a/b", "more": 1}, {"outputFor": ["x"]}, 3]),
        "node_path": st.just("a/b"),
        "message": st.sampled_from(["hi", {"parts": [{"text": "x"}]}]),
        "state": st.sampled_from([{}, {"a": 1}]),
        "route": st.sampled_from([None, "x"]),
        "output": values,
        "errorCode": strategies.text | wrong,
        "unknown": values,
    },
)
few = {"author": "user", "content": {"role": "user", "parts": [{"text": "x", "thought": None}]}}
new_sessions = st.fixed_dictionaries(
    {"sessionId": names | wrong.filter(bool)},
    optional={
        "state": states | wrong,
        "events": st.lists(st.just(few) | new_events, max_size=2) | wrong,
        "options": st.sampled_from([None, {}, {"ttl": 1}, {"state": 1, "user_id": 2}, 3]),
        "unknown": values,
    },
)
updates = st.fixed_dictionaries(
    {}, optional={"stateDelta": states | wrong, "state_delta": states, "unknown": values}
) | st.builds(lambda delta: {"state_delta": delta}, states)
steps = st.one_of(
    st.tuples(st.just("POST"), st.just(""), new_sessions | wrong),
    st.tuples(st.just("POST"), names.map(lambda name: "/" + name), states | wrong),
    st.tuples(st.just("PATCH"), names.map(lambda name: "/" + name), updates | wrong),
    st.tuples(st.sampled_from(["GET", "DELETE"]), names.map(lambda name: "/" + name), st.none()),
    st.tuples(st.just("GET"), st.just(""), st.none()),
)


@given(sequence=st.lists(steps, min_size=1, max_size=6))
def test_a_sequence_of_requests_has_the_same_answers(
    adks: AdkServer, ours: AdkwebServer, sequence: list[tuple[str, str, Any]]
) -> None:
    sessions = f"/apps/app{next(_numbers)}/users/{USER}/sessions"
    for method, tail, body in [*sequence, ("GET", "/s1", None), ("GET", "/s2", None), ("GET", "", None)]:
        sent = {} if method in ("GET", "DELETE") else {"content": json.dumps(body), "headers": JSON}
        theirs, told = (server.ask(method, sessions + tail, **sent) for server in (adks, ours))
        event("status", theirs.status_code)
        if "500" in str(theirs.status_code):
            assert told.status_code < 500
            return
        assert differences(said(told), said(theirs)) == [], (method, tail, body)
