"""Events have the numbers 1, 2, 3… in their session on every page; the number in the source is a detail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


@pytest.fixture
def second(ref: SessionRef, add: Add, actor: Actor) -> SessionRef:
    """A session whose events are the fourth and later ones of the source."""
    for number in (1, 2, 3):
        add(ref, {"text": "Hello"}, author="user", id=f"other{number}")
    mine = create_session(*ref[:3], session_id="second", actor=actor)
    add(mine, {"text": "Hello"}, author="user", id="e1", timestamp=1000.0)
    add(mine, {"text": "Hi"}, id="e2", timestamp=1001.0, actions={"state_delta": {"step": "pay"}})
    add(mine, {"text": "Go on"}, author="user", id="e3", timestamp=1002.0)
    return mine


@pytest.mark.parametrize("indexed", [True, False])
def test_the_timeline_the_panel_and_the_event_count_from_one(second: SessionRef, maria: Browser, indexed: bool) -> None:
    if indexed:
        feed(second.source)
    page = maria.open("session", query={"at": "e2"}, **second._asdict())
    assert page.one(id="events").texts("span", "seq") == ["1", "2", "3"]
    assert "Event 2" in page.one(id="moment").text
    assert "turn 1" in page.one(id="moment").links()
    event = maria.open("event", event_id="e2", **second._asdict())
    assert event.one("h1").text == "Event 2"
    facts = event.one("dl", "facts").text
    assert "Number in the source5" in facts


def test_an_older_link_with_the_number_of_the_source_leads_to_the_same_event(
    second: SessionRef, maria: Browser
) -> None:
    address = reverse("session", kwargs=second._asdict())
    assert maria.get(address, {"seq": "5"})["Location"] == f"{address}?at=e2"


def test_two_moments_are_named_by_their_numbers_and_older_links_mean_those_of_the_source(
    second: SessionRef, maria: Browser
) -> None:
    named = maria.open("compare", query={"a": "#1", "b": "3", "counted": "1"}, **second._asdict())
    older = maria.open("compare", query={"a": "#4", "b": "6"}, **second._asdict())
    assert named.one("ul", "comparison").text == older.one("ul", "comparison").text
    fields = {"counted": "1", "a": "#1", "b": "#3", "with": ""}
    assert named.one("form", "moments").fields() == older.one("form", "moments").fields() == fields
    for asked in ("0", "4", "999999999999999999"):
        page = maria.open("compare", query={"a": asked, "counted": "1"}, status=404, **second._asdict())
        assert page.one("p", "error").text == f"This session has no event {asked}."
