"""Which sessions an edit of shared state reaches, on both databases."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_user_state
from sessions_app.models import SearchSession
from sessions_app.search import sharing as module
from sessions_app.search.sharing import Active, Sharing, sharing
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
AT_WORK: Final = {"author": "user", "content": {"parts": [{"text": "Book it"}]}}
ASKS: Final = {
    "author": "agent",
    "content": {"parts": [{"function_call": {"name": "pay", "id": "c"}}]},
    "long_running_tool_ids": ["c"],
}


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source, which is not indexed yet."""
    return open_source(new_store("sqlite"))


def session(source: str, user: str, name: str, event: dict[str, Any] | None = None, app: str = "booking") -> SessionRef:
    """Makes a session, with an event if one is given."""
    ref = create_session(source, app, user, session_id=name, actor=ALICE)
    if event:
        append_event(ref, {**event, "invocation_id": "i", "timestamp": time.time()}, actor=ALICE)
    return ref


def test_the_sessions_of_a_user_or_an_app_share_its_state(source: str) -> None:
    ref = session(source, "ana", "a1")
    session(source, "ana", "a2")
    session(source, "ben", "b1")
    session(source, "ana", "other", app="support")
    edit_user_state(*ref[:3], [Entry("user:tier", "gold", ABSENT)], actor=ALICE)  # in a session of adkweb's own
    feed(source)
    assert sharing(ref, "user", actor=SYSTEM) == Sharing(sessions=2)
    assert sharing(ref, "app", actor=SYSTEM) == Sharing(sessions=3)
    assert sharing(ref._replace(user_id="nobody"), "user", actor=SYSTEM) == Sharing()


def test_those_that_run_or_wait_now_are_named(source: str) -> None:
    runs, waits = session(source, "ana", "a1", AT_WORK), session(source, "ben", "b1", ASKS)
    session(source, "ana", "a2", {"author": "agent", "content": {"parts": [{"text": "Done"}]}})
    silent = session(source, "ana", "a3", AT_WORK)
    feed(source)
    SearchSession.objects.filter(names__contains=silent.session_id).update(last=time.time() - 10_000)
    told = sharing(runs, "app", actor=SYSTEM)
    assert sorted(told.named, key=lambda each: each.ref) == [Active(runs, "running"), Active(waits, "waiting")]
    assert (told.active, told.others, told.more_active) == (2, 0, False)
    assert sharing(runs, "user", actor=SYSTEM).named == [Active(runs, "running")]


def test_no_more_are_counted_or_named_than_a_form_can_say(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [session(source, "ana", f"s{number}", AT_WORK) for number in range(8)]
    feed(source)
    for name, most in (("MOST", 7), ("MOST_ACTIVE", 6), ("NAMED", 2)):
        monkeypatch.setattr(module, name, most)
    told = sharing(refs[0], "app", actor=SYSTEM)
    assert (told.sessions, told.more) == (7, True)
    assert (len(told.named), told.active, told.others, told.more_active) == (2, 6, 4, True)


def test_it_says_how_much_of_the_source_is_indexed(source: str) -> None:
    ref = session(source, "ana", "a1")
    assert sharing(ref, "app", actor=SYSTEM) == Sharing(share=0.0)
    feed(source)
    assert replace(sharing(ref, "app", actor=SYSTEM), sessions=0) == Sharing(share=1.0)


def test_an_app_that_the_actor_may_not_see_is_not_there(source: str) -> None:
    ref = session(source, "ana", "a1")
    feed(source)
    with pytest.raises(NotFound):
        sharing(ref, "app", actor=Actor.holding("program", "admin", "support*"))
