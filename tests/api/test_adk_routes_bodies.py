"""What `adk api_server` refuses adkweb refuses, by the same status and the same JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.auth.auth_credential import _redact_credential_secrets
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sessions_app.access.actor import SYSTEM
from sessions_app.api.adk import sending
from sessions_app.api.adk.models import event_model
from sessions_app.api.adk.sending import redacted
from sessions_app.domain import credentials
from sessions_app.domain.description import AUTH_CALL
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import whole_session
from tests import strategies
from tests.adk.services import APP, USER, Adk
from tests.adk.test_events import rich_event
from tests.api.both import JSON, SESSIONS, AdkServer, AdkwebServer, differences, said

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def both(tmp_path: Path, store: str, new_token: Callable[..., str]) -> Iterator[tuple[AdkwebServer, AdkServer]]:
    """adkweb and google-adk's server, each on a SQLite file with one session, s1."""
    adk = Adk("sqlite", str(tmp_path / "adk.db"))
    servers = AdkwebServer(new_token()), AdkServer(adk)
    for server in servers:
        assert server.ask("POST", SESSIONS + "/s1").status_code == 200
    yield servers
    adk.close()


BODIES = [
    b"",
    b"null",
    b"{}",
    b"[]",
    b"3",
    b'"x"',
    b"{",
    b'{"sessionId"',
    b"\xff",
    b'\xef\xbb\xbf{"state":{}}',
    '{"state":{"a":"ü"}}'.encode("utf-16"),
    b'{"state":{"a":1,"a":2},"stateDelta":{"b":1,"b":2}}',
    b'{"stateDelta":null,"state":null,"events":null,"options":null,"sessionId":null}',
    b'{"stateDelta":[],"state":[],"events":{},"options":[],"sessionId":[]}',
    b'{"state_delta":{"a":null,"temp:x":[1],"user:y":{"k":null},"app:z":""}}',
    b'{"state_delta":{"a":1},"stateDelta":{"a":2},"session_id":"s8","sessionId":"s9"}',
    b'{"sessionId":"s1"}',
    b'{"sessionId":"  s1 "}',
    b'{"options":{"ttl":1}}',
    b'{"options":{"user_id":1,"state":1}}',
    b"[" * 200_000,
    b'{"state":{"a":' + b"1" * 5_000 + b"}}",
    json.dumps({"events": [{"id": "e1", "customMetadata": {"__adk_internal_x": 1}, "unknown": 1}]}).encode(),
    json.dumps({"events": [{"partial": True}, {"author": "user", "timestamp": "1795267718.5"}]}).encode(),
    json.dumps({"events": [{"actions": {"escalate": True}}]}).encode(),
    json.dumps({"events": [{"state": {"a": 1}}, {"message": "x", "content": {}}]}).encode(),
    json.dumps({"events": [{"message": "x", "content": None}]}).encode(),
    json.dumps({"events": [{"longRunningToolIds": ["x"]}]}).encode(),
    json.dumps({"events": [{"content": {"parts": [{"functionResponse": {"name": "adk_request_input"}}]}}]}).encode(),
    json.dumps({"events": [{"content": {"parts": [{"inlineData": {"data": "?"}}]}}]}).encode(),
    json.dumps({"events": [3, {"author": 3, "content": {"parts": [{"bogus": 1}]}}]}).encode(),
]
TYPES = ["application/json", "application/json; charset=utf-8", "application/vnd.x+json", "text/plain", "json", None]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:60].decode("latin-1"))
def test_a_body_is_taken_or_refused_as_google_adk_does(both: tuple[AdkwebServer, AdkServer], body: bytes) -> None:
    for method, tail in (
        ("POST", ""),
        ("POST", "/s2"),
        ("PATCH", "/s1"),
        ("PATCH", "/s3"),
        ("GET", "/s1"),
        ("GET", ""),
    ):
        ours, theirs = (server.ask(method, SESSIONS + tail, content=body, headers=JSON) for server in both)
        found, wanted = said(ours), said(theirs)
        if method == "GET" and not tail:  # sessions by time
            found, wanted = (sorted(map(str, each[1])) for each in (found, wanted))
        assert differences(found, wanted) == [], (method, tail)


@pytest.mark.parametrize("kind", TYPES)
def test_only_a_body_that_is_called_json_is_read_as_json(
    both: tuple[AdkwebServer, AdkServer], kind: str | None
) -> None:
    headers = {"content-type": kind} if kind else {}
    for method, tail in (("POST", ""), ("POST", "/s2"), ("PATCH", "/s1")):
        sent = {"content": b'{"stateDelta":{"a":1}}', "headers": headers}
        ours, theirs = (server.ask(method, SESSIONS + tail, **sent) for server in both)
        assert differences(said(ours), said(theirs)) == [], (method, tail)


def test_what_is_no_json_number_is_null(both: tuple[AdkwebServer, AdkServer]) -> None:
    ours, _theirs = both
    sent = {"content": b'{"sessionId":"s2","state":{"a":NaN},"stateDelta":{"b":-Infinity}}', "headers": JSON}
    assert ours.ask("POST", SESSIONS, **sent).json()["state"] == {"a": None}
    assert ours.ask("PATCH", SESSIONS + "/s2", **sent).json()["state"] == {"a": None, "b": None}


