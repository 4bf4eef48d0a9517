"""A second person for some edits: the rules, the form, the page of proposals, and what programs are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sessions_app.access import approval, tokens
from sessions_app.access.actor import SYSTEM, TERMINAL
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import proposals
from sessions_app.writes.append import append_event
from tests.support.people import ALICE, as_admin, somebody
from tests.support.stored import events_of, state_of
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def ana() -> Browser:
    """An editor of the app, who signed in."""
    return signed_in("ana")


@pytest.fixture
def ben() -> Browser:
    """Another one."""
    return signed_in("ben")


@pytest.fixture(autouse=True)
def _rule(ref: SessionRef) -> None:
    approval.make(by=TERMINAL, keys="user:tier", apps="booking")


def signed_in(name: str, role: str = "editor") -> Browser:
    browser = Browser()
    browser.force_login(somebody(name, role, "booking"))
    return browser


def send(browser: Browser, address: str, value: str = "vip", **more: str) -> Any:
    """The answer to the form that gives the user another tier."""
    row = {"rows": "0", "key-0": "user:tier", "operation-0": "set", "value-0": json.dumps(value), "seen-0": '"gold"'}
    return browser.send(address, {**row, "action": "apply", "reason": "by phone " + HOSTILE, **more})


def propose(browser: Browser, ref: SessionRef, **more: str) -> str:
    """The address at which a proposal is decided."""
    answer = send(browser, reverse("session-edit", kwargs=ref._asdict()), **more)
    assert answer.status_code == 302
    waiting = [each for each in proposals.listed(actor=SYSTEM) if each.state == "waiting"]
    assert answer["Location"].endswith(f"#proposal-{waiting[-1].id}")
    return reverse("proposal", args=[waiting[-1].id])


def test_the_form_says_it_and_the_edit_waits_until_another_editor_applies_it(
    ana: Browser, ben: Browser, ref: SessionRef
) -> None:
    assert "No proposals" in ben.open("proposals").text
    form = ana.open("session-edit", query={"key": "user:tier"}, **ref._asdict())
    assert "Needs approval by another editor" in form.text
    address = propose(ana, ref)
    assert (events_of(ref), state_of(ref)["user"]["tier"]) == ([], "gold")
    own = ana.open("proposals", query={"own": "1"})
    assert ("Cancel" in own.text, ">Apply<" in str(own)) == (True, False)
    page = ben.open("proposals")
    assert HOSTILE in page.text
    assert page.one("div", class_="menu-items").one("span", class_="news").text == "1"
    assert ben.send(address, {"action": "apply"}).status_code == 302
    assert state_of(ref)["user"]["tier"] == "vip"
    (_seq, event), *_more = events_of(ref)
    assert "ben" in ana.open("event", event_id=event["id"], **ref._asdict()).text
    assert "applied by ben" in ana.open("edits").text


def test_what_cannot_be_applied_says_why_and_opens_as_an_edit_again(
    ana: Browser, ben: Browser, ref: SessionRef
) -> None:
    address = propose(ana, ref)
    assert ana.send(address, {"action": "apply"}).status_code == 403
    assert signed_in("vic", "viewer").send(address, {"action": "decline"}).status_code == 403
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": HOSTILE}}}, actor=ALICE)
    answer = ben.send(address, {"action": "now"})
    assert (answer.status_code, len(events_of(ref))) == (409, 1)
    assert "The state has changed since the proposal" in page_of(answer).text
    assert ben.send(address, {"action": "decline", "why": "not today"}).status_code == 302
    assert "not today" in ana.open("proposals").text
    (declined,) = proposals.listed(actor=SYSTEM)
    form = ana.open("session-edit", query={"proposal": str(declined.id)}, **ref._asdict())
    assert ("vip" in form.text, HOSTILE in form.text) == (True, True)
    assert ben.send(address, {"action": "apply"}).status_code == 409
    assert ben.send(address, {"action": "dance"}).status_code == 400


def test_the_author_cancels_and_a_stranger_sees_nothing(ana: Browser, ref: SessionRef) -> None:
    address = propose(ana, ref)
    stranger = Browser()
    stranger.force_login(somebody("sam", "admin", "weather"))
    assert stranger.send(address, {"action": "apply"}).status_code == 404
    assert "No proposals" in stranger.open("proposals").text
    assert ana.send(address, {"action": "cancel"}).status_code == 302
    assert "cancelled" in ana.open("proposals").text


def test_every_form_leads_to_the_proposal(ana: Browser, ref: SessionRef) -> None:
    names = {"source": ref.source, "app_name": ref.app_name, "user_id": ref.user_id}
    by_hand = json.dumps({"author": "agent", "actions": {"state_delta": {"user:tier": "x"}}})
    answers = [
        send(ana, reverse("user-edit", kwargs=names)),
        ana.send("add-event", {"event": by_hand}, **ref._asdict()),
    ]
    assert [answer.status_code for answer in answers] == [302, 302]
    htmx = ana.post(
        reverse("session-edit", kwargs=ref._asdict()),
        {"rows": "0", "key-0": "user:tier", "value-0": '"x"', "seen-0": '"gold"', "action": "queue"},
        headers={"HX-Request": "true"},
    )
    assert "/proposals/" in htmx["HX-Redirect"]
    assert (len(proposals.listed(actor=SYSTEM)), events_of(ref)) == (3, [])
    (by_form, *_others) = [each for each in proposals.listed(actor=SYSTEM) if each.kind == "event"]
    text = ana.open("add-event", query={"proposal": str(by_form.id)}, **ref._asdict()).text
    assert "user:tier" in text
    assert "Open as an edit" in ana.open("proposals").text
    new = {"source": ref.source, "app_name": "booking", "user_id": "ana", "state": '{"user:tier": "vip"}'}
    refused = ana.send("new-session", new)
    assert (refused.status_code, "second person" in page_of(refused).text) == (403, True)
    assert state_of(ref)["user"]["tier"] == "gold"


def test_a_program_is_told_that_its_edit_waits(ref: SessionRef) -> None:
    _token, text = tokens.create("bot", "append", "*", by=as_admin("ben"))
    address = f"/api/apps/{ref.app_name}/users/{ref.user_id}/sessions/{ref.session_id}/state"
    body = json.dumps({"set": {"user:tier": "vip"}, "once": "1"})
    answers = [
        Client().patch(address, body, "application/json", headers={"Authorization": f"Bearer {text}"}).json()
        for _time in range(2)
    ]
    (waiting,) = proposals.listed(actor=SYSTEM)
    assert [(answer["status"], answer["proposal"]) for answer in answers] == [(403, str(waiting.id))] * 2
    assert "second person" in answers[0]["detail"]
    own = f"/api/apps/{ref.app_name}/proposals/{waiting.id}"
    head = {"Authorization": f"Bearer {text}"}
    assert Client().get(own, headers=head).json()["changes"] == [{"key": "user:tier", "old": "gold", "new": "vip"}]
    assert [each["state"] for each in Client().get("/api/proposals", headers=head).json()["items"]] == ["waiting"]
    assert Client().delete(own.replace(ref.app_name, "weather"), headers=head).status_code == 404
    assert Client().delete(own, headers=head).json()["state"] == "withdrawn"
    assert Client().delete(own, headers=head).status_code == 409
    assert events_of(ref) == []


def test_rules_are_made_and_deleted_on_their_page(maria: Browser, ref: SessionRef) -> None:
    assert "user:tier" in maria.open("approval").text
    assert maria.send("approval", {"keys": "app:*", "days": "3"}).status_code == 302
    assert maria.send("approval", {"sessions": "20", "days": "3"}).status_code == 302
    assert "of more than 20 sessions" in maria.open("approval").text
    assert maria.send("approval", {"sessions": "many", "days": "3"}).status_code == 400
    wrong = maria.send("approval", {"keys": HOSTILE, "days": "soon", "apps": "book*"})
    page = page_of(wrong)
    assert (wrong.status_code, page.one("form", class_="form").fields()["keys"]) == (400, HOSTILE)
    assert "Enter a whole number" in page.text
    for rule in approval.listed():
        assert maria.send("delete-approval", {}, number=rule.pk).status_code == 302
    assert "Editors can change any key on their own" in maria.open("approval").text
