"""A database that google-adk itself wrote in its schema v0: what enters is what `adk migrate session` makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.sessions.migration.migrate_from_sqlalchemy_pickle import migrate
from google.adk.sessions.schemas import v0
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from sqlalchemy.orm import Session as Database

from sessions_app.transfer.items import Fault
from tests.adk.services import Adk
from tests.transfer.places import bring, events, items, states

AT = datetime(2025, 11, 3, 4, 5, 6, 789012)  # noqa: DTZ001  as ADK keeps it
APP = "booking"
AUTH = AuthConfig(
    auth_scheme=OAuth2(
        flows=OAuthFlows(
            authorizationCode=OAuthFlowAuthorizationCode(
                authorizationUrl="https://example.com/a", tokenUrl="https://example.com/t", scopes={"read": "all"}
            )
        )
    ),
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(client_id="x", client_secret="y")
    ),
)
RICH: dict[str, Any] = {
    "text": "한국어 👩‍👩‍👧‍👦 \u2028",
    "moment": datetime(2025, 1, 2, 3, 4, 5, 600, tzinfo=UTC),
    "naive": datetime(2025, 1, 2, 3, 4, 5),  # noqa: DTZ001
    "day": date(2025, 1, 2),
    "long": timedelta(days=400, hours=2, seconds=3.25),
    "back": timedelta(seconds=-90),
    "none": timedelta(0),
    "price": Decimal("19.90"),
    "tuple": (1, 2.5, None, True),
    "set": {7},
    "bytes": b"text",
    "keys": {7: "seven", 2.5: "two", True: 1, None: 0},
    "deep": {"a": [{"b": {"c": [1, [2, [3]]]}}]},
    "big": 2**80,
    "app:plan": "pro",
    "user:lang": None,
}


def written() -> list[Event]:
    """One of everything that v0 can hold."""
    call = types.FunctionCall(id="c1", name="book", args={"camelCase": {"x": 1}, "n": None})
    response = types.FunctionResponse(id="c1", name="book", response={"result": "ok"})
    image = types.Blob(data=bytes(range(256)), mime_type="image/png")
    return [
        Event(id="e1", invocation_id="i1", author="user", content=types.UserContent("안녕 👍"), partial=False),
        Event(
            id="e2",
            invocation_id="i1",
            author="agent",
            branch="root.agent",
            content=types.Content(
                role="model",
                parts=[
                    types.Part(text="hm", thought=True, thought_signature=b"\xff\xfe"),
                    types.Part(function_call=call),
                ],
            ),
            long_running_tool_ids={"c1"},
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=5),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["a b"]),
            citation_metadata=types.CitationMetadata(citations=[types.Citation(uri="https://example.com")]),
            custom_metadata={"mine": [1, {"twoWords": None}]},
            turn_complete=True,
        ),
        Event(
            id="e3",
            invocation_id="i1",
            author="agent",
            content=types.Content(
                role="user", parts=[types.Part(function_response=response), types.Part(inline_data=image)]
            ),
            actions=EventActions(
                skip_summarization=True, state_delta=RICH, artifact_delta={"seat.png": 3}, escalate=False
            ),
        ),
        Event(
            id="e4",
            invocation_id="i2",
            author="agent",
            error_code="500",
            error_message="broken",
            interrupted=True,
            input_transcription=types.Transcription(text="said", finished=True),
            actions=EventActions(
                transfer_to_agent="other",
                requested_auth_configs={"c1": AUTH},
                requested_tool_confirmations={"c1": ToolConfirmation(hint="sure?", payload={"a": None})},
                compaction=EventCompaction(
                    start_timestamp=1.5,
                    end_timestamp=2.5,
                    compacted_content=types.Content(role="model", parts=[types.Part(text="short")]),
                ),
                render_ui_widgets=[UiWidget(id="w", provider="mcp", payload={"a": 1})],
                end_of_agent=True,
                agent_state={"step": 2, "nothing": None},
                rewind_before_invocation_id="i1",
            ),
        ),
    ]


def write(url: str, given: list[Event]) -> None:
    """A v0 database at a URL of SQLAlchemy's, written by ADK's own models."""
    engine = sqlalchemy.create_engine(url)
    v0.Base.metadata.create_all(engine)
    with Database(engine) as database:
        database.add(v0.StorageAppState(app_name=APP, state={"plan": "pro"}, update_time=AT))
        database.add(v0.StorageUserState(app_name=APP, user_id="ana", state={"lang": None}, update_time=AT))
        for user, name in (("ana", "s1"), ("Ána", "s1"), ("ana", "empty")):
            database.add(
                v0.StorageSession(app_name=APP, user_id=user, id=name, state={"n": 1}, create_time=AT, update_time=AT)
            )
            database.flush()
            session = Session(app_name=APP, user_id=user, id=name)
            for number, event in enumerate(given if name == "s1" else []):
                event.timestamp = 1762142706.789012 + number
                database.add(v0.StorageEvent.from_event(session, event))
        database.commit()
    engine.dispose()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A v0 database on SQLite."""
    write(f"sqlite:///{tmp_path / 'old.db'}", written())
    return tmp_path / "old.db"


