"""The page “Sessions” and the query bar: what they say of a query, and where their links, forms and menus lead.

What a query selects is tested in tests/search/; here it is given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.domain.clock import Took
from sessions_app.domain.errors import Slow
from sessions_app.domain.positions import Seq
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import UNKNOWN
from sessions_app.search import tree
from sessions_app.search.completing import Suggestion
from sessions_app.search.health import Bar
from sessions_app.search.language import parse
from sessions_app.search.results import MOST_COLUMNS, Match, Results, Row
from sessions_app.web.search import columns, histogram, params, results
from sessions_app.web.search.params import Asked
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.people import ALICE, somebody
from tests.support.stored import events_of
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
HOUR = 3600.0
ROW = Row(
    ref=SessionRef("prod", "booking", "nadia", "s1"),
    title="Find me a flight to Seoul",
    status="failed",
    created=NOON - HOUR,
    last=NOON,
    took=Took(7.4),
    turns=3,
    events=18,
    tokens=12_100,
    error="fare expired: quote Q-88213 is too old",
    error_seq=Seq(16),
)
MATCH = Match(Seq(12), "message", "booking failed: ", "fare expired", ": too old")


class World:
    """Records what the functions of search/ were asked, and what they answer."""

    def __init__(self) -> None:
        self.rows = [ROW]
        self.next: str | None = None
        self.more = False
        self.total = 0
        self.behind: list[tuple[str, float]] = []
        self.broad: list[str] = []
        self.bars = [Bar(NOON + n * HOUR, NOON + (n + 1) * HOUR, n, n // 2) for n in range(-3, 4)]
        self.suggestions: list[Suggestion] = []
        self.asked: list[dict[str, Any]] = []
        self.over: list[tree.Query] = []

    def search(self, query: tree.Query, **given: Any) -> Results:
        """Answers `results.search`."""
        self.asked.append({"query": query, **given})
        return Results(self.rows, self.next, len(self.rows), self.more, 41.3, self.behind, self.broad, self.total)

    def histogram(self, query: tree.Query, *, actor: Actor) -> list[Bar]:
        """Answers `histogram.histogram`."""
        self.over.append(query)
        return self.bars

    def complete(self, text: str, at: int, *, actor: Actor, app: str) -> list[Suggestion]:
        """Answers `completing.complete`."""
        self.asked.append({"text": text, "at": at})
        return self.suggestions


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """An index whose answers a test chooses."""
    world = World()
    world.bars = [Bar(NOON + n * HOUR, NOON + (n + 1) * HOUR, n + 3, n + 2) for n in range(-3, 1)]
    monkeypatch.setattr(results, "search", world.search)
    monkeypatch.setattr(histogram, "histogram", world.histogram)
    monkeypatch.setattr(params, "suggestions_for", world.complete)
    return world


def open_(maria: Browser, text: str = "", *, htmx: bool = False, **query: Any) -> Element:
    """The page for a query, or what htmx gets of it."""
    return maria.open("search", htmx=htmx, query={**({"q": text} if text else {}), **query})


def asked_of(address: str) -> dict[str, str]:
    """Returns what an address asks for."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def an_asked(text: str, zone: str = "UTC") -> Asked:
    """Returns what somebody asks for at noon."""
    return Asked(text, columns.SORT, columns.read(None), NOON, ZoneInfo(zone))


def test_a_search_that_takes_too_long_is_given_up_and_can_be_asked_for_again(
    maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any, **__: Any) -> None:
        raise Slow("This search took longer than 3 seconds.")

    monkeypatch.setattr(results, "search", slow)
    page = open_(maria, "a b")
    assert page.one("div", "empty").one("h2").text == "This search took longer than 3 seconds."
    longer = page.one("a", "primary")["href"]
    assert asked_of(longer) == {"q": "a b", "long": "1"}
    assert not maria.open(longer).all("a", "primary")
    assert open_(maria, "a b", htmx=True).one("div", "empty").text == page.one("div", "empty").text


# --- The table --------------------------------------------------------------------------------------------------------


def test_a_row_says_what_a_session_is_and_leads_to_the_line_that_matched(world: World, maria: Browser) -> None:
    world.rows = [dataclasses.replace(ROW, match=MATCH)]
    page = open_(maria, '"fare expired"')
    row = page.one("tr", data_preview=reverse("preview", kwargs=ROW.ref._asdict()) + "?seq=12")
    link = row.one("a", "rowlink")
    assert (link.text, link["href"]) == (ROW.title, reverse("session", kwargs=ROW.ref._asdict()) + "?seq=12")
    assert row.one("span", "matched").text == "booking failed: fare expired: too old"
    assert row.one("mark").text == "fare expired"
    assert row.one("span", "visually-hidden").text == "failed"
    words = row.text
    for word in ("nadia", "booking", "7.4 s", "3", "18", "12.1k", "s1"):
        assert word in words
    assert world.asked[0]["query"].tree == tree.Text("fare expired")


