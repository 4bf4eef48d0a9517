"""Two moments beside each other: what differs, by scope, and the delta that makes the first into the second."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import moments
from sessions_app.reads import timeline
from sessions_app.web.compare import state as compare_state
from sessions_app.writes.sessions import create_session
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
Add = Callable[..., str]


def compared(browser: Browser, ref: SessionRef, a: str, b: str = "now", **more: Any) -> Element:
    query = {"a": a, "b": b, **more.pop("query", {})}
    return browser.open("compare", query=query, **ref._asdict(), **more)


def told(page: Element) -> dict[str, str]:
    """What differs, by key, in the page's words."""
    return {
        row["data-key-row"]: row.one("div", "change").text
        for each in page.all("ul", "comparison")
        for row in each.all("li")
        if "data-key-row" in row
    }


def counts(page: Element) -> list[str]:
    return page.texts("h2", "scope")


def delta_of(page: Element) -> Any:
    return json.loads(page.one("pre", id="delta").raw)


@pytest.fixture
def anywhere(source: str, actor: Actor) -> SessionRef:
    """A session on each kind of database."""
    state = {"step": "choose", "count": 3, "nothing": None, "user:tier": "gold", "app:limit": 10}
    return create_session(source, "booking", "ana", session_id="s1", state=state, actor=actor)


@pytest.fixture
def two(anywhere: SessionRef, add: Add, actor: Actor) -> tuple[str, str]:
    """Two events of it, between which keys of all scopes were added, changed and removed."""
    first = add(anywhere, author="user")
    add(anywhere, actions={"state_delta": {"step": "pay", "new": {"a": [1]}, "user:tier": "silver", "app:more": True}})
    edit_state(anywhere, [Entry("count", ABSENT, 3)], actor=actor)
    return first, add(anywhere, author="user")


# --- What differs -----------------------------------------------------------------------------------------------------


def test_what_was_added_changed_and_removed_stands_by_scope(
    anywhere: SessionRef, two: tuple[str, str], maria: Browser
) -> None:
    page = compared(maria, anywhere, *two)
    assert counts(page) == ["Session 1 added1 changed1 removed", "User 1 changed", "App 1 added"]
    assert told(page) == {
        "app:more": "newtrue",
        "user:tier": '"gold"→"silver"',
        "count": "3removed",
        "new": "new{a: [1]}a[1] [1]01",
        "step": '"choose"→"pay"',
    }


def test_the_delta_makes_the_first_state_into_the_second(
    anywhere: SessionRef, two: tuple[str, str], maria: Browser
) -> None:
    page = compared(maria, anywhere, *two)
    delta = {"app:more": True, "user:tier": "silver", "count": None, "new": {"a": [1]}, "step": "pay"}
    assert delta_of(page) == delta
    assert page.one("button", data_copy_from="#delta").text == "Copy as state delta"
    said = page.one("section", "asdelta")
    assert "An ADK state delta can't remove a key" in said.text
    assert said.texts("span", "name") == ["count"]
    answer = maria.get(page.links()["Download"])
    assert answer["Content-Disposition"] == 'attachment; filename="state-delta.json"'
    assert answer.json() == delta
    state = moments.state_at(anywhere, two[0], actor=SYSTEM).state.merged() | delta
    del state["count"]
    assert equal(state, moments.state_at(anywhere, two[1], actor=SYSTEM).state.merged())


def test_an_event_is_compared_with_now(anywhere: SessionRef, two: tuple[str, str], maria: Browser, add: Add) -> None:
    add(anywhere, actions={"state_delta": {"step": "done"}})
    page = compared(maria, anywhere, two[1])
    assert told(page) == {"step": '"pay"→"done"'}
    assert (
        maria.open("compare", query={"a": two[1]}, **anywhere._asdict()).one("ul", "comparison").text
        == page.one("ul", "comparison").text
    )


def test_the_two_can_be_swapped_and_the_link_shared(anywhere: SessionRef, two: tuple[str, str], maria: Browser) -> None:
    page = compared(maria, anywhere, *two)
    swapped = maria.open(page.links()["Swap sides"])
    assert told(swapped)["step"] == '"pay"→"choose"'
    assert told(swapped)["count"] == "new3"
    shared = next(each["data-copy"] for each in page.all("button") if "data-copy" in each)
    assert shared == f"http://testserver{reverse('compare', kwargs=anywhere._asdict())}?a={two[0]}&b={two[1]}"
    assert told(maria.open(shared.removeprefix("http://testserver"))) == told(page)