def test_the_sessions_are_those_that_adks_own_migration_gives(
    old: Path, tmp_path: Path, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    before = old.read_bytes()
    place = new_database("sqlite-database")
    report = bring(str(old), "adk-v0", open_source(place, "sqlite-database"))
    assert (report.new, report.events, report.states_made, old.read_bytes() == before) == (3, 8, 2, True)
    migrate(f"sqlite:///{old}", f"sqlite:///{tmp_path / 'migrated.db'}")
    ours, theirs = Adk("database", place), Adk("database", str(tmp_path / "migrated.db"))
    try:
        for user, name in (("ana", "s1"), ("Ána", "s1"), ("ana", "empty")):
            found = [
                adk.run(adk.service.get_session(app_name=APP, user_id=user, session_id=name)) for adk in (ours, theirs)
            ]
            assert found[0] is not None
            assert found[0].model_dump() == found[1].model_dump()
            assert len(found[0].events) == (0 if name == "empty" else 4)
    finally:
        ours.close()
        theirs.close()


def test_rich_values_become_the_json_that_pydantic_makes_of_them(old: Path) -> None:
    found = items(str(old), "adk-v0")
    expected = Event(actions=EventActions(state_delta=RICH)).model_dump(mode="json")["actions"]["state_delta"]
    assert json.loads(json.dumps(expected)) == events(found)[2]["actions"]["state_delta"]
    assert states(found) == {
        APP: {"plan": "pro"},
        f"{APP}/ana": {"lang": None},
        f"{APP}/ana/empty": {"n": 1},
        f"{APP}/ana/s1": {"n": 1},
        f"{APP}/Ána/s1": {"n": 1},
    }


def test_a_postgresql_database_gives_the_same_items(old: Path, new_database: Callable[[str], str]) -> None:
    url = new_database("postgresql")
    write(url.replace("postgresql://", "postgresql+psycopg://"), written())
    assert items(url, "adk-v0") == items(str(old), "adk-v0")


def execute(path: Path, sql: str, *values: Any) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql(sql, values)
    engine.dispose()


def test_a_database_from_before_newer_columns_is_read(old: Path) -> None:
    for column in ("custom_metadata", "citation_metadata", "usage_metadata", "input_transcription"):
        execute(old, f"ALTER TABLE events DROP COLUMN {column}")
    assert "usage_metadata" not in events(items(str(old), "adk-v0"))[1]


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("content", "{broken", "content: not valid JSON"),
        ("content", '{"parts": 1}', "content.parts"),
        ("actions", b"\x80\x05cos\nsystem\n(X\x02\x00\x00\x00idtR.", "the pickle names os.system"),
        ("actions", b"\x80\x05]q", "actions: "),
        ("timestamp", "some day", "timestamp: this is not a time"),
        ("id", "x" * 129, "id has 129 characters"),
    ],
)
def test_a_fault_names_the_session_and_the_event(old: Path, column: str, value: Any, problem: str) -> None:
    execute(old, f"UPDATE events SET {column} = ? WHERE id = 'e2' AND user_id = 'Ána'", value)
    with pytest.raises(Fault, match=problem) as raised:
        items(str(old), "adk-v0")
    assert raised.value.detail["place"] == f"{APP}/Ána/s1, event {value if column == 'id' else 'e2'}"


def test_what_postgresql_cannot_hold_is_a_fault_only_for_postgresql(tmp_path: Path) -> None:
    given = written()
    given[2].actions.state_delta = {"n": float("nan")}
    write(f"sqlite:///{tmp_path / 'old.db'}", given)
    assert len(items(str(tmp_path / "old.db"), "adk-v0")) == 13
    with pytest.raises(Fault, match="actions: PostgreSQL cannot hold NaN") as raised:
        items(str(tmp_path / "old.db"), "adk-v0", strict=True)
    assert raised.value.detail["place"] == f"{APP}/ana/s1, event e3"
