"""The delivery of an edit: which turn loaded it, and when its keys were next written or given to a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
Add = Callable[..., str]


def lines(ref: SessionRef, event_id: str, maria: Browser) -> list[Element]:
    """The lines about an edit, one for each key, once all events are indexed."""
    feed(ref.source)
    return maria.open("delivery", **ref._asdict(), event_id=event_id, htmx=True).all("div", "delivered")


@pytest.fixture
def edit(ref: SessionRef, add: Add, actor: Actor) -> str:
    """An edit of two keys after the first turn."""
    add(ref, {"text": "Hello"}, id="e1", author="user", invocation_id="i1")
    entries = [Entry("seat", "aisle", ABSENT), Entry("user:lang", "pt", ABSENT)]
    return str(edit_state(ref, entries, actor=actor).event["id"])


def test_an_edit_is_not_loaded_before_a_turn_begins(ref: SessionRef, edit: str, maria: Browser) -> None:
    for line in lines(ref, edit, maria):
        assert "not loaded yet: an agent loads the state when a turn starts · not written since" in line.text


def test_the_turn_that_loaded_it_and_the_next_write_are_links(
    ref: SessionRef, edit: str, maria: Browser, add: Add
) -> None:
    add(ref, {"text": "On"}, id="e2", author="user", invocation_id="i2")
    add(
        ref,
        {"text": "Paid"},
        id="e3",
        author="billing",
        invocation_id="i2",
        actions={"state_delta": {"seat": "window"}},
    )
    seat, language = lines(ref, edit, maria)
    page = reverse("session", kwargs=ref._asdict())
    assert seat.links() == {
        "loaded by the agent in turn 2": f"{page}?turn=2",
        "next written by billing": f"{page}?at=e3",
    }
    assert language.links() == {"loaded by the agent in turn 2": f"{page}?turn=2"}
    assert "not written since" in language.text


def test_a_shared_key_may_be_loaded_and_written_in_another_session(
    ref: SessionRef, edit: str, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*ref[:3], session_id="other", actor=actor)
    add(other, {"text": "Hi"}, id="o1", author="user", invocation_id="j1")
    add(other, {"text": "Ok"}, id="o2", author="booking", actions={"state_delta": {"user:lang": "ko"}})
    seat, language = lines(ref, edit, maria)
    page = reverse("session", kwargs=other._asdict())
    assert language.links() == {
        "loaded by the agent in turn 1": f"{page}?turn=1",
        "next written by booking": f"{page}?at=o2",
    }
    assert "not loaded yet" in seat.text


def test_the_page_of_an_edit_asks_for_its_delivery(ref: SessionRef, edit: str, maria: Browser) -> None:
    address = reverse("delivery", kwargs={**ref._asdict(), "event_id": edit})
    assert maria.open("event", **ref._asdict(), event_id=edit).one("div", "delivery").one("dl")["hx-get"] == address
    assert not maria.open("event", **ref._asdict(), event_id="e1").all("div", "delivery")
