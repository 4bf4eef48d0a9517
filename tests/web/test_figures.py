"""The pages of an app and of a user show their own figures, which are those of the events and lead to their sessions."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.domain.session_ref import SessionRef
from sessions_app.web.numbers import in_short
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed, ids
from tests.support.people import ALICE
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])


class Turn(NamedTuple):
    """A turn that was made: its session, when it began, and whether its call failed. It took 300 tokens."""

    ref: SessionRef
    at: float
    failed: bool


@pytest.fixture
def turns(source: str) -> list[Turn]:
    """Makes and indexes a turn in each of some sessions, from hour to hour, the newest first."""
    now, made = time.time(), []
    for number in range(16):
        app, user = "booking" if number % 4 < 3 else "support", "ben" if number % 2 else 'a"na'
        ref = create_session(source, app, user, session_id=f"s{number:02}", actor=ALICE)
        turn = Turn(ref, now - number * 3600 - 60, number % 3 > 0)
        call, answer = {"name": "charge", "id": "c1"}, {"error": "declined"} if turn.failed else {"ok": True}
        parts = ({"text": "Pay"}, {"function_call": call}, {"function_response": {**call, "response": answer}})
        for after, part in enumerate(parts):
            event = {"author": "agent" if after else "user", "content": {"parts": [part]}, "timestamp": turn.at + after}
            used = {"usage_metadata": {"total_token_count": 100 * after}, "model_version": "flash"}
            append_event(ref, {**event, **used}, actor=ALICE)
        made.append(turn)
    feed(source, walk=True)
    return made


def shown(page: Element, name: str) -> str:
    """Returns the number of a chart, without blanks between its thousands."""
    return page.one("div", name).all("b")[0].text.replace(" ", "").replace("%", " %")


@FORMS
@pytest.mark.parametrize("user", ["", 'a"na'])
def test_the_page_of_an_app_or_a_user_shows_its_own_figures(
    source: str, turns: list[Turn], maria: Browser, user: str
) -> None:
    names = {"source": source, "app_name": "booking", **({"user_id": user} if user else {})}
    since, until = int(turns[12].at), int(turns[1].at)
    inside = [turn for turn in turns if turn.ref.app_name == "booking" and user in ("", turn.ref.user_id)]
    inside = [turn for turn in inside if since <= turn.at < until]
    failed = [turn for turn in inside if turn.failed]
    address = reverse("user" if user else "app", kwargs=names)
    page = page_of(maria.get(f"{address}?{urlencode({'from': since, 'to': until})}"))
    assert 1 < len(failed) < len(inside) < len(turns)
    assert shown(page, "sessions") == str(len(inside))
    assert shown(page, "failed") == f"{100 * len(failed) / len(inside):.1f} %"
    assert shown(page, "tokens") == in_short(300 * len(inside))
    failure, *_silent = page.one("ul", "attention").all("li")
    assert f"failed {len(failed)}× in {len(failed)} sessions: declined" in failure.text
    (query,) = parse_qs(urlsplit(failure.all("a")[0]["href"]).query)["q"]
    assert 'tool:"charge"' in query
    assert ids(query) == sorted({turn.ref.session_id for turn in failed})
    assert page.one("table", "tools").texts("a") == ["charge"]
    for link in (
        page.one(
            "div",
            "sessions",
        ).all("a")[0],
        page.one("table", "tools").all("a")[0],
    ):
        (query,) = parse_qs(urlsplit(link["href"]).query)["q"]
        assert ids(query) == sorted(turn.ref.session_id for turn in inside)


def column(page: Element, number: int) -> list[str]:
    """Returns the numbers of a chart in words, bar by bar."""
    return [row.texts("td")[number] for row in page.one("section", "charts").one("tbody").all("tr")]


def bars(page: Element, name: str, kind: str = "") -> list[float]:
    """Returns the heights of the bars of a chart."""
    paths = [each for each in page.one("div", name).all("path") if each.attributes.get("class", "") == kind]
    return [float(height) for path in paths for height in re.findall(r"v-([\d.]+)", path["d"])]


def test_failed_turns_are_a_part_of_the_bar_of_all_turns_and_what_grew_worse_stands_out(
    turns: list[Turn], maria: Browser
) -> None:
    hours = [
        turns[number].at - 30 for number in (12, 9, 6)
    ]  # three turns between two of them, every third one is right
    page = page_of(maria.get(f"{reverse('home')}?{urlencode({'from': int(hours[1]), 'to': int(hours[2])})}"))
    assert Counter(column(page, 1)) == {"–": len(column(page, 1)) - 3, "1 of 1 · 100%": 2, "0 of 1 · 0%": 1}
    assert (bars(page, "failed"), bars(page, "failed", "rest")) == ([48.0] * 2, [48.0] * 3)
    assert page.one("div", "failed").one("span", "most").text == "1 turn"
    assert page.one("div", "failed").all("b", "bad") == []
    (tool,) = page.one("table", "tools").one("tbody").all("tr")
    assert tool.texts("td")[:2] == ["3", "66.7%"]
    assert tool.all("td", "failed") == []
    worse = {"from": int(turns[2].at - 30), "to": int(turns[0].at - 30)}  # both failed, and one of the two before
    page = page_of(maria.get(f"{reverse('home')}?{urlencode(worse)}"))
    assert page.one("div", "failed").one("b", "bad").text == "100%"
    assert page.one("div", "failed").one("span", "aside").text == "2 of 2"
    assert page.one("table", "tools").one("td", "failed").text == "100%"
    assert page.one("table", "apps").all("td", "failed") == []  # its one turn before failed, too


def test_a_change_names_what_it_is_compared_with_and_is_not_said_of_a_few_turns(
    ref: SessionRef, maria: Browser
) -> None:
    now = time.time()

    def say(turns: int, ago: int, tokens: int) -> None:
        used = {"usage_metadata": {"total_token_count": tokens}}
        for number in range(turns):
            at = {"timestamp": now - ago + number / 10}
            append_event(ref, {"author": "user", "content": {"parts": [{"text": "Hi"}]}, **at}, actor=ALICE)
            append_event(ref, {"author": "agent", "content": {"parts": [{"text": "Hi"}]}, **at, **used}, actor=ALICE)
        feed(ref.source, walk=True)

    def beside_tokens(query: str) -> list[str]:
        return page_of(maria.get(f"{reverse('home')}?{query}")).one("div", "tokens").texts("span", "aside")

    say(20, 100_000, 10)
    say(19, 3600, 10)
    assert beside_tokens("range=24h") == []
    say(1, 1800, 50)
    assert beside_tokens("range=24h") == ["+20% vs previous 24h"]
    other = urlencode({"from": int(now) - 86_400, "to": int(now)})
    assert beside_tokens(other) == ["+20% vs previous range"]


def test_a_chart_is_a_picture_and_a_table_without_scripts(turns: list[Turn], maria: Browser) -> None:
    page = maria.open("home")
    cells = column(page, 0)
    assert sum(map(int, cells)) == len(bars(page, "sessions")) == len(turns)
    assert len(page.one("section", "charts")["data-times"].split()) == len(cells) + 1
    assert page.one("div", "sessions").one("div", "ticks").texts("span")[-1] == "now"


@pytest.mark.parametrize(
    ("prices", "cost"),
    [({"flash": (1_000.0, 0.0)}, "≈ $4.80"), ({"f*": (1_000.0, 0.0), "fl*": (500.0, 0.0)}, "≈ $2.40"), ({}, "")],
)
def test_the_cost_stands_beside_the_tokens_where_prices_are_set(
    turns: list[Turn], maria: Browser, settings: Settings, prices: dict[str, tuple[float, float]], cost: str
) -> None:
    settings.PRICES = prices
    assert maria.open("home").one("div", "tokens").texts("span", "aside") == ([cost] if cost else [])


def test_a_model_without_a_price_is_named(turns: list[Turn], maria: Browser, settings: Settings) -> None:
    settings.PRICES = {"pro": (1.0, 1_000_000.0)}
    assert maria.open("home").one("div", "tokens").texts("span", "aside") == []
    ref, used = turns[0].ref, {"prompt_token_count": 0, "candidates_token_count": 2}
    append_event(ref, {"author": "agent", "model_version": "pro", "usage_metadata": used}, actor=ALICE)
    feed(ref.source)
    (aside,) = maria.open("home").one("div", "tokens").all("span", "aside")
    assert (aside.text, aside["title"]) == ("≥ $2.00", "No prices set for flash.")


@pytest.mark.parametrize("asked", ["from=7&to=5", "from=x&to=1e400", "from=-1&to=nan", "range=99y", "from=1"])
def test_a_range_that_is_none_is_the_usual_one(turns: list[Turn], maria: Browser, asked: str) -> None:
    page = page_of(maria.get(f"{reverse('home')}?{asked}"))
    assert [link.text for link in page.one("nav", "ranges").all("a", aria_current="true")] == ["24h"]
