"""The colours of agents (pure)."""

import zlib
from collections.abc import Sequence
from typing import Final

COLOURS: Final = 8  # --agent-0 to --agent-7 in tokens.css
_LONGEST: Final = 200  # characters of a name that count


def key_of(name: str) -> int:
    """Returns the number that stands for an agent's name."""
    return zlib.crc32(name[:_LONGEST].encode("utf-8", "replace"))


def colour_of(name: str, agents: Sequence[int] = ()) -> int:
    """Returns the number of an agent's colour: 6 for `booking`, in most sessions.

    `agents` are the keys of the agents of its session, in the order in which they appeared: the first eight have
    different colours, which they keep when more appear. Later ones share them, so a colour is never the only sign.
    """
    wanted = key_of(name)
    colours: dict[int, int] = {}
    for key in (*agents, wanted):
        if key not in colours:
            after = [(key + step) % COLOURS for step in range(COLOURS)]
            colours[key] = next((each for each in after if each not in colours.values()), after[0])
        if key == wanted:
            break
    return colours[wanted]
