"""Draws a session as a strip of bars, and steps along it. Each bar covers some consecutive events.

That costs one scan of an index of the source, and some of adkweb's own index. However many events there are, only the
time and author of a few per bar are read.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import NotFound
from ..domain.invocations import taken_back
from ..domain.kinds import HIGHLIGHTS
from ..domain.positions import Seq, stands_for_time
from ..domain.session_ref import SessionRef
from ..reads import timeline
from ..reads.event_views import events_of, ordered
from ..reads.timeline import Glimpse, glimpses
from ..sources import database, dialect
from .index import build, query

BARS: Final = 300
ERROR: Final = "error"  # a kind to step to, as STATE
STATE: Final = "state"
_EVENTS: Final = "events WHERE app_name = %s AND user_id = %s AND session_id = %s"
_END: Final = 2**53 - 1  # a page uses this for the newest event
_UNSEEN: Final = Glimpse(0.0, "")  # of an event that was deleted in the meantime
_REACH: Final = 1_000  # how far back events that changed state are searched first


@dataclass(frozen=True, slots=True)
class Bar:
    """Some consecutive events.

    `first` and `last` are their seqs, `number` is the number of the first one in the session, `events` is how many they
    are, and `writes` how many of them changed state. `kind` is the most specific kind among them, empty for none.
    `gone` is true if a rewind undid all of them. `began` and `ended` are the times of the first and the last one.
    `author` is who wrote the first one; `answered` is who wrote the second one, empty if there is none.
    """

    first: Seq
    last: Seq
    number: int
    events: int
    writes: int
    kind: str
    gone: bool
    began: float
    ended: float
    author: str
    answered: str


def bars(ref: SessionRef, most: int = BARS, cuts: Sequence[Seq] = (), *, actor: Actor) -> list[Bar]:
    """Returns the session's events in at most `most` bars, the oldest first. Raises Behind, Invalid, SourceError.

    No bar has events from both sides of a cut, which is the seq of an event; there are fewer cuts than `most`.
    """
    actor.check_sees(ref)
    build.catch_up(ref.source, ref=ref)
    with database.using(ref.source) as db, db.cursor() as cursor:
        of = dialect.of(db)
        cursor.execute(f"SELECT {of.seq_in_session} FROM {_EVENTS} ORDER BY {', '.join(of.order)}", ref[1:])
        seqs = [row[0] for row in cursor.fetchall()]
        ends = _ends(len(seqs), most, [bisect_left(seqs, cut) for cut in cuts])
        pairs = list(pairwise(ends))
        wanted = {seqs[index] for start, end in pairs for index in (start, min(start + 1, end - 1), end - 1)}
        seen = glimpses(ref, wanted, actor) if wanted else {}
    stretches = [(seqs[start], seqs[end - 1]) for start, end in pairs]
    counted = query.highlight_counts(ref, HIGHLIGHTS, stretches)
    gone = _taken_back(ref) if any(counts[HIGHLIGHTS.index("rewind")] for counts in counted) else []
    return [
        Bar(
            *(first, last, start + 1, end - start, counts[0], _telling(counts)),
            any(a <= first and last <= b for a, b in gone),
            *_seen([seen.get(seqs[each], _UNSEEN) for each in range(start, min(start + 2, end))], seen.get(last)),
        )
        for (first, last), (start, end), counts in zip(stretches, pairs, counted, strict=True)
    ]


def _ends(events: int, most: int, cuts: Sequence[int]) -> list[int]:
    """Returns the indexes at which bars start, and at which the last one ends. Between two cuts there are as many as
    there is room for, by the number of events: [0, 1, 3, 5] for 5 events, 3 bars and a cut at 1."""
    edges = sorted({0, *cuts, events})
    spare, left = min(most, events) - (len(edges) - 1), max(1, events - (len(edges) - 1))
    ends = [0] if events else []
    for start, end in pairwise(edges):
        number = 1 + (end - start - 1) * spare // left
        ends += [start + (end - start) * (each + 1) // number for each in range(number)]
    return ends


def _seen(first: Sequence[Glimpse], last: Glimpse | None) -> tuple[float, float, str, str]:
    """Returns when a bar started and ended, who wrote its first event, and who its second one."""
    began, author = first[0]
    return began, last.at if last else began, author, first[1].author if len(first) > 1 else ""


def _taken_back(ref: SessionRef) -> list[tuple[Seq, Seq]]:
    """Returns the ranges of seq that a rewind undid: [(313, 316)] after a rewind, with seq 317, to event 313."""
    rewinds = query.highlights(ref, ["rewind"])
    stretches = taken_back((each.seq, each.since) for each in rewinds)
    return [(first, Seq(last - 1)) for first, last in stretches if first < last]


def _telling(counts: Sequence[int]) -> str:
    kinds = [kind for kind, count in zip(HIGHLIGHTS, counts, strict=True) if count]
    return kinds[-1] if kinds else ""


def event_at(ref: SessionRef, seq: Seq, steps: int = 0, *, actor: Actor, to: str = "") -> str:
    """Returns the id of the event that is `steps` after a seq, or before it if negative.

    Without steps it is the event with that seq, or the nearest one before. With `to`, each step goes to an event of
    that kind: one that changed `state`, or an `error`. A step beyond an end leads to the first or the last event; if no
    other event changed state, to the one with that seq. Events with the same seq are one step. Raises NotFound for a
    session without events, if there is no such error, and for a seq from before the source was adopted or released;
    Behind, SourceError.
    """
    actor.check_sees(ref)
    if to and steps:
        build.catch_up(ref.source, ref=ref)
        near = _after(ref, to, seq, steps) if steps > 0 else _before(ref, to, _within(ref, seq, actor), -steps)
        if near is None and to == ERROR:
            raise NotFound(_("No later errors.") if steps > 0 else _("No earlier errors."))
        return event_at(ref, near or seq, actor=actor)
    with database.using(ref.source):
        if 0 < seq < _END and stands_for_time(seq) == database.is_numbered(ref.source):
            raise NotFound(_("This database was adopted or released since you loaded the page. Reload it."))

        def ask(steps: int, *, newest: bool, **where: Seq) -> str | None:
            ids = ordered(events_of(ref).filter(**where), ref.source, newest=newest).values_list("id", flat=True)
            return next(iter(ids[steps : steps + 1]), None)

        if steps > 0:
            event_id = ask(steps - 1, newest=False, seq__gt=seq) or ask(0, newest=True)
        else:
            side = {"seq__lt": seq} if steps else {"seq__lte": seq}
            event_id = ask(max(0, -steps - 1), newest=True, **side) or ask(0, newest=False)
    if event_id is None:
        raise NotFound(_("This session has no events yet."))
    return event_id


def _within(ref: SessionRef, seq: Seq, actor: Actor) -> Seq:
    """Returns a seq, but at most the one after the newest event: looking back starts there."""
    return min(seq, Seq(timeline.newest_seq(ref, actor=actor) + 1))


def _after(ref: SessionRef, kind: str, seq: Seq, steps: int) -> Seq | None:
    events = query.highlights(ref, [kind], after=seq, limit=steps)
    return events[-1].seq if events else None


def _before(ref: SessionRef, kind: str, seq: Seq, steps: int) -> Seq | None:
    """Returns the seq of the event of a kind that is `steps` before another, or of the first one."""
    reach, upto, first = _REACH, seq - 1, None
    while upto >= 0:
        after = max(-1, upto - reach)
        highlights = query.highlights(ref, [kind], after=Seq(after), upto=Seq(upto), limit=reach)
        if len(highlights) >= steps:
            return highlights[-steps].seq
        if highlights:
            first, steps = highlights[0].seq, steps - len(highlights)
        reach, upto = reach * 4, after
    return first
