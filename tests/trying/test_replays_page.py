"""The pages of replays: begun from a selection, confirmed, grouped by what differs, filtered and repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from django.urls import reverse

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.trying import replays
from sessions_app.web import replays as web_replays
from sessions_app.writes.sessions import create_session
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.trying.conftest import AGENTS, say, visit
from tests.trying.test_replays import order
from tests.web.conftest import Browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forked_agents")]


@pytest.fixture
def olga(shop: str) -> Iterator[Browser]:
    """An operator who signed in."""
    signed_in = Browser()
    signed_in.force_login(somebody("olga", "operator"))
    with override_settings(AGENTS={shop: str(AGENTS)}, RUN_AGENTS=True):
        yield signed_in
        settle("replay")


def path_of(ref: SessionRef) -> str:
    return reverse("session", kwargs=ref._asdict())


def chosen(browser: Browser, *refs: SessionRef) -> Any:
    return browser.send("chosen", {"act": "replay", "ref": [path_of(each) for each in refs]})


def test_a_selection_is_confirmed_replayed_grouped_and_repeated(shop: str, olga: Browser) -> None:
    refs = [visit(shop, "s1", 1), visit(shop, "s2", 2)]
    order(refs[1])
    address = chosen(olga, *refs).url
    page = olga.open(address)
    assert "0 model calls, 0 tools run" in page.text
    assert "Replay 2 sessions" in page.text
    olga.send(address, {"action": "begin"})
    settle("replay")
    page = olga.open(address)
    assert [each.text for each in page.all("h2")][:2] == ["Arguments shop · order 1", "The same 1"]
    assert "turn 2" in page.links()
    assert "s1" not in olga.open(address, query={"result": "diverged"}).one("tbody").text
    assert page.links()["Save as test"].endswith("?format=test")
    again = olga.send(address, {"action": "again"}).url
    settle("replay")
    assert "Nothing has changed." in olga.open(again).text
    assert "1 diverged" in olga.open("replays").text


def test_where_no_agent_can_be_started_the_table_says_so(shop: str, olga: Browser) -> None:
    ref = visit(shop, "s1", 1)
    with override_settings(RUN_AGENTS=False):
        answer = olga.send("chosen", {"act": "replay", "ref": [path_of(ref)], "back": "/sessions/?q=s1"})
        assert answer.url == "/sessions/?q=s1"
        assert "This adkweb doesn't start agents." in olga.open(answer.url).text


def test_many_groups_are_shown_page_by_page(shop: str, olga: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [visit(shop, "s1", 1), visit(shop, "s2", 2)]
    order(refs[1])
    address = chosen(olga, *refs).url
    olga.send(address, {"action": "begin"})
    settle("replay")
    assert "Groups" not in olga.open(address).text
    monkeypatch.setattr(replays, "PAGE", 1)
    page = olga.open(address)
    assert "Groups 1 to 1 of 2" in page.text
    last = olga.open(address + page.links()["Next"].partition(address)[2])
    assert [each.text for each in last.all("h2")][:1] == ["The same 1"]
    assert "Groups 2 to 2 of 2" in last.text
    assert "Next" not in last.links()


def test_a_group_of_many_is_shown_page_by_page(shop: str, olga: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    address = chosen(olga, *(visit(shop, f"s{n}", n) for n in (1, 2, 3))).url
    olga.send(address, {"action": "begin"})
    settle("replay")
    monkeypatch.setattr(replays, "LISTED", 1)
    for module in (replays, web_replays):
        monkeypatch.setattr(module, "PAGE", 2)
    page = olga.open(address)
    assert len(page.one("tbody").all("tr")) == 1
    first = olga.open(address + page.links()["Show all 3 sessions"].partition(address)[2])
    assert len(first.one("tbody").all("tr")) == 2
    last = olga.open(first.links()["Next"])
    assert len(last.one("tbody").all("tr")) == 1


def test_the_menu_of_a_session_says_why_it_cannot_be_replayed(shop: str, olga: Browser) -> None:
    ref = visit(shop, "s1", 1)

    def buttons(browser: Browser) -> list[Any]:
        page = browser.open("session", **ref._asdict())
        return [each for each in page.all("button") if each.attributes.get("value") == "replay"]

    assert [each.text for each in buttons(olga)] == ["Replay"]
    with override_settings(AGENTS={}):
        (button,) = buttons(olga)
        assert "adkweb doesn't know what runs the agent" in button.text
        assert chosen(olga, ref).url == "/sessions/"  # and not a replay
    vera = Browser()
    vera.force_login(somebody("vera", "viewer"))
    assert buttons(vera) == []
    assert chosen(vera, ref).status_code == 403


def test_sessions_that_reach_code_of_the_agent_can_be_replayed_with_it(shop: str, olga: Browser) -> None:
    ref = create_session(shop, "own", "ana", session_id="s1", actor=SYSTEM)
    say(ref, "user", {"text": "Hello"})
    say(ref, "own", {"text": "Hello!"})
    address = chosen(olga, ref).url
    olga.send(address, {"action": "begin"})
    settle("replay")
    assert "own runs code of its own, which wasn't allowed." in olga.open(address).text
    copy = olga.send(address, {"action": "ask"}).url
    assert "Replay 1 session" in olga.open(copy).text
    olga.send(copy, {"action": "begin", "run_code": "1"})
    settle("replay")
    assert "0 undecided" in olga.open(copy).text
