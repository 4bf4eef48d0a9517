"""The strip as a picture: bars and gaps against a plain computation from the events, words for everybody, hostile names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.access import shown
from sessions_app.access.actor import Actor
from sessions_app.domain.agents import colour_of
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.web.history.strip_axis import NAMED, NAMED_WIDTH, Step, axis_of
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.bulk import fill
from tests.support.masking import Hiding
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def share(element: Element, name: str) -> float:
    assert element[name].endswith("%")
    return float(element[name][:-1])


def bars_of(strip: Element) -> list[Element]:
    return [rect for rect in strip.one(role="slider").all("rect") if rect.classes[0] == "bar"]


def run(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Makes the events of a session: messages after a while or days, agents, and answers of a person within a turn."""
    at, made = 1_763_000_000.0, list[dict[str, Any]]()
    for _ in range(number):
        kind = chance.choice(["message", "agent", "agent", "agent", "answer"]) if made else "message"
        if kind == "message":
            at += chance.choice([5.0, 40.0, 90_000.0])
            made.append({"author": "user", "timestamp": at, "content": {"parts": [{"text": "Hello"}]}})
        elif kind == "answer":
            at += chance.choice([3.0, 7_200.0])
            part = {"function_response": {"id": "c", "name": "confirm", "response": {"ok": 1}}}
            made.append({"author": "user", "timestamp": at, "content": {"parts": [part]}})
        else:
            at += chance.choice([0.0, 0.5, 3.0])
            made.append({"author": chance.choice(["booking", "billing"]), "timestamp": at})
    return made


@pytest.mark.parametrize("seed", range(6))
def test_bars_and_gaps_are_what_the_events_say(ref: SessionRef, maria: Browser, actor: Actor, seed: int) -> None:
    events = run(random.Random(seed), 60)
    for event in events:
        append_event(ref, event, actor=actor)
    strip = maria.open("strip", htmx=True, **ref._asdict())
    bars = bars_of(strip)
    assert len(bars) == 60
    begins = [event["author"] == "user" and "text" in event["content"]["parts"][0] for event in events]
    for bar, event, message in zip(bars, events, begins, strict=True):
        agent = f"agent-{colour_of(event['author'])}"
        assert (agent in bar.classes) is (event["author"] != "user"), event
        assert ("said" in bar.classes) is (event["author"] == "user")
        assert message is False or "said" in bar.classes
    # An event takes the time since the one before it, unless a person wrote it: then that is a gap.
    since = [0.0] + [b["timestamp"] - a["timestamp"] for a, b in pairwise(events)]
    worked = [0.0 if event["author"] == "user" else time for event, time in zip(events, since, strict=True)]
    gaps = [time if event["author"] == "user" else 0.0 for event, time in zip(events, since, strict=True)]
    assert [float(gap) for gap in strip.one(role="slider")["data-gaps"].split()] == pytest.approx(gaps, abs=0.051)
    widths = [share(bar, "width") for bar in bars]
    least = min(widths)
    scale = (max(widths) - least) / max(worked)
    assert widths == [pytest.approx(least + each * scale, abs=0.01) for each in worked]
    lefts = [share(bar, "x") for bar in bars]
    ends = [left + width for left, width in zip(lefts, widths, strict=True)]
    for number in range(1, 60):
        between = lefts[number] - ends[number - 1]
        assert between >= -0.01
        assert (between > 0.05) is (gaps[number] > 0), (number, gaps[number], between)
    assert (lefts[0], ends[-1]) == (0, pytest.approx(100, abs=0.01))
    named = [pause for pause in strip.one(role="slider").all("rect") if pause.classes[0] == "pause"]
    longest = sorted((gap for gap in gaps if gap > 60), reverse=True)[:NAMED]
    said = {90_000.0: "1 day", 7_200.0: "2 h"}
    assert len(named) <= NAMED
    words = {each.text.strip() for each in strip.all(None, "pausewords")}
    assert words <= {said[gap] for gap in longest}
    assert longest == [] or said[longest[0]] in words
    for pause in named:
        (number,) = (n for n in range(1, 60) if abs(lefts[n] - share(pause, "x") - share(pause, "width")) < 0.01)
        assert ("waited" in pause.classes) is (not begins[number])
    lines = strip.one(id="strip-turns").all("li")
    assert [line.text.split(" · ")[0] for line in lines] == [f"Turn {n}" for n in range(1, sum(begins) + 1)]
    turns = [sum(begins[: number + 1]) - 1 for number in range(60)]
    assert strip.one(role="slider")["data-lines"] == " ".join(map(str, turns))
    assert strip.one(role="slider")["data-numbers"] == " ".join(map(str, range(1, 62)))


