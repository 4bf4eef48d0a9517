"""What an agent says is pushed as it comes, and nothing that a rule hides is in it, wherever it was split."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.positions import Seq
from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import room
from sessions_app.running import runs
from sessions_app.web.session.updates import Filter

CARD, MAIL = "4111 1111 1111 1111", "ana.silva@example.com"


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All texts that one watcher has, one after the other, put together as its page does it."""
    had: list[str] = []

    def push(watchers: list[Any], message: dict[str, Any]) -> None:
        assert watchers == ["page"]
        before = (had[-1] if had else "").encode("utf-16-le")[: 2 * message["spoken"]["from"]]
        had.append(before.decode("utf-16-le") + message["spoken"]["more"])

    monkeypatch.setattr(room, "push", push)
    monkeypatch.setattr(room.Room, "_may_watch", lambda self, seats: dict.fromkeys(seats))
    monkeypatch.setattr(runs, "TELL_SECONDS", 0)
    return had


def speak(ref: SessionRef, *pieces: str, others: str = "") -> None:
    """Says these, and in between what `others` say."""
    here: Any = room.Room(ref)
    watcher: Any = "page"
    here.seats.append(room.Seat(watcher, Filter(), Seq(0)))
    for piece in pieces:
        for author, text in [("booking", piece)] + [("other", others)] * bool(others):
            runs.hear(ref, {"author": author, "partial": True, "content": {"parts": [{"text": text}]}})
            here.speak()
        runs.hear(ref, {"author": "third"})  # is stored
    runs.be_silent(ref)


@pytest.mark.guarantee("Safety", "What an agent says is masked as it comes, wherever its words are split.")
@pytest.mark.parametrize("secret", [CARD, MAIL])
@pytest.mark.usefixtures("own")
def test_a_secret_that_comes_in_two_pieces_is_never_shown(heard: list[str], secret: str) -> None:
    for form in ("card", "email"):
        mask_rules.create("*", "form", form, actor=SYSTEM)
    text = f"Your number is {secret}, and here is the rest of the sentence, which is long enough to be sure of it."
    ref = SessionRef("store", "booking", "ana", "s1")
    for at in range(len(text)):
        speak(ref, text[:at], text[at:])
    assert any("Your number is ••••" in each for each in heard)
    start = len("Your number is ")
    assert {each[start : start + 4] for each in heard if len(each) > start} <= {"•", "••", "•••", "••••"}


@pytest.mark.usefixtures("own")
def test_a_secret_is_hidden_while_another_agent_speaks_at_the_same_time(heard: list[str]) -> None:
    mask_rules.create("*", "form", "card", actor=SYSTEM)
    text = f"Your number is {CARD}, and here is the rest of the sentence, which is long enough to be sure of it."
    for at in range(len(text)):
        speak(SessionRef("store", "booking", "ana", "s1"), text[:at], text[at:], others="Hello.")
    assert any("Your number is ••••" in each for each in heard)
    assert not [each for each in heard if re.search(r"\d", each)]


@pytest.mark.usefixtures("own")
def test_while_adkweb_s_own_database_is_away_no_one_hears_it_and_nothing_fails(
    heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(here: room.Room, seats: list[Any]) -> Any:
        raise OperationalError("no connection")

    monkeypatch.setattr(room.Room, "_may_watch", away)
    speak(SessionRef("store", "booking", "ana", "s1"), "Hello")
    assert heard == []


@pytest.mark.parametrize("content", [[], "text", {"parts": {"text": "x"}}, {"parts": ["x", None, 3]}, {"parts": "x"}])
def test_what_is_not_text_is_not_said(content: Any, heard: list[str]) -> None:
    ref = SessionRef("store", "booking", "ana", "s1")
    runs.hear(ref, {"author": ["x"], "branch": {}, "partial": True, "content": content})
    assert ref not in runs.spoken


def test_an_agent_that_never_ends_does_not_fill_the_memory() -> None:
    ref = SessionRef("store", "booking", "ana", "s1")
    for number in range(30):
        part = {"text": "x" * 100_000}
        runs.hear(ref, {"author": f"{number % 2}", "partial": True, "content": {"parts": [part]}})
    assert len(runs.spoken[ref].text) == 500_000
    runs.be_silent(ref)


@pytest.mark.usefixtures("own")
def test_without_such_rules_each_word_is_shown_at_once(heard: list[str]) -> None:
    speak(SessionRef("store", "booking", "ana", "s1"), "I found \U0001f6eb ", "3 flights.")
    assert heard == ["I found \U0001f6eb ", "I found \U0001f6eb 3 flights."]


@pytest.mark.usefixtures("own")
def test_another_process_is_told_too_and_only_processes_with_the_key_can_read_it(
    heard: list[str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    told: list[str] = []
    ref = SessionRef("store", "booking", "ana", "s1")
    settings.REDIS_URL = "redis://localhost"
    monkeypatch.setattr(runs.broadcast, "tell", lambda what, ref, said: told.append(said))
    runs.hear(ref, {"author": "booking", "partial": True, "content": {"parts": [{"text": "Hello"}]}})
    runs.be_silent(ref)
    watcher: Any = "page"
    here: Any = room.Room(ref)
    here.seats.append(room.Seat(watcher, Filter(), Seq(0)))
    here.speak(told[0])
    assert heard == ["Hello"]
    assert "Hello" not in told[0]
    settings.SECRET_KEY = "another"
    here.speak(told[0])
    assert heard == ["Hello"]


@pytest.mark.usefixtures("own")
def test_only_what_is_new_is_sent(monkeypatch: pytest.MonkeyPatch, heard: list[str]) -> None:
    sent: list[str] = []
    monkeypatch.setattr(room, "push", lambda watchers, message: sent.append(message["spoken"]["more"]))
    speak(SessionRef("store", "booking", "ana", "s1"), *["word "] * 1_000)
    assert sent == ["word "] * 1_000
    assert not heard


def test_telling_takes_a_tenth_of_the_time_and_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = SessionRef("store", "booking", "ana", "s1")
    clock, told = [0.0], []

    def tell(what: str, ref: SessionRef) -> None:
        told.append(runs.spoken[ref].text)
        clock[0] += 1

    monkeypatch.setattr(runs.broadcast, "tell", tell)
    monkeypatch.setattr(runs.time, "monotonic", lambda: clock[0])
    for _ in range(100):
        runs.hear(ref, {"author": "booking", "partial": True, "content": {"parts": [{"text": "."}]}})
        clock[0] += 1
    runs.be_silent(ref)
    assert clock[0] / len(told) > 9
    assert told[0] == "."
