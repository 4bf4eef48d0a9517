"""Two runs as the page that compares them needs them: some events of each, aligned, and why they part."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...access.actor import Actor
from ...domain.alignment import Alignment, Pair, align
from ...domain.errors import Error, NotFound
from ...domain.invocations import begins_turn
from ...domain.positions import NO_SEQ, Seq
from ...domain.session_ref import SessionRef
from ...domain.state import UNKNOWN, Change
from ...edits import fork_tree
from ...history import moments
from ...history.moments import Moment
from ...reads import timeline
from ...reads.deltas import Writer
from ...reads.event_views import EventView
from ...reads.paging import read_cursor, write_cursor
from ...search.outline import Numbers, outline, totals_of
from ...sources import database, errors

MOST: Final = 500  # events of a run that are read at once
_LOOKS: Final = 4  # so often, where both runs are the same
_KEYS: Final = 100  # that differ in state


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run is read from: after a cursor, with so many events and turns before. None: nobody knows how many."""

    cursor: str = ""
    events: int | None = 0
    turns: int | None = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Some events of a session, from a start on; `next` is where the rest starts, None if there is no more."""

    ref: SessionRef
    start: Start
    events: list[EventView]
    next: Start | None

    @property
    def numbers(self) -> dict[str, int]:
        """Returns the numbers of its events in the session, by id; none if they are not known."""
        before = self.start.events
        return {} if before is None else {event.id: n for n, event in enumerate(self.events, before + 1)}


@dataclass(frozen=True, slots=True)
class Runs:
    """Two runs beside each other. `skipped` says that both are the same before this page."""

    left: Run
    right: Run
    alignment: Alignment[EventView]
    skipped: bool = False

    @property
    def more(self) -> bool:
        """Tells whether one of them goes on."""
        return bool(self.left.next or self.right.next)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of state that differs before the divergence, with who wrote it last on each side."""

    change: Change
    left: Writer | None
    right: Writer | None


@dataclass(slots=True)
class Why:
    """The state before the divergence: the keys that differ, how many are the same, and which are unknown in one run or
    in both. Or an error."""

    keys: list[Key] = field(default_factory=list)
    more: int = 0
    same: int = 0
    unknown: dict[str, list[str]] = field(default_factory=dict)  # by "A", "B" or "both"
    error: str = ""


# --- Reading ----------------------------------------------------------------------------------------------------------


def runs(left: SessionRef, right: SessionRef, starts: tuple[Start, Start] | None, *, actor: Actor) -> Runs:
    """Reads two runs from where they start, otherwise from where they may begin to differ: a fork and its origin from
    the fork on, and others behind the first turns that are the same."""
    one, other = starts or _parting(left, right, actor) or (Start(), Start())
    begins = one.cursor != "" and starts is None
    for look in range(_LOOKS):
        both = _read(left, one, actor), _read(right, other, actor)
        page = _together(*both, align(both[0].events, both[1].events), skipped=begins or look > 0)
        if starts or page.alignment.first or not (page.left.next and page.right.next):
            break
        if look + 1 < _LOOKS:
            one, other = page.left.next, page.right.next
    return page


def read_starts(text: str) -> tuple[Start, Start] | None:
    """Returns the starts that an address names, the very beginning for “0”; None for no text. Raises Invalid."""
    if not text:
        return None
    if text == "0":
        return Start(), Start()
    values = read_cursor(text, str, int, int, str, int, int)
    a, b = (
        Start(name, events - 1 if events else None, turns - 1 if turns else None)
        for name, events, turns in (values[:3], values[3:])
    )
    return a, b


def write_starts(page: Runs) -> str:
    """Returns the starts of what follows a page, for an address."""
    ends = [run.next or _after(run, len(run.events)) for run in (page.left, page.right)]
    numbers = [(end.cursor, *(0 if n is None else n + 1 for n in (end.events, end.turns))) for end in ends]
    return write_cursor(*numbers[0], *numbers[1])


def in_numbers_of(run: Run, actor: Actor) -> Numbers | None:
    """Returns a session in numbers: from its events if all of them were read, otherwise from the index."""
    whole = run.start == Start() and run.next is None
    newest = NO_SEQ if whole else timeline.newest_seq(run.ref, actor=actor)
    return totals_of(run.ref, newest, actor=actor, events=run.events if whole else None)


def _read(ref: SessionRef, start: Start, actor: Actor) -> Run:
    """Reads whole turns, unless one is longer than a page."""
    first = write_cursor(0) if database.is_numbered(ref.source) else write_cursor(0.0, "")
    page = timeline.events_after(ref, start.cursor or first, limit=MOST, actor=actor)
    run = Run(ref, start, [_by_size(event) if event.size else event for event in page.rows], None)
    if page.next is None:
        return run
    begins = [n for n, event in enumerate(page.rows) if n and begins_turn(event.description)]
    return _cut(run, begins[-1] if begins else len(page.rows))


