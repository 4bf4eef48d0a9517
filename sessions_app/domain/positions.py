"""Numbers everything that writes state, in order (pure)."""

from typing import Final

from .units import is_moment

# Places in the projection, where a session that is created stands between two events: `seq` times this, and the event last.
BETWEEN: Final = 2**20
MOMENTS: Final = 2**61  # from here on, places of events that have no numbers


def place_of(seq: int) -> int:
    """The place of the event with this seq; without creations between them, times are their own places, after all others."""
    return seq + MOMENTS if is_moment(seq) else seq * BETWEEN + BETWEEN - 1


def seq_of(place: int) -> int:
    """The seq that a place belongs to."""
    return place - MOMENTS if place >= MOMENTS else place // BETWEEN


def is_creation(place: int) -> bool:
    """Whether a session's initial state stands there, and no event."""
    return place != place_of(seq_of(place))
