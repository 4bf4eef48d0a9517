"""Two runs beside each other: where they part, in what, and what the agents saw just before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import fork as forks
from sessions_app.edits.edit import Entry, edit_user_state
from sessions_app.reads import timeline
from sessions_app.web.session import runs
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
Add = Callable[..., str]
Event = dict[str, Any]
MONEY: dict[str, Any] = {"good-run": ("EUR", 412.5, "1.4.0"), "bad-run": ("USD", 0, "1.4.1")}


def link(ref: SessionRef) -> str:
    return reverse("session", kwargs=ref._asdict())


def compared(browser: Browser, left: SessionRef, right: SessionRef, **query: str) -> Element:
    return browser.open("compare", query={"with": link(right), **query}, **left._asdict())


def rows(page: Element) -> list[tuple[str, str]]:
    """The events that stand beside each other, by author and words; “—” where there is none."""
    return [tuple(_words(cell) for cell in row.all("div", "cell")) for row in page.all("div", "cmp")]  # type: ignore[misc]


def _words(cell: Element) -> str:
    if not cell.all("div", "told"):
        return "—"
    return f"{cell.one('b', 'who').text}: {cell.one('span', 'line').text}"


def heads(page: Element) -> list[str]:
    """The heads of the turns and what is folded."""
    return [each.text for each in [*page.all("summary", "inv"), *page.all("h3", "inv")]]


@pytest.fixture
def run(source: str, actor: Actor, add: Add) -> Callable[[str], SessionRef]:
    """Makes the good run or the bad one, on each kind of database."""

    def make(name: str) -> SessionRef:
        currency, price, version = MONEY[name]
        state = {"currency": currency, "city": "Lisbon", "version": version}
        ref = create_session(source, "booking", "ana", session_id=name, state=state, actor=actor)
        add(ref, {"text": "Which flights?"}, author="user")
        add(ref, {"text": "Two: TP431 and KE924."}, author="booking")
        add(ref, {"text": "Book TP431 for Ana"}, author="user", invocation_id="i2")
        args = {"flight": "TP431", "currency": currency}
        add(ref, {"function_call": {"id": name, "name": "search", "args": args}}, author="booking")
        answer = {"function_response": {"id": name, "name": "search", "response": {"price": price}}}
        add(ref, answer, author="booking", actions={"state_delta": {"price": price}})
        if price:
            add(ref, {"function_call": {"id": "c", "name": "charge", "args": {"amount": price}}}, author="booking")
        add(ref, {"text": f"It was {'booked: KX81-2' if price else 'not booked: no price'}."}, author="booking")
        return ref

    return make


@pytest.fixture
def good(run: Callable[[str], SessionRef]) -> SessionRef:
    return run("good-run")


@pytest.fixture
def bad(run: Callable[[str], SessionRef]) -> SessionRef:
    return run("bad-run")


# --- Where they part --------------------------------------------------------------------------------------------------


def test_turns_that_are_the_same_are_folded_and_the_first_divergence_says_what_it_is(
    good: SessionRef, bad: SessionRef, maria: Browser
) -> None:
    page = compared(maria, good, bad)
    assert heads(page)[:2] == ["Turn 1 is the same · 2 events", "Turn 2"]
    assert rows(page)[2:] == [
        ("user: Book TP431 for Ana", "user: Book TP431 for Ana"),
        ('booking: search(flight="TP431", currency="EUR")', 'booking: search(flight="TP431", currency="USD")'),
        ("booking: search → {price: 412.5}", "booking: search → {price: 0}"),
        ("booking: charge(amount=412.5)", "—"),
        ("booking: It was booked: KX81-2.", "booking: It was not booked: no price."),
    ]
    first = page.one("div", id="first-divergence")
    assert first.one("p", "says").text == "First divergence: an argument of a tool call"
    assert first.texts("mark") == ["EUR", "USD"]
    assert [a.text for a in first.all("a", "seq")] == ["A4", "B4"]
    assert len([row for row in page.all("div", "cmp") if "data-differs" in row]) == 4
    assert maria.open(first.all("a", "seq")[1]["href"]).text


def test_the_chips_count_and_choose_what_differs(good: SessionRef, bad: SessionRef, maria: Browser) -> None:
    page = compared(maria, good, bad)
    bar = page.one("nav", "runbar")
    assert [chip.text for chip in bar.all("a", "chip")] == [
        *("All", "Differences 4", "State 1", "Tools 3"),
        "What the model got",
    ]
    links = {chip.text.split()[0]: chip["href"] for chip in bar.all("a", "chip")}
    assert [left for left, _right in rows(maria.open(links["State"]))] == ["booking: search → {price: 412.5}"]
    assert len(rows(maria.open(links["Tools"]))) == 3
    assert len(rows(maria.open(links["Differences"]))) == 4
    assert rows(maria.open(links["All"])) == rows(page)


def test_it_says_in_what_the_state_differed_that_the_agents_saw(
    good: SessionRef, bad: SessionRef, maria: Browser
) -> None:
    page = compared(maria, good, bad)
    why = page.one("section", "why")
    assert [each.text for each in why.all("a") if "history" in each["href"]] == ["currency", "version"]
    assert [change.text for change in why.all("div", "change")] == ['"EUR"', '"USD"', '"1.4.0"', '"1.4.1"']
    assert "1 key is the same" in why.text


def test_who_wrote_what_differed_stands_beside_it(source: str, maria: Browser, actor: Actor, add: Add) -> None:
    left, right = (create_session(source, "booking", user, actor=actor) for user in ("ana", "ben"))
    edit_user_state(source, "booking", "ben", [Entry("user:tier", "gold", ABSENT)], actor=actor, reason="try")
    for ref, words in ((left, "It costs 1."), (right, "It costs 2.")):
        add(ref, {"text": "Go"}, author="user")
        add(ref, {"text": words})
    why = compared(maria, left, right).one("section", "why")
    assert [each.text for each in why.all("div", "change")] == ["no such key", '"gold"']
    (writer,) = why.all("a", "by")
    assert writer.text == f"{actor.name}, edit"
    assert maria.open(writer["href"]).text


def test_figures_are_told_with_their_difference(good: SessionRef, bad: SessionRef, maria: Browser, add: Add) -> None:
    add(bad, {"text": "Sorry."}, usage_metadata={"total_token_count": 1200}, timestamp=2_000_000_000.0)
    heads = [section.text for section in compared(maria, good, bad).all("section", "runhead")]
    assert "2 turns" in heads[0]
    assert "1.2k tok +1.2k" in heads[1]
    assert "bad-run" in heads[1]
    swapped = compared(maria, good, bad).links()["Swap"]
    assert swapped.endswith("#first-divergence")
    assert "bad-run" in maria.open(swapped.partition("#")[0]).all("section", "runhead")[0].text


def test_a_run_compared_with_itself_has_no_difference(good: SessionRef, maria: Browser) -> None:
    page = compared(maria, good, good)
    assert page.one("div", "empty").one("h2").text == "No difference"
    assert page.all("div", id="first-divergence") == []
    assert page.all("section", "why") == []


def test_what_a_line_does_not_show_is_told_in_full(source: str, maria: Browser, actor: Actor, add: Add) -> None:
    left, right = (create_session(source, "booking", "ana", actor=actor) for _ in range(2))
    for ref, end in ((left, "one"), (right, "two")):
        add(ref, {"text": "Go"}, author="user")
        add(ref, {"text": "long " * 200 + end})
    full = compared(maria, left, right).one("details", "more")
    assert [each.text for each in (*full.all("del"), *full.all("ins"))] == ["one", "two"]


# --- What only one of them has, and what no state explains -----------------------------------------------------------


@pytest.fixture
def start(source: str, actor: Actor, add: Add) -> Callable[..., SessionRef]:
    """Makes a session of these messages: a question, its answer, and so on."""

    def make(*said: str, state: dict[str, Any] | None = None, seconds: float = 1.0) -> SessionRef:
        ref = create_session(source, "booking", "ana", state=state or {}, actor=actor)
        for number, text in enumerate(said):
            author = "booking" if number % 2 else "user"
            add(ref, {"text": text}, author=author, timestamp=1_790_000_000.0 + number * seconds)
        return ref

    return make


def test_turns_that_only_one_run_has_are_a_line_that_opens(start: Callable[..., SessionRef], maria: Browser) -> None:
    short = start("Hi", "Hello")
    long = start("Hi", "Hello", *("More", "Well", "And?", "Well", "So?", "Well", "Then?", "Well"))
    page = compared(maria, short, long)
    band = page.one("details", id="first-divergence")
    assert band.all("summary")[0].text == "First divergence: Only in B: turns 2 to 5 · 8 events"
    assert "data-differs" in band
    assert len(band.all("div", "cmp")) == 8
    rest = band.one("details", "sameturns")
    assert ("open" in band, "open" in rest) == (True, False)  # where the runs part, the first events are in sight
    assert (rest.one("summary").text, len(rest.all("div", "cmp"))) == ("2 more events", 2)
    assert "no counterpart" not in band.text
    assert page.all("p", "says") == []
    (one,) = compared(maria, start("Hi", "Hello", "More", "Well"), short).all("details", "only")
    assert one.one("summary").text == "First divergence: Only in A: turn 2 · 2 events"
    assert "open" in one


def test_many_events_of_a_turn_that_only_one_run_has_are_a_line(
    start: Callable[..., SessionRef], maria: Browser, add: Add
) -> None:
    short, long = start("Hi"), start("Hi")
    for number in range(4):
        add(long, {"function_call": {"id": f"c{number}", "name": "look", "args": {}}}, author="booking")
    for ref in (short, long):
        add(ref, {"text": "Hello"}, author="booking")
    page = compared(maria, long, short)
    assert page.one("details", "only").one("summary").text == "First divergence: Only in A · 4 events"
    assert "open" in page.one("details", "only")
    assert page.one("details", "only").all("section", "why") == []
    assert page.one("section", "why")


def test_no_state_explains_what_a_user_said(start: Callable[..., SessionRef], maria: Browser) -> None:
    left, right = start("Book it", "Done.", state={"city": "Rome"}), start("Stop", "Done.", state={"city": "Oslo"})
    page = compared(maria, left, right)
    assert page.one("p", "says").text == "First divergence: the user's message"
    assert page.all("section", "why") == []
    assert compared(maria, left, start("Book it", "No.")).one("section", "why")


def test_keys_that_are_unknown_are_named_with_the_run(
    start: Callable[..., SessionRef], maria: Browser, add: Add
) -> None:
    left, right = start("Hi", "One", state={"a": 1}), start("Hi", "Two", state={"a": 1})
    add(left, actions={"state_delta": {"a": 2}})
    execute(
        left.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL WHERE id = %s", [left.session_id]
    )
    assert "Unknown in A: a" in compared(maria, left, right).one("section", "why").text
    assert "Unknown in B: a" in compared(maria, right, left).one("section", "why").text


def test_of_many_keys_that_differ_the_first_are_in_sight(start: Callable[..., SessionRef], maria: Browser) -> None:
    left, right = (start("Hi", text, state={f"k{n:02}": text for n in range(20)}) for text in ("One", "Two"))
    why = compared(maria, left, right).one("section", "why")
    assert why.one("details").one("summary").text == "8 more keys that differ"
    assert len(why.all("div", role="row")) == 20 + 2  # and two heads


def test_a_difference_of_less_than_a_tenth_of_a_second_is_not_told(
    start: Callable[..., SessionRef], maria: Browser
) -> None:
    left, right, slow = (start("Hi", "Hello", seconds=seconds) for seconds in (1.0, 1.04, 3.0))
    assert compared(maria, left, right).one("main").all("b", "worse") == []
    assert compared(maria, left, slow).one("main").one("b", "worse").text == "+2.0 s"


# --- Forks and long runs ----------------------------------------------------------------------------------------------


def test_a_fork_is_compared_from_where_it_left_its_origin(
    good: SessionRef, maria: Browser, actor: Actor, add: Add
) -> None:
    events = timeline.events(good, actor=SYSTEM).rows
    into = forks.fork(good, events[3].id, user_id="ana", session_id="again", actor=actor)
    add(into, {"text": "It costs 400."}, author="booking")
    page = compared(maria, good, into)
    assert rows(page) == [
        ("booking: search → {price: 412.5}", "—"),
        ("booking: charge(amount=412.5)", "—"),
        ("booking: It was booked: KX81-2.", "booking: It costs 400."),
    ]
    assert "The runs are the same up to here · 4 events" in page.text
    assert heads(page)[0] == "Turn, continued"
    assert page.one("div", id="first-divergence").all("a", "seq")[0].text == "A5"
    whole = maria.open(page.links()["from the beginning"])
    assert len(rows(whole)) == len(rows(page)) + 4
    assert compared(maria, into, good).one("p", "says").text == "First divergence: an event only in B"
    line = maria.open("forks", htmx=True, **into._asdict())
    assert line.links()["Compare with origin"] == (
        f"{reverse('compare', kwargs=good._asdict())}?with={link(into).replace('/', '%2F')}#first-divergence"
    )


@pytest.fixture
def long(source: str, actor: Actor, add: Add, monkeypatch: pytest.MonkeyPatch) -> tuple[SessionRef, SessionRef]:
    """Two runs of many turns, read ten events at a time, that differ in their 30th turn."""
    monkeypatch.setattr(runs, "MOST", 10)
    refs = [create_session(source, "booking", "ana", actor=actor) for _ in range(2)]
    for number, ref in enumerate(refs):
        for turn in range(32):
            add(ref, {"text": f"Question {turn + 1}"}, author="user")
            add(ref, {"text": f"Answer {number if turn == 29 else ''}"})
    return refs[0], refs[1]


def test_of_long_runs_the_first_pages_that_are_the_same_are_passed_over(
    long: tuple[SessionRef, SessionRef], maria: Browser
) -> None:
    page = compared(maria, *long)
    assert "The runs are the same up to here" in page.text
    assert page.one("div", "empty").one("h2").text == "No differences on this page"
    on = next(text for text in page.links() if text.startswith("Continue from turn"))
    page = maria.open(page.links()[on])
    assert "Earlier differences are on another page" in page.text
    for _page in range(3):
        on = next((text for text in page.links() if text.startswith("Continue from turn")), "")
        if page.all("div", id="first-divergence"):
            break
        page = maria.open(page.links()[on])
    first = page.one("div", id="first-divergence")
    assert [a.text for a in first.all("a", "seq")] == ["A60", "B60"]
    assert "Turn 30" in heads(page)


def test_a_page_leaves_for_the_next_what_the_other_run_may_have_there(
    long: tuple[SessionRef, SessionRef], maria: Browser, add: Add, source: str, actor: Actor
) -> None:
    short = create_session(source, "booking", "ana", actor=actor)
    for turn in (1, 2, 9, 10):
        add(short, {"text": f"Question {turn}"}, author="user")
        add(short, {"text": "Answer "})
    page = compared(maria, long[0], short, page="0")
    assert [row for row in rows(page) if row[0] == "—"] == []
    assert "Continue" in " ".join(page.links())


@pytest.mark.parametrize("page", ["x", "MQ", "WyJ4Il0"])
def test_a_link_to_no_page_is_refused(good: SessionRef, bad: SessionRef, maria: Browser, page: str) -> None:
    maria.open("compare", query={"with": link(bad), "page": page}, status=400, **good._asdict())


# --- How one gets there -----------------------------------------------------------------------------------------------


def test_two_sessions_of_the_table_are_compared(good: SessionRef, bad: SessionRef, maria: Browser) -> None:
    answer = maria.post(reverse("chosen"), {"act": "compare", "ref": [link(good), link(bad)]})
    address, _at, fragment = answer["Location"].partition("#")
    assert fragment == "first-divergence"
    assert rows(maria.open(address)) == rows(compared(maria, good, bad))


def test_another_run_is_chosen_from_a_list_or_by_a_link(good: SessionRef, bad: SessionRef, maria: Browser) -> None:
    feed(good.source)
    page = maria.open("compare", **good._asdict())
    (one,) = page.one("ul", "otherruns").all("a")
    assert one.text == "Which flights?"
    assert rows(maria.open(one["href"].partition("#")[0])) == rows(compared(maria, good, bad))
    nobody = maria.open("compare", query={"find": "user:nobody"}, **good._asdict())
    assert nobody.one("div", "empty").one("h2").text == "No other session"
    for text in (link(bad), f"http://testserver{link(bad)}"):
        answer = maria.get(reverse("compare", kwargs=good._asdict()), {"find": text})
        assert answer.status_code == 302
        assert answer["Location"].partition("#")[0].endswith("bad-run%2F")
    assert rows(compared(maria, good, good, **{"with": "bad-run"})) == rows(compared(maria, good, bad))


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("/", 400, "This isn't a session link. Session links start with /s/."),
        ("nobody", 400, "ana has no session “nobody” in this app. Enter a session id or link."),
        ("/s/{source}/booking/ana/gone/", 404, "There's no session “gone”."),
    ],
)
def test_what_leads_to_no_session_comes_back_with_the_reason(
    good: SessionRef, maria: Browser, asked: str, status: int, said: str
) -> None:
    asked = asked.format(source=good.source)
    page = maria.open("compare", query={"with": asked}, status=status, **good._asdict())
    assert page.one("p", "error").text == said
    assert page.one("input", id="find")["value"] == asked


def test_the_state_of_two_runs_is_a_tab_away(good: SessionRef, bad: SessionRef, maria: Browser) -> None:
    page = compared(maria, good, bad)
    states = maria.open(page.one("nav", "momenttabs").links()["State"])
    assert states.one("h1").text == "Compare two sessions"
    back = states.one("nav", "momenttabs").links()["Events"].partition("#")[0]
    assert rows(maria.open(back)) == rows(page)
