"""The bars of a histogram: what its ends would list, steps that people know, and never too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from django.db.models import F

from sessions_app.access.actor import SYSTEM
from sessions_app.models import SearchSession
from sessions_app.search import tree
from sessions_app.search.health import MOST, Bar, histogram
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
DAY: Final = 1_767_225_600.0  # 2026-01-01 in UTC
ALL: Final = tree.Query(None)


@pytest.fixture
def at(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> Callable[..., None]:
    """Makes sessions that were active last at these times; those of `failed` failed."""
    source = open_source(new_store("sqlite"))

    def make(*times: float, failed: tuple[float, ...] = ()) -> None:
        for number, _time in enumerate(times):
            create_session(source, "booking", "ana", session_id=f"s{number}", actor=ALICE)
        feed(source)
        for number, time in zip(SearchSession.objects.values_list("pk", flat=True), times, strict=True):
            SearchSession.objects.filter(pk=number).update(first=time, last=time, failed=time in failed)

    return make


def counts(bars: list[Bar]) -> list[tuple[float, int, int]]:
    """Returns where each bar that is not empty begins, after DAY, with its sessions and failures."""
    return [(bar.start - DAY, bar.sessions, bar.failed) for bar in bars if bar.sessions]


def between(after: float | None = None, before: float | None = None) -> tree.Query:
    times = [tree.Time("after", after)] if after is not None else []
    times += [tree.Time("before", before)] if before is not None else []
    return tree.Query(times[0] if len(times) == 1 else tree.And(tuple(times)))


def test_without_sessions_there_are_no_bars(own: str, at: Callable[..., None]) -> None:
    at()
    assert histogram(ALL, actor=SYSTEM) == []
    assert histogram(between(DAY), actor=SYSTEM) == []


def test_a_session_stands_in_the_bar_of_its_last_event(own: str, at: Callable[..., None]) -> None:
    at(DAY, DAY + 59, DAY + 60, DAY + 3_000, failed=(DAY + 60,))
    bars = histogram(ALL, actor=SYSTEM)
    assert bars[0] == Bar(DAY, DAY + 60, 2, 0)
    assert counts(bars) == [(0, 2, 0), (60, 1, 1), (3_000, 1, 0)]
    assert [bar.end for bar in bars[:-1]] == [bar.start for bar in bars[1:]], "they lie side by side"


def test_one_session_has_one_bar(own: str, at: Callable[..., None]) -> None:
    at(DAY + 5.5)
    assert histogram(ALL, actor=SYSTEM) == [Bar(DAY + 5, DAY + 6, 1, 0)]


def test_a_session_stands_in_the_bars_in_which_it_did_something_and_not_in_those_between(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    call, answer = ({"name": "book", "id": "c1"} | more for more in ({}, {"response": {"error": "full"}}))
    for author, after, part in (
        ("user", 0, {"text": "Book it"}),
        ("agent", 600, {"function_call": call}),
        ("agent", 1_200, {"function_response": answer}),
        ("user", 4_800, {"text": "And now?"}),
        ("agent", 4_801, {"text": "Done"}),
    ):
        event = {"author": author, "timestamp": DAY + after, "content": {"parts": [part]}}
        append_event(ref, event, actor=ALICE)
    feed(source)
    SearchSession.objects.update(last=DAY + 5_900)  # an edit, which no turn has
    assert counts(histogram(ALL, actor=SYSTEM, most=12)) == [
        *((0, 1, 0), (600, 1, 0), (1_200, 1, 0), (4_800, 1, 0), (5_400, 1, 0))
    ]
    inside = histogram(between(DAY + 1_300, DAY + 4_000), actor=SYSTEM)
    assert counts(inside) == []
    assert inside


def test_each_bar_counts_a_session_once_and_those_that_ended_with_a_failure(own: str, at: Callable[..., None]) -> None:
    at(*[DAY + 100 * n for n in range(20)], failed=(DAY + 700,))
    SearchSession.objects.update(first=F("last") - 3)
    bars = histogram(ALL, actor=SYSTEM, most=10)
    assert len(bars) > 5
    assert sum(bar.sessions for bar in bars) >= 20
    assert [bar.start for bar in bars if bar.failed] == [bar.start for bar in bars if bar.start <= DAY + 700 < bar.end]


@pytest.mark.parametrize(
    ("seconds", "step"),
    [
        *((0.5, 1), (59, 1), (60, 5), (3_540, 60), (3_600, 120), (86_400, 1_800), (7 * 86_400, 3 * 3_600)),
        *((365 * 86_400, 7 * 86_400), (5_000 * 86_400, 90 * 86_400), (20_000 * 86_400, 360 * 86_400)),
    ],
)
def test_a_step_is_one_that_people_know_and_there_are_never_too_many(
    own: str, at: Callable[..., None], seconds: float, step: float
) -> None:
    at(DAY, DAY + seconds)
    bars = histogram(ALL, actor=SYSTEM)
    assert {bar.end - bar.start for bar in bars} == {step}
    assert sum(bar.sessions for bar in bars) == 2
    assert len(bars) <= MOST + 1


@pytest.mark.parametrize("most", [1, 2, 7, 60])
def test_there_are_as_many_bars_as_fit(own: str, at: Callable[..., None], most: int) -> None:
    at(DAY + 123, DAY + 98_765)
    bars = histogram(ALL, actor=SYSTEM, most=most)
    assert sum(bar.sessions for bar in bars) == 2
    assert len(bars) <= most + 1


def test_the_range_of_a_query_is_that_of_the_bars(own: str, at: Callable[..., None]) -> None:
    at(DAY + 100, DAY + 200)
    bars = histogram(between(DAY, DAY + 3_000), actor=SYSTEM)
    assert (bars[0].start, bars[-1].start) == (DAY, DAY + 3_000)
    assert counts(histogram(between(after=DAY + 150), actor=SYSTEM)) == [(200, 1, 0)]


def test_what_holds_for_a_part_of_a_query_is_no_range(own: str, at: Callable[..., None]) -> None:
    at(DAY + 100, DAY + 200)
    either = tree.Query(tree.Or((tree.Time("after", DAY + 150), tree.Kind("error"))))
    assert counts(histogram(either, actor=SYSTEM)) == [(200, 1, 0)]
    never = tree.Query(tree.Not(tree.Time("after", DAY + 150)))
    assert counts(histogram(never, actor=SYSTEM)) == [(100, 1, 0)]


@pytest.mark.parametrize(
    ("after", "before"), [(DAY + 300, DAY), (0.0, DAY + 1), (0.0, 253_402_300_000.0), (-1e15, 1e15)]
)
def test_a_strange_range_is_no_error(own: str, at: Callable[..., None], after: float, before: float) -> None:
    at(DAY + 100, DAY + 200)
    assert len(histogram(between(after, before), actor=SYSTEM)) <= MOST + 1
