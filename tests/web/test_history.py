"""Every value that a key ever had: who wrote it, where, when and why, and what each write changed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits.edit import Entry, edit_app_state, edit_state, edit_user_state
from sessions_app.history.index import build
from sessions_app.history.key_history import PAGE
from sessions_app.web.history.history import Lane, Line, lane, line
from sessions_app.web.html.difference import Differences
from sessions_app.writes.sessions import create_session
from tests.strategies import json_values
from tests.support.bulk import fill
from tests.support.stored import execute
from tests.web.conftest import Browser, names_of
from tests.web.html import Element, read

pytestmark = pytest.mark.django_db
Add = Callable[..., str]


def session_page(browser: Browser, ref: SessionRef, name: str, **more: Any) -> Element:
    query = {"key": name, **more.pop("query", {})}
    return browser.open("session-history", query=query, **ref._asdict(), **more)


def rows(page: Element) -> list[Element]:
    return page.all("li", "write")


def told(page: Element) -> list[str]:
    """What each write changed, in the page's words."""
    return [row.one("div", "change").text for row in rows(page)]


def delta(**keys: Any) -> dict[str, Any]:
    return {"actions": {"state_delta": keys}}


@pytest.fixture
def anywhere(source: str, actor: Actor) -> SessionRef:
    """A session on each kind of database."""
    state = {"step": "choose", "count": 3, "nothing": None, "user:tier": "gold", "app:limit": 10}
    return create_session(source, "booking", "ana", session_id="s1", state=state, actor=actor)


# --- What a page tells ------------------------------------------------------------------------------------------------


