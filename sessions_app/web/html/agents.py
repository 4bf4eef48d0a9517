"""Gives each agent a colour: the same one on every page, by its name alone."""

import zlib
from typing import Final

from .tags import register

COLOURS: Final = 8  # --agent-0 to --agent-7 in tokens.css


@register.filter
def colour_of(name: str) -> int:
    """Returns the number of an agent's colour: 6 for `booking`. Two agents may share one, so it is never the only sign."""
    return zlib.crc32(name.encode("utf-8", "replace")) % COLOURS
