"""Tells how well agents do in a range of time: turns, failures, times, tokens, tools. No event is read for it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.db import connection

from ..access.actor import Actor
from ..domain.clock import Took, sign_of_all
from ..domain.cost import Usage
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..models import SearchName, SearchOwner, SearchSession
from ..reads.labels import said
from ..sources import dialect, registry
from . import tree
from .folding import alike, in_common
from .index.tables import ref_of
from .selecting import seen_apps, select
from .sql import is_one_of, rows

BARS: Final = 31  # of a chart, at most: hours of a day, days of a month
FAILURES: Final = 5
_TEXTS: Final = 50  # different ones of failures that are alike, which are compared


class Range(NamedTuple):
    """A range of time, in seconds since 1970: from `start` until before `end`."""

    start: float
    end: float

    def before(self) -> "Range":
        """Returns the range just before, which is as long."""
        return Range(2 * self.start - self.end, self.start)


@dataclass(frozen=True, slots=True)
class Of:
    """Names the sessions that are meant: everybody's, those of an app of a source, or those of one of its users."""

    source: str = ""
    app_name: str = ""
    user_id: str = ""


EVERYBODY: Final = Of()


@dataclass(slots=True)
class Figures:
    """The sessions with turns that began in a range of time, and these turns; a percentile is None if there are none."""

    start: float
    end: float
    sessions: int = 0
    turns: int = 0
    failed: int = 0
    tokens: int = 0
    times: dict[float, int] = field(default_factory=dict)  # how many turns took so many seconds
    signs: set[str] = field(default_factory=set)  # of these

    def add(self, took: str | None, sign: str, turns: int, failed: int, tokens: int) -> None:
        """Adds turns that took equally long."""
        self.turns += turns
        self.failed += failed
        self.tokens += int(tokens)
        if took is not None:
            self.times[float(took)] = self.times.get(float(took), 0) + turns
            self.signs.add(sign)

    @property
    def some(self) -> bool:
        """Tells whether there were any turns."""
        return bool(self.turns)

    @property
    def failed_share(self) -> float:
        """Returns the part of the turns that failed, from 0 to 1."""
        return self.failed / self.turns if self.turns else 0.0

    def percentile(self, part: float) -> Took | None:
        """Returns the time that this part of the turns did not exceed."""
        return percentile(self.times, self.signs, part)


class OfApp(NamedTuple):
    """The figures of an app in a range of time, except for its sessions; and its turns, bar by bar."""

    whole: Figures
    turns: list[int]


class InTime(NamedTuple):
    """The figures of a range of time as a whole and bar by bar, and those of its apps, by source and app."""

    whole: Figures
    bars: list[Figures]
    apps: dict[tuple[str, str], OfApp]


