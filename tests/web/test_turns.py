"""The timeline's turns: where they begin, what their headings say, also on a page that begins within one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.search import outline
from tests.search.finding import feed
from tests.support.stored import as_they_happened
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def heads(page: Element) -> list[str]:
    return [head.text for head in page.all("li", "turn")]


def in_order(page: Element) -> list[str]:
    """The headings and the events of a timeline, by their ids."""
    return [row["id"] for row in page.all("li") if row.attributes.get("id", "").startswith(("turn-", "inv-", "event-"))]


@pytest.fixture
def two_turns(ref: SessionRef, add: Add) -> SessionRef:
    """A session with two turns. The second one fails, and is answered by a person in between."""
    used = {"prompt_token_count": 900, "candidates_token_count": 100, "total_token_count": 1000}
    add(ref, {"text": "Hello"}, id="e1", author="user", timestamp=1000.0)
    add(ref, {"text": "Hi"}, id="e2", timestamp=1002.0, usage_metadata=used, model_version="gemini-a")
    add(ref, {"text": "Pay"}, id="e3", author="user", invocation_id="i2", timestamp=1010.0)
    call, answer = ({f"function_{what}": {"name": "pay", "id": "c"}} for what in ("call", "response"))
    add(ref, call, id="e4", invocation_id="i2", timestamp=1011.0, long_running_tool_ids=["c"])
    add(ref, answer, id="e5", author="user", invocation_id="i3", timestamp=1060.0)
    add(
        *(ref, {"text": "Declined"}),
        id="e6",
        invocation_id="i3",
        timestamp=1063.0,
        error_code="402",
        actions={"state_delta": {"step": "pay", "n": 1}},
    )
    as_they_happened(ref.source)
    return ref


@pytest.mark.parametrize("indexed", [True, False])
def test_a_turn_says_what_it_took_and_an_answer_to_a_call_begins_none(
    two_turns: SessionRef, maria: Browser, settings: Settings, indexed: bool
) -> None:
    settings.PRICES = {"gemini-a": (1.0, 10.0)}
    if indexed:
        feed(two_turns.source)
    page = maria.open("session", **two_turns._asdict())
    assert heads(page) == [
        "Turn 1 1 Jan 1970, 00:16:40 2.0 s 1.0k tok ≈ $0.0019",
        "Turn 2 1 Jan 1970, 00:16:50 4.0 s failed 2 keys changed",
    ]
    assert in_order(page) == [
        *("turn-1", "event-e1", "event-e2"),
        *("turn-2", "event-e3", "event-e4", "inv-e5", "event-e5", "event-e6"),
    ]


def test_a_filter_leaves_the_headings_of_the_turns_that_have_its_events(two_turns: SessionRef, maria: Browser) -> None:
    page = maria.open("session", query={"kind": "errors"}, **two_turns._asdict())
    assert heads(page) == ["Turn 2 1 Jan 1970, 00:16:50 4.0 s failed"]


def test_a_page_that_begins_within_a_turn_says_so_and_counts_nothing_that_it_does_not_show(
    two_turns: SessionRef, maria: Browser, add: Add
) -> None:
    for number in range(7, 57):
        add(two_turns, {"text": "…"}, id=f"e{number}", invocation_id="i3", timestamp=1063.0)
    as_they_happened(two_turns.source)
    feed(two_turns.source)
    page = maria.open("session", **two_turns._asdict())
    assert heads(page) == ["Turn 2 1 Jan 1970, 00:16:50 4.0 s failed"]
    earlier = maria.open(page.links()["Earlier events"], htmx=True)
    assert [row for row in in_order(earlier) if row.startswith("turn-")] == ["turn-1", "turn-2"]


def test_the_session_says_how_many_turns_it_has_and_what_they_cost(
    two_turns: SessionRef, maria: Browser, settings: Settings
) -> None:
    settings.PRICES = {"gemini-a": (1.0, 10.0)}
    feed(two_turns.source)
    numbers = maria.open("stats", **two_turns._asdict()).text
    assert numbers.startswith("2 turns 6 events 1.0k tokens ≈ $0.0019")


@pytest.mark.parametrize("indexed", [True, False])
def test_a_link_leads_to_a_turn(two_turns: SessionRef, maria: Browser, indexed: bool) -> None:
    if indexed:
        feed(two_turns.source)
    address = reverse("session", kwargs=two_turns._asdict())
    assert f"{address}?turn=2" in [link["href"] for link in maria.open("session", **two_turns._asdict()).all("a")]
    for turn, event in ((1, "e1"), (2, "e3")):
        answer = maria.get(f"{address}?turn={turn}")
        assert (answer.status_code, answer["Location"]) == (302, f"{address}?at={event}")
    for wrong, status in (("3", 404), ("0", 404), ("-1", 404), ("x", 400), ("9" * 30, 404)):
        assert maria.get(f"{address}?turn={wrong}").status_code == status


def test_a_session_is_read_in_each_density_by_a_click_or_a_key(two_turns: SessionRef, maria: Browser) -> None:
    page = reverse("session", kwargs=two_turns._asdict())
    keys = {"1": "chat", "2": "events", "3": "trace"}
    for density in ("trace", "chat", "events"):
        links = maria.open(f"{page}?density={density}").one("nav", data_densities="").all("a")
        assert {link["data-key"]: link["href"] for link in links} == {k: f"{page}?density={d}" for k, d in keys.items()}
        for address in (page, f"{page}?density={density}"):  # as it was last in this browser
            links = maria.open(address).one("nav", data_densities="").all("a")
            assert [keys[link["data-key"]] for link in links if "aria-current" in link] == [density]
    assert maria.open(f"{page}?density=huge").all("span", "seq")


@pytest.mark.parametrize("density", ["chat", "trace"])
def test_the_addresses_that_chat_and_trace_had_lead_to_them(
    two_turns: SessionRef, maria: Browser, density: str
) -> None:
    page = reverse("session", kwargs=two_turns._asdict())
    assert maria.get(reverse(density, kwargs=two_turns._asdict()))["Location"] == f"{page}?density={density}"


def test_events_before_the_first_message_have_no_turn(ref: SessionRef, maria: Browser, add: Add, actor: Actor) -> None:
    add(ref, {"text": "Welcome"}, id="e1")
    edit_state(ref, [Entry("step", ABSENT, "choose")], actor=actor)
    add(ref, {"text": "Hello"}, id="e2", author="user", invocation_id="i2")
    rows = in_order(maria.open("session", **ref._asdict()))
    assert [row for row in rows if row.startswith("turn")] == ["turn-1"]
    assert rows[:2] == ["inv-e1", "event-e1"]
    assert rows[-2:] == ["turn-1", "event-e2"]


def test_a_turn_has_no_number_rather_than_a_wrong_one(
    two_turns: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "UNREAD", 3)
    page = maria.open("session", **two_turns._asdict())
    assert heads(page) == ["Turn 1 Jan 1970, 00:16:40 2.0 s", "Turn 1 Jan 1970, 00:16:50 53 s failed 2 keys changed"]
    feed(two_turns.source)
    assert heads(maria.open("session", **two_turns._asdict()))[0].startswith("Turn 1 ")
