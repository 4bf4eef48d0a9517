"""The rows of two runs beside each other: turns, folded where both are the same, and in what their events differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, Final

from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ...domain.alignment import AlignedTurn, Aspect, Pair, aspects_of
from ...domain.clock import Took
from ...domain.kinds import say
from ...domain.summary import Piece
from ...reads.event_views import EventView, timed
from ..html.beside import line, lines
from ..html.difference import Differences
from ..session.runs import Run, Runs

_KEPT: Final = 3  # equal events that stay in sight before a difference; and events of one run that are no band
_TOOLS: Final[tuple[Aspect, ...]] = ("tools", "arguments", "response")
_IN_LINE: Final = frozenset({"state", "kind", "author"})  # aspects that a row shows without more words


@dataclass(frozen=True, slots=True)
class Cell:
    """An event in a row: its line, its number in the session if it is known, and how long it is since the event before."""

    event: EventView
    words: SafeString
    number: int | None
    since: Took | None


@dataclass(frozen=True, slots=True)
class Row:
    """Two events beside each other, or one alone. `says` is in what they differ; `details` are differences in full."""

    left: Cell | None
    right: Cell | None
    pair: Pair[EventView]
    says: str = ""
    details: list[tuple[str, SafeString]] = field(default_factory=list)
    first: bool = False


@dataclass(slots=True)
class Stretch:
    """Rows of a turn. `folded` ones are not in sight: they are the same in both runs, or `only` in A or in B."""

    rows: list[Row]
    folded: bool = False
    only: str = ""

    @property
    def first(self) -> bool:
        """Returns whether the runs part here."""
        return any(row.first for row in self.rows)


@dataclass(slots=True)
class Block:
    """A turn with its rows. Or several turns: `folded` ones that are the same, or those that are `only` in A or in B.

    Numbers are None where nobody knows them.
    """

    left: tuple[int | None, int | None] | None
    right: tuple[int | None, int | None] | None
    stretches: list[Stretch]
    folded: bool = False
    goes_on: bool = False
    before: bool = False
    coarse: bool = False
    only: str = ""

    @property
    def first(self) -> bool:
        """Returns whether the runs part here."""
        return any(stretch.first for stretch in self.stretches)

    @property
    def turns(self) -> tuple[int, int] | None:
        """Returns the first and the last turn that only one run has; None if nobody knows their numbers."""
        first, last = self.left or self.right or (None, None)
        return (max(first, 1), last) if first is not None and last else None

    @property
    def count(self) -> int:
        """Returns how many rows it has."""
        return sum(len(stretch.rows) for stretch in self.stretches)


def _uses_tools(pair: Pair[EventView]) -> bool:
    alone = None if pair.left and pair.right else pair.left or pair.right
    return pair.differs_in(*_TOOLS) if alone is None else bool(alone.description.of("call", "response"))


def _changes_state(pair: Pair[EventView]) -> bool:
    alone = None if pair.left and pair.right else pair.left or pair.right
    return pair.differs_in("state") if alone is None else bool(alone.description.delta or alone.description.removed)


FILTERS: Final[dict[str, Callable[[Pair[EventView]], bool]]] = {
    "differences": lambda pair: not pair.same,
    "state": _changes_state,
    "tools": _uses_tools,
}


def blocks(both: Runs, wanted: Callable[[Pair[EventView]], bool] | None) -> Iterator[Block]:
    """Yields the turns of a page; those that are the same, or only in one run, are one block each time."""
    rows = _Rows(both)
    for (same, only), turns in groupby(both.alignment.turns, key=lambda turn: (turn.same, _side(turn))):
        some = list(turns)
        if only or (same and wanted is None):
            if shown := [rows.of(pair) for turn in some for pair in turn.pairs if wanted is None or wanted(pair)]:
                yield _block(both, some, [Stretch(shown)], folded=same or len(shown) > _KEPT, only=only)
            continue
        for turn in some:
            if shown := [rows.of(pair) for pair in turn.pairs if wanted is None or wanted(pair)]:
                yield _block(both, [turn], list(_stretches(shown)))


def _side(of: AlignedTurn[EventView] | Pair[EventView]) -> str:
    """Returns A or B if only that run has a turn or an event."""
    return "A" if of.right is None else "B" if of.left is None else ""


def _block(
    both: Runs,
    turns: list[AlignedTurn[EventView]],
    stretches: list[Stretch],
    *,
    folded: bool = False,
    only: str = "",
) -> Block:
    first, last = turns[0], turns[-1]
    left, right = ((getattr(first, side), getattr(last, side)) for side in ("left", "right"))
    return Block(
        _numbers(both.left, *left),
        _numbers(both.right, *right),
        stretches,
        folded,
        goes_on=0 in (first.left, first.right) and bool(both.left.start.cursor),
        before=0 in (first.left, first.right) and not both.left.start.cursor,
        coarse=first.coarse,
        only=only,
    )


def _numbers(run: Run, first: int | None, last: int | None) -> tuple[int | None, int | None] | None:
    """Returns the numbers of turns in their session; None for turns that only the other run has."""
    if first is None or last is None:
        return None
    before = run.start.turns
    return (None, None) if before is None else (before + first, before + last)


def _stretches(rows: list[Row]) -> Iterator[Stretch]:
    """Yields the rows of a turn. Of many that are the same, the last ones stay in sight; many of one run are a band."""
    for (same, only), some in groupby(rows, key=lambda row: (row.pair.same, _side(row.pair))):
        stretch = list(some)
        if only and len(stretch) > _KEPT:
            yield Stretch(stretch, folded=True, only=only)
            continue
        if same and len(stretch) > 2 * _KEPT:
            yield Stretch(stretch[:-_KEPT], folded=True)
            stretch = stretch[-_KEPT:]
        yield Stretch(stretch)


class _Rows:
    """Makes the rows of a page."""

    def __init__(self, both: Runs) -> None:
        self._first = both.alignment.first
        self._numbers = both.left.numbers, both.right.numbers
        self._since = _since(both.left), _since(both.right)
        self._differences = Differences()

    def of(self, pair: Pair[EventView]) -> Row:
        """Returns the row of a pair."""
        a, b, first = pair.left, pair.right, pair is self._first
        if a is None or b is None or pair.same:
            left = self._cell(0, a, line(_said(a))) if a else None
            right = self._cell(1, b, line(_said(b))) if b else None
            return Row(left, right, pair, _alone(pair), first=first)
        one, other, differs = lines(_said(a), _said(b))
        details: list[tuple[str, SafeString]] = []
        cut = any(piece.text.endswith("…") for piece in (*_said(a), *_said(b)))
        if cut or not (differs or _IN_LINE.intersection(pair.differs)):
            old, new = aspects_of(a), aspects_of(b)
            details = [
                (_words(each, pair), self._differences.html(*_bare(old[each], new[each])))
                for each in pair.differs
                if each not in _IN_LINE
            ]
        cells = self._cell(0, a, one), self._cell(1, b, other)
        return Row(*cells, pair, _words(pair.differs[0], pair), details, first)

    def _cell(self, side: int, event: EventView, words: SafeString) -> Cell:
        return Cell(event, words, self._numbers[side].get(event.id), self._since[side].get(event.id))


def _since(run: Run) -> dict[str, Took]:
    """Returns how long it is from the end of the event before to that of an event, by id."""
    timed(run.events)
    return {event.id: before.ended.until(event.ended) for before, event in pairwise(run.events)}


def _said(event: EventView) -> list[Piece]:
    if event.unread:
        size = filesizeformat(event.size)
        return [Piece(_("Event too large to show (%(size)s)") % {"size": size})]
    return list(say(event.description, event.data))


def _bare(old: Any, new: Any) -> tuple[Any, Any]:
    """Takes single values out of their lists: of most events, there is one text or one call."""
    alone = isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
    differing = [(a, b) for a, b in zip(old, new, strict=True) if a != b] if alone else []
    return differing[0] if len(differing) == 1 else (old, new)


def _alone(pair: Pair[EventView]) -> str:
    if pair.same:
        return ""
    return pgettext("compared", "an event only in A") if pair.left else pgettext("compared", "an event only in B")


def _words(aspect: Aspect, pair: Pair[EventView]) -> str:
    """Returns in what two events differ, in words."""
    by_user = bool(pair.left and pair.left.description.author == "user")
    words = {
        "error": pgettext("compared", "an error"),
        "author": pgettext("compared", "who acted"),
        "kind": pgettext("compared", "what happened"),
        "tools": pgettext("compared", "another tool"),
        "arguments": pgettext("compared", "an argument of a tool call"),
        "response": pgettext("compared", "a tool's response"),
        "text": pgettext("compared", "the user's message")
        if by_user
        else pgettext("compared", "the text of a message"),
        "thought": pgettext("compared", "a thought"),
        "code": pgettext("compared", "code or its result"),
        "media": pgettext("compared", "an image or a file"),
        "output": pgettext("compared", "an output"),
        "state": pgettext("compared", "a state change"),
        "actions": pgettext("compared", "an action"),
    }
    return words[aspect]
