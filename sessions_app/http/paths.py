"""Puts names into URLs: any text as one path segment, so that ids with slashes, dots and percent signs have links, too.

Letters, digits and `-_.@+=` stand for themselves. Any other byte is written as `~` and two hex digits, and so are the
dots of a name made of dots. The empty text is `~`. Percent escapes would not do, because servers and browsers decode or
normalise `%2F` and `..` on the way.
"""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from django.urls import ResolverMatch, resolve

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
        if self.to_url(name) != value:
            raise ValueError(value)
        return name

    def to_url(self, value: str) -> str:
        """Returns the segment of a name."""
        dots = not value.strip(".")
        return "".join(c if _PLAIN.match(c) and not dots else _escape(c) for c in value) or "~"


def _escape(character: str) -> str:
    return "".join(f"~{byte:02x}" for byte in character.encode("utf-8", "replace"))


def page_of(link: str) -> ResolverMatch:
    """Returns the page that a link leads to, with the names in it. Raises Http404, and ValueError if it is no link.

    Browsers and Django write letters such as `é` as percent escapes."""
    return resolve(unquote(urlsplit(link).path))
