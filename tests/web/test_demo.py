"""A demo says that it is one, and how to open one's own sessions; pages of other sources say nothing of it."""

import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.management.commands._demo import JONAS, MAYA, fill
from sessions_app.models import Rule
from sessions_app.sources import database
from sessions_app.sources.demo import BEST, FAILED, bring_to
from sessions_app.web.sources import CLOSED
from sessions_app.web.templatetags.terms import TERMS
from sessions_app.writes.sessions import delete_session
from tests.checks.test_rules import live
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.support.stored import query
from tests.test_glossary import glossary
from tests.web.conftest import DEMO, Browser, names_of
from tests.web.html import Element

pytestmark = pytest.mark.django_db

SEOUL = ("booking", "ana", "seoul-trip")


@pytest.fixture
def shown(settings: Settings, tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """The demo, as adkweb opens it: the copy beside its own files."""
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return open_source(str(shutil.copy(DEMO, settings.DATA_DIR / "demo.db")))


def session(source: str, end: str = "") -> str:
    """The address of a session of the demo."""
    return reverse("session", args=[source, *SEOUL]) + end


def line(page: Element) -> Element:
    """The line of a demo."""
    return page.one("aside", "demoline")


@pytest.mark.parametrize(
    "end", ["", "?density=chat", "?density=trace", "history/?key=booking_step", "edit/", "compare/", "context/"]
)
def test_every_page_of_the_demo_says_that_it_is_one(shown: str, maria: Browser, end: str) -> None:
    said = line(maria.open(session(shown, end)))
    assert "This is a demo with made-up sessions." in said.text
    button = said.one("button", data_copied="Copied")
    assert button["data-copy"] == f"{Path(sys.executable).parent}/adkweb /path/to/session.db"  # in any folder
    assert button["data-copy"] in button["aria-label"]
    assert button.text == "…/adkweb /path/to/session.db"


def test_the_demo_knows_the_instructions_of_its_agents(shown: str, maria: Browser) -> None:
    line = maria.open(session(shown, "context/")).one(id="instruction").one("summary").text
    assert re.fullmatch(r"Instruction \d+ characters, filled in from the state booking/agent\.py:\d+", line)


@pytest.mark.parametrize("address", ["/", "/edits/", "/sessions/", "/batches/"])
def test_pages_about_all_sources_say_so_while_nothing_else_is_open(
    shown: str, maria: Browser, address: str, tmp_path: Path, open_source: Callable[[str], str]
) -> None:
    assert line(maria.open(address))
    open_source(str(shutil.copy(DEMO, tmp_path / "mine.db")))
    assert maria.open(address).all("aside", "demoline") == []


def test_a_demo_of_ones_own_is_none(shown: str, demo: str, maria: Browser) -> None:
    text = maria.get(session(demo)).content.decode()
    assert "sources.css" not in text
    assert "demo.js" not in text
    assert "demoline" not in text
    assert line(maria.open(session(shown)))


def test_after_the_first_page_the_line_is_a_word_at_the_top(shown: str, maria: Browser) -> None:
    page = maria.open("home")
    assert line(page)["data-cookie"] == CLOSED
    assert "hidden" in page.one("details", "demochip").attributes
    maria.cookies[CLOSED] = "closed"
    for address in ("/", session(shown)):
        page = maria.open(address)
        assert page.all("aside", "demoline") == []
        chip = page.one("details", "demochip")
        assert "hidden" not in chip.attributes
        assert chip.text.startswith("Demo This is a demo with made-up sessions. Open your own:")
        assert chip.all("button", data_copied="Copied") != []


def test_an_installed_adkweb_is_started_by_its_own_name(shown: str, maria: Browser, settings: Settings) -> None:
    settings.FILES = settings.PACKAGE
    assert line(maria.open("home")).one("button", data_copied="Copied")["data-copy"] == "adkweb /path/to/session.db"


def test_whoever_does_not_run_adkweb_reads_no_command_and_no_advice_for_others(shown: str) -> None:
    viewer = Browser()
    viewer.force_login(somebody("vera", "viewer", "booking"))
    for address in ("/", session(shown), "/edits/"):
        page = viewer.open(address)
        assert line(page).all("button", data_copied="Copied") == []
        assert page.one("details", "demochip").all("button", data_copied="Copied") == []
        assert page.one(id_="tour").all("button", data_copied="Copied") == []
        if address != "/":
            assert "Edit state" not in page.one("main").text


@pytest.mark.parametrize(("role", "starts", "steps"), [("viewer", True, 3), ("editor", True, 7), ("editor", False, 5)])
def test_the_tour_has_the_steps_that_a_person_can_do(
    shown: str, settings: Settings, role: str, starts: bool, steps: int
) -> None:
    settings.RUN_AGENTS = starts
    browser = Browser()
    browser.force_login(somebody("vera", role, "booking"))
    for address in ("/inbox/", session(shown)):  # one is about all sources, the other about the demo's
        numbered = browser.open(address).one(id="tour").all("h2")
        assert [title.text[:3] for title in numbered[:steps]] == [f"{number}/{steps}" for number in range(1, steps + 1)]
        assert len(numbered) == steps + 2


def test_home_says_why_it_is_empty(open_source: Callable[[str], str], tmp_path: Path) -> None:
    for role, words in (
        ("", "No access yet"),
        ("viewer", "No sessions yet"),
        ("auditor", "You can read the audit"),
    ):
        browser = Browser()
        browser.force_login(somebody(f"who {role}", role, "booking"))
        assert words in browser.open("home").one("main").text


@pytest.mark.parametrize(
    ("language", "words"), [("es", "demostración con sesiones inventadas"), ("ko", "지어낸 세션으로 만든 데모")]
)
def test_the_line_is_in_the_language_of_the_page(shown: str, maria: Browser, language: str, words: str) -> None:
    maria.cookies["adkweb_language"] = language
    assert words in line(maria.open("home")).text


def test_the_demo_opens_on_the_session_with_a_failure(shown: str, maria: Browser) -> None:
    address = reverse("session", args=[shown, *BEST])
    assert maria.get("/demo/")["Location"] == address
    page = maria.open(address)
    *_, failed = page.all("li", "turn")
    assert "failed" in failed["class"]
    *_, last = page.all("li", "ev")
    assert "booking_step is 'choose', as if nothing were booked" in last.text


def test_every_duration_in_the_demo_is_exact(shown: str, maria: Browser) -> None:
    """Its stamps alone would not say them: an agent that does not stream stamps a model's event when its call starts."""
    bounds = {"≥", "≤", "≈"}
    for name in query(shown, "SELECT app_name, user_id, id FROM sessions"):
        for density in ("timeline", "chat", "trace"):
            page = maria.open(reverse("session", args=[shown, *name]), query={"density": density})
            assert bounds.isdisjoint(page.text), (name, density)
    page = maria.open(reverse("session", args=[shown, *BEST]), query={"density": "trace"})
    assert page.all("p", "wherefrom")[0].text == "Model 4.1 s Tools 874 ms"
    feed(shown, walk=True)
    with time_machine.travel("2026-11-21T00:00Z", tick=False):
        home = maria.open("home", query={"range": "7d"})
    assert "Turn time, p95 14 s" in home.text
    assert bounds.isdisjoint(home.text)


def test_what_failed_was_caused_by_the_search_that_took_the_step_back(shown: str, maria: Browser) -> None:
    page = maria.open("session-history", query={"key": "booking_step"}, **names_of(SessionRef(shown, *BEST), 4))
    newest, before, *_ = page.all("li", "write")
    assert '"confirm"' in newest.one("div", "change").text
    assert '"choose"' in newest.one("div", "change").text
    search, payment = newest.one("a", "seq"), before.one("a", "seq")
    assert (search.text, payment.text) == ("#22", "#14")
    then = maria.open(payment["href"]).one(id="moment").one("div", data_key_row="booking_step")
    assert '"confirm"' in then.text


def test_without_that_session_or_without_a_demo_one_gets_home(shown: str, maria: Browser, actor: Actor) -> None:
    delete_session(SessionRef(shown, *BEST), actor=actor)
    assert maria.get("/demo/")["Location"] == "/"


def test_a_demo_that_is_not_open_is_not_opened_by_its_address(demo: str, maria: Browser) -> None:
    assert maria.get("/demo/")["Location"] == "/"


def test_the_words_are_explained_in_the_sentences_of_the_glossary() -> None:
    meanings = {row.word: row.meaning.replace("`", "") for row in glossary()}
    assert 8 <= len(TERMS) <= 12
    assert {word: str(meaning) for word, (_name, meaning) in TERMS.items()} == {word: meanings[word] for word in TERMS}


def test_words_are_explained_in_the_demo_alone(shown: str, demo: str, maria: Browser) -> None:
    at = {"at": FAILED}
    page = maria.open(reverse("session", args=[shown, *BEST]), query=at)
    said = {button.text for button in page.one(id="tour").all("button", "term")}
    assert said == {"turn", "event", "state", "key", "edit", "fork"}
    assert "data-term" not in maria.get(reverse("session", args=[demo, *BEST]), at).content.decode()


def test_who_has_not_signed_in_is_told_nothing(shown: str, guest: Browser) -> None:
    assert guest.open("sign-in").all("aside", "demoline") == []


def test_a_page_that_is_missing_says_so_in_the_demo_too(shown: str, maria: Browser) -> None:
    gone = reverse("session", args=SessionRef(shown, "booking", "ana", "gone"))
    assert line(maria.open(gone, status=404))


@pytest.fixture
def alone(person: User) -> Iterator[None]:
    """Whoever is at the browser runs adkweb, and nobody else has an account."""
    person.is_superuser = True
    person.save()
    yield
    settle("rule")


def edits(browser: Browser) -> list[tuple[str, str]]:
    """Returns the author and the reason of each edit, the newest first."""
    rows = browser.open("edits").all("tr")[1:]
    return [(row.one("td", data_label="Who").text, row.one("td", data_label="Why").text) for row in rows]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("alone")
def test_two_people_have_worked_in_a_new_copy_of_the_demo(shown: str, maria: Browser) -> None:
    fill(shown)
    live(shown)
    assert [who for who, why in edits(maria) if why] == [JONAS, MAYA, JONAS, JONAS, MAYA]
    assert {"edit", "proposed", "rule-created", "view-saved", "mask-rule-made", "approval-rule-made"} <= {
        row.all("td")[1].one("span")["title"] for row in maria.open("audit").all("tr")[1:]
    }
    for page, words in (
        ("people", MAYA),
        ("roles", JONAS),
        ("masking", "user:card_token"),
        ("approval", "ticket"),
        ("proposals", "The bank confirmed the refund"),
        ("temporary-edits", "user:tier"),
        ("search", "Not paid yet"),
    ):
        assert words in maria.open(page).one("main").text, page
    assert "tok_demo" not in maria.get(reverse("session", args=[shown, *BEST])).content.decode()
    (number,) = Rule.objects.values_list("pk", flat=True)
    broken = maria.open("rule", source=shown, app_name="booking", number=number).one("main").text
    assert "December trip" in broken
    assert "Seoul trip" in broken


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("alone")
def test_where_others_have_accounts_the_demo_adds_none_and_a_second_copy_adds_no_second_ones(
    shown: str, maria: Browser, tmp_path: Path, open_source: Callable[[str], str]
) -> None:
    fill(shown)
    accounts = len(maria.open("people").all("tr"))
    database.forget(shown)
    fill(open_source(str(shutil.copy(DEMO, tmp_path / "data" / "demo.db"))))
    assert len(edits(maria)) == 5
    assert len(maria.open("people").all("tr")) == accounts
    assert len(maria.open("approval").all("tr")) == 1 + 1
    somebody("vera", "viewer")
    fill(open_source(str(shutil.copy(DEMO, tmp_path / "third.db"))))
    assert len(edits(maria)) == 5


def test_the_copy_of_the_demo_happened_just_now_and_keeps_every_distance(tmp_path: Path) -> None:
    copy, now = Path(shutil.copy(DEMO, tmp_path / "demo.db")), datetime(2028, 2, 28, 12, 30, tzinfo=UTC).timestamp()
    bring_to(now, copy)
    moved, _again = happened(copy), bring_to(now, copy)
    assert happened(copy) == moved  # a second time moves nothing
    recorded = happened(DEMO)
    (apart,) = {round(then - before, 5) for before, then in zip(recorded["times"], moved["times"], strict=True)}
    assert now - 300 < max(moved["times"]) <= now
    assert moved["flights"] == [day + timedelta(days=round(apart / 86_400)) for day in recorded["flights"]]
    # Nothing else is another: not the ids, nor what was said.
    assert moved["rest"] == recorded["rest"]


def happened(file: Path) -> dict[str, list[Any]]:
    """The times in a file, the days of flights, and everything else, in order."""
    day, moment = re.compile(r"(?<!\d)20[23]\d-\d\d-\d\d(?!\d)"), re.compile(r'(?<=timestamp":)\d{10}\.\d+')
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        tables = ("app_states", "user_states", "sessions", "events", "adkweb_written")
        cells = [cell for table in tables for row in db.execute(f"SELECT * FROM {table}") for cell in row]
    texts = [cell for cell in cells if isinstance(cell, str)]
    times = [cell for cell in cells if isinstance(cell, float)]
    times += [float(time) for text in texts for time in moment.findall(text)]
    flights = [date.fromisoformat(flight) for text in texts for flight in day.findall(text)]
    return {"times": times, "flights": flights, "rest": [day.sub("", moment.sub("", text)) for text in texts]}
