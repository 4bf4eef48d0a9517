"""The page of a trace: which turn it shows, what its rows say, and that it reads only so much."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import Actor
from sessions_app.domain.agents import COLOURS, colour_of
from sessions_app.domain.clock import Ended
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.trace import MODEL, TOOL, Span, trace_of
from sessions_app.reads import timeline
from sessions_app.web.numbers import duration
from sessions_app.web.session.trace import MOST_TICKS, scale_of
from sessions_app.web.templatetags.tags import SHORT, shortened
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.house import ROOT
from tests.support.stored import as_they_happened
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
Add = Callable[..., str]
NOW = 1_794_000_000


def part(**part: Any) -> dict[str, Any]:
    return {"content": {"parts": [part]}}


def call(name: str, number: str = "c1") -> dict[str, Any]:
    return part(function_call={"id": number, "name": name, "args": {}})


def answer(name: str, number: str = "c1", **response: Any) -> dict[str, Any]:
    return part(function_response={"id": number, "name": name, "response": response})


@pytest.fixture
def anywhere(source: str, actor: Actor) -> SessionRef:
    """A session on each kind of database."""
    return create_session(source, "booking", "ana", session_id="s1", actor=actor)


@pytest.fixture
def turn(anywhere: SessionRef, add: Add) -> list[str]:
    """Two turns; in the second, a tool fails and a transfer follows. The ids of their events."""
    events: list[dict[str, Any]] = [
        {"author": "user", "timestamp": NOW, **part(text="Hello")},
        {"author": "booking", "timestamp": NOW + 1, **part(text="Hi")},
        {"author": "user", "timestamp": NOW + 60, **part(text="Pay with the blue Visa")},
        {
            "author": "booking",
            "timestamp": NOW + 62,
            "model_version": "gemini-3-flash",
            "usage_metadata": {"prompt_token_count": 800, "candidates_token_count": 58},
            **call("charge_card"),
        },
        {
            "author": "booking",
            "timestamp": NOW + 65,
            "actions": {"transfer_to_agent": "billing"},
            **answer("charge_card", error="card declined"),
        },
        {"author": "billing", "timestamp": NOW + 66, "model_version": "gemini-3-flash", **part(text="Another card?")},
    ]
    ids = [add(anywhere, **event) for event in events]
    as_they_happened(anywhere.source)
    return ids


def rows(page: Element) -> list[str]:
    """What is read of each row, without the pictures."""
    return [f"{row.one('span', 'name').text} | {row.one('span', 'figures').text}" for row in page.all("li", "lane")]


def test_a_timeline_shows_the_trace_of_each_turn_below_its_question(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    page = maria.open("trace", **anywhere._asdict())
    drawn = page.all("li", "waterfall")
    assert [rows(each)[0] for each in drawn] == ["agent booking model | 1.0 s", "agent booking | 5.0 s"]
    order = [row["id"] for row in page.one(id="events").all("li") if "id" in row]
    for asked, shown in zip((turn[0], turn[2]), drawn, strict=True):
        assert order.index(shown["id"]) == order.index(f"event-{asked}") + 1
    said = [row for row in page.all("li", "said") if "silent" not in row.classes]
    assert [row["id"] for row in said] == [f"event-{turn[number]}" for number in (0, 2)]  # all else is bars
    assert [row.one("a", "line").text for row in said] == ["Hello", "Pay with the blue Visa"]
    took = [float(bar["data-took"]) for bar in page.all("svg", "turnbar")]
    assert took == pytest.approx([1, 6])


def test_a_turn_that_is_not_there_as_a_whole_has_its_trace_asked_for(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    page = maria.open("trace", query={"author": "booking"}, **anywhere._asdict())
    asked = []
    for shown in page.all("li", "waterfall"):
        assert rows(shown) == []
        assert "intersect once" in shown["hx-trigger"]
        asked.append(rows(maria.open(shown["hx-get"], htmx=True))[0])
    assert asked == ["agent booking model | 1.0 s", "agent booking | 5.0 s"]


def test_it_shows_the_newest_turn_or_the_one_with_an_event(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    newest = maria.open("trace", htmx=True, **anywhere._asdict())
    assert rows(newest) == [
        "agent booking | 5.0 s",
        "model gemini-3-flash | 2.0 s 858 tok",
        "tool charge_card | 3.0 s card declined",
        "transferred to the agent → billing gemini-3-flash | 1.0 s",  # one call of a model is all that it did
    ]
    for event_id in turn[2:]:
        assert rows(maria.open("trace", htmx=True, query={"at": event_id}, **anywhere._asdict())) == rows(newest)
    for event_id in turn[:2]:
        first = maria.open("trace", htmx=True, query={"at": event_id}, **anywhere._asdict())
        assert rows(first) == ["agent booking model | 1.0 s"]


def test_it_says_where_the_time_went(anywhere: SessionRef, turn: list[str], maria: Browser) -> None:
    page = maria.open("trace", htmx=True, **anywhere._asdict())
    assert page.one("p", "wherefrom").text == "Model 3.0 s Tools 3.0 s"


def test_all_turns_have_the_scale_of_the_longest_once_that_is_chosen(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    def widths(page: Element) -> list[float]:
        return [float(each.all("rect", "span")[0]["width"][:-1]) for each in page.all("li", "waterfall")]

    def link(page: Element) -> str:
        return page.one("a", "scaled")["href"]

    own = maria.open("session", query={"density": "trace"}, **anywhere._asdict())
    same = maria.open(link(own))
    (one, other), (short, long) = widths(own), widths(same)
    assert one == pytest.approx(100)
    assert long == other
    assert short == pytest.approx(100 / 6, abs=0.5)
    axes = [[(time["x"], time.text) for time in axis.all("text")] for axis in same.all("li", "axis")]
    assert axes[0] == axes[1]  # through the whole width, also of a bar that is alone
    assert [words for _x, words in axes[0]] == ["0 s", "2 s", "4 s", "6 s"]
    # It is kept for the next page, for a trace that comes later, and for what arrives live.
    assert widths(maria.open("session", **anywhere._asdict())) == [short, long]
    later = maria.open("trace", htmx=True, query={"at": turn[0]}, **anywhere._asdict())
    assert later.all("rect", "span")[0]["width"] == f"{short:.3f}%"
    news = json.loads(maria.get(reverse("news", kwargs=anywhere._asdict()), {"after": "0"}).content)
    assert f'width="{short:.3f}%"' in news["events"]
    assert widths(maria.open(link(same))) == [one, other]


def test_why_something_failed_is_said_below_its_bar_and_to_who_hears_the_page(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    tool = maria.open("trace", htmx=True, **anywhere._asdict()).one("li", "tool")
    bar, words = tool.one("rect", "span"), tool.one("foreignobject")
    assert words.text == "card declined"
    ends = [float(each["x"][:-1]) + float(each["width"][:-1]) for each in (bar, words)]
    assert (words["x"] == bar["x"] and ends[1] == pytest.approx(100)) or ends[0] == pytest.approx(ends[1], abs=0.01)
    assert "card declined" in tool.one("span", "figures").text


def test_each_line_of_an_axis_has_its_time_and_a_bar_that_is_alone_has_no_lines(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    axis = maria.open("trace", htmx=True, **anywhere._asdict()).one("li", "axis")
    lines, times = axis.one("svg", "grid").all("rect", "tick"), axis.all("text")
    assert [line["x"] for line in lines] == [time["x"] for time in times]
    assert [time.text for time in times] == ["0 s", "2 s", "4 s", "6 s"]
    alone = maria.open("trace", htmx=True, query={"at": turn[0]}, **anywhere._asdict())
    assert not alone.all("rect", "tick")


def test_bars_lead_to_their_events_and_are_hidden_from_who_cannot_see_them(
    anywhere: SessionRef, turn: list[str], maria: Browser
) -> None:
    page = maria.open("trace", htmx=True, **anywhere._asdict())
    tool = page.one("li", "tool")
    assert [link["data-at"] for link in tool.all("a")] == [turn[3], turn[3]]
    assert tool.one("svg").one("a")["data-ends"] == turn[4]
    assert tool.one("svg")["aria-hidden"] == "true"
    assert tool.one("title").text == "charge_card · 3.0 s · after 2.0 s · card declined"
    assert all("tabindex" in link for link in tool.one("svg").all("a"))


def test_no_two_agents_of_a_session_have_the_same_colour(anywhere: SessionRef, add: Add, maria: Browser) -> None:
    names = [f"agent_{number}" for number in range(500) if colour_of(f"agent_{number}") == 0]  # each by itself
    add(anywhere, author="user", timestamp=NOW, **part(text="Hello"))

    def colours(page: Element, tag: str, css: str) -> list[str]:
        return [next(each for each in one.classes if re.match(r"agent-\d", each)) for one in page.all(tag, css)]

    def shown(density: str) -> Element:
        return maria.open("session", query={"density": density}, **anywhere._asdict())

    events = list[str]()
    for number, name in enumerate(names[:COLOURS]):
        add(anywhere, author=name, timestamp=NOW + number, invocation_id=name, **part(text="Hi"))
        before, events = events, colours(shown("events"), "span", "agent")
        assert events[:-1] == before  # what an agent has, it keeps
        if number == COLOURS // 2:
            feed(anywhere.source)
    assert sorted(events) == [f"agent-{number}" for number in range(COLOURS)]
    assert colours(shown("chat"), "span", "agent") == events
    assert colours(shown("trace"), "li", "agent") == events
    assert colours(maria.open("trace", htmx=True, **anywhere._asdict()), "li", "agent") == events
    assert colours(maria.open("strip", htmx=True, **anywhere._asdict()).all("ul", "agents")[0], "rect", "bar") == events
    news = json.loads(
        maria.get(reverse("news", kwargs=anywhere._asdict()), {"after": "0", "density": "events"}).content
    )
    assert re.findall(r"agent (agent-\d)", news["events"]) == events


def test_a_session_without_events_has_no_trace(anywhere: SessionRef, maria: Browser) -> None:
    assert "No events yet" in maria.open("trace", **anywhere._asdict()).one("main").text
    assert maria.open("trace", query={"at": "gone"}, status=404, **anywhere._asdict())


def test_of_a_long_turn_only_so_many_events_are_read(
    anywhere: SessionRef, add: Add, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST", 6)
    ids = [add(anywhere, author="user", timestamp=NOW, **part(text="Go"))]
    ids += [add(anywhere, author="a", timestamp=NOW + n, **part(text="on")) for n in range(1, 21)]
    told = "too many events for one trace"
    first = maria.open("trace", htmx=True, query={"at": ids[0]}, **anywhere._asdict())
    assert told in first.text
    assert "model ×5" in first.one("ol", "trace").text  # without the user's message
    middle = maria.open("trace", htmx=True, query={"at": ids[10]}, **anywhere._asdict())
    assert told in middle.text
    assert "model ×6" in middle.one("ol", "trace").text
    add(anywhere, author="user", timestamp=NOW + 30, **part(text="Next"))
    assert told not in maria.open("trace", htmx=True, **anywhere._asdict()).text


# --- What it is made of -----------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=200), unique=True, max_size=30))
def test_no_two_names_look_alike(names: list[str]) -> None:
    shown = shortened(names)
    assert set(shown) == set(names)
    assert len(set(shown.values())) == len(names)


def test_names_lose_their_middle_where_they_are_long() -> None:
    assert shortened(["book"]) == {"book": "book"}
    (short,) = shortened(["researcher_of_all_direct_flights"]).values()
    assert short == "researche…direct_flights"
    assert len(short) == SHORT
    assert list(shortened(["x" * 40]).values()) == [f"{'x' * 11}…{'x' * 12}"]
    alike = shortened([f"researcher_of_all_{each}_direct_flights" for each in ("big", "odd")])
    assert all("big" in short or "odd" in short for short in alike.values())
    assert shortened(["가" * 40]) == {"가" * 40: "가" * 40}


@pytest.mark.parametrize("name", ["", "booking", "가이드", "\ud800", "x" * 10_000])
def test_an_agent_has_one_of_eight_colours(name: str) -> None:
    assert colour_of(name) in range(COLOURS)


def test_the_colours_of_the_demo_s_agents_differ() -> None:
    names = ("booking", "billing", "fare_checker", "fare_watch", "support")
    assert len({colour_of(name) for name in names}) == len(names)


def test_the_colours_of_agents_can_be_read_on_every_surface_in_light_and_dark() -> None:
    tokens = dict(
        re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\)", (ROOT.parent / "static/css/tokens.css").read_text())
    )
    for surface, number in itertools.product(("bg", "sunken", "accent-soft"), range(COLOURS)):
        for behind, colour in zip(tokens[surface].split(", "), tokens[f"agent-{number}"].split(", "), strict=True):
            assert _contrast(behind, colour) >= 4.5, (surface, number)


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(map(_light, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _light(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    red, green, blue = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


spans = st.lists(st.tuples(st.sampled_from([MODEL, TOOL]), st.floats(0, 1e6), st.floats(0, 1e5)), max_size=8)


@given(spans, st.floats(0, 4e9))
def test_an_axis_has_two_to_five_round_ticks_and_keeps_the_order_of_times(
    told: list[tuple[str, float, float]], more: float
) -> None:
    roots = [Span(kind, "x", "a", start, start + took) for kind, start, took in told]
    last = max([each.end or 0 for each in roots], default=0)
    trace = trace_of(roots, Ended(0), Ended(last), 100)
    scale = scale_of(trace, last + more)
    assert 2 <= len(scale.ticks) <= MOST_TICKS
    for values in ([tick.x for tick in scale.ticks], scale.xs, [scale.x(at / 9 * (last + more)) for at in range(10)]):
        assert values == sorted(values)
        assert all(-1e-6 <= each <= 100 + 1e-6 for each in values)


def test_long_waiting_is_folded_so_that_work_can_be_seen() -> None:
    roots = [Span(MODEL, "m", "a", 0, 5), Span(MODEL, "m", "a", 7_205, 7_210)]
    scale = scale_of(trace_of(roots, Ended(0), Ended(7_210), 9), 7_210)
    assert [(fold.seconds, fold.width) for fold in scale.folds] == [(7_200, 7)]
    assert [tick.seconds for tick in scale.ticks] == [0, 5, 10]
    assert (scale.x(5), scale.x(7_205), scale.x(7_210)) == (46.5, 53.5, 100)


def test_short_times_are_said_in_milliseconds() -> None:
    assert [duration(each) for each in (0, 0.004, 0.412, 0.9994, 0.9996, 1.5, 90)] == [
        "0 ms",
        "4 ms",
        "412 ms",
        "999 ms",
        "1.0 s",
        "1.5 s",
        "2 min",
    ]
