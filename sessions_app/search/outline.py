"""Tells in which turn of its session an event is, what each turn took, and which number an event has in the session.

The index knows this of all events but the newest, which are read here. If the index is far behind, nobody knows."""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Case, Sum, TextField, Value, When
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.clock import Took, sign_of_all
from ..domain.cost import Usage, usage_of
from ..domain.errors import NotFound
from ..domain.json_values import as_object
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef, digest_of
from ..models import SearchName, SearchSession, SearchSpan
from ..reads.event_views import EventView, events_of, ordered, views
from ..reads.lists import GLANCE
from ..reads.size_limits import Measured
from ..sources import database, dialect, registry
from .folding import Span, Summary, fold

UNREAD: Final = 100  # events after those in the index
_Begun = TypeVar("_Begun", bound=float)
_OF: Final = "app_name = %s AND user_id = %s AND session_id = %s"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn: its number, the seq and the number of its first event, when it began, in seconds, and what it took.

    `usage` has the tokens by model, as far as the events name it."""

    number: int
    seq: Seq
    first_event: int
    at: float
    took: Took
    tokens: int
    failed: bool
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """The turns to which some events belong, in order, and the numbers of these events, by seq. Empty if nobody knows.
    `agents` are those of the session, as domain/agents.py counts them; `events` is how many it has, 0 if nobody knows."""

    turns: Sequence[Turn] = ()
    numbers: dict[Seq, int] = field(default_factory=dict)
    agents: Sequence[int] = ()
    events: int = 0

    def turn_numbers(self, seqs: Iterable[Seq]) -> dict[Seq, int]:
        """Returns the numbers of the turns of events for which it was made, by seq, where they have one."""
        return {seq: turn.number for seq in seqs if (turn := self.turn_of(seq))}

    def turn_of(self, seq: Seq | None) -> Turn | None:
        """Returns the turn of an event; None before the first user message, or if nobody knows."""
        number = bisect_right(self.turns, seq or 0, key=lambda turn: turn.seq)
        return self.turns[number - 1] if number else None


class Reached(NamedTuple):
    """How far the index has read a session: the number of its row there, 0 if it has none; its summary; and the events that
    are newer, None if they are too many. A page that tells several things of a session asks for it once."""

    pk: int
    so_far: Summary
    newer: list[EventView] | None

    @property
    def seq(self) -> int:
        """Returns the seq of the last event that it knows."""
        return self.newer[-1].seq or 0 if self.newer else self.so_far.read

    @property
    def events(self) -> int:
        """Returns how many events the session has, as far as it is read; 0 if too many are newer."""
        return 0 if self.newer is None else self.so_far.events + len(self.newer)

    @property
    def has_errors(self) -> bool:
        """Tells whether it knows an error of the session."""
        return bool(self.so_far.errors) or any(view.description.failed for view in self.newer or ())


def reached(ref: SessionRef, *, actor: Actor) -> Reached:
    """Returns how far the index has read a session. Raises SourceError."""
    actor.check_sees(ref)
    with database.using(ref.source):
        return so_far_of(ref, actor)


def outline(
    ref: SessionRef, seqs: Iterable[Seq], *, actor: Actor, also: Iterable[Seq] = (), upto: Reached | None = None
) -> Outline:
    """Returns the turns and the numbers of some events of a session, and the turns of further ones (`also`), which are not
    counted. Raises NotFound, SourceError."""
    actor.check_sees(ref)
    numbered = set(seqs)
    asked = sorted(numbered.union(also))
    if not asked:
        return Outline()
    with database.using(ref.source) as db:
        if upto is None or (upto.newer is not None and asked[-1] > upto.seq):
            upto = so_far_of(ref, actor)
        pk, so_far, newer = upto.pk, deepcopy(upto.so_far), upto.newer
        read, turns, numbers = so_far.read, so_far.turns, {Seq(so_far.read): so_far.events}
        if newer is None and asked[-1] > read:
            return Outline()
        spans: dict[tuple[str, int], Span] = {}
        for view in newer or ():
            folded = fold(so_far, view.data, view.description, view.seq or 0)
            spans |= {(span.kind, span.number): span for span in folded if span.kind in "tm"}
            numbers[Seq(view.seq or 0)] = so_far.events
        # The turn in which the index has arrived goes on, also with events that are in no turn of their own, such as edits.
        stored = _stored(pk, turns, sorted({min(seq, Seq(read)) for seq in asked}))
        merged = sorted({turn.number: turn for turn in [*stored, *_turns(spans.values())]}.values(), key=_seq_of)
        numbers |= _counted(db, ref, sorted(numbered - numbers.keys()), merged)
        total = 0 if newer is None else so_far.events
        return Outline(merged, {seq: numbers[seq] for seq in numbered}, so_far.agents, total)


def agents_of(ref: SessionRef, *, actor: Actor) -> Sequence[int]:
    """Returns the agents of a session, as domain/agents.py counts them. Raises NotFound, SourceError."""
    _pk, so_far, newer = reached(ref, actor=actor)
    for view in newer or ():
        fold(so_far, view.data, view.description, view.seq or 0)
    return so_far.agents


def numbers_of(ref: SessionRef, seqs: Iterable[Seq | None], *, actor: Actor) -> dict[Seq, int]:
    """Returns the numbers of events in their session, by seq; none if nobody knows. Raises NotFound, SourceError."""
    return outline(ref, [seq for seq in seqs if seq is not None], actor=actor).numbers


def first_of_turn(ref: SessionRef, number: int, *, actor: Actor) -> Seq:
    """Returns the seq of a turn's first event. Raises NotFound, also for a turn that the index has not reached yet."""
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, newer = so_far_of(ref, actor)
    stored = SearchSpan.objects.filter(session_id=pk, kind="t", number=number).values_list("seq", flat=True)
    if 0 < number <= so_far.turns:
        return Seq(stored[0])
    for view in newer or ():
        fold(so_far, view.data, view.description, view.seq or 0)
        if so_far.turns == number > 0:
            return Seq(so_far.turn_seq)
    raise NotFound(_("This session has no turn %(number)s.") % {"number": number})


