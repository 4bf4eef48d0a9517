"""The page of an app's state health: what to improve, where, and the event that wrote it; never a secret itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.checks.advice import KINDS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.web.checks.words import ADVICE
from tests.search.finding import feed
from tests.web.conftest import Browser, names_of
from tests.web.html import Element

pytestmark = pytest.mark.django_db


def health_of(maria: Browser, ref: SessionRef) -> Element:
    """The page, by its link from the app's."""
    feed(ref.source)
    return maria.open(maria.open("app", **names_of(ref, 2)).links()["State health"])


def findings(page: Element) -> dict[str, list[list[str]]]:
    """The rows of each kind."""
    return {
        section.one("h2").text: [row.texts("td") for row in section.one("tbody").all("tr")]
        for section in page.all("section", "advice")
    }


def test_each_kind_says_what_it_shows_where_and_who_wrote_it(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    written = add(ref, actions={"state_delta": {"apiKey": "hunter22", "bookingStep": 1, "booking_step": 1, "tier": 1}})
    page = health_of(maria, ref)
    assert findings(page) == {
        "Secrets": [["apiKey", "named like a secret", "1 session", "s1"]],
        "Same name in several scopes": [["tier", "user:tier also exists", "1 session", "s1"]],
        "Same name in several spellings": [["bookingStep", "booking_step also exists", "1 session", "s1"]],
    }
    assert "hunter22" not in page.text
    assert page.links()["s1"].endswith(f"?at={written}")
    assert (
        "Store the secret in your platform's secret store, keep only its name in the state, and rotate this secret"
        in page.all("p", "do")[0].text
    )
    (sessions,) = {
        link["href"] for link in page.one("main").all("a") if link.text == "1 session" and "apiKey" in link["href"]
    }
    assert sessions == "/sessions/?q=app%3A%22booking%22+state.apiKey+exists"
    assert maria.open(sessions).one("table", "sessions").texts("tbody") != []


def test_a_state_that_is_well_kept_has_nothing_to_improve(ref: SessionRef, maria: Browser) -> None:
    page = health_of(maria, ref)
    assert page.one("main").texts("h2") == ["Rules", "Nothing to improve"]
    assert "based on the 1 newest session" in page.text


def test_before_the_sessions_are_indexed_it_says_so(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("state-health", **names_of(ref, 2))
    assert "0% of the sessions have been indexed so far" in page.one("main").text
    assert "Nothing to improve" not in page.text


def test_the_documentation_has_each_kind_in_the_order_of_the_page() -> None:
    docs = (Path(__file__).resolve().parents[2] / "docs" / "checks.md").read_text()
    rows = re.findall(r"^\| ([A-Z][^|]+?) \|", docs, re.MULTILINE)
    assert rows == [str(ADVICE[kind].title) for kind in KINDS]
