"""The edits of one source, by what was read of its events."""

from collections.abc import Callable, Iterator
from typing import Final

from . import changes, keeping, sources
from .event_rows import EventView, as_object, edit_view, events_at
from .events import is_edit
from .keeping import EditPlace, place_of, seq_of

PAGE: Final = 50  # places asked for at once, at least
_LAST: Final = 2**63 - 1
# Where an edit stands in the list of all: moment, source, its place.
EditAt = tuple[int, str, int]


def edits_of(
    source: str, below: EditAt | None, limit: int, sees: Callable[[str], bool] | None
) -> Iterator[tuple[EditAt, EventView]]:
    """The edits of one source as far as it is read."""
    standing, number = changes.standing(source), 0
    at = below and EditPlace(below[0], below[2] if source == below[1] else 0 if source > below[1] else _LAST)
    while standing and number < limit:
        places = keeping.edits(standing.projection, at, max(limit, PAGE), sees)
        with sources.using(source):
            rows = {place_of(row.seq): row for row in events_at(source, [seq_of(each.place) for each in places])}
        if gone := [each for each in places if each.place not in rows]:
            keeping.drop_edits(standing, gone)
        for at in places:
            row = rows.get(at.place)
            if row and is_edit(as_object(row.event_data)) and (sees is None or sees(row.app_name)):
                number += 1
                yield (at.moment, source, at.place), edit_view(source, row)
        if len(places) < max(limit, PAGE):
            return
