"""Dates, times and numbers are written in one style, in the language and the time zone of the reader."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from sessions_app.domain.clock import Took
from sessions_app.domain.session_ref import SessionRef
from sessions_app.http.reader import ZONE
from sessions_app.web import dates, numbers
from tests.web.conftest import Browser


def at(*given: int) -> float:
    """A time in UTC."""
    return datetime(*given, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


NOW = at(2026, 11, 29, 12, 0)
TODAY, YESTERDAY = at(2026, 11, 29, 9, 5, 12), at(2026, 11, 28, 23, 5)
LAST_YEAR = at(2025, 9, 1, 7, 30)


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            [
                "now",
                "3 min ago",
                "in 3 min",
                "2 h ago",
                "in 2 h",
                "12 h ago",
                "27 Nov",
                "1 Sep 2025",
                "28 Nov, 23:05",
                "1 Sep 2025, 07:30",
            ],
        ),
        (
            "es",
            [
                "ahora",
                "hace 3 min",
                "en 3 min",
                "hace 2 h",
                "en 2 h",
                "hace 12 h",
                "27 nov",
                "1 sep 2025",
                "28 nov, 23:05",
                "1 sep 2025, 07:30",
            ],
        ),
        (
            "ko",
            [
                *("지금", "3분 전", "3분 후", "2시간 전", "2시간 후", "12시간 전", "11월 27일", "2025년 9월 1일"),
                *("11월 28일 23:05", "2025년 9월 1일 07:30"),
            ],
        ),
    ],
)
def test_a_date_is_as_short_as_it_can_be_in_each_language(language: str, words: list[str]) -> None:
    with translation.override(language):
        times = NOW - 59, NOW - 200, NOW + 200, TODAY, 2 * NOW - TODAY, YESTERDAY, NOW - 130_000, LAST_YEAR
        said = [dates.ago(each, NOW) for each in times]
        assert [*said, dates.minute(YESTERDAY, NOW), dates.minute(LAST_YEAR, NOW)] == words


def test_the_zone_decides_which_day_it_is() -> None:
    with timezone.override(ZoneInfo("Asia/Seoul")):
        assert dates.minute(YESTERDAY, NOW) == "08:05"
        assert dates.whole(TODAY) == "29 Nov 2026, 18:05:12 UTC+9"
    with timezone.override(ZoneInfo("America/St_Johns")):
        assert dates.exact(TODAY + 0.4339) == "29 Nov 2026, 05:35:12.433"
        assert dates.whole(TODAY) == "29 Nov 2026, 05:35:12 UTC\u22123:30"
    assert dates.whole(TODAY) == "29 Nov 2026, 09:05:12 UTC"


@pytest.mark.django_db
def test_a_page_is_written_in_the_zone_of_its_reader(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    add(ref, {"text": "Hello"}, timestamp=1000.0)

    def shown() -> str:
        return maria.open("session", **ref._asdict()).one("li", "ev").one("time").text

    assert shown() == "00:16:40"
    maria.cookies[ZONE] = "Asia/Seoul"
    assert shown() == "09:16:40"
    maria.cookies[ZONE] = "Nowhere/At_All"
    assert shown() == "00:16:40"


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["20,004", "2.1k", "92.5k", "1.2M", "0%", "0.1%", "13.3%", "99.9%", "$0.21"]),
        (
            "es",
            [
                "20\u202f004",
                "2,1\u202fk",
                "92,5\u202fk",
                "1,2\u202fM",
                "0\xa0%",
                "0,1\xa0%",
                "13,3\xa0%",
                "99,9\xa0%",
                "$0,21",
            ],
        ),
        ("ko", ["20,004", "2.1k", "92.5k", "1.2M", "0%", "0.1%", "13.3%", "99.9%", "$0.21"]),
    ],
)
def test_numbers_are_written_as_the_language_does(language: str, words: list[str]) -> None:
    with translation.override(language):
        shares = [numbers.share(each) for each in (0, 0.0001, 0.1333, 0.9999)]
        short = [numbers.in_short(each) for each in (2_100, 92_500, 1_234_567)]
        assert [numbers.count(20_004), *short, *shares, numbers.dollars(0.21)] == words
        assert numbers.duration(Took(3.9, "≥")) == ("≥ 3,9 s" if language == "es" else "≥ 3.9 s")