REFUSED = {
    "the same id twice": {"events": [{"id": "e1"}, {"id": "e1"}]},
    "an id that is too long": {"events": [{"id": "x" * 129}]},
    "an app's name that is too long": None,
    "half a character": {"state": {"a": "\ud800"}},
    "U+0000": {"state": {"a": "\0"}},
    "levels that google-adk cannot read again": {"state": {"a": strategies.nested(160)}},
    "an event of another century": {"events": [{"timestamp": 5e9}]},
    "a note that only adkweb makes": {"events": [{"customMetadata": {"adkweb": {"actor": "maria"}}}]},
    "the note of a fork": {"events": [{"customMetadata": {"adkweb_origin": {"session": "s1", "event": "e1"}}}]},
    "the note of a fork in snake_case": {"events": [{"custom_metadata": {"a": 1, "adkweb_origin": None}}]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_google_adk_stumbles_over_is_refused_before_anything_is_written(
    both: tuple[AdkwebServer, AdkServer], case: str
) -> None:
    ours, _theirs = both
    sessions = SESSIONS if REFUSED[case] else f"/apps/{'x' * 129}/users/ana/sessions"
    answer = ours.ask("POST", sessions, content=json.dumps(REFUSED[case] or {}).encode(), headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert [each["id"] for each in ours.ask("GET", SESSIONS).json()] == ["s1"]


def test_events_of_a_new_session_are_stored_as_google_adk_stores_those_that_it_did_not_make(
    both: tuple[AdkwebServer, AdkServer], store: str
) -> None:
    ours, _theirs = both
    sent = {"sessionId": "s2", "events": [{"customMetadata": {"a": 1, "__adk_internal_x": 2}}]}
    assert ours.ask("POST", SESSIONS, json=sent).json()["events"][0]["customMetadata"] == {"a": 1}
    found = whole_session.load(SessionRef(store, APP, USER, "s2"), actor=SYSTEM)
    assert found is not None
    metadata = json.loads(found.events[0].text)["custom_metadata"]
    assert metadata == {"a": 1, "__adk_internal_restored_event": True}


# --- Models -----------------------------------------------------------------------------------------------------------


def read(model: type[BaseModel], given: Any) -> Any:
    """What a model makes of a value, or the faults that it finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return model.model_validate(given, from_attributes=True).model_dump(mode="json", exclude_none=True)
        except ValidationError as error:
            return sorted(str((each["type"], each["loc"], each["msg"])) for each in error.errors())


@given(strategies.hostile_events | strategies.events)
def test_an_event_is_read_as_google_adk_reads_it(given: dict[str, Any]) -> None:
    event = {**given, "id": "e1", "timestamp": 1.5}
    event["actions"] = {"state_delta": {}, "requested_auth_configs": {}}
    ours = read(event_model(), event)
    try:
        theirs = read(Event, event)
    except AttributeError:  # google-genai's own fault, met with an object where an enumeration's name belongs
        assert isinstance(ours, list)
    else:
        assert ours == theirs


def test_an_enumeration_that_google_genai_breaks_on_is_refused() -> None:
    event = {"content": {"parts": [{"executable_code": {"code": "x", "language": {}}}]}}
    with pytest.raises(AttributeError):
        read(Event, event)
    assert isinstance(read(event_model(), event), list)


def test_an_event_with_every_field_is_read_as_google_adk_reads_it() -> None:
    for by_alias in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            event = rich_event().model_dump(mode="json", exclude_none=True, by_alias=by_alias)
        event["actions"]["requested_auth_configs"] = {}
        event["actions"].pop("requestedAuthConfigs", None)
        assert differences(read(event_model(), event), read(Event, event)) == []


# --- Secrets ----------------------------------------------------------------------------------------------------------

NAMES = """
    authType auth_type name args response authConfig auth_config requestedAuthConfigs requested_auth_configs
    rawAuthCredential exchanged_auth_credential token apiKey api_key a clientSecret private_key additionalHeaders password
"""
_names = st.sampled_from(NAMES.split())
_leaves = st.sampled_from(["apiKey", "http", "OAUTH2", "service_account", "adk_request_credential", "x", None, 3])
_documents = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4), max_leaves=20
)


@pytest.mark.guarantee("Safety", "adkweb leaves out secrets in credentials wherever google-adk does.")
@given(_documents)
def test_secrets_are_left_out_where_google_adk_leaves_them_out(document: Any) -> None:
    assert redacted(document) == _redact_credential_secrets(document)


@pytest.mark.parametrize(
    "mark", [*NAMES.split()[:2], AUTH_CALL, *sorted(credentials.REQUESTED), *sorted(credentials.CREDENTIALS)]
)
@pytest.mark.parametrize("requested", [(False, False), (True, False), (True, True)])
def test_a_page_of_events_hides_the_secrets_of_each(mark: str, requested: tuple[bool, bool]) -> None:
    secret: dict[str, Any] = {mark: {"token": "hunter2"}}
    if mark in ("authType", "auth_type"):
        secret = {mark: "apiKey", "token": "hunter2"}
    elif mark == AUTH_CALL:
        secret = {"name": mark, "response": {"token": "hunter2"}}
    page = []
    for document, requests in zip(({}, secret), requested, strict=True):
        actions = {"requested_auth_configs": {}} if requests else {}
        text = json.dumps({"author": "agent", "custom_metadata": {"said": document}, "actions": actions})
        page.append(whole_session.StoredEvent(text, "e", "i", 1.0, 1))
    sent = list(sending.events_of_page(page))
    assert len(sent) == 2
    assert "hunter2" not in json.dumps(sent)
