"""The socket that tells people which sessions began to match: at once, to those who watch, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth import get_user_model

from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import feed
from sessions_app.live.feed import WatchFeed
from sessions_app.models import SearchSource
from sessions_app.search.saved import views, watching
from sessions_app.search.saved.views import SavedView
from tests.live.conftest import Stage
from tests.live.pages import Own, Page, sign_in
from tests.live.test_access import by_signing_out
from tests.support.at_work import until

WATCHING = "/live/watching/"


def watched(stage: Stage, query: str, by: str) -> SavedView:
    """Saves a view and watches it."""
    with Own(stage.server):
        walked = SearchSource.objects.filter(walks__gt=0)
        until(lambda: walked.count() > len(stage.places), "the index is whole: what it begins with is no news")
        person = get_user_model().objects.get(username=by)
        view = views.save(person, name=query, query=query, sort="", columns="", shared=True)
        view.watch(person, "UTC")
    return view


def begun(page: Page) -> list[tuple[str, str]]:
    """What a page was told, view by view."""
    return [(each["view"], each["title"]) for message in page.messages for each in message["begun"]]


def counts(page: Page) -> Any:
    """The counts that a page was told last."""
    return page.messages[-1]["counts"] if page.messages else None


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_who_watches_is_told_at_once_and_others_are_not(stage: Stage, form: str) -> None:
    word = f"watchword{form}"
    other = sign_in(stage.server, "nora")
    view = watched(stage, word, "maria")
    hers, another = stage.page(WATCHING, after=None), stage.page(WATCHING, other, after=None)
    hers.until(lambda page: (counts(page) or {}).get(str(view.id)) == 0, "the count")
    ref = stage.new_session(form)
    stage.append(ref, f"the {word} is said")
    hers.until(lambda page: begun(page), "the news")
    assert begun(hers) == [(word, ref.session_id)]
    assert counts(hers)[str(view.id)] == 1
    another.read(1.0)
    assert begun(another) == []
    with Own(stage.server):
        watching.looked(view, get_user_model().objects.get(username="maria"))
    hers.until(lambda page: counts(page)[str(view.id)] == 0, "the count is gone on every page")


@pytest.mark.guarantee("Live pages", "If you remove someone's access, they don't receive any more events.")
def test_who_signs_out_is_told_nothing_more(stage: Stage) -> None:
    who = sign_in(stage.server, "olga")
    watched(stage, "nothing", "olga")
    page = stage.page(WATCHING, who, after=None)
    page.until(lambda page: page.messages, "the counts")
    by_signing_out(stage, who)
    assert page.until_end()[0] == 4401
    assert until(lambda: stage.page(WATCHING, who, after=None).until_end()[0] == 4401, "nobody comes in")


def test_who_joins_while_others_are_served_is_served_the_next_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: dict[str, int] = {}
    first, second = (Mock(sign_in=name, closed=False) for name in ("maria", "nora"))
    first.name, second.name = "maria", "nora"
    news = WatchFeed()

    def news_between(_after: int, _upto: int, names: set[str]) -> list[Any]:
        if names == {"maria"} and len(told) == 0:
            news.enter(second)
        return []

    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(feed.masking, "digest", lambda: "the same")
    monkeypatch.setattr(watching, "newest", lambda: 0)
    monkeypatch.setattr(watching, "news_between", news_between)
    monkeypatch.setattr(watching, "counts", lambda names: {name: {"view": 1} for name in names})
    monkeypatch.setattr(feed.sign_in, "signed_in", lambda sign_ins: sign_ins)
    monkeypatch.setattr(feed, "push", lambda watchers, _message: told.update({watchers[0].name: 1}))
    news.enter(first)
    news.start()
    try:
        until(lambda: told == {"maria": 1, "nora": 1}, "both are told")
    finally:
        news.leave(first)
        news.leave(second)
        news.join(10)
    assert caplog.text == ""  # nothing went wrong meanwhile


@pytest.mark.django_db
def test_news_that_arrives_while_others_is_read_is_told_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    news = WatchFeed()
    maria = Mock(sign_in="maria", closed=False)
    maria.name = "maria"
    there: list[int] = []
    told: list[int] = []

    watch = Mock(**{"person.get_username.return_value": "maria"})

    def news_between(after: int, upto: int, _names: set[str]) -> Iterator[Any]:
        yield from [
            Mock(pk=number, watch=watch, ref=SessionRef("demo", "booking", "ana", str(number)))
            for number in there
            if after < number <= upto
        ]
        there.append(len(there) + 1)

    monkeypatch.setattr(watching, "newest", lambda: len(there))
    monkeypatch.setattr(watching, "news_between", news_between)
    monkeypatch.setattr(watching, "counts", lambda names: {name: {"view": len(there)} for name in names})
    monkeypatch.setattr(feed.sign_in, "signed_in", lambda sign_ins: sign_ins)
    monkeypatch.setattr(feed, "push", lambda _to, message: told.extend(each["number"] for each in message["begun"]))
    news.enter(maria)
    for _ in range(4):
        news.serve()
    assert told == [1, 2, 3]