@pytest.mark.parametrize("indexed", [True, False])
def test_an_error_is_red_since_the_failed_call_or_since_its_model_began(
    ref: SessionRef, maria: Browser, add: Add, indexed: bool
) -> None:
    """A model's event has the time at which its call started; when it was stored tells when the model had answered."""
    hello, call = {"text": "Hello"}, {"function_call": {"name": "print", "id": "c1"}}
    add(ref, hello, author="user", timestamp=1_000.0)
    add(ref, call, timestamp=1_000.0)
    add(ref, error_code="CheckInError", timestamp=1_004.5)
    add(ref, hello, author="user", timestamp=1_050.0)
    add(ref, error_code="RESOURCE_EXHAUSTED", timestamp=1_052.0)
    for seq, at in enumerate([1_000.0, 1_003.0, 1_004.6, 1_050.0, 1_052.1], 1):
        execute(ref.source, "UPDATE adkweb_written SET at = %s WHERE seq = %s", [at, seq])
    if indexed:
        feed(ref.source)
    strip = maria.open("strip", htmx=True, **ref._asdict())
    bars = bars_of(strip)
    agent = f"agent-{colour_of('agent')}"
    assert [each.classes[1:] for each in bars] == [["said"], [agent], [agent, "error"], ["said"], [agent, "error"]]
    least = share(bars[0], "width")
    widths = [share(bar, "width") - least for bar in bars]
    assert widths == pytest.approx([each * widths[2] / 1.5 for each in (0.0, 3.0, 1.5, 0.0, 2.0)], abs=0.01)
    (failed,) = strip.one(role="slider").all("path", "call")
    assert failed.classes == ["call", "failed"]
    left, width = re.fullmatch(r"M(\S+) 26h(\S+)v7h-\2z", failed["d"]).groups()  # type: ignore[union-attr]  # it is one box
    assert [float(left), float(width)] == [pytest.approx(share(bars[2], name), abs=0.01) for name in ("x", "width")]


@pytest.mark.parametrize("seed", range(40))
def test_an_axis_keeps_the_order_and_is_exact_within_its_steps(seed: int) -> None:
    chance = random.Random(seed)
    steps, at = list[Step](), 0.0
    for _ in range(chance.choice([1, 2, 30, 300])):
        gap = chance.choice([0.0, 0.0, 1.0, 86_400.0, 1e6])
        worked = chance.choice([0.0, 0.1, 5.0, 4_000.0])
        begin = at + gap
        at = begin + worked
        steps.append(Step(begin, at, at - begin, gap))
    axis = axis_of(steps)
    edges = [edge for pair in zip(axis.lefts, axis.rights, strict=True) for edge in pair]
    assert edges == sorted(edges)
    assert edges[0] >= 0
    assert edges[-1] == pytest.approx(100)
    widths = [right - left for left, right in zip(axis.lefts, axis.rights, strict=True)]
    for (one, narrow), (other, wide) in combinations(zip(steps, widths, strict=True), 2):
        assert (wide - narrow) * (other.worked - one.worked) >= -1e-9
        assert abs(wide - narrow) < 1e-9 or one.worked != other.worked
    for step, left, right in zip(steps, axis.lefts, axis.rights, strict=True):
        assert (
            axis.x(step.begin + (step.end - step.begin) / 2) == pytest.approx((left + right) / 2, abs=1e-5)
            or not step.worked
        )
        assert axis.x(step.end) == pytest.approx(right, abs=1e-5) or not step.worked
    assert len(axis.folds) <= NAMED
    for fold in axis.folds:
        assert fold.right - fold.left >= NAMED_WIDTH - 1e-6
        assert fold.seconds == steps[fold.step].gap >= 60


