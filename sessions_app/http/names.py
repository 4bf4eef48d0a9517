"""Names in the addresses of programs: one segment of a path, percent-encoded as usual.

A server decodes `%2F` before any code of ours sees it, and clients fold `..`; so a slash in a name is written `~2f`, a dot
`~2e`, a tilde `~7e`, and the empty name `~`. This reads whatever paths.py writes.
"""

import re
from typing import Final

_ESCAPED: Final = re.compile(r"(?:~[0-9A-Fa-f]{2})+")


class Name:
    """Django path converter for one name."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """The name; ValueError (which Django answers with 404) where what is escaped is no text."""
        return "" if value == "~" else _ESCAPED.sub(lambda m: bytes.fromhex(m[0].replace("~", "")).decode(), value)

    def to_url(self, value: str) -> str:
        """The segment, before percent-encoding."""
        if not value.strip("."):
            return "".join("~2e" for _ in value) or "~"
        return value.replace("~", "~7e").replace("/", "~2f")
