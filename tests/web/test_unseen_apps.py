"""Who may not see an app gets nothing of it, on no page: the rule is the core's, and no page has to know it."""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.urls import URLPattern, reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound
from sessions_app.domain.positions import NO_SEQ
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import queue
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.reads.changes import Following, Only
from sessions_app.sources import registry
from sessions_app.transfer import exporting
from sessions_app.web import urls
from sessions_app.web.home import home
from sessions_app.web.session import updates
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.people import somebody
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db

SECRET: Final = "4111-1111"
OWN: Final = Actor.holding("maria", "admin", "booking*")
QUERY: Final = {
    "key": "card",
    "a": "e1",
    "b": "now",
    "to": "e1",
    "at": "e1",
    "before": "i1",
    "after": "0",
    "scope": "session",
}
ONCE: Final = re.compile(
    r'nonce="[^"]*"|csp-nonce" content="[^"]*"|csrfmiddlewaretoken" value="[^"]*"|"X-CSRFToken": "[^"]*"'
)
LISTS: Final = {"users", "sessions", "user-sessions"}  # whose cursors are others
OF_AN_APP: Final = [
    pattern for pattern in urls.urlpatterns if isinstance(pattern, URLPattern) and "app_name" in str(pattern.pattern)
]


@pytest.fixture
def other(ref: SessionRef, actor: Actor) -> SessionRef:
    """A session with a secret, of an app that Maria may not see."""
    made = create_session(
        ref.source, "weather", "zoe", session_id="s9", state={"card": SECRET, "user:card": SECRET}, actor=actor
    )
    event = {"id": "e1", "author": "agent", "invocation_id": "i1", "actions": {"state_delta": {"app:card": SECRET}}}
    append_event(made, event, actor=actor)
    return made


@pytest.fixture
def limited(person: User) -> None:
    """Maria sees the apps that begin with “booking”, and no other."""
    somebody(person.get_username(), "admin", "booking*")


def address_of(pattern: URLPattern, ref: SessionRef) -> str:
    given = {**ref._asdict(), "event_id": "e1", "number": 0, "artifact": "plan.txt", "version": 0}
    given |= dict.fromkeys(("export_id", "what_if_id"), uuid.UUID(int=0))
    names = {name: given[name] for name in pattern.pattern.converters}
    return reverse(str(pattern.name), kwargs=names)


def answer_to(maria: Browser, pattern: URLPattern, query: dict[str, str], ref: SessionRef) -> tuple[int, str]:
    """What Maria gets, without what is new in every answer and without the app's name."""
    answer = maria.get(address_of(pattern, ref), query)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    text = content.decode() + answer.headers.get("Location", "")
    return answer.status_code, ONCE.sub("", text).replace(ref.app_name, "APP")


@pytest.mark.guarantee(
    "Safety",
    "A program can do only what its token permits in the apps that the token covers, and learns nothing about other apps.",
)
@pytest.mark.parametrize("query", [{}, QUERY], ids=["plain", "asked"])
def test_a_page_of_an_app_that_somebody_may_not_see_is_that_of_one_that_is_not_there(
    ref: SessionRef, other: SessionRef, maria: Browser, limited: None, query: dict[str, str]
) -> None:
    for pattern in OF_AN_APP:
        asked = {} if pattern.name in LISTS else query
        answer = answer_to(maria, pattern, asked, other)
        assert answer == answer_to(maria, pattern, asked, other._replace(app_name="atlantis")), pattern.name
        # And where it is no error: as of an app that she might see, if it were there.
        might = answer[0] == 404 or answer_to(maria, pattern, asked, other._replace(app_name="bookings"))
        assert might in (True, answer), pattern.name


def test_a_queued_edit_in_such_an_app_is_not_there(
    other: SessionRef, maria: Browser, person: User, request: pytest.FixtureRequest
) -> None:
    waiting = queue.queue_edit(other, [Entry("step", "pay", ABSENT)], person=person)
    assert "pay" in maria.get(reverse("queued-json", args=[waiting.id])).content.decode()
    request.getfixturevalue("limited")
    assert maria.get(reverse("queued-json", args=[waiting.id])).status_code == 404


@pytest.mark.parametrize("name", ["home", "feed", "edits", "new-session"])
def test_lists_of_all_apps_leave_out_those_that_somebody_may_not_see(
    ref: SessionRef, other: SessionRef, maria: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    edit_state(other, [Entry("x", 1, ABSENT)], actor=Actor.holding("adam", "admin"))
    assert "weather" in maria.get(reverse(name)).content.decode() or name == "new-session"
    request.getfixturevalue("limited")
    assert "weather" not in maria.get(reverse(name)).content.decode()


def test_sockets_commands_and_exports_leave_them_out_too(ref: SessionRef, other: SessionRef) -> None:
    with pytest.raises(NotFound):
        updates.check(other, updates.Filter(), OWN)
    with pytest.raises(NotFound):
        updates.following(other, NO_SEQ, updates.Filter(), OWN)
    assert {turn.ref.app_name for turn in home.activity(OWN).turns} == set()
    assert {turn.ref.app_name for turn in home.activity(SYSTEM).turns} == {"weather"}
    (source,) = [each for each in registry.listed() if each.alias == ref.source]
    assert [view.id for view in Following(source, Only(), actor=SYSTEM).newest(10)] == ["e1"]
    followed = Following(source, Only(), actor=OWN)
    assert followed.newest(10) == []
    with ThreadPoolExecutor(1) as somebody:
        for of, name in ((other, "e2"), (ref, "e3")):
            somebody.submit(append_event, of, {"id": name, "author": "agent"}, actor=SYSTEM).result()
        somebody.submit(connections.close_all).result()
    assert [view.id for view in followed.more()] == ["e3"]
    exported = list(exporting.items(ref.source, exporting.Filter(), actor=OWN))
    assert SECRET not in repr(exported)
    assert len(exported) == 4  # the app's state, the user's, the session, its event
    assert exporting.count(ref.source, exporting.Filter(), actor=OWN) == 1