def test_where_no_turns_are_known_all_bars_are_alike_and_higher_the_more_they_changed(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    for number in range(6):
        add(ref, timestamp=1_000.0 + number**3, actions={"state_delta": {"n": number}} if number == 3 else {})
    bars = bars_of(maria.open("strip", htmx=True, **ref._asdict()))
    assert len({round(share(bar, "width"), 2) for bar in bars}) == 1
    heights = [float(bar["height"]) for bar in bars]
    assert heights.index(max(heights)) == 3
    assert len(set(heights)) == 2


def test_turns_share_bars_where_there_are_more_than_can_be_seen(ref: SessionRef, maria: Browser, add: Add) -> None:
    fill(ref, 450)
    with connections[ref.source].cursor() as cursor:
        cursor.execute("""UPDATE events SET event_data = json_set(event_data, '$.author', 'user')""")
    strip = maria.open("strip", htmx=True, **ref._asdict())
    # Nobody knows turns that are not indexed yet; the events are shown all the same.
    assert len(bars_of(strip)) == 300
    assert strip.one(id="strip-turns").all("li") == []


def test_names_of_agents_are_words_in_the_strip(ref: SessionRef, maria: Browser, add: Add) -> None:
    name = "<img src=x onerror=y>\"'{{ 7|add:7 }}"
    add(ref, {"text": "Hello"}, author="user")
    add(ref, {"text": "x"}, author=name)
    add(ref, {"text": "x"}, author="a" * 250)
    strip = maria.open("strip", htmx=True, **ref._asdict())
    assert name in strip.one(id="strip-turns").text
    assert len(strip.text) < 3_000


def test_a_strip_costs_a_long_session_no_more_queries(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    long = create_session(*ref[:3], session_id="long", actor=actor)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": "x"}]}}, actor=actor)
    fill(long, 10_000)
    counts = []
    for each in (ref, long):
        address = reverse("strip", kwargs=each._asdict())
        maria.get(address, headers={"HX-Request": "true"})
        with CaptureQueriesContext(connections[ref.source]) as captured:
            assert maria.get(address, headers={"HX-Request": "true"}).status_code == 200
        counts.append(len(captured))
    assert counts[1] <= counts[0] <= 12


# --- Pinned keys ------------------------------------------------------------------------------------------------------


def pinned(maria: Browser, ref: SessionRef, *keys: str) -> list[Element]:
    strip = maria.open("strip", query={"pin": list(keys)}, htmx=True, **ref._asdict())
    return strip.all("li", "pin")


def told(line: Element) -> list[str]:
    return [" ".join(each.text.split()) for each in line.one("ol").all("li")]


def test_a_pinned_key_is_a_line_if_it_is_a_number_and_bands_otherwise(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    add(ref, {"text": "Hello"}, author="user", timestamp=1_000.0)
    add(ref, timestamp=1_010.0, actions={"state_delta": {"count": 5, "step": "pay", "list": [1, 2]}})
    add(ref, timestamp=1_020.0, actions={"state_delta": {"count": -2.5, "list": "text", "mixed": 1}})
    add(ref, timestamp=1_030.0, actions={"state_delta": {"step": True, "mixed": "two"}})
    count, step, mixed = pinned(maria, ref, "count", "step", "mixed")
    (line,) = count.all("polyline")
    ys = [float(point.split(",")[1]) for point in line["points"].split()]
    assert ys[::2] == ys[1::2]
    assert ys[2] == min(ys) < ys[0] < max(ys) == ys[4]
    assert told(count) == ["at the start: 3", "event 2: 5", "event 3: -2.5"]
    assert step.all("polyline") == mixed.all("polyline") == []
    assert (len(step.all("rect", "band")), len(step.all("rect", "tick"))) == (3, 2)
    assert told(step) == ['at the start: "choose"', 'event 2: "pay"', "event 4: true"]
    assert told(mixed) == ["at the start: no such key", "event 3: 1", 'event 4: "two"']
    assert len(mixed.all("rect", "band")) == 2


def test_a_write_of_another_session_and_a_removal_are_told(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*ref[:3], session_id="other", actor=actor)
    add(ref, {"text": "Hello"}, author="user")
    add(other, actions={"state_delta": {"user:tier": "silver"}})
    add(ref, {"text": "Hi"})
    edit_state(ref, [Entry("count", ABSENT, 3)], actor=actor)
    tier, count = pinned(maria, ref, "user:tier", "count")
    assert told(tier) == ['at the start: "gold"', 'event 2 (in another session): "silver"']
    assert told(count) == ["at the start: 3", "event 3: removed"]
    assert "user" in tier.classes


@pytest.mark.parametrize(
    "key", ["<img src=x onerror=y>", "{{ 7|add:7 }}", "temp:x", "\0", "\u202egpj", "user:", "a" * 1_024, "'\"%s"]
)
def test_a_strange_key_is_words_and_can_be_unpinned(ref: SessionRef, maria: Browser, add: Add, key: str) -> None:
    add(ref, {"text": "Hello"})
    add(ref, actions={"state_delta": {"temp:x": 1}})
    (line,) = pinned(maria, ref, key)
    assert line["data-pin"] == key
    assert len(line.one("button")["aria-label"]) < 120
    assert line.all("rect") == line.all("polyline") == []


def test_few_keys_are_pinned_each_once_and_strange_values_are_bounded(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, actions={"state_delta": {"big": "x" * 100_000, "huge": 10**400, "deep": {"a" * 5_000: [[[1]]]}}})
    lines = pinned(maria, ref, "big", "huge", "big", "deep", "", "b" * 2_000, "c", "d", "e")
    assert [line["data-pin"] for line in lines] == ["big", "huge", "deep", "c", "d"]
    assert all(len(line.text) < 500 for line in lines)


def test_pinned_keys_cost_a_long_session_a_bounded_number_of_queries_and_points(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    fill(ref, 5_000)
    address = reverse("strip", kwargs=ref._asdict())
    maria.get(address, headers={"HX-Request": "true"})
    counts = []
    for keys in ([], ["n", "step", "user:tier", "app:limit", "no"]):
        with CaptureQueriesContext(connections[ref.source]) as captured:
            assert maria.get(address, {"pin": keys}, headers={"HX-Request": "true"}).status_code == 200
        counts.append(len(captured))
    assert counts[1] <= counts[0] + 20
    (line,) = pinned(maria, ref, "n")
    assert len(told(line)) <= 101
    assert re.search(r"\d+ of 5,000 changes", line.one("span", "pinwords").text)


def test_a_page_shows_its_pins_at_once_and_its_keys_can_be_pinned(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "Hello"})
    page = maria.open("session", query={"pin": ["step", "a&b"]}, **ref._asdict())
    assert page.one("div", id="strip")["hx-get"].endswith("/strip/?pin=step&pin=a%26b")
    assert {each["data-pin-key"] for each in page.all("button") if "data-pin-key" in each} >= {"step", "user:tier"}


def test_what_somebody_may_not_see_stands_in_no_line(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    def masked(values: Any) -> Any:
        if isinstance(values, list):
            return [masked(each) for each in values]
        if not isinstance(values, dict):
            return values
        return {key: "•••" if key == "step" else masked(value) for key, value in values.items()}

    add(ref, {"text": "Hello"})
    for number in range(3):
        add(ref, actions={"state_delta": {"step": f"secret {number}"}})
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(masked))
    (line,) = pinned(maria, ref, "step")
    assert [each.partition(": ")[2] for each in told(line)] == ['"•••"'] * 4
    fill(ref, 300)
    with connections[ref.source].cursor() as cursor:
        cursor.execute("UPDATE events SET event_data = replace(event_data, '\"n\":', '\"step\":') WHERE id LIKE 'e%'")
    (line,) = pinned(maria, ref, "step")
    assert {each.partition(": ")[2] for each in told(line)} <= {'"•••"', "unknown at this point"}
