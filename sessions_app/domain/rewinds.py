"""Finds the events that rewinds took back (pure)."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from .content import Raw, object_of

Number = TypeVar("Number", bound=int)  # a Seq, or an index in a list

# --- Rewinds and summaries --------------------------------------------------------------------------------------------


def taken_back(rewinds: Iterable[tuple[Number, Number | None]]) -> list[tuple[Number, Number]]:
    """Returns the ranges that rewinds took back, the newest first: [(313, 317)] for an event 317 that rewinds to 313.

    Each rewind is a pair: its own number, and that of the first event of the invocation that it takes back. If there is
    no such event, the second is None, and the range has only the rewind itself. A rewind that another one took back has
    no effect.
    """
    found: list[tuple[Number, Number]] = []
    for place, since in sorted(rewinds, key=lambda each: each[0], reverse=True):
        if not found or place < found[-1][0]:
            found.append((since if since is not None and since < place else place, place))
    return found


def rewinds_in(events: Sequence[Raw]) -> dict[int, int]:
    """Returns, by an event's index, the index of the rewind that took it back: {3: 5, 4: 5, 5: 5}."""
    first: dict[str, int] = {}
    for place, event in enumerate(events):
        if name := event.get("invocation_id"):
            first.setdefault(str(name), place)
    wanted = [
        (place, object_of(event, "actions").get("rewind_before_invocation_id")) for place, event in enumerate(events)
    ]
    stretches = taken_back((place, first.get(str(name))) for place, name in wanted if name)
    return {each: last for start, last in stretches for each in range(start, last + 1)}
