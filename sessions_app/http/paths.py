"""Puts names into URLs: any text as one path segment, so that ids with slashes, dots and percent signs have links, too.

Letters, digits and `-_.@+=` are kept. Any other byte is written as `~` and two hex digits, and so are the dots of a
name made of dots. The empty text is `~`. Percent escapes aren't enough, because servers and browsers decode or
normalise `%2F` and `..` on the way. Scripts make addresses with this file alone, so it imports nothing of adkweb's.
"""

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w.@+=-]")
_ESCAPED: Final = re.compile(r"(?:~[0-9a-f]{2})+")


class Segment:
    """A Django path converter for a name."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """Returns the name of a segment.

        Raises ValueError, for which Django answers 404, if no name has this segment.
        """
        if value == "~":
            return ""
        name = _ESCAPED.sub(lambda m: bytes.fromhex(m[0].replace("~", "")).decode(), value)
        if segment_of(name) != value:
            raise ValueError(value)
        return name

    def to_url(self, value: str) -> str:
        """Returns the segment of a name."""
        return segment_of(value)


def segment_of(name: str) -> str:
    """Returns the segment of a name, as it is."""
    dots = not name.strip(".")
    return "".join(c if _PLAIN.match(c) and not dots else _escape(c) for c in name) or "~"


def _escape(character: str) -> str:
    return "".join(f"~{byte:02x}" for byte in character.encode("utf-8", "replace"))
