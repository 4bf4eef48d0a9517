"""The shape of an event: what is stored is checked, what was stored is described whatever it is."""

import json
import sqlite3
import time
from typing import Any

import pytest
from django.conf import settings
from google.adk.events import Event as AdkEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sessions_app.domain.adk_fields import ACTION_FIELDS
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.errors import Invalid
from sessions_app.domain.event import Event, check_event, delta_of, new_id, removed_by, same
from sessions_app.domain.json_values import equal
from sessions_app.domain.kinds import KINDS, describe, say
from sessions_app.domain.state import without_temp
from tests.strategies import events, hostile_events, json_values, nested

# --- Checking ---------------------------------------------------------------------------------------------------------


@given(events)
def test_checking_twice_is_checking_once(event: Event) -> None:
    stored = check_event(event)
    assert check_event(stored) == stored


@given(events)
def test_fields_survive_equal_known_or_not(event: Event) -> None:
    stored = check_event(event)
    for name, value in event.items():
        if name == "actions":
            assert equal(stored["actions"]["state_delta"], without_temp(value["state_delta"]))
        elif value is None:
            assert name not in stored
        elif value or name not in ("id", "invocation_id"):
            assert equal(stored[name], value)


@given(events)
def test_what_is_stored_is_what_adk_loads(event: Event) -> None:
    stored = check_event(event)
    loaded = AdkEvent.model_validate(stored)
    assert (loaded.id, loaded.timestamp, loaded.author) == (stored["id"], stored["timestamp"], stored["author"])
    assert equal(loaded.actions.state_delta, delta_of(stored))


@given(hostile_events)
def test_any_json_is_an_event_or_invalid_and_nothing_else(event: dict[str, Any]) -> None:
    try:
        stored = check_event(event)
    except Invalid:
        return
    assert check_event(stored) == stored
    faults: list[Any] = []
    try:
        AdkEvent.model_validate(stored)
    except ValidationError as error:
        faults = error.errors()
    # What Google's part of the shape forbids changes with its versions; the fields themselves are checked.
    assert all(len(fault["loc"]) > 1 for fault in faults)


def test_an_event_gets_the_id_and_time_that_it_lacks() -> None:
    before = time.time()
    first, second = check_event({}), check_event({"id": "", "timestamp": None})
    assert first["id"] != second["id"]
    assert before <= first["timestamp"] <= second["timestamp"] <= time.time()
    assert first["invocation_id"] == first["author"] == ""


def test_the_given_event_is_left_as_it_was() -> None:
    event = {"author": "x", "actions": {"state_delta": {"temp:a": 1, "b": None}}, "branch": None}
    given_text = json.dumps(event)
    check_event(event)
    assert json.dumps(event) == given_text


@pytest.mark.guarantee("Writing", "`temp:` keys are never stored.")
def test_temp_keys_are_trimmed_and_nulls_left_out_but_in_the_delta() -> None:
    event = {"branch": None, "actions": {"escalate": None, "state_delta": {"temp:a": 1, "b": None, "temporary": 2}}}
    stored = check_event(event)
    assert "branch" not in stored
    assert stored["actions"] == {"state_delta": {"b": None, "temporary": 2}}


def test_every_action_that_adk_has_is_accepted_and_no_other() -> None:
    assert set(type(AdkEvent().actions).model_fields) == ACTION_FIELDS
    with pytest.raises(Invalid, match='t recognise "adkweb", "état"'):
        check_event({"actions": {"adkweb": 1, "état": 2, "escalate": True}})


