"""Follows the writes of one key back to one that settles its value, where deltas may have been merged."""

from typing import Final

from ..access.actor import Actor
from ..domain.positions import Position
from ..domain.session_ref import SessionRef
from ..domain.state import UNKNOWN, scope_of
from . import beginnings, merging
from .index import writes_of
from .written import CHUNK, written_at

PAGE: Final = 50  # writes of a key
_CHAIN: Final = 1_000  # writes of one key that are folded; what is older than these is UNKNOWN


def chain_of(
    ref: SessionRef, name: str, position: Position, down_to: Position = beginnings.FOREVER, *, actor: Actor
) -> list[merging.Write]:
    """Returns the writes of a full key, the oldest first, from one that settles its value up to `position`.

    That first write stands at `down_to` or before. If none settles the value, the chain begins with the first write of
    all.
    """
    scope, begun = scope_of(name)[0], Position(0)
    chain: list[merging.Write] = []
    below, most = Position(position + 1), PAGE
    while len(chain) < _CHAIN:
        positions = writes_of(ref, name, below, most)
        written = {
            at: own for at, each in written_at(ref.source, positions, actor).items() if (own := each.within(ref, scope))
        }
        if scope == "session" and len(written) < len(positions):
            begun = begun or beginnings.begun(ref)
        for at in positions:
            each = written.get(at)
            if each is None and at < begun:  # by another session that had the same id
                return chain[::-1]
            known = each is not None and (
                scope == "session" or not each.imported
            )  # nobody knows when an imported one was made
            chain.append(each.write(at, name) if each and known else merging.Write(at, UNKNOWN, True))
            if at <= down_to and chain[-1].settles:
                return chain[::-1]
        if len(positions) < most:
            return chain[::-1]
        below, most = positions[-1], CHUNK
    return [merging.Write(Position(0), UNKNOWN, True), *chain[::-1]]
