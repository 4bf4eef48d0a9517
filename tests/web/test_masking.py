"""Rules that people write hide values at every door, and in search."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from django.contrib.auth.models import User

from sessions_app.access import tokens
from sessions_app.access.actor import AGENT, SYSTEM, Actor
from sessions_app.access.shown import shown_object, shown_text
from sessions_app.domain.json_values import read_stored_or_none
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.errors import Invalid, NotAllowed
from sessions_app.masking import looks, rules
from sessions_app.models import AuditRow
from sessions_app.reads import timeline, views
from sessions_app.reads.deltas import said_of_state
from sessions_app.writes.append import append_event
from tests.api.program import Program
from tests.search.finding import feed, ids
from tests.support.people import ALICE, BOB
from tests.web.conftest import Browser
from tests.web.test_shown import KEY, SECRET, TELLING, card, others, pages, routes

pytestmark = pytest.mark.django_db
__all__ = ["card"]


@pytest.mark.parametrize("kind", TELLING)
def test_what_a_rule_hides_leaves_through_no_door(
    card: SessionRef,
    maria: Browser,
    person: User,
    kind: str,
) -> None:
    doors = {
        "pages": lambda: pages(maria, card),
        "routes": lambda: routes(Program(tokens.create("program", "admin", "*", by="maria")[1]), card),
        "others": lambda: others(card, person),
    }[kind]()
    rules.create("book*", "key", KEY, actor=ALICE)
    assert {name for name, door in doors.items() if SECRET in door()} == set()
    for actor in (SYSTEM, AGENT):
        assert views.session(card, actor=actor).state.user == {"card": f"{SECRET}2"}


def test_a_rule_is_tried_added_and_removed_on_its_page(ref: SessionRef, maria: Browser) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"db_password": "hunter22"}}}, actor=ALICE)
    feed(ref.source)
    given = {"apps": "", "kind": "key", "pattern": "*password"}
    assert "db_password" in maria.post("/masking/", given | {"try": "1"}).content.decode()
    assert rules.listed(actor=ALICE) == []
    assert maria.post("/masking/", given).status_code == 302
    (rule,) = rules.listed(actor=ALICE)
    assert (rule.apps, rule.rule.pattern, rule.created_by) == ("*", "*password", "maria")
    assert views.session(ref, actor=ALICE).state.session["db_password"] == "••••"
    assert maria.post("/masking/", given).status_code == 409
    assert maria.post(f"/masking/{rule.number}/remove/").status_code == 302
    assert views.session(ref, actor=ALICE).state.session["db_password"] == "hunter22"
    assert maria.post(f"/masking/{rule.number}/remove/").status_code == 404
    acts = [
        (row.act, row.by, row.app_name) for row in AuditRow.objects.filter(act__startswith="mask-").order_by("number")
    ]
    assert acts == [("mask-rule-made", "maria", "*"), ("mask-rule-removed", "maria", "*")]


def test_secrets_are_proposed_until_a_rule_hides_them(ref: SessionRef, maria: Browser) -> None:
    delta = {"db_password": "hunter22", "note": "pay 4111 1111 1111 1111", "step": "pay"}
    append_event(ref, {"author": "a", "actions": {"state_delta": delta}}, actor=ALICE)
    feed(ref.source)
    page = maria.get("/masking/", {"scan": "1"}).content.decode()
    assert "db_password" in page
    assert "hunter22" not in page
    proposed = [each.known for each in looks.proposals(actor=ALICE)]
    assert {(each.rule.kind, each.rule.pattern) for each in proposed} == {("key", "db_password"), ("form", "card")}
    for each in proposed:
        rules.create(each.apps, each.rule.kind, each.rule.pattern, actor=ALICE)
    feed(ref.source)
    assert looks.proposals(actor=ALICE) == []


def test_what_a_rule_hides_is_not_found(ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"coupon": "hunter22"}}}, actor=ALICE)
    feed(ref.source)
    assert ids("hunter22")
    rules.create("*", "key", "coupon", actor=ALICE)
    assert not ids("hunter22")
    feed(ref.source)
    assert not ids("hunter22")
    assert not ids("state.coupon:hunter22")


def test_a_rule_hides_what_was_read_before_it(ref: SessionRef) -> None:
    append_event(ref, {"id": "e1", "author": "a", "actions": {"state_delta": {"pin": "1234"}}}, actor=ALICE)
    rules.create("*", "key", "another", actor=ALICE)

    def read() -> tuple[Any, Any]:
        event = timeline.event(ref, "e1", actor=ALICE)
        return event.data["actions"]["state_delta"]["pin"], views.session(ref, actor=ALICE).state.session["pin"]

    assert read() == read() == ("1234", "1234")
    rules.create("*", "key", "pin", actor=ALICE)
    assert read() == read() == ("••••", "••••")


def test_a_name_that_is_harmless_in_an_event_is_hidden_in_a_state() -> None:
    rules.create("*", "key", "author", actor=ALICE)
    text = '{"author": "ana"}'
    assert shown_object(text, ALICE, "booking", "event") == {"author": "ana"}
    assert shown_object(text, ALICE, "booking") == {"author": "••••"}
    assert json.loads(shown_text(text, ALICE, "booking", "event")) == {"author": "ana"}
    assert json.loads(shown_text(text, ALICE, "booking")) == {"author": "••••"}


def test_a_text_that_is_harmless_as_an_event_is_hidden_as_what_is_said_of_state() -> None:
    rules.create("*", "key", "pin", actor=ALICE)
    text = '[{"pin": "1234"}, "ana", null]'
    assert shown_object(text, ALICE, "booking", "event", read_stored_or_none) == {}
    assert said_of_state(text, ALICE, "booking")["actions"]["state_delta"] == {"pin": "••••"}


def test_no_text_leaves_with_a_key_given_twice_of_which_one_was_looked_at() -> None:
    rules.create("*", "form", "card", actor=ALICE)
    text = '{"note": "4111 1111 1111 1111", "note": "paid"}'
    assert [shown_text(text, ALICE, "booking") for _ in range(2)] == ['{"note":"paid"}'] * 2
    assert shown_object(text, ALICE, "booking") == {"note": "paid"}


def test_dots_are_never_stored_in_place_of_a_hidden_value(ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"profile": {"card": 1, "name": "x"}}}}, actor=ALICE)
    rules.create("*", "path", "profile.card", actor=ALICE)
    seen = views.session(ref, actor=ALICE).state.session["profile"]
    with pytest.raises(Invalid):
        edit_state(ref, [Entry("profile", seen | {"name": "y"}, seen)], actor=ALICE)
    with pytest.raises(Invalid):
        append_event(ref, {"author": "a", "actions": {"state_delta": {"copy": seen}}}, actor=ALICE)
    assert views.session(ref, actor=SYSTEM).state.session["profile"] == {"card": 1, "name": "x"}
    edit_state(ref, [Entry("profile", {"card": 2}, seen)], actor=ALICE)
    assert views.session(ref, actor=SYSTEM).state.session["profile"] == {"card": 2}


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("key", ""), ("key", "*" * 11), ("key", "x" * 201), ("path", "a"), ("tool", "a"), ("form", "x"), ("what", "x")],
)
def test_a_bad_rule_is_refused_in_words(maria: Browser, kind: str, pattern: str) -> None:
    answer = maria.post("/masking/", {"apps": "*", "kind": kind, "pattern": pattern})
    assert answer.status_code == 400
    assert rules.listed(actor=ALICE) == []


def test_who_may_not_administer_writes_no_rule_and_sees_none() -> None:
    for act in (
        lambda: rules.listed(actor=BOB),
        lambda: rules.create("*", "key", "x", actor=Actor.holding("eve", "append")),
        lambda: rules.delete(1, actor=BOB),
        lambda: looks.proposals(actor=BOB),
        lambda: looks.look(rules.checked("*", "key", "x"), actor=BOB),
    ):
        with pytest.raises(NotAllowed):
            act()


CARD: Final = "4111111111111111"
PIN: Final = "9731-pin"


@pytest.mark.parametrize("kind", TELLING)
def test_no_door_tells_a_secret_in_a_text_a_title_a_tool_or_an_error(
    card: SessionRef, maria: Browser, person: User, kind: str
) -> None:
    call = {"function_call": {"id": "c1", "name": "charge_card", "args": {"number": CARD, "pin": PIN}}}
    back = {
        "function_response": {"id": "c1", "name": "charge_card", "response": {"pin": PIN, "said": f"paid by {CARD}"}}
    }
    said = {"role": "user", "parts": [{"text": f"my card is {CARD}"}]}
    charging = {"role": "model", "parts": [call, {"text": f"charging {CARD}", "thought": True}]}
    title = {
        "__session_metadata__": {"displayName": f"Pays by {CARD}"},
        "note": [{"deep": f"no. {CARD}"}],
        "card no": CARD,
    }
    for number, event in enumerate(
        (
            {"author": "user", "content": said, "actions": {"state_delta": title}},
            {
                "author": "agent",
                "content": charging,
            },
            {"author": "agent", "content": {"role": "user", "parts": [back]}},
            {"author": "agent", "error_code": "DECLINED", "error_message": f"{CARD} was declined"},
            {"author": "agent", "custom_metadata": {"trace": CARD}, "output_transcription": {"text": CARD}},
        )
    ):
        append_event(card, event | {"id": f"s{number}", "invocation_id": "i1"}, actor=ALICE)
    feed(card.source)
    doors = {
        "pages": lambda: pages(maria, card),
        "routes": lambda: routes(Program(tokens.create("program", "admin", "*", by="maria")[1]), card),
        "others": lambda: others(card, person),
    }[kind]()

    def telling() -> set[str]:
        return {name for name, door in doors.items() for text in [door()] if CARD in text or PIN in text}

    assert len(telling()) >= TELLING[kind] // 2
    rules.create("book*", "form", "card", actor=ALICE)
    rules.create("book*", "tool", "charge_*: pin", actor=ALICE)
    feed(card.source)
    assert telling() == set()
