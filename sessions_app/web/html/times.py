"""Template filters for times and durations. Built into every template."""

import time
from datetime import UTC, datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ...domain.positions import Seq, number_of, time_of
from .tags import register


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as a person reads them: 0.8 s, 12 s, 3 min, 5 h, 2 d; never less than nothing."""
    if seconds is None:
        return ""
    size = max(0.0, seconds)
    if size < 10:
        return f"{size:.1f} s"
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if size < limit:
            return f"{size / divisor:.0f} {unit}"
    return f"{size / 86400:.0f} d"


@register.simple_tag
def moment(seconds: float | None) -> SafeString:
    """A time relative to now, the exact one on hover; the browser keeps it up to date and in its own time zone."""
    if seconds is None:
        return mark_safe('<span class="z">–</span>')
    return _time(seconds, "data-relative", "%Y-%m-%d %H:%M")


@register.simple_tag
def clock(seconds: float) -> SafeString:
    """A time of day, date and exact time on hover, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-clock", "%H:%M:%S")


@register.filter
def named(place: Seq | None) -> str | SafeString:
    """An event's number; where events have none, its time of day."""
    if place is None or number_of(place) is not None:
        return "" if place is None else str(place)
    return clock(time_of(place))


@register.filter
def hashed(place: Seq | None) -> str | SafeString:
    """As `named`, a number as “#5”."""
    return f"#{place}" if number_of(place) is not None else named(place)


@register.simple_tag
def exact(seconds: float) -> SafeString:
    """Date and time to the millisecond, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-exact", "%Y-%m-%d %H:%M:%S UTC")


@register.simple_tag
def elapsed(since: float) -> SafeString:
    """How long something has been going on; the browser counts on."""
    return format_html(
        '<time datetime="{}" data-elapsed>{}</time>',
        datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
        duration(time.time() - since),
    )


def _time(seconds: float, mark: str, form: str) -> SafeString:
    try:
        instant = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, TypeError, ValueError, OSError):  # an event may hold anything
        return format_html('<span class="z">{}</span>', seconds)
    return format_html(
        '<time datetime="{}" title="{}" {}>{}</time>',
        instant.isoformat(timespec="milliseconds"),
        instant.strftime("%Y-%m-%d %H:%M:%S UTC"),
        mark_safe(mark),  # noqa: S308 - one of three constants
        instant.strftime(form),
    )
