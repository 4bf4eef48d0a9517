"""A database as google/adk-go writes it (GORM's tables on SQLite and PostgreSQL): google-adk loads every event."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk.events import Event

from sessions_app.transfer.formats.layouts import seconds
from sessions_app.transfer.items import EventItem, Fault, SessionItem
from tests.transfer.places import bring, events, items, states

KEY = ("booking", "ana", "s1")
AT = "2026-01-02 03:04:05.123456+00:00"
TIME = 1767323045.123456

# By GORM from adk-go's structs; what stands in [] came with 2.0.
SQLITE = """
CREATE TABLE `sessions` (`app_name` text,`user_id` text,`id` text,`state` text,`create_time` datetime,
  `update_time` datetime,PRIMARY KEY (`app_name`,`user_id`,`id`));
CREATE TABLE `events` (`id` text,`app_name` text,`user_id` text,`session_id` text,`invocation_id` text,`author` text,
  `actions` blob,`long_running_tool_ids_json` text,[`routes_json` text,`output_json` text,`node_info_json` text,
  `requested_input_json` text,]`branch` text,[`isolation_scope` text,]`timestamp` datetime,`content` text,
  `grounding_metadata` text,`custom_metadata` text,`usage_metadata` text,`citation_metadata` text,`partial` numeric,
  `turn_complete` numeric,`error_code` text,`error_message` text,`interrupted` numeric,
  PRIMARY KEY (`id`,`app_name`,`user_id`,`session_id`),CONSTRAINT `fk_sessions_events`
  FOREIGN KEY (`app_name`,`user_id`,`session_id`) REFERENCES `sessions`(`app_name`,`user_id`,`id`) ON DELETE CASCADE);
CREATE TABLE `app_states` (`app_name` text,`state` text,`update_time` datetime,PRIMARY KEY (`app_name`));
CREATE TABLE `user_states` (`app_name` text,`user_id` text,`state` text,`update_time` datetime,
  PRIMARY KEY (`app_name`,`user_id`));
"""


def postgresql(ddl: str) -> str:
    """The same as GORM declares it on PostgreSQL."""
    lines = ddl.replace("datetime", "timestamptz").replace("blob", "bytea").replace("numeric", "boolean")
    for name in ("state", "content", "long_running_tool_ids_json", "routes_json", "output_json", "node_info_json"):
        lines = lines.replace(f"`{name}` text", f"`{name}` JSONB")
    for name in (
        "requested_input_json",
        "grounding_metadata",
        "custom_metadata",
        "usage_metadata",
        "citation_metadata",
    ):
        lines = lines.replace(f"`{name}` text", f"`{name}` JSONB")
    return lines.replace("`", '"')


def ddl(new: bool) -> str:
    """The tables of adk-go 2, or of 1."""
    if new:
        return SQLITE.replace("[", "").replace("]", "")
    return "".join(piece.partition("]")[2] if n else piece for n, piece in enumerate(SQLITE.split("[")))


def go(value: Any) -> str:
    """As Go writes JSON: compact, and & < > escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


USUAL = {"partial": False, "turn_complete": False, "interrupted": False}
ROWS: list[dict[str, Any]] = [
    {
        "id": "e1",
        "author": "user",
        "actions": b'{"stateDelta":{},"artifactDelta":{}}',
        "content": go({"parts": [{"text": "안녕 👍 <b>&"}], "role": "user"}),
    },
    {
        "id": "e0",  # appended second, and at the same time
        "author": "agent",
        "branch": "root.agent",
        "actions": b'{"stateDelta":null,"artifactDelta":null,"transferToAgent":"other","escalate":true}',
        "long_running_tool_ids_json": '["c1"]',
        "content": go(
            {
                "parts": [
                    {"text": "hm", "thought": True, "thoughtSignature": base64.b64encode(b"\xff\xfe\xfd").decode()},
                    {"functionCall": {"id": "c1", "name": "book", "args": {"seatNo": {"rowId": 1}, "n": None}}},
                ],
                "role": "model",
            }
        ),
        "usage_metadata": go(
            {
                "promptTokenCount": 3,
                "totalTokenCount": 5,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}],
            }
        ),
        "custom_metadata": go({"camelKey": [1]}),
        "grounding_metadata": go({"webSearchQueries": ["a"]}),
        "citation_metadata": go({"citations": [{"uri": "https://example.com", "startIndex": 1}]}),
        "turn_complete": True,
    },
    {
        "id": "e3",
        "author": "agent",
        "actions": go(
            {
                "stateDelta": {"seatNo": "12A", "app:planName": "pro", "gone": None, "big": 10**20},
                "artifactDelta": {"seatMap.png": 2},
                "requestedToolConfirmations": {"callId": {"hint": "sure?", "confirmed": False, "payload": {"aB": 1}}},
                "skipSummarization": True,
            }
        ).encode(),
        "content": go(
            {
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "book", "response": {"resultCode": "ok"}}},
                    {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(bytes(range(256))).decode()}},
                ],
                "role": "user",
            }
        ),
        "error_code": "500",
        "error_message": "broken",
        "interrupted": True,
    },
]
NEW: list[dict[str, Any]] = [
    {
        "id": "e4",
        "author": "summary",
        "isolation_scope": "task-1",
        "actions": go(
            {
                "stateDelta": {},
                "confirmationClaim": {"confirmationId": "x", "functionCallId": "c1"},
                "compaction": {
                    "startTimestamp": "2026-01-02T03:04:05.5Z",
                    "endTimestamp": "2026-01-02T05:04:06.123456789+02:00",
                    "compactedContent": {"parts": [{"text": "short"}], "role": "model"},
                    "excludedEvents": [{"invocationId": "i", "timestamp": "2026-01-02T03:04:05Z"}],
                },
            }
        ).encode(),
        "routes_json": '["left","right"]',
        "output_json": go({"resultCode": [1]}),
        "node_info_json": go({"path": "wf/node@1", "messageAsOutput": True, "outputFor": ["wf"]}),
        "requested_input_json": go({"interruptId": "r1", "message": "Which?"}),
    }
]


