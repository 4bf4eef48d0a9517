"""Puts summaries in place of the events that they cover, as ADK's compaction does (pure)."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..domain.content import Raw, object_of
from .content import Content, content_of
from .exclusion import Reader, Reason

Range = tuple[
    int, float, float
]  # a summary: the index or seq of its event, and the times from which and to which it covers


def range_of(event: Raw) -> tuple[float, float] | None:
    """Returns the times from which and to which an event's summary covers, in seconds; None for an event without a
    summary."""
    compaction = object_of(object_of(event, "actions"), "compaction")
    start, end = compaction.get("start_timestamp"), compaction.get("end_timestamp")
    if not isinstance(compaction.get("compacted_content"), dict) or not (_is_number(start) and _is_number(end)):
        return None
    return float(start), float(end)  # type: ignore[arg-type]


def retained(ranges: Iterable[Range]) -> list[Range]:
    """Returns the summaries that no other contains; of equal ones, the last."""
    result: list[Range] = []
    end = -math.inf
    for each in sorted(ranges, key=lambda each: (each[1], -each[2], -each[0])):
        if each[2] > end or not result:
            result.append(each)
            end = each[2]
    return sorted(result)


def covering(ranges: Iterable[Range], timestamp: float) -> int | None:
    """Returns the index (or seq) of the first summary that covers a moment."""
    return next((number for number, start, end in ranges if start <= timestamp <= end), None)


def timestamp_of(event: Raw) -> float:
    """Returns when an event was made, in seconds; 0 if that is not a number."""
    value = event.get("timestamp")
    return float(value) if _is_number(value) else 0.0  # type: ignore[arg-type]


def summarised(
    events: Sequence[Raw], included: list[int], reader: Reader, left_out: dict[int, Reason]
) -> tuple[list[Content], Sequence[int]]:
    """Returns the contents of the included events, with summaries in place of what they cover, and the order of all
    events.

    Adds to `left_out` what a summary covers. If there are summaries, the order is by time. A call that a summary covers
    comes back if a response to it remains."""
    summaries = [index for index in included if object_of(events[index], "actions").get("compaction")]
    if not summaries:
        return [content_of(events[index], index) for index in included], range(len(events))
    ranges = [(index, *span) for index in summaries if (span := range_of(events[index]))]
    kept = retained(ranges)
    items: list[tuple[float, int, Content]] = []
    for index in summaries:
        span = range_of(events[index])
        if not span:
            left_out[index] = Reason("empty")
        elif not any(each[0] == index for each in kept):
            by = next((n for n, start, end in kept if start <= span[0] and span[1] <= end), None)
            left_out[index] = Reason("contained", by)
        else:
            items.append((span[1], index, _summary(events[index], index, reader)))
    for index in included:
        if index in summaries:
            continue
        moment = timestamp_of(events[index])
        if (by := covering(kept, moment)) is not None:
            left_out[index] = Reason("compacted", by)
        else:
            items.append((moment, index, content_of(events[index], index)))
    contents, order = _by_time(items, events)
    return _recovered(contents, included, events, left_out), order


def _by_time(items: list[tuple[float, int, Content]], events: Sequence[Raw]) -> tuple[list[Content], list[int]]:
    """Sorts contents by time. Each summary belongs beside the last event before its end."""
    times = sorted((timestamp_of(event), index) for index, event in enumerate(events))
    order = [index for _moment, index in times]
    contents = []
    for moment, index, content in sorted(items, key=lambda item: item[:2]):
        last = bisect_right(times, (moment, index)) - 1
        contents.append(replace(content, home=order[last] if last >= 0 else -1) if content.summary else content)
    return contents, order


def _summary(event: Raw, index: int, reader: Reader) -> Content:
    said = object_of(object_of(object_of(event, "actions"), "compaction"), "compacted_content")
    named = str(event.get("invocation_id") or "")
    own = {"content": said, "author": reader.agent or "model", "invocation_id": named}
    return replace(content_of(own, index), summary=True)


class _Pairs:
    """Pairs responses with the calls before them, among all included events; a pair's name is (index of the call,
    id)."""

    def __init__(self, contents: list[Content], events: Sequence[Raw], present: set[int]) -> None:
        latest: dict[str, Content] = {}
        self.call_of: dict[tuple[int, str], Content] = {}  # by the response's index and id
        self.response_to: dict[tuple[int, str], Content] = {}  # the newest
        self.answered: set[tuple[int, str]] = set()  # calls with a response that remains
        for content in contents:
            latest.update((str(call["id"]), content) for call in content.calls if call.get("id"))
            for name in _ids(content.responses):
                if name in latest:
                    self.call_of[content.index, name] = latest[name]
                    pair = (latest[name].index, name)
                    if content.index in present:
                        self.answered.add(pair)
                    known = self.response_to.get(pair)
                    if not known or timestamp_of(events[content.index]) >= timestamp_of(events[known.index]):
                        self.response_to[pair] = content


def _recovered(
    contents: list[Content], included: list[int], events: Sequence[Raw], left_out: dict[int, Reason]
) -> list[Content]:
    """Brings back the calls that a summary covers and with a remaining response, with their other responses."""
    present = {content.index for content in contents if not content.summary}
    pairs = _Pairs([content_of(events[index], index) for index in included], events, present)
    result: list[Content] = []
    calls: set[int] = set()  # brought back
    others: set[int] = set()
    for content in contents:
        for name in _ids(content.responses):
            call = None if content.summary else pairs.call_of.get((content.index, name))
            if call is None or call.index in present or call.index in calls:
                continue
            calls.add(call.index)
            result.append(replace(call, home=content.home))
            for pair in [(call.index, each) for each in _ids(call.calls)]:
                other = None if pair in pairs.answered else pairs.response_to.get(pair)
                if other and other.index not in others:
                    others.add(other.index)
                    result.append(replace(other, home=content.home))
        result.append(content)
    for index in calls | others:
        left_out.pop(index, None)
    return result


def _ids(calls: Iterable[Raw]) -> list[str]:
    return [str(call["id"]) for call in calls if call.get("id")]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
