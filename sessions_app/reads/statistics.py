"""Counts what is in a session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from ..access.actor import Actor
from ..domain.positions import SeqRange
from ..domain.session_ref import SessionRef
from ..sources import database, dialect
from .filters import FILTERS, TOKENS
from .size_limits import glanced_at, size_of_event

MOST: Final = 10_000  # events that are counted
HEAVIEST: Final = 20_000_000  # characters of all of them together
_OF_SESSION: Final = "FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s"


@dataclass(frozen=True, slots=True)
class Stats:
    """The numbers of a session, over its newest MOST events. `more` says whether there are others."""

    events: int
    tokens: int
    kinds: dict[str, int]
    more: bool


def stats(ref: SessionRef, between: SeqRange | None = None, *, actor: Actor) -> Stats:
    """Counts a session's events, or those of a range, their tokens, and events by filter. A long event is only counted
    as one event."""
    actor.check_sees(ref)
    with database.using(ref.source) as db:
        seq = dialect.of(db).seq_in_session
        rows = f"{_OF_SESSION} AND {seq} BETWEEN %s AND %s" if between else _OF_SESSION
        values = [*ref[1:], *(between or ())]
        number, more = _counted(db, rows, values)
        columns = ", ".join(f"sum(CASE WHEN {FILTERS[name].on(db)} THEN 1 ELSE 0 END)" for name in FILTERS)
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT count(*), sum({TOKENS.on(db)}), {columns}
                FROM (SELECT {glanced_at(db)}
                    {rows} ORDER BY {dialect.of(db).newest_first} LIMIT {number}) AS events""",
                values,
            )
            count, tokens, *kinds = cursor.fetchone()
    numbers = {name: number or 0 for name, number in zip(FILTERS, kinds, strict=True)}
    whole = int(min(tokens or 0, 2**63))  # SQLite turns a number that is too large into infinity
    return Stats(count, whole, numbers, more)


def _counted(db: BaseDatabaseWrapper, rows: str, values: Sequence[Any]) -> tuple[int, bool]:
    """Returns how many of the newest events are counted, and whether there are others."""
    left = HEAVIEST
    with db.cursor() as cursor:
        order = f"ORDER BY {dialect.of(db).newest_first} LIMIT {MOST + 1}"
        cursor.execute(f"SELECT {size_of_event(db)} {rows} {order}", values)
        for number, (size,) in enumerate(cursor):
            left -= size or 0
            if number == MOST or (number and left < 0):
                return number, True
    return MOST, False
