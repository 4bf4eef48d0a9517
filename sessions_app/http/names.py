"""Puts names into the addresses of programs: each is one segment of a path, percent-encoded as usual.

A server decodes `%2F` before any code of ours sees it, and clients resolve `..`. So a slash in a name is written `~2f`,
a tilde `~7e`, each dot of a name made of dots `~2e`, and the empty name `~`. Whatever paths.py writes can be read here,
too.
"""

import re
from typing import Final

AGENT_HEADER: Final = "X-Adkweb-Agent"  # `1` from a program that is an agent, as HttpSessionService is
UNSEEN: Final = (
    "urn:adkweb:unseen"  # the type of a problem: the app does not exist for the token, whether it exists or not
)
_ESCAPED: Final = re.compile(r"(?:~[0-9A-Fa-f]{2})+")


class Name:
    """A Django path converter for a name."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """Returns the name of a segment. Raises ValueError, for which Django answers 404, if its bytes are not text."""
        return "" if value == "~" else _ESCAPED.sub(lambda m: bytes.fromhex(m[0].replace("~", "")).decode(), value)

    def to_url(self, value: str) -> str:
        """Returns the segment of a name, before percent-encoding."""
        if not value.strip("."):
            return "".join("~2e" for _ in value) or "~"
        return value.replace("~", "~7e").replace("/", "~2f")
