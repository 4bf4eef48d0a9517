"""Rules over REST: which there are, and who broke them first; a token learns only of its own apps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sessions_app.access.actor import Actor
from sessions_app.checks import rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from tests.api.program import Program
from tests.checks.test_rules import live, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle()


def test_rules_and_their_breaches_are_told_with_the_first_event(
    each_ref: SessionRef, actor: Actor, reader: Program, new_token: Callable[..., str]
) -> None:
    ref = each_ref
    event = {"author": "agent", "actions": {"state_delta": {"cart": {"total": -5}}}}
    first = append_event(ref, event, actor=actor)
    live(ref.source)
    number = rules.create(ref.source, ref.app_name, "No debts", "cart.total >= 0", actor=actor)
    settle()
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
    assert stranger.get("/api/apps/booking/rules").status in (403, 404)
    assert stranger.get(f"/api/apps/booking/rules/{number}/breaches").status in (403, 404)
