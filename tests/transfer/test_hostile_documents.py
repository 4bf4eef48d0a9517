"""Whatever stands in a document or in a store, it is read or refused, written or refused; nothing breaks."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.evaluation.eval_set import EvalSet
from google.adk.sessions import Session
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessions_app.domain.errors import Invalid
from sessions_app.transfer import FORMATS
from sessions_app.transfer.items import Fault, Item, SessionItem, event_item
from tests import strategies
from tests.transfer.files import checked

SESSION: Any = {
    "id": "s1",
    "appName": "app",
    "userId": "u",
    "state": {"a": 1, "app:b": 2, "user:c": 3},
    "lastUpdateTime": 3.0,
    "events": [
        {"id": "e1", "invocationId": "i", "author": "user", "timestamp": 1.0, "content": {"parts": [{"text": "a"}]}},
        {
            "id": "e2",
            "invocationId": "i",
            "author": "a",
            "timestamp": 2.0,
            "content": {"parts": [{"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}]},
            "actions": {"stateDelta": {"a": 1}, "artifactDelta": {"f": 0}},
            "longRunningToolIds": ["c"],
        },
    ],
}
CALL, ANSWER = {"id": "c", "name": "f", "args": {}}, {"id": "c", "name": "f", "response": {}}
USER = {"role": "user", "parts": [{"text": "hi"}]}
EVALSET: Any = {
    "eval_set_id": "s",
    "eval_cases": [
        {
            "eval_id": "a",
            "creation_timestamp": 5.0,
            "session_input": {"app_name": "app", "user_id": "u", "state": {"a": 1, "app:b": 2}},
            "conversation": [
                {
                    "invocation_id": "i",
                    "user_content": USER,
                    "final_response": {"parts": [{"functionCall": CALL}]},
                    "intermediate_data": {
                        "invocation_events": [
                            {"author": "a", "content": {"parts": [{"functionCall": CALL}]}},
                            {"author": "a", "grounding_metadata": {}, "usage_metadata": {"total_token_count": 1}},
                        ]
                    },
                    "creation_timestamp": 1.0,
                },
                {
                    "user_content": USER,
                    "final_response": {"parts": [{"function_response": ANSWER}]},
                    "intermediate_data": {
                        "tool_uses": [CALL],
                        "tool_responses": [ANSWER],
                        "intermediate_responses": [["a", [{"text": "b"}]]],
                    },
                },
            ],
        }
    ],
}
DOCUMENTS = {"adk-json": SESSION, "evalset": EVALSET}
HYPOTHESIS = settings(suppress_health_check=list(HealthCheck))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a JSON value, as a container and the key in it."""
    for name, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, name
        if isinstance(inner, dict | list):
            yield from places(inner)


@pytest.mark.parametrize("form", DOCUMENTS)
def test_the_documents_themselves_are_read(form: str) -> None:
    assert checked(json.dumps(DOCUMENTS[form]).encode(), form).events >= 2


@pytest.mark.parametrize("form", DOCUMENTS)
@HYPOTHESIS
@given(data=st.data(), strict=st.booleans())
def test_whatever_stands_in_a_document_it_is_read_or_refused(form: str, data: st.DataObject, strict: bool) -> None:
    document = copy.deepcopy(DOCUMENTS[form])
    for _ in range(data.draw(st.integers(1, 3))):
        inside, name = data.draw(st.sampled_from(list(places(document))))
        if data.draw(st.booleans()):
            inside[name] = data.draw(strategies.json_values)
        else:
            del inside[name]
        if not document:
            break
    place = ""
    try:
        checked(json.dumps(document).encode(), form, strict)
    except Fault as fault:
        place = fault.detail["place"]
    assert isinstance(place, str)


@pytest.mark.parametrize("form", DOCUMENTS)
@HYPOTHESIS
@given(st.lists(strategies.hostile_events | strategies.json_values, max_size=3))
@example([{"timestamp": 10**400}])
def test_whatever_a_store_holds_it_is_written_or_refused(form: str, events: list[Any]) -> None:
    def items() -> Iterator[Item]:
        yield SessionItem("app", "u", "s", 1.0, 2.0, "{}", None, len(events))
        for number, event in enumerate(events):
            yield event_item(event, f"e{number}", "i", 1.5)

    write = FORMATS[form].write
    assert write
    if all(isinstance(event, dict) for event in events):
        json.loads(b"".join(write(items())))
    else:
        with pytest.raises(Invalid, match="is not an object"):
            list(write(items()))


@given(st.lists(strategies.events, max_size=4, unique_by=lambda event: event.get("id", "")))
@HYPOTHESIS
def test_what_adk_can_store_is_written_so_that_it_loads_it(events: list[dict[str, Any]]) -> None:
    def items() -> Iterator[Item]:
        yield SessionItem("app", "u", "s", 1.0, 2.0, "{}", None, len(events))
        for number, event in enumerate(events):
            yield event_item(event, event.get("id", f"e{number}"), event.get("invocation_id", "i"), 1.5)

    writes = {form: FORMATS[form].write for form in DOCUMENTS}
    files = {form: b"".join(write(items())) for form, write in writes.items() if write}
    assert [event.author for event in Session.model_validate_json(files["adk-json"]).events] == [
        e["author"] for e in events
    ]
    EvalSet.model_validate_json(files["evalset"])
