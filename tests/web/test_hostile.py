"""Whatever stands in a database, every page shows it, escaped: other programs write there, and people name things."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from sessions_app import writes
from sessions_app.access import Actor
from sessions_app.edits import Entry, edit_app_state, edit_state, edit_user_state
from sessions_app.keys import SessionKey
from sessions_app.state import ABSENT
from sessions_app.web.paths import Segment
from tests.core.stored import execute
from tests.strategies import hostile_events, text

from .conftest import Browser

pytestmark = pytest.mark.django_db

NAMES: Final = (
    "a/b/../c",
    "..",
    ".",
    "50% %2F %",
    "~",
    "~2f",
    "line\nbreak\r\n\ttab",
    "👩‍👩‍👧‍👦 e\u0301 𝕬",
    "‏שלום ‮gnorw",
    "'\"`\\",
    "<script>alert(1)</script>",
    "</title></textarea></script><img src=x onerror=alert(1)>",
    "{{ 7|add:7 }}{% debug %}${7*7}",
    "javascript:alert(1)",
    "?a=b&c=d#e",
    " ",
    "x" * 128,
)
TEXTS: Final = (*NAMES, "\" onmouseover=alert(1) x='", "<!-- ", "]]>", "&lt;b&gt;&amp;", "\x01\x7f\u2028")


def address(name: str, key: SessionKey, **more: Any) -> str:
    """The address of a page of a session."""
    return reverse(name, kwargs={**key._asdict(), **more})


def pages(key: SessionKey, event_ids: list[str], keys: list[str]) -> Iterator[str]:
    """Every page on which something of a session stands."""
    app, user = list(key._asdict().items())[:2], list(key._asdict().items())[:3]
    yield from (reverse("home"), reverse("edits"), reverse("new-session"))
    yield from (reverse(name, kwargs=dict(app)) for name in ("app", "users", "sessions", "app-edit"))
    yield from (reverse(name, kwargs=dict(user)) for name in ("user", "user-sessions", "user-edit"))
    yield from (
        address(name, key)
        for name in ("session", "events", "stats", "session-edit", "add-event", "delete-session")
    )
    yield from (address(name, key, event_id=i) for i in event_ids for name in ("event", "event-json"))


def fill(key: SessionKey, actor: Actor, hostile: str) -> list[str]:
    """Puts a text wherever a text may stand; the ids of the events that hold it."""
    writes.create_session(*key[:3], session_id=key.session_id, actor=actor, state={hostile: hostile})
    entries = [Entry(hostile + "e", {hostile: [hostile]}, ABSENT)]
    edit_state(key, entries, actor=Actor(hostile), reason=hostile)
    edit_app_state(key.source, key.app_name, [Entry("app:" + hostile, hostile, ABSENT)], actor=Actor(hostile))
    edit_user_state(*key[:3], [Entry("user:" + hostile, hostile, ABSENT)], actor=Actor(hostile), reason=hostile)
    title = {"__session_metadata__": {"displayName": hostile}}
    events: list[dict[str, Any]] = [
        {"id": hostile[:128], "author": hostile, "branch": hostile, "content": {"parts": [{"text": hostile}]}},
        {"content": {"parts": [{"text": hostile, "thought": True}]}, "model_version": hostile},
        {"content": {"parts": [{"function_call": {"id": hostile, "name": hostile, "args": {hostile: hostile}}}]}},
        {
            "content": {
                "parts": [
                    {"function_response": {"id": hostile, "name": hostile, "response": {"error": hostile}}},
                    {hostile: hostile},
                    {"executable_code": {"code": hostile, "language": hostile}},
                    {"code_execution_result": {"outcome": hostile, "output": hostile}},
                    {"inline_data": {"mime_type": hostile, "data": hostile, "display_name": hostile}},
                    {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": hostile}},
                    {"file_data": {"file_uri": hostile, "mime_type": hostile}},
                ]
            }
        },
        {"error_code": hostile, "error_message": hostile, "finish_reason": hostile},
        {"actions": {"transfer_to_agent": hostile, "transfer_reason": hostile, "artifact_delta": {hostile: 1}}},
        {"actions": {"compaction": {"compacted_content": {"parts": [{"text": hostile}]}, "start_timestamp": hostile}}},
        {"actions": {"rewind_before_invocation_id": hostile, "agent_state": {hostile: hostile}}},
        {"input_transcription": {"text": hostile}},
        {"output": hostile, "node_info": {"path": hostile}},
        {"invocation_id": hostile[:256], "actions": {"state_delta": title}},
        {hostile: hostile},
    ]
    return [str(writes.append_event(key, {"author": "a", **event}, actor=actor).event["id"]) for event in events]


@pytest.mark.parametrize("hostile", TEXTS)
def test_a_hostile_text_is_a_text_on_every_page(store: str, maria: Browser, actor: Actor, hostile: str) -> None:
    key = SessionKey(store, "app", "user", "session")
    ids = fill(key, actor, hostile)
    for page in pages(key, ids, []):
        assert maria.get(page, {"key": [hostile, "user:" + hostile, "app:" + hostile]}).status_code == 200, page
        maria.get(page, headers={"HX-Request": "true"})
    shown = maria.open("session", **key._asdict())
    assert shown.one("h1").raw == (hostile.strip() and hostile)


@given(event=hostile_events)
def test_an_event_of_any_shape_has_its_line_and_its_page(
    key: SessionKey, maria: Browser, event: dict[str, Any]
) -> None:
    execute(key.source, "DELETE FROM events")
    execute(
        key.source,
        """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        VALUES (?, ?, ?, ?, ?, ?, ?)""".replace("?", "%s"),
        ["e1", *key[1:], "i1", 1.0, json.dumps(event)],
    )
    for page in pages(key, ["e1"], []):
        assert maria.get(page).status_code == 200, page
