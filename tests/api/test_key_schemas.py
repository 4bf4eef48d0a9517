"""The schema of an app, as programs see it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from tests.api.program import Program
from tests.domain.test_schema_model import models, takes
from tests.search.finding import feed

pytestmark = pytest.mark.django_db


def learn(ref: SessionRef, actor: Actor) -> None:
    for number in range(6):
        delta = {"step": "pay" if number % 2 else "book", "user:age": 20 + number, "api_key": "hunter22"}
        append_event(ref, {"author": "booking_agent", "actions": {"state_delta": delta}}, actor=actor)
    feed(ref.source)


def test_a_program_learns_what_the_keys_of_an_app_have_been(program: Program, ref: SessionRef, actor: Actor) -> None:
    learn(ref, actor)
    schema = program.get("/api/apps/booking/schema").json()
    assert (schema["more"], schema["indexed"]) == (False, 1.0)
    keys = {item["key"]: item for item in schema["items"]}
    assert [*keys] == ["api_key", "step", "user:age"]
    assert keys["step"] == {
        "key": "step",
        "events": 6,
        "removed": 0,
        "types": {"string": 6},
        "strings": {"pay": 3, "book": 3},
        "options": ["book", "pay"],
        "low": None,
        "high": None,
        "fractions": False,
        "hidden": False,
        "agents": {"booking_agent": 6},
        "people": {},
    }
    assert (keys["user:age"]["low"], keys["user:age"]["high"]) == (20, 25)
    assert (keys["api_key"]["hidden"], keys["api_key"]["strings"]) == (True, {})


def test_a_program_gets_the_models(program: Program, ref: SessionRef, actor: Actor) -> None:
    learn(ref, actor)
    text = program.get("/api/apps/booking/schema/model").content.decode()
    takes(models(text), {"step": "pay", "user:age": 21, "api_key": "any"})
    assert "hunter22" not in text


def test_an_app_that_a_token_may_not_see_has_no_schema(
    program: Program, new_token: Callable[..., str], ref: SessionRef, actor: Actor
) -> None:
    learn(ref, actor)
    other = Program(new_token("read", "support*"))
    for address in ("/api/apps/booking/schema", "/api/apps/booking/schema/model"):
        assert other.get(address).status == 404
        assert program.get(address.replace("booking", "nobody")).status == 404