@dataclass(slots=True)
class Tool:
    """The calls of a tool in a range of time: how many, how many failed, and how many took so many seconds."""

    calls: int = 0
    failed: int = 0
    times: dict[float, int] = field(default_factory=dict)
    signs: set[str] = field(default_factory=set)

    @property
    def some(self) -> bool:
        """Tells whether there were any calls."""
        return bool(self.calls)

    @property
    def failed_share(self) -> float:
        """Returns the part of the calls that failed, from 0 to 1."""
        return self.failed / self.calls if self.calls else 0.0

    def percentile(self, part: float) -> Took | None:
        """Returns the time that this part of the calls did not exceed; None if nobody has answered one."""
        return percentile(self.times, self.signs, part)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failures that differ in numbers alone: how many, in how many sessions, when, and where the newest one is: in which
    session, with which title.

    `text` has the numbers that are the same in all failures of its kind that are known, and “…” for the others."""

    text: str
    count: int
    sessions: int
    first: float
    last: float
    ref: SessionRef
    title: str
    seq: Seq


def _took() -> str:
    """Returns the SQL of a time with two digits, so that a percentile is off by at most 5 %, and there are few groups."""
    return dialect.of(connection).two_digits("p.took")


def any_turn(during: Range, *, actor: Actor, of: Of = EVERYBODY) -> bool:
    """Tells whether any turn began in a range of time."""
    return bool(_Spans("t", during, actor, of).rows("1", "LIMIT 1"))


def figures(during: Range, *, actor: Actor, of: Of = EVERYBODY, ahead: float | None = None) -> InTime:
    """Returns the figures of a range of time as a whole, bar by bar, and those of each app that had turns.

    The bars are minutes, hours or days of a clock that is `ahead` of UTC by so many seconds; of the first and the last one,
    the part that is in the range. Without a clock, the whole is the only bar."""
    step = during.end - during.start if ahead is None else _step(during.end - during.start, BARS)
    begin = during.start if ahead is None else (during.start + ahead) // step * step - ahead
    bars = max(1, math.ceil((during.end - begin) / step))
    spans, bar = _Spans("t", during, actor, of), dialect.of(connection).whole(f"(p.at - {begin!r}) / {step!r}")
    edges = [max(during.start, min(begin + n * step, during.end)) for n in range(bars + 1)]
    in_time = InTime(Figures(*during), [Figures(*each) for each in pairwise(edges)], {})
    of_apps: dict[int, OfApp] = {}
    for app, number, took, sign, *sums in spans.rows(
        f"""p.app_owner_id, {bar}, {_took()}, p.sign, count(*),
        sum(CASE WHEN p.failed THEN 1 ELSE 0 END), sum(p.tokens)""",
        "GROUP BY 1, 2, 3, 4",
    ):
        bar_number = min(number, bars - 1)
        of_app = of_apps.setdefault(app, OfApp(Figures(*during), [0] * bars))
        of_app.turns[bar_number] += sums[0]
        for one in (in_time.whole, in_time.bars[bar_number], of_app.whole):
            one.add(took, sign, *sums)
    for number, sessions in spans.sessions(bar):
        in_time.bars[min(number, bars - 1)].sessions += sessions
    in_time.whole.sessions = in_time.bars[0].sessions if bars == 1 else sum(count for _one, count in spans.sessions())
    aliases = registry.aliases()
    owners = SearchOwner.objects.filter(pk__in=of_apps).values_list("pk", "source__where", "app_name")
    in_time.apps.update({(aliases[where], name): of_apps[pk] for pk, where, name in owners if where in aliases})
    return in_time


def usage(during: Range, *, actor: Actor, of: Of = EVERYBODY) -> list[Usage]:
    """Returns the tokens of each model in the turns that began in a range of time. A model without a name has ""."""
    spans = _Spans("tm", during, actor, of)
    used = spans.rows("p.name_id, sum(p.prompt), sum(p.output)", "AND (p.prompt > 0 OR p.output > 0) GROUP BY 1")
    names = dict(SearchName.objects.filter(pk__in=[number for number, *_used in used]).values_list("pk", "value"))
    models: dict[str, tuple[int, int]] = {}  # each app has names of its own
    for number, prompt, output in used:
        before = models.get(names.get(number, ""), (0, 0))
        models[names.get(number, "")] = before[0] + int(prompt), before[1] + int(output)
    return [Usage(model, *each) for model, each in models.items()]


def tools(during: Range, *, actor: Actor, of: Of = EVERYBODY) -> dict[str, Tool]:
    """Returns the calls of each tool that was called in a range of time."""
    took = f"CASE WHEN p.took IS NOT NULL THEN {_took()} END"
    called = _Spans("c", during, actor, of).rows(
        f"p.name_id, {took}, p.sign, count(*), sum(CASE WHEN p.failed THEN 1 ELSE 0 END)", "GROUP BY 1, 2, 3"
    )
    names = dict(SearchName.objects.filter(pk__in={row[0] for row in called}).values_list("pk", "value"))
    of_tools: dict[str, Tool] = {}
    for number, seconds, sign, calls, failed in called:
        tool = of_tools.setdefault(names.get(number, ""), Tool())  # each app has names of its own
        tool.calls += calls
        tool.failed += failed
        if seconds is not None:
            tool.times[float(seconds)] = tool.times.get(float(seconds), 0) + calls
            tool.signs.add(sign)
    return of_tools


def failures(during: Range, *, actor: Actor, of: Of = EVERYBODY) -> list[Failure]:
    """Returns what failed, the most frequent first."""
    spans, named = _Spans("f", during, actor, of), "JOIN sessions_app_searchname AS n ON n.id = p.name_id"
    groups = spans.rows(
        "n.value, count(*), count(DISTINCT p.session_id), min(p.at), max(p.at)",
        f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {FAILURES}",
        named,
    )
    texts: list[Any] = []
    among = is_one_of("n.value", [group[0] for group in groups], texts)
    newest = spans.rows(
        "n.value, p.session_id, p.seq, row_number() OVER (PARTITION BY n.value ORDER BY p.at DESC, p.seq DESC)",
        f"AND {among}",
        named,
        texts,
    )
    first = {text: (number, seq) for text, number, seq, rank in newest if rank == 1}
    sessions_of = _sessions([number for number, _seq in first.values()], actor)
    apps = [of.app_name] if of.app_name else [app.name for app in seen_apps(actor)]
    return [
        Failure(_with_numbers(text, apps), count, sessions, earliest, latest, *sessions_of[number], Seq(seq))
        for text, count, sessions, earliest, latest in groups
        for number, seq in [first[text]]
        if number in sessions_of
    ]


def _with_numbers(text: str, apps: Sequence[str]) -> str:
    """Returns what failures say that are alike, with the numbers that are the same in all of them in these apps."""
    beginning = text.partition("…")[0]
    if beginning == text:
        return text
    of_kind = SearchName.objects.filter(kind="error", app_name__in=apps, value__startswith=beginning)
    begin_so = list(of_kind.values_list("value", flat=True).distinct()[:_TEXTS])
    known = [each for each in begin_so if alike(each) == text]
    return in_common(known) if known and len(begin_so) < _TEXTS else text


def _sessions(numbers: Sequence[int], actor: Actor) -> dict[int, tuple[SessionRef, str]]:
    """Returns the sessions with these numbers in the index, and their titles, as far as their sources are listed."""
    aliases = registry.aliases()
    some = SearchSession.objects.filter(pk__in=numbers).values_list("pk", "source__where", "names", "title")
    refs = {pk: (ref_of(aliases[where], names), title) for pk, where, names, title in some if where in aliases}
    return {pk: (ref, said(title, ref, actor) or ref.session_id) for pk, (ref, title) in refs.items()}


def percentile(times: dict[float, int], signs: set[str], part: float) -> Took | None:
    """Returns the least time that this part of some times does not exceed. `times` has how many there are of each, and
    `signs` which signs they have."""
    left = part * sum(times.values())
    for time in sorted(times):
        left -= times[time]
        if left <= 0:
            return Took(time, sign_of_all(signs))
    return None


class _Spans:
    """Reads spans of some kinds that began in a range of time, in apps that the actor may see."""

    def __init__(self, kinds: str, during: Range, actor: Actor, of: Of) -> None:
        self._values: list[Any] = []
        conditions = [f"{is_one_of('p.kind', kinds, self._values)} AND p.at >= %s AND p.at < %s"]
        self._values += [during.start, during.end]
        apps, user = owners_of(actor, of)
        conditions.append(is_one_of("p.app_owner_id", apps, self._values))
        if user:
            conditions.append(
                """p.session_id IN (SELECT s.id FROM sessions_app_searchsession AS s
                JOIN sessions_app_searchowner AS o ON o.id = s.user_owner_id WHERE o.digest = %s)"""
            )
            self._values.append(user)
        self._where = " AND ".join(conditions)

    def rows(self, columns: str, rest: str = "", join: str = "", values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns columns of the spans. `values` are those of the rest."""
        statement = f"SELECT {columns} FROM sessions_app_searchspan AS p {join} WHERE {self._where} {rest}"
        return rows(statement, [*self._values, *values])

    def sessions(self, group: str = "0") -> list[tuple[Any, ...]]:
        """Returns how many different sessions there are in each group. count(DISTINCT) would take three times as long."""
        pairs = f"SELECT DISTINCT {group} AS one, p.session_id FROM sessions_app_searchspan AS p WHERE {self._where}"
        return rows(f"SELECT one, count(*) FROM ({pairs}) AS pairs GROUP BY one", self._values)


