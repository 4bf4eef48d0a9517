"""Lists the sessions that broke rules, each with the first event that did."""

import json
from dataclasses import dataclass
from typing import Any, Final

from ..access.actor import Actor
from ..access.shown import shown_words
from ..domain.positions import Seq, is_creation, seq_of
from ..domain.session_ref import SessionRef
from ..models import Rule
from ..reads.paging import Page, read_cursor, write_cursor
from ..search.health import EVERYBODY, Of, Range, owners_of
from ..search.index.tables import ref_of
from ..search.sql import is_one_of, rows
from ..sources import database, registry

PAGE: Final = 50
COUNTED: Final = 10_000  # sessions that broke a rule
RECENT: Final = 8  # rules
_NUMBERED: Final = 2**62  # beyond, no event is known


@dataclass(frozen=True, slots=True)
class Broken:
    """A session that broke a rule: the event that did it first, and when; `event_id` is empty if no event did, or none
    is known. `now` says whether its state breaks the rule now.
    """

    ref: SessionRef
    event_id: str
    seq: Seq | None
    at: float
    now: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of sessions that broke a rule, and of those that do now; at most COUNTED, and then there are
    `more`."""

    sessions: int
    now: int
    more: bool


@dataclass(frozen=True, slots=True)
class Recent:
    """A rule that was broken in a range of time: by how many sessions, by which one first, and when last.

    The COUNTED newest breaches of all rules together are counted."""

    source: str
    app_name: str
    rule: int
    name: str
    sessions: int
    first: Broken
    last: float


_OF: Final = """JOIN sessions_app_rule AS r ON r.id = b.rule_id
    JOIN sessions_app_searchsource AS w ON w."where" = r."where"
    JOIN sessions_app_searchsession AS s ON s.source_id = w.id AND s.digest = b.digest"""  # one that is gone is left out
_FROM: Final = f"sessions_app_breach AS b {_OF}"
_COLUMNS: Final = "b.names, b.event_id, b.position, b.at, b.now"


def broken(rule: Rule, before: str | None = None, limit: int = PAGE, *, actor: Actor) -> Page[Broken]:
    """Returns a page of the sessions that broke a rule, the newest breach first."""
    if not actor.may_see(rule.source, rule.app_name):
        return Page([])
    condition, values = "b.rule_id = %s", [rule.pk]
    if before:
        condition += " AND (b.at, b.id) < (%s, %s)"
        values += read_cursor(before, float, int)
    page = rows(
        f"SELECT {_COLUMNS}, b.id FROM {_FROM} WHERE {condition} ORDER BY b.at DESC, b.id DESC LIMIT %s",
        [*values, limit + 1],
    )
    following = write_cursor(page[limit - 1][3], page[limit - 1][5]) if len(page) > limit else None
    return Page([_broken(rule.source, row[:5]) for row in page[:limit]], following)


def counts(rule: Rule, *, actor: Actor) -> Counts:
    """Returns how many sessions broke a rule, and how many do now."""
    if not actor.may_see(rule.source, rule.app_name):
        return Counts(0, 0, False)
    every, now = (
        rows(f"SELECT count(*) FROM (SELECT 1 FROM {_FROM} WHERE b.rule_id = %s {also} LIMIT %s) AS counted", values)[
            0
        ][0]
        for also, values in (("", [rule.pk, COUNTED + 1]), ("AND b.now", [rule.pk, COUNTED + 1]))
    )
    return Counts(min(every, COUNTED), min(now, COUNTED), every > COUNTED)


def recent(during: Range, *, actor: Actor, of: Of = EVERYBODY) -> list[Recent]:
    """Returns the rules that were broken in a range of time, those with the newest breach first."""
    values: list[Any] = []
    apps, user = owners_of(actor, of)
    condition = is_one_of("+s.app_owner_id", apps, values)  # each breach leads to its session: an app's may be many
    if user:
        condition += " AND +s.user_owner_id IN (SELECT o.id FROM sessions_app_searchowner AS o WHERE o.digest = %s)"
        values.append(user)
    newest = f"""(SELECT * FROM sessions_app_breach WHERE at >= %s AND at < %s ORDER BY at DESC LIMIT {COUNTED}) AS b
        {_OF}"""
    values = [during.start, during.end, *values]
    groups = rows(
        f"""SELECT r.id, w."where", r.names, r.title, r.condition, count(*), max(b.at) FROM {newest} WHERE {condition}
        GROUP BY 1, 2, 3, 4, 5 ORDER BY 7 DESC LIMIT %s""",
        [*values, RECENT],
    )
    aliases = registry.aliases()
    broken_rules = []
    for number, where, names, title, text, count, last in groups:
        (first,) = rows(
            f"SELECT {_COLUMNS} FROM {newest} WHERE {condition} AND b.rule_id = %s ORDER BY b.at, b.id LIMIT 1",
            [*values, number],
        )
        if alias := aliases.get(where):
            (app,) = json.loads(names)
            name = shown_words(title or text, actor, app)
            broken_rules.append(Recent(alias, app, number, name, count, _broken(alias, first), last))
    return broken_rules


def _broken(source: str, row: tuple[Any, ...]) -> Broken:
    names, event_id, position, at, now = row
    numbered = event_id and position < _NUMBERED and not is_creation(position) and database.is_numbered(source)
    return Broken(ref_of(source, names), event_id, seq_of(position) if numbered else None, at, bool(now))
