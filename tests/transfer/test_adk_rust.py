"""A database as adk-rust writes it (its migrations for SQLite and PostgreSQL): google-adk loads every event."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk.events import Event

from sessions_app.transfer.items import EventItem, Fault, SessionItem
from tests.transfer.places import bring, events, items, states

AT = "2026-01-02T03:04:05.123456789+00:00"
TIME = 1767323045.123456
SQLITE = """
CREATE TABLE sessions (app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL, state TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (app_name, user_id, session_id));
CREATE TABLE events (id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL, branch TEXT NOT NULL, author TEXT NOT NULL, timestamp TEXT NOT NULL,
  llm_response TEXT NOT NULL, actions TEXT NOT NULL, long_running_tool_ids TEXT NOT NULL,
  PRIMARY KEY (id, app_name, user_id, session_id), FOREIGN KEY (app_name, user_id, session_id)
  REFERENCES sessions(app_name, user_id, session_id) ON DELETE CASCADE);
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL, updated_at TEXT NOT NULL,
  PRIMARY KEY (app_name, user_id));
CREATE TABLE _adk_session_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL);
"""
POSTGRESQL = SQLITE
for column in ("state", "llm_response", "actions", "long_running_tool_ids"):
    POSTGRESQL = POSTGRESQL.replace(f"{column} TEXT", f"{column} JSONB")
for column in ("created_at", "updated_at", "timestamp"):
    POSTGRESQL = POSTGRESQL.replace(f"{column} TEXT", f"{column} TIMESTAMPTZ")

PLAIN = {
    "content": None,
    "usage_metadata": None,
    "finish_reason": None,
    "partial": False,
    "turn_complete": False,
    "interrupted": False,
    "error_code": None,
    "error_message": None,
}
IDLE = {
    "state_delta": {},
    "artifact_delta": {},
    "skip_summarization": False,
    "transfer_to_agent": None,
    "escalate": False,
}
ROWS: list[dict[str, Any]] = [
    {"id": "e1", "author": "user", "llm_response": {"content": {"role": "user", "parts": [{"text": "안녕 👍"}]}}},
    {
        "id": "e0",  # appended second, and at the same time
        "branch": "root.agent",
        "llm_response": {
            "content": {
                "role": "model",
                "parts": [
                    {"thinking": "hm", "signature": "//79"},
                    {"thinking": "no signature of Google's", "signature": "not base64!"},
                    {"name": "book", "args": {"seatNo": {"rowId": 1}}, "id": "c1", "thought_signature": "//79"},
                    {"name": "list", "args": [1]},
                    {"server_tool_call": {"toolType": "search"}},
                    {"mime_type": "image/png", "data": list(range(256))},
                    {"mime_type": "image/jpeg", "file_uri": "gs://bucket/a.jpg"},
                ],
            },
            "usage_metadata": {
                "prompt_token_count": 3,
                "candidates_token_count": 2,
                "total_token_count": 5,
                "cache_read_input_token_count": 1,
                "thinking_token_count": 1,
                "cost": 0.5,
            },
            "finish_reason": "MaxTokens",
            "citation_metadata": {
                "citationSources": [
                    {"uri": "https://example.com", "startIndex": 0, "publicationDate": "2026-01-02T00:00:00Z"},
                    {"title": "Other", "publicationDate": "last year", "license": None},
                ]
            },
            "turn_complete": True,
            "provider_metadata": {"openrouter": {"responseId": "r"}},
            "interaction_id": "v1_abc",
        },
        "actions": {"transfer_to_agent": "other", "escalate": True, "route": ["left"]},
        "long_running_tool_ids": ["c1"],
    },
    {
        "id": "e3",
        "llm_response": {
            "content": {
                "role": "function",
                "parts": [
                    {
                        "functionResponse": {
                            "name": "book",
                            "response": {"resultCode": "ok"},
                            "inline_data": [{"mime_type": "image/png", "data": [1, 2]}],
                            "file_data": [{"mime_type": "text/plain", "file_uri": "gs://b/c"}],
                        },
                        "id": "c1",
                    },
                    {"function_response": {"name": "list", "response": [1, 2]}},
                ],
            },
            "error_code": "500",
            "error_message": "broken",
            "interrupted": True,
        },
        "actions": {
            "state_delta": {"seatNo": "12A", "app:planName": "pro", "user:lang": None, "gone": None},
            "artifact_delta": {"seat.png": 2},
            "skip_summarization": True,
            "tool_confirmation": {"toolName": "book", "functionCallId": "c1", "args": {"aB": 1}},
            "compaction": {
                "start_timestamp": "2026-01-02T03:04:05.5Z",
                "end_timestamp": "2026-01-02T03:04:06.123456789Z",
                "compacted_content": {"role": "model", "parts": [{"text": "short"}]},
            },
        },
    },
]


def write(place: str, rows: list[dict[str, Any]]) -> str:
    """A database of adk-rust's on either kind of server."""
    merged = {"seatNo": "12A", "gone": None, "app:planName": "pro", "user:lang": None, "temp:x": 1}
    sqls: list[tuple[str, tuple[Any, ...]]] = [
        ("INSERT INTO app_states VALUES (?, ?, ?)", ("booking", '{"planName": "pro"}', AT)),
        ("INSERT INTO user_states VALUES (?, ?, ?, ?)", ("booking", "ana", '{"lang": null}', AT)),
        (
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
            ("booking", "ana", "s1", json.dumps(merged), AT, AT),
        ),
    ]
    for row in rows:
        values = {"app_name": "booking", "user_id": "ana", "session_id": "s1", "invocation_id": "i", "timestamp": AT}
        values |= {"author": "agent", "branch": ""} | row
        values["llm_response"] = json.dumps(PLAIN | row["llm_response"])
        values["actions"] = json.dumps(IDLE | row.get("actions", {}))
        values["long_running_tool_ids"] = json.dumps(row.get("long_running_tool_ids", []))
        sqls.append(
            (
                f"INSERT INTO events ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )
        )
    if "://" in place:
        with psycopg.connect(place) as server:
            server.execute(POSTGRESQL.encode())
            for sql, found in sqls:
                server.execute(sql.replace("?", "%s").encode(), found)
    else:
        with closing(sqlite3.connect(place)) as file:
            file.executescript(SQLITE)
            for sql, found in sqls:
                file.execute(sql, found)
            file.commit()
    return place


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A database of adk-rust on SQLite."""
    return write(str(tmp_path / "rust.db"), ROWS)


def test_every_event_is_one_of_adks(place: str) -> None:
    found = items(place, "adk-rust")
    user, call, response = events(found)
    for event in events(found):
        again = Event.model_validate(event).model_dump(mode="json", exclude_unset=True)
        assert again.keys() == event.keys()
        assert again["timestamp"] == TIME
    assert user == {
        "id": "e1",
        "invocation_id": "i",
        "timestamp": TIME,
        "author": "user",
        "actions": {"state_delta": {}, "artifact_delta": {}},
        "content": {"parts": [{"text": "안녕 👍"}], "role": "user"},
    }
    parts = call["content"]["parts"]
    assert parts[0] == {"text": "hm", "thought": True, "thought_signature": "//79"}
    assert parts[2] == {
        "function_call": {"id": "c1", "name": "book", "args": {"seatNo": {"rowId": 1}}},
        "thought_signature": "//79",
    }
    assert parts[3] == {"function_call": {"name": "list", "args": {"args": [1]}}}
    loaded = Event.model_validate(call).content.parts  # type: ignore[union-attr]
    assert loaded[1].thought_signature == b"not base64!"  # type: ignore[index]
    assert loaded[4].inline_data.data == bytes(range(256))  # type: ignore[index,union-attr]
    assert parts[5] == {"file_data": {"mime_type": "image/jpeg", "file_uri": "gs://bucket/a.jpg"}}
    assert call["usage_metadata"] == {
        "prompt_token_count": 3,
        "candidates_token_count": 2,
        "total_token_count": 5,
        "cached_content_token_count": 1,
        "thoughts_token_count": 1,
    }
    assert (call["finish_reason"], call["interaction_id"], call["turn_complete"]) == ("MAX_TOKENS", "v1_abc", True)
    assert (call["long_running_tool_ids"], call["branch"], "partial" in call) == (["c1"], "root.agent", False)
    assert call["citation_metadata"]["citations"] == [
        {"uri": "https://example.com", "start_index": 0, "publication_date": {"year": 2026, "month": 1, "day": 2}},
        {"title": "Other"},
    ]
    assert call["actions"]["route"] == ["left"]
    assert (call["actions"]["transfer_to_agent"], call["actions"]["escalate"]) == ("other", True)
    assert call["custom_metadata"]["adk_rust"] == {
        "usage_metadata": {"cost": 0.5},
        "citation_metadata": ROWS[1]["llm_response"]["citation_metadata"],
        "provider_metadata": {"openrouter": {"responseId": "r"}},
        "parts": [{"index": 4, "part": {"server_tool_call": {"toolType": "search"}}}],
    }
    assert response["content"]["parts"] == [
        {
            "function_response": {
                "id": "c1",
                "name": "book",
                "response": {"resultCode": "ok"},
                "parts": [
                    {"inline_data": {"mime_type": "image/png", "data": "AQI="}},
                    {"file_data": {"mime_type": "text/plain", "file_uri": "gs://b/c"}},
                ],
            }
        },
        {"function_response": {"name": "list", "response": {"result": [1, 2]}}},
    ]
    assert response["actions"] == {
        "state_delta": {"seatNo": "12A", "app:planName": "pro", "user:lang": None, "gone": None},
        "artifact_delta": {"seat.png": 2},
        "skip_summarization": True,
        "compaction": {
            "start_timestamp": 1767323045.5,
            "end_timestamp": 1767323046.123456,
            "compacted_content": {"parts": [{"text": "short"}], "role": "model"},
        },
    }
    assert response["custom_metadata"]["adk_rust"]["tool_confirmation"]["args"] == {"aB": 1}


def test_a_sessions_own_state_is_taken_out_of_the_snapshot(
    place: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    found = items(place, "adk-rust")
    assert states(found) == {
        "booking": {"planName": "pro"},
        "booking/ana": {"lang": None},
        "booking/ana/s1": {"seatNo": "12A", "gone": None},
    }
    (session,) = (item for item in found if isinstance(item, SessionItem))
    assert (session.created, session.updated, session.initial_state, session.events) == (TIME, TIME, None, 3)
    assert [item.id for item in found if isinstance(item, EventItem)] == ["e1", "e0", "e3"]  # as appended
    source = open_source(new_database("sqlite"))
    assert bring(place, "adk-rust", source).new == 1
    assert bring(place, "adk-rust", source).same == 1


def test_postgresql_gives_the_same_items(place: str, new_database: Callable[[str], str]) -> None:
    rows = [row | {"timestamp": f"2026-01-02T03:04:0{n}Z"} for n, row in enumerate(ROWS)]
    with closing(sqlite3.connect(place)) as file:
        file.executemany(
            "UPDATE events SET timestamp = ? WHERE id = ?", [(row["timestamp"], row["id"]) for row in rows]
        )
        # A server keeps microseconds, and rounds to them.
        for table in ("sessions", "app_states", "user_states"):
            file.execute(f"UPDATE {table} SET updated_at = ?", ["2026-01-02T03:04:05.123457Z"])
        file.execute("UPDATE sessions SET created_at = updated_at")
        file.commit()
    assert items(write(new_database("postgresql"), rows), "adk-rust") == items(place, "adk-rust")


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("llm_response", "{broken", "llm_response: not valid JSON"),
        ("llm_response", "[]", "llm_response: not a JSON object"),
        ("llm_response", '{"content": []}', "content: not a JSON object"),
        ("llm_response", '{"content": {"parts": [1]}}', "content.parts: not a list of JSON objects"),
        (
            "llm_response",
            '{"content": {"parts": [{"mime_type": "a/b", "data": [256]}]}}',
            "data is not a list of bytes",
        ),
        ("llm_response", '{"content": {"parts": [{"text": 1}]}}', r"content.parts\[0\].text"),
        ("llm_response", '{"content": {"parts": [{"functionResponse": 1}]}}', "function response is not a JSON object"),
        ("actions", '{"compaction": {"start_timestamp": 1e99}}', "start_timestamp: this is not a time"),
        ("actions", '{"state_delta": 1}', "actions.state_delta"),
        ("long_running_tool_ids", '"c1"', "not a JSON list"),
        ("timestamp", "yesterday", "timestamp: this is not a time"),
    ],
)
def test_a_fault_names_the_session_and_the_event(place: str, column: str, value: Any, problem: str) -> None:
    with closing(sqlite3.connect(place)) as file:
        file.execute(f"UPDATE events SET {column} = ? WHERE id = 'e3'", [value])
        file.commit()
    with pytest.raises(Fault, match=problem) as raised:
        items(place, "adk-rust")
    assert raised.value.detail["place"] == "booking/ana/s1, event e3"