@pytest.mark.guarantee(
    "Writing",
    "Before writing anything, adkweb rejects events that google-adk wouldn't be able to load, and says where the error is.",
)
@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ([], "An event must be a JSON object."),
        ("{}", "An event must be a JSON object."),
        (None, "An event must be a JSON object."),
        ({"id": "x" * 129}, "id has 129 characters"),
        ({"id": 7}, "id isn't a string"),
        ({"id": 0}, "id isn't a string"),
        ({"id": "a\0"}, "id: the character U+0000"),
        ({"invocation_id": "x" * 257}, "invocation_id has 257 characters"),
        ({"invocation_id": []}, "invocation_id isn't a string"),
        ({"author": {}}, "author isn't a string"),
        ({"timestamp": "2026-01-01"}, "timestamp: must be a number, in seconds since 1970"),
        ({"timestamp": True}, "timestamp: must be a number, in seconds since 1970"),
        ({"timestamp": float("nan")}, "timestamp: NaN"),
        ({"timestamp": -1}, "timestamp: must be in seconds, between the years"),
        ({"timestamp": 1e300}, "timestamp: must be in seconds, between the years"),
        ({"timestamp": 10**400}, "timestamp: must be in seconds, between the years"),
        ({"timestamp": time.time() * 1000}, "timestamp: must be in seconds, between the years"),  # milliseconds
        ({"actions": []}, "actions: must be an object"),
        ({"actions": {"state_delta": []}}, "actions.state_delta: must be an object"),
        ({"actions": {"state_delta": "{}"}}, "actions.state_delta: must be an object"),
        ({"actions": {"artifact_delta": {"a.txt": "1"}}}, "actions.artifact_delta.a.txt: must be a whole number"),
        ({"actions": {"artifact_delta": {"a.txt": True}}}, "actions.artifact_delta.a.txt: must be a whole number"),
        ({"actions": {"transfer_to_agent": 1}}, "actions.transfer_to_agent: must be a string"),
        ({"actions": {"state_delta": {"a": [1, float("inf")]}}}, "actions.state_delta.a[1]: NaN"),
        ({"actions": {"state_delta": {"a": nested(200)}}}, "actions.state_delta.a[0]"),
        ({"content": "hello"}, "content: must be an object"),
        ({"content": {"parts": {}}}, "content.parts: must be a list"),
        ({"content": {"parts": ["hello"]}}, "content.parts: must be a list of objects"),
        ({"content": {"parts": [{"text": "a"}, {"text": 1}]}}, "content.parts[1].text: must be a string"),
        ({"content": {"parts": [{"text": "a\ud800"}]}}, "content.parts[0].text: half a surrogate pair"),
        ({"content": {"role": 1}}, "content.role: must be a string"),
        ({"content": {"parts": [{"thought": "yes"}]}}, "content.parts[0].thought: must be true or false"),
        ({"content": {"parts": [{"function_call": "f()"}]}}, "content.parts[0].function_call: must be an object"),
        (
            {"content": {"parts": [{"function_call": {"args": []}}]}},
            "content.parts[0].function_call.args: must be an object",
        ),
        (
            {"content": {"parts": [{"function_response": {"id": 1}}]}},
            "content.parts[0].function_response.id: must be a string",
        ),
        ({"custom_metadata": "x"}, "custom_metadata: must be an object"),
        ({"branch": 1}, "branch: must be a string"),
        ({"turn_complete": "yes"}, "turn_complete: must be true or false"),
        ({"usage_metadata": []}, "usage_metadata: must be an object"),
        ({"long_running_tool_ids": "c1"}, "long_running_tool_ids: must be a list"),
        ({"long_running_tool_ids": [1]}, "long_running_tool_ids: must be a list of strings"),
        ({"actions": {"escalate": 1}}, "actions.escalate: must be true or false"),
        ({"actions": {"agent_state": []}}, "actions.agent_state: must be an object"),
        ({1: 2}, "a key must be a string, not int"),
    ],
)
def test_what_adk_could_not_load_again_is_refused_with_its_place(event: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_event(event)
    assert sentence in caught.value.message


def test_the_deepest_event_that_is_accepted_can_be_loaded_by_adk() -> None:
    delta: Any = {"a": nested(147)}
    stored = check_event({"actions": {"state_delta": delta}})
    assert AdkEvent.model_validate_json(json.dumps(stored)).actions.state_delta == delta
    with pytest.raises(Invalid, match="deeper"):
        check_event({"actions": {"state_delta": {"a": nested(148)}}})


@given(events)
def test_an_event_is_the_same_however_its_empty_fields_are_written(event: Event) -> None:
    stored = check_event(event)
    padded = {**stored, "branch": stored.get("branch"), "error_code": None}
    padded["actions"] = {"artifact_delta": {}, "requested_auth_configs": {}, "escalate": None, **stored["actions"]}
    assert same(stored, padded)
    assert same(padded, stored)


@given(events, json_values)
def test_an_event_with_another_field_is_another_event(event: Event, value: Any) -> None:
    stored = check_event(event)
    changed = {**stored, "another": value}
    assert same(stored, changed) == (value is None)


# --- Edits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "noted", "removed"),
    [
        ({"a": None}, ["a"], ["a"]),
        ({"a": None, "b": None}, ["a"], ["a"]),
        ({"a": 1}, ["a"], []),  # it has a value: so it was not removed
        ({}, ["a"], []),
        ({"a": None}, "a", []),
        ({"a": None}, [1, None, ["a"], {"a": 1}], []),
        ({"a": None}, None, []),
    ],
)
def test_only_what_the_delta_has_at_null_and_the_edit_names_is_removed(
    delta: dict[str, Any], noted: Any, removed: list[str]
) -> None:
    event = {"actions": {"state_delta": delta}, "custom_metadata": {"adkweb": {"removed": noted}}}
    assert removed_by(event) == removed


