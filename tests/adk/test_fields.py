"""What a person writes by hand: what adkweb accepts, google-adk loads; what it would not load, adkweb refuses by place."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from hypothesis import assume, given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.adk_fields import check_fields
from sessions_app.domain.errors import Invalid
from sessions_app.domain.event import check_event
from sessions_app.edits import edit
from sessions_app.reads import timeline
from sessions_app.writes.sessions import create_session
from tests.adk import fields
from tests.adk.services import APP, USER, Adk
from tests.adk.test_events import rich_event
from tests.support.stored import query

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.db"
RICH: dict[str, Any] = rich_event().model_dump(mode="json", exclude_none=True)
# In these two google-adk checks more than types; nobody writes them by hand.
del RICH["actions"]["requested_auth_configs"], RICH["cache_metadata"]


def test_the_fields_are_those_of_the_installed_google_adk() -> None:
    """After an upgrade: python -m tests.adk.fields"""
    assert fields.FILE.read_text() == fields.text()


def test_an_event_with_every_field_is_accepted() -> None:
    check_fields(check_event(RICH))


def test_every_event_of_the_demo_is_accepted(tmp_path: Path, open_source: Callable[[str], str]) -> None:
    file = tmp_path / "demo.db"
    file.write_bytes(DEMO.read_bytes())
    stored = query(open_source(str(file)), "SELECT event_data FROM events")
    assert len(stored) > 100
    for (data,) in stored:
        check_fields(check_event(json.loads(data)))


def test_fields_that_adk_ignores_are_kept() -> None:
    check_fields(
        {
            "field_of_2031": {"a": [1]},
            "node_info": {"new": 1},
            "custom_metadata": {"a": {"b": [None]}},
            "output": [1, None],
        }
    )


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"content": {"parts": [{"txt": "Hello"}]}}, r"content\.parts\[0\]\.txt: ADK doesn't recognise this field"),
        (
            {"content": {"parts": [{"text": "a"}, {"function_call": {"arguments": {}}}]}},
            r"parts\[1\]\.function_call\.argum",
        ),
        ({"content": {"role": 5}}, r"content\.role: must be a string"),
        ({"content": {"parts": [{"inline_data": {"data": "%"}}]}}, r"inline_data\.data: ADK expects .*\(bytes\)"),
        ({"branch": ["a"]}, "branch: must be a string"),
        ({"usage_metadata": {"tokens": 1}}, r"usage_metadata\.tokens: ADK doesn't recognise"),
        ({"usage_metadata": {"total_token_count": 1.5}}, r"usage_metadata\.total_token_count: .*\(int\)"),
        ({"error_code": 500}, "error_code: must be a string"),
        ({"long_running_tool_ids": "call-1"}, "long_running_tool_ids: must be a list"),
        ({"actions": {"compaction": {"start_timestamp": 1}}}, r"actions\.compaction\.compacted_content: missing"),
        ({"actions": {"escalate": "maybe"}}, r"actions\.escalate: must be true or false"),
        ({"actions": {"route": {"a": 1}}}, r"actions\.route: .*\(bool, int, str, bool\|int\|str\)"),
        ({"live_session_id": 7}, r"live_session_id: ADK expects a different type \(str\)"),
        ({"long_running_tool_ids": ["a", 1]}, "long_running_tool_ids: must be a list of strings"),
        ({"turn_complete": 1}, "turn_complete: must be true or false"),
    ],
)
def test_an_event_that_would_close_the_session_to_its_agent_is_refused_and_the_agent_goes_on(
    create: Callable[[], str], adk: Adk, actor: Actor, event: dict[str, Any], message: str
) -> None:
    ref = create_session(create(), APP, USER, actor=actor, session_id="s1")
    with pytest.raises(Invalid, match=message):
        edit.add_event(ref, event, actor=actor)
    adk.append(adk.get(), "still there")
    assert len(timeline.events(ref, actor=SYSTEM).rows) == 1


_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé%=-_+/", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "parts", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(data=st.data())
def test_whatever_is_changed_in_an_event_what_adkweb_accepts_adk_loads(data: st.DataObject) -> None:
    event = copy.deepcopy(RICH)
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(_places(event))
        inside, name = places[data.draw(st.integers(0, len(places) - 1))]
        match data.draw(st.sampled_from(["replace", "remove", "add"])):
            case "remove":
                del inside[name]
            case "add" if isinstance(inside, dict):
                inside["another"] = data.draw(_anything)
            case _:
                inside[name] = data.draw(_anything)
        if not event:
            break
    try:
        checked = check_event(event)
        check_fields(checked)
    except Invalid:
        assume(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about enumerations that do not know a text
        Event.model_validate(checked)
        Event.model_validate_json(json.dumps(checked))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a JSON value, as a container and the key in it."""
    for name, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, name
        if isinstance(inner, dict | list):
            yield from _places(inner)
