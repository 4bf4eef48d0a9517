"""What a pane of the session page is answered: pages as they stand alone, addresses for redirects, sentences for errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from sessions_app.domain.session_ref import SessionRef
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db
PANE = {"X-Pane": "true"}


@pytest.fixture
def event_id(ref: SessionRef, add: Callable[..., str]) -> str:
    """An event of the session."""
    return add(ref, actions={"state_delta": {"step": "pay"}})


def test_a_pane_gets_the_page_that_stands_alone(ref: SessionRef, event_id: str, maria: Browser) -> None:
    response = maria.get(reverse("fork", kwargs={**ref._asdict(), "event_id": event_id}), headers=PANE)
    assert page_of(response).one("main").one("h1").text.startswith("Fork at event")


def test_it_is_told_where_it_would_be_redirected_to_and_takes_no_message_on_the_way(
    ref: SessionRef, event_id: str, maria: Browser
) -> None:
    address = reverse("fork", kwargs={**ref._asdict(), "event_id": event_id})
    response = maria.post(address, {"user_id": "ana", "session_id": "try", "once": "1"}, headers=PANE)
    there = reverse("session", kwargs=ref._replace(session_id="try")._asdict())
    assert (response.status_code, response["HX-Redirect"], response.content) == (204, there, b"")
    assert "Location" not in response.headers
    told = maria.get(reverse("queued-outcomes"), {"messages": "1"}, headers={"HX-Request": "true"})
    assert page_of(told).one(role="status").text.startswith("Fork created from")
    assert "Fork created" not in maria.open("session", **ref._asdict()).text  # it is told once


def test_the_outcomes_of_queued_edits_take_nobodys_message(ref: SessionRef, event_id: str, maria: Browser) -> None:
    address = reverse("fork", kwargs={**ref._asdict(), "event_id": event_id})
    maria.post(address, {"user_id": "ana", "session_id": "try", "once": "1"})
    told = maria.get(reverse("queued-outcomes"), headers={"HX-Request": "true"})
    assert b"Fork created" not in told.content
    assert "Fork created" in maria.open("session", **ref._asdict()).text


def test_what_a_pane_sent_is_refused_by_one_sentence_and_what_it_opens_by_a_page(
    ref: SessionRef, maria: Browser, client: Client
) -> None:
    gone = reverse("fork", kwargs={**ref._asdict(), "event_id": "gone"})
    drift = reverse("drift", kwargs=ref._asdict())
    for browser, address, status in ((maria, gone, 404), (client, drift, 403)):
        sent = browser.post(address, headers=PANE)
        assert (sent.status_code, sent["Content-Type"]) == (status, "text/plain; charset=utf-8")
        opened = browser.get(address, headers=PANE)
        assert (opened.status_code, opened["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert "You have been signed out" in page_of(client.get(drift, headers=PANE)).text