def test_without_a_match_a_failed_session_leads_to_its_error_and_others_to_themselves(
    world: World, maria: Browser
) -> None:
    world.rows = [ROW, dataclasses.replace(ROW, status="idle"), dataclasses.replace(ROW, status="idle", error="")]
    rows = [row for row in open_(maria).all("tr") if "data-preview" in row]
    session = reverse("session", kwargs=ROW.ref._asdict())
    assert [row.one("a", "rowlink")["href"] for row in rows] == [f"{session}?seq=16", session, session]
    assert [row.texts("span", "matched") for row in rows] == [[ROW.error], [], []]
    rows = [row for row in open_(maria, "late -error:fare").all("tr") if "data-preview" in row]
    assert [row.one("a", "rowlink")["href"] for row in rows] == [f"{session}?seq=16", f"{session}?seq=16", session]


@pytest.mark.parametrize(
    ("status", "words"),
    [("running", "running"), ("waiting", "waiting for an answer"), ("stuck", "stuck"), ("idle", "done, with errors")],
)
def test_a_status_is_said_in_words(world: World, maria: Browser, status: str, words: str) -> None:
    world.rows = [dataclasses.replace(ROW, status=status)]
    cell = open_(maria).one("td", "statuscell")
    assert (cell.text, cell.one("span", status)["title"]) == (words, words)


def test_times_are_those_of_the_reader(world: World, maria: Browser) -> None:
    maria.cookies["adkweb_zone"] = "Asia/Seoul"
    open_(maria, "after:14:00")
    node = world.asked[0]["query"].tree
    assert datetime.fromtimestamp(node.seconds, ZoneInfo("Asia/Seoul")).strftime("%H:%M") == "14:00"
    for nonsense in ("Nowhere/Land", "../../etc/passwd", "%00", ""):
        maria.cookies["adkweb_zone"] = nonsense
        open_(maria, "after:14:00")
        assert datetime.fromtimestamp(world.asked[-1]["query"].tree.seconds, UTC).hour == 14


def test_state_keys_are_columns_with_their_values(world: World, maria: Browser) -> None:
    values = {"booking_step": "payment", "user:tier": None, "gone": UNKNOWN}
    world.rows = [dataclasses.replace(ROW, columns=values)]
    page = open_(maria, cols="user,state.booking_step,user:tier,state.gone")
    assert world.asked[0]["columns"] == ("booking_step", "user:tier", "gone")
    assert [head.text for head in page.one("table", "sessions").all("th")][2:] == [
        "User",
        "booking_step",
        "user:tier",
        "gone",
    ]
    assert [cell.text for cell in page.all("td", "statevalue")] == ['"payment"', "null", ""]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "שלום \u202e abc", "{{ 7 }} {% x %}", "' onx=\"y", "👩‍👩‍👧"]
)
def test_hostile_texts_are_texts(world: World, maria: Browser, text: str) -> None:
    ref = SessionRef("prod", text, text, "s1")
    match = Match(Seq(1), "message", text, text, text)
    world.rows = [
        dataclasses.replace(ROW, ref=ref, title=text, error=text, tags=(text,), columns={text: text}, match=match)
    ]
    world.suggestions = [Suggestion(text, 0, text)]
    page = open_(maria, text, cols=columns.write(columns.of_names([f"state.{text}", "tags", "error", "user", "app"])))
    assert page.one("a", "rowlink").text == " ".join(text.split())
    assert page.one(id="query")["value"] == text
    assert maria.open("complete", query={"q": text}, htmx=True).one("li", role="option")["data-text"] == text


def test_ids_that_begin_alike_are_told_apart_by_their_ends_and_names_are_whole(world: World, maria: Browser) -> None:
    refs = [SessionRef("prod", "booking", f"customer-5b60-4f0e-{n:04}", f"3f2a77aa-0d6f-{n:04}") for n in (1, 2)]
    world.rows = [dataclasses.replace(ROW, ref=ref, title="Refund") for ref in refs]
    rows = open_(maria).one("table", "sessions").one("tbody").all("tr")
    assert [row.all("td", "main")[0].all("span", "faint")[0].text for row in rows] == ["3f2a…0001", "3f2a…0002"]
    users = [row.one("td", "who").one("a") for row in rows]
    assert [(user.text, user["title"]) for user in users] == [(ref.user_id, ref.user_id) for ref in refs]


