"""Rules that people write hide values, in search too. test_hidden.py asks every door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.access.actor import AGENT, SYSTEM, Actor
from sessions_app.access.shown import shown_object, shown_text
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Invalid, NotAllowed
from sessions_app.domain.json_values import read_stored_or_none
from sessions_app.domain.mask_patterns import FORMS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.models import AuditRow
from sessions_app.reads import timeline, views
from sessions_app.reads.deltas import said_of_state
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed, ids
from tests.support.people import ALICE, BOB
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db


def test_adkweb_and_agents_see_what_a_rule_hides(ref: SessionRef) -> None:
    mask_rules.create("book*", "key", "user:tier", actor=ALICE)
    assert views.session(ref, actor=ALICE).state.user == {"tier": "••••"}
    for actor in (SYSTEM, AGENT):
        assert views.session(ref, actor=actor).state.user == {"tier": "gold"}


def test_a_rule_is_tried_added_and_removed_on_its_page(ref: SessionRef, maria: Browser) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"db_password": "hunter22"}}}, actor=ALICE)
    feed(ref.source)
    given = {"apps": "", "kind": "key", "pattern": "*password"}
    assert "db_password" in maria.post("/masking/", given | {"trial": "1"}).content.decode()
    assert mask_rules.listed(actor=ALICE) == []
    assert maria.post("/masking/", given).status_code == 302
    (rule,) = mask_rules.listed(actor=ALICE)
    assert (rule.apps, rule.pattern, rule.created_by) == ("*", "*password", "maria")
    assert views.session(ref, actor=ALICE).state.session["db_password"] == "••••"
    assert maria.post("/masking/", given).status_code == 409
    assert maria.post(f"/masking/{rule.pk}/remove/").status_code == 302
    assert views.session(ref, actor=ALICE).state.session["db_password"] == "hunter22"
    assert maria.post(f"/masking/{rule.pk}/remove/").status_code == 404
    acts = [
        (row.act, row.by, row.app_name) for row in AuditRow.objects.filter(act__startswith="mask-").order_by("number")
    ]
    assert acts == [("mask-rule-made", "maria", "*"), ("mask-rule-removed", "maria", "*")]


def test_a_rule_says_which_ids_of_users_stay_readable(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ana@example.com", "omar@example.com"):  # beside ana
        create_session(ref.source, "booking", user, session_id="s1", actor=ALICE)
    create_session(ref.source, "support", "zoe", session_id="s1", actor=ALICE)
    said = "2 of 3 booking users have an email as their id. Their ids stay visible."
    given = {"apps": "", "kind": "form", "pattern": "email"}
    assert said in maria.post("/masking/", given | {"trial": "1"}).content.decode()
    page = maria.post("/masking/", given, follow=True).content.decode()
    assert said in page
    assert "users of support" not in page
    assert mask_rules.ids(mask_rules.checked("sup*", "form", "email"), actor=ALICE) == []
    assert mask_rules.ids(mask_rules.checked("*", "key", "email"), actor=ALICE) == []
    monkeypatch.setattr(mask_rules, "USERS", 2)
    page = maria.post("/masking/", given | {"trial": "1"}).content.decode()
    assert "1 of the first 2 booking users have an email as their id. Their ids stay visible." in page


def test_a_rule_by_form_may_include_ids_of_users(ref: SessionRef, maria: Browser) -> None:
    create_session(ref.source, "booking", "ana@example.com", session_id="s1", actor=ALICE)
    said = "1 of 2 booking users have an email as their id. Their handles will be shown instead."
    given = {"apps": "", "kind": "form", "pattern": "email"}
    assert maria.post("/masking/", given).status_code == 302
    assert said in maria.post("/masking/", given | {"ids": "1", "trial": "1"}).content.decode()
    page = maria.post("/masking/", given | {"ids": "1"}, follow=True).content.decode()  # in place of the one without
    assert said in page
    assert "including user ids" in page
    (rule,) = mask_rules.listed(actor=ALICE)
    assert rule.ids
    assert maria.post("/masking/", given | {"ids": "1"}).status_code == 409
    assert maria.post("/masking/", {"apps": "", "kind": "key", "pattern": "*", "ids": "1"}).status_code == 400
    made = AuditRow.objects.filter(act="mask-rule-made").order_by("number")
    assert ['"ids":true' in row.detail for row in made] == [False, True]


def test_a_format_is_chosen_from_all_that_there_are_and_what_is_wrong_with_it_stands_beside_them(
    maria: Browser,
) -> None:
    form = maria.open("masking").one("form", class_="form")
    assert [each["value"] for each in form.all("input", name="format")] == list(FORMS)
    given = {**form.fields(), "kind": "form", "format": "email"}
    assert maria.send("masking", given).status_code == 302
    (rule,) = mask_rules.listed(actor=ALICE)
    assert (rule.kind, rule.pattern) == ("form", "email")
    again = maria.send("masking", given)
    assert (
        page_of(again).one("fieldset", class_="ofform").one(id="format_error").text
        == "There's already a rule like this."
    )
    assert maria.send("masking", given | {"kind": "key", "pattern": "pin"}).status_code == 302
    assert [each.pattern for each in mask_rules.listed(actor=ALICE)] == ["email", "pin"]


def test_secrets_are_proposed_until_a_rule_hides_them(ref: SessionRef, maria: Browser) -> None:
    none = "no visible key is named like a secret"
    assert none in maria.get("/masking/", {"scan": "1"}).content.decode()
    delta = {"db_password": "hunter22", "user:card_token": "tok_1", "note": "pay 4111 1111 1111 1111", "token_count": 7}
    append_event(ref, {"author": "a", "actions": {"state_delta": delta}}, actor=ALICE)
    feed(ref.source)
    page = maria.get("/masking/", {"scan": "1"}).content.decode()
    assert "db_password" in page
    assert none not in page
    assert "hunter22" not in page
    proposed = [rule for rule, _keys in mask_rules.proposals(actor=ALICE)]
    assert {(each.kind, each.pattern) for each in proposed} == {
        ("key", "db_password"),
        ("key", "user:card_token"),
        ("form", "card"),
    }
    for each in proposed:
        mask_rules.create(each.apps, each.kind, each.pattern, actor=ALICE)
    feed(ref.source)
    assert mask_rules.proposals(actor=ALICE) == []


def test_what_a_rule_hides_is_not_found(ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"coupon": "hunter22"}}}, actor=ALICE)
    feed(ref.source)
    assert ids("hunter22")
    mask_rules.create("*", "key", "coupon", actor=ALICE)
    assert not ids("hunter22")
    feed(ref.source)
    assert not ids("hunter22")
    assert not ids("state.coupon:hunter22")


def test_a_rule_hides_what_was_read_before_it(ref: SessionRef) -> None:
    append_event(ref, {"id": "e1", "author": "a", "actions": {"state_delta": {"pin": "1234"}}}, actor=ALICE)
    mask_rules.create("*", "key", "another", actor=ALICE)

    def read() -> tuple[Any, Any]:
        event = timeline.event(ref, "e1", actor=ALICE)
        return event.data["actions"]["state_delta"]["pin"], views.session(ref, actor=ALICE).state.session["pin"]

    assert read() == read() == ("1234", "1234")
    mask_rules.create("*", "key", "pin", actor=ALICE)
    assert read() == read() == ("••••", "••••")


def test_a_name_that_is_harmless_in_an_event_is_hidden_in_a_state() -> None:
    mask_rules.create("*", "key", "author", actor=ALICE)
    text = '{"author": "ana"}'
    assert shown_object(text, ALICE, "booking", "event") == {"author": "ana"}
    assert shown_object(text, ALICE, "booking") == {"author": "••••"}
    assert json.loads(shown_text(text, ALICE, "booking", "event")) == {"author": "ana"}
    assert json.loads(shown_text(text, ALICE, "booking")) == {"author": "••••"}


def test_a_text_that_is_harmless_as_an_event_is_hidden_as_what_is_said_of_state() -> None:
    mask_rules.create("*", "key", "pin", actor=ALICE)
    text = '[{"pin": "1234"}, "ana", null, null]'
    assert shown_object(text, ALICE, "booking", "event", read_stored_or_none) == {}
    assert said_of_state(text, ALICE, "booking")["actions"]["state_delta"] == {"pin": "••••"}


def test_no_text_leaves_with_a_key_given_twice_of_which_one_was_looked_at() -> None:
    mask_rules.create("*", "form", "card", actor=ALICE)
    text = '{"note": "4111 1111 1111 1111", "note": "paid"}'
    assert [shown_text(text, ALICE, "booking") for _ in range(2)] == ['{"note":"paid"}'] * 2
    assert shown_object(text, ALICE, "booking") == {"note": "paid"}


def test_dots_are_never_stored_in_place_of_a_hidden_value(ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"profile": {"card": 1, "name": "x"}}}}, actor=ALICE)
    mask_rules.create("*", "path", "profile.card", actor=ALICE)
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
    assert mask_rules.listed(actor=ALICE) == []


def test_who_may_not_administer_writes_no_rule_and_sees_none() -> None:
    for act in (
        lambda: mask_rules.listed(actor=BOB),
        lambda: mask_rules.create("*", "key", "x", actor=Actor.holding("eve", "append")),
        lambda: mask_rules.delete(1, actor=BOB),
        lambda: mask_rules.proposals(actor=BOB),
        lambda: mask_rules.look(mask_rules.checked("*", "key", "x"), actor=BOB),
    ):
        with pytest.raises(NotAllowed):
            act()
