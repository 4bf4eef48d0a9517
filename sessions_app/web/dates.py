"""Writes dates and times in the one style of all pages, in the reader's time zone:

    09:05           today
    20 Nov          this year, with the time of day where it matters: 20 Nov, 09:05
    20 Nov 2025     any other year
    3 min ago       within a day, where a page keeps it up to date (`ago`): 5 h ago

The exact time is shown on hover. Spanish writes 20 nov, Korean 11월 20일: the catalogues say how. static/js/dates.js keeps
what is shown up to date, and writes the same: it is given the words of `words_for_scripts`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from django.utils import timezone
from django.utils.dates import MONTHS_3, WEEKDAYS_ABBR
from django.utils.translation import get_language, pgettext

_HOUR: Final = 3600
_MINUTE: Final = 60
_DAY: Final = 86_400


def ago(seconds: float, now: float) -> str:
    """Returns a time for a page that keeps it up to date: “now”, “3 min ago”, “5 h ago”, “in 3 min”, or else its date."""
    passed, words = now - seconds, _words()
    size = abs(passed)
    if size >= _DAY:
        return day(seconds, now)
    if size < _MINUTE:
        return words.now
    if size < _HOUR:
        return (words.ago if passed > 0 else words.ahead) % {"n": int(size / _MINUTE)}
    return (words.earlier if passed > 0 else words.later) % {"n": int(size / _HOUR)}


def minute(seconds: float, now: float) -> str:
    """Returns a time to the minute: 09:05, 20 Nov, 09:05."""
    return _with_date(seconds, now, _hour)


def second(seconds: float, now: float) -> str:
    """Returns a time to the second: 09:05:12, 20 Nov, 09:05:12."""
    return _with_date(seconds, now, _second)


def period(start: float, end: float, now: float) -> str:
    """Returns two times to the minute: 20 Nov, 09:05 – 10:05."""
    return f"{minute(start, now)} – {after(start, end, now)}"


def after(start: float, seconds: float, now: float) -> str:
    """Returns a time to the minute, after another one: without its date if both are of one day."""
    same_day = _local(start).date() == _local(seconds).date()
    return _hour(_local(seconds)) if same_day else minute(seconds, now)


def day(seconds: float, now: float) -> str:
    """Returns the date of a time, also if it is today."""
    return _date(_local(seconds), _local(now).year)


def edge(seconds: float, step: float, now: float) -> str:
    """Returns a time between two bars of a chart, as exact as the bars are wide: 20 Nov; 20 Nov, 09:05; 09:05:12."""
    return (day if step >= _DAY else minute if step >= _MINUTE else second)(seconds, now)


def bar(start: float, end: float, step: float, now: float) -> str:
    """Returns from when to when a bar of a chart is: 20 Nov; 20 Nov – 26 Nov; 20 Nov, 09:05 – 10:05."""
    end = min(end, now)
    if _MINUTE <= step < _DAY:
        return period(start, end, now)
    last = end if step < _DAY else end - 1
    return " – ".join(dict.fromkeys(edge(each, step, now) for each in (start, last)))


def hour(seconds: float) -> str:
    """Returns a time of day to the minute: 09:05."""
    return _hour(_local(seconds))


def clock(seconds: float) -> str:
    """Returns a time of day to the second: 09:05:12."""
    return _second(_local(seconds))


def exact(seconds: float) -> str:
    """Returns date and time to the millisecond: 20 Nov 2026, 09:05:12.433."""
    local = _local(seconds)
    return _words().at % {"date": _date(local), "time": f"{_second(local)}.{local.microsecond // 1000:03}"}


def whole(seconds: float) -> str:
    """Returns date and time to the second, with their zone: 20 Nov 2026, 09:05:12 UTC+1."""
    local = _local(seconds)
    return _words().at % {"date": _date(local), "time": f"{_second(local)} {_zone(local.utcoffset())}"}


def words_for_scripts() -> dict[str, str]:
    """Returns the words and the forms with which a script writes the same, by the names of its data."""
    blanks = {name: f"{{{name}}}" for name in ("n", "day", "month", "year", "date", "time", "weekday")}
    return {
        name: " ".join(words) if isinstance(words, tuple) else words % blanks
        for name, words in _words()._asdict().items()
    }


class _Words(NamedTuple):
    now: str
    ago: str
    ahead: str
    earlier: str
    later: str
    day: str
    year: str
    at: str
    weekday: str
    months: tuple[str, ...]
    weekdays: tuple[str, ...]


def _words() -> _Words:
    return _words_of(get_language() or "en")


@cache
def _words_of(language: str) -> _Words:
    """Returns the words of a language, which is the one of the moment: a page has hundreds of times."""
    cased = str.title if language.startswith("en") else str.lower  # Nov; within a sentence nov
    return _Words(
        pgettext("a time", "now"),
        pgettext("a time", "%(n)s min ago"),
        pgettext("a time", "in %(n)s min"),
        pgettext("a time", "%(n)s h ago"),
        pgettext("a time", "in %(n)s h"),
        pgettext("a date", "%(day)s %(month)s"),
        pgettext("a date", "%(day)s %(month)s %(year)s"),
        pgettext("a date", "%(date)s, %(time)s"),
        pgettext("a date", "%(weekday)s %(date)s"),
        tuple(cased(str(name)) for name in MONTHS_3.values()),
        tuple(cased(str(name)) for name in WEEKDAYS_ABBR.values()),
    )


def _local(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.get_current_timezone())


def _hour(local: datetime) -> str:
    return f"{local.hour:02}:{local.minute:02}"  # strftime would take twenty times as long, and a page has hundreds of times


def _second(local: datetime) -> str:
    return f"{_hour(local)}:{local.second:02}"


def _with_date(seconds: float, now: float, clock: Callable[[datetime], str]) -> str:
    local, today = _local(seconds), _local(now)
    at = clock(local)
    return at if local.date() == today.date() else _words().at % {"date": _date(local, today.year), "time": at}


def _date(local: datetime, this_year: int = 0) -> str:
    words = _words()
    form = words.day if local.year == this_year else words.year
    return form % {"day": local.day, "month": words.months[local.month - 1], "year": local.year}


def _zone(offset: timedelta | None) -> str:
    minutes = int((offset or timedelta()).total_seconds() // 60)
    hours, rest = divmod(abs(minutes), 60)
    sign = "+" if minutes > 0 else "\u2212"
    return "UTC" + (f"{sign}{hours}" if minutes else "") + (f":{rest:02}" if rest else "")
