"""Names in URLs: any text as one path segment, so that ids with slashes, dots and percent signs have links too.

A letter, a digit and `-_.@+=` stand for themselves; any other byte is `~` with two hex digits, and so are the dots of a
name made of dots; the empty text is `~`. Percent escapes would not do: servers and browsers decode or normalise `%2F`
and `..` on the way.
"""

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w.@+=-]")
_ESCAPED: Final = re.compile(r"(?:~[0-9a-f]{2})+")


class Segment:
    """Django path converter for one name."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """The name; ValueError (which Django answers with 404) where the segment stands for none."""
        if value == "~":
            return ""
        name = _ESCAPED.sub(lambda m: bytes.fromhex(m[0].replace("~", "")).decode(), value)
        if self.to_url(name) != value:
            raise ValueError(value)
        return name

    def to_url(self, value: str) -> str:
        """The segment."""
        dots = not value.strip(".")
        return "".join(c if _PLAIN.match(c) and not dots else _escape(c) for c in value) or "~"


def _escape(character: str) -> str:
    return "".join(f"~{byte:02x}" for byte in character.encode("utf-8", "replace"))
