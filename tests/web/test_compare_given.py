"""Two models are compared by what they got just before their runs parted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.agent_view import conversation
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.sessions import create_session
from tests.web.conftest import Browser
from tests.web.html import Element
from tests.web.test_compare_runs import heads, rows

pytestmark = pytest.mark.django_db
Add = Callable[..., str]
Start = Callable[..., SessionRef]
CODE = """from google.adk.agents import Agent

root_agent = Agent(name="booking", instruction="Pay in {currency}, never in cash.")
"""


@pytest.fixture
def agent(folder: Path, new_store: Callable[..., str], open_source: Callable[[str], str]) -> tuple[Path, str]:
    """The folder of an agent, and its database as a source."""
    path = folder / "booking"
    (path / ".adk").mkdir(parents=True)
    os.replace(new_store("sqlite", "made"), path / ".adk" / "session.db")
    return path, open_source(str(path / ".adk" / "session.db"))


@pytest.fixture
def start(agent: tuple[Path, str], actor: Actor, add: Add) -> Start:
    """Makes a session in which Ana asks something and is answered."""

    def make(name: str, currency: str, *said: str, tokens: int | None = None) -> SessionRef:
        ref = create_session(agent[1], "booking", "ana", session_id=name, state={"currency": currency}, actor=actor)
        usage = {"usage_metadata": {"prompt_token_count": tokens}} if tokens else {}
        for number, text in enumerate(said):
            asks = number % 2 == 0
            add(ref, {"text": text}, author="user" if asks else "booking", **({} if asks else usage))
        return ref

    return make


def given(browser: Browser, left: SessionRef, right: SessionRef) -> Element:
    query = {"with": reverse("session", kwargs=right._asdict()), "only": "given"}
    return browser.open("compare", query=query, **left._asdict())


def calls(page: Element) -> list[str]:
    return [each.text for each in page.one("div", "givencalls").all("p")]


def test_instructions_are_compared_as_the_models_got_them(
    agent: tuple[Path, str], start: Start, maria: Browser
) -> None:
    (agent[0] / "agent.py").write_text(CODE)
    good = start("good", "EUR", "Book it", "412 EUR?", tokens=90)
    bad = start("bad", "USD", "Book it", "0 USD?")
    page = given(maria, good, bad)
    assert page.one("nav", "runbar").one("a", "chip", **{"aria-current": "true"}).text == "What the model got"
    instruction = page.one("div", "giveninstruction")
    assert instruction.texts("del") + instruction.texts("ins") == ["EUR", "USD"]
    assert rows(page) == [("user: Book it", "user: Book it")]
    assert "Both models got the same messages." in page.text
    assert [each.text for each in page.one("section", "why").all("a") if "history" in each["href"]] == ["currency"]
    one, other = calls(page)
    assert one == "A What the model got · event 2 · booking · 90 tok"
    assert other.startswith("B What the model got · event 2 · booking · ")
    assert "Book it" in maria.open(page.one("div", "givencalls").all("a")[0]["href"]).text


def test_messages_are_compared_up_to_the_first_answer_behind_the_divergence(start: Start, maria: Browser) -> None:
    good = start("good", "EUR", "Book it", "When?", "Monday", "Done.", "Thanks", "Bye")
    bad = start("bad", "EUR", "Book it", "When?", "Never", "A pity.")
    page = given(maria, good, bad)
    assert heads(page) == ["Turn 1 is the same · 2 events", "Instruction", "Turn 2"] or heads(page)[0].startswith(
        "Turn 1"
    )
    assert rows(page)[-1] == ("user: Monday", "user: Never")
    assert "Sessions don't store the instruction" in page.text
    assert all("What the model got · event 4" in call for call in calls(page))


def test_a_run_that_calls_no_model_any_more_says_so(start: Start, maria: Browser) -> None:
    page = given(maria, start("good", "EUR", "Book it", "Done."), start("bad", "EUR", "Book it"))
    assert calls(page)[1] == "B No model calls after the divergence."
    assert rows(page) == []


def test_runs_that_are_the_same_have_nothing_to_compare(start: Start, maria: Browser) -> None:
    page = given(maria, start("good", "EUR", "Book it", "Done."), start("bad", "EUR", "Book it", "Done."))
    assert page.one("div", "empty").one("h2").text == "No difference"


def test_of_much_only_the_newest_is_compared(start: Start, maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PAGE", 2)
    said: list[Any] = ["Book it", "When?", "Monday", "At noon?", "Yes"]
    page = given(maria, start("good", "EUR", *said, "Done."), start("bad", "EUR", *said, "No."))
    assert "Only the newest part of what the models received is compared." in page.text
    assert rows(page) == [("booking: At noon?",) * 2, ("user: Yes",) * 2]
