"""The job: a booking failed, the words “fare expired” are known, and there are 2,004 sessions."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from sessions_app.web.templatetags.tags import count
from tests.browser import many
from tests.browser.conftest import serve
from tests.browser.serving import Adkweb

QUERY = 'user:nadia error:any "fare expired"'
ALL = count(many.SESSIONS + 11)  # with those of the demo


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 2,004 sessions."""
    file = tmp_path_factory.mktemp("many") / "prod.db"
    many.make(file)
    return file


@pytest.fixture(scope="module")
def adkweb(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adkweb]:
    """adkweb on that file."""
    yield from serve(tmp_path_factory.mktemp("adkweb"), str(file))


def indexed(adkweb: Adkweb) -> int:
    """Returns how many sources adkweb has gone through once."""
    with closing(sqlite3.connect(adkweb.folder / "data" / "adkweb.db", timeout=30)) as db:
        return int(db.execute("SELECT count(*) FROM sessions_app_searchsource WHERE walks > 0").fetchone()[0])


@pytest.fixture(scope="module")
def home(browser: Browser, adkweb: Adkweb) -> Iterator[Page]:
    """Home of somebody who is signed in, once all sessions are indexed."""
    until = time.monotonic() + 120
    while indexed(adkweb) < 2 and time.monotonic() < until:  # a page that looks takes half of the time away
        time.sleep(0.2)
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(adkweb.link)
        while page.get_by_text("indexing").count() and time.monotonic() < until:
            page.wait_for_timeout(500)
            page.goto(adkweb.address)
        yield page


@pytest.fixture(autouse=True)
def _at_home(home: Page, adkweb: Adkweb) -> None:
    home.goto(adkweb.address)


def expect_opened(page: Page) -> None:
    """Waits until the failing event is open."""
    expect(page).to_have_url(re.compile("/s/prod/booking/nadia.garcia/"))
    expect(page.locator(".ev.selected")).to_contain_text("fare expired")


def test_by_keyboard_the_failing_event_opens_after_three_keys_and_the_typing(home: Page) -> None:
    home.wait_for_load_state()
    home.keyboard.press("/")
    home.keyboard.type(f"{QUERY}\n")
    expect(home.locator(".matched mark")).to_have_text("fare expired")
    home.wait_for_load_state()
    home.keyboard.press("j")
    expect(home.locator(".sessions .rowlink")).to_be_focused()
    home.keyboard.press("Enter")
    expect_opened(home)


@pytest.mark.long
def test_by_mouse_the_failing_event_opens_after_two_clicks_and_the_typing(home: Page) -> None:
    home.locator("#query").click()
    home.keyboard.type(f"{QUERY}\n")
    expect(home.locator("#querycount")).to_contain_text(f"1 of {ALL} · ")
    home.locator(".sessions .rowlink").click()
    expect_opened(home)


@pytest.mark.long
def test_homes_numbers_are_those_of_sql_and_lead_to_their_sessions(home: Page, file: Path, adkweb: Adkweb) -> None:
    home.goto(f"{adkweb.address}/?range=24h")
    counted = many.of_the_last_day(file, time.time())

    def number(chart: str) -> str:
        return home.locator(f".chart.{chart} .figure b").inner_text()

    assert number("sessions") == count(counted["turns"])  # each session has one turn
    assert number("failed") == f"{100 * counted['failed'] / counted['turns']:.1f}%"
    assert number("tokens") == f"{counted['tokens'] / 1_000_000:.1f}M"
    assert number("took") == "≥ 5.0 s"  # nobody noted when the last answers of these turns were stored
    attention = home.locator(".attention li").first
    declined = f"{counted['failed']:.0f}"  # the one that is looked for is older than a day
    expect(attention).to_contain_text(f"charge_card failed {declined}× in {declined} sessions: card declined")
    attention.locator("a").click()
    expect(home.locator("#querycount")).to_contain_text(f"{declined} of {ALL} · ")


def test_a_chart_tells_the_number_of_each_bar_and_dragging_over_it_chooses_a_range(
    home: Page, file: Path, adkweb: Adkweb
) -> None:
    home.goto(f"{adkweb.address}/?range=24h")
    chart = home.locator(".chart.sessions")
    box = chart.locator(".plot").bounding_box()
    assert box
    bars = home.locator(".charts tbody > tr")
    last = bars.count() - 1
    for bar in (0, last // 2, last):
        home.mouse.move(box["x"] + box["width"] * (bar + 0.5) / (last + 1), box["y"] + 20)
        period, sessions, failed, *_rest = bars.nth(bar).locator("th, td").all_text_contents()
        expect(chart.locator(".tip")).to_have_text(f"{sessions} · {period}")
        expect(home.locator(".chart.failed .tip")).to_have_text(failed)
    home.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    home.mouse.down()
    home.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20, steps=4)
    home.mouse.up()
    expect(home).to_have_url(re.compile(r"\?from=\d+&to=\d+$"))
    since, until = map(int, re.findall(r"\d{9,}", home.url))
    assert 12 * 3600 < until - since < 14 * 3600
    expect(home.locator(".ranges [aria-current]")).to_contain_text("–")
    expect(home.locator(".chart.sessions .figure b")).to_have_text(count(many.begun(file, since, until)))
    home.wait_for_load_state()  # before, nobody hears a click
    plot = home.locator(".chart.sessions .plot").bounding_box()
    assert plot
    bars = home.locator(".charts").get_attribute("data-times")
    assert bars
    times = [float(each) for each in bars.split()]
    home.mouse.click(plot["x"] + plot["width"] * 5.5 / (len(times) - 1), plot["y"] + 20)
    expect(home).not_to_have_url(re.compile(f"from={since}&"))
    begins, ends = map(int, re.findall(r"\d{9,}", home.url))
    assert (begins, ends) == (times[5], times[6])


def test_on_a_touch_screen_the_first_tap_on_a_bar_tells_its_number_and_the_second_chooses_it(
    home: Page, browser: Browser, adkweb: Adkweb
) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with browser.new_context(storage_state=home.context.storage_state(), **phone) as context:
        page = context.new_page()
        page.goto(f"{adkweb.address}/?range=24h")
        plot = page.locator(".chart.sessions .plot")
        sessions = page.locator(".charts tbody td").first.text_content()
        plot.tap(position={"x": 2, "y": 30})
        expect(plot.locator(".tip")).to_contain_text(f"{sessions} · ")
        plot.tap(position={"x": 2, "y": 30})
        expect(page).to_have_url(re.compile(r"\?from=\d+&to=\d+$"))
