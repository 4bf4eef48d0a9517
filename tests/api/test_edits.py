"""Edits of every session, as programs read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads.paging import read_cursor
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address

pytestmark = pytest.mark.django_db


def test_edits_say_who_changed_what_why_and_what_stood_there(program: Program, each_ref: SessionRef) -> None:
    body = {"set": {"step": "pay"}, "remove": ["app:limit"], "reason": "she asked"}
    stored = program.patch(address(each_ref, "/state"), body).json()
    program.post(address(each_ref, "/events"), {"author": "agent", "actions": {"state_delta": {"a": 1}}})
    (edit,) = program.get("/api/edits").json()["items"]
    assert {
        name: edit[name] for name in ("source", "app_name", "user_id", "session_id", "actor", "reason", "kind")
    } == {
        **each_ref._asdict(),
        "actor": "token program",
        "reason": "she asked",
        "kind": "edit",
    }
    assert edit["event"] == stored["event"]
    assert edit["changes"] == [
        {"key": "step", "old": "choose", "new": "pay"},
        {"key": "app:limit", "old": 10},
    ]


def test_edits_of_every_source_page_the_newest_first(
    program: Program, ref: SessionRef, other_store: str, actor: Actor
) -> None:
    other = create_session(other_store, "support", "ben", actor=actor)
    for number in range(60):
        where = (ref, other)[number % 2]
        assert program.patch(address(where, "/state"), {"set": {"n": number}}).status == 201
    first = program.get("/api/edits").json()
    rest = program.get("/api/edits", before=first["next"]).json()
    assert (len(first["items"]), len(rest["items"]), rest["next"], first["problems"]) == (50, 10, None, [])
    values = [item["changes"][0]["new"] for item in first["items"] + rest["items"]]
    assert values == list(range(59, -1, -1))
    assert program.get("/api/edits", before="x").status == 400


def test_a_token_for_some_apps_sees_their_edits(
    program: Program, new_token: Callable[..., str], ref: SessionRef, actor: Actor
) -> None:
    other = create_session(ref.source, "support", "ben", actor=actor)
    for where in (ref, other):
        program.patch(address(where, "/state"), {"set": {"a": 1}})
    some: Any = Program(new_token("read", "support")).get("/api/edits").json()
    assert [item["app_name"] for item in some["items"]] == ["support"]


def test_edits_of_other_apps_do_not_count_and_no_cursor_tells_of_them(
    program: Program, new_token: Callable[..., str], ref: SessionRef, actor: Actor
) -> None:
    mine = create_session(ref.source, "support", "ben", actor=actor)
    for number in range(55):
        program.patch(address(mine, "/state"), {"set": {"n": number}})
        program.patch(address(ref, "/state"), {"set": {"n": number}})
    token = Program(new_token("read", "supp*"))
    first: Any = token.get("/api/edits").json()
    rest: Any = token.get("/api/edits", before=first["next"]).json()
    assert [len(page["items"]) for page in (first, rest)] == [50, 5]
    assert rest["next"] is None
    last = first["items"][-1]
    assert read_cursor(first["next"], int, str, int)[1] == last["source"]
    assert round(read_cursor(first["next"], int, str, int)[0] / 1e6, 3) == round(last["timestamp"], 3)
    assert Program(new_token("read", "nothing")).get("/api/edits").json() == {"items": [], "next": None, "problems": []}


def test_a_source_that_is_away_takes_no_other_with_it(
    program: Program, ref: SessionRef, other_store: str, tmp_path: Path
) -> None:
    program.patch(address(ref, "/state"), {"set": {"a": 1}})
    (tmp_path / "other.db").unlink()
    found = program.get("/api/edits").json()
    assert len(found["items"]) == 1
    assert "other.db" in found["problems"][0]
