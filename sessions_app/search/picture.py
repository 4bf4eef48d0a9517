"""Tells the turns of a whole session for a picture of it: what each took, what its tools did.

However many turns there are, few rows are returned: what would be too fine to be seen is summed up in the database."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db import connection

from ..access.actor import Actor
from ..domain.clock import Took, sign_of_all
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..sources import database
from .folding import Span, fold
from .outline import so_far_of

TURNS: Final = 200
CALLS: Final = 400


@dataclass(frozen=True, slots=True)
class Spans:
    """Turns that follow each other, or calls of tools: the numbers of the first and the last one, the seq and the time of
    the first one, how long they took together, their tokens, and how many failed."""

    first: int
    last: int
    seq: Seq
    at: float
    took: Took
    tokens: int
    failed: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The turns and the calls of a session, in order."""

    turns: list[Spans]
    calls: list[Spans]


def picture(ref: SessionRef, most: int = TURNS, *, actor: Actor) -> Picture | None:
    """Returns a session's turns, at most `most`: where there are more, as many stand together as are necessary.

    Returns None if the index is far behind. Raises NotFound, SourceError.
    """
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, newer = so_far_of(ref, actor)
    if newer is None:
        return None
    folded: dict[tuple[str, int], Span] = {}
    for view in newer:
        spans = fold(so_far, view.data, view.description, view.seq or 0)
        folded |= {(span.kind, span.number): span for span in spans if span.kind in "tc"}
    turns = _some(pk, "t", so_far.turns, most, folded.values())
    return Picture(turns, _some(pk, "c", so_far.calls, CALLS, folded.values()))


def _some(session: int, kind: str, number: int, most: int, newer: Iterable[Span]) -> list[Spans]:
    """Returns the spans of a kind, of which there are `number`, in at most `most` groups. What is newer counts."""
    size = max(1, -(-number // most))
    newest = [span for span in newer if span.kind == kind]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT min(number), max(number), min(seq), min(at), sum(took), sum(tokens),
            sum(CASE WHEN failed THEN 1 ELSE 0 END), min(nullif(sign, '')), max(nullif(sign, ''))
            FROM sessions_app_searchspan WHERE session_id = %s AND kind = %s
            AND number NOT IN ({", ".join(["%s"] * len(newest)) or "0"}) GROUP BY (number - 1) / {size}""",
            [session, kind, *(span.number for span in newest)],
        )
        groups = {(row[0] - 1) // size: _spans(*row) for row in cursor.fetchall()}
    for span in newest:
        one = _spans(span.number, span.number, span.seq, span.at, span.took, span.tokens, span.failed, span.sign)
        group = (span.number - 1) // size
        groups[group] = _joined(groups[group], one) if group in groups else one
    return [groups[group] for group in sorted(groups)]


def _spans(
    first: int, last: int, seq: int, at: float, took: float | None, tokens: int, failed: int, *signs: str | None
) -> Spans:
    together = Took(took or 0.0, sign_of_all(sign or "" for sign in signs))
    return Spans(first, last, Seq(seq), at, together, int(tokens), int(failed))


def _joined(a: Spans, b: Spans) -> Spans:
    """Returns two groups as one."""
    a, b = sorted([a, b], key=_first)
    last = max(a.last, b.last)
    took = Took(a.took.seconds + b.took.seconds, sign_of_all([a.took.sign, b.took.sign]))
    return Spans(a.first, last, a.seq, a.at, took, a.tokens + b.tokens, a.failed + b.failed)


def _first(spans: Spans) -> int:
    return spans.first
