"""The page “Inbox”: what waits for an answer, for whom, and what is said when nothing does."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.pending import pending
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.models import Answer
from sessions_app.search import inbox as waiting
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from tests.domain.test_pending import recorded
from tests.search.finding import feed
from tests.search.test_inbox import session
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db


def said(ref: SessionRef, text: str) -> None:
    """The user says something else."""
    parts: list[dict[str, Any]] = [{"text": text}]
    told = {"author": "user", "invocation_id": "later", "content": {"parts": parts}, "timestamp": time.time()}
    append_event(ref, told, actor=ALICE)


def rows(page: Element) -> list[str]:
    return [link.text for link in page.all("a", class_="rowlink")]


def test_lists_what_is_asked_in_the_agent_s_words_and_leads_to_the_call(ref: SessionRef, maria: Browser) -> None:
    asks = {name: session(ref.source, name) for name in ("payload", "confirm", "credential", "longrunning")}
    (call,) = pending(recorded("payload"))
    feed(ref.source)
    page = maria.open("inbox")
    assert sorted(rows(page)) == [
        "How many days?",
        "Sign in for mail",
        'approve(what="trip")',
        "buy(n=1)",
        "buy(n=2)",
    ]
    assert page.one("a", href=reverse("inbox"), aria_current="page").text == "Inbox 5"
    link = next(each for each in page.all("a", class_="rowlink") if each.text == "How many days?")
    assert link["href"] == reverse("session", kwargs=asks["payload"]._asdict()) + "#waits"
    card = maria.open("session", **asks["payload"]._asdict()).one(id="waits").one("form", "card")
    answer = maria.get(card.all("a")[0]["href"], follow=True)
    assert answer.redirect_chain == [
        (reverse("session", kwargs=asks["payload"]._asdict()) + f"?at={call.event_id}", 302)
    ]


def test_what_was_passed_over_is_on_a_page_of_its_own(ref: SessionRef, maria: Browser) -> None:
    feed(ref.source)
    assert "Nothing waits for an answer" in maria.open("inbox").text
    assert "Nothing was passed over" in maria.open("inbox", query={"show": "passed"}).text
    said(session(ref.source, "longrunning"), "Something else")
    feed(ref.source, walk=True)
    assert rows(maria.open("inbox")) == []
    assert rows(maria.open("inbox", query={"show": "passed"})) == ['approve(what="trip")']


def test_a_page_leads_to_newer_calls_and_back(ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    session(ref.source, "confirm")
    session(ref.source, "payload")
    feed(ref.source)
    monkeypatch.setattr(waiting.waiting, "__kwdefaults__", {**waiting.waiting.__kwdefaults__, "limit": 2})
    first = maria.open("inbox")
    second = maria.open(first.links()["Newer calls"])
    assert len(rows(first)) == 2
    assert len(rows(second)) == 1
    assert second.links()["The oldest calls"] == reverse("inbox")
    maria.open("inbox", query={"after": "nonsense"}, status=400)


def test_a_viewer_sees_their_apps_and_no_masked_argument(ref: SessionRef, guest: Browser) -> None:
    mask_rules.create("*", "tool", "buy:n", actor=SYSTEM)
    session(ref.source, "confirm", app="booking")
    session(ref.source, "payload", app="support")
    feed(ref.source)
    guest.force_login(somebody("vera", "viewer", apps="booking"))
    page = guest.open("inbox")
    assert rows(page) == [f'buy(n="{DOTS}")'] * 2
    assert page.one("a", href=reverse("inbox"), aria_current="page").text == "Inbox 2"


def test_hostile_text_is_text(ref: SessionRef, maria: Browser) -> None:
    *before, asks = recorded("payload")
    told = asks if pending([asks]) else before[2]
    part = next(each for each in told["content"]["parts"] if "function_call" in each)
    part["function_call"]["args"]["toolConfirmation"]["hint"] = "<script>alert(1)</script>‮" + "x" * 5000
    session(ref.source, "hostile", told)
    feed(ref.source)
    (text,) = rows(maria.open("inbox"))
    assert text.startswith("<script>alert(1)</script>")
    assert len(text) < 200


def test_a_call_is_dismissed_with_a_reason_and_undo_brings_it_back(ref: SessionRef, maria: Browser) -> None:
    asks = session(ref.source, "payload")
    feed(ref.source)
    form = maria.open("inbox").one("form", action=reverse("dismiss", kwargs=asks._asdict()))
    refused = maria.send("dismiss", {**form.fields(), "reason": ""}, **asks._asdict())
    assert (refused.status_code, "Enter a reason" in page_of(refused).text) == (400, True)
    assert maria.send("dismiss", {**form.fields(), "reason": "Closed"}, **asks._asdict()).status_code == 302
    page = maria.open("inbox")
    assert rows(page) == []
    undo = page.one("form", action=reverse("dismiss", kwargs=asks._asdict())).fields()
    assert "dismissed by maria · Closed" in maria.open("inbox", query={"show": "dismissed"}).text
    maria.send("dismiss", {**undo, "undo": "1"}, **asks._asdict())
    assert rows(maria.open("inbox")) == ["How many days?"]


def test_a_viewer_dismisses_nothing_and_neither_does_anyone_with_read_only(
    ref: SessionRef, guest: Browser, maria: Browser, settings: Settings
) -> None:
    asks = session(ref.source, "payload")
    feed(ref.source)
    settings.READ_ONLY = True
    assert "Dismiss…" not in maria.open("inbox").text
    settings.READ_ONLY = False
    assert "Dismiss…" in maria.open("inbox").text
    guest.force_login(somebody("vera", "viewer"))
    assert "Dismiss…" not in guest.open("inbox").text
    (key,) = waiting.waiting(actor=SYSTEM).rows
    assert guest.send("dismiss", {"key": key.key, "reason": "No"}, **asks._asdict()).status_code == 403


def test_what_someone_has_just_answered_is_not_listed_unless_the_agent_refused_it(
    ref: SessionRef, maria: Browser
) -> None:
    about = session(ref.source, "confirm")
    feed(ref.source)
    first, second = waiting.waiting(actor=SYSTEM).rows
    claim = Answer.objects.create(
        where=registry.identity(ref.source),
        digest=digest_of(*about[1:]),
        names="[]",
        asked=first.key,
        run=uuid4(),
        response="{}",
        by="maria",
        at=time.time(),
    )
    for state, at, listed in (
        ("open", claim.at, [second]),
        ("sent", claim.at, [second]),
        ("sent", claim.at - 11, [first, second]),  # it didn't arrive
        ("update", claim.at, [first, second]),
        ("refused", claim.at, [first, second]),
    ):
        Answer.objects.update(state=state, at=at)
        assert [each.key for each in waiting.waiting(actor=SYSTEM).rows] == [each.key for each in listed]
        assert maria.open("inbox").one(id="inbox-count").text == str(len(listed))
    Answer.objects.update(state="sent")
    claim.pk, claim.asked = None, second.key
    assert len(maria.open("session", **about._asdict()).all("form", "card")) == 1
    claim.save()
    assert not maria.open("session", **about._asdict()).all("form", "card")


def test_an_open_inbox_hears_that_other_calls_wait(ref: SessionRef, maria: Browser) -> None:
    session(ref.source, "payload")
    feed(ref.source)
    (news,) = [each["hx-get"] for each in maria.open("inbox").all(hx_trigger="every 8s")]
    assert maria.get(news, headers={"HX-Request": "true"}).status_code == 204
    session(ref.source, "longrunning")
    feed(ref.source)
    told = maria.get(news, headers={"HX-Request": "true"}).content.decode()
    assert "Other calls wait now." in told
    assert 'id="inbox-count"' in told