def test_the_next_rows_are_asked_for_by_their_cursor(world: World, maria: Browser) -> None:
    world.next = "later"
    address = open_(maria, "late", sort="-took", cols="user,took").links()["More sessions"]
    assert asked_of(address) == {"q": "late", "sort": "-took", "cols": "user,took", "page": "later"}
    world.next = None
    rows = maria.open(address, htmx=True)
    assert (world.asked[-1]["cursor"], world.asked[-1]["sort"]) == ("later", "-took")
    assert len(rows.all("tr")) == 1
    assert rows.all(id="querycount") == []
    assert maria.open(address).one("table", "sessions")  # without scripts


# --- Sorting and columns ----------------------------------------------------------------------------------------------


def test_heads_sort_from_above_where_that_is_what_one_looks_for_and_then_the_other_way(
    world: World, maria: Browser
) -> None:
    page = open_(maria, "late")
    heads = {head.text: head for head in page.one("table", "sessions").all("th")}
    assert heads["Started"]["aria-sort"] == "descending"
    assert world.asked[0]["sort"] == "-started"
    links = page.one("table", "sessions").links()
    assert asked_of(links["Took"]) == {"q": "late", "sort": "-took"}
    assert asked_of(links["User"]) == {"q": "late", "sort": "user"}
    assert asked_of(links["Started"]) == {"q": "late", "sort": "started"}
    again = maria.open(links["Took"])
    assert asked_of(again.one("table", "sessions").links()["Took"]) == {"q": "late", "sort": "took"}
    assert again.one("form", "querybar")  # which keeps the order
    kept = {each["name"]: each["value"] for each in again.all("input", form="querybar")}
    assert kept == {"sort": "-took"}


@pytest.mark.parametrize("sort", ["nonsense", "-", "'; DROP TABLE x", "-state"])
def test_an_order_that_there_is_not_is_the_usual_one(world: World, maria: Browser, sort: str) -> None:
    open_(maria, sort=sort)
    assert world.asked[0]["sort"] == "-started"


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ({"col": ["user", "took"]}, "user,took"),
        ({"col": ["user", "took", "tokens"], "move": "-1:tokens"}, "user,tokens,took"),
        ({"col": ["user", "took", "tokens"], "move": "1:user"}, "took,user,tokens"),
        ({"col": ["user", "took"], "move": "-1:user"}, "user,took"),
        ({"col": ["user", "took"], "move": "1:gone"}, "user,took"),
        ({"col": ["user"], "add": "booking_step"}, "user,state.booking_step"),
        ({"col": ["user"], "add": " user:tier "}, "user,user:tier"),
        ({"col": ["user"], "add": 'a,"b"'}, 'user,"state.a,""b"""'),
        ({"col": ["user", "user", "nonsense"]}, "user"),
    ],
)
def test_the_menu_chooses_and_orders_columns(world: World, maria: Browser, sent: dict[str, Any], wanted: str) -> None:
    response = maria.get(reverse("search"), {"q": "late", "sort": "-took", "choose": "1", **sent})
    assert asked_of(response["Location"]) == {"q": "late", "sort": "-took", "cols": wanted}
    shown = maria.open(response["Location"]).one(id="columns")
    assert columns.write(columns.of_names([each["value"] for each in shown.all("input", checked="")])) == wanted


def test_no_column_or_the_usual_ones_are_not_in_the_address(world: World, maria: Browser) -> None:
    for sent in ({"choose": "1"}, {"choose": "1", "col": list(columns.DEFAULT)}):
        assert maria.get(reverse("search"), sent)["Location"] == reverse("search")


@pytest.mark.parametrize("text", ["", ",", '"', "a\nb", 'x,"y', "state.", "user:", "state." + "k" * 9999, "\0"])
def test_columns_that_nobody_could_have_chosen_are_left_out(text: str) -> None:
    assert columns.read(text) == columns.read(None)


def test_there_are_at_most_as_many_state_columns_as_can_be_read() -> None:
    names = [*columns.DEFAULT, *(f"state.k{n}" for n in range(2 * MOST_COLUMNS))]
    assert len(columns.of_names(names)) == len(columns.DEFAULT) + MOST_COLUMNS


# --- The query bar ----------------------------------------------------------------------------------------------------