def test_every_value_with_who_and_why_the_newest_first_and_the_initial_one_last(
    anywhere: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    first = add(anywhere, author="billing", **delta(step="pay"))
    edit = edit_state(anywhere, [Entry("step", "paid", "pay")], actor=actor, reason="Paid by phone").event["id"]
    page = session_page(maria, anywhere, "step")
    assert page.one("div", "keynow").text == 'Now "paid"'
    assert told(page) == ['Paid by phone "pay"→"paid"', '"choose"→"pay"', 'new"choose"']
    assert [row.one("span", "who").text for row in rows(page)] == [actor.name, "billing", "initial state"]
    there = reverse("session", kwargs=anywhere._asdict())
    links = [row.all("a", "seq") for row in rows(page)]
    assert [link["href"] for each in links for link in each] == [f"{there}?at={edit}", f"{there}?at={first}"]
    assert all(row.one("time")["datetime"] for row in rows(page))


def test_a_users_key_was_written_in_any_of_their_sessions(
    anywhere: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*anywhere[:3], session_id="s2", actor=actor)
    add(other, **delta(**{"user:tier": "silver"}))
    edit_user_state(*anywhere[:3], [Entry("user:tier", "platinum", "silver")], actor=actor)
    page = maria.open("user-history", query={"key": "user:tier"}, **names_of(anywhere, 3))
    assert told(page) == ['"silver"→"platinum"', '"gold"→"silver"', 'new"gold"']
    assert [row.texts("a", "where") for row in rows(page)] == [["Changes to user state ↗"], ["s2 ↗"], ["s1 ↗"]]
    assert rows(page)[1].one("a", "where")["href"] == reverse("session", kwargs=other._asdict())
    beside = session_page(maria, anywhere, "user:tier")
    assert told(beside) == told(page)
    assert [row.texts(class_="where") for row in rows(beside)] == [["Changes to user state ↗"], ["s2 ↗"], ["s1"]]
    assert [len(row.all("a", "where")) for row in rows(beside)] == [1, 1, 0]  # the last is this session
    assert [len(row.all("a", "seq")) for row in rows(beside)] == [0, 0, 0]  # of another session, a number says nothing
    assert [len(row.all("a", "meta")) for row in rows(beside)] == [1, 1, 0]  # the time leads there, and stands once
    assert [len(row.all("time")) for row in rows(beside)] == [1, 1, 1]


def test_an_apps_key_was_written_by_any_of_its_users(
    anywhere: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*anywhere[:2], "ben", session_id="s9", actor=actor)
    add(other, **delta(**{"app:limit": 20}))
    edit_app_state(*anywhere[:2], [Entry("app:limit", 30, 20)], actor=actor, reason="More of them")
    page = maria.open("app-history", query={"key": "app:limit"}, **names_of(anywhere, 2))
    assert told(page) == ["More of them 20→30", "10→20", "new10"]
    assert [row.texts("a", "where") for row in rows(page)] == [
        ["Changes to app state ↗"],
        ["ben / s9 ↗"],
        ["ana / s1 ↗"],
    ]


def test_a_write_names_its_turn_and_its_tool(anywhere: SessionRef, maria: Browser, add: Add, actor: Actor) -> None:
    answer = [{"function_response": {"id": "c", "name": "set_price", "response": {}}}] * 2
    for _turn in range(2):
        add(anywhere, {"text": "Cheaper, please"}, author="user")
        add(anywhere, content={"role": "user", "parts": answer}, **delta(count=_turn))
    edit_state(anywhere, [Entry("count", 7, 1)], actor=actor)
    newest, second, first, begun = [
        row.one("span", "whence").text for row in rows(session_page(maria, anywhere, "count"))
    ]
    assert (second, first) == ("agent turn 2 set_price", "agent turn 1 set_price")
    assert (newest, begun) == (f"{actor.name} turn 2", "initial state")


def test_null_removed_and_not_there_are_three_things(
    anywhere: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    add(anywhere, **delta(step=None))
    edit_state(anywhere, [Entry("step", ABSENT, None)], actor=actor)
    add(anywhere, **delta(step="again"))
    add(anywhere, **delta(step="again"))
    page = session_page(maria, anywhere, "step")
    assert told(page) == ['"again"as before', 'new"again"', "nullremoved", '"choose"→null', 'new"choose"']


def test_nan_that_an_agent_stored_is_told_from_a_text(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, **delta(count=12345))
    execute(ref.source, "UPDATE events SET event_data = replace(event_data, '12345', 'NaN')")
    assert told(session_page(maria, ref, "count"))[0] == "3→NaN"
    assert (
        rows(session_page(maria, ref, "count"))[0].one("ins").one("span", "n")["title"]
        == "not JSON, written by the agent"
    )


def test_what_nobody_recorded_is_unknown_and_not_guessed(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    add(anywhere, **delta(step="pay"))
    execute(anywhere.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    assert told(session_page(maria, anywhere, "step")) == ['unknown→"pay"']


def test_a_long_text_is_compared_by_words(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    text = "The customer wants to fly to Seoul on the first of December, and to sit at the aisle. " * 4
    add(anywhere, **delta(note=text))
    add(anywhere, **delta(note=text.replace("Seoul", "Busan", 1)))
    first = rows(session_page(maria, anywhere, "note"))[0]
    assert (first.texts("del"), first.texts("ins")) == (["Seoul"], ["Busan"])
    assert "more characters" in first.one("span", "cut").text
    assert first.one("pre").raw.startswith("The customer wants to fly to SeoulBusan on the first")


def test_a_nested_value_is_compared_by_paths(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    add(anywhere, **delta(options={"seat": "aisle", "meals": ["vegan"], "bags": 1}))
    add(anywhere, **delta(options={"seat": "window", "meals": ["none", "vegan"], "x y": {}}))
    first, second = rows(session_page(maria, anywhere, "options"))
    assert sorted(first.texts("li")) == ['["x y"]new{}', "bags1removed", 'meals[0]new"none"', 'seat"aisle"→"window"']
    assert 'seat: "aisle"' in second.one("details", "whole").all("summary")[0].text


def test_of_many_places_some_are_shown_and_the_others_counted(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    add(anywhere, **delta(many={str(n): n for n in range(100)}))
    add(anywhere, **delta(many={str(n): -n for n in range(100)}))
    first = rows(session_page(maria, anywhere, "many"))[0]
    assert len(first.all("li")) == 41
    assert first.one("li", "cut").text == "… 59 more differences …"


def test_a_number_has_a_line_and_the_line_has_words(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    for number in (5, 1, 4):
        add(anywhere, **delta(count=number))
    figure = session_page(maria, anywhere, "count").one("figure")
    assert figure.all("svg")[0]["aria-label"] == "From 3 to 4; lowest 1, highest 5"
    assert figure.one("div", "values").texts("span") == ["5", "1"]
    assert [step.one("text").text.split(" · ")[0] for step in figure.all("g", "step")] == ["3", "5", "1", "4"]
    assert len(figure.one("polyline")["points"].split()) == 8
    assert (len(figure.one("figcaption").all("time")), figure.one("figcaption").one("b").text) == (1, "Now")
    assert session_page(maria, anywhere, "step").all("figure") == []


@pytest.mark.parametrize(
    ("values", "stretches"),
    [
        ([1, 2], [4]),
        ([1, None, 2, 3], [2, 4]),
        ([1, float("nan"), True, "4", 10**400, 2], [2, 2]),
        ([-1.7e308, 1.7e308], [4]),
        ([5e-324, 0.0], [4]),
        ([7, 7, 7], [6]),
        ([1], None),
        ([], None),
        (["a", "b"], None),
    ],
)
def test_a_line_has_a_step_for_each_number_and_a_gap_for_anything_else(
    values: list[Any], stretches: list[int] | None
) -> None:
    drawn = line([(float(at), value) for at, value in enumerate(values)], float(len(values)))
    assert (drawn and [len(points.split()) for points in drawn.stretches]) == stretches
    for point in " ".join(drawn.stretches).split() if drawn else ():
        x, y = map(float, point.split(","))
        assert drawn
        assert 0 <= x <= drawn.width
        assert 0 <= y <= drawn.height


def test_a_value_is_as_wide_as_it_lasted_and_a_long_time_is_folded() -> None:
    drawn = line([(0.0, 1), (10.0, 2), (30.0, 3), (40.0, 2), (86_400.0 * 2, 4)], 86_400.0 * 2 + 20)
    assert drawn
    one, two, three, waited, last = [float(step.width.rstrip("%")) for step in drawn.steps]
    assert abs(two - 2 * one) < 1
    assert abs(three - one) < 0.1
    assert abs(last - two) < 0.1
    assert waited < 60  # two days, beside seconds
    (fold,) = drawn.folds
    assert fold.days == 2
    assert float(drawn.steps[3].x.rstrip("%")) < float(fold.x.rstrip("%"))


@pytest.mark.parametrize("draw", [line, lane])
def test_the_last_value_goes_on_until_now(draw: Callable[..., Line | Lane]) -> None:
    values = [(0.0, 412), (100.0, 0)] if draw is line else [(0.0, "pay"), (100.0, "done")]
    soon, later = draw(values, 400.0), draw(values, 6 * 86_400.0)
    assert [round(float(step.width.rstrip("%"))) for step in soon.steps] == [25, 75]
    assert [step.seconds for step in soon.steps] == [100, 300]
    assert (soon.folds, soon.is_short) == ([], True)
    (fold,) = later.folds
    assert (fold.days, later.is_short) == (6, False)
    assert float(fold.x.rstrip("%")) + float(fold.width.rstrip("%")) == pytest.approx(100)
    assert [step.is_folded for step in later.steps] == [False, True]


def test_words_are_a_lane_in_which_equal_ones_have_one_colour_and_each_has_room() -> None:
    words = ["choose", "pay", ABSENT, "done", "choose"]
    written = [(0.0, UNKNOWN), *((float(at), word) for at, word in enumerate(words, 1)), (86_440.0, "done")]
    drawn = lane(written, 86_441.0)
    assert drawn
    assert [(step.value, step.colour) for step in drawn.steps] == [
        ("choose", 0),
        ("pay", 1),
        ("done", 2),
        ("choose", 0),
        ("done", 2),
    ]
    assert min(float(step.width.rstrip("%")) for step in drawn.steps) >= 10
    last = drawn.steps[-1]
    assert float(last.x.rstrip("%")) + float(last.width.rstrip("%")) == pytest.approx(100)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, None], True),
        (["a", "b"], True),
        (["a", "a"], False),
        (["a", 1], False),
        (["a", {"b": 1}], False),
        (["a", "b" * 41], False),
        ([str(number) for number in range(9)], False),
        ([ABSENT, UNKNOWN], False),
    ],
)
def test_only_a_few_short_words_are_a_lane(values: list[Any], expected: bool) -> None:
    assert (lane([(float(at), value) for at, value in enumerate(values)], 9.0) is not None) == expected


# --- Pages and keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("htmx", [True, False])
def test_older_values_come_by_page(anywhere: SessionRef, maria: Browser, add: Add, htmx: bool) -> None:
    for number in range(PAGE + 5):
        add(anywhere, **delta(n=number))
    page = session_page(maria, anywhere, "n")
    rows = told(page)
    assert len(rows) == PAGE
    assert "the 50 newest values" in page.one("figcaption").text
    page = maria.open(page.links()["Older values"], htmx=htmx)
    assert bool(page.all("html")) != htmx
    assert page.all("figure") == []  # none of these values is the one that holds now
    rows += told(page)
    assert rows == [f"{n - 1}→{n}" for n in range(PAGE + 4, 0, -1)] + ["new0"]
    assert "Older values" not in page.links()


def test_another_key_can_be_chosen(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("session-history", **ref._asdict())
    assert page.one("h1").text == "History of a key"
    offered = ["step", "count", "nothing", "app:limit", "user:tier"]
    assert [link["data-name"] for link in page.one("div", "keychoices").all("a")] == offered
    links = {link.text: link["href"] for link in page.one("ul", "keylist").all("a")}
    assert list(links) == offered
    assert maria.open(links["user:tier"]).one("h1").text == "user:tier"


def test_keys_that_are_gone_are_offered_too_and_said_to_be(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    long = "k" * 600
    add(anywhere, **delta(**{"draft": 1, long: 2, "user:trial": True, "app:beta": 1}))
    gone = [Entry("draft", ABSENT, 1), Entry(long, ABSENT, 2), Entry("user:trial", ABSENT, True)]
    edit_state(
        anywhere,
        [*gone, Entry("app:beta", ABSENT, 1), Entry("step", ABSENT, "choose")],
        actor=Actor.holding("m", "admin"),
    )
    offered = {
        "session": ["app:beta", "draft", long, "step", "user:trial"],
        "user": ["user:trial"],
        "app": ["app:beta"],
    }
    for number, (kind, names) in enumerate(offered.items()):
        page = maria.open(f"{kind}-history", **names_of(anywhere, 4 - number))
        assert [link.one("span", "name")["title"] for link in page.one("ul", "gone").all("a")] == names
        assert page.one("ul", "gone").texts("span", "z") == ["removed"] * len(names)
        assert not {*names} & {item["title"] for item in page.all("ul", "keylist")[0].all("span", "name")}
        last = maria.open(page.one("ul", "gone").all("a")[-1]["href"])
        assert rows(last)[0].one("div", "change").text.endswith("removed")


def test_the_key_can_be_edited_from_here_unless_adkweb_only_reads(
    ref: SessionRef, maria: Browser, settings: Any, add: Add
) -> None:
    add(ref, **delta(step="pay"))
    links = session_page(maria, ref, "step").links()
    assert "Restore" in links
    assert links["Edit e"] == reverse("session-edit", kwargs=ref._asdict()) + "?key=step"
    settings.READ_ONLY = True
    links = session_page(maria, ref, "step").links()
    assert not {"Edit e", "Restore"} & links.keys()
    assert "Compare" in links


# --- Hostile values ---------------------------------------------------------------------------------------------------

told_apart = st.sampled_from(
    [ABSENT, UNKNOWN, float("nan"), float("-inf"), "\ud83d", {"\udc69": ["\ud83d"]}, "<b>" * 99]
)
anything = json_values | told_apart


@given(anything, anything)
def test_nothing_in_a_value_becomes_a_part_of_the_page(old: Any, new: Any) -> None:
    element, problems = read(str(Differences().html(old, new)))
    assert problems == []
    assert element.text


def test_a_page_of_large_values_is_answered_soon(anywhere: SessionRef, maria: Browser, add: Add) -> None:
    rng = random.Random(1)
    for _number in range(12):
        lines = [f"{rng.random()} {'word ' * rng.randrange(30)}" for _line in range(4_000)]
        add(anywhere, **delta(text="\n".join(lines), tree={line: line.split() for line in lines}))
    for name in ("text", "tree"):
        start = time.process_time()
        page = session_page(maria, anywhere, name)
        assert len(rows(page)) == 12
        assert time.process_time() - start < 5
        assert len(str(page.text)) < 500_000


# --- Nothing to show --------------------------------------------------------------------------------------------------


def test_a_removed_key_says_so_and_has_its_history(anywhere: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_state(anywhere, [Entry("count", ABSENT, 3)], actor=actor)
    page = session_page(maria, anywhere, "count")
    assert page.one("div", "keynow").text == "Now this key no longer exists"
    assert told(page) == ["3removed", "new3"]


def test_a_key_that_never_was_says_so(anywhere: SessionRef, maria: Browser) -> None:
    page = session_page(maria, anywhere, "no such")
    assert page.one("div", "empty").one("h2").text == "No such key"
    assert rows(page) == []


def test_a_key_that_no_event_wrote_says_so(anywhere: SessionRef, maria: Browser) -> None:
    execute(anywhere.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    page = session_page(maria, anywhere, "count")
    assert page.one("div", "keynow").text == "Now 3"
    assert page.one("div", "empty").one("h2").text == "No event wrote this key"


@pytest.mark.parametrize(
    ("page", "count", "name"),
    [("app-history", 2, "user:tier"), ("user-history", 3, "step"), ("user-history", 3, "app:x")],
)
def test_a_key_of_another_scope_has_its_history_elsewhere(
    ref: SessionRef, maria: Browser, page: str, count: int, name: str
) -> None:
    wrong = maria.open(page, query={"key": name}, status=400, **names_of(ref, count))
    assert "keys here must start with" in wrong.one("main").text


def test_a_temporary_key_has_none(ref: SessionRef, maria: Browser) -> None:
    page = session_page(maria, ref, "temp:x", status=400)
    assert "temp: keys live for one invocation and are never stored" in page.one("main").text


def test_a_place_in_the_list_that_is_none_is_refused(ref: SessionRef, maria: Browser) -> None:
    page = session_page(maria, ref, "step", query={"before": "nonsense"}, status=400)
    assert "isn't valid" in page.one("main").text


@pytest.mark.parametrize("page", ["session-history", "user-history", "app-history"])
def test_what_does_not_exist_is_not_found(ref: SessionRef, maria: Browser, page: str) -> None:
    names = {name: "nobody" if name != "source" else ref.source for name in ref._fields}
    count = {"session-history": 4, "user-history": 3, "app-history": 2}[page]
    maria.open(page, query={"key": "app:x"}, status=404, **dict(list(names.items())[:count]))


def test_while_events_are_being_read_the_page_says_how_far(
    anywhere: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(anywhere, 12_000)
    monkeypatch.setattr(build, "SECONDS", 0.0)  # no time to wait
    waiting = session_page(maria, anywhere, "count", status=503).one("div", "behind").one("progress")
    assert 0 < float(waiting["value"]) < float(waiting["max"])
    monkeypatch.undo()
    build.catch_up(anywhere.source, 60)
    assert rows(session_page(maria, anywhere, "count"))


@pytest.mark.parametrize(
    "name", ["", " ", "a\0b", "x" * 5_000, "ключ 👩‍👩‍👧‍👦", "<script>alert(1)</script>", "{{ 7|add:7 }}"]
)
def test_any_text_may_be_asked_for(anywhere: SessionRef, maria: Browser, name: str) -> None:
    assert "No such key" in session_page(maria, anywhere, name).one("div", "empty").text
