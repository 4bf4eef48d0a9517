"""A database that nobody adopted is read as far as its events tell, and nothing is written to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from pytest_django import Settings

from sessions_app import adopt, changes, moments, online, reads, sources, strip, writes
from sessions_app.keys import SessionKey
from sessions_app.moments import Moment
from sessions_app.state import ABSENT, UNKNOWN
from sessions_app.values import equal

from .fold import ALICE, Fold, histories
from .stored import everything

pytestmark = pytest.mark.django_db(transaction=True)

Unadopted = Callable[[], Any]


@pytest.fixture
def unadopted(source: str, settings: Settings) -> Unadopted:
    """Within it the source is as if nobody had ever adopted it, and opened with `--read-only`."""

    @contextmanager
    def release() -> Iterator[None]:
        online.release(source)
        settings.READ_ONLY = True
        sources._opened.pop(source, None)
        sources.get(source)
        before = everything(source)
        try:
            yield
            assert everything(source) == before
            assert not sources.is_adopted(source)
        finally:
            settings.READ_ONLY = False
            sources._opened.pop(source, None)
            sources.get(source, adopting=True)
        assert adopt.missing(source) == []

    return release


def told_alike(before: Moment, after: Moment) -> None:
    """Of what events wrote the same is told; of what sessions began with at most that it is not known."""
    for name, value in before.state.merged().items():
        other = after.state.get(name)
        if name in before.writers:
            assert other is not UNKNOWN, name
        assert other is UNKNOWN or other is ABSENT or equal(other, value), name
        assert other is not ABSENT or name in before.initial, name
    assert after.writers.keys() == before.writers.keys()
    assert {name: who.event_id for name, who in after.writers.items()} == {
        name: who.event_id for name, who in before.writers.items()
    }


@hypothesis(max_examples=12)
@given(history=histories)
def test_state_at_every_event_is_that_of_the_same_database_adopted(
    source: str, unadopted: Unadopted, history: list[tuple[Any, ...]]
) -> None:
    fold = Fold(source)
    for what, *rest in history:
        if what != "look":
            getattr(fold, what)(*rest)
    asked = [(key, event_id) for key, event_id, _before, _after in fold.seen]
    adopted = [moments.state_at(*each) for each in asked]
    with unadopted():
        for each, before in zip(asked, adopted, strict=True):
            told_alike(before, moments.state_at(*each))


def append(key: SessionKey, delta: dict[str, Any], **more: Any) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}, **more}
    return str(writes.append_event(key, event, actor=ALICE).event["id"])


def test_whatever_only_reads_works(source: str, unadopted: Unadopted) -> None:
    one = writes.create_session(source, "booking", "ana", session_id="one", actor=ALICE)
    two = writes.create_session(source, "booking", "ana", session_id="two", actor=ALICE)
    first = append(one, {"n": 1, "user:tier": "silver"})
    other = append(two, {"user:tier": "gold", "app:limit": 3})
    last = append(one, {"n": 2})
    with unadopted():
        assert moments.state_at(one, first).state.user == {"tier": "silver"}
        then = moments.state_at(one, last).state
        assert (then.app, then.user, then.session) == ({"limit": 3}, {"tier": "gold"}, {"n": 2})
        assert [write.event_id for write in moments.history(one, "user:tier").rows] == [other, first]
        assert [change.key for change in moments.compare(moments.state_at(one, first), moments.state_now(one))] == [
            "app:limit",
            "n",
            "user:tier",
        ]
        bars = strip.bars(one)
        assert [(bar.events, bar.kind) for bar in bars] == [(1, "state"), (1, "state")]
        assert strip.event_at(one, bars[0].first) == first
        assert strip.event_at(one, bars[0].first, 1, writes=True) == last
        assert [view.id for view in reads.newest_events(source, 2)] == [last, other]
        assert moments.state_now(one).writers["n"].event_id == last
        changes.rebuild(source)
        assert moments.state_at(one, last).state == then
