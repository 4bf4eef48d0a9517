"""Counts what is in a session."""

from dataclasses import dataclass
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..sources import database
from .filters import FILTERS, TOKENS
from .listed import newest_first
from .weights import GLANCED, SIZE_OF

MOST: Final = 10_000  # events that are counted
HEAVIEST: Final = 20_000_000  # characters of all of them together
_OF_SESSION: Final = "FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s"


@dataclass(frozen=True, slots=True)
class Stats:
    """The numbers of a session, over its newest MOST events. `more` tells whether there are others."""

    events: int
    tokens: int
    kinds: dict[str, int]
    more: bool


def stats(ref: SessionRef, *, actor: Actor) -> Stats:
    """Counts a session's events, tokens, and events by filter. Of a long event, counts only that it exists."""
    actor.check_sees(ref)
    with database.using(ref.source) as db:
        number, more = _counted(db, ref)
        columns = ", ".join(f"sum(CASE WHEN {FILTERS[name][db.vendor]} THEN 1 ELSE 0 END)" for name in FILTERS)
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT count(*), sum({TOKENS[db.vendor]}), {columns}
                FROM (SELECT {GLANCED[db.vendor]}
                    {_OF_SESSION} ORDER BY {newest_first(ref.source)} LIMIT {number}) AS events""",
                ref[1:],
            )
            count, tokens, *kinds = cursor.fetchone()
    numbers = {name: number or 0 for name, number in zip(FILTERS, kinds, strict=True)}
    whole = int(min(tokens or 0, 2**63))  # SQLite turns a number that is too large into infinity
    return Stats(count, whole, numbers, more)


def _counted(db: BaseDatabaseWrapper, ref: SessionRef) -> tuple[int, bool]:
    """Returns how many of the newest events are counted, and whether there are others."""
    left = HEAVIEST
    with db.cursor() as cursor:
        order = f"ORDER BY {newest_first(ref.source)} LIMIT {MOST + 1}"
        cursor.execute(f"SELECT {SIZE_OF[db.vendor]} {_OF_SESSION} {order}", ref[1:])
        for number, (size,) in enumerate(cursor):
            left -= size or 0
            if number == MOST or (number and left < 0):
                return number, True
    return MOST, False
