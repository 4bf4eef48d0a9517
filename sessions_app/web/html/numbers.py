"""Defines the filters that name events by their numbers in their session, which are built into every template.

The first event of a session has the number 1. `numbers` has those of some events of one session, by seq."""

from collections.abc import Mapping
from typing import Any

from django.utils.safestring import SafeString

from ...domain.positions import Seq, stands_for_time, time_of
from .tags import register
from .times import clock


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