def test_it_stands_on_every_page_and_works_without_scripts(ref: SessionRef, maria: Browser) -> None:
    of_session = ("session", "session-history", "context", "artifacts")
    of_key = maria.open("session-history", query={"key": "step"}, **ref._asdict())
    for page in (
        maria.open("home"),
        maria.open("edits"),
        of_key,
        *(maria.open(name, **ref._asdict()) for name in of_session),
    ):
        form = page.one("form", "querybar")
        assert "Ctrl K" in form.text
        assert (form["action"], form.fields(), "hx-get" in form) == (reverse("search"), {"q": ""}, False)
        assert form.one("input")["data-key"] == "/"


def test_guests_have_none(guest: Browser) -> None:
    assert guest.open("sign-in").all("form", "querybar") == []
    for name in ("search", "complete"):
        assert guest.get(reverse(name)).status_code == 302


def test_what_is_wrong_is_marked_and_the_rest_is_used(world: World, maria: Browser) -> None:
    page = open_(maria, "user:nadia usr:x late")
    assert [(each["class"], each.text) for each in page.one(id="querymarks").all("mark")] == [
        ("filter", "user:nadia"),
        ("bad", "usr:x"),
    ]
    assert page.one(id="querymarks").raw.strip() == "user:nadia usr:x late"
    (problem,) = page.one(id="problems").all("p")
    assert problem.one("code").text == "usr:x"
    assert "user" in problem.text.removeprefix("usr:x")
    assert page.one(id="query")["aria-invalid"] == "true"
    assert world.asked[0]["query"].tree == parse("user:nadia late", now=NOON, zone=UTC).tree
    assert "aria-invalid" not in open_(maria, "late").one(id="query")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("late booking_step:choose fee", "late booking_step = choose fee"),
        ('tier:"very gold"', 'user:tier = "very gold"'),
        ("planet:choose", ""),
        ("user:nadia", ""),
        ("state.booking_step = choose", ""),
    ],
)
def test_a_filter_that_is_called_like_a_key_leads_to_the_condition_on_it(
    ref: SessionRef, maria: Browser, add: Callable[..., str], typed: str, meant: str
) -> None:
    add(ref, {"text": "late"}, actions={"state_delta": {"booking_step": "choose", "user:tier": "very gold"}})
    feed(ref.source)
    links = open_(maria, typed).one(id="problems").all("a")
    assert [asked_of(each["href"])["q"] for each in links] == ([meant] if meant else [])
    assert [each.text for each in links] == ([f"Did you mean “{meant}”?"] if meant else [])
    assert len(open_(maria, "booking_step = choose").all("a", "rowlink")) == 1


def test_htmx_gets_the_results_and_tells_the_bar(world: World, maria: Browser) -> None:
    fragment = open_(maria, "late", htmx=True)
    assert fragment.all("html") == []
    assert fragment.one(id="querycount").text == "1 session · 41 ms"
    assert fragment.one("div", hidden="")["data-asked"] == "late"
    world.more = True
    assert "1 session +" in open_(maria, "late", htmx=True).one(id="querycount").text
    world.total = 20_004
    assert open_(maria, "late", htmx=True).one(id="querycount").text == "1+ of 20,004 · 41 ms"


@pytest.mark.parametrize("text", ["(" * 5000, '"', "user:", "x" * 20_000, "\0", "a or", "-", "🧳" * 50, "١:٢"])
def test_any_text_has_a_page(world: World, maria: Browser, text: str) -> None:
    assert open_(maria, text).one("table", "sessions")


def test_suggestions_are_options_with_what_they_write_and_where(world: World, maria: Browser) -> None:
    world.suggestions = [Suggestion("nadia", 5, "user"), Suggestion("nadine", 5, "user")]
    options = maria.open("complete", query={"q": "user:na late", "at": "7"}, htmx=True).all("li", role="option")
    assert world.asked == [{"text": "user:na late", "at": 7}]
    assert [(each["data-text"], each["data-start"]) for each in options] == [("nadia", "5"), ("nadine", "5")]
    assert len({each["id"] for each in options}) == 2
    world.suggestions = [Suggestion("failed", 5, "did you mean", respelt=True)]
    options = maria.open("complete", query={"q": "late faild "}, htmx=True).all("li", role="option")
    assert [each.all("span")[0].text for each in options] == ["Search for “late faild”", "failed"]
    assert maria.get(reverse("complete"), {"q": "a&b"})["Location"] == reverse("search") + "?q=a%26b"


@pytest.mark.parametrize(
    ("at", "expected"), [("", 4), ("2", 2), ("99", 4), ("-1", 4), ("x", 4), ("9" * 999, 4), ("²", 4)]
)
def test_a_place_that_there_is_not_is_the_end(world: World, maria: Browser, at: str, expected: int) -> None:
    maria.open("complete", query={"q": "late", "at": at}, htmx=True)
    assert world.asked[0]["at"] == expected


