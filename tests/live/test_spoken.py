"""What an agent says is pushed as it comes, and nothing that a rule hides is in it, wherever it was split."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import room
from sessions_app.running import runs

CARD, MAIL = "4111 1111 1111 1111", "ana.silva@example.com"


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All texts that one watcher gets."""
    pushed: list[str] = []
    monkeypatch.setattr(room, "push", lambda watchers, message: pushed.append(message["spoken"]["text"]))
    return pushed


def speak(ref: SessionRef, *pieces: str) -> None:
    here: Any = room.Room(ref)
    for piece in pieces:
        runs.hear(ref, {"author": "booking", "partial": True, "content": {"parts": [{"text": piece}]}})
        here.speak()
    runs.spoken.clear()


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
def test_without_such_rules_each_word_is_shown_at_once(heard: list[str]) -> None:
    speak(SessionRef("store", "booking", "ana", "s1"), "I found ", "3 flights.")
    assert heard == ["I found ", "I found 3 flights."]
