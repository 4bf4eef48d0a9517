"""Holds the lines of `jsonl` in a page, where nothing in them runs, and reads them back.

The page shows one session to people; an import reads only this part. A digest after the lines shows whether someone, or
a program that passed the page on, changed them. It isn't a signature: it finds accidents.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

from ...domain.errors import Invalid
from ..items import MOST, Item, read_with
from .jsonl import LineFile, Lines
from .jsonl import write as write_lines

VERSION: Final = 1
ELEMENT: Final = "adkweb-export"  # the id of the element with the lines
HEAD: Final = 4096  # bytes of a page that are enough to recognise it
PAGE: Final = re.compile(rb'\s*<!doctype html>.{0,1000}?<html [^>]*data-adkweb-session="(\d{1,9})"', re.I | re.S)
_BEGIN: Final = f'<script type="application/x-adkweb-jsonl" id="{ELEMENT}">\n'.encode()
_END: Final = b"</script>\n"
_DIGEST: Final = re.compile(rb'<data id="adkweb-digest" value="sha256-([0-9a-f]{64})"')
# “<” could end the element or start a comment, and some programs treat U+2028 and U+2029 as ends of lines. All of them
# occur only in strings, where JSON has another way to write them.
_ESCAPES: Final = ((b"<", b"\\u003c"), ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def element(items: Iterable[Item], left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """Writes the element with the lines of an export without secrets, and their digest after it."""
    digest = hashlib.sha256()
    yield _BEGIN
    for line in write_lines(items, secrets=False, left_out=left_out):
        escaped = inert(line)
        digest.update(escaped)
        yield escaped
    yield _END
    yield f'<data id="adkweb-digest" value="sha256-{digest.hexdigest()}" hidden></data>\n'.encode()


def inert(json: bytes) -> bytes:
    """Returns a JSON text in a form that can be in an element of a page."""
    for sign, other in _ESCAPES:
        json = json.replace(sign, other)
    return json


class _Element:
    """The lines in a page, as if they were a file of their own."""

    def __init__(self, file: LineFile) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self._ended = False

    def readline(self, limit: int = -1, /) -> bytes:
        """Returns the next line; "" at the element's end."""
        line = b"" if self._ended else self._file.readline(limit)
        if line == _END or not line:
            self._ended = True
            return b""
        self._digest.update(line)
        return line

    def check(self) -> None:
        """Raises Invalid unless the digest after the element is that of the lines."""
        told = _DIGEST.match(self._file.readline(MOST))
        if told is None:
            raise Invalid("the file is truncated: the digest of its data is missing")
        if told[1].decode() != self._digest.hexdigest():
            raise Invalid("the data in this page was changed since adkweb wrote it")


class _Page(Lines):
    """Reads the items of a page."""

    def __init__(self, file: BinaryIO, size: int, strict: bool) -> None:
        super().__init__(file, size, strict)
        self._page = file

    def __iter__(self) -> Iterator[Item]:
        """Reads from the page's start, once."""
        self._begin()
        lines = self._file = _Element(self._page)
        yield from super().__iter__()
        lines.check()

    def _begin(self) -> None:
        """Goes to the first line in the element."""
        version = PAGE.match(self._page.read(HEAD))
        if version is None or int(version[1]) != VERSION:
            raise Invalid(f"this is not a page of version {VERSION}, which is all that this adkweb reads")
        self._page.seek(0)
        while (line := self._read_bytes()) != _BEGIN:
            if not line:
                raise Invalid("the file is truncated: it ends before the data of its session")

    def _read_bytes(self) -> bytes:
        self._line += 1
        line = self._page.readline(MOST + 1)
        self.done += len(line)
        if len(line) > MOST:
            raise Invalid(f"the line is longer than {MOST} bytes")
        return line


read = read_with(_Page)