# --- Describing -------------------------------------------------------------------------------------------------------


@given(hostile_events)
def test_describing_never_fails_whatever_was_stored(event: dict[str, Any]) -> None:
    described = describe(event)
    assert described.kind in KINDS
    assert isinstance(described.author, str)
    assert isinstance(described.text, str)
    assert described.failed in (True, False)
    assert all(isinstance(part.name, str) and isinstance(part.id, str) for part in described.parts)
    assert set(described.removed) <= set(described.delta)
    assert described.edit == edit_of(event)


@given(st.dictionaries(st.sampled_from(["content", "actions", "custom_metadata"]), json_values))
def test_describing_survives_any_json_at_the_top(event: dict[str, Any]) -> None:
    assert describe(event).kind in KINDS


def test_describing_survives_the_deepest_and_the_longest() -> None:
    call = {"function_call": {"id": nested(150), "name": 10**4000, "args": nested(150)}}
    described = describe({"author": nested(150), "content": {"parts": [call]}, "error_code": float("nan")})
    assert described.kind == "error"
    assert describe({"content": {"parts": [{"text": "x" * 5_000_000}]}}).kind == "message"


def _parts(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": list(parts)}}


def _call(name: str, call_id: str = "c1") -> dict[str, Any]:
    return _parts({"function_call": {"name": name, "args": {}, "id": call_id}})


ONE_OF_EACH: dict[str, dict[str, Any]] = {
    "edit": {"custom_metadata": {"adkweb": {"actor": "maria"}}, "actions": {"state_delta": {"a": 1}}},
    "rewind": {"actions": {"rewind_before_invocation_id": "e-1", "state_delta": {"a": 1}}},
    "compaction": {"actions": {"compaction": {"start_timestamp": 1, "end_timestamp": 2}}},
    "stopped": {"error_code": "INVOCATION_ABORTED"},
    "error": {"error_code": "SAFETY", **_parts({"text": "no"})},
    "interrupted": {"interrupted": True, **_parts({"text": "I was say"})},
    "auth": _call("adk_request_credential"),
    "confirmation": _call("adk_request_confirmation"),
    "long_running": {**_call("wait_for_it"), "long_running_tool_ids": ["c1"]},
    "transfer": {"actions": {"transfer_to_agent": "billing"}, **_parts({"function_response": {"name": "t"}})},
    "escalation": {"actions": {"escalate": True}},
    "call": {**_call("look_up"), "long_running_tool_ids": ["c2"]},
    "response": _parts({"function_response": {"name": "look_up", "response": {"result": 1}, "id": "c1"}}),
    "code": _parts({"executable_code": {"code": "print(1)", "language": "PYTHON"}}),
    "code_result": _parts({"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}}),
    "message": _parts({"text": "hm", "thought": True}, {"text": "Hello"}),
    "media": _parts({"inline_data": {"mime_type": "image/png", "data": "iVBO"}}),
    "transcription": {"input_transcription": {"text": "hello", "finished": True}},
    "thought": _parts({"text": "hm", "thought": True}),
    "output": {"output": 0},
    "artifact": {"actions": {"artifact_delta": {"a.txt": 0}}},
    "state": {"actions": {"state_delta": {"a": None}}},
    "checkpoint": {"actions": {"end_of_agent": True}},
    "finish": {"turn_complete": True},
    "remote": {"custom_metadata": {"a2a:task_id": "t-1"}},
    "live": {"live_session_resumption_update": {"new_handle": "h-1", "resumable": True}},
    "empty": {"author": "x"},
    "unknown": _parts({"video_metadata": {"fps": 1}}),
}


def test_there_is_an_example_of_every_kind() -> None:
    assert tuple(ONE_OF_EACH) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_event_is_told_apart_and_adk_knows_it(kind: str) -> None:
    event = check_event(ONE_OF_EACH[kind])
    assert describe(event).kind == kind
    if kind not in ("compaction", "media"):  # whose examples are shortened
        AdkEvent.model_validate(event)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Stay in **Mapo** or **Jongno**.", "Stay in Mapo or Jongno."),
        ("**Anything\nelse?**", "Anything else?"),
        ("**서울**은 큽니다", "서울은 큽니다"),
        ("2**8 is 4**4, ** not this **, a****b, **open", "2**8 is 4**4, ** not this **, a****b, **open"),
        ("**" * 400, "**" * 119 + "*…"),
    ],
)
def test_the_line_of_a_message_has_no_signs_of_bold_text(text: str, line: str) -> None:
    event = _parts({"text": text})
    assert "".join(piece.text for piece in say(describe(event), event)) == line


def test_one_event_may_be_several_things_the_one_that_says_most_first() -> None:
    event = {**_call("look_up"), "actions": {"transfer_to_agent": "b", "state_delta": {"a": 1}}, "turn_complete": True}
    described = describe(event)
    assert described.kinds == ["transfer", "call", "state", "finish"]
    assert not described.failed


@pytest.mark.parametrize(
    ("event", "failed"),
    [
        (_parts({"function_response": {"id": "c", "response": {"error": "no such city"}}}), True),
        (_parts({"function_response": {"id": "c", "response": {"error": None}}}), False),
        (_parts({"code_execution_result": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}}), True),
        ({"error_message": "quota"}, True),
        ({"interrupted": True}, False),  # the user spoke
        # The tool's "error" while ADK asks a person is none.
        (
            {
                **_parts({"function_response": {"id": "c", "response": {"error": "requires confirmation"}}}),
                "actions": {"requested_tool_confirmations": {"c": {"hint": "sure?"}}},
            },
            False,
        ),
    ],
)
def test_an_event_tells_whether_something_went_wrong(event: dict[str, Any], failed: bool) -> None:
    assert describe(event).failed is failed


