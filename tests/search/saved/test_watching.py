"""Watched views: what is news to whom. On both databases, with the feeder that really writes the index."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from sessions_app.domain.errors import Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import SearchSession, SearchSource
from sessions_app.search.index import feed as feeding
from sessions_app.search.index.feed import Feeder
from sessions_app.search.index.tables import Keeper
from sessions_app.search.saved import match_watcher, views, watching
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.search.saved.watching import ViewNews
from sessions_app.search.sql import rows
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed, ids
from tests.support.people import ALICE, an_admin, somebody

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
NOW: Final = time.time()


def person(name: str = "maria") -> Any:
    """Returns somebody's account."""
    return an_admin(name)


def watched(query: str, by: str = "maria", **fields: Any) -> SavedView:
    """Saves a view and watches it."""
    given = {"name": query or "all", "query": query, "sort": "", "columns": "", "shared": True}
    view = views.save(person(by), **{**given, **fields})
    view.watch(person(by), "Asia/Seoul")
    return view


def news(by: str = "maria") -> dict[str, int]:
    """Returns what is news to somebody, by the names of their views."""
    return {each.view.name: each.news for each in ViewWatch.objects.listed(person(by))}


def say(ref: SessionRef, text: str, at: float = 0.0, **event: Any) -> None:
    """Lets a user say something."""
    content = {"role": "user", "parts": [{"text": text}]}
    given = {"author": "user", "invocation_id": text, "content": content, "timestamp": at or time.time()}
    append_event(ref, {**given, **event}, actor=ALICE)


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty source that is indexed and watched."""
    alias = open_source(new_store("sqlite"))
    feed(alias)
    return alias


@pytest.fixture
def feeder(source: str) -> Feeder:
    """The feeder of the source, which notices what begins to match."""
    return Feeder(source, match_watcher.noticing)


def session(source: str, name: str, app: str = "booking") -> SessionRef:
    """Makes a session."""
    return create_session(source, app, "ana", session_id=name, actor=ALICE)


# --- What begins to match ---------------------------------------------------------------------------------------------


def test_a_session_is_news_once_when_it_begins_to_match_and_again_after_it_did_not(source: str, feeder: Feeder) -> None:
    ref = session(source, "s1")
    watched("step = pay")
    for step, expected in (("book", 0), ("pay", 1), ("pay", 1), ("done", 1), ("pay", 1)):
        append_event(ref, {"author": "a", "actions": {"state_delta": {"step": step}}}, actor=ALICE)
        feed(source, feeder)
        assert news() == {"step = pay": expected}, step
    (watch,) = ViewWatch.objects.listed(person())
    watching.looked(watch.view, person())
    assert news() == {"step = pay": 0}
    for step in ("done", "pay"):
        append_event(ref, {"author": "a", "actions": {"state_delta": {"step": step}}}, actor=ALICE)
        feed(source, feeder)
    assert news() == {"step = pay": 1}


def test_what_matches_at_the_start_and_what_an_index_made_anew_comes_to_is_no_news(source: str, feeder: Feeder) -> None:
    for number in range(5):
        say(session(source, f"s{number}"), "hello")
    feed(source, feeder, walk=True)
    watched("hello")
    feed(source, feeder, walk=True)
    assert news() == {"hello": 0}
    feeding.clear(SearchSource.objects.get().where)
    feed(source, feeder)
    assert (news(), SearchSession.objects.count()) == ({"hello": 0}, 5)
    say(session(source, "new"), "hello")
    feed(source, feeder)
    assert news() == {"hello": 1}


def test_words_filters_and_all_sessions_can_be_watched_together(source: str, feeder: Feeder) -> None:
    for query in ("expired", "error:any", "-user:ana", "", "turns:>1"):
        watched(query)
    ref = session(source, "s1")
    say(ref, "the fare expired")
    feed(source, feeder)
    assert news() == {"expired": 1, "error:any": 0, "-user:ana": 0, "all": 1, "turns:>1": 0}
    say(ref, "again", error_code="TIMEOUT", error_message="late")
    feed(source, feeder)
    assert news() == {"expired": 1, "error:any": 1, "-user:ana": 0, "all": 1, "turns:>1": 1}


def test_a_session_that_falls_silent_is_news_although_nothing_is_written(
    source: str, feeder: Feeder, settings: Settings
) -> None:
    watched("status:stuck")
    ref = session(source, "s1")
    call = {"function_call": {"id": "c", "name": "book", "args": {}}}
    append_event(ref, {"author": "a", "invocation_id": "i", "content": {"role": "model", "parts": [call]}}, actor=ALICE)
    feed(source, feeder)
    number = SearchSource.objects.get().pk
    for _look in range(2):
        match_watcher.notice_time(number)
        assert news() == {"status:stuck": 0}
    settings.SILENCE_SECONDS = 0
    match_watcher.notice_time(number)
    assert news() == {"status:stuck": 0}, "it was silent for as long at the last look"
    settings.SILENCE_SECONDS = 300
    SearchSource.objects.update(looked=time.time() - 10)
    SearchSession.objects.update(last=time.time() - 305)
    for _look in range(2):
        match_watcher.notice_time(number)
        assert news() == {"status:stuck": 1}


def test_a_session_is_news_when_a_call_has_waited_as_long_as_a_query_says(
    source: str, feeder: Feeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = ("waiting:>2h", "-waiting:<2h waits:any", "waiting:1h..2h", "waiting:>3h")
    for query in queries:
        watched(query)
    call = {"function_call": {"id": "c", "name": "book", "args": {}}}
    event = {"author": "a", "content": {"role": "model", "parts": [call]}, "long_running_tool_ids": ["c"]}
    append_event(session(source, "s1"), {**event, "timestamp": NOW}, actor=ALICE)
    say(session(source, "quiet"), "hello", NOW)
    feed(source, feeder)
    number = SearchSource.objects.get().pk
    for hours, expected in ((0.5, "0 0 0 0"), (0.9, "0 0 0 0"), (1.1, "0 0 1 0"), (2.1, "1 1 1 0"), (2.2, "1 1 1 0")):
        monkeypatch.setattr(time, "time", lambda: NOW + hours * 3600)  # noqa: B023
        match_watcher.notice_time(number)
        assert news() == dict(zip(queries, map(int, expected.split()), strict=True)), hours


def test_what_was_not_stored_is_no_news(source: str, feeder: Feeder, monkeypatch: pytest.MonkeyPatch) -> None:
    watched("hello")
    say(session(source, "s1"), "hello")
    keep = Keeper.keep

    def broken(self: Keeper, *given: Any) -> None:
        keep(self, *given)
        raise RuntimeError("the process dies")

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "keep", broken)
        with pytest.raises(RuntimeError):
            feed(source, feeder)
    assert news() == {"hello": 0}
    feed(source, feeder)
    assert news() == {"hello": 1}


# --- Whom it is told --------------------------------------------------------------------------------------------------


def test_nobody_is_told_of_what_they_may_not_see(source: str, feeder: Feeder) -> None:
    watched("hello")
    bob = somebody("bob", "admin", "weather")
    own = views.save(bob, name="his", query="hello", sort="", columns="", shared=False)
    own.watch(bob, "UTC")
    say(session(source, "s1"), "hello")
    say(session(source, "s2", "weather"), "hello")
    feed(source, feeder)
    assert (news(), [each.news for each in ViewWatch.objects.listed(bob)]) == ({"hello": 2}, [1])
    told = [
        (each.watch.person.username, each.ref.session_id)
        for each in watching.news_between(0, watching.newest(), ["maria", "bob", "carol"])
    ]
    assert sorted(told) == [("bob", "s2"), ("maria", "s1"), ("maria", "s2")]
    somebody("bob", "admin", "other")
    assert list(watching.news_between(0, watching.newest(), ["bob"])) == []


def test_each_person_looks_for_themselves_and_news_ends_with_the_watch(source: str, feeder: Feeder) -> None:
    view = watched("hello")
    view.watch(person("bob"), "UTC")
    say(session(source, "s1"), "hello")
    feed(source, feeder)
    watching.looked(view, person("bob"))
    assert (news(), news("bob")) == ({"hello": 1}, {"hello": 0})
    assert watching.counts(["maria", "bob", "x"]) == {"maria": {str(view.id): 1}, "bob": {str(view.id): 0}, "x": {}}
    ViewWatch.objects.end(view.id, person())
    assert (news(), ViewNews.objects.count()) == ({}, 0)


def test_news_and_watches_are_bounded(source: str, feeder: Feeder) -> None:
    watched("hello")
    for number in range(watching.NEWS + 20):
        say(session(source, f"s{number}"), "hello")
    feed(source, feeder)
    assert news() == {"hello": watching.NEWS}
    for number in range(views.MOST_WATCHED - 1):
        watched(f"w{number}")
    extra = views.save(person(), name="extra", query="x", sort="", columns="", shared=False)
    long = views.save(person("bob"), name="long", query=" ".join(["x"] * 21), sort="", columns="", shared=False)
    with pytest.raises(Invalid, match="up to 20 conditions"):
        long.watch(person("bob"), "UTC")
    with pytest.raises(Invalid, match="up to 20 views"):
        extra.watch(person(), "UTC")
    with CaptureQueriesContext(connection) as asked:
        say(session(source, "one"), "nothing")
        feed(source, feeder)
    assert len(asked) < 60 + 4 * views.MOST_WATCHED


def test_what_is_not_there_or_not_allowed_is_not_watched(own: str, settings: Settings) -> None:
    view = views.save(person("bob"), name="Bob’s", query="x", sort="", columns="", shared=False)
    with pytest.raises(NotFound):
        SavedView.objects.of(view.id, person())
    settings.READ_ONLY = True
    for verb in (
        lambda: view.watch(person("bob"), "UTC"),
        lambda: ViewWatch.objects.end(view.id, person("bob")),
    ):
        with pytest.raises(NotAllowed):
            verb()


def test_a_view_that_is_no_longer_shared_is_watched_by_its_person_alone(own: str) -> None:
    view = watched("hello")
    view.watch(person("bob"), "UTC")
    SavedView.objects.of(view.id, person()).change(by=person(), shared=False)
    assert (news(), news("bob")) == ({"hello": 0}, {})


def test_a_word_that_is_new_to_the_index_is_noticed_in_the_middle_of_another(source: str, feeder: Feeder) -> None:
    watched("fare")
    say(session(source, "s1"), "nothing of it")
    feed(source, feeder)
    assert news() == {"fare": 0}
    say(session(source, "s2"), "two airfares")
    feed(source, feeder)
    assert news() == {"fare": 1}


def test_queries_that_take_too_long_are_asked_in_turns(
    source: str, feeder: Feeder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for query in ("hello", "hello or x", "hello or y"):
        watched(query)
    monkeypatch.setattr(match_watcher, "SECONDS", 0.0)
    for number in range(3):
        say(session(source, f"s{number}"), "hello")
        feed(source, feeder)
    assert list(news().values()) == [1, 1, 1]
    assert "watched queries take too long: 2 of 3" in caplog.text


def test_a_query_that_the_database_refuses_does_not_stop_the_index(
    source: str, feeder: Feeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched("hello")

    def refused(numbers: Any, *_given: Any, **_named: Any) -> set[int]:
        if numbers:
            rows("SELECT no_such_column FROM sessions_app_searchsession", [])
        return set()

    with monkeypatch.context() as patch:
        patch.setattr(match_watcher, "among", refused)
        say(session(source, "s1"), "hello")
        feed(source, feeder)
    assert ids("hello") == ["s1"]
    say(session(source, "s2"), "hello")
    feed(source, feeder)
    assert news() == {"hello": 1}