def test_events_can_be_named_by_number(anywhere: SessionRef, two: tuple[str, str], maria: Browser) -> None:
    first, second = (timeline.event(anywhere, event_id, actor=SYSTEM).seq for event_id in two)
    for a, b in ((f"#{first}", f"{second}"), (f" {first} ", f"#{second}")):
        page = compared(maria, anywhere, a, b)
        assert told(page) == told(compared(maria, anywhere, *two))
        assert page.one("form", "moments").fields() == {"counted": "1", "a": f"#{first}", "b": f"#{second}", "with": ""}


def test_a_number_means_that_event_and_no_other(
    anywhere: SessionRef, two: tuple[str, str], maria: Browser, add: Add, actor: Actor
) -> None:
    last = timeline.event(anywhere, two[1], actor=SYSTEM).seq
    other = create_session(*anywhere[:2], "ben", actor=actor)
    add(other)
    for asked in (f"#{timeline.newest_seq(other, actor=SYSTEM)}", "999"):
        page = compared(maria, anywhere, asked, status=404)
        number = asked.removeprefix("#")
        assert page.one("p", "error").text == (
            f"There's no event #{number} in this session. The closest earlier event is #{last}."
        )
        assert page.one("input", id="a")["value"] == asked
        maria.open("compare-delta", query={"a": asked}, status=404, **anywhere._asdict())


def test_a_session_page_leads_to_two_moments_and_to_other_runs(ref: SessionRef, maria: Browser) -> None:
    links = maria.open("session", **ref._asdict()).one("div", id="state").links()
    page = maria.open(links["Compare"])
    assert page.one("h1").text == "Compare with another run"
    assert maria.open(page.links()["Two moments in this session"]).one("form", "moments").fields() == {
        "counted": "1",
        "a": "",
        "b": "now",
        "with": "",
    }


def test_the_same_is_said_to_be_the_same(anywhere: SessionRef, two: tuple[str, str], maria: Browser) -> None:
    page = compared(maria, anywhere, "now")
    assert page.one("div", "empty").one("h2").text == "No differences"
    assert page.all("section", "asdelta") == []


