"""The inbox over REST: what waits, as a token may see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, read_only_sources
from sessions_app.access.handles import handle_of
from sessions_app.checks import mask_rules
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.pending import pending
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.inbox import read_id
from tests.api.program import Program
from tests.domain.test_invocations import user
from tests.domain.test_pending import recorded
from tests.search.finding import feed
from tests.search.test_inbox import session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def form() -> str:
    """One format is enough: tests/search/test_inbox.py has both."""
    return "sqlite"


def waits(program: Program, **query: Any) -> list[dict[str, Any]]:
    answer = program.get("/api/inbox", **query)
    assert answer.status == 200, answer
    rows: list[dict[str, Any]] = answer.json()["items"]
    return rows


def test_a_call_is_told_with_all_that_an_answer_needs(source: str, reader: Program, settings: Any) -> None:
    settings.AGENTS, settings.RUN_AGENTS = {source: str(Path("examples/agents").absolute())}, True
    session(source, "payload")
    feed(source)
    (call,) = pending(recorded("payload"))
    (told,) = waits(reader)
    assert read_id(told.pop("id")) == (SessionRef(source, "booking", "ana", "payload"), call.event_id, call.call_id)
    assert told == {
        "kind": "confirmation",
        "tool": "ask",
        "args": {},
        "hint": "How many days?",
        "source": source,
        "app_name": "booking",
        "user_id": "ana",
        "session_id": "payload",
        "event_id": call.event_id,
        "since": call.since,
        "answerable": True,
        "why": "",
    }


def test_it_has_pages_the_oldest_first_and_those_of_a_query(source: str, reader: Program) -> None:
    for name in ("payload", "longrunning", "confirm"):
        session(source, name)
    feed(source)
    every = waits(reader)
    assert [each["since"] for each in every] == sorted(each["since"] for each in every)
    assert len(every) == 4
    first = reader.get("/api/inbox", limit=3).json()
    assert [*first["items"], *waits(reader, cursor=first["next"])] == every
    assert {each["session_id"] for each in waits(reader, q="session:payload")} == {"payload"}
    assert reader.get("/api/inbox", q="usr:ana").json()["errors"][0]["start"] == 0
    assert reader.get("/api/inbox", cursor="x").status == 400


def test_what_was_passed_over_is_only_told_when_asked_for(source: str, reader: Program) -> None:
    session(source, "longrunning", *recorded("longrunning"), user(run="later"))
    feed(source)
    assert waits(reader) == []
    assert [each["tool"] for each in waits(reader, passed_over="true")] == ["approve"]


def test_a_token_learns_of_its_apps_only_and_masked(source: str, new_token: Callable[..., str]) -> None:
    mask_rules.create("*", "tool", "buy:n", actor=SYSTEM)
    mask_rules.create("*", "form", "email", ids=True, actor=SYSTEM)
    session(source, "confirm", user="ana@example.com")
    feed(source)
    assert waits(Program(new_token("admin", "weather*"))) == []
    for each in waits(Program(new_token("read"))):
        handle = handle_of("ana@example.com")
        assert (each["args"], each["user_id"], read_id(each["id"])[0].user_id) == ({"n": DOTS}, handle, handle)


def test_it_says_why_a_call_cannot_be_answered(source: str, reader: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    session(source, "confirm")
    feed(source)
    with monkeypatch.context() as patched:
        patched.setattr("sessions_app.access.actor.read_only_sources", {*read_only_sources, source})
        patched.setattr("sessions_app.sources.database.read_only_sources", {*read_only_sources, source})
        assert {(each["answerable"], "opened read-only" in each["why"]) for each in waits(reader)} == {(False, True)}
    Path(connections.databases[source]["ADKWEB"]["path"]).unlink()
    away = waits(reader)
    assert [(each["tool"], each["args"], each["answerable"]) for each in away] == [("buy", None, False)] * 2
    assert {each["why"] for each in away} == {"This source can't be used right now. An admin can see why."}
