"""Which turn was the first to read an edit, against a plain look at the events in their order, on both databases."""

import random

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound
from sessions_app.domain.positions import Seq
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import UNKNOWN, Scope
from sessions_app.edits.edit import Entry, overwrite_state
from sessions_app.search import sharing
from sessions_app.search.sharing import FirstRead, Readers
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.people import ALICE
from tests.support.stored import events_of

BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])
KEYS: dict[str, Scope] = {"step": "session", "user:tier": "user", "app:version": "app"}


def sessions(source: str) -> list[SessionRef]:
    """Makes sessions of two users and two apps."""
    names = [("booking", "ana", "a1"), ("booking", "ana", "a2"), ("booking", "ben", "b1"), ("support", "ana", "s1")]
    return [create_session(source, *each[:2], session_id=each[2], actor=ALICE) for each in names]


def say(ref: SessionRef) -> None:
    """Makes a turn: a user's message and an answer."""
    for author in ("user", "agent"):
        append_event(ref, {"author": author, "content": {"parts": [{"text": "Hello"}]}}, actor=ALICE)


def expected(edited: SessionRef, seq: int, scope: Scope, every: list[SessionRef]) -> FirstRead | None:
    """Looks through the events: the first message of a user after an edit, in a session that shares its key."""
    names = {"session": 4, "user": 3, "app": 2}[scope]
    turns = [
        FirstRead(ref, number, Seq(at))
        for ref in every
        if ref[:names] == edited[:names]
        for number, at in enumerate((at for at, event in events_of(ref) if event["author"] == "user"), 1)
        if at > seq
    ]
    return min(turns, key=lambda turn: turn.seq, default=None)


@BOTH
@FORMS
def test_an_edit_is_read_by_the_first_turn_that_begins_after_it_where_its_key_is_shared(own: str, source: str) -> None:
    chance, every, edits = random.Random(3), sessions(source), []
    for _step in range(40):
        ref = chance.choice(every)
        if chance.random() < 0.7:
            say(ref)
        else:
            key = chance.choice(list(KEYS))
            event = overwrite_state(ref, [Entry(key, _step, UNKNOWN)], actor=ALICE).event
            edits.append(
                (ref, next(seq for seq, each in events_of(ref) if each["id"] == event["id"]), event, KEYS[key])
            )
    feed(source, walk=True)
    shared = {"session": None, "user": 2, "app": 3}
    for ref, seq, event, scope in edits:
        told = sharing.readers(ref, Seq(seq), event["timestamp"], scope, actor=SYSTEM)
        of_app = {**shared, "user": 2 if ref[1:3] == ("booking", "ana") else 1, "app": 3 if ref[1] == "booking" else 1}
        assert told == Readers(expected(ref, seq, scope, every), known=True, sessions=of_app[scope])
    assert {scope for *_edit, scope in edits} == {*shared}


def test_what_nobody_can_tell_is_not_known(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = sessions(source)
    event = overwrite_state(every[3], [Entry("app:version", 1, UNKNOWN)], actor=ALICE).event
    before = sharing.readers(every[3], Seq(1), event["timestamp"], "app", actor=SYSTEM)
    assert not before.known  # not indexed yet
    for _turn in range(3):
        say(every[0])
    feed(source, walk=True)
    assert sharing.readers(every[3], Seq(1), event["timestamp"], "app", actor=SYSTEM).known
    monkeypatch.setattr(sharing, "LOOKED_AT", 2)  # more turns of another app have begun since
    assert not sharing.readers(every[3], Seq(1), event["timestamp"], "app", actor=SYSTEM).known
    with pytest.raises(NotFound):
        sharing.readers(every[0], Seq(1), 0.0, "session", actor=Actor.holding("bob", "read", "support"))
