"""The same pages over each format of ADK's sessions, PostgreSQL's included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.reads import filters
from sessions_app.writes.sessions import create_session
from tests.support.stored import state_of
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """A session with state in every scope."""
    state = {"step": "choose", "user:tier": "gold", "app:limit": 10}
    return create_session(source, "booking", "ana", session_id="s1", state=state, actor=actor)


def test_every_page_opens(ref: SessionRef, maria: Browser, add: Callable[..., str], actor: Actor) -> None:
    event_id = add(ref, {"text": "Hello"}, actions={"state_delta": {"step": "pay", "user:tier": "silver"}})
    edit_state(ref, [Entry("fresh", {"a": 1}, ABSENT)], actor=actor, reason="Why")
    assert ref.source in maria.open("home").texts("h2")
    names = list({**ref._asdict(), "event_id": event_id}.items())
    for length, pages in {
        0: ["edits", "new-session"],
        2: ["app", "users", "sessions", "app-edit", "state-health"],
        3: ["user", "user-sessions", "user-edit"],
        4: ["session", "events", "stats", "session-edit", "add-event", "delete-session", "drift"],
        5: ["event", "event-json"],
    }.items():
        for page in pages:
            maria.open(page, **dict(names[:length]))
    for kind in filters.FILTERS:
        maria.open("session", query={"kind": kind, "author": "agent"}, **ref._asdict())
    assert maria.open("session", **ref._asdict()).texts("span", "seq") == ["1", "2"]


def test_a_long_session_is_read_to_its_first_event(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    written = [add(ref, {"text": "x"}, timestamp=1000.0 - n) for n in range(110)]
    page = maria.open("session", **ref._asdict())
    found = [event["id"].removeprefix("event-") for event in page.all("li", "ev")]
    while earlier := page.links().get("Earlier events"):
        page = maria.open(earlier, htmx=True)
        found = [event["id"].removeprefix("event-") for event in page.all("li", "ev")] + found
    assert found == written


def test_an_edit_is_written_a_conflict_is_shown_and_decided(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    page = maria.open("session-edit", query={"key": ["step", "user:tier"]}, **ref._asdict())
    sent = page.one("form", "editbox").json_fields() | {"value-0": "1", "value-1": "2.50"}
    edit_state(ref, [Entry("step", "theirs", "choose")], actor=actor)
    refused = maria.send("session-edit", sent, **ref._asdict())
    assert refused.status_code == 409
    sent = page_of(refused).one("form", "editbox").json_fields() | {"choice-0": "mine"}
    assert maria.send("session-edit", sent, **ref._asdict()).status_code == 302
    assert state_of(ref) == {"session": {"step": 1}, "user": {"tier": 2.5}, "app": {"limit": 10}}


def test_a_session_is_made_and_deleted(source: str, maria: Browser) -> None:
    sent = {"source": source, "app_name": "booking", "user_id": "ana", "session_id": "new", "state": '{"user:a": 1}'}
    assert maria.send("new-session", sent).status_code == 302
    assert maria.send("new-session", sent).status_code == 409
    ref = SessionRef(source, "booking", "ana", "new")
    assert maria.send("delete-session", {"confirm": "new"}, **ref._asdict()).status_code == 302
    maria.open("session", status=404, **ref._asdict())


@pytest.mark.parametrize(
    "name", ["app", "users", "sessions", "user", "session", "events", "stats", "session-edit", "event"]
)
def test_a_name_that_no_database_holds_is_no_fault_of_the_source(ref: SessionRef, maria: Browser, name: str) -> None:
    length = {"app": 2, "users": 2, "sessions": 2, "user": 3, "event": 5}.get(name, 4)
    names = list({**ref._asdict(), "event_id": "e1"}.items())[:length]
    names[-1] = (names[-1][0], "nul\0nul")
    address = reverse(name, kwargs=dict(names))
    assert "~00" in address
    assert maria.get(address).status_code in (200, 400, 404)


def test_an_author_that_no_database_holds_is_none_either(ref: SessionRef, maria: Browser) -> None:
    address = reverse("session", kwargs=ref._asdict())
    assert maria.get(address, {"author": "nul\0nul"}).status_code in (200, 400)
