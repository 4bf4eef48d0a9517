"""Every field that an ADK event can have survives being written by adkweb and read by ADK, and the other way round."""

from __future__ import annotations

import enum
import json
import types as builtin_types
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections
from google.adk.auth import AuthConfig
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain import json_values
from sessions_app.domain.errors import Invalid
from sessions_app.reads import timeline, views
from sessions_app.writes.append import append_event
from sessions_app.writes.incomplete import MARK
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk, key_of

JSON = {"text": 'é "🧳" \\ </script>', "numbers": [0, -1.5, 1e-7, 2**53 + 1, 10**30], "nothing": None, "": [{}]}
MOMENT = datetime(2026, 11, 20, 8, 30, 0, 250000, tzinfo=UTC)


def test_an_event_with_every_field_is_read_by_adk_as_adkweb_got_it(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    ref = create_session(create(), APP, USER, actor=actor, session_id="s1")
    dumped = rich_event().model_dump(mode="json", exclude_none=True)
    append_event(ref, dumped, actor=actor)
    (loaded,) = adk.get().events
    assert loaded == Event.model_validate(dumped)
    (shown,) = timeline.events(ref, actor=SYSTEM).rows
    assert json_values.equal(shown.data, dumped)


def test_an_event_with_every_field_is_shown_as_adk_wrote_it(create: Callable[[], str], adk: Adk) -> None:
    source = create()
    event = rich_event()
    dumped = event.model_dump(mode="json", exclude_none=True)
    adk.run(adk.service.append_event(adk.create(), event))
    (shown,) = timeline.events(key_of(source), actor=SYSTEM).rows
    assert json_values.equal(shown.data, dumped)
    assert adk.get().events == [Event.model_validate(dumped)]


def test_the_rich_event_has_every_field_that_this_adk_knows() -> None:
    event = rich_event()
    assert event.model_dump(exclude_none=True).keys() == Event.model_fields.keys() - {"partial"}
    assert event.actions.model_dump(exclude_none=True).keys() == EventActions.model_fields.keys()
    assert event.content
    assert {
        name for part in event.content.parts or [] for name in part.model_fields_set
    } == types.Part.model_fields.keys()


def test_fields_that_this_adk_does_not_know_are_kept_in_storage_and_do_not_disturb_it(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    ref = create_session(create(), APP, USER, actor=actor, session_id="s1")
    event = {"author": "agent", "field_of_2031": {"a": [1, None, {"b": 0.1}]}, "node_info": {"path": "a", "new": [1]}}
    stored = append_event(ref, event, actor=actor).event
    (loaded,) = adk.get().events
    assert loaded.id == stored["id"]
    (shown,) = timeline.events(ref, actor=SYSTEM).rows
    assert shown.data == stored
    assert event.items() <= shown.data.items()
    with connections[ref.source].cursor() as cursor:
        cursor.execute("SELECT event_data FROM events")
        assert event.items() <= json.loads(cursor.fetchone()[0]).items()
    adk.append(adk.get(), "and on")
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 2


@pytest.mark.parametrize("place_of", ["delta", "args", "custom_metadata", "output"])
def test_adk_loads_and_goes_on_with_what_is_nested_as_deep_as_adkweb_accepts(
    create: Callable[[], str], adk: Adk, actor: Actor, place_of: str
) -> None:
    ref = create_session(create(), APP, USER, actor=actor, session_id="s1")
    at_the_limit = next(n for n in range(json_values.MAX_DEPTH, 0, -1) if _accepted(_nested(place_of, n)))
    with pytest.raises(Invalid, match="nested deeper than 150 levels"):
        append_event(ref, _nested(place_of, at_the_limit + 1), actor=actor)
    append_event(ref, _nested(place_of, at_the_limit), actor=actor)
    session = adk.get()
    assert len(session.events) == 1
    adk.append(session, "and on", b=1)
    assert len(adk.get().events) == 2


def test_adk_loads_and_goes_on_with_initial_state_as_deep_as_adkweb_accepts(
    create: Callable[[], str], adk: Adk, actor: Actor
) -> None:
    deep = _list(json_values.MAX_DEPTH - 1)
    state = {"a": deep, "user:a": deep, "app:a": deep}
    ref = create_session(create(), APP, USER, actor=actor, session_id="s1", state=state)
    adk.append(adk.get(), "and on", b=1, user__b=1, app__b=1)
    assert (
        adk.get().state == views.session(ref, actor=SYSTEM).state.merged() == {**state, "b": 1, "user:b": 1, "app:b": 1}
    )


_texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | _texts
    # ADK's SQLite service rewrites floats beyond these with SQLite's own printing, which is not exact there.
    | st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15, allow_subnormal=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_keys = st.builds(lambda scope, name: scope + name, st.sampled_from(["", "user:", "app:"]), _texts.filter(bool)).filter(
    lambda key: not key.startswith("temp:") and key != MARK
)


@given(state=st.dictionaries(_keys, _json, max_size=4), delta=st.dictionaries(_keys, _json, max_size=4))
def test_any_json_that_adkweb_stores_is_loaded_equal_and_kept_by_adks_next_append(
    loaded_source: tuple[str, Adk], state: dict[str, Any], delta: dict[str, Any]
) -> None:
    source, adk = loaded_source
    actor = Actor.holding("maria", "admin")
    user = f"user{next(_numbers)}"
    ref = create_session(source, APP, user, actor=actor, session_id="s1", state=state)
    append_event(ref, {"author": "x", "actions": {"state_delta": delta}}, actor=actor)
    expected = views.session(ref, actor=SYSTEM).state.merged()
    assert json_values.equal({**expected, **state, **delta}, expected)
    session = adk.get(user=user)
    assert json_values.equal(session.state, expected)
    assert json_values.equal(session.events[-1].actions.state_delta, delta)
    adk.append(session, "and on", **{"a new key": 1, "user__a new key": 1, "app__a new key": 1})
    after = views.session(ref, actor=SYSTEM).state.merged()
    added = {"a new key": 1, "user:a new key": 1, "app:a new key": 1}
    assert json_values.equal(after, {**expected, **added})
    assert json_values.equal(adk.get(user=user).state, after)


_numbers = iter(range(1_000_000))


@pytest.fixture
def loaded_source(create: Callable[[], str], adk: Adk) -> tuple[str, Adk]:
    """One database for every example of a property."""
    return create(), adk


# --- An event with everything -----------------------------------------------------------------------------------------


def rich_event() -> Event:
    """An event in which every field of google-adk's own model has a value, and a part of every kind."""
    parts = [types.Part(**{name: _sample(field.annotation)}) for name, field in types.Part.model_fields.items()]
    auth = AuthConfig.model_validate(
        {
            "auth_scheme": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "raw_auth_credential": {"auth_type": "apiKey", "api_key": "k"},
            "credential_key": "c",
        }
    )
    fields = {
        name: _sample(field.annotation)
        for name, field in Event.model_fields.items()
        if name not in ("partial", "actions")
    }
    actions = {
        name: _sample(field.annotation)
        for name, field in EventActions.model_fields.items()
        if name != "requested_auth_configs"
    }
    delta = {"a": JSON, "user:b": None, "app:c": [True]}
    return Event(
        **fields
        | {
            "content": types.Content(role="model", parts=parts),
            "timestamp": 1763700000.123457,
            "custom_metadata": {"mine": JSON},
            "actions": EventActions(**actions | {"state_delta": delta, "requested_auth_configs": {"call-1": auth}}),
        }
    )


def _sample(annotation: Any) -> Any:
    """A value of a type, with every field of every model in it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, builtin_types.UnionType):
        return _sample(next(each for each in arguments if each is not type(None)))
    if origin in (list, set):
        return origin([_sample(arguments[0])])
    if origin is dict:
        return {"key": _sample(arguments[1])}
    if origin is typing.Literal:
        return arguments[0]
    if annotation is Any:
        return JSON
    if issubclass(annotation, enum.Enum):
        return list(annotation)[-1]
    if issubclass(annotation, BaseModel):
        return annotation(**{name: _sample(field.annotation) for name, field in annotation.model_fields.items()})
    return {str: "é 🧳", bool: True, int: 7, float: 0.1, bytes: b"\x00\xff~", datetime: MOMENT}[annotation]


def _list(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


def _nested(place: str, depth: int) -> dict[str, Any]:
    deep = _list(depth)
    return {
        "delta": {"actions": {"state_delta": {"a": deep}}},
        "args": {"content": {"role": "model", "parts": [{"function_call": {"name": "x", "args": {"a": deep}}}]}},
        "custom_metadata": {"custom_metadata": {"a": deep}},
        "output": {"output": deep},
    }[place]


def _accepted(event: dict[str, Any]) -> bool:
    try:
        json_values.check(event)
    except Invalid:
        return False
    return True
