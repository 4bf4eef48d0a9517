"""Finds the line of a session in which words stand, for its row in a table of results."""

from dataclasses import dataclass
from typing import Final

from django.db import connections

from ..access.actor import Actor
from ..access.shown import shown
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.kinds import describe
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.units import event_in_seconds
from ..models import MOMENT, by_time
from ..reads.large_events import beginning_of
from ..reads.weights import large, measured_sql
from ..sources.dialect import SEQ_IN_SESSION
from .lines import lines_of
from .words import asked, spans, where_in

_BEFORE: Final = 48  # characters of a line before what matched
_AFTER: Final = 160
_MOST: Final = 300  # events of a piece


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matched: the event's seq and kind, and the line in three parts. `text` is what matched."""

    seq: Seq
    kind: str
    before: str
    text: str
    after: str


def match_of(ref: SessionRef, piece: tuple[int, int], text: str, actor: Actor) -> Match | None:
    """Returns the newest line in a range of a session's events in which a text stands, as far as the actor may see it.

    The source must be open.
    """
    db = connections[ref.source]
    seq = MOMENT if by_time(db) else SEQ_IN_SESSION[db.vendor]
    with db.cursor() as cursor:
        cursor.execute(
            f"""SELECT {seq}, id, {measured_sql("event_data", db.vendor)} FROM events
            WHERE app_name = %s AND user_id = %s AND session_id = %s AND {seq} BETWEEN %s AND %s
            ORDER BY {seq} DESC LIMIT {_MOST}""",
            [*ref[1:], *piece],
        )
        rows = cursor.fetchall()
    term = asked(text)
    for number_of, event_id, stored in rows:
        if large(stored):
            beginning = beginning_of(ref, event_id, actor)
            event = event_in_seconds(beginning.event) if beginning else {}
        else:
            event = as_object(shown(event_in_seconds(read_stored_or_none(stored)), actor, ref.app_name, "event"))
        told = describe(event)
        for line in lines_of(event, told):
            if parts := _cut(line, term):
                return Match(Seq(number_of), told.kind, *parts)
    return None


def _cut(line: str, term: list[str]) -> tuple[str, str, str] | None:
    """Returns a line before, where and after a term stands in it, on one line and cut."""
    words = spans(line)
    first = where_in(term, [word for word, _start, _end in words])
    if first is None:
        return None
    start, end = words[first][1], words[first + len(term) - 1][2]
    before = " ".join(line[max(0, start - 2 * _BEFORE) : start].split(" "))
    cut = ("…" + before[-_BEFORE:]) if len(before) > _BEFORE or start > 2 * _BEFORE else before
    return _one_line(cut), _one_line(line[start:end]), _one_line(line[end : end + _AFTER])


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")
