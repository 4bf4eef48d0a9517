"""Lists the edits of one source, as far as its events are read."""

from typing import Final

from ..access.actor import Actor
from ..domain.edit_note import is_edit
from ..domain.positions import Position, position_of, seq_of
from ..reads.event_views import EventView, edit_view
from ..reads.weights import LARGE
from ..sources import database
from . import indexing, keeping
from .keeping import EditPosition
from .located import events_at

PAGE: Final = 50  # edits asked for at once, at least
_LAST: Final = Position(2**63 - 1)
# Orders the edits of all sources: moment, source, position.
EditAt = tuple[int, str, Position]


def edits_of(
    source: str, below: EditAt | None, limit: int, actor: Actor
) -> tuple[list[tuple[EditAt, EventView]], EditAt | None]:
    """Returns the edits of one source, as far as it is read; and where they end, if they are too large to go on."""
    standing, left = indexing.standing(source), LARGE
    sees = None if actor.sees_all else actor.may_see
    at = below and EditPosition(
        below[0], below[2] if source == below[1] else Position(0) if source > below[1] else _LAST
    )
    edits: list[tuple[EditAt, EventView]] = []
    while standing and len(edits) < limit:
        positions = keeping.edits(standing.projection, at, max(limit, PAGE), sees)
        by_position = {each.position: each for each in positions}
        gone = {*by_position}
        with database.using(source):
            for row in events_at(source, [seq_of(position) for position in by_position]):
                at = by_position[position_of(row.at)]  # type: ignore[attr-defined]
                gone.discard(at.position)
                view = edit_view(source, row, actor)
                if (view.size or is_edit(view.data)) and actor.may_see(row.app_name):
                    edits.append(((at.moment, source, at.position), view))
                left -= view.weight
                if left < 0:
                    return edits, (at.moment, source, at.position)
        if gone:
            keeping.drop_edits(standing, [by_position[position] for position in gone])
        if len(positions) < max(limit, PAGE):
            break
        at = positions[-1]
    return edits, None
