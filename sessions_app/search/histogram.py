"""Counts over time the sessions that a query selects: in each bar those that `after:` and `before:` its ends would list."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, NamedTuple

from ..access.actor import Actor
from . import tree
from .selecting import select
from .sql import rows, whole

MOST: Final = 60  # bars
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS: Final = (  # seconds of a bar
    *(1, 5, 10, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 90 * _DAY),
)


class Bar(NamedTuple):
    """The sessions that were active between two times, in seconds: that began before the end, and whose last event is not
    before the start. `failed` are those that ended there with a turn that failed.
    """

    start: float
    end: float
    sessions: int
    failed: int


def histogram(query: tree.Query, *, actor: Actor, most: int = MOST) -> list[Bar]:
    """Returns the bars from the first session to the last one, or over the range that the query names; at most `most`."""
    selection = select(query, actor)
    table = f"FROM sessions_app_searchsession AS s WHERE {selection.sql}"
    first, last = rows(f"SELECT min(s.first), max(s.last) {table}", selection.values)[0]
    if first is None:
        return []
    after, before = _range(query.tree)
    first, last = after if after is not None else first, before if before is not None else last
    step = _step(last - first, most)
    start = first // step * step
    bars = max(0, int((last - start) // step) + 1)
    end = start + bars * step
    counted = rows(
        f"""SELECT CASE WHEN s.first < %s THEN 0 ELSE {whole("(s.first - %s) / %s")} END,
        CASE WHEN s.last >= %s THEN {bars} ELSE {whole("(s.last - %s) / %s")} END,
        count(*), sum(CASE WHEN s.failed THEN 1 ELSE 0 END) {table} AND s.last >= %s AND s.first < %s GROUP BY 1, 2""",
        [start, start, step, end, start, step, *selection.values, start, end],
    )
    began, ended, failed = ([0] * (bars + 1) for _each in range(3))
    for first_bar, last_bar, sessions, failures in counted:
        began[min(first_bar, last_bar)] += sessions
        ended[last_bar] += sessions
        failed[last_bar] += failures
    # A bar has what began up to it, without what ended before it.
    active = accumulate(began[n] - (ended[n - 1] if n else 0) for n in range(bars))
    return [Bar(start + n * step, start + (n + 1) * step, each, failed[n]) for n, each in enumerate(active)]


def _step(seconds: float, most: int) -> float:
    least = seconds / max(1, most - 1)
    return next((step for step in _STEPS if step >= least), least // _STEPS[-1] * _STEPS[-1] + _STEPS[-1])


def _range(node: tree.Node | None) -> tuple[float | None, float | None]:
    """Returns the range of time that holds for the whole of a query."""
    nodes: Iterable[tree.Node | None] = node.children if isinstance(node, tree.And) else [node]
    times = [each for each in nodes if isinstance(each, tree.Time)]
    after = [each.seconds for each in times if each.name == "after"]
    before = [each.seconds for each in times if each.name == "before"]
    return max(after, default=None), min(before, default=None)