def turns_of(ref: SessionRef, *, actor: Actor) -> tuple[int, list[Usage]] | None:
    """Returns how many turns a session has, and the tokens of each model in them; None if the index is far behind."""
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, newer = so_far_of(ref, actor)
    if newer is None:
        return None
    used = SearchSpan.objects.filter(session_id=pk, kind__in="tm").values("name_id")
    sums = list(used.annotate(Sum("prompt"), Sum("output")).values_list("name_id", "prompt__sum", "output__sum"))
    names = dict(SearchName.objects.filter(pk__in=[row[0] for row in sums]).values_list("pk", "value"))
    usage = [Usage(names.get(pk, ""), prompt, output) for pk, prompt, output in sums if prompt or output]
    for view in newer:
        fold(so_far, view.data, view.description, view.seq or 0)
        usage += filter(None, [usage_of(view.data) if so_far.turns else None])
    return so_far.turns, usage


def turn_at(session: int, turns: int, seq: Seq | int) -> tuple[int, Callable[[int], int]]:
    """Returns the number of the last turn that began at or before a seq, 0 if none did; and a function that returns the seq
    of a turn's first event by the turn's number.

    `session` is the number of its row in the index, and `turns` how many it has: for each halving of them, one is looked up.
    """
    spans = SearchSpan.objects.filter(session_id=session, kind="t")

    def seq_of(turn: int) -> int:
        return spans.filter(number=turn).values_list("seq", flat=True).first() or 0

    return bisect_right(range(1, turns + 1), seq, key=seq_of), seq_of


def event_numbered(ref: SessionRef, number: int, *, actor: Actor) -> str:
    """Returns the id of the event with a number. Raises NotFound if the session has none, SourceError."""
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, _newer = so_far_of(ref, actor)
        turn = turns_at(pk, so_far.turns, [number], "first_event")[number]
        begins = SearchSpan.objects.filter(session_id=pk, kind="t", number=turn).values_list("seq", "first_event")
        seq, first = begins[0] if turn else (NO_SEQ, 1)
        events = ordered(events_of(ref).filter(seq__gte=seq), ref.source, newest=False).values_list("id", flat=True)
        if number >= first and (ids := events[number - first : number - first + 1]):
            return ids[0]
    raise NotFound(_("This session has no event %(number)s.") % {"number": number})