def test_a_tools_images_are_parts_too() -> None:
    image = {"inline_data": {"mime_type": "image/webp", "data": "", "display_name": "map"}}
    described = describe(_parts({"function_response": {"name": "draw", "response": {}, "parts": [image]}}))
    assert [(part.kind, part.name) for part in described.parts] == [("response", "draw"), ("image", "map")]


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/html", "", "IMAGE/PNG"])
def test_only_image_types_without_script_are_images(mime: str) -> None:
    (part,) = describe(_parts({"inline_data": {"mime_type": mime, "data": "x"}})).parts
    assert part.kind == "file"


def test_every_event_of_the_demo_is_of_a_known_kind() -> None:
    with sqlite3.connect(f"file:{settings.DEMO}?mode=ro", uri=True) as demo:
        stored = [json.loads(text) for (text,) in demo.execute("SELECT event_data FROM events")]
    demo.close()
    described = [describe(event) for event in stored]
    assert len(described) > 100
    assert {found.kind for found in described} - {"unknown"} >= {"message", "call", "response", "transfer", "error"}
    assert [e for e, found in zip(stored, described, strict=True) if found.kind == "unknown"] == []
    assert not any(part.kind == "unknown" for found in described for part in found.parts)
    for event in stored:
        assert same(check_event(event), event)


def test_ids_are_never_given_twice() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000
