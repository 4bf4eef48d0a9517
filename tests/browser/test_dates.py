"""Dates, times and numbers that a script writes are those that the server writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from django.test import RequestFactory
from django.utils import timezone, translation

from sessions_app.http.reader import ZONE, zone_of
from sessions_app.web import dates, numbers
from tests.browser.conftest import Visit

NOW: Final = datetime(2026, 11, 29, 12, 0, tzinfo=UTC).timestamp()
TIMES: Final = [
    *(NOW + each for each in (0, 59, -61, -3_599, -3_600, 3_599, 7_200, -13 * 3_600, 13 * 3_600, 86_399, -86_400)),
    *(datetime(2025 + month % 2, month, 9, 23, 5, 12, 433_000, tzinfo=UTC).timestamp() for month in range(1, 13)),
]
TOOK: Final = [0, 0.004, 0.0994, 0.2, 3.94, 9.99, 12, 59, 200, 8_000, 200_000]


@pytest.mark.parametrize(
    ("language", "zone"), [("en", "Europe/Lisbon"), ("es", "America/St_Johns"), ("ko", "Asia/Seoul")]
)
def test_a_script_writes_what_the_server_writes(visit: Visit, language: str, zone: str) -> None:
    with translation.override(language), timezone.override(ZoneInfo(zone)):
        forms = (dates.ago, dates.minute, dates.second, dates.day)
        exact_forms = (dates.clock, dates.exact, dates.whole)
        expected = [[*(form(each, NOW) for form in forms), *(form(each) for form in exact_forms)] for each in TIMES]
        periods = [dates.period(TIMES[0] - 60 * each, TIMES[0], NOW) for each in (5, 900, 600_000)]
        counts = [numbers.count(each) for each in (0, 950, 20_004, 1_234_567)]
        durations = [numbers.duration(each) for each in TOOK]
        shares = [numbers.percentage(each) for each in (0, 7, 100)]
    page = visit(locale=language, timezone_id=zone)
    page.goto("/")
    written = page.evaluate(
        """([times, now]) => times.map((each) => ["ago", "minute", "second", "day", "clock", "exact", "whole"]
            .map((form) => adkweb.dates[form](new Date(1000 * each), new Date(1000 * now))))""",
        [TIMES, NOW],
    )
    assert written == expected
    assert periods == page.evaluate(
        """([end, now]) => [5, 900, 600_000].map((each) =>
            adkweb.dates.range(...[end - 60 * each, end, now].map((at) => new Date(1000 * at))))""",
        [TIMES[0], NOW],
    )
    assert page.evaluate("all => all.map(adkweb.numbers.count)", [0, 950, 20_004, 1_234_567]) == counts
    assert page.evaluate("all => all.map(adkweb.numbers.duration)", TOOK) == durations
    assert page.evaluate("all => all.map(adkweb.numbers.percentage)", [0, 0.07, 1]) == shares


def test_the_server_knows_the_time_zone_that_a_browser_says(visit: Visit) -> None:
    page = visit(timezone_id="Asia/Seoul")
    page.goto("/")
    page.wait_for_function(f"document.cookie.includes('{ZONE}=')")
    request = RequestFactory().get("/", headers={"Cookie": page.evaluate("document.cookie")})
    assert zone_of(request) == ZoneInfo("Asia/Seoul")
