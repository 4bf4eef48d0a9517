"""Defines the template tags and filters for times and durations, which are built into every template."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from ...domain.positions import Seq, stands_for_time, time_of
from .. import dates
from ..numbers import duration, point, signed_duration, thousands_sign
from .tags import register

register.filter("duration", duration)
register.filter("signed_duration", signed_duration)


@register.simple_tag
def date_words() -> SafeString:
    """Returns the attributes of <body> from which scripts know how dates and numbers are written."""
    given = {f"date-{name}": words for name, words in dates.words_for_scripts().items()}
    given |= {"point": point(), "thousands": thousands_sign()}
    return format_html_join(" ", 'data-{}="{}"', given.items())


@register.simple_tag
def moment(seconds: float | None) -> SafeString:
    """Returns a time as `dates.ago` does, with the exact time on hover. The browser keeps it up to date."""
    if seconds is None:
        return mark_safe('<span class="z">–</span>')
    return _time(seconds, "data-relative", lambda at: dates.ago(at, time.time()))


@register.simple_tag
def clock(seconds: float) -> SafeString:
    """Returns a time of day, with date and time on hover."""
    return _time(seconds, "data-clock", dates.clock)


@register.simple_tag
def minute(seconds: float) -> SafeString:
    """Returns date and time to the minute, of today the time alone."""
    return _time(seconds, "data-minute", lambda at: dates.minute(at, time.time()))


@register.simple_tag
def second(seconds: float) -> SafeString:
    """Returns date and time to the second, of today the time alone."""
    return _time(seconds, "data-second", lambda at: dates.second(at, time.time()))


@register.simple_tag
def exact(seconds: float) -> SafeString:
    """Returns date and time to the millisecond."""
    return _time(seconds, "data-exact", dates.exact)


@register.simple_tag
def elapsed(since: float) -> SafeString:
    """Returns how long something has been going on. The browser goes on counting."""
    return format_html(
        '<time datetime="{}" data-elapsed>{}</time>',
        datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
        duration(time.time() - since),
    )


@register.simple_tag
def left(until: float) -> SafeString:
    """Returns how long it is until then, as 9:41. The browser goes on counting."""
    seconds = max(0, int(until - time.time()))
    instant = datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds")
    return format_html('<time datetime="{}" data-left>{}:{}</time>', instant, seconds // 60, f"{seconds % 60:02}")


def _time(seconds: float, attribute: str, words: Callable[[float], str]) -> SafeString:
    try:
        instant, title, shown = datetime.fromtimestamp(seconds, UTC), dates.whole(seconds), words(seconds)
    except (OverflowError, TypeError, ValueError, OSError):  # an event may hold anything
        return format_html('<span class="z">{}</span>', seconds)
    return format_html(
        '<time datetime="{}" title="{}" {}>{}</time>',
        instant.isoformat(timespec="milliseconds"),
        title,
        mark_safe(attribute),  # noqa: S308 - one of these constants
        shown,
    )


# --- The number of an event in its session, which begins with 1. `numbers` has those of some events, by seq -----------


@register.filter
def numbered(event: Any, numbers: Mapping[Seq, int]) -> int | str:
    """Returns an event's number, or nothing if nobody knows it. Expects anything with a `seq`."""
    return numbers.get(event.seq, "")


@register.filter
def named(event: Any, numbers: Mapping[Seq, int]) -> str | SafeString:
    """Returns an event's number; if nobody knows it, its time of day, or “–”. Expects a `seq`, and maybe a `timestamp`; None
    for an event that is gone."""
    if event is None:
        return ""
    if number := numbers.get(event.seq):
        return str(number)
    if timestamp := getattr(event, "timestamp", None):
        return clock(timestamp)
    return clock(time_of(event.seq)) if event.seq is not None and stands_for_time(event.seq) else "–"


@register.filter
def hashed(event: Any, numbers: Mapping[Seq, int]) -> str | SafeString:
    """Returns an event's name as `named` does, a number as “#5”."""
    return f"#{name}" if (name := named(event, numbers)).isdecimal() else name
