"""A session narrowed to a range of events: its address, its words, pages of it, and addresses that nobody gave out."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.domain.session_ref import SessionRef
from tests.support.bulk import fill
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def shown(page: Element) -> list[str]:
    """The ids of the events of a timeline."""
    return [row["id"].removeprefix("event-") for row in page.all("li", "ev")]


@pytest.fixture
def ids(ref: SessionRef, add: Add) -> list[str]:
    """The events of two turns; the third one failed."""
    return [
        add(ref, {"text": "Hello"}, id="e1", author="user", timestamp=1_000.0),
        add(ref, {"text": "Hi"}, id="e2", timestamp=1_001.0, usage_metadata={"total_token_count": 1_200}),
        add(ref, id="e3", timestamp=1_002.0, error_code="429"),
        add(ref, {"text": "Again"}, id="e4", author="user", timestamp=1_080.0),
        add(ref, {"text": "Yes"}, id="e5", timestamp=1_081.0, usage_metadata={"total_token_count": 300}),
    ]


def test_a_range_is_summed_up_and_does_not_depend_on_the_order_of_its_ends(
    ref: SessionRef, maria: Browser, ids: list[str]
) -> None:
    for first, last in (("e2", "e4"), ("e4", "e2")):
        page = maria.open("session", query={"from": first, "to": last}, **ref._asdict())
        assert shown(page) == ["e2", "e3", "e4"]
        line = page.one("div", "rangeline", role="group")
        assert line.one("b").text == "Events 2–4"
        assert {"2 turns", "1 min"} <= set(line.texts("span"))
        more = maria.open(next(each["hx-get"] for each in line.all("span") if "hx-get" in each), htmx=True)
        assert more.texts("span") == ["1.2k tokens"]
        assert more.texts("b") == ["1 error"]
        ends = parse_qs(urlsplit(line.links()["Compare both ends"]).query)
        assert ends == {"a": ["e2"], "b": ["e4"]}
    one = maria.open("session", query={"from": "e3"}, **ref._asdict())
    assert shown(one) == ["e3"]
    assert one.one("div", "rangeline", role="group").one("b").text == "Event 3"


@pytest.mark.parametrize("density", ["chat", "events", "trace"])
def test_a_range_goes_together_with_filters_and_densities(
    ref: SessionRef, maria: Browser, ids: list[str], density: str
) -> None:
    query = {"from": "e1", "to": "e4", "density": density, "author": "user"}
    page = maria.open("session", query=query, **ref._asdict())
    assert shown(page) == ["e1", "e4"]
    for name in ("Errors", "Chat", "Trace"):
        link = next(url for words, url in page.links().items() if words.startswith(name))
        assert parse_qs(urlsplit(link).query)["from"] == ["e1"]
        assert set(shown(maria.open(link))) <= {"e1", "e3", "e4"}


def test_links_at_a_moment_stay_in_the_range_and_the_filters(ref: SessionRef, maria: Browser, ids: list[str]) -> None:
    asked = {"from": ["e2"], "to": ["e4"], "author": ["user"]}
    page = maria.open(
        "session", query={name: value for name, (value,) in asked.items()} | {"at": "e4"}, **ref._asdict()
    )
    panel = page.one(id="moment")
    for name in ("show-state", "show-changes", "show-event", "step-back", "step-on", "change-on", "travel-back"):
        query = parse_qs(urlsplit(panel.one("a", id=name)["href"]).query)
        assert {name: query.get(name) for name in asked} == asked, name
    before = maria.get(panel.one("a", id="step-back")["href"])
    assert parse_qs(urlsplit(before["Location"]).query) == {**asked, "at": ["e3"]}


def test_every_page_of_a_range_stays_in_it(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 400)
    page = maria.open("session", query={"from": "e20", "to": "e350", "at": "e180"}, **ref._asdict())
    seen = shown(page)
    for name, side in (("Earlier events", 0), ("Later events", -1)):
        on = page
        while name in on.links():
            on = maria.open(on.links()[name], htmx=True)
            seen = shown(on) + seen if side == 0 else seen + shown(on)
    assert seen == [f"e{n}" for n in range(20, 351)]


def test_numbers_of_a_dragged_range_become_the_ids_of_its_events(
    ref: SessionRef, maria: Browser, ids: list[str]
) -> None:
    address = reverse("session", kwargs=ref._asdict())
    answer = maria.get(address, {"first": "2", "last": str(2**53 - 1), "kind": "errors", "at": "e1"})
    assert answer.status_code == 302
    assert parse_qs(urlsplit(answer["Location"]).query) == {
        "from": ["e2"],
        "to": ["e5"],
        "kind": ["errors"],
        "at": ["e1"],
    }
    for first in ("x", "-1", str(2**64), "9" * 5_000):
        assert maria.get(address, {"first": first, "last": "3"}).status_code == 400


@pytest.mark.parametrize("strange", ["gone", "\0", "x" * 3_000, "' OR 1=1 --", "<script>", "{{ 7 }}", "‮"])
def test_a_range_whose_end_is_gone_is_told_and_all_events_are_shown(
    ref: SessionRef, maria: Browser, ids: list[str], strange: str
) -> None:
    for query in ({"from": strange, "to": "e4"}, {"from": "e1", "to": strange}, {"to": strange}):
        page = maria.open("session", query=query, **ref._asdict())
        assert shown(page) == ids
        assert "isn't in this session" in page.one("p", "rangeline").text
        assert len(page.one("p", "rangeline").text) < 250
        assert maria.open("strip", query=query, htmx=True, **ref._asdict()).all("rect", "ranged") == []
        assert shown(maria.open("events", query=query, htmx=True, **ref._asdict())) == ids
        maria.open("range", query=query, htmx=True, status=404, **ref._asdict())


def test_a_range_stands_on_the_strip_from_the_beginning_of_its_first_event_to_the_end_of_its_last(
    ref: SessionRef, maria: Browser, ids: list[str]
) -> None:
    strip = maria.open("strip", query={"from": "e2", "to": "e4"}, htmx=True, **ref._asdict())
    edges = [float(each) for each in strip.one(role="slider")["data-edges"].split()]
    shade = strip.one("rect", "ranged")
    left, width = float(shade["x"][:-1]), float(shade["width"][:-1])
    assert (left, left + width) == (pytest.approx(edges[2], abs=0.01), pytest.approx(edges[7], abs=0.01))


def test_a_range_costs_the_page_few_queries_however_long_the_session_is(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 5_000)
    counts = []
    for query in ({}, {"from": "e100", "to": "e4000"}):
        address = reverse("session", kwargs=ref._asdict())
        maria.get(address, query)
        with CaptureQueriesContext(connections[ref.source]) as captured:
            assert maria.get(address, query).status_code == 200
        counts.append(len(captured))
    assert counts[1] <= counts[0] + 3
