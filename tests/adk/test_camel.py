"""Both spellings of an event are google-adk's own, and nothing but its field names changes."""

from __future__ import annotations

import json
import typing
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.auth import AuthConfig
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sessions_app.domain.camel_case import to_camel, to_snake
from sessions_app.domain.event import check_event
from tests import strategies
from tests.adk.test_events import rich_event


def adks(event: Event) -> tuple[dict[str, Any], dict[str, Any]]:
    """An event as google-adk stores it, and as its routes send it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models in fields of any type
        stored, sent = (event.model_dump(mode="json", exclude_none=True, by_alias=alias) for alias in (False, True))
    return stored, sent


def models(annotation: Any, found: dict[str, type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """Every model in a type."""
    for each in typing.get_args(annotation):
        yield from models(each, found)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation.__name__ not in found:
        found[annotation.__name__] = annotation
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation, found)


SCHEMES = {"APIKey", "HTTPBase", "HTTPBearer", "OAuth2", "OpenIdConnect", "OpenIdConnectWithConfig", "CustomAuthScheme"}
ONE_SPELLING = {"CacheMetadata", *(f"OAuthFlow{name}" for name in ("AuthorizationCode", "ClientCredentials"))}
ONE_SPELLING |= {"OAuthFlows", "OAuthFlowImplicit", "OAuthFlowPassword", "HttpCredentials"}
MODELS = list(models(typing.Union[Event, AuthConfig], {}))  # noqa: UP007  a value, not an annotation


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_of_every_model_is_spelled_as_google_adk_spells_it(model: type[BaseModel]) -> None:
    stored = dict.fromkeys(model.model_fields, 1)
    sent = {field.serialization_alias or name: 1 for name, field in model.model_fields.items()}
    if model.__name__ in ONE_SPELLING:
        assert stored == sent
        return
    name = "AuthScheme" if model.__name__ in SCHEMES else model.__name__
    assert to_camel(stored, name) == sent
    assert to_snake(sent, name) == stored
    assert to_snake(stored, name) == stored


def test_an_event_with_every_field_is_spelled_as_google_adk_spells_it() -> None:
    stored, sent = adks(rich_event())
    assert to_camel(stored) == sent
    assert to_snake(sent) == stored
    assert to_snake(stored) == stored


FIELDS = [*Event.model_fields, "stateDelta", "functionCall", "invocationId", "mime_type"]
_opaque = st.dictionaries(st.sampled_from(FIELDS) | strategies.keys, strategies.json_values, max_size=4)


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    """Events with field names of ADK's where people put their own keys."""
    event = draw(strategies.events)
    event["actions"]["state_delta"] |= draw(_opaque)
    event["custom_metadata"] = draw(_opaque)
    event["x_unknown"] = draw(_opaque)
    event["output"] = draw(_opaque)
    call, response = {"name": "f", "args": draw(_opaque)}, {"name": "f", "response": draw(_opaque)}
    event["content"] = {"role": "model", "parts": [{"function_call": call}, {"function_response": response}]}
    return check_event(event)


@given(_events())
def test_keys_of_state_arguments_responses_and_metadata_stay_as_they_are(event: dict[str, Any]) -> None:
    before = json.dumps(event)
    sent = to_camel(event)
    stored, theirs = adks(Event.model_validate(event))
    assert to_camel(stored) == theirs
    for inner, place in (
        ("stateDelta", "state_delta"),
        ("artifactDelta", "artifact_delta"),
        ("agentState", "agent_state"),
    ):
        assert sent["actions"].get(inner) == event["actions"].get(place)
    assert (sent["customMetadata"], sent["x_unknown"]) == (event["custom_metadata"], event["x_unknown"])
    assert to_snake(sent) == event
    assert json.dumps(event) == before


@given(strategies.hostile_events)
def test_whatever_an_event_holds_nothing_is_lost(event: dict[str, Any]) -> None:
    assert to_snake(to_camel(event)) == event