def event_since(ref: SessionRef, at: float, *, actor: Actor) -> str:
    """Returns the id of the first event at or after a time, in seconds; of the last one if all are before. Raises NotFound
    for a session without events, SourceError."""
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, _newer = so_far_of(ref, actor)
        turn = turns_at(pk, so_far.turns, [at], "at")[at]
        begins = SearchSpan.objects.filter(session_id=pk, kind="t", number=turn).values_list("seq", flat=True)
        later = events_of(ref).filter(seq__gte=begins[0] if turn else NO_SEQ, timestamp__gte=at)
        for events, newest in ((later, False), (events_of(ref), True)):
            if ids := ordered(events, ref.source, newest=newest).values_list("id", flat=True)[:1]:
                return ids[0]
    raise NotFound(_("This session has no events yet."))


def turns_at(session: int, turns: int, begun: Iterable[_Begun], column: str = "seq") -> dict[_Begun, int]:
    """Returns the number of the last turn whose first event has at most each seq; each number or time if `column` is
    `first_event` or `at`; 0 if there is none.

    All are halved together: the rows of each step are looked up by their keys in one query."""
    spans = SearchSpan.objects.filter(session_id=session, kind="t")
    bounds = dict.fromkeys(begun, (0, turns))
    while middles := {each: (low + high + 1) // 2 for each, (low, high) in bounds.items() if low < high}:
        begins = dict(spans.filter(number__in=set(middles.values())).values_list("number", column))
        for each, middle in middles.items():
            low, high = bounds[each]
            bounds[each] = (middle, high) if begins.get(middle, 0) <= each else (low, middle - 1)
    return {each: low for each, (low, _high) in bounds.items()}


def so_far_of(ref: SessionRef, actor: Actor) -> Reached:
    """Returns how far the index has read a session. Expects the source to be open.

    They are read from the last one on that the index has. If that is not there, the session was made anew since."""
    rows = SearchSession.objects.filter(source__where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
    for pk, text in rows.values_list("pk", "summary"):
        summary = Summary.stored(text)
        events, more = _from(ref, Seq(summary.read), actor, summary.read_id)
        ids = [view.id for view in events]
        if summary.read_id in ids:
            return Reached(pk, summary, None if more else events[ids.index(summary.read_id) + 1 :])
    events, more = _from(ref, NO_SEQ, actor)
    return Reached(0, Summary(), None if more else events)


def _from(ref: SessionRef, seq: Seq, actor: Actor, known: str = "") -> tuple[list[EventView], bool]:
    """Returns the events from a seq on, UNREAD + 1 at most, and whether there are more. The known one is not read."""
    text = Case(When(id=known, then=Value("{}")), default=Measured("event_data"), output_field=TextField())
    query = ordered(events_of(ref).filter(seq__gte=seq).annotate(text=text), ref.source, newest=False)
    return views(query, ref.source, actor, UNREAD + 1, GLANCE, ref)


def _seq_of(turn: Turn) -> Seq:
    return turn.seq


def _stored(session: int, turns: int, seqs: Sequence[Seq]) -> list[Turn]:
    """Returns the turns in the index to which events with these seqs belong."""
    if not seqs or not turns:
        return []
    wanted = set(turns_at(session, turns, seqs).values())
    rows = list(SearchSpan.objects.filter(session_id=session, kind="t", number__in=wanted))
    further = SearchSpan.objects.filter(session_id=session, kind="m", at__in=[row.at for row in rows])
    names = dict(
        SearchName.objects.filter(pk__in={row.name_id for row in [*rows, *further]}).values_list("pk", "value")
    )
    return _turns(
        Span(
            *(row.kind, row.number, names.get(row.name_id, ""), row.at, row.took, row.failed, row.tokens, row.seq),
            *(row.prompt, row.output, row.first_event, row.sign),
        )
        for row in [*rows, *further]
    )


def _turns(spans: Iterable[Span]) -> list[Turn]:
    usage: dict[int, list[Usage]] = {}
    begun: list[Span] = []
    for span in spans:
        usage.setdefault(span.seq, []).append(Usage(span.name, span.prompt, span.output))
        if span.kind == "t":
            begun.append(span)
    return [
        Turn(
            *(span.number, Seq(span.seq), span.first_event, span.at),
            *(Took(span.took or 0.0, span.sign), span.tokens, span.failed),
            tuple(usage[span.seq]),
        )
        for span in begun
    ]


def _counted(db: BaseDatabaseWrapper, ref: SessionRef, seqs: Sequence[Seq], turns: Sequence[Turn]) -> dict[Seq, int]:
    """Returns the numbers of events by counting within their turns: `turns` has all of them. Nothing between is read."""
    if not seqs:
        return {}
    begins = {seq: _begin(turns, seq) for seq in seqs}
    before = {
        seq: (last if last is not None and begins[last] == begins[seq] else Seq(begins[seq][0] - 1))
        for last, seq in zip([None, *seqs], seqs, strict=False)
    }
    seq = dialect.of(db).seq_in_session
    ranges: list[Any] = [each for pair in before.items() for each in reversed(pair)]
    with db.cursor() as cursor:
        cursor.execute(
            f"""WITH wanted (above, upto) AS (VALUES {", ".join(["(%s, %s)"] * len(seqs))})
            SELECT upto, (SELECT count(*) FROM events WHERE {_OF} AND {seq} > above AND {seq} <= upto) FROM wanted""",
            [*ranges, *ref[1:]],
        )
        counts = dict(cursor.fetchall())
    numbers: dict[Seq, int] = {}
    for each in seqs:
        numbers[each] = counts[each] + numbers.get(before[each], begins[each][1] - 1)
    return numbers


def _begin(turns: Sequence[Turn], seq: Seq) -> tuple[int, int]:
    """Returns the seq and the number of the first event of a seq's turn; those of the session before its first turn."""
    number = bisect_right(turns, seq, key=_seq_of)
    return (turns[number - 1].seq, turns[number - 1].first_event) if number else (0, 1)


def longest_turn(ref: SessionRef, *, actor: Actor) -> float:
    """Returns the seconds of a session's longest turn; 0 if the index knows none. Raises NotFound, SourceError."""
    actor.check_sees(ref)
    with database.using(ref.source):
        pk, so_far, newer = so_far_of(ref, actor)
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(took) FROM sessions_app_searchspan WHERE session_id = %s AND kind = 't'", [pk])
        longest = [cursor.fetchone()[0] or 0.0]
    for view in newer or ():
        longest += [span.took for span in fold(so_far, view.data, view.description, view.seq or 0) if span.kind == "t"]
    return max(longest)


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
    """The turns and the calls of a session, in order, and its agents, as domain/agents.py counts them."""

    turns: list[Spans]
    calls: list[Spans]
    agents: Sequence[int] = ()


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
    return Picture(turns, _some(pk, "c", so_far.calls, CALLS, folded.values()), so_far.agents)


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


@dataclass(frozen=True, slots=True)
class Numbers:
    """A session in numbers: its turns, how long they took together, and their tokens."""

    turns: int
    took: Took
    tokens: int


def totals_of(ref: SessionRef, upto: Seq, *, actor: Actor, events: Sequence[EventView] | None = None) -> Numbers | None:
    """Returns a session in numbers: counted from its `events`, if somebody has read all of them, otherwise from the index;
    None unless that has read it up to this seq."""
    if events is not None:
        actor.check_sees(ref)
        counted = Summary()
        for event in events:
            fold(counted, event.data, event.description, event.seq or NO_SEQ)
        return Numbers(counted.turns, Took(counted.took, counted.sign), counted.tokens)
    row = _row(ref, upto, actor)
    return Numbers(row.turns, Took(row.took, row.sign), row.tokens) if row else None


def _row(ref: SessionRef, upto: Seq, actor: Actor) -> SearchSession | None:
    actor.check_sees(ref)
    where = registry.identity(ref.source)
    row = SearchSession.objects.filter(source__where=where, digest=digest_of(*ref[1:])).first()
    return row if row and as_object(json.loads(row.summary)).get("read", 0) >= upto else None
