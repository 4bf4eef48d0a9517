"""Schemas of keys follow the events, and go with the sessions that said them: on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.access import shown
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain import key_schema
from sessions_app.domain.errors import NotFound
from sessions_app.domain.key_schema import KeySchema
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.models import SearchKey
from sessions_app.search import learning, schemas
from sessions_app.search.index import feed as feeding
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support.masking import Hiding
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source, which may hold any text."""
    return open_source(new_store("sqlite"))


def session(source: str, user: str = "ana", session_id: str = "s1", app: str = "booking") -> SessionRef:
    return create_session(source, app, user, session_id=session_id, actor=ALICE)


def write(ref: SessionRef, author: str = "booking_agent", **delta: Any) -> None:
    """Appends an event that writes keys; `user_tier` is `user:tier`."""
    keys = {key.replace("user_", "user:"): value for key, value in delta.items()}
    append_event(ref, {"author": author, "actions": {"state_delta": keys}}, actor=ALICE)


def of(source: str, key: str, app: str = "booking") -> KeySchema:
    return schemas.schemas(source, app, actor=SYSTEM).keys[key]


def test_what_agents_and_people_write_is_learnt_by_app_and_key(own: str, source: str) -> None:
    ref, other = session(source), session(source, app="support")
    for step in ("pay", "book", "pay"):
        write(ref, step=step, user_tier="gold", n=len(step))
    write(other, step=7)
    edit_state(ref, [Entry("step", 3, "pay")], actor=ALICE)
    feed(source)
    all_of = schemas.schemas(source, "booking", actor=SYSTEM)
    assert [*all_of.keys] == ["n", "step", "user:tier"]
    assert (all_of.more, all_of.share) == (False, 1.0)
    step = all_of.keys["step"]
    assert (step.events, step.types, step.texts) == (4, {"string": 3, "number": 1}, {"pay": 2, "book": 1})
    assert (step.low, step.high, step.agents, step.people) == (3, 3, {"booking_agent": 3}, {"alice": 1})
    assert of(source, "step", "support").types == {"number": 1}
    assert [*schemas.schemas_of(source, "booking", ["n", "nothing", "\0", "temp:x"], actor=SYSTEM)] == ["n"]


def test_what_is_new_is_added_and_what_was_read_is_not_counted_again(own: str, source: str) -> None:
    ref = session(source)
    write(ref, step="pay")
    feeder = feed(source)
    write(ref, step="book")
    feed(source, feeder)
    feed(source, feeder, walk=True)
    feed(source)
    assert (of(source, "step").events, of(source, "step").texts) == (2, {"pay": 1, "book": 1})


def test_a_string_goes_with_the_last_session_of_the_only_user_who_wrote_it(own: str, source: str) -> None:
    ana, also, bo = session(source), session(source, session_id="s2"), session(source, "bo")
    write(ana, mail="ana@example.com", tier="gold")
    write(also, n=1)
    write(bo, tier="gold", mail="bo@example.com")
    feeder = feed(source)
    delete_session(ana, actor=ALICE)
    feed(source, feeder, walk=True)
    assert {*of(source, "mail").texts} == {"ana@example.com", "bo@example.com"}, "ana has another session"
    delete_session(also, actor=ALICE)
    feed(source, feeder, walk=True)
    assert (of(source, "mail").texts, of(source, "tier").texts) == ({"bo@example.com": 1}, {"gold": 2})
    delete_session(bo, actor=ALICE)
    feed(source, feeder, walk=True)
    assert not SearchKey.objects.exists(), "the app has no session left"


def test_of_a_secret_only_types_are_learnt(own: str, source: str) -> None:
    ref = session(source)
    write(ref, api_key="123456", db_password=7, note="ok")
    write(ref, note="AKIA" + "IOSFODNN7EXAMPLE")
    feeder = feed(source)
    write(ref, note="ok", api_key="654321", db_password=9)
    feed(source, feeder)
    for key, kind in {"api_key": "string", "db_password": "number", "note": "string"}.items():
        schema = of(source, key)
        assert (schema.hidden, schema.texts, schema.low) == (True, {}, None), key
        assert schema.types.keys() == {kind}
    kept = "".join(SearchKey.objects.values_list("learnt", flat=True))
    assert not any(secret in kept for secret in ("123456", "654321", "AKIA", "7", "9"))


def test_values_that_an_actor_may_not_see_are_not_told(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(session(source), user_card="4111", n=1)
    feed(source)
    dots = lambda values: {key: "•••" if key == "user:card" else value for key, value in values.items()}  # noqa: E731
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(dots))
    keys = schemas.schemas(source, "booking", actor=ALICE).keys
    assert (keys["user:card"].hidden, keys["user:card"].texts, keys["n"].low) == (True, {}, 1)
    assert of(source, "user:card").texts == {"4111": 1}
    with pytest.raises(NotFound):
        schemas.schemas(source, "booking", actor=Actor.holding("bob", "admin", "support"))


def test_an_app_has_a_limit_and_a_key_beyond_it_is_not_learnt(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MOST_KEYS", 3)
    monkeypatch.setattr(schemas, "MOST_KEYS", 3)
    ref = session(source)
    write(ref, a=1, b=1)
    feeder = feed(source)
    assert not schemas.schemas(source, "booking", actor=SYSTEM).more
    write(ref, b=2, c=1, d=1, e=1)
    feed(source, feeder)
    learnt = schemas.schemas(source, "booking", actor=SYSTEM)
    assert ([*learnt.keys], learnt.more) == (["a", "b", "c"], True)
    assert learnt.keys["b"].events == 2


def test_many_keys_of_one_event_are_learnt_in_one_go(own: str, source: str) -> None:
    ref = session(source)
    for value in range(2):
        write(ref, **{f"key{number}": value for number in range(1_200)})
    feed(source)
    learnt = schemas.schemas(source, "booking", actor=SYSTEM)
    assert len(learnt.keys) == 1_200
    assert {(each.low, each.high) for each in learnt.keys.values()} == {(0, 1)}


def test_an_index_of_before_is_read_anew_and_learns(own: str, source: str) -> None:
    write(session(source), step="pay")
    feed(source)
    SearchKey.objects.update(learnt='{"events": 70}')
    feeding.rebuild(source)
    assert of(source, "step").events == 1
    feeding.clear(registry.identity(source))
    assert not SearchKey.objects.exists()


def test_whatever_a_source_holds_is_stored(own: str, source: str) -> None:
    ref = session(source)
    delta = {"nan": float("nan"), "big": 10**300, "text": "한국 𝄞", "list": [1], "half": 1.5, "null": None}
    append_event(
        ref, {"author": "a", "actions": {"state_delta": {k: v for k, v in delta.items() if v == v}}}, actor=ALICE
    )
    feed(source)
    assert of(source, "text").texts == {"한국 𝄞": 1}
    assert of(source, "big").high == 1e300
    assert key_schema.from_text(key_schema.to_text(of(source, "half"))) == of(source, "half")
