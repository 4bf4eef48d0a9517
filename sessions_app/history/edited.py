"""Lists the edits of one source, as far as its events are read."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from ..access.actor import Actor
from ..domain.edit_note import is_edit
from ..domain.positions import Position, position_of, seq_of
from ..reads.event_views import EventView, edit_view
from ..reads.weights import LARGE
from ..sources import database
from . import indexing, kept_edits
from .keeping import LAST_MOMENT, EditPosition, Standing
from .located import events_at

PAGE: Final = 50  # edits asked for at once, at least
_LAST: Final = Position(2**63 - 1)
# Orders the edits of all sources: moment, source, position.
EditAt = tuple[int, str, Position]
LAST: Final[EditAt] = (LAST_MOMENT, "-", Position(0))  # beyond all edits


def position_below(below: EditAt | None, source: str) -> EditPosition | None:
    """Returns the position in one source below which an edit is that is below `below` among those of all."""
    return below and EditPosition(
        below[0], below[2] if source == below[1] else Position(0) if source > below[1] else _LAST
    )


def edits_of(
    source: str, below: EditAt | None, limit: int, actor: Actor
) -> tuple[list[tuple[EditAt, EventView]], EditAt | None]:
    """Returns the edits of one source, as far as it is read; and where they end, if they are too large to go on."""
    standing, left = indexing.standing(source), LARGE
    sees = None if actor.sees_all_of(source) else partial(actor.may_see, source)
    at = position_below(below, source)
    edits: list[tuple[EditAt, EventView]] = []
    while standing and len(edits) < limit:
        positions = kept_edits.edits(standing.projection, at, max(limit, PAGE), sees)
        for edit_at, view in views_at(source, standing, positions, actor):
            if (view.unread or is_edit(view.data)) and actor.may_see(source, view.ref.app_name):
                edits.append((edit_at, view))
            left -= view.weight
            if left < 0:
                return edits, edit_at
        if len(positions) < max(limit, PAGE):
            break
        at = positions[-1]
    return edits, None


def views_at(
    source: str, standing: Standing, positions: Sequence[EditPosition], actor: Actor
) -> Iterator[tuple[EditAt, EventView]]:
    """Yields the events at some positions, as an actor sees them. At the end, forgets those that were deleted."""
    by_position = {each.position: each for each in positions}
    gone = {*by_position}
    with database.using(source):
        for row in events_at(source, [seq_of(position) for position in by_position]):
            at = by_position[position_of(row.at)]  # type: ignore[attr-defined]
            gone.discard(at.position)
            yield (at.moment, source, at.position), edit_view(source, row, actor)
    if gone:
        kept_edits.drop_edits(standing, [by_position[position] for position in gone])