def test_what_nobody_recorded_is_unknown_and_stays_out_of_the_delta(
    anywhere: SessionRef, maria: Browser, add: Add
) -> None:
    first = add(anywhere, author="user")
    add(anywhere, actions={"state_delta": {"step": "pay"}})
    execute(anywhere.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    page = compared(maria, anywhere, first)
    assert told(page)["step"] == 'unknown→"pay"'
    assert page.one("details", "unknowns").one("summary").text == "3 keys can't be compared"
    assert "s1 started before adkweb was recording" in page.one("details", "unknowns").text
    back = compared(maria, anywhere, "now", first)
    assert told(back)["step"] == '"pay"→unknown'
    assert "step" not in delta_of(back)
    assert "new values are unknown" in back.one("section", "asdelta").text


def test_a_key_leads_to_its_history(anywhere: SessionRef, two: tuple[str, str], maria: Browser) -> None:
    page = compared(maria, anywhere, *two)
    assert maria.open(page.links()["user:tier"]).one("h1").text == "user:tier"


def test_a_delta_that_is_too_long_for_the_page_is_downloaded(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    first = add(anywhere, author="user")
    add(anywhere, actions={"state_delta": {"long": "x" * compare_state.COPY_LIMIT}})
    page = compared(maria, anywhere, first)
    assert page.all("pre", id="delta") == []
    assert maria.get(page.links()["Download"]).json() == {"long": "x" * compare_state.COPY_LIMIT}


def test_of_many_keys_some_are_shown_and_the_delta_has_all(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    first = add(anywhere, author="user")
    add(anywhere, actions={"state_delta": {f"k{n}": n for n in range(compare_state.ROWS + 50)}})
    page = compared(maria, anywhere, first)
    assert counts(page) == [f"Session {compare_state.ROWS + 50} added"]
    assert len(told(page)) == compare_state.ROWS
    assert page.one("li", "cut").text == "… 50 more keys in the delta"
    assert len(delta_of(page)) == compare_state.ROWS + 50


# --- Two sessions -----------------------------------------------------------------------------------------------------


def test_two_sessions_are_compared_by_the_link_of_the_other(
    anywhere: SessionRef, two: tuple[str, str], maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*anywhere[:2], "benoît", state={"step": "pay", "mine": 1}, actor=actor)
    event = add(other, actions={"state_delta": {"mine": 2}})
    add(other, actions={"state_delta": {"mine": 3}})
    link = reverse("session", kwargs=other._asdict())
    page = compared(maria, anywhere, two[1], query={"with": link})
    assert told(page) == {
        "user:tier": '"silver"removed',
        "mine": "new3",
        "new": "{a: [1]}a[1] [1]01removed",
        "nothing": "nullremoved",
    }
    assert page.one("div", "sub").text.endswith(f"with {other.session_id}")
    swapped = maria.open(page.links()["Swap sides"])
    assert told(swapped)["mine"] == "3removed"
    assert swapped.one("div", "sub").text.startswith(other.session_id)
    then = compared(maria, anywhere, two[1], event, query={"with": f"http://testserver{link}"})
    assert told(then)["mine"] == "new2"
    by_event = maria.open("compare", query={"a": two[1], "with": f"{link}e/{event}/"}, **anywhere._asdict())
    assert told(by_event) == told(then)
    assert maria.get(then.links()["Download"]).json()["mine"] == 2


@pytest.mark.parametrize("link", ["/", "/s/", "/a/store/booking/", "http://[", "/s/a/b/c/~zz/"])
def test_a_link_that_leads_to_no_session_comes_back_with_the_reason(ref: SessionRef, maria: Browser, link: str) -> None:
    page = compared(maria, ref, "a", "b", query={"with": link}, status=400)
    assert page.one("p", "error").text == "This isn't a session link. Session links start with /s/."
    assert page.one("form", "moments").fields() == {"counted": "1", "a": "a", "b": "b", "with": link}
    assert maria.get(reverse("compare-delta", kwargs=ref._asdict()), {"a": "now", "with": link}).status_code == 400


def test_another_session_of_the_same_user_is_named_by_its_id(
    anywhere: SessionRef, two: tuple[str, str], maria: Browser, actor: Actor
) -> None:
    other = create_session(*anywhere[:3], session_id="s 2", state={"step": "done"}, actor=actor)
    page = compared(maria, anywhere, two[1], query={"with": " s 2 "})
    assert told(page)["step"] == '"pay"→"done"'
    assert page.links()["Swap sides"].startswith(
        reverse("compare", kwargs=other._asdict()) + f"?a=now&b={two[1]}&with="
    )


@pytest.mark.parametrize("name", ["nonsense", "s1/", "x" * 129, "a\0b"])
def test_an_id_of_no_session_comes_back_with_the_reason(anywhere: SessionRef, maria: Browser, name: str) -> None:
    page = compared(maria, anywhere, "now", query={"with": name}, status=400)
    assert page.one("p", "error").text.startswith("ana has no session “")
    assert page.one("input", id="with")["aria-invalid"] == "true"


def test_a_session_that_is_gone_is_said_beside_its_field(ref: SessionRef, maria: Browser) -> None:
    link = reverse("session", kwargs=ref._replace(session_id="gone")._asdict())
    page = compared(maria, ref, "now", query={"with": link}, status=404)
    assert page.one("p", "error").text == "There's no session “gone”."


# --- Nothing to compare -----------------------------------------------------------------------------------------------


def test_without_a_moment_the_page_asks_for_one(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("compare", query={"a": "", "b": "now"}, **ref._asdict())
    assert page.one("div", "empty").one("h2").text == "Choose two moments"
    assert page.one("form", "moments").fields() == {"counted": "1", "a": "", "b": "now", "with": ""}


@pytest.mark.parametrize("name", ["gone", "-1", "0", "#", "9" * 30, "²"])
def test_an_event_that_is_gone_is_said_beside_its_field_and_the_form_stays_filled(
    anywhere: SessionRef, maria: Browser, name: str
) -> None:
    page = compared(maria, anywhere, name, status=404)
    assert page.one("p", "error")["id"] == "a-error"
    assert page.one("input", id="a")["value"] == name
    assert page.one("input", id="a")["aria-invalid"] == "true"
    maria.open("compare-delta", query={"a": name}, status=404, **anywhere._asdict())


@pytest.mark.parametrize("name", ["a\0b", "a" * 129])
def test_what_cannot_be_an_id_is_refused_beside_its_field(anywhere: SessionRef, maria: Browser, name: str) -> None:
    page = compared(maria, anywhere, "now", name, status=400)
    assert "The event's id" in page.one("p", "error").text
    assert page.one("p", "error")["id"] == "b-error"


def test_a_session_that_does_not_exist_is_not_found(ref: SessionRef, maria: Browser) -> None:
    compared(maria, ref._replace(session_id="gone"), "now", status=404)