def test_a_value_of_a_filter_says_how_many_sessions_it_finds(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    add(ref, {"function_call": {"name": "refund", "args": {}}})
    feed(ref.source)

    def offered(text: str) -> dict[str, str]:
        options = maria.open("complete", query={"q": text}, htmx=True).all("li", role="option")
        return {each.all("span")[0].text: each.one("span", "end").text for each in options if "data-text" in each}

    assert offered("late tool:") == {"refund": "1 session"}
    assert offered("tool") == {"tool:": "filter"}
    somebody(NAME, "viewer", "weather")
    assert offered("tool:") == {}


def palette(browser: Browser, **query: Any) -> dict[str, str]:
    """What the server says for the palette: the addresses by name."""
    options = browser.open("palette", query=query, htmx=True).all("li", role="option")
    return {each.all("span")[0].text: each["data-address"] for each in options if "data-address" in each}


def test_the_palette_has_the_pages_that_a_person_may_open(maria: Browser, settings: Settings) -> None:
    get_user_model().objects.update(is_superuser=True)
    every = palette(maria)
    administration = {"People", "Roles", "Tokens", "Masking", "Approval rules", "Retention", "Audit"}
    account = {"Password", "Second factor", "Sign-ins"}
    assert every.keys() == {"New session"} | administration | account
    for name, address in every.items():
        assert maria.open(address).one("h1").text == name or name == "Password"  # who has none chooses one there
    maria.send("save-view", {"name": "Failed bookings", "q": "error:any"})
    assert "Failed bookings" in palette(maria)
    settings.READ_ONLY = True
    assert every.keys() - palette(maria).keys() == {"New session", "Retention"}
    settings.READ_ONLY = False
    somebody(NAME, "viewer")
    get_user_model().objects.update(is_superuser=False)
    assert palette(maria).keys() == account | {"Failed bookings"}


def test_the_palette_names_recent_sessions_as_they_are_now_and_no_others(ref: SessionRef, maria: Browser) -> None:
    here = reverse("session", kwargs=ref._asdict())
    gone = reverse("session", kwargs=ref._replace(session_id="gone")._asdict())
    links = [here, gone, reverse("home"), "/nowhere/", "//[", here.replace(ref.source, "closed")]
    assert here in palette(maria, recent=links).values()
    assert palette(maria, recent=links).keys() - palette(maria).keys() == {ref.session_id}
    maria.send("session-title", {"title": "Late flight"}, **ref._asdict())
    assert palette(maria, recent=links)["Late flight"] == here
    feed(ref.source)
    assert palette(maria)["Late flight"] == here, "after a few, the last active ones"
    assert palette(maria, q="te fl")["Late flight"] == here, "what is typed is looked for in titles"
    somebody(NAME, "viewer", "weather")
    assert here not in palette(maria, recent=links).values()
    assert here not in palette(maria, q="te fl").values()


def test_the_palette_has_suggestions_that_are_no_other_spelling(world: World, maria: Browser) -> None:
    world.suggestions = [Suggestion("user:", 0, "filter"), Suggestion("use", 0, "did you mean", respelt=True)]
    options = maria.open("palette", query={"q": "us"}, htmx=True).all("li", role="option")
    assert [each["data-text"] for each in options if "data-text" in each] == ["user:"]
    assert maria.get(reverse("palette"))["Location"] == reverse("search")


# --- The histogram ----------------------------------------------------------------------------------------------------


def test_the_histogram_is_a_picture_and_a_table(world: World, maria: Browser) -> None:
    form = over_time(maria, "late")
    rows = [(row.one("th").text, *row.texts("td")) for row in form.one("tbody").all("tr")]
    assert [row[1:] for row in rows] == [("1", "0"), ("2", "1"), ("3", "2")]  # the empty one is left out
    assert form.one("span", "most").text == "Sessions with an event, up to 3"
    assert len(form.all("rect", "bar")) == 5
    assert [each["aria-valuenow"] for each in form.all(role="slider")] == ["0", "30"]
    world.bars = []
    assert maria.open("histogram", htmx=True, query={"q": "late"}).all("form") == []


@pytest.mark.parametrize(
    ("first", "hours", "zone", "expected"),
    [
        ("2026-11-23T12:10", 40, "UTC", ["18:00", "24 Nov", "06:00", "12:00", "18:00", "25 Nov"]),
        ("2026-11-23T12:10", 40, "Asia/Seoul", ["24 Nov", "06:00", "12:00", "18:00", "25 Nov", "06:00"]),
        ("2026-11-23T12:10", 2, "UTC", ["12:15", "12:30", "12:45", "13:00", "13:15", "13:30", "13:45", "14:00"]),
        (
            "2026-10-23T12:00",
            96,
            "Europe/Lisbon",
            ["24 Oct", "12:00", "25 Oct", "12:00", "26 Oct", "12:00", "27 Oct"],
        ),  # summer time ends
        ("2020-01-01T00:00", 24 * 365 * 20, "UTC", None),
    ],
)
def test_the_times_below_the_bars_are_round_in_the_readers_zone(
    first: str, hours: int, zone: str, expected: list[str] | None
) -> None:
    begun = datetime.fromisoformat(f"{first}Z").timestamp()
    with timezone.override(ZoneInfo(zone)):
        ticks = list(histogram.ticks_of(begun, begun + hours * HOUR, NOON))
    assert len(ticks) <= 8
    assert [tick.label for tick in ticks] == expected or not expected
    assert all(0 <= float(tick.x) <= 93 for tick in ticks)


def test_the_table_does_not_wait_for_the_histogram(world: World, maria: Browser) -> None:
    loading = open_(maria, "late").one(hx_target="#histogram")
    assert world.over == []
    assert asked_of(loading["hx-get"]) == {"q": "late"}
    world.rows = []
    assert open_(maria, "late").all(hx_target="#histogram") == []
    (link,) = [each for each in open_(maria, "late after:2026-01-01").all("a") if each.text == "All times"]
    assert asked_of(link["href"]) == {"q": "late"}  # a range without sessions can be left
    assert len(open_(maria, "late after:2026-01-01").all(hx_target="#histogram")) == 1


def over_time(maria: Browser, text: str, **query: Any) -> Element:
    """The histogram of a query, as htmx gets it."""
    return maria.open("histogram", htmx=True, query={"q": text, **query}).one("form", "histogram")


def test_what_is_dragged_becomes_a_filter_and_an_end_without_a_limit_none(world: World, maria: Browser) -> None:
    maria.cookies["adkweb_zone"] = "Asia/Seoul"
    form = over_time(maria, "late before:2020-01-01", sort="-took")
    sent = {**form.fields(), "from": str(NOON), "to": str(NOON + 90.5)}
    asked = asked_of(maria.get(form["action"], sent)["Location"])
    assert asked == {"q": "late after:2026-11-23T21:00 before:2026-11-23T21:01:30", "sort": "-took"}
    sent |= {"q": asked["q"], "to": ""}
    assert asked_of(maria.get(form["action"], sent)["Location"])["q"] == "late after:2026-11-23T21:00"
    for nonsense in ("", "nan", "inf", "-1", "x", "1e99"):
        sent |= {"from": nonsense}
        assert asked_of(maria.get(form["action"], sent)["Location"])["q"] == "late"


def test_around_a_chosen_range_there_is_room_to_drag_to(world: World) -> None:
    def shown(text: str) -> tuple[Any, Any]:
        histogram.draw(an_asked(text), Actor.holding("maria", "admin"))
        limits = {"after": None, "before": None}
        tree_ = world.over[-1].tree
        for node in tree_.children if isinstance(tree_, tree.And) else [tree_]:
            if isinstance(node, tree.Time):
                limits[node.name] = (node.seconds - NOON) / HOUR  # type: ignore[assignment]
        return limits["after"], limits["before"]

    assert shown("late") == (None, None)
    assert shown("late after:10:00 before:11:00") == (-3.5, None)  # it goes on until now
    assert shown("after:2026-11-22T00:00 before:2026-11-22T02:00") == (-39.0, -31.0)
    assert shown("after:10:00") == (-5.0, None)
    assert shown("before:10:00") == (None, None)
    assert shown("late or after:10:00") == (None, None)


def test_the_chosen_bars_stand_out(world: World) -> None:
    picture = histogram.draw(an_asked("after:10:00 before:11:00"), Actor.holding("maria", "admin"))
    assert picture
    assert [drawn.label for drawn in picture.bars if drawn.chosen] == ["10:00 – 11:00"]
    assert len(picture.bars) == 30  # of which four were counted
    later = histogram.draw(an_asked("after:2027-01-01"), Actor.holding("maria", "admin"))
    assert later
    assert [drawn.chosen for drawn in later.bars] == [False] * 29 + [True]
    assert picture.spoken == ("10:00", "11:00")
    assert (picture.goes_back, picture.goes_on) == (False, True)
    whole = histogram.draw(an_asked("late"), Actor.holding("maria", "admin"))
    assert whole
    assert not any(drawn.chosen for drawn in whole.bars)
    assert (whole.goes_back, whole.goes_on) == (True, True)


# --- What stands in its place -----------------------------------------------------------------------------------------


def test_where_nothing_matches_it_says_why_and_what_to_try(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    for step in ("choose", "pay"):
        add(ref, {"text": "the fare expired"}, actions={"state_delta": {"step": step}})
    feed(ref.source)

    def said(text: str) -> tuple[list[str], dict[str, str]]:
        empty = open_(maria, text, cols="user").one("div", "empty")
        links = {link.text: asked_of(link["href"]) for each in empty.all("ul", "instead") for link in each.all("a")}
        assert all(asked["cols"] == "user" for asked in links.values())
        return [each.text for each in empty.all("p")][:-1], {words: asked["q"] for words, asked in links.items()}

    was = {'"choose" 1': 'was.step = "choose"', '"pay" 1': 'was.step = "pay"'}
    assert said("was.step = failed") == (['step was never "failed". It was:'], was)
    assert said("step = choose") == (
        ['step isn\'t "choose" in any session. It is:', "It was, earlier:"],
        {'"pay" 1': 'state.step = "pay"', 'was.step = "choose" 1': 'was.step = "choose"'},
    )
    assert said('fare error:any "fare expired"') == (
        ["No session matches error:any.", "Search without:"],
        {"error:any 1": 'fare "fare expired"'},
    )
    assert said("zebra")[1] == said("zebra or lion")[1] == {}


def test_without_any_session_it_says_what_to_do(world: World, maria: Browser, settings: Settings) -> None:
    world.rows, world.bars = [], []
    page = open_(maria)
    assert page.one("div", "empty").one("h2").text == "No sessions yet"
    assert page.one("div", "empty").links() == {"New session": reverse("new-session"), "Sources": reverse("home")}
    settings.READ_ONLY = True
    assert open_(maria).one("div", "empty").links() == {"Sources": reverse("home")}


def test_what_is_not_read_yet_is_said_and_asked_for_again(world: World, maria: Browser) -> None:
    world.behind = [("prod", 0.402)]
    (notice,) = open_(maria, "late").one(id="problems").all("p")
    assert notice.text.startswith("Indexing prod, 40%.")
    assert (notice["hx-get"], notice["hx-trigger"]) == (reverse("search") + "?q=late", "every 3s")
    world.behind, world.broad = [], ["a"]
    (notice,) = open_(maria, "a").one(id="problems").all("p")
    assert "is part of too many words, so only words that start with it were searched" in notice.text


def test_statuses_are_a_click_away_and_keep_the_rest(world: World, maria: Browser) -> None:
    nav = open_(maria, "late status:failed").one("nav", "statuses")
    assert [link.text for link in nav.all("a") if "aria-current" in link] == ["Failed"]
    assert {words: asked_of(address)["q"] for words, address in nav.links().items()} == {
        "Any status": "late",
        "Failed": "late status:failed",
        "Waiting": "late status:waiting",
        "Running": "late status:running",
        "Stuck": "late status:stuck",
        "Stopped": "late status:stopped",
        "Done": "late status:idle",
    }


def test_statuses_say_how_many_sessions_have_them_if_that_is_cheap(
    ref: SessionRef, maria: Browser, add: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, newest in (("s1", {"error_code": "429"}), ("s2", {}), ("s3", {})):
        one = ref._replace(session_id=name)
        if one != ref:
            create_session(*one[:3], session_id=name, actor=ALICE)
        add(one, {"text": "late"}, author="user", timestamp=NOON)
        add(one, {"text": "paid"}, **newest)
    feed(ref.source)

    def counted(text: str) -> list[str]:
        return open_(maria, text).one("nav", "statuses").texts("a")

    assert counted("") == ["Any status", "Failed 1", "Waiting", "Running", "Stuck", "Stopped", "Done 2"]
    assert counted("late status:failed") == counted("")
    assert counted("session:s2") == ["Any status", "Failed", "Waiting", "Running", "Stuck", "Stopped", "Done 1"]
    monkeypatch.setattr(results, "COUNTED", 2)
    assert counted("") == ["Any status", "Failed", "Waiting", "Running", "Stuck", "Stopped", "Done"]


# --- The preview ------------------------------------------------------------------------------------------------------


def test_the_preview_shows_the_events_around_the_match_and_the_state(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    for number in range(12):
        add(ref, {"text": f"word {number}"}, actions={"state_delta": {f"k{number}": number}})
    seq = events_of(ref)[6][0]
    pane = maria.open("preview", query={"seq": seq}, htmx=True, **ref._asdict())
    lines = [line.one("a", "line").text for line in pane.all("li", "ev")]
    assert lines == [f"word {number}" for number in range(3, 10)]
    assert pane.one("li", "selected").one("a", "line").text == "word 6"
    assert pane.one("ol", "timeline").all("li")[-1].text == "2 later events"
    heads = [head.text.split()[0] for head in pane.all("h3")]
    assert heads == ["Session", "User", "App"]
    assert "k11" in pane.text
    assert "limit" in pane.text
    newest = maria.open("preview", htmx=True, **ref._asdict())
    assert newest.all("li", "ev")[-1].one("a", "line").text == "word 11"
    assert "later event" not in newest.text


def test_the_preview_says_how_many_events_of_a_turn_it_hides_and_tells_no_time_over_them(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    run = {"invocation_id": "i1"}
    add(ref, {"text": "question"}, author="user", timestamp=1_000.0, **run)
    for number in range(8):
        add(ref, {"text": f"word {number}"}, actions={"state_delta": {"k": number}}, timestamp=1_001.0 + number, **run)
    feed(ref.source)
    pane = maria.open("preview", htmx=True, **ref._asdict())
    rows = [row.text for row in pane.one("ol", "timeline").all("li")]
    assert "key changed" not in rows[0]  # of the turn, not all is shown
    assert rows[2] == "1 event hidden"
    assert rows[3].endswith("00:16:42")
    assert rows[4].endswith("1.0 s")


def test_the_preview_shows_the_events_that_matched_with_their_turns_first_line(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    for turn, step in enumerate(("failed", "pay", "failed")):
        add(ref, {"text": f"question {turn}"}, author="user")
        for number in range(9):
            delta = {"actions": {"state_delta": {"step": step}}} if number == 8 else {}
            add(ref, {"text": f"word {turn}.{number}"}, **delta)
    for number in range(9):
        add(ref, {"text": f"end {number}"})
    feed(ref.source)

    def shown(query: str) -> tuple[list[str], list[str]]:
        (address,) = [row["data-preview"] for row in open_(maria, query).all("tr") if "data-preview" in row]
        pane = maria.open(address, htmx=True)
        lines = [(line.one("a", "line").text, "selected" in line["class"]) for line in pane.all("li", "ev")]
        return [text for text, _selected in lines], [text for text, selected in lines if selected]

    turns = [["question 0", "word 0.8"], ["question 1", "word 1.8"], ["question 2", "word 2.8"]]
    assert shown("was.step = failed") == ([*turns[0], *turns[2]], ["word 0.8", "word 2.8"])
    assert shown("set:step") == ([*turns[0], *turns[1], *turns[2]], [turn[1] for turn in turns])
    around = [*(f"word 1.{n}" for n in range(5, 9)), "question 2", "word 2.0", "word 2.1"]
    assert shown("was.step = pay") == (["question 1", *around], ["word 1.8"])
    assert shown("-was.step = lost") == (["question 2", *(f"end {n}" for n in range(2, 9))], [])
    page = open_(maria, "was.step = pay")
    assert (page.one("span", "matched").text, page.one("span", "matched").one("mark").text) == ("step pay", "pay")


def test_where_nothing_matches_the_words_are_spelt_as_a_session_has_them(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    add(ref, {"text": "the booking failed"})
    feed(ref.source)
    respelt = open_(maria, 'boking "faild" -kind:call').one("div", "empty").all("a", "btn")[0]
    assert respelt.text == "Did you mean “booking failed -kind:call”?"
    assert len(open_(maria, asked_of(respelt["href"])["q"]).all("a", "rowlink")) == 1
    assert "Did you mean" not in open_(maria, "zebra").one("div", "empty").text
    assert "Did you mean" not in open_(maria, "-boking tool:faild").one("div", "empty").text


def test_the_preview_alone_is_the_session_and_one_of_nothing_is_not_there(ref: SessionRef, maria: Browser) -> None:
    address = reverse("preview", kwargs=ref._asdict())
    assert maria.get(address)["Location"] == reverse("session", kwargs=ref._asdict())
    assert "No events yet" in maria.open(address, htmx=True).text
    gone = reverse("preview", kwargs=ref._replace(session_id="gone")._asdict())
    assert maria.get(gone, headers={"HX-Request": "true"}).status_code == 404
    for seq in ("x", "-1", "9" * 19, "9" * 30, ""):
        assert maria.get(address, {"seq": seq}, headers={"HX-Request": "true"}).status_code == 400
    assert page_of(maria.get(address, {"seq": "999999"}, headers={"HX-Request": "true"}))