def _by_size(event: EventView) -> EventView:
    """Returns an event that is too large to be read, with its length as what it says: only that is compared."""
    return replace(event, data={**event.data, "output": {"characters": event.size}})


def _cut(run: Run, count: int) -> Run:
    """Returns the first `count` events of a run."""
    return replace(run, events=run.events[:count], next=_after(run, count))


def _after(run: Run, count: int) -> Start:
    """Returns where the events after the first `count` start."""
    start, some = run.start, run.events[:count]
    turns = sum(begins_turn(event.description) for event in some)
    return Start(
        some[-1].cursor if some else start.cursor,
        None if start.events is None else start.events + len(some),
        None if start.turns is None else start.turns + turns,
    )


def _together(left: Run, right: Run, alignment: Alignment[EventView], *, skipped: bool) -> Runs:
    """Leaves the last turns of one run for the next page, if the other may have them there."""
    turns = list(alignment.turns)
    while len(turns) > 1 and (
        (turns[-1].left is None and left.next is not None) or (turns[-1].right is None and right.next is not None)
    ):
        turns.pop()
    if len(turns) < len(alignment.turns):
        shown = Alignment(turns, alignment.coarse)
        last = [
            next((event for pair in reversed(shown.pairs) if (event := getattr(pair, side))), None)
            for side in ("left", "right")
        ]
        counts = [run.events.index(event) + 1 if event else 0 for run, event in zip((left, right), last, strict=True)]
        left, right = (
            _cut(run, count) if count < len(run.events) else run
            for run, count in zip((left, right), counts, strict=True)
        )
        alignment = shown
    return Runs(left, right, alignment, skipped)


def _parting(left: SessionRef, right: SessionRef, actor: Actor) -> tuple[Start, Start] | None:
    """Returns where a fork and its origin part; None if neither is a fork of the other."""
    for fork, origin in ((right, left), (left, right)):
        if ends := fork_tree.parting(fork, origin, actor=actor):
            starts = _start(origin, ends[0], actor), _start(fork, ends[1], actor)
            return starts if fork == right else starts[::-1]
    return None


def _start(ref: SessionRef, seq: Seq, actor: Actor) -> Start:
    known = outline(ref, [seq], actor=actor)
    number, turn = known.numbers.get(seq), known.turn_of(seq)
    return Start(write_cursor(seq), number, turn.number if turn else None if number is None else 0)


# --- Why they part ----------------------------------------------------------------------------------------------------


def why(page: Runs, *, actor: Actor) -> Why | None:
    """Returns in what the state differed that the agents saw just before the first divergence.

    None if there is none, or if it is what a user said: no state explains that. Where it cannot be said, or not yet, the
    answer says so.
    """
    pairs = page.alignment.pairs
    at = next((n for n, pair in enumerate(pairs) if not pair.same), None)
    if at is None or all(event.description.author == "user" for event in (pairs[at].left, pairs[at].right) if event):
        return None
    reason = Why()
    try:
        left, right = (_before(page, pairs, at, side, actor) for side in ("left", "right"))
    except Error as error:
        reason.error = errors.shown(error, actor)
        return reason
    changes = moments.compare(left, right)
    known = [change for change in changes if UNKNOWN not in (change.old, change.new)]
    reason.keys = [Key(each, left.writers.get(each.key), right.writers.get(each.key)) for each in known[:_KEYS]]
    reason.more = len(known) - len(reason.keys)
    for change in changes:
        if UNKNOWN in (change.old, change.new):
            side = "both" if change.old is change.new else "A" if change.old is UNKNOWN else "B"
            reason.unknown.setdefault(side, []).append(change.key)
    reason.same = len(left.state.merged().keys() | right.state.merged().keys()) - len(changes)
    return reason


def _before(page: Runs, pairs: Sequence[Pair[EventView]], at: int, side: str, actor: Actor) -> Moment:
    """Returns the state of a side before the divergence. Raises Behind, and Invalid if events have no order."""
    run: Run = getattr(page, side)
    event: Any = next((each for pair in pairs[at:] if (each := getattr(pair, side))), None)
    if event:
        return moments.state_at(run.ref, event.id, actor=actor, before=True)
    event = next((each for pair in reversed(pairs[:at]) if (each := getattr(pair, side))), None)
    if event:
        return moments.state_at(run.ref, event.id, actor=actor)
    with suppress(NotFound):
        if run.start.cursor:
            (seq,) = read_cursor(run.start.cursor, int)
            return moments.state_at_seq(run.ref, Seq(seq), actor=actor)
    return moments.state_now(run.ref, actor=actor)
