"""Events: by page, one, appended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.incomplete import IMPORTING
from tests.api.conftest import fill
from tests.api.program import Program, address
from tests.support.stored import counts, events_of, everything, execute, in_threads, state_of

pytestmark = pytest.mark.django_db

EVENT = {
    "id": "e1",
    "author": "agent",
    "invocation_id": "i1",
    "timestamp": 1_800_000_000.5,
    "content": {"role": "model", "parts": [{"text": "hello"}]},
    "actions": {"state_delta": {"step": "pay", "user:tier": None, "app:limit": 11, "temp:x": 1}},
}


# --- Append -----------------------------------------------------------------------------------------------------------


def test_an_event_is_stored_and_its_delta_applied(program: Program, each_ref: SessionRef) -> None:
    stored = program.post(address(each_ref, "/events"), EVENT)
    assert stored.status == 201
    told = stored.json()
    assert told["event"]["actions"] == {"state_delta": {"step": "pay", "user:tier": None, "app:limit": 11}}
    assert told["event"]["timestamp"] == EVENT["timestamp"] == told["revision"]
    assert events_of(each_ref) == [(told["seq"], told["event"])]
    assert stored.headers["etag"] == program.get(address(each_ref)).headers["etag"]
    assert state_of(each_ref) == {
        "session": {"step": "pay", "nothing": None},
        "user": {"tier": None},
        "app": {"limit": 11},
    }


def test_what_is_missing_is_made_up(program: Program, each_ref: SessionRef) -> None:
    event = program.post(address(each_ref, "/events"), {"author": "agent"}).json()["event"]
    assert len(event["id"]) == 36
    assert event["timestamp"] > 1_700_000_000


@pytest.mark.parametrize("event", [EVENT, {"id": "e1", "author": "agent"}, {"id": "e1", "timestamp": None}])
def test_the_same_event_again_is_stored_once(program: Program, each_ref: SessionRef, event: dict[str, Any]) -> None:
    first = program.post(address(each_ref, "/events"), event)
    program.post(address(each_ref, "/events"), {"id": "between", "author": "agent"})
    before = everything(each_ref.source)
    again = program.post(address(each_ref, "/events"), event)
    assert (first.status, again.status) == (201, 200)
    assert again.json() == {
        **first.json(),
        "revision": None,
    }  # or what was written between could be written over unseen
    assert "etag" not in again.headers
    assert everything(each_ref.source) == before


def test_the_same_event_again_is_not_stale_either(program: Program, each_ref: SessionRef) -> None:
    tag = program.get(address(each_ref, "/standing")).headers["etag"]
    event = {"id": "e1", "author": "agent"}
    assert program.post(address(each_ref, "/events"), event, if_match=tag).status == 201
    assert program.post(address(each_ref, "/events"), event, if_match=tag).status == 200
    assert program.post(address(each_ref, "/events"), EVENT | {"id": "e2"}, if_match=tag).status == 412


def test_eight_programs_that_send_the_same_event_at_once_store_it_once(
    program: Program, each_ref: SessionRef, transactional_db: None
) -> None:
    statuses = in_threads([lambda: program.post(address(each_ref, "/events"), EVENT).status] * 8)
    assert sorted(map(str, statuses)) == ["200"] * 7 + ["201"]
    assert len(events_of(each_ref)) == 1


@pytest.mark.parametrize("change", [{"author": "other"}, {"timestamp": 1.0}, {"actions": {}}])
def test_another_event_under_an_id_is_a_conflict(
    program: Program, each_ref: SessionRef, change: dict[str, Any]
) -> None:
    program.post(address(each_ref, "/events"), EVENT)
    before = everything(each_ref.source)
    refused = program.post(address(each_ref, "/events"), EVENT | change)
    assert refused.status == 409
    assert "e1" in refused.detail
    assert everything(each_ref.source) == before


def test_an_append_to_a_session_that_is_being_imported_is_refused(program: Program, each_ref: SessionRef) -> None:
    execute(each_ref.source, "UPDATE sessions SET state = %s WHERE id = %s", [json.dumps(IMPORTING), each_ref[3]])
    before = everything(each_ref.source)
    for event in ({"author": "agent"}, {"id": "x", "timestamp": 1.0}):
        refused = program.post(address(each_ref, "/events"), event)
        assert refused.status == 409
        assert refused.detail.startswith("This session is being copied or imported")
    assert everything(each_ref.source) == before


def test_an_append_to_a_session_that_moved_is_refused_where_if_match_says_so(
    program: Program, each_ref: SessionRef
) -> None:
    tag = program.get(address(each_ref)).headers["etag"]
    moved = program.post(address(each_ref, "/events"), {"author": "a"}, if_match=tag)
    before = everything(each_ref.source)
    refused = program.post(address(each_ref, "/events"), {"author": "b"}, if_match=tag)
    assert refused.status == 412
    assert everything(each_ref.source) == before
    assert program.post(address(each_ref, "/events"), {"author": "c"}, if_match=moved.headers["etag"]).status == 201
    assert program.post(address(each_ref, "/events"), {"author": "d"}, if_match="*").status == 201
    assert program.post(address(each_ref, "/events"), {"author": "e"}).status == 201


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        ('"0.0"', 412),
        ('"1e300"', 412),
        ('"1e999"', 412),
        (f'"{2**70}"', 412),
        ("1.5", 400),
        ('W/"1.5"', 400),
        ("", 400),
    ],
)
def test_an_if_match_that_no_session_has_writes_nothing(
    program: Program, each_ref: SessionRef, tag: str, status: int
) -> None:
    before = everything(each_ref.source)
    for refused in (
        program.post(address(each_ref, "/events"), {"author": "a"}, if_match=tag),
        program.patch(address(each_ref, "/state"), {"set": {"a": 1}}, if_match=tag),
    ):
        assert refused.status == status
    assert everything(each_ref.source) == before


@pytest.mark.parametrize(
    ("event", "place"),
    [
        ([], "object"),
        ({"timestamp": "now"}, "timestamp"),
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": 10**400}, "timestamp"),
        ({"author": 5}, "author"),
        ({"id": "x" * 129}, "id"),
        ({"id": ["e"]}, "id"),
        ({"invocation_id": "x" * 257}, "invocation_id"),
        ({"content": "hello"}, "content"),
        ({"content": {"parts": [{"text": "a"}, {"text": 5}]}}, "content.parts[1].text"),
        ({"content": {"parts": [{"function_call": {"name": "f", "args": []}}]}}, "content.parts[0].function_call.args"),
        ({"content": {"parts": [{"inline_data": {"data": "no base64!", "mime_type": "a/b"}}]}}, "inline_data.data"),
        ({"actions": {"state_delta": []}}, "actions.state_delta"),
        ({"actions": {"artifact_delta": {"f": "1"}}}, "actions.artifact_delta.f"),
        ({"actions": {"made_up": 1}}, "made_up"),
        ({"actions": {"stateDelta": {}}}, "stateDelta"),
        ({"usage_metadata": {"prompt_token_count": "many"}}, "usage_metadata.prompt_token_count"),
        ({"long_running_tool_ids": [1]}, "long_running_tool_ids"),
        ({"partial": True}, "partial"),
        ({"partial": "yes"}, "partial"),
        (b'{"id": "a", "id": "b"}', '"id"'),
        (b'{"a": 1e400}', "NaN and infinity"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a":\n  01}', "line 2"),
        (b'{"a": "\xff"}', "byte 8"),
        (b'{"a": "\\u0000"}', "U+0000"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b"", "line 1"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "4300 digits"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "150 levels"),
        (b'{"a": ' + b"[" * 100_000, "150 levels"),
    ],
)
def test_what_is_no_event_is_refused_with_its_place(
    program: Program, each_ref: SessionRef, event: Any, place: str
) -> None:
    before = everything(each_ref.source)
    refused = program.post(address(each_ref, "/events"), event)
    assert refused.status == 400
    assert place in refused.detail
    assert everything(each_ref.source) == before


def test_fields_of_a_newer_adk_are_kept(program: Program, each_ref: SessionRef) -> None:
    newer = {"author": "a", "brand_new": {"deep": [1]}, "content": {"parts": [{"text": "x", "newest": True}]}}
    event = program.post(address(each_ref, "/events"), newer).json()["event"]
    assert event["brand_new"] == {"deep": [1]}
    assert event["content"]["parts"][0]["newest"] is True
    assert program.get(address(each_ref)).json()["events"][0]["event"]["brand_new"] == {"deep": [1]}


def test_large_numbers_come_back_equal(program: Program, each_ref: SessionRef) -> None:
    values = {"int": 10**300, "float": 1.7976931348623157e308, "tiny": 5e-324, "negative": -(2**63) - 1, "zero": -0.0}
    program.post(address(each_ref, "/events"), {"author": "a", "actions": {"state_delta": values}})
    found = program.get(address(each_ref)).json()
    assert found["state"]["session"] | values == found["state"]["session"]
    assert found["events"][0]["event"]["actions"]["state_delta"] == values


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("adkweb", {"actor": "maria", "reason": "", "replaced": {"step": 1}}),
        ("adkweb", {"removed": ["step"]}),
        ("adkweb", 5),
        ("adkweb_origin", {"user": "ana", "session": "other", "event": "e1"}),
        ("adkweb_origin", None),
    ],
)
def test_no_program_sends_what_adkweb_itself_notes(
    program: Program, each_ref: SessionRef, name: str, note: Any
) -> None:
    before = everything(each_ref.source)
    event = {**EVENT, "custom_metadata": {"mine": 1, name: note}}
    refused = program.post(address(each_ref, "/events"), event)
    assert refused.status == 400
    assert refused.json()["detail"].startswith(f"custom_metadata.{name}: ")
    assert everything(each_ref.source) == before


def test_other_custom_metadata_is_stored_as_it_was_sent(program: Program, each_ref: SessionRef) -> None:
    event = {**EVENT, "custom_metadata": {"mine": {"adkweb": [1]}, "adkweb_like": None}}
    assert program.post(address(each_ref, "/events"), event).status == 201
    ((_seq, stored),) = events_of(each_ref)
    assert stored["custom_metadata"] == event["custom_metadata"]


def test_an_event_for_no_session_is_not_found(program: Program, each_ref: SessionRef) -> None:
    assert program.post(address(each_ref, "/events").replace("/s1/", "/ghost/"), EVENT).status == 404
    assert counts(each_ref.source)["events"] == 0


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_is_json_whatever_it_is_called(program: Program, each_ref: SessionRef, media_type: str) -> None:
    body = b'{"author": "a", "content": {"parts": [{"text": "&a=b"}]}}'
    assert program.post(address(each_ref, "/events"), body, media_type=media_type).status == 201
    refused = program.post(address(each_ref, "/events"), b"author=a", media_type=media_type)
    assert refused.status == 400
    assert "line 1, column 1" in refused.detail


# --- Pages ------------------------------------------------------------------------------------------------------------


def test_pages_lead_back_to_the_first_event(program: Program, each_ref: SessionRef) -> None:
    fill(each_ref, 250)
    found: list[str] = []
    before: dict[str, str] = {}
    for size in (100, 100, 50):
        page = program.get(address(each_ref, "/events"), **before).json()
        assert len(page["items"]) == size
        found = [item["id"] for item in page["items"]] + found
        before = {"before": page["next"]}
    assert page["next"] is None
    assert found == [f"e{number}" for number in range(1, 251)]


def test_pages_lead_on_after_a_place(program: Program, each_ref: SessionRef) -> None:
    fill(each_ref, 25)
    found: list[str] = []
    after: str | None = "0"
    while after is not None:
        page = program.get(address(each_ref, "/events"), after=after, limit=10).json()
        found += [item["id"] for item in page["items"]]
        after = page["next"]
    assert found == [f"e{number}" for number in range(1, 26)]
    assert all(item["seq"] for item in page["items"])


def test_only_a_kind_or_an_author(program: Program, each_ref: SessionRef, add: Callable[..., str]) -> None:
    said = add(each_ref)
    called = add(each_ref, content={"parts": [{"function_call": {"name": "f", "args": {}}}]})
    failed = add(each_ref, content=None, error_code="500", author="other")
    wrote = add(each_ref, content=None, actions={"state_delta": {"a": 1}})
    edited = program.patch(address(each_ref, "/state"), {"set": {"a": 2}}).json()["event"]["id"]

    def ids(**query: Any) -> list[str]:
        return [item["id"] for item in program.get(address(each_ref, "/events"), **query).json()["items"]]

    assert ids() == [said, called, failed, wrote, edited]
    assert ids(kind="messages") == [said]
    assert ids(kind="tools") == [called]
    assert ids(kind="errors") == [failed]
    assert ids(kind="state") == [wrote, edited]
    assert ids(kind="edits") == [edited]
    assert ids(author="other") == [failed]
    assert ids(kind="messages", after=0) == [said]
    assert ids(author="nobody") == []


@pytest.mark.parametrize(
    "query",
    [
        "kind=ghosts",
        "before=x",
        "after=x",
        "after=-1",
        f"after={2**63}",
        "limit=0",
        "limit=1001",
        "before=WzFd&after=1",
    ],
)
def test_a_page_that_cannot_be_is_refused(program: Program, each_ref: SessionRef, query: str) -> None:
    assert program.get(address(each_ref, "/events?" + query)).status == 400


def test_a_text_that_no_author_can_have_finds_nothing_or_is_refused(program: Program, each_ref: SessionRef) -> None:
    answer = program.get(address(each_ref, "/events?author=%00"))
    assert answer.status == (400 if connections[each_ref.source].vendor == "postgresql" else 200)
    assert program.get(address(each_ref, "/events")).status == 200


def test_an_event_tells_what_it_changed(program: Program, each_ref: SessionRef) -> None:
    sent = program.post(address(each_ref, "/events"), EVENT).json()
    for event in (
        program.get(address(each_ref, "/events/e1")).json(),
        program.get(address(each_ref, "/events")).json()["items"][0],
    ):
        assert event["event"] == sent["event"]
        assert (event["seq"], event["id"], event["kind"]) == (sent["seq"], "e1", "message")
        changes = {change["key"]: change for change in event["changes"]}
        assert changes["step"] == {"key": "step", "old": "choose", "new": "pay"}
        assert changes["app:limit"] == {"key": "app:limit", "new": 11}  # nobody knows what stood there
    assert program.get(address(each_ref, "/events/ghost")).status == 404