def owners_of(actor: Actor, of: Of) -> tuple[list[int], str]:
    """Returns the numbers of the apps that are meant and that the actor may see, and the digest of the user, or ""."""
    seen = seen_apps(actor)
    if of.source:
        digest = digest_of(of.app_name, "")
        seen = [app for app in seen if app.source == of.source and app.digest == digest]
    return [app.number for app in seen], digest_of(of.app_name, of.user_id) if of.user_id else ""


# --- Sessions over time -----------------------------------------------------------------------------------------------

MOST: Final = 60  # bars
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS: Final = (  # seconds of a bar
    *(1, 5, 10, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 90 * _DAY),
)


class Bar(NamedTuple):
    """The sessions with an event between two times, in seconds, as far as the index knows when: their first and their last
    one, those that began a turn, called a tool or answered for it, and what failed. `failed` are those that ended there with
    a turn that failed.
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
    bar = dialect.of(connection).whole
    spans = "FROM chosen JOIN sessions_app_searchspan AS p ON p.session_id = chosen.id WHERE a < b - 1 AND p.kind"
    # Sessions that began and ended in bars beside each other, as most do, have nothing in between: their spans are not read.
    counted = rows(
        f"""WITH chosen AS MATERIALIZED (
            SELECT s.id, CASE WHEN s.first < %s THEN -1 ELSE {bar("(s.first - %s) / %s")} END AS a,
            CASE WHEN s.last >= %s THEN {bars} ELSE {bar("(s.last - %s) / %s")} END AS b,
            CASE WHEN s.failed THEN 1 ELSE 0 END AS failed {table} AND s.last >= %s AND s.first < %s
        ), between_them AS (
            SELECT a, b, session_id, {bar("(at - %s) / %s")} AS bar FROM (
                SELECT a, b, p.session_id, p.at {spans} IN ('t', 'c', 'f') UNION ALL
                SELECT a, b, p.session_id, p.at + p.took {spans} = 'c' AND p.took > 0
            ) AS done WHERE at >= %s AND at < %s
        ), active AS (
            SELECT b AS bar, failed FROM chosen UNION ALL SELECT a, 0 FROM chosen WHERE a < b UNION ALL
            SELECT bar, 0 FROM (SELECT DISTINCT bar, session_id FROM between_them WHERE bar > a AND bar < b) AS each_once
        ) SELECT bar, count(*), sum(failed) FROM active GROUP BY bar""",
        [start, start, step, end, start, step, *selection.values, start, end, start, step, start, end],
    )
    active = {number: (sessions, failures) for number, sessions, failures in counted}
    return [Bar(start + n * step, start + (n + 1) * step, *map(int, active.get(n, (0, 0)))) for n in range(bars)]


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