def write(place: str, rows: list[dict[str, Any]], new: bool, *, at: str = AT) -> str:
    """A database of adk-go's on either kind of server."""
    sqls: list[tuple[str, tuple[Any, ...]]] = [
        ("INSERT INTO app_states VALUES (?, ?, ?)", ("booking", '{"planName":"pro"}', at)),
        ("INSERT INTO user_states VALUES (?, ?, ?, ?)", ("booking", "ana", "{}", at)),
        ("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", (*KEY, '{"seatNo":"12A","gone":null}', at, at)),
        ("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", ("booking", "ana", "empty", "{}", at, at)),
    ]
    for row in rows:
        values = {"app_name": KEY[0], "user_id": KEY[1], "session_id": KEY[2], "invocation_id": "i", "timestamp": at}
        values |= USUAL | row
        sqls.append(
            (
                f"INSERT INTO events ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )
        )
    if "://" in place:
        with psycopg.connect(place) as server:
            server.execute(postgresql(ddl(new)).encode())
            for sql, found in sqls:
                server.execute(sql.replace("?", "%s").encode(), found)
    else:
        with closing(sqlite3.connect(place)) as file:
            file.executescript(ddl(new))
            for sql, found in sqls:
                file.execute(sql, found)
            file.commit()
    return place


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A database of adk-go 2.3 on SQLite."""
    return write(str(tmp_path / "go.db"), ROWS + NEW, True)


def test_every_event_is_one_of_adks(place: str) -> None:
    found = items(place, "adk-go")
    user, call, response, summary = events(found)
    for event in events(found):
        # Nothing is in it that ADK does not know, and nothing is lost when ADK reads and writes it.
        again = Event.model_validate(event).model_dump(mode="json", exclude_unset=True)
        assert again.keys() == event.keys()
        assert again["timestamp"] == TIME
    assert user == {
        "id": "e1",
        "invocation_id": "i",
        "timestamp": TIME,
        "author": "user",
        "actions": {"state_delta": {}, "artifact_delta": {}},
        "content": {"parts": [{"text": "안녕 👍 <b>&"}], "role": "user"},
    }
    loaded = Event.model_validate(call)
    assert loaded.content
    assert loaded.content.parts
    assert loaded.content.parts[0].thought_signature == b"\xff\xfe\xfd"
    assert loaded.get_function_calls()[0].args == {"seatNo": {"rowId": 1}, "n": None}
    assert call["long_running_tool_ids"] == ["c1"]
    assert call["usage_metadata"]["prompt_tokens_details"] == [{"modality": "TEXT", "token_count": 3}]
    assert call["custom_metadata"] == {"camelKey": [1]}
    assert call["actions"] == {"transfer_to_agent": "other", "escalate": True}
    assert (call["branch"], call["turn_complete"], "partial" in call) == ("root.agent", True, False)
    assert response["actions"] == {
        "state_delta": {"seatNo": "12A", "app:planName": "pro", "gone": None, "big": 10**20},
        "artifact_delta": {"seatMap.png": 2},
        "requested_tool_confirmations": {"callId": {"hint": "sure?", "confirmed": False, "payload": {"aB": 1}}},
        "skip_summarization": True,
    }
    parts = Event.model_validate(response).content.parts  # type: ignore[union-attr]
    assert parts[1].inline_data.data == bytes(range(256))  # type: ignore[index,union-attr]
    assert response["content"]["parts"][0]["function_response"]["response"] == {"resultCode": "ok"}
    assert (response["error_code"], response["error_message"], response["interrupted"]) == ("500", "broken", True)
    assert summary["output"] == {"resultCode": [1]}
    assert summary["isolation_scope"] == "task-1"
    assert summary["node_info"] == {"path": "wf/node@1", "message_as_output": True, "output_for": ["wf"]}
    assert summary["actions"]["route"] == ["left", "right"]
    assert summary["actions"]["compaction"] == {
        "start_timestamp": 1767323045.5,
        "end_timestamp": 1767323046.123456,
        "compacted_content": {"parts": [{"text": "short"}], "role": "model"},
    }
    assert summary["custom_metadata"] == {
        "adk_go": {
            "requestedInput": {"interruptId": "r1", "message": "Which?"},
            "confirmationClaim": {"confirmationId": "x", "functionCallId": "c1"},
            "excludedEvents": [{"invocationId": "i", "timestamp": "2026-01-02T03:04:05Z"}],
        }
    }


def test_sessions_and_states_are_those_of_the_tables(place: str) -> None:
    found = items(place, "adk-go")
    assert states(found) == {
        "booking": {"planName": "pro"},
        "booking/ana/empty": {},
        "booking/ana/s1": {"seatNo": "12A", "gone": None},
    }
    (session,) = (item for item in found if isinstance(item, SessionItem) and item.events)
    assert (session.created, session.updated, session.initial_state, session.events) == (TIME, TIME, None, 4)
    assert [item.id for item in found if isinstance(item, EventItem)] == ["e1", "e0", "e3", "e4"]  # as appended


def test_postgresql_gives_the_same_items(place: str, new_database: Callable[[str], str]) -> None:
    rows = [row | {"timestamp": f"2026-01-02 03:04:0{n}+00"} for n, row in enumerate(ROWS + NEW)]
    other = write(new_database("postgresql"), rows, True)
    on_server = items(other, "adk-go")
    with closing(sqlite3.connect(place)) as file:
        file.executemany(
            "UPDATE events SET timestamp = ? WHERE id = ?", [(row["timestamp"], row["id"]) for row in rows]
        )
        file.commit()
    assert on_server == items(place, "adk-go")


def test_a_database_of_adk_go_1_has_names_with_capitals(
    tmp_path: Path, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    rows = json.loads(json.dumps(ROWS, default=bytes.decode))
    for row in rows:
        actions = {name[0].upper() + name[1:]: value for name, value in json.loads(row["actions"]).items()}
        row["actions"] = go({"TransferToAgent": "", "Escalate": False, **actions}).encode()
    # As another driver for Go writes times.
    old = write(str(tmp_path / "old.db"), rows, False, at="2026-01-02 03:04:05.123456 +0000 UTC")
    new = write(str(tmp_path / "new.db"), ROWS, True)
    assert items(old, "adk-go") == items(new, "adk-go")
    source = open_source(new_database("sqlite"))
    assert bring(old, "adk-go", source).events == 3
    assert bring(old, "adk-go", source).same == 2


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("content", "{broken", "content: not valid JSON"),
        ("content", "[]", "content: not a JSON object"),
        ("content", '{"parts":[{"text":1}]}', r"content.parts\[0\].text"),
        ("actions", b"\x80\x05N.", "actions: not JSON"),
        (
            "actions",
            b'{"compaction":{"startTimestamp":"soon"}}',
            "actions.compaction.startTimestamp: this is not a time",
        ),
        ("long_running_tool_ids_json", '"c1"', "not a JSON list"),
        ("node_info_json", "[1]", "not a JSON object"),
        ("timestamp", None, "timestamp: this is not a time"),
    ],
)
def test_a_fault_names_the_session_and_the_event(place: str, column: str, value: Any, problem: str) -> None:
    with closing(sqlite3.connect(place)) as file:
        file.execute(f"UPDATE events SET {column} = ? WHERE id = 'e3'", [value])
        file.commit()
    with pytest.raises(Fault, match=problem) as raised:
        items(place, "adk-go")
    assert raised.value.detail["place"] == "booking/ana/s1, event e3"


def test_times_are_read_as_every_driver_writes_them() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC).timestamp()
    for text in (
        "2026-01-02 03:04:05.6",
        "2026-01-02T03:04:05.6Z",
        "2026-01-02T03:04:05.600000000+00:00",
        "2026-01-02 05:04:05.600000000 +0200 EET m=+0.000000001",
        "2026-01-02 05:04:05.6+02:00",
        at,
        datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC),
    ):
        assert seconds(text, "timestamp") == at
