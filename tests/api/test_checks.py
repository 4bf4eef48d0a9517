"""Rules over REST: which there are, and who broke them first; a token learns only of its own apps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sessions_app.access.actor import Actor
from sessions_app.checks import rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from tests.api.program import Program
from tests.checks.test_rules import live
from tests.support.at_work import settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("rule")


def test_rules_and_their_breaches_are_told_with_the_first_event(
    each_ref: SessionRef, actor: Actor, reader: Program, new_token: Callable[..., str]
) -> None:
    ref = each_ref
    event = {"author": "agent", "actions": {"state_delta": {"cart": {"total": -5}}}}
    first = append_event(ref, event, actor=actor)
    live(ref.source)
    number = rules.create(ref.source, ref.app_name, "No debts", "cart.total >= 0", actor=actor)
    settle("rule")
    (rule,) = reader.get("/api/apps/booking/rules").json()
    told = {name: rule[name] for name in ("number", "title", "condition", "percent", "sessions", "now", "more")}
    assert told == {
        "number": number,
        "title": "No debts",
        "condition": "cart.total >= 0",
        "percent": None,
        "sessions": 1,
        "now": 1,
        "more": False,
    }
    page = reader.get(f"/api/apps/booking/rules/{number}/breaches").json()
    (breach,) = page["items"]
    assert (breach["id"], breach["event_id"], breach["seq"], breach["now"], page["next"]) == (
        *(ref.session_id, first.event["id"], first.seq, True, None),
    )
    assert reader.get(f"/api/apps/booking/rules/{number + 1}/breaches").status == 404
    stranger = Program(new_token("read", "other*"))
    assert stranger.get("/api/apps/booking/rules").status == 404
    assert stranger.get(f"/api/apps/booking/rules/{number}/breaches").status == 404


def test_a_rule_is_written_changed_and_deleted(
    each_ref: SessionRef, actor: Actor, program: Program, reader: Program
) -> None:
    event = {"author": "agent", "actions": {"state_delta": {"cart": {"total": -5}}}}
    append_event(each_ref, event, actor=actor)
    live(each_ref.source)
    address = "/api/apps/booking/rules"
    made = program.ask("POST", address, body={"title": "No debts", "condition": "cart.total >= 0"})
    settle("rule")
    rule = made.json()
    assert (made.status, made.headers["location"]) == (201, f"{address}/{rule['number']}")
    assert (rule["title"], rule["condition"], rule["created_by"]) == ("No debts", "cart.total >= 0", "token program")
    assert reader.get(made.headers["location"]).json()["now"] == 1
    changed = program.ask("PUT", made.headers["location"], body={"condition": "cart.total >= -5"})
    settle("rule")
    assert (changed.status, changed.json()["title"]) == (200, "")
    assert reader.get(made.headers["location"]).json()["sessions"] == 0
    assert reader.ask("DELETE", made.headers["location"]).status == 403
    assert program.ask("DELETE", made.headers["location"]).status == 204
    assert program.ask("DELETE", made.headers["location"]).status == 404
    assert reader.get(address).json() == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"condition": "app:booking"}, "isn't a condition on state"),
        ({"condition": ""}, "Enter a condition on the state, for example"),
        ({"title": "x" * 101, "condition": "n > 0"}, "up to 100 characters"),
        ({"condition": 5}, "condition: "),
        ({"title": "isn't a condition on state"}, "condition: "),
        ({"condition": "n > 0", "name": "n"}, "name: unknown field"),
    ],
)
def test_a_rule_with_a_mistake_is_refused(
    body: dict[str, object], problem: str, ref: SessionRef, program: Program
) -> None:
    refused = program.ask("POST", "/api/apps/booking/rules", body=body)
    assert (refused.status, problem in refused.detail) == (400, True)
    assert all(each["place"] == "condition" for each in refused.json().get("errors", []))
    assert program.get("/api/apps/booking/rules").json() == []
