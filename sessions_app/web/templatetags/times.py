"""Defines the template tags and filters for times and durations, which are built into every template."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from ...domain.clock import Took
from ...domain.positions import Seq, stands_for_time, time_of
from .tags import register


@register.filter
def duration(seconds: float | Took | None) -> str:
    """Returns seconds in a readable form: 0.8 s, 12 s, 3 min, 5 h, 2 d. It is never negative.

    What is not known exactly has its sign before it: ≥ 0.8 s.
    """
    if seconds is None:
        return ""
    if isinstance(seconds, Took):
        return f"{seconds.sign} {duration(seconds.seconds)}".strip()
    size = max(0.0, seconds)
    if size < 10:
        return f"{size:.1f} s"
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if size < limit:
            return f"{size / divisor:.0f} {unit}"
    return f"{size / 86400:.0f} d"


@register.filter
def signed_duration(seconds: float) -> str:
    """Returns a difference of times with its sign: +3.7 s, −12 s."""
    return ("+" if seconds > 0 else "\u2212") + duration(abs(seconds))


@register.simple_tag
def moment(seconds: float | None) -> SafeString:
    """Returns a time relative to now, with the exact time on hover. The browser keeps it up to date, in its time zone."""
    if seconds is None:
        return mark_safe('<span class="z">–</span>')
    return _time(seconds, "data-relative", "%Y-%m-%d %H:%M")


@register.simple_tag
def clock(seconds: float) -> SafeString:
    """Returns a time of day, with date and time on hover, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-clock", "%H:%M:%S")


@register.simple_tag
def minute(seconds: float) -> SafeString:
    """Returns date and time to the minute, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-minute", "%Y-%m-%d %H:%M")


@register.simple_tag
def exact(seconds: float) -> SafeString:
    """Returns date and time to the millisecond, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-exact", "%Y-%m-%d %H:%M:%S UTC")


@register.simple_tag
def elapsed(since: float) -> SafeString:
    """Returns how long something has been going on. The browser goes on counting."""
    return format_html(
        '<time datetime="{}" data-elapsed>{}</time>',
        datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
        duration(time.time() - since),
    )


@register.simple_tag
def day(seconds: float, now: float, zone: tzinfo) -> SafeString:
    """Returns a time in a zone, with today and yesterday in words: “today 14:05:12”, “2026-11-20 14:05”."""
    local, today = datetime.fromtimestamp(seconds, zone), datetime.fromtimestamp(now, zone).date()
    days = {today: _("today"), today - timedelta(days=1): _("yesterday")}
    words = f"{days[local.date()]} {local:%H:%M:%S}" if local.date() in days else f"{local:%Y-%m-%d %H:%M}"
    instant = datetime.fromtimestamp(seconds, UTC)
    return format_html('<time datetime="{}">{}</time>', instant.isoformat(timespec="milliseconds"), words)


def _time(seconds: float, attribute: str, form: str) -> SafeString:
    try:
        instant = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, TypeError, ValueError, OSError):  # an event may hold anything
        return format_html('<span class="z">{}</span>', seconds)
    return format_html(
        '<time datetime="{}" title="{}" {}>{}</time>',
        instant.isoformat(timespec="milliseconds"),
        instant.strftime("%Y-%m-%d %H:%M:%S UTC"),
        mark_safe(attribute),  # noqa: S308 - one of four constants
        instant.strftime(form),
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
